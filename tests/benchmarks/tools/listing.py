"""Pages of generated records, as the platform serves a collection to a full sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

KEPT = 4
"""Cached pages of each listing."""


@dataclass(frozen=True)
class Listing:
    """Records 1 to `count` in the order of their ids and times.

    `record(number)`: its JSON. `first_at(moment)`: number of the first record at or after a Unix time.
    """

    date: str
    count: int
    record: Callable[[int], bytes]
    first_at: Callable[[float], int]
    ready: dict[tuple[range, int], bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def select(self, args: dict[str, str]) -> tuple[range, int]:
        """Return the record numbers of a page, and how many records match."""
        low, high = 1, self.count
        for entry in orjson.loads(args.get("filter") or "[]"):
            low, high = self._narrow(low, high, entry)
        total = max(0, high - low + 1)
        limit, page = int(args.get("limit", 25)), int(args.get("page", 1))
        skip = (page - 1) * limit
        if args.get("dir") == "DESC":
            return range(high - skip, max(low, high - skip - limit + 1) - 1, -1), total
        return range(low + skip, min(high, low + skip + limit - 1) + 1), total

    def page(self, numbers: range, total: int) -> bytes:
        """Return a page, which may have been made in advance."""
        with self.lock:
            if (numbers, total) not in self.ready:
                records = b",".join(map(self.record, numbers))
                self.ready[numbers, total] = b'{"data":[%b],"total":%d,"links":{}}' % (records, total)
                if len(self.ready) > KEPT:
                    del self.ready[next(iter(self.ready))]
            return self.ready[numbers, total]

    def make_next(self, numbers: range, total: int) -> None:
        """Make the page after this one, in descending order."""
        left, size = total - len(numbers), len(numbers)
        if left > 0 and size > 1 and numbers.step < 0:
            last = numbers[-1]
            self.page(range(last - 1, max(1, last - size) - 1, -1), left)

    def _narrow(self, low: int, high: int, entry: dict[str, Any]) -> tuple[int, int]:
        name, operator, value = entry["property"], entry["operator"], entry["value"]
        if value is None or operator == "in":
            return 1, 0
        if name == self.date:
            moment = datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
            first = self.first_at(moment + (operator in ("gt", "lte")))
            return (max(low, first), high) if operator in ("gt", "gte") else (low, min(high, first - 1))
        if name != "id":
            return 1, 0
        return (max(low, value + 1), high) if operator == "gt" else (low, min(high, value - 1))
