"""Read a page in smaller parts if its body stays unusable.

One malformed record spoils the response to its entire page. Smaller pages find it, so that all other records
are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import PlatformError, UnusableBody
from integration.core.json_records import JsonRecord
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.client import Platform
from integration.platform_api.paging import Condition

MAX_UNREADABLE_RECORDS = 20
"""Most unreadable records of one page.

With more of them the platform, and not a record, is the cause.
"""

MAX_CONSECUTIVE_FAILURES = 10
"""Most unusable responses in a row.

A page of 5,000 records takes seven to find its first record unreadable.
"""


@dataclass(slots=True)
class SplitPage:
    """Records of one page. `errors` names each record that cannot be read or is too large.

    `total` is that of the first response, or None. `requested_at` is the UTC text of the first request,
    `response` the first response with a usable body. `failures` counts unusable responses in a row.
    `is_object`: the body has an object in place of a list.
    """

    requested_at: str
    records: list[JsonRecord] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    total: int | None = None
    response: PlatformResponse | None = None
    failures: int = 0
    is_object: bool = False

    @property
    def count(self) -> int:
        """Return the number of records, unreadable ones included."""
        return len(self.records) + len(self.errors)


def read_page(
    platform: Platform,
    resource: Resource,
    *,
    limit: int,
    page: int = 1,
    filter: Sequence[Condition] = (),
    sort: str | None = None,
    dir: str | None = None,
    tries: int | None = None,
) -> SplitPage:
    """Read one page of a collection.

    If its body stays unusable, the page is read in parts. A part of one record with an unusable body is an
    unreadable record. Raises UnusableBody for more than MAX_UNREADABLE_RECORDS of them, after
    MAX_CONSECUTIVE_FAILURES and if no part is usable; other PlatformErrors.
    """
    result, collection = SplitPage(clock.utc_text()), resource.collection

    def request(limit: int, page: int, tries: int | None) -> None:
        responses = list[PlatformResponse]()
        found = platform.page(
            collection,
            filter=filter,
            sort=sort,
            dir=dir,
            page=page,
            limit=limit,
            tries=tries,
            on_response=responses.append,
        )
        result.records += found.records
        result.errors += [f"/{collection}: {record}" for record in found.too_large]
        result.failures = 0
        if result.response is None:
            result.total, result.is_object = found.total, found.is_object
            # Only its date is used. The body would stay in memory until the page is stored.
            result.response = replace(responses[0], body=b"")

    was_reachable = platform.unreachable_since is None
    try:
        request(limit, page, tries)
    except UnusableBody as error:
        if limit == 1 or not was_reachable or not _is_usable(platform):
            raise
        _request_split(request, collection, limit, page, result)
        if result.response is None:
            raise error
    return result


def _is_usable(platform: Platform) -> bool:
    """Return whether another request has a usable response.

    Otherwise the platform, and not a record, is the cause, and more requests would burden it.
    """
    try:
        platform.item("/me", tries=1)
    except PlatformError:
        return False
    return True


def _request_split(
    request: Callable[[int, int, int | None], None],
    collection: str,
    limit: int,
    page: int,
    result: SplitPage,
) -> None:
    """Request a page as several smaller pages, in the same order."""
    for part_limit, part_page in _split(limit, page):
        if result.total is not None and (part_page - 1) * part_limit >= result.total:
            return
        try:
            request(part_limit, part_page, 1)
        except UnusableBody as error:
            result.failures += 1
            if result.failures > MAX_CONSECUTIVE_FAILURES:
                raise
            if part_limit > 1:
                _request_split(request, collection, part_limit, part_page, result)
                continue
            previous_id = result.records[-1].values.get("id") if result.records else None
            place = "the first record" if previous_id is None else f"the record after {previous_id}"
            result.errors.append(f"/{collection}: {place} of its page is unreadable: {error}")
            if len(result.errors) > MAX_UNREADABLE_RECORDS:
                raise


def _split(limit: int, page: int) -> Iterator[tuple[int, int]]:
    """Yield (limit, page) of each smaller page of the same records.

    Their number is the smallest prime factor of `limit`, so that the parts are equal.
    """
    factor = next((number for number in range(2, int(limit**0.5) + 1) if limit % number == 0), limit)
    part_limit = limit // factor
    for number in range(factor):
        yield part_limit, (page - 1) * factor + number + 1
