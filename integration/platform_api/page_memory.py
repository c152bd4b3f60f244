"""Facts about pages, found by the bytes of their bodies."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_BYTES = 512 * 1024
"""Bytes of the facts of all stored pages: of 59 pages of 1,000 records.

The overlap that is read each minute has far fewer. Rejected: 2 MiB, which versions of pages that never occur
a second time fill within two hours.
"""
PAGE_BYTES, RECORD_BYTES = 800, 8
"""Bytes of the facts of an empty page, and of each record: its key."""

_TOTAL_PATTERN = re.compile(rb'"total"\s*:\s*([0-9]{1,18})\s*\}\s*\Z')
"""Matches `total` as the last member of a body. No value of a record ends there."""
_TAIL_BYTES = 64
"""Bytes at the end of a body that are searched for `total`."""


@dataclass(frozen=True, slots=True)
class BodyHash:
    """Hash of a body without its `total`, and that total.

    Each new record of a collection changes the total of all its pages. `total` is None, and part of the hash,
    in a body that does not end with it.
    """

    digest: bytes
    total: int | None


def hash_body(collection: str, body: bytes) -> BodyHash:
    """Return the hash of a page of `collection`, a path."""
    tail_start = max(0, len(body) - _TAIL_BYTES)
    match = _TOTAL_PATTERN.search(body, tail_start)
    end = len(body) if match is None else match.start(1)
    result = blake2b(memoryview(body)[:end], digest_size=16, person=b"page")
    result.update(b"\0" + collection.encode())
    return BodyHash(result.digest(), None if match is None else int(match[1]))


class PageMemory(Generic[T]):
    """Facts of the latest pages by digest. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._pages: OrderedDict[bytes, tuple[Sequence[T], int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, digest: bytes) -> Sequence[T] | None:
        """Return the facts of a page that was read before, or None."""
        with self._lock:
            entry = self._pages.get(digest)
            if entry is None:
                return None
            self._pages.move_to_end(digest)
            return entry[0]

    def store(self, digest: bytes, facts: Sequence[T], records: int) -> None:
        """Store the facts of a page with this number of records.

        Pages that were used least recently are dropped.
        """
        size = PAGE_BYTES + RECORD_BYTES * records
        with self._lock:
            _, replaced = self._pages.pop(digest, ((), 0))
            self._pages[digest] = facts, size
            self._bytes += size - replaced
            while self._bytes > self._max_bytes:
                _, (_, dropped) = self._pages.popitem(last=False)
                self._bytes -= dropped
