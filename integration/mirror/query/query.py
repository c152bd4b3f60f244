"""Filter, sort, page and group_by of a collection as SQL over its mirrored table (interface.md §4, §6).

The same code answers the facade, the dashboard's lists and the exports. A page is the join of the records'
stored texts: nothing is parsed and nothing is written anew.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import orjson

from integration.catalogue.shapes import Resource
from integration.core.errors import QueryError
from integration.mirror.query.filter_sql import Binder
from integration.mirror.query.filters import AnyOf, Condition, parse_filter
from integration.mirror.query.functions import register

__all__ = ["MAX_LIMIT", "AnyOf", "Condition", "Query", "parse", "register"]

MAX_LIMIT = 5000
"""Records per page, the most and the default (specification, Limits)."""

_FIELDS = re.compile(r"fields\[([^\[\]]{1,64})\]")
_DIGITS = re.compile(r"[0-9]{1,400}")
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class Query:
    """One question about a collection. `page` counts from 1.

    `missing` includes records that are no longer on the platform (the facade never does); `hidden` are fields
    that this caller may not use; `start` is (key, count) where so many matching records are known to come up
    to that key, for a question `in_key_order`; `dense` says that so much matches behind `start` that walking
    the keys finds this page sooner than an index finds all that matches. Every method raises QueryError for a
    property no record has and for a value the property can't have; sqlite3.OperationalError 'interrupted'
    when the connection's deadline passes. `behind` is (value, key, count): so many matching records are known
    to come up to the one with this value and key, for a question `in_column_order`; records whose value is
    null are not found behind it. `among` is a JSON list of the keys of all that match, where they are known:
    the conditions are not compared again.
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
    missing: bool = False
    hidden: frozenset[str] = frozenset()
    start: tuple[object, int] | None = None
    dense: bool = False
    behind: tuple[object, object, int] | None = None
    among: str | None = None

    @property
    def in_key_order(self) -> bool:
        """Whether a page can begin behind the key that another ended with."""
        by_key = self.sort is None or self.sort == self.resource.key
        return by_key and self.group_by is None and self.resource.key is not None

    @property
    def in_column_order(self) -> bool:
        """Whether a page can begin behind the value, and the key, that another ended with."""
        sorted_by = self.resource.field(self.sort or "")
        plain = self.group_by is None and self.resource.key is not None and not self.in_key_order
        return plain and sorted_by is not None and sorted_by.name not in self.hidden

    def also(self, *conditions: Condition | AnyOf) -> Query:
        """The same question, narrowed further."""
        return replace(self, conditions=(*self.conditions, *conditions))

    def where(self, binder: Binder) -> str:
        """SQL of what matches, for queries that other modules build around it."""
        if self.among is not None:
            return f'"{self.resource.key}" IN (SELECT value FROM json_each({binder.bind(self.among)}))'
        parts = [] if self.missing else ["_missing_since IS NULL"]
        parts += [binder.condition(condition) for condition in self.conditions]
        return " AND ".join(parts) or "1"

    def binder(self, connection: sqlite3.Connection) -> Binder:
        return Binder(self.resource, connection, self.hidden)

    def keys(self, connection: sqlite3.Connection, most: int) -> tuple[str, int] | None:
        """The keys of all records that match, for `among`, and how many they are; None where that is more
        than `most`. In no order, so that SQLite reads the narrowest index that tells."""
        binder = self.binder(connection)
        keys, count = connection.execute(
            f'SELECT json_group_array(key), count(*) FROM (SELECT "{self.resource.key}" AS key'
            f' FROM "{self.resource.table}" WHERE {self.where(binder)} LIMIT {binder.bind(most + 1)})',
            binder.values,
        ).fetchone()
        return (keys, count) if count <= most else None

    def total(self, connection: sqlite3.Connection) -> int:
        """How many records match, or how many groups there are."""
        table = f'"{self.resource.table}"'
        binder = self.binder(connection)
        if self.group_by is not None:
            group = binder.expression(self.group_by, "group_by")
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {self.where(binder)} GROUP BY {group})"
        elif self.conditions or self.missing:
            sql = f"SELECT count(*) FROM {table} WHERE {self.where(binder)}"
        else:
            # count(*) without WHERE only adds up page headers: under 1 ms at 1 M rows, 40 ms otherwise.
            sql = (
                f"SELECT (SELECT count(*) FROM {table})"
                f" - (SELECT count(*) FROM {table} WHERE _missing_since IS NOT NULL)"
            )
        return int(connection.execute(sql, binder.values).fetchone()[0])

    def rows(self, connection: sqlite3.Connection) -> list[sqlite3.Row]:
        """This page's table rows, all columns; with group_by also `_count`, and `_groups` (how many)."""
        return connection.execute(*self._page(connection, "t.*")).fetchall()

    def texts(self, connection: sqlite3.Connection, column: str = "_doc") -> list[bytes]:
        """This page's records as stored (`column` is `_doc` or `_item`), each one JSON object."""
        if self.group_by is not None:
            return self.groups(connection, column)[0]
        return [row[0] for row in self._texts(connection, column)]

    def groups(self, connection: sqlite3.Connection, column: str = "_doc") -> tuple[list[bytes], int | None]:
        """The `texts` of a page with group_by, and how many groups there are; None behind the last page."""
        found = self._texts(connection, column).fetchall()
        texts = [_counted(text, count) if text else text for text, count, _ in found]
        return texts, found[0][2] if found else None

    def _texts(self, connection: sqlite3.Connection, column: str) -> sqlite3.Cursor:
        assert column in ("_doc", "_item")
        cursor = connection.cursor()
        # A Row object for each record would cost as much as reading it.
        cursor.row_factory = None
        # A blob spares decoding the text and encoding it again.
        return cursor.execute(*self._page(connection, f"CAST(t.{column} AS BLOB)"))

    def joined(self, connection: sqlite3.Connection) -> tuple[bytes, int, object]:
        """This page's records, comma-separated: the inside of the envelope's `data`; how many they are; and
        the last one's key where the question is `in_key_order`. Not for group_by.

        Joined by SQLite: a Python object for each record would cost a quarter more.
        """
        key = f't."{self.resource.key}"' if self.resource.key else "NULL"
        sql, values = self._page(connection, f"t._doc AS doc, {key} AS key")
        last = "min" if self.sort is not None and self.descending else "max"
        row = connection.execute(
            f"SELECT CAST(group_concat(doc) AS BLOB), count(*), {last}(key) FROM ({sql})", values
        ).fetchone()
        return row[0] or b"", row[1], row[2]

    def value_of(self, connection: sqlite3.Connection, key: object) -> object:
        """What the record `key` is sorted by."""
        row = connection.execute(
            f'SELECT "{self.sort}" FROM "{self.resource.table}" WHERE "{self.resource.key}" = ?', (key,)
        ).fetchone()
        return None if row is None else row[0]

    def key_behind(
        self, connection: sqlite3.Connection, start: tuple[object, int] | None, count: int
    ) -> object | None:
        """The key of the `count`th record behind `start`; None where there are fewer."""
        binder = self.binder(connection)
        table, key = f'"{self.resource.table}"', f'"{self.resource.key}"'
        down = self.sort is not None and self.descending
        where = self.where(binder)
        if start is not None:
            where += f" AND {key} {'<' if down else '>'} {binder.bind(start[0])}"
        row = connection.execute(
            f"SELECT {key} FROM {table} WHERE {where} ORDER BY {key} {'DESC' if down else 'ASC'}"
            f" LIMIT 1 OFFSET {binder.bind(count - 1)}",
            binder.values,
        ).fetchone()
        return None if row is None else row[0]

    def _page(self, connection: sqlite3.Connection, columns: str) -> tuple[str, dict[str, object]]:
        """SQL and its values. Keys are found, sorted and skipped first; only this page's records are read."""
        binder = self.binder(connection)
        table = f'"{self.resource.table}"'
        key = f'"{self.resource.key}"' if self.resource.key else "_n"
        by_key = self.sort is None or self.sort == self.resource.key
        if by_key:
            order = f"{key} DESC" if self.sort is not None and self.descending else key
        else:
            direction = "DESC" if self.descending else "ASC"
            order = f"{binder.expression(self.sort or '', 'sort')} {direction}, {key}"
        limit = binder.bind(self.limit)
        where = self.where(binder)
        windowed = by_key and not self.dense and self.among is None and binder.windowed(self.conditions)
        offset = (self.page - 1) * self.limit
        if self.start is not None and self.in_key_order:
            sign = "<" if order.endswith("DESC") else ">"
            where += f" AND {'+' if windowed else ''}{key} {sign} {binder.bind(self.start[0])}"
            offset -= self.start[1]
        elif self.behind is not None and self.in_column_order:
            column, sign = binder.expression(self.sort or "", "sort"), "<" if self.descending else ">"
            value, last = binder.bind(self.behind[0]), binder.bind(self.behind[1])
            where += f" AND {column} {sign}= {value} AND ({column} {sign} {value} OR {key} > {last})"
            offset -= self.behind[2]
        skip = binder.bind(min(offset, _FAR))
        if windowed:
            # Without the plus SQLite walks the keys from the oldest record on, to spare itself the sort.
            order = f"+{order}"
        if self.group_by is not None:
            columns = f"{columns}, k._members AS _count, k._groups AS _groups"
            groups = self._groups(binder, key, where)
            keys = f"SELECT _r, _members, count(*) OVER () AS _groups FROM ({groups}) AS g"
            if by_key:
                order = order.replace(key, "_r")
            else:
                keys += f" JOIN {table} ON {table}.{key} = g._r"
            keys += f" ORDER BY {order} LIMIT {limit} OFFSET {skip}"
        elif offset == 0 and by_key and not windowed:
            sql = f"SELECT {columns} FROM {table} AS t WHERE {where} ORDER BY {order} LIMIT {limit}"
            return sql, binder.values
        else:
            keys = (
                f"SELECT {key} AS _r FROM {table} WHERE {where} ORDER BY {order} LIMIT {limit} OFFSET {skip}"
            )
        # CROSS JOIN makes SQLite take the keys in their order and look each record up.
        return f"SELECT {columns} FROM ({keys}) AS k CROSS JOIN {table} AS t ON t.{key} = k._r", binder.values

    def _groups(self, binder: Binder, key: str, where: str) -> str:
        """Each group's newest record and its size. With max() SQLite takes the bare columns from the row that
        holds the maximum; window functions would sort all rows twice."""
        group = binder.expression(self.group_by or "", "group_by")
        newest = key
        if self.resource.date is not None:
            # Adding 2^62 makes all ids equally long, at a third of printf's price.
            place = f"({_FAR} + {key})" if binder.has_number_key else key
            if not binder.has_index(self.group_by or "", self.resource.date):
                # Or SQLite groups in the order of another index, and looks each record's date up.
                group = f"+{group}"
            newest = f"coalesce(\"{self.resource.date}\", '') || char(1) || {place}"
        return (
            f"SELECT {key} AS _r, count(*) AS _members, max({newest})"
            f' FROM "{self.resource.table}" WHERE {where} GROUP BY {group}'
        )


