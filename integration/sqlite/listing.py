"""Lists in a fixed order, read in pages, and search texts for their conditions.

A page continues after the key of the last row of the page before, so that new rows neither repeat nor hide
others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integration.core.ids import parse_id

_SEPARATOR = "~"


def escape_like(text: str) -> str:
    r"""`text` as a pattern of `LIKE … ESCAPE '\'` that matches only itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the order of the list, and the cursor of the page after them; None on the last page."""

    rows: list[sqlite3.Row]
    next: str | None


class Listing:
    """The order of a list: columns of its rows, `-name` for descending, that name a row together.

    `has_id`: the last column is an id, and a cursor without one is ignored. Text compares with its own
    collation.
    """

    def __init__(self, *order: str, has_id: bool = True) -> None:
        self._columns = [name.removeprefix("-") for name in order]
        self._has_id = has_id
        self._order = ", ".join(
            f"{column}{' DESC' if name != column else ''}"
            for name, column in zip(order, self._columns, strict=True)
        )
        self._condition = _build_condition(order)

    def fetch_page(
        self,
        connection: sqlite3.Connection,
        select: str,
        values: Mapping[str, Any],
        cursor: str | None,
        size: int,
    ) -> Page:
        """One page of what `select`, without order and limit, finds with the named `values`."""
        key = self._parse_cursor(cursor)
        where = f" WHERE {self._condition}" if key else ""
        rows = connection.execute(
            f"SELECT * FROM ({select}){where} ORDER BY {self._order} LIMIT :page_limit",  # noqa: S608
            {**values, **key, "page_limit": size + 1},
        ).fetchall()
        has_more = len(rows) > size
        return Page(rows[:size], self._format_cursor(rows[size - 1]) if has_more else None)

    def _format_cursor(self, row: sqlite3.Row) -> str:
        return _SEPARATOR.join(str(row[column]) for column in self._columns)

    def _parse_cursor(self, text: str | None) -> dict[str, Any]:
        """Values for the condition; none where `text` is no cursor."""
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
        return {f"last_{column}": value for column, value in zip(self._columns, values, strict=True)}


def _build_condition(order: tuple[str, ...]) -> str:
    """Rows after the key. The first term lets SQLite enter an index at the key."""
    alternatives, equalities = [], ""
    for name in order:
        column = name.removeprefix("-")
        operator = ">" if name == column else "<"
        alternatives.append(f"{equalities}{column} {operator} :last_{column}")
        equalities += f"{column} = :last_{column} AND "
    column = order[0].removeprefix("-")
    operator = ">=" if order[0] == column else "<="
    return f"{column} {operator} :last_{column} AND ({' OR '.join(alternatives)})"
