"""A file while it comes from the platform: any number may read along, or wait for its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from integration.core.errors import PlatformBroken

PIECE = 64 * 1024


class Arrival:
    """One download. The thread that fetches calls `begun`, `grown` and `ended`; readers the rest.

    `size` is how many bytes there will be, None while nothing has begun and where nobody tells.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.size: int | None = None
        self._changed = threading.Condition()
        self._part: Path | None = None
        self._received = 0
        self._over = False
        self._error: BaseException | None = None

    # --- who fetches -------------------------------------------------------------------------------

    def begun(self, part: Path, size: int | None) -> None:
        """The first bytes stand in `part` and are those of such a file."""
        with self._changed:
            self._part, self.size = part, size
            self._changed.notify_all()

    def grown(self, received: int) -> None:
        """So many bytes can be read."""
        with self._changed:
            self._received = received
            self._changed.notify_all()

    def ended(self, error: BaseException | None) -> None:
        """The file stands under its final name, or never will for `error`."""
        with self._changed:
            self._over, self._error = True, error
            self._changed.notify_all()

    # --- who reads ---------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self._over

    def wait_for_begin(self) -> None:
        """Until `size` is known if it ever is. Raises what the download failed with before that."""
        with self._changed:
            self._changed.wait_for(lambda: self._part is not None or self._over)
            if self._part is None and self._error is not None:
                raise self._error

    def wait(self) -> Path:
        """The file, complete. Raises what the download failed with."""
        with self._changed:
            self._changed.wait_for(lambda: self._over)
            if self._error is not None:
                raise self._error
        return self.target

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Bytes from `start` up to `stop` as they come. Raises what the download failed with, after all
        that came before."""
        with self._open() as file:
            file.seek(start)
            while start < stop:
                for piece in self._present(file, start, stop):
                    start += len(piece)
                    yield piece

    def _present(self, file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
        """What is there from `start` on, once there is something."""
        with self._changed:
            self._changed.wait_for(lambda: self._received > start or self._over)
            there = min(self._received, stop)
            if there <= start:
                raise self._error or PlatformBroken("the file is shorter than was told")
        while start < there:
            piece = file.read(min(PIECE, there - start))
            if not piece:
                raise PlatformBroken("the file was cut while it was read")
            start += len(piece)
            yield piece

    def _open(self) -> BinaryIO:
        """The unfinished file, or the finished one where it was renamed meanwhile."""
        try:
            return _opened(self._part or self.target)
        except FileNotFoundError:
            return _opened(self.wait())


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
