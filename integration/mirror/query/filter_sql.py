"""Conditions of a filter (filters.py) as SQL over a collection's table.

Nothing a caller sends becomes SQL text: values and JSON paths are bound, operators come from a table, column
names from the catalogue.

Columns keep what came (a number as a number, a numeric string as text), so a comparison asks for the forms a
value may have been stored in instead of converting the column, which would rule out its index. In SQLite's
order NULL < numbers < text, `x >= ''` is exactly the text and `x < ''` exactly the numbers.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from integration.catalogue.shapes import Field, Resource
from integration.core.errors import QueryError
from integration.mirror.query.filters import AnyOf, Condition, shown
from integration.mirror.query.functions import fit, number_of
from integration.mirror.records import promoted_fields as promoted

Kind = Literal["number", "decimal", "boolean", "text", "time", "any"]

_COMPARE = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2})?)?Z?")
_PLAIN_NAME = re.compile(r"[^\"\\\x00-\x1f\x7f-\uffff\U00010000-\U0010ffff]{1,64}")
_INT64 = 2**63


def kind_of(field: Field | None, resource: Resource) -> Kind:
    """How values of `field` compare; None stands for a field that only mirrored records have."""
    if field is None:
        return "any"
    if field.name == resource.date or field.type == "timestamp":
        return "time"
    real = field.real_type
    if real == "integer":
        return "number"
    if real == "number":
        return "decimal"
    if real == "boolean":
        return "boolean"
    if real == "any":
        return "any"
    return "text"


class Binder:
    """Turns names and conditions into SQL expressions over one collection's table, collecting bound values.

    `connection` answers which columns the table has and, for names the catalogue doesn't know, whether any
    record has such a field. `hidden` are fields this caller must not learn about, not even by filtering.
    """

    def __init__(
        self, resource: Resource, connection: sqlite3.Connection, hidden: frozenset[str] = frozenset()
    ) -> None:
        self.resource = resource
        self.values: dict[str, Any] = {}
        self._connection = connection
        self._hidden = hidden
        self._expressions: dict[str, str] = {}
        cursor = connection.execute("SELECT name FROM pragma_table_info(?)", (resource.table,))
        self._columns = {row[0] for row in cursor}
        self._promoted = promoted.ready(connection, resource)
        if not self._columns:
            raise QueryError(f"/{resource.collection} is not mirrored")

    @property
    def has_number_key(self) -> bool:
        """Whether the key is a number: the catalogue's, or the row's own where the records have none."""
        field = self.resource.field(self.resource.key or "")
        return field is None or field.type != "string"

    def windowed(self, conditions: tuple[Condition | AnyOf, ...]) -> bool:
        """Whether an index narrows these conditions to a range or a list, but not in the order of the key."""
        names = {
            condition.property
            for condition in conditions
            if isinstance(condition, Condition)
            and (condition.operator in _COMPARE or condition.operator == "in")
        }
        if not names:
            return False
        sql = (
            "SELECT info.name FROM pragma_index_list(?) AS list, pragma_index_info(list.name) AS info"
            " WHERE list.partial = 0 AND info.seqno = 0"
        )
        return any(row[0] in names for row in self._connection.execute(sql, (self.resource.table,)))

    def has_index(self, first: str, other: str) -> bool:
        """Whether an index begins with the column `first` and holds `other` as well."""
        sql = (
            "SELECT 1 FROM pragma_index_list(?) AS list, pragma_index_info(list.name) AS head,"
            " pragma_index_info(list.name) AS info WHERE head.seqno = 0 AND head.name = ? AND info.name = ?"
        )
        return self._connection.execute(sql, (self.resource.table, first, other)).fetchone() is not None

    def bind(self, value: Any) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def expression(self, name: str, used_as: str) -> str:
        """SQL for the field `name`; raises QueryError (saying where it was `used_as`) if no record has it."""
        known = self._expressions.get(name)
        if known is None:
            known = self._expressions[name] = self._resolve(name, used_as)
        return known

    def _resolve(self, name: str, used_as: str) -> str:
        unknown = QueryError(f"{used_as}: /{self.resource.collection} has no property {shown(name)}")
        if name in self._hidden:
            raise unknown
        documented = self.resource.field(name) is not None
        if name in self._promoted or (documented and name in self._columns):
            return f'"{name}"'
        if not _PLAIN_NAME.fullmatch(name):
            raise unknown
        path = self.bind(f'$."{name}"')
        if not documented:
            # instr first: it is several times cheaper than parsing each record.
            sql = (
                f'SELECT 1 FROM "{self.resource.table}" WHERE instr(_doc, ?) > 0 '
                "AND json_type(_doc, ?) IS NOT NULL LIMIT 1"
            )
            if not self._connection.execute(sql, (f'"{name}":', f'$."{name}"')).fetchone():
                raise unknown
        return f"json_extract(_doc, {path})"

    def condition(self, condition: Condition | AnyOf) -> str:
        """SQL that is true for the records `condition` matches; never for a NULL save with `eq null`."""
        if isinstance(condition, AnyOf):
            return f"({' OR '.join(self.condition(inner) for inner in condition.conditions)})"
        name = condition.property
        column = self.expression(name, "filter")
        operator, value = condition.operator, condition.value
        if value is None:
            return f"{column} IS NULL" if operator == "eq" else f"{column} IS NOT NULL"
        if operator in ("like", "notlike"):
            return self._like(column, str(value), negated=operator == "notlike")
        kind = kind_of(self.resource.field(name), self.resource)
        if operator == "in":
            present = [element for element in value if element is not None]
            return self._among(column, [self._typed(name, column, kind, element) for element in present])
        typed = self._typed(name, column, kind, value)
        if operator == "eq":
            return self._among(column, [typed])
        if operator == "ne":
            # NOT (NULL IN …) is NULL, which is what `ne` wants; `IS NOT` would match NULL as well.
            return f"NOT {self._among(column, [typed])}"
        return self._range(name, column, _COMPARE[operator], typed)

    def _typed(self, name: str, column: str, kind: Kind, value: Any) -> _Value:
        """`value` in the forms it may be stored in, or QueryError when `name` can't have such a value."""
        wrong = QueryError(f"filter on {shown(name)}: {shown(value)} is not a {_KIND_NAMES[kind]}")
        if kind == "boolean":
            truth = _TRUTH.get(value if isinstance(value, int) else str(value).lower())
            if truth is None:
                raise wrong
            return _Value((truth, str(truth), "true" if truth else "false"), truth, None)
        if isinstance(value, bool):
            if kind != "any":
                raise wrong
            return _Value((int(value),), int(value), None)
        if kind == "time":
            moment = _DATE.fullmatch(value) if isinstance(value, str) else None
            if moment is None:
                raise wrong
            text = f"{moment[1]} {moment[2] or '00:00'}{moment[3] or ':00'}"
            return _Value((text,), None, text, time=True)
        if isinstance(value, int | float):
            return _number(fit(value), kind)
        number = number_of(value)
        if kind in ("number", "decimal"):
            if number is None:
                # Many coded fields that the specification types as integers are words (observed.md §4).
                if not self._holds_text(column):
                    raise wrong
                return _Value((value,), None, value)
            return _number(number, kind, value)
        forms: tuple[Any, ...] = (value,)
        if number is not None and value in _spelled(number):
            forms = (value, number)
        if kind == "any" and number is not None:
            return _Value(forms, number, value)
        return _Value(forms, None, value)

    def _holds_text(self, column: str) -> bool:
        sql = f"SELECT 1 FROM \"{self.resource.table}\" WHERE {column} >= '' LIMIT 1"
        return self._connection.execute(sql, self.values).fetchone() is not None

    def _among(self, column: str, values: list[_Value]) -> str:
        forms = ", ".join(self.bind(form) for value in values for form in value.forms)
        if not forms:
            return "0"
        found = f"{column} IN ({forms})"
        decimals = [self.bind(value.number) for value in values if value.decimal]
        if decimals:
            found = (
                f"({found} OR ({column} >= '' AND number_of({column}) IN ({', '.join(decimals)})) IS TRUE)"
            )
        return found

    def _range(self, name: str, column: str, sign: str, value: _Value) -> str:
        if value.number is not None and value.text is not None:
            # A field of no known type: its numbers are ordered as numbers, its texts as texts.
            number, text = self.bind(value.number), self.bind(value.text)
            return (
                f"(({column} {sign} {number} AND {column} < '')"
                f" OR ({column} {sign} {text} AND {column} >= ''))"
            )
        if value.number is not None:
            bound = self.bind(value.number)
            if name == self.resource.key and kind_of(self.resource.field(name), self.resource) == "number":
                return f"{column} {sign} {bound}"
            if sign in (">", ">="):
                return f"({column} {sign} {bound} AND ({column} < '' OR number_of({column}) {sign} {bound}))"
            return f"({column} {sign} {bound} OR ({column} >= '' AND number_of({column}) {sign} {bound}))"
        bound = self.bind(value.text)
        if value.time:
            return (
                f"{column} {sign} {bound}"
                if sign in (">", ">=")
                else f"({column} {sign} {bound} AND {column} >= '')"
            )
        if sign in (">", ">="):
            return f"({column} {sign} {bound} OR ({column} < '' AND CAST({column} AS TEXT) {sign} {bound}))"
        return f"({column} {sign} {bound} AND ({column} >= '' OR CAST({column} AS TEXT) {sign} {bound}))"

    def _like(self, column: str, pattern: str, *, negated: bool) -> str:
        word = "NOT " if negated else ""
        if not pattern.isascii() or "\x00" in pattern:
            found = f"folded_like({self.bind(pattern)}, CAST({column} AS TEXT))"
            if not pattern.casefold().isascii():
                # Only a text that has more bytes than letters can have what the pattern asks for: comparing
                # the two costs a quarter of a call. Some patterns fold to ASCII: the Kelvin sign to k.
                found = f"(length(CAST({column} AS BLOB)) > length({column}) AND {found})"
            return f"{word}{found}"
        if "%" in pattern:
            return f"{column} {word}LIKE {self.bind(pattern)}"
        literal = pattern.replace("\\", "\\\\").replace("_", "\\_")
        return f"{column} {word}LIKE {self.bind(f'%{literal}%')} ESCAPE '\\'"


@dataclass(frozen=True, slots=True)
class _Value:
    """A filter's value: the `forms` that are equal to it as stored, and what to order by."""

    forms: tuple[Any, ...]
    number: int | float | None
    text: str | None
    time: bool = False
    decimal: bool = False


def _number(number: int | float, kind: Kind, *written: str) -> _Value:
    return _Value((number, *_spelled(number), *written), number, None, decimal=kind == "decimal")


_KIND_NAMES: dict[Kind, str] = {
    "number": "number",
    "decimal": "number",
    "boolean": "boolean",
    "text": "string",
    "time": "date ('YYYY-MM-DD HH:MM:SS' or 'YYYY-MM-DD')",
    "any": "plain value",
}
_TRUTH: dict[Any, int] = {0: 0, 1: 1, "0": 0, "1": 1, "true": 1, "false": 0}


def _spelled(number: int | float) -> tuple[str, ...]:
    """`number` as it would be written in a string."""
    if isinstance(number, float) and number.is_integer() and abs(number) < _INT64:
        return (str(int(number)), repr(number))
    return (repr(number),)
