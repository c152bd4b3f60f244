"""Read one page of a collection, in smaller parts if its body stays unusable.

One malformed record spoils the response to its entire page. Smaller pages find it, so that all other records
are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError, UnusableBody
from integration.core.json_records import JsonRecord
from integration.mirror.records.rows import Key
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.client import Platform

MAX_UNREADABLE_RECORDS = 20
"""Most unreadable records of one page.

With more of them the platform, and not a record, is the cause.
"""

MAX_CONSECUTIVE_FAILURES = 10
"""Most unusable responses in a row.

A page of 5,000 records takes seven to find its first record unreadable.
"""


@dataclass(slots=True)
class Window:
    """Page of records.

    `unreadable` has an error for each record that cannot be read or is too large. `total` counts the matching
    records from the first record of the page on, or in the entire collection for a numbered page. `last_key`
    is the last key read so far, or None. `requested_at` is the UTC text of the first request,
    `platform_time` the platform's clock. `since` is the start of a closed window of time, otherwise None.
    `is_object`: the response has an object in place of a list.
    """

    requested_at: str
    records: list[JsonRecord] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    total: int = 0
    last_key: Key | None = None
    platform_time: datetime | None = None
    since: datetime | None = None
    is_object: bool = False

    @property
    def count(self) -> int:
        """Number of records, unreadable ones included."""
        return len(self.records) + len(self.unreadable)


def read_page(
    platform: Platform, collection: str, *, limit: int, tries: int | None, page: int = 1, **query: Any
) -> Window:
    """Read one page of a collection; `query` is passed to `Platform.page`.

    If its body stays unusable, the page is read in parts. A part of one record with an unusable body is an
    unreadable record. Raises UnusableBody for more than MAX_UNREADABLE_RECORDS of them, after
    MAX_CONSECUTIVE_FAILURES and if no part is usable; PlatformBroken for a page without a total; other
    PlatformErrors.
    """
    reading, was_reachable = _PageReading(platform, collection, query), platform.unreachable_since is None
    try:
        reading.request(limit, page, tries)
    except UnusableBody:
        if limit == 1 or not was_reachable or not _is_usable(platform):
            raise
        reading.request_parts(limit, page)
        if not reading.has_response:
            raise
    window, total = reading.window, reading.total
    if total is None and not window.is_object:
        raise PlatformBroken(f"/{collection}: the response has no total")
    window.total = 1 if total is None else total
    return window


def _is_usable(platform: Platform) -> bool:
    """Return whether another request has a usable response.

    Otherwise the platform, and not a record, is the cause, and more requests would burden it.
    """
    try:
        platform.item("/me", tries=1)
    except PlatformError:
        return False
    return True


class _PageReading:
    """Requests of one page. `total` is that of the first usable response."""

    def __init__(self, platform: Platform, collection: str, query: dict[str, Any]) -> None:
        self._platform, self._collection, self._query = platform, collection, query
        self._failures = 0
        """Unusable responses in a row."""
        self.window = Window(clock.utc_text())
        self.total: int | None = None
        self.has_response = False

    def request(self, limit: int, page: int, tries: int | None) -> None:
        window = self.window

        def store_time(response: PlatformResponse) -> None:
            window.platform_time = window.platform_time or response.date

        found = self._platform.page(
            self._collection, page=page, limit=limit, tries=tries, on_response=store_time, **self._query
        )
        window.records += found.records
        window.unreadable += [f"/{self._collection}: {record}" for record in found.too_large]
        self._failures = 0
        if not self.has_response:
            self.has_response, self.total, window.is_object = True, found.total, found.is_object

    def request_parts(self, limit: int, page: int) -> None:
        """Request a page as several smaller pages, in the same order."""
        window = self.window
        for part_limit, part_page in _split(limit, page):
            if self.total is not None and (part_page - 1) * part_limit >= self.total:
                return
            try:
                self.request(part_limit, part_page, 1)
            except UnusableBody as error:
                self._failures += 1
                if self._failures > MAX_CONSECUTIVE_FAILURES:
                    raise
                if part_limit > 1:
                    self.request_parts(part_limit, part_page)
                    continue
                previous_id = window.records[-1].values.get("id") if window.records else None
                place = "the first record" if previous_id is None else f"the record after {previous_id}"
                window.unreadable.append(f"/{self._collection}: {place} of its page is unreadable: {error}")
                if len(window.unreadable) > MAX_UNREADABLE_RECORDS:
                    raise


def _split(limit: int, page: int) -> Iterator[tuple[int, int]]:
    """Yield (limit, page) of each smaller page of the same records.

    Their number is the smallest prime factor of `limit`, so that the parts are equal.
    """
    factor = next((number for number in range(2, int(limit**0.5) + 1) if limit % number == 0), limit)
    part_limit = limit // factor
    for number in range(factor):
        yield part_limit, (page - 1) * factor + number + 1
