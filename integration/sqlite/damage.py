"""Damage of a database file: confirm it, and put the file aside.

SQLite reports an invalid page when a statement needs it. The page can be one of another attached database, or
one in a cache, so a check of the file confirms the report. A mark beside the file then makes the next start
put it aside as `NAME.damaged-TIME`.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from integration.core import clock
from integration.core.errors import StorageBroken, StorageDamaged, StorageError
from integration.sqlite.errors import is_damage
from integration.sqlite.readers import open_readonly

log = logging.getLogger(__name__)
T = TypeVar("T")

CHECKS = ("quick_check(1)", "integrity_check(1)")
"""Pragmas that check a file. The first is faster; the second also compares indexes with their tables."""

CHECK_INTERVAL_SECONDS = 60.0
"""Seconds between two checks of a file in which the first found nothing."""

REBUILD_INTERVAL_SECONDS = 600.0
"""Minimum seconds between two rebuilds: memory or a disk that damages every file must not fill the disk."""

_PAGE_ERROR = re.compile(r"error code=(\d+)")
"""Code in a finding about a page that could not be read."""

_SIDE_FILES = ("-wal", "-shm")

DamageHandler = Callable[[str], None]
"""Function that is called with the reason of a confirmed damage."""


def find_damage(
    path: Path, checks: Sequence[str] = CHECKS, should_stop: Callable[[], bool] | None = None
) -> str | None:
    """Check the content of a database file.

    Returns the first finding, None without one. Raises StorageBroken if the disk cannot read the file, and
    other StorageErrors, also after `should_stop()` has returned True.
    """
    try:
        with open_readonly(path) as connection:
            if should_stop is not None:
                connection.set_progress_handler(should_stop, 10_000)
            for check in checks:
                finding = str(connection.execute(f"PRAGMA {check}").fetchone()[0])
                code = _PAGE_ERROR.search(finding)
                if code is not None and int(code[1]) & 0xFF == sqlite3.SQLITE_IOERR:
                    raise StorageBroken(f"{path.name}: the disk cannot read the file ({finding.strip()}).")
                if finding != "ok":
                    return " ".join(finding.split())
    except StorageDamaged as error:
        return str(error.__cause__)
    return None


class DamageWatch:
    """Checks a database file in the background after reports of damage.

    `on_damaged(reason)` is called once, when a check has confirmed the damage. `on_broken(error)` is called
    if the disk cannot read the file, or if the writer reports damage of an intact file: its cache is wrong.
    Neither is called while `find_replaced_files()` returns files, because new connections read wrong pages.
    """

    def __init__(
        self,
        path: Path,
        on_damaged: Callable[[str], None] | None,
        on_broken: Callable[[BaseException], None],
        find_replaced_files: Callable[[], list[Path]],
    ) -> None:
        self._path = path
        self._on_damaged = on_damaged
        self._on_broken = on_broken
        self._find_replaced_files = find_replaced_files
        self._lock = threading.Lock()
        self._is_checking = False
        self._next_check_at = 0.0
        self.reason: str | None = None
        """Confirmed damage, None without one."""

    def inspect(self, error: BaseException, *, is_writer: bool = False) -> None:
        """Start a check if `error` reports damage. Does not block."""
        if not is_damage(error):
            return
        with self._lock:
            is_due = is_writer or clock.monotonic() >= self._next_check_at
            if self.reason is not None or self._is_checking or not is_due:
                return
            self._is_checking = True
        log.error("%s: %s; checking the file", self._path.name, error)
        threading.Thread(
            target=self._check, args=(error, is_writer), name=f"check {self._path.name}", daemon=True
        ).start()

    def check(self, should_stop: Callable[[], bool]) -> None:
        """Check the pages of the file now, without a report. Raises StorageError."""
        if self.reason is not None:
            return
        finding = find_damage(self._path, CHECKS[:1], should_stop)
        if finding is not None:
            self._confirm(finding)

    def _confirm(self, reason: str) -> None:
        with self._lock:
            if self.reason is not None or self._find_replaced_files():
                return
            self.reason = reason
        log.critical("%s is damaged: %s", self._path.name, reason)
        if self._on_damaged is not None:
            self._on_damaged(reason)

    def _check(self, error: BaseException, is_writer: bool) -> None:
        try:
            finding = find_damage(self._path)
            if finding is not None:
                self._confirm(f"{error}: {finding}")
            elif is_writer:
                self._report_broken(error)
            else:
                log.warning("%s: the check found no damage", self._path.name)
        except StorageBroken as failure:
            self._report_broken(failure)
        except (StorageError, OSError) as failure:
            log.error("%s could not be checked: %s", self._path.name, failure)
        finally:
            with self._lock:
                self._is_checking = False
                self._next_check_at = clock.monotonic() + CHECK_INTERVAL_SECONDS

    def _report_broken(self, error: BaseException) -> None:
        if not self._find_replaced_files():
            self._on_broken(error)


def open_or_replace(
    path: Path,
    open_database: Callable[[DamageHandler], T],
    on_damaged: DamageHandler | None = None,
    build_replacement: Callable[[Path], Path] | None = None,
) -> T:
    """Open a database and replace a damaged file first.

    The damaged file is put aside. `open_database(on_damaged)` opens the file, or creates it if it is
    missing; damage that is found later is marked for the next start, before `on_damaged(reason)` is called.
    `build_replacement(path)` returns a complete file with the content that can be read, at
    `get_replacement_path(path)`. Raises the errors of both functions.
    """
    handle_damage = mark_and_report(path, on_damaged)
    _finish_replacement(path)
    mark = _mark_path(path)
    if mark.exists():
        _replace(path, mark.read_text("utf-8"), build_replacement)
    try:
        return open_database(handle_damage)
    except StorageDamaged as error:
        finding = find_damage(path)
        if finding is not None:
            _replace(path, f"{error.__cause__}: {finding}", build_replacement)
    return open_database(handle_damage)


def mark_and_report(path: Path, on_damaged: DamageHandler | None) -> DamageHandler:
    """Return a handler that marks the file for the next start and then calls `on_damaged`."""

    def handle_damage(reason: str) -> None:
        mark_damaged(path, reason)
        if on_damaged is not None:
            on_damaged(reason)

    return handle_damage


def get_replacement_path(path: Path) -> Path:
    """Return the path of a complete replacement of a damaged file.

    It is there until the damaged file has been put aside.
    """
    return path.with_name(f"{path.name}.replacement")


def _replace(path: Path, reason: str, build_replacement: Callable[[Path], Path] | None) -> None:
    if build_replacement is not None and path.exists():
        build_replacement(path)
    put_aside(path, reason)
    _finish_replacement(path)


def _finish_replacement(path: Path) -> None:
    """Rename the replacement if the damaged file was put aside.

    Otherwise delete the replacement.
    """
    replacement = get_replacement_path(path)
    try:
        if path.exists():
            replacement.unlink(missing_ok=True)  # Incomplete: the damaged file may have been written since.
        elif replacement.exists():
            # A kill may have left the -wal of the damaged file, which SQLite would apply to the new one.
            for suffix in _SIDE_FILES:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            replacement.rename(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be replaced: {error.strerror}. Check its folder.") from error


def mark_damaged(path: Path, reason: str) -> None:
    """Make the next `open_or_replace` put the file aside. Raises OSError."""
    _mark_path(path).write_text(reason, "utf-8")


def put_aside(path: Path, reason: str) -> Path:
    """Rename a damaged file and its WAL to `NAME.damaged-TIME`.

    Returns the new path. Nothing may have the file open. Raises StorageError if the folder cannot be written.
    """
    target = path.with_name(f"{path.name}.damaged-{clock.now():%Y%m%d-%H%M%S}")
    try:
        # The mark goes first: a kill before the renames only repeats the discovery, while a mark that stays
        # would put the new file aside.
        _mark_path(path).unlink(missing_ok=True)
        if path.exists():
            path.rename(target)
        for suffix in _SIDE_FILES:
            side_file = path.with_name(path.name + suffix)
            if side_file.exists():
                side_file.rename(target.with_name(target.name + suffix))
    except OSError as error:
        raise StorageError(
            f"{path} is damaged and cannot be renamed: {error.strerror}. Give this user access to its folder."
        ) from error
    log.critical("%s was damaged (%s). It is kept as %s", path.name, reason, target.name)
    return target


def list_put_aside(folder: Path) -> list[Path]:
    """List the damaged databases in `folder` that were put aside, oldest first."""
    files = (path for path in folder.glob("*.db.damaged-*") if not path.name.endswith(_SIDE_FILES))
    return sorted(files, key=lambda path: path.name[-len("YYYYMMDD-HHMMSS") :])


def seconds_until_rebuild(folder: Path) -> float:
    """Return the seconds until another file may be put aside."""
    newest = max((path.stat().st_ctime for path in list_put_aside(folder)), default=0.0)
    return min(max(0.0, newest + REBUILD_INTERVAL_SECONDS - clock.unix()), REBUILD_INTERVAL_SECONDS)


def find_marks(folder: Path) -> dict[str, str]:
    """Find the databases in `folder` that are marked, with the reasons."""
    return {path.name.removesuffix(".damage"): path.read_text("utf-8") for path in folder.glob("*.db.damage")}


def _mark_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.damage")
