"""Columns of the views: SQL, type and description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource

_IS_TIME = "length({0}) = 19 AND substr({0}, 5, 1) = '-'"
"""Condition of a UTC time. SQLite would read a number as a Julian day.

Rejected: GLOB and LIKE, because DuckDB parses the views of an attached file and sends SQLite other operators.
"""

ColumnType = Literal["text", "integer", "real"]


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """Column of a view. `about` describes it in docs/sql.md."""

    name: str
    type: ColumnType
    sql: str
    about: str


def make_columns(alias: str, *rows: tuple[str, ColumnType, str]) -> Iterator[ViewColumn]:
    """Build columns with the names of the columns of table `alias`.

    `rows`: (name, type, description).
    """
    for name, column_type, about in rows:
        yield ViewColumn(name, column_type, f'{alias}."{name}"', about)


def make_field_column(
    resource: Resource, field_name: str, column_type: ColumnType, about: str, *, alias: str, name: str = ""
) -> ViewColumn:
    """Build the column of a field of `resource`.

    Its stored values may have any type. `name`: of the column, if it differs from the field's. Raises
    ValueError for a secret of the catalogue.
    """
    field = resource.field(field_name)
    if field is None or is_secret(field_name):
        raise ValueError(f"{resource.name} has no field {field_name!r} for a view")
    sql = f'{alias}."{field_name}"'
    if field.actual_type == "boolean":
        sql = f"{sql} IN (1, '1', 'true')"
    elif column_type == "integer":
        # CAST would make 0 of a text.
        sql = f"CASE WHEN typeof({sql}) = 'integer' THEN {sql} END"
    return make_expression(name or field_name, column_type, sql, about)


def make_expression(name: str, column_type: ColumnType, sql: str, about: str) -> ViewColumn:
    """Build a computed column, or one of stored values of any type.

    The cast gives all values the type that docs/sql.md states.
    """
    return ViewColumn(name, column_type, f"CAST({sql} AS {column_type.upper()})", about)


def make_time_columns(name: str, sql: str, about: str, *, with_offset: bool = False) -> Iterator[ViewColumn]:
    """Build `<name>_at` (UTC, as stored) and `<name>_local`.

    `with_offset` adds `utc_offset`.
    """
    yield ViewColumn(f"{name}_at", "text", sql, f"{about}, UTC")
    local = f"datetime({sql}, {_find_offset_sql('offset_seconds', sql)} || ' seconds')"
    is_time = _IS_TIME.format(sql)
    yield make_expression(
        f"{name}_local", "text", f"CASE WHEN {is_time} THEN {local} END", f"{about}, local time"
    )
    if with_offset:
        yield make_expression(
            "utc_offset",
            "text",
            f"CASE WHEN {is_time} THEN {_find_offset_sql('utc_offset', sql)} END",
            f"difference of `{name}_local` and `{name}_at`: `+01:00`",
        )


def make_currency_column(cost_sql: str) -> ViewColumn:
    """Build the column with the currency of a cost."""
    return make_expression(
        "currency",
        "text",
        f"CASE WHEN {cost_sql} IS NOT NULL THEN (SELECT currency_iso FROM me LIMIT 1) END",
        "currency of `charge`: `GBP`",
    )


def _find_offset_sql(column: str, time_sql: str) -> str:
    return f"(SELECT {column} FROM _zone_offsets WHERE since <= {time_sql} ORDER BY since DESC LIMIT 1)"
