"""The lock that makes one process the only writer of a `data_dir`.

It is an flock on `data_dir/lock`. The worker inherits its descriptor from the supervisor by fork, so the
lock is held until both are gone, whatever killed them. The file says who holds it, for the message only:
what it says may be stale, the lock itself can't be.
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
    """Who holds the lock, as it says of itself: `purpose` is the command, such as `serve` or `sync`."""

    pid: int
    purpose: str
    since: str

    @property
    def is_alive(self) -> bool:
        """False only if its process is certainly gone (of a killed supervisor, the worker may still end)."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True

    def __str__(self) -> str:
        return f"`switchroom {self.purpose}` (process {self.pid}, since {self.since} UTC)"


class LockHeld(SwitchroomError):
    """Another process writes in this data_dir; `holder` is None where it could not say who it is."""

    def __init__(self, data_dir: Path, holder: Holder | None) -> None:
        holder_text = str(holder) if holder else "another process"
        super().__init__(
            f"{data_dir} is in use by {holder_text}; stop that first, or give this one another data_dir"
        )
        self.holder = holder


class Lock:
    """Held from `acquire()` until `release()`, or until every process that inherited it has ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let go, in this process: a worker that inherited the lock still holds it. Safe to call twice."""
        if self._descriptor is not None:
            # Closed, not unlocked: LOCK_UN would take it from the worker, too.
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(data_dir: Path, purpose: str) -> Lock:
    """Take the lock for the command `purpose`, at once or not at all.

    Raises LockHeld if another process has it, SwitchroomError if the file can't be opened.
    """
    path = data_dir / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SwitchroomError(f"{path}: can't be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read_holder(descriptor)
        os.close(descriptor)
        raise LockHeld(data_dir, holder) from None
    except OSError as error:
        os.close(descriptor)
        raise SwitchroomError(
            f"{path}: can't be locked: {error.strerror}; is it on a network disk?"
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
        # Between taking the lock and saying so.
        return None


def find_writer(data_dir: Path) -> str | None:
    """The process that holds the lock, in words; None for nobody. Raises SwitchroomError for no permission.

    Where there is no lock file nobody ever wrote, and none is made: as root it would keep out the user that
    `serve` runs as.
    """
    if not (data_dir / LOCK_FILE).exists():
        return None
    try:
        acquire(data_dir, "look").release()
    except LockHeld as held:
        return str(held.holder or "another process")
    return None
