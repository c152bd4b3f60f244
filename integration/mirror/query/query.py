"""Convert filter, sort, page and group_by of a collection to SQL.

The facade, the lists of the dashboard and the exports use the same code. A page consists of the stored
texts of the records, which are neither parsed nor serialized.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.errors import QueryError
from integration.core.json_records import read_record, serialize_values
from integration.mirror.query import text_search
from integration.mirror.query.filter_sql import SqlBuilder
from integration.mirror.query.filters import AnyOf, Condition, Search, parse_filter, quote_value
from integration.mirror.query.functions import register
from integration.mirror.query.positions import Positions
from integration.mirror.sync_state.collection_state import count_rows

__all__ = ["MAX_LIMIT", "AnyOf", "Condition", "Query", "parse", "register"]

MAX_LIMIT = 5000
"""Maximum and default number of records per page (specification, Limits)."""

_SELECTIVE = frozenset({"user_id", "live_id", "src", "dst"})
"""Indexed fields of which each value has few records."""
_FREQUENT_VALUES = frozenset({"type", "disposition"})
"""Indexed fields of which each value has many records."""

MAX_MATCHING_KEYS = 5000
"""Largest number of matching keys that are collected before a page is read.

If more records match, the keys are discarded. The wasted time is MAX_MATCHING_KEYS / matches of the time of
a count.
"""
_SORT_COST = 0.3
"""Cost of sorting a match of an index, relative to reading a record in the order of keys."""

_FIELDS = re.compile(r"fields\[([^\[\]]{1,64})\]")
_DIGITS = re.compile(r"[0-9]{1,400}")
_MAX_OFFSET = 2**62


@dataclass(frozen=True, slots=True)
class Query:
    """A query on one collection.

    `page`: number of the page, from 1. `limit`: records per page. `include_missing`: include records that are
    no longer on the platform (the facade never does). `hidden_fields`: fields that this client must not use.
    `search`: of pages, not with `fetch_page`.

    The fastest way to the page, which `fetch_page` chooses: `start`: (id, count) for all records in the order
    of ids; `count` records come up to and including the id. `is_dense`: so many records match that reading
    the collection in the order of keys is faster than sorting all matches of an index. `matching_keys`: JSON
    array of the keys of all matching records; the conditions are not evaluated then.

    Every method raises QueryError for a property that no record has and for a value that the property cannot
    have, and sqlite3.OperationalError 'interrupted' at the time limit of the connection.
    """

    resource: Resource
    conditions: tuple[Condition | AnyOf, ...] = ()
    sort: str | None = None
    descending: bool = False
    page: int = 1
    limit: int = MAX_LIMIT
    group_by: str | None = None
    include: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    include_missing: bool = False
    hidden_fields: frozenset[str] = frozenset()
    search: Search | None = None
    start: tuple[int, int] | None = None
    is_dense: bool = False
    matching_keys: str | None = None

    @property
    def is_by_key(self) -> bool:
        """Return whether the records are in the order of their keys."""
        return self.sort is None or self.sort == self.resource.key

    @property
    def is_descending(self) -> bool:
        return self.sort is not None and self.descending

    def with_conditions(self, *conditions: Condition | AnyOf) -> Query:
        """Return the query with additional conditions."""
        return replace(self, conditions=(*self.conditions, *conditions))

    def build_where(self, builder: SqlBuilder) -> str:
        """Return the SQL condition of all matches, for use in larger statements."""
        if self.matching_keys is not None:
            return (
                f'"{self.resource.key}" IN (SELECT value FROM json_each({builder.bind(self.matching_keys)}))'
            )
        conditions = [] if self.include_missing else ["_missing_since IS NULL"]
        conditions += [builder.build_condition(condition) for condition in self.conditions]
        if self.search is not None:
            conditions.append(text_search.build_search_condition(builder, self.search, self.hidden_fields))
        return " AND ".join(conditions) or "1"

    def make_builder(self, connection: sqlite3.Connection) -> SqlBuilder:
        """Return a builder for `build_where`.

        Its `values` are the parameters of the statement.
        """
        names = {
            condition.property
            for condition in self.conditions
            if isinstance(condition, Condition) and condition.operator == "eq"
        }
        # Without statistics SQLite treats all indexes as equally selective: 0.5 s instead of 1 ms for the
        # calls of a number in one direction, of 1,000,000 CDRs.
        unindexed_fields = _FREQUENT_VALUES if names & _SELECTIVE else frozenset[str]()
        return SqlBuilder(self.resource, connection, self.hidden_fields, unindexed_fields)

    def fetch_page(
        self, connection: sqlite3.Connection, positions: Positions, *, is_joined: bool = False
    ) -> tuple[list[bytes], int]:
        """Return the texts of this page, and the number of matches; with `group_by` of groups.

        `is_joined`: the texts are joined by commas, which is faster.
        """
        query, total = self._plan(connection, positions)
        if query.group_by is not None:
            texts, group_count = query.fetch_groups(connection)
            return texts, query.count_matches(connection) if group_count is None else group_count
        return [query.fetch_joined(connection)] if is_joined else query.fetch_texts(connection), total

    def _plan(self, connection: sqlite3.Connection, positions: Positions) -> tuple[Query, int]:
        """Return the query with the fastest way to its page, and the number of matches.

        The number is 0 with `group_by`.
        """
        if not self.conditions:
            if self.group_by is not None:
                return self, 0
            total = None if self.include_missing else positions.count(connection, self.resource)
            if total is None:
                return self, self.count_matches(connection)
            skipped = (self.page - 1) * self.limit
            is_ascending = self.is_by_key and not self.is_descending
            start = positions.find(connection, self.resource, skipped) if is_ascending else None
            return replace(self, start=start), total
        builder = self.make_builder(connection)
        is_in_index_order = self.sort is not None and builder.has_index_for(self.conditions, self.sort)
        if self.resource.key is not None and not is_in_index_order:
            # One evaluation of the filter, on the narrowest index, serves the page and the total.
            keys_and_count = self.fetch_keys(connection, MAX_MATCHING_KEYS)
            if keys_and_count is not None:
                return replace(self, matching_keys=keys_and_count[0]), keys_and_count[1]
        if self.group_by is not None:
            return self, 0
        total, end = self.count_matches(connection), self.page * self.limit
        # After the last match the collection would be read to its end. The matches of a range of time are not
        # spread evenly.
        if not self.is_by_key or end > total or builder.has_range_index(self.conditions):
            return self, total
        record_count = positions.count(connection, self.resource)
        is_dense = record_count is not None and end * record_count < total * total * _SORT_COST
        return replace(self, is_dense=is_dense), total

    def fetch_keys(self, connection: sqlite3.Connection, max_count: int) -> tuple[str, int] | None:
        """Return the keys of all matches (JSON array) and their number.

        None if there are more than `max_count`. The order is undefined, so that SQLite can read the narrowest
        index that covers the conditions.
        """
        builder = self.make_builder(connection)
        keys, count = connection.execute(
            f'SELECT json_group_array(key), count(*) FROM (SELECT "{self.resource.key}" AS key'
            f' FROM "{self.resource.table}" WHERE {self.build_where(builder)}'
            f" LIMIT {builder.bind(max_count + 1)})",
            builder.values,
        ).fetchone()
        return (keys, count) if count <= max_count else None

    def find_highest_key(self, connection: sqlite3.Connection) -> Any:
        """Return the highest key of all matches, or None."""
        builder = self.make_builder(connection)
        sql = f'SELECT max("{self.resource.key}") FROM "{self.resource.table}" WHERE'
        return connection.execute(f"{sql} {self.build_where(builder)}", builder.values).fetchone()[0]

    def count_matches(self, connection: sqlite3.Connection) -> int:
        """Return how many records match; with `group_by` the number of groups."""
        table = f'"{self.resource.table}"'
        builder = self.make_builder(connection)
        if self.group_by is not None:
            group = builder.build_expression(self.group_by, "group_by")
            sql = (
                f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {self.build_where(builder)}"
                f" GROUP BY {group})"
            )
        elif self.conditions or self.search:
            sql = f"SELECT count(*) FROM {table} WHERE {self.build_where(builder)}"
        elif self.include_missing:
            sql = f"SELECT count(*) FROM {table}"
        else:
            return count_rows(connection, self.resource)
        return int(connection.execute(sql, builder.values).fetchone()[0])

    def fetch_rows(self, connection: sqlite3.Connection) -> list[sqlite3.Row]:
        """Return the rows of this page, all columns.

        With `group_by` they also have `_count`, the size of the group, and `_groups`, the number of groups.
        """
        return connection.execute(*self._build_page_sql(connection, "t.*")).fetchall()

    def fetch_texts(self, connection: sqlite3.Connection, column: str = "_doc") -> list[bytes]:
        """Return this page's records as JSON texts from `_doc` or `_item`."""
        if self.group_by is not None:
            return self.fetch_groups(connection, column)[0]
        return [row[0] for row in self._query_texts(connection, column)]

    def fetch_groups(
        self, connection: sqlite3.Connection, column: str = "_doc"
    ) -> tuple[list[bytes], int | None]:
        """Return a page's records with `group_by`, and the number of groups.

        The records have the additional integer `count`. The number is None after the last page.
        """
        rows = self._query_texts(connection, column).fetchall()
        texts = [_add_count(text, count) if text else text for text, count, _ in rows]
        return texts, rows[0][2] if rows else None

    def _query_texts(self, connection: sqlite3.Connection, column: str) -> sqlite3.Cursor:
        assert column in ("_doc", "_item")
        cursor = connection.cursor()
        # A Row object per record would cost as much as reading the record.
        cursor.row_factory = None
        # A blob avoids decoding and encoding the text.
        return cursor.execute(*self._build_page_sql(connection, f"CAST(t.{column} AS BLOB)"))

    def fetch_joined(self, connection: sqlite3.Connection) -> bytes:
        """Return this page's records joined by commas. Not for `group_by`.

        SQLite joins the records, because a Python object per record would cost a quarter more.
        """
        sql, values = self._build_page_sql(connection, "t._doc AS doc")
        row = connection.execute(f"SELECT CAST(group_concat(doc) AS BLOB) FROM ({sql})", values).fetchone()
        return row[0] or b""

    def _build_page_sql(self, connection: sqlite3.Connection, columns: str) -> tuple[str, dict[str, object]]:
        """Return the SQL of the page and its values.

        Keys are searched, sorted and skipped first, so that only the records of this page are read.
        """
        builder = self.make_builder(connection)
        table = f'"{self.resource.table}"'
        key = f'"{self.resource.key}"' if self.resource.key else "_n"
        by_key = self.is_by_key
        if by_key:
            order = f"{key} DESC" if self.is_descending else key
        else:
            direction = "DESC" if self.descending else "ASC"
            order = f"{builder.build_expression(self.sort or '', 'sort')} {direction}, {key}"
        limit = builder.bind(self.limit)
        where, source = self.build_where(builder), f"{table} AS t"
        use_range_index = (
            by_key
            and not self.is_dense
            and self.matching_keys is None
            and builder.has_range_index(self.conditions)
        )
        offset = (self.page - 1) * self.limit
        if self.is_dense:
            # Without NOT INDEXED SQLite would sort all matches of an index.
            source += " NOT INDEXED"
        if self.start is not None:
            where += f" AND {key} > {builder.bind(self.start[0])}"
            offset -= self.start[1]
        offset_parameter = builder.bind(min(offset, _MAX_OFFSET))
        if use_range_index:
            # Without the plus SQLite reads all keys from the oldest record on, to avoid sorting: 450 ms
            # instead of 2 ms for the newest month of 1,000,000 CDRs.
            order = f"+{order}"
        if self.group_by is not None:
            columns = f"{columns}, k._members AS _count, k._groups AS _groups"
            groups = self._build_groups_sql(builder, key, where)
            keys = f"SELECT _r, _members, count(*) OVER () AS _groups FROM ({groups}) AS g"
            if by_key:
                order = order.replace(key, "_r")
            else:
                keys += f" JOIN {table} ON {table}.{key} = g._r"
            keys += f" ORDER BY {order} LIMIT {limit} OFFSET {offset_parameter}"
        # SQLite would sort complete records of an index: 1 s for 150,000 matches, 20 ms for their keys.
        elif offset == 0 and by_key and not use_range_index and not builder.has_index_for(self.conditions):
            sql = f"SELECT {columns} FROM {source} WHERE {where} ORDER BY {order} LIMIT {limit}"
            return sql, builder.values
        else:
            keys = (
                f"SELECT {key} AS _r FROM {source} WHERE {where} ORDER BY {order}"
                f" LIMIT {limit} OFFSET {offset_parameter}"
            )
        # CROSS JOIN makes SQLite read the keys in their order and search each record by key.
        return (
            f"SELECT {columns} FROM ({keys}) AS k CROSS JOIN {table} AS t ON t.{key} = k._r",
            builder.values,
        )

    def _build_groups_sql(self, builder: SqlBuilder, key: str, where: str) -> str:
        """Return SQL of each group's newest key and size.

        With max() SQLite takes bare columns from the row of the maximum. Window functions would sort all rows
        twice.
        """
        group = builder.build_expression(self.group_by or "", "group_by")
        newest = key
        if self.resource.date is not None:
            # Adding 2^62 gives all ids the same length, at a third of the cost of printf.
            padded_key = f"({_MAX_OFFSET} + {key})" if builder.has_number_key else key
            if not builder.has_index(self.group_by or "", self.resource.date):
                # Without the plus SQLite groups by another index and reads every row for its date.
                group = f"+{group}"
            newest = f"coalesce(\"{self.resource.date}\", '') || char(1) || {padded_key}"
        return (
            f"SELECT {key} AS _r, count(*) AS _members, max({newest})"
            f' FROM "{self.resource.table}" WHERE {where} GROUP BY {group}'
        )


