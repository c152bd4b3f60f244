"""Locks of a process on the files of the databases.

SQLite sets them by `fcntl`. When a process closes any handle of a file, POSIX drops all its locks on it. The
next program that closes the database then deletes the write-ahead log of the process.
"""

from __future__ import annotations

from pathlib import Path

from integration.maintenance.manifest import DATABASES

SHARED_LOCK = (1073741826, 1073741826 + 509)
"""First and last byte of the lock of each open connection: section 3 of https://www.sqlite.org/lockingv3.html."""
WAL_INDEX_LOCK = (128, 128)
"""Byte of the -shm file that each process with an open connection locks."""


def find_missing_locks(pid: int, data_dir: Path) -> list[str]:
    """Return the files without the lock that protects them from other programs."""
    held = set()
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, _, access, owner, file, first, last = line.replace("-> ", "").split()
        if (kind, access, owner) == ("POSIX", "READ", str(pid)):
            held.add((int(file.rpartition(":")[2]), first, last))
    files = [
        (data_dir / (name + suffix), lock)
        for name in DATABASES
        for suffix, lock in (("", SHARED_LOCK), ("-shm", WAL_INDEX_LOCK))
    ]
    return [
        path.name
        for path, lock in files
        if not path.exists() or (path.stat().st_ino, *map(str, lock)) not in held
    ]
