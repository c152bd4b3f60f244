"""A file while it comes from the platform: any number may read along, or wait for its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from integration.core.errors import PlatformBroken

CHUNK_BYTES = 64 * 1024


class SharedDownload:
    """One download. The thread that fetches calls `mark_started`, `mark_received` and `mark_ended`; readers
    the rest.

    `size` is how many bytes there will be, None while nothing has begun and where nobody tells.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.size: int | None = None
        self._changed = threading.Condition()
        self._part_path: Path | None = None
        self._received = 0
        self._is_over = False
        self._error: BaseException | None = None

    # --- who fetches -------------------------------------------------------------------------------

    def mark_started(self, part_path: Path, size: int | None) -> None:
        """The first bytes stand in `part_path` and are those of such a file."""
        with self._changed:
            self._part_path, self.size = part_path, size
            self._changed.notify_all()

    def mark_received(self, received: int) -> None:
        """So many bytes can be read."""
        with self._changed:
            self._received = received
            self._changed.notify_all()

    def mark_ended(self, error: BaseException | None) -> None:
        """The file stands under its final name, or never will for `error`."""
        with self._changed:
            self._is_over, self._error = True, error
            self._changed.notify_all()

    # --- who reads ---------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return self._is_over

    def wait_for_start(self) -> None:
        """Until `size` is known if it ever is. Raises what the download failed with before that."""
        with self._changed:
            self._changed.wait_for(lambda: self._part_path is not None or self._is_over)
            if self._part_path is None and self._error is not None:
                raise self._error

    def wait(self) -> Path:
        """The file, complete. Raises what the download failed with."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over)
            if self._error is not None:
                raise self._error
        return self.target

    def read_chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """Bytes from `start` up to `stop` as they come. Raises what the download failed with, after all
        that came before."""
        with self._open_file() as file:
            file.seek(start)
            while start < stop:
                for chunk in self._read_available(file, start, stop):
                    start += len(chunk)
                    yield chunk

    def _read_available(self, file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
        """What is there from `start` on, once there is something."""
        with self._changed:
            self._changed.wait_for(lambda: self._received > start or self._is_over)
            available = min(self._received, stop)
            if available <= start:
                raise self._error or PlatformBroken("the file is shorter than was told")
        while start < available:
            chunk = file.read(min(CHUNK_BYTES, available - start))
            if not chunk:
                raise PlatformBroken("the file was cut while it was read")
            start += len(chunk)
            yield chunk

    def _open_file(self) -> BinaryIO:
        """The unfinished file, or the finished one where it was renamed meanwhile."""
        try:
            return _open_no_follow(self._part_path or self.target)
        except FileNotFoundError:
            return _open_no_follow(self.wait())


def _open_no_follow(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
