"""Page cache: page boundaries and totals of recent queries.

Clients that read an entire collection request page after page with the same filter. With the last key of
a page, the next page need not skip all records before it. The total is counted once. Both are valid until
the version of the collection changes; it is read in the same snapshot as the records. Positions in an
unfiltered collection are valid longer: they use `_orders`, because a record appended at the end moves no
other record. What is not valid any more is deleted when a newer version is stored.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from integration.core.json_records import read_record
from integration.mirror.query.query import Query
from integration.mirror.records.collection_versions import CACHED_TABLES

MAX_CACHED_KEYS = 5000
"""Largest number of matching keys that are cached per filter.

The keys are collected in any order before the first page. A filter without an index is then evaluated
once, for the total and for pages in any order, and on the entries of an index if one covers the filter.
If more records match, the keys are discarded. The wasted time is MAX_CACHED_KEYS / matches of the time of
a count.
"""

POSITION_INTERVAL = 5000
"""Number of records between two cached positions of an unfiltered collection."""

MAX_KEY_BYTES = 2 * 1024 * 1024
"""Bytes of the matching keys of all filters: of 38 filters with MAX_CACHED_KEYS matches."""
MAX_POSITIONS = 20_000
"""Positions of all queries, about 200 bytes each."""
SORT_COST = 0.3
"""Cost of sorting a match of an index, relative to reading a record in the order of keys."""
_MAX_ENTRIES = 200
"""Entries of each cache. The least recently stored entries are deleted."""
_MAX_POSITIONS = 5000
"""Positions of one query."""

_Value = TypeVar("_Value")
Version = tuple[str, str, int]
"""Table of versions, collection and number."""


class _Positions:
    """Positions in the result of a query.

    A position is a key and the number of records up to and including the key. For queries sorted by a column
    a position has (value, key) instead of a key.
    """

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._keys: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def find_nearest(self, count: int) -> tuple[Any, int] | None:
        """Return the last position up to `count` records, as (key, number)."""
        index = bisect_right(self._counts, count)
        return (self._keys[self._counts[index - 1]], self._counts[index - 1]) if index else None

    def add(self, count: int, key: Any) -> None:
        """Store that `count` records come up to and including `key`."""
        if count not in self._keys and len(self._counts) < _MAX_POSITIONS:
            insort(self._counts, count)
            self._keys[count] = key


class _Cache(Generic[_Value]):
    """Values by version and query, of one version of each collection.

    The `measure` of all values together is at most `limit`. A value may grow after it was stored, so all are
    measured at each `store`.
    """

    def __init__(self, measure: Callable[[_Value], int], limit: int) -> None:
        self._measure = measure
        self._limit = limit
        self._values: OrderedDict[tuple[Version, Hashable], _Value] = OrderedDict()
        self._numbers: dict[tuple[str, str], int] = {}

    def __contains__(self, key: tuple[Version, Hashable]) -> bool:
        return key in self._values

    def get(self, key: tuple[Version, Hashable]) -> _Value | None:
        return self._values.get(key)

    def store(self, key: tuple[Version, Hashable], value: _Value) -> None:
        """Store a value and delete those of other versions of its collection.

        Beyond a limit the least recently stored values are deleted.
        """
        table, collection, number = key[0]
        if self._numbers.get((table, collection)) != number:
            self._numbers[table, collection] = number
            for outdated in [one for one in self._values if one[0][:2] == (table, collection)]:
                del self._values[outdated]
        self._values[key] = value
        self._values.move_to_end(key)
        size = sum(map(self._measure, self._values.values()))
        while len(self._values) > _MAX_ENTRIES or size > self._limit:
            size -= self._measure(self._values.popitem(last=False)[1])


class PageCache:
    """Cache of totals, positions and matching keys of one mirror.db. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = _Cache[int](lambda _: 1, _MAX_ENTRIES)
        self._positions = _Cache[_Positions](len, MAX_POSITIONS)
        self._matching_keys = _Cache["str | None"](lambda keys: len(keys or ""), MAX_KEY_BYTES)

    def count_matches(self, connection: sqlite3.Connection, query: Query) -> int:
        """Return `query.count_matches(connection)`, cached."""
        version = get_version(connection, "_versions", query)
        if version is None:
            return query.count_matches(connection)
        cache_key = (version, _get_filter_key(query))
        with self._lock:
            total = self._totals.get(cache_key)
        if total is None:
            total = query.count_matches(connection)
            with self._lock:
                self._totals.store(cache_key, total)
        return total

    def _store_total(self, connection: sqlite3.Connection, query: Query, count: int) -> None:
        """Store the total if a page is not full.

        No count is necessary in this case.
        """
        version = get_version(connection, "_versions", query)
        if version is not None and count < query.limit and (count or query.page == 1):
            with self._lock:
                self._totals.store((version, _get_filter_key(query)), (query.page - 1) * query.limit + count)

    def _with_matching_keys(self, connection: sqlite3.Connection, query: Query) -> Query:
        """Add the matching keys to the query unless they exceed MAX_CACHED_KEYS."""
        version = get_version(connection, "_versions", query)
        if version is None or not query.conditions:
            return query
        cache_key = (version, _get_filter_key(replace(query, group_by=None)))
        with self._lock:
            is_cached, matching_keys = cache_key in self._matching_keys, self._matching_keys.get(cache_key)
        if not is_cached:
            if query.sort and query.make_builder(connection).has_index_for(query.conditions, query.sort):
                return query
            keys_and_count = query.fetch_keys(connection, MAX_CACHED_KEYS)
            matching_keys = None if keys_and_count is None else keys_and_count[0]
            with self._lock:
                self._matching_keys.store(cache_key, matching_keys)
                if keys_and_count is not None:
                    self._totals.store(cache_key, keys_and_count[1])
        return replace(query, matching_keys=matching_keys)

    def _fetch_groups(self, connection: sqlite3.Connection, query: Query) -> list[bytes]:
        texts, total = query.fetch_groups(connection)
        version = get_version(connection, "_versions", query)
        if version is not None and total is not None:
            with self._lock:
                self._totals.store((version, _get_filter_key(query)), total)
        return texts

    def fetch_texts(self, connection: sqlite3.Connection, query: Query) -> list[bytes]:
        """Return `query.fetch_texts(connection)`, using cached positions."""
        query = self._with_matching_keys(connection, query)
        if query.group_by is not None:
            return self._fetch_groups(connection, query)
        positions = self._get_positions(connection, query)
        positioned_query = self._start_at_position(connection, query, positions)
        texts = positioned_query.fetch_texts(connection)
        if positioned_query.column_start is not None and len(texts) < query.limit:
            # In descending order nulls come last, and the condition on the column excludes them.
            texts = query.fetch_texts(connection)
        self._store_total(connection, query, len(texts))
        if positions is not None and len(texts) == query.limit:
            key = read_record(texts[-1].decode()).values.get(query.resource.key or "")
            if query.is_in_key_order:
                self._store_page_end(positions, query, key)
            elif (value := query.fetch_sort_value(connection, key)) is not None:
                self._store_page_end(positions, query, (value, key))
        return texts

    def fetch_joined(self, connection: sqlite3.Connection, query: Query) -> bytes:
        """Return the records of `fetch_texts`, joined by commas."""
        if not query.is_in_key_order:
            return b",".join(self.fetch_texts(connection, query))
        query = self._with_matching_keys(connection, query)
        positions = self._get_positions(connection, query)
        body, count, key = self._start_at_position(connection, query, positions).fetch_joined(connection)
        self._store_total(connection, query, count)
        if positions is not None and count == query.limit:
            self._store_page_end(positions, query, key)
        return body

    def _start_at_position(
        self, connection: sqlite3.Connection, query: Query, positions: _Positions | None
    ) -> Query:
        """Return the query, starting at the nearest cached position."""
        if positions is None:
            return query
        skipped = (query.page - 1) * query.limit
        if not query.is_in_key_order:
            with self._lock:
                nearest = positions.find_nearest(skipped)
            return query if nearest is None else replace(query, column_start=(*nearest[0], nearest[1]))
        self._store_positions(connection, query, positions, skipped)
        with self._lock:
            position = positions.find_nearest(skipped)
        return replace(query, key_start=position, is_dense=self._is_dense(connection, query, position))

    def _is_dense(
        self, connection: sqlite3.Connection, query: Query, position: tuple[Any, int] | None
    ) -> bool:
        """Return whether the page is found faster by reading the collection than by sorting all matches.

        Matches are assumed to be spread evenly, so not for a range of time without a position. False for the
        last page: after its last match the keys would be read to the end of the collection.
        """
        if not query.conditions or query.matching_keys is not None:
            return False
        if position is None and query.make_builder(connection).has_range_index(query.conditions):
            return False
        match_count, end = self.count_matches(connection, query), query.page * query.limit
        if end > match_count:
            return False
        read_matches = end - (position[1] if position is not None else 0)
        record_count = self.count_matches(connection, Query(query.resource))
        return read_matches * record_count < match_count * match_count * SORT_COST

    def _store_page_end(self, positions: _Positions, query: Query, key: object) -> None:
        with self._lock:
            positions.add(query.page * query.limit, key)

    def _get_positions(self, connection: sqlite3.Connection, query: Query) -> _Positions | None:
        if not query.is_in_key_order and not query.is_in_column_order:
            return None
        descending = query.descending and query.sort is not None
        column = None if query.is_in_key_order else query.sort
        is_unfiltered = (
            not query.conditions and not query.include_missing and not descending and column is None
        )
        version = get_version(connection, "_orders" if is_unfiltered else "_versions", query)
        if version is None:
            return None
        cache_key = (version, (is_unfiltered, _get_filter_key(query), column, descending))
        with self._lock:
            positions = self._positions.get(cache_key)
            if positions is None:
                positions = _Positions()
            self._positions.store(cache_key, positions)
        return positions

    def _store_positions(
        self, connection: sqlite3.Connection, query: Query, positions: _Positions, skipped: int
    ) -> None:
        """Cache positions before a deep page of an unfiltered collection.

        The index is then read once instead of once per page. With a filter this would cost as much as the
        page.
        """
        if query.conditions or query.include_missing:
            return
        while True:
            with self._lock:
                position = positions.find_nearest(skipped)
            count = (position[1] if position else 0) + POSITION_INTERVAL
            if count > skipped:
                return
            key = query.find_key_after(connection, position, POSITION_INTERVAL)
            if key is None:
                return
            with self._lock:
                positions.add(count, key)
                if positions.find_nearest(count) != (key, count):
                    return


def get_version(connection: sqlite3.Connection, table: str, query: Query) -> Version | None:
    """Return the version of a collection in this snapshot, or None."""
    if query.resource.table not in CACHED_TABLES:
        return None
    row = connection.execute(f"SELECT number FROM {table} WHERE name = ?", (query.resource.table,)).fetchone()
    return None if row is None else (table, query.resource.table, row[0])


def _get_filter_key(query: Query) -> str:
    """Return a key of all properties that decide which records match."""
    return repr((query.conditions, query.group_by, query.include_missing, query.hidden_fields and 1))
