"""Recognise pages that the platform returned before, without parsing them.

Incremental syncs read the records of the overlap each minute, and most pages have the same bytes as a minute
before. Parsing a page of 1,000 CDRs (0.7 MB) takes up to 10 MB, and 24 times as long as its hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload

from integration.catalogue.shapes import Resource
from integration.core.json_records import JsonRecord, RecordPage, read_page
from integration.mirror.records.rows import Key
from integration.mirror.records.unchanged_rows import RowGroup, make_group
from integration.mirror.records.upsert import list_usable_keys
from integration.platform_api.client import Platform
from integration.platform_api.page_memory import PageMemory, hash_body

GROUP_SIZE = 500
"""Records of one RowGroup, which is confirmed in one transaction."""


class KnownRecords(Sequence[JsonRecord]):
    """Records of a known page, parsed only on use."""

    def __init__(self, body: bytes, groups: Sequence[RowGroup]) -> None:
        self.groups = groups
        self.keys: list[Key] = [key for group in groups for key in group.keys]
        self._body = body
        self._parsed: Sequence[JsonRecord] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> JsonRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JsonRecord]: ...
    def __getitem__(self, index: int | slice) -> JsonRecord | Sequence[JsonRecord]:
        if self._parsed is None:
            self._parsed = read_page(self._body).records
        return self._parsed[index]


def make_parser(platform: Platform, resource: Resource) -> Callable[[bytes], RecordPage]:
    """Return a parser of pages of `resource`, which recognises known pages."""
    memory: PageMemory[RowGroup] = platform.page_memory

    def parse(body: bytes) -> RecordPage:
        found = hash_body(resource.collection, body)
        groups = memory.find(found.digest) if found.total is not None else None
        if groups is not None:
            return RecordPage(KnownRecords(body, groups), found.total)
        page = read_page(body)
        if found.total is not None and found.total == page.total and page.records and not page.too_large:
            new_groups = _make_groups(resource, page.records)
            if new_groups is not None:
                memory.store(found.digest, new_groups, len(page.records))
        return page

    return parse if resource.key is not None else read_page


def list_keys(resource: Resource, records: Sequence[JsonRecord]) -> Sequence[Key | None]:
    """Return the usable key of each record; known records are not parsed."""
    return records.keys if isinstance(records, KnownRecords) else list_usable_keys(resource, records)


def join_records(pages: Iterable[Sequence[JsonRecord]]) -> Sequence[JsonRecord]:
    """Return the records of several pages in one sequence.

    A single page is returned unparsed.
    """
    filled = [page for page in pages if page]
    return filled[0] if len(filled) == 1 else [record for page in filled for record in page]


def _make_groups(resource: Resource, records: Sequence[JsonRecord]) -> list[RowGroup] | None:
    groups = []
    for offset in range(0, len(records), GROUP_SIZE):
        group = make_group(resource, records[offset : offset + GROUP_SIZE])
        if group is None:
            return None
        groups.append(group)
    return groups
