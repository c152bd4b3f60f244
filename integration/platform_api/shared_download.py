"""Downloads whose bytes can be read while they arrive."""

from __future__ import annotations

import os
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from integration.core.errors import PlatformBroken
from integration.outbound.exchange import ResponseBody
from integration.platform_api.budget import INTERACTIVE, Priority

MAX_BYTES = 2 * 1024**3
"""Largest download in bytes."""
CHUNK_BYTES = 64 * 1024
"""Maximum bytes of one read from the disk."""


class _ArrivingFile(ABC):
    """File on disk that one thread writes.

    Readers wait for bytes that have not arrived.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._received = 0
        self._is_over = False
        self._error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self._is_over

    def mark_received(self, received: int) -> None:
        """Make the first `received` bytes readable."""
        with self._changed:
            self._received = received
            self._changed.notify_all()

    def mark_ended(self, error: BaseException | None) -> None:
        """Record that the file is complete, or that `error` ended the download."""
        with self._changed:
            self._is_over, self._error = True, error
            self._changed.notify_all()

    def wait_for_end(self) -> None:
        """Wait until the download has ended. Raises its error."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over)
            if self._error is not None:
                raise self._error

    def read_chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` up to `stop` as they arrive.

        Raises the error of the download after the bytes that arrived before it.
        """
        with self._open_file() as file:
            while start < stop:
                available = min(self._wait_for_bytes(start), stop)
                while start < available:
                    chunk = os.pread(file.fileno(), min(CHUNK_BYTES, available - start), start)
                    if not chunk:
                        raise PlatformBroken("the file was truncated while it was read")
                    start += len(chunk)
                    yield chunk

    def _wait_for_bytes(self, start: int) -> int:
        """Wait for bytes beyond `start` and return the number of bytes received."""
        with self._changed:
            self._changed.wait_for(lambda: self._received > start or self._is_over)
            if self._received <= start:
                raise self._error or PlatformBroken("the file is shorter than its announced size")
            return self._received

    @abstractmethod
    def _open_file(self) -> BinaryIO: ...


class SharedDownload(_ArrivingFile):
    """Download to `target` for any number of readers.

    The thread that downloads calls `mark_started`, `mark_received` and `mark_ended`. `size` is in bytes: None
    before the start, and where neither the record nor the platform states it.
    """

    def __init__(self, target: Path, priority: Priority) -> None:
        super().__init__()
        self.target = target
        self._priority = priority
        self.size: int | None = None
        self._part_path: Path | None = None

    def get_priority(self) -> Priority:
        """Return the highest priority of the readers."""
        return self._priority

    def join(self, priority: Priority) -> None:
        """Add a reader. Requests for a user take precedence."""
        if priority == INTERACTIVE:
            self._priority = INTERACTIVE

    def mark_started(self, part_path: Path, size: int | None) -> None:
        """Record that `part_path` has the first bytes, of the correct type."""
        with self._changed:
            self._part_path, self.size = part_path, size
            self._changed.notify_all()

    def wait_for_start(self) -> None:
        """Wait until the download has started or ended; `size` is then final.

        Raises the error of a download that did not start.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._part_path is not None or self._is_over)
            if self._part_path is None and self._error is not None:
                raise self._error

    def wait(self) -> Path:
        """Wait for the complete file and return its path.

        Raises the error of the download.
        """
        self.wait_for_end()
        return self.target

    def _open_file(self) -> BinaryIO:
        """Open the partial file, or the complete file after the rename."""
        try:
            return _open_no_follow(self._part_path or self.target)
        except FileNotFoundError:
            return _open_no_follow(self.wait())


class PassThroughDownload(_ArrivingFile):
    """Response body for one reader, buffered in a file without a name.

    A thread fetches the body, so a slow reader does not occupy a slot, and memory use is constant.
    The reader calls `close()` at the end. `size` is in bytes: announced by the platform, else counted after
    the end, so that the reader always detects a truncated body.
    """

    def __init__(self, body: ResponseBody, exchange: ExitStack, folder: Path) -> None:
        """Take ownership of `exchange` and close it after the last byte.

        The file is on the disk of `folder`. Without an announced size, waits for the complete body. Raises
        OSError, and PlatformError if a body without an announced size ends early.
        """
        super().__init__()
        self.status: int = body.status
        self.headers: Mapping[str, str] = body.headers
        self._has_reader = True
        with ExitStack() as cleanup:
            cleanup.push(exchange)
            # Not closed by `with`: the thread or the reader closes it, whichever ends later.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            threading.Thread(
                target=self._fetch, args=(body, exchange), name="pass-through download", daemon=True
            ).start()
            cleanup.pop_all()
        announced_size = None if "Content-Encoding" in body.headers else body.length
        if announced_size is None:
            try:
                self.wait_for_end()
            except BaseException:
                self.close()
                raise
        self.size: int = self._received if announced_size is None else announced_size

    def close(self) -> None:
        """Stop the download because its reader ended. Safe to call twice."""
        with self._changed:
            self._has_reader = False
            if self._is_over:
                self._file.close()

    def _fetch(self, body: ResponseBody, exchange: ExitStack) -> None:
        error: BaseException | None = None
        try:
            with exchange:
                for chunk in body.chunks(MAX_BYTES, unbuffered=True):
                    self._file.write(chunk)
                    self._file.flush()
                    self.mark_received(self._received + len(chunk))
                    if not self._has_reader:
                        break
        except BaseException as failure:  # noqa: BLE001 – raised in the thread of the reader
            error = failure
        with self._changed:
            self.mark_ended(error)
            if not self._has_reader:
                self._file.close()

    def _open_file(self) -> BinaryIO:
        # A duplicate descriptor shares the file position, but `pread` does not move it.
        return os.fdopen(os.dup(self._file.fileno()), "rb")


def _open_no_follow(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
