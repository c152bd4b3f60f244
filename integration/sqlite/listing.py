"""Keyset pagination of ordered lists, and escaping of search texts.

A page starts after the key of the previous page's last row, so new rows cause neither repeated nor skipped
rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integration.core.ids import parse_id

_SEPARATOR = "~"
_NULL = r"\N"
"""NULL in a cursor."""


def escape_like(text: str) -> str:
    r"""Return a `LIKE … ESCAPE '\'` pattern that matches only `text` itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


@dataclass(frozen=True, slots=True)
class Page:
    """Page of rows.

    `next`: cursor of the next page, None on the last page.
    """

    rows: list[sqlite3.Row]
    next: str | None


class Listing:
    """Order of a list by columns that together identify a row.

    `order`: names of the columns, `-name` for descending order. `has_id`: the last column is an id, and a
    cursor without an id is ignored. Text is compared by the collation of its column. Only the first of
    several columns can be NULL.
    """

    def __init__(self, *order: str, has_id: bool = True) -> None:
        self._columns = [name.removeprefix("-") for name in order]
        self._has_id = has_id
        self._order = ", ".join(
            f"{column}{' DESC' if name != column else ''}"
            for name, column in zip(order, self._columns, strict=True)
        )
        self._conditions, self._null_conditions = _build_conditions(order)

    def fetch_page(
        self,
        connection: sqlite3.Connection,
        select: str,
        values: Mapping[str, Any],
        cursor: str | None,
        size: int,
    ) -> Page:
        """Return one page of the rows of `select`.

        `select`: a query without order and limit. `values`: its named parameters. `cursor`: cursor of the
        page, None for the first page. `size`: maximum number of rows.
        """
        key = self._parse_cursor(cursor)
        rows: list[sqlite3.Row] = []
        for condition in self._list_conditions(key):
            rows += connection.execute(
                f"SELECT * FROM ({select}) WHERE {condition} ORDER BY {self._order}"  # noqa: S608
                " LIMIT :page_limit",
                {**values, **key, "page_limit": size + 1 - len(rows)},
            )
            if len(rows) > size:
                break
        has_more = len(rows) > size
        return Page(rows[:size], self._format_cursor(rows[size - 1]) if has_more else None)

    def _format_cursor(self, row: sqlite3.Row) -> str:
        values = (row[column] for column in self._columns)
        return _SEPARATOR.join(_NULL if value is None else str(value) for value in values)

    def _list_conditions(self, key: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the conditions for rows after the key, in their order."""
        if not key:
            return ("true",)
        is_null = key[f"last_{self._columns[0]}"] is None
        return self._null_conditions if is_null else self._conditions

    def _parse_cursor(self, text: str | None) -> dict[str, Any]:
        """Return the condition's parameters; {} if `text` is not a cursor."""
        splits = len(self._columns) - 1
        values: list[Any] = (
            (text or "").rsplit(_SEPARATOR, splits)
            if self._has_id
            else (text or "").split(_SEPARATOR, splits)
        )
        if self._has_id:
            values[-1] = parse_id(values[-1])
        if len(values) <= splits or values[-1] is None:
            return {}
        return {
            f"last_{column}": None if value == _NULL else value
            for column, value in zip(self._columns, values, strict=True)
        }


def _build_conditions(order: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return SQL conditions for rows after a key, also one with NULL.

    Rows with NULL are selected separately, so that each condition can search an index. SQLite sorts them
    first, in descending order last.
    """
    column = order[0].removeprefix("-")
    if len(order) == 1:
        return (_build_condition(order),), ("false",)
    null_rows = f"{column} IS NULL AND {_build_condition(order[1:])}"
    if column == order[0]:
        return (_build_condition(order),), (null_rows, f"{column} IS NOT NULL")
    return (_build_condition(order), f"{column} IS NULL"), (null_rows,)


def _build_condition(order: tuple[str, ...]) -> str:
    """Return the SQL condition for rows after the key.

    The first term lets SQLite start an index search at the key.
    """
    alternatives, equalities = [], ""
    for name in order:
        column = name.removeprefix("-")
        operator = ">" if name == column else "<"
        alternatives.append(f"{equalities}{column} {operator} :last_{column}")
        equalities += f"{column} = :last_{column} AND "
    column = order[0].removeprefix("-")
    operator = ">=" if order[0] == column else "<="
    return f"{column} {operator} :last_{column} AND ({' OR '.join(alternatives)})"