def parse(
    resource: Resource,
    args: Mapping[str, str],
    *,
    max_limit: int = MAX_LIMIT,
    missing: bool = False,
    hidden: frozenset[str] = frozenset(),
) -> Query:
    """The question that the query parameters `args` ask of `resource`.

    Parameters: filter, sort, dir, page, limit, group_by, include, fields[<relation>]; others are ignored, as
    the platform does. Raises QueryError. Property names are checked when the query runs, since a mirrored
    record may have fields that nobody documented.
    """
    sort = args.get("sort") or None
    direction = (args.get("dir") or "").upper()
    if direction not in ("", "ASC", "DESC"):
        raise QueryError("dir must be ASC or DESC")
    descending = direction == "DESC"
    if sort is not None and sort.startswith("-") and not direction:
        # One real client writes sort=-calldate (observed.md §3).
        sort, descending = sort[1:], True
    return Query(
        resource=resource,
        conditions=parse_filter(args.get("filter", "")),
        sort=sort,
        descending=descending,
        page=_counting(args, "page", 1),
        limit=min(_counting(args, "limit", max_limit), max_limit),
        group_by=args.get("group_by") or None,
        include=_names(args.get("include", "")),
        fields={match[1]: _names(args[name]) for name in args if (match := _FIELDS.fullmatch(name))},
        missing=missing,
        hidden=hidden,
    )


def _counting(args: Mapping[str, str], name: str, default: int) -> int:
    text = args.get(name)
    if text is None:
        return default
    if not _DIGITS.fullmatch(text) or int(text) < 1:
        raise QueryError(f"{name} must be a whole number from 1")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _counted(text: bytes, count: int) -> bytes:
    """The record `text` with an integer `count` added."""
    if b'"count"' in text:
        return orjson.dumps({**orjson.loads(text), "count": count})
    return text[:-1] + (b"" if text == b"{}" else b",") + b'"count":%d}' % count
