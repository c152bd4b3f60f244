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

MAX_RECORDS = 200_000
"""Records of all remembered pages; their keys take eight bytes each."""

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

    def __init__(self, max_records: int = MAX_RECORDS) -> None:
        self._max_records = max_records
        self._records = 0
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
        with self._lock:
            _, replaced = self._pages.pop(digest, ((), 0))
            self._pages[digest] = facts, records
            self._records += records - replaced
            while self._records > self._max_records:
                _, (_, dropped) = self._pages.popitem(last=False)
                self._records -= dropped