def parse(
    resource: Resource,
    args: Mapping[str, str],
    *,
    max_limit: int = MAX_LIMIT,
    include_missing: bool = False,
    hidden_fields: frozenset[str] = frozenset(),
) -> Query:
    """Parse the query parameters `args` of a request for `resource`.

    Parameters: filter, sort, dir, page, limit, group_by, include, fields[<relation>]. Others are ignored, as
    by the platform. Raises QueryError. Names of properties are checked when the query runs, because mirrored
    records can have undocumented fields.
    """
    sort = args.get("sort") or None
    direction = (args.get("dir") or "").upper()
    if direction not in ("", "ASC", "DESC"):
        raise QueryError(f"dir must be ASC or DESC, not {quote_value(args['dir'])}")
    descending = direction == "DESC"
    if sort is not None and sort.startswith("-") and not direction:
        # One real client sends sort=-calldate (docs/platform.md#3-collections).
        sort, descending = sort[1:], True
    return Query(
        resource=resource,
        conditions=parse_filter(args.get("filter", "")),
        sort=sort,
        descending=descending,
        page=_parse_positive_int(args, "page", 1),
        limit=min(_parse_positive_int(args, "limit", max_limit), max_limit),
        group_by=args.get("group_by") or None,
        include=_split_names(args.get("include", "")),
        fields={match[1]: _split_names(args[name]) for name in args if (match := _FIELDS.fullmatch(name))},
        include_missing=include_missing,
        hidden_fields=hidden_fields,
    )


def _parse_positive_int(args: Mapping[str, str], name: str, default: int) -> int:
    text = args.get(name)
    if text is None:
        return default
    if not _DIGITS.fullmatch(text) or int(text) < 1:
        raise QueryError(f"{name} must be an integer of at least 1, not {quote_value(text)}")
    return int(text)


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _add_count(text: bytes, count: int) -> bytes:
    """Return the JSON record `text` with the integer `count`."""
    if b'"count"' in text:
        return serialize_values({**read_record(text.decode()).values, "count": count}).encode()
    return text[:-1] + (b"" if text == b"{}" else b",") + b'"count":%d}' % count
