"""A body on its way to somebody else, through a file without a name: the platform is done with us as soon as
it has sent all, however slowly our caller reads, and memory does not grow with it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from integration.core.errors import PlatformBroken
from integration.outbound.exchange import ResponseBody
from integration.platform_api.downloads import MAX_BYTES

CHUNK_BYTES = 64 * 1024


class PassThroughDownload:
    """The body of one answer, fetched by a thread of its own, for one reader who calls `close()` at the end.

    `size` is in bytes: told by the platform, else known once all has come, so that an early end always shows.
    """

    def __init__(self, body: ResponseBody, exchange: ExitStack, folder: Path) -> None:
        """Takes `exchange` over and closes it when all has come. The bytes lie on the disk of `folder`.

        Raises OSError; PlatformError where the length is not told and the body ends early.
        """
        self.status: int = body.status
        self.headers: Mapping[str, str] = body.headers
        self._changed = threading.Condition()
        self._received = 0
        self._is_over = False
        self._has_reader = True
        self._error: BaseException | None = None
        with ExitStack() as cleanup:
            cleanup.push(exchange)
            # Not closed by `with`: whoever is done last closes it, the thread or the reader.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            threading.Thread(
                target=self._fetch, args=(body, exchange), name="pass-through download", daemon=True
            ).start()
            cleanup.pop_all()
        announced_size = None if "Content-Encoding" in body.headers else body.length
        self.size: int = self._wait_for_end() if announced_size is None else announced_size

    def read_chunks(self) -> Iterator[bytes]:
        """The bytes as they come. Raises what the platform failed with, after all that came before."""
        offset = 0
        while (available := self._wait_for_bytes(offset)) > offset:
            while offset < available:
                chunk = os.pread(self._file.fileno(), min(CHUNK_BYTES, available - offset), offset)
                if not chunk:
                    raise PlatformBroken("what came was lost before it was read")
                offset += len(chunk)
                yield chunk

    def close(self) -> None:
        """Nobody reads on: what has not come yet is not fetched. Safe to call twice."""
        with self._changed:
            self._has_reader = False
            if self._is_over:
                self._file.close()

    def _wait_for_bytes(self, offset: int) -> int:
        """How much has come, once that is more than `offset` or all there will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._received > offset or self._is_over)
            if self._received <= offset and self._error is not None:
                raise self._error
            return self._received

    def _wait_for_end(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over)
            if self._error is None:
                return self._received
        self.close()
        raise self._error

    def _fetch(self, body: ResponseBody, exchange: ExitStack) -> None:
        error: BaseException | None = None
        try:
            with exchange:
                for chunk in body.chunks(MAX_BYTES, unbuffered=True):
                    self._append(chunk)
                    if not self._has_reader:
                        break
        except BaseException as failure:  # noqa: BLE001 – the reader's to tell: nobody else waits for this
            error = failure
        with self._changed:
            self._is_over, self._error = True, error
            if not self._has_reader:
                self._file.close()
            self._changed.notify_all()

    def _append(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._file.flush()
        with self._changed:
            self._received += len(chunk)
            self._changed.notify_all()
