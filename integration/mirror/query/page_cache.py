"""What makes pages and totals cheap that are asked for again: what the last answer found, while it holds.

Clients that collect a collection ask for page after page with the same filter. The key that a page ended with
spares the next one from skipping all records before it, and the total needs to be counted once. Both hold
exactly as long as the collection's version does, which stands in the same snapshot as the records. Places in
the whole collection, without a filter, hold longer: a record behind all others moves none of them.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import orjson

from integration.mirror.query.query import Query
from integration.mirror.records.collection_versions import CACHED_TABLES

MAX_CACHED_KEYS = 5000
"""So many keys of records that match are looked for first, in no order, and kept: a filter that no index
serves is compared once, for the total and for every page in any order, and with the entries of an index where
one has what it compares. Where more match, this was in vain, for FEW / matches of what a count costs."""

POSITION_INTERVAL = 5000
"""Records between two places that are noted on the way to a deep page."""

_MAX_ENTRIES = 200
_MAX_POSITIONS = 5000


class _Positions:
    """Keys in order, or (value, key) of a sorted column, by how many records there are up to each."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._keys: dict[int, Any] = {}

    def find_nearest(self, count: int) -> tuple[Any, int] | None:
        """The last one known with at most `count` records up to it, and how many those are."""
        index = bisect_right(self._counts, count)
        return (self._keys[self._counts[index - 1]], self._counts[index - 1]) if index else None

    def add(self, count: int, key: Any) -> None:
        if count not in self._keys and len(self._counts) < _MAX_POSITIONS:
            insort(self._counts, count)
            self._keys[count] = key


class PageCache:
    """One per mirror.db and process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: OrderedDict[Any, int] = OrderedDict()
        self._positions: OrderedDict[Any, _Positions] = OrderedDict()
        self._matching_keys: OrderedDict[Any, str | None] = OrderedDict()

    def count_matches(self, connection: sqlite3.Connection, query: Query) -> int:
        """As `question.total(connection)`."""
        version = _get_version(connection, "_versions", query)
        if version is None:
            return query.count_matches(connection)
        cache_key = (version, _get_filter_key(query))
        with self._lock:
            total = self._totals.get(cache_key)
        if total is None:
            total = query.count_matches(connection)
            with self._lock:
                _store(self._totals, cache_key, total)
        return total

    def _store_total(self, connection: sqlite3.Connection, query: Query, count: int) -> None:
        """A page that is not full ends what matches: nothing is left to count."""
        version = _get_version(connection, "_versions", query)
        if version is not None and count < query.limit and (count or query.page == 1):
            with self._lock:
                _store(
                    self._totals, (version, _get_filter_key(query)), (query.page - 1) * query.limit + count
                )

    def _with_matching_keys(self, connection: sqlite3.Connection, query: Query) -> Query:
        """The question, with the keys of what matches where those are few."""
        version = _get_version(connection, "_versions", query)
        if version is None or not query.conditions:
            return query
        cache_key = (version, _get_filter_key(replace(query, group_by=None)))
        with self._lock:
            is_cached, matching_keys = cache_key in self._matching_keys, self._matching_keys.get(cache_key)
        if not is_cached:
            keys_and_count = query.fetch_keys(connection, MAX_CACHED_KEYS)
            matching_keys = None if keys_and_count is None else keys_and_count[0]
            with self._lock:
                _store(self._matching_keys, cache_key, matching_keys)
                if keys_and_count is not None:
                    _store(self._totals, cache_key, keys_and_count[1])
        return replace(query, matching_keys=matching_keys)

    def _fetch_groups(self, connection: sqlite3.Connection, query: Query) -> list[bytes]:
        texts, total = query.fetch_groups(connection)
        version = _get_version(connection, "_versions", query)
        if version is not None and total is not None:
            with self._lock:
                _store(self._totals, (version, _get_filter_key(query)), total)
        return texts

    def fetch_texts(self, connection: sqlite3.Connection, query: Query) -> list[bytes]:
        """As `question.texts(connection)`."""
        query = self._with_matching_keys(connection, query)
        if query.group_by is not None:
            return self._fetch_groups(connection, query)
        positions = self._get_positions(connection, query)
        positioned_query = self._start_at_position(connection, query, positions)
        texts = positioned_query.fetch_texts(connection)
        if positioned_query.column_start is not None and len(texts) < query.limit:
            # Nulls come last in descending order, and are not found behind a value.
            texts = query.fetch_texts(connection)
        self._store_total(connection, query, len(texts))
        if positions is not None and len(texts) == query.limit:
            key = orjson.loads(texts[-1]).get(query.resource.key)
            if query.is_in_key_order:
                self._store_page_end(positions, query, key)
            elif (value := query.fetch_sort_value(connection, key)) is not None:
                self._store_page_end(positions, query, (value, key))
        return texts

    def fetch_joined(self, connection: sqlite3.Connection, query: Query) -> bytes:
        """The records of `fetch_texts`, comma-separated."""
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
        """The question, begun at the nearest place that is known."""
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
        return replace(
            query, key_start=position, is_dense=position is not None and self._is_dense(connection, query)
        )

    def _is_dense(self, connection: sqlite3.Connection, query: Query) -> bool:
        """Whether a tenth of the collection matches. Not for the last page: behind it nothing might."""
        if not query.conditions:
            return False
        match_count = self.count_matches(connection, query)
        if query.page * query.limit > match_count:
            return False
        return match_count * 10 >= self.count_matches(connection, Query(query.resource))

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
        version = _get_version(connection, "_orders" if is_unfiltered else "_versions", query)
        if version is None:
            return None
        cache_key = (version, is_unfiltered, _get_filter_key(query), column, descending)
        with self._lock:
            positions = self._positions.get(cache_key) or _Positions()
            _store(self._positions, cache_key, positions)
        return positions

    def _store_positions(
        self, connection: sqlite3.Connection, query: Query, positions: _Positions, skipped: int
    ) -> None:
        """Note places on the way to a deep page of the whole collection: the index is read once, not for
        every such page. With a filter, what was found on the way would cost as much as the page."""
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


def _get_version(connection: sqlite3.Connection, table: str, query: Query) -> tuple[str, int] | None:
    """The collection's number in this snapshot; None where it is not counted."""
    if query.resource.table not in CACHED_TABLES:
        return None
    row = connection.execute(f"SELECT number FROM {table} WHERE name = ?", (query.resource.table,)).fetchone()
    return None if row is None else (query.resource.table, row[0])


def _get_filter_key(query: Query) -> str:
    """What decides which records match."""
    return repr((query.conditions, query.group_by, query.include_missing, query.hidden_fields and 1))


def _store(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > _MAX_ENTRIES:
        cache.popitem(last=False)
