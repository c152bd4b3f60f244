"""Lock that makes one process the only writer of a `data_dir`.

The lock is an flock on `data_dir/lock`. The worker inherits its descriptor from the supervisor by fork, so
the lock is held until both have ended, even if they are killed. The content of the file names the holder, for
messages only: the content can be stale, the lock cannot.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.core import clock
from integration.core.errors import SwitchroomError

LOCK_FILE = "lock"


@dataclass(frozen=True, slots=True)
class Holder:
    """Holder of the lock, as stored in the lock file.

    `purpose`: its command, such as `serve` or `sync`. `since`: UTC text.
    """

    pid: int
    purpose: str
    since: str

    @property
    def is_alive(self) -> bool:
        """False only if the process has certainly ended.

        That includes a process whose exit status its parent has not read. The worker of a killed supervisor
        can hold the lock after that.
        """
        try:
            os.kill(self.pid, 0)
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return state not in ("Z", "X")

    def __str__(self) -> str:
        return f"`switchroom {self.purpose}` (process {self.pid}, since {self.since} UTC)"


class LockHeld(SwitchroomError):
    """Another process holds the lock.

    `holder` is None if the lock file does not name it.
    """

    def __init__(self, data_dir: Path, holder: Holder | None) -> None:
        holder_text = str(holder) if holder else "another process"
        super().__init__(
            f"{data_dir} is in use by {holder_text}. Stop that process first, or set storage.data_dir to "
            "another folder."
        )
        self.holder = holder


class Lock:
    """Acquired lock of a `data_dir`.

    It is held until `release()`, and until all processes that inherited it have ended.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Release the lock in this process. Safe to call twice.

        A worker that inherited the lock still holds it.
        """
        if self._descriptor is not None:
            # Close instead of LOCK_UN, which would release the lock of the worker as well.
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(data_dir: Path, purpose: str) -> Lock:
    """Acquire the lock for the command `purpose`, without waiting.

    Raises LockHeld if another process holds the lock, SwitchroomError if the file cannot be opened or locked.
    """
    path = data_dir / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SwitchroomError(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read_holder(descriptor)
        os.close(descriptor)
        raise LockHeld(data_dir, holder) from None
    except OSError as error:
        os.close(descriptor)
        raise SwitchroomError(
            f"{path} cannot be locked: {error.strerror}. Set storage.data_dir to a folder on a local disk."
        ) from error
    own_fields = {"pid": os.getpid(), "purpose": purpose, "since": clock.utc_text()}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(own_fields).encode() + b"\n", 0)
    return Lock(descriptor)


def _read_holder(descriptor: int) -> Holder | None:
    try:
        fields: dict[str, Any] = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(int(fields["pid"]), str(fields["purpose"]), str(fields["since"]))
    except (ValueError, KeyError, TypeError):
        # The holder has acquired the lock but not written the file yet.
        return None


def find_writer(data_dir: Path, purpose: str) -> str | None:
    """Describe the process that holds the lock; None if there is none.

    The lock is acquired for a moment: a process that starts then is refused and names the command `purpose`.
    Without a lock file no process ever wrote. None is created, because a file of root would lock out the user
    that runs `serve`. Raises SwitchroomError without permission.
    """
    if not (data_dir / LOCK_FILE).exists():
        return None
    try:
        acquire(data_dir, purpose).release()
    except LockHeld as held:
        return str(held.holder or "another process")
    return None
