"""Convert filter conditions (filters.py) to SQL over a collection's table.

No part of a request becomes SQL text: values and JSON paths are bound, operators come from a table,
column names from the catalogue.

Columns store values as received (a number as a number, a numeric string as text). So a comparison lists
all forms in which a value can be stored. Converting the column was rejected, because its index would not
be used. In SQLite's order NULL < numbers < text, `x >= ''` matches exactly the texts and `x < ''` exactly
the numbers.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Field, Resource
from integration.core.errors import FilterError, QueryError
from integration.mirror.query.filters import AnyOf, Condition, quote_value
from integration.mirror.query.functions import parse_number, to_sqlite_number
from integration.mirror.records import item_forms, single_record

ValueKind = Literal["number", "decimal", "boolean", "text", "time", "any"]

_COMPARISONS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2})?)?Z?")
_PLAIN_NAME = re.compile(r"[^\"\\\x00-\x1f\x7f-\uffff\U00010000-\U0010ffff]{1,64}")
_INT64_LIMIT = 2**63


def get_value_kind(field: Field | None, resource: Resource) -> ValueKind:
    """Return how values of `field` are compared.

    `field` is None for undocumented fields.
    """
    if field is None:
        return "any"
    if field.name == resource.date or field.type == "timestamp":
        return "time"
    real_type = field.actual_type
    if real_type == "integer":
        return "number"
    if real_type == "number":
        return "decimal"
    if real_type == "boolean":
        return "boolean"
    if real_type == "any":
        return "any"
    return "text"


def list_indexes(connection: sqlite3.Connection, resource: Resource) -> list[tuple[bool, list[str]]]:
    """Return (whether it is partial, its columns) of each index of a collection's table."""
    indexes: dict[str, tuple[bool, list[str]]] = {}
    for name, partial, column in connection.execute(
        "SELECT list.name, list.partial, info.name FROM pragma_index_list(?) AS list,"
        " pragma_index_info(list.name) AS info ORDER BY list.seq, info.seqno",
        (resource.table,),
    ):
        indexes.setdefault(name, (bool(partial), []))[1].append(column)
    return list(indexes.values())


class SqlBuilder:
    """Builder of SQL expressions over one collection's table, with their bound values.

    `connection` is used to read the columns of the table and to check which fields records have.
    `hidden_fields` are treated as unknown fields, so that filters cannot reveal their values. No index on
    `unindexed_fields` is used. Raises QueryError if the collection is not mirrored.
    """

    def __init__(
        self,
        resource: Resource,
        connection: sqlite3.Connection,
        hidden_fields: frozenset[str] = frozenset(),
        unindexed_fields: frozenset[str] = frozenset(),
    ) -> None:
        self.resource = resource
        self.values: dict[str, Any] = {}
        self._connection = connection
        self._hidden_fields = hidden_fields
        self._unindexed_fields = unindexed_fields
        self._expressions: dict[str, str | None] = {}
        cursor = connection.execute("SELECT name FROM pragma_table_info(?)", (resource.table,))
        self._columns = {row[0] for row in cursor}
        self._reads_items = (
            resource.key is not None
            and "_item" in self._columns
            and item_forms.can_see(resource, hidden_fields)
        )
        if not self._columns:
            raise QueryError(f"/{resource.collection} is not mirrored")

    @cached_property
    def _indexes(self) -> list[tuple[bool, list[str]]]:
        return list_indexes(self._connection, self.resource)

    @property
    def has_number_key(self) -> bool:
        """Return whether the key is a number (`_n` without a key)."""
        field = self.resource.field(self.resource.key or "")
        return field is None or field.type != "string"

    def has_range_index(self, conditions: tuple[Condition | AnyOf, ...]) -> bool:
        """Return whether an index serves a range or list of `conditions`.

        Rows read from such an index are not in the order of the key.
        """
        names = {
            condition.property
            for condition in conditions
            if isinstance(condition, Condition)
            and (condition.operator in _COMPARISONS or condition.operator == "in")
        }
        return any(not is_partial and columns[0] in names for is_partial, columns in self._indexes)

    def has_index(self, first_column: str, other_column: str) -> bool:
        """Return whether an index starts with `first_column` and contains `other_column`."""
        return any(columns[0] == first_column and other_column in columns for _, columns in self._indexes)

    def has_index_for(self, conditions: Iterable[Condition | AnyOf], order: str | None = None) -> bool:
        """Return whether an index has the matches of an `eq` by `order`.

        Without `order` in any order.
        """
        return any(
            self.has_index(condition.property, order or condition.property)
            for condition in conditions
            if isinstance(condition, Condition) and condition.operator == "eq"
        )

    def bind(self, value: Any) -> str:
        """Bind `value` and return its SQL parameter."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def build_expression(self, name: str, used_as: str) -> str:
        """Return the SQL expression of the field `name`.

        Raises QueryError if no record has the field. The message starts with `used_as`, the parameter that
        contains the name.
        """
        # `hidden_fields` cannot list secrets that are recognized by their prefix.
        is_hidden = name in self._hidden_fields or (bool(self._hidden_fields) and is_secret(name))
        expression = None if is_hidden else self.build_value(name)
        if expression is None:
            raise (FilterError if used_as == "filter" else QueryError)(
                f"{used_as}: /{self.resource.collection} has no property {quote_value(name)}"
            )
        field = self.resource.field(name)
        is_nested = field is not None and field.actual_type in ("array", "object")
        if self._hidden_fields and (is_nested or expression != f'"{name}"'):
            # Repeated filters would reveal a secret within an object letter by letter.
            visible = f"without_secrets({expression})"
            return f"CASE WHEN {expression} GLOB '[[{{]*\":*' THEN {visible} ELSE {expression} END"
        return f"+{expression}" if used_as == "filter" and name in self._unindexed_fields else expression

    def build_value(self, name: str) -> str | None:
        """Return the SQL expression of the value of the field `name`, hidden or not.

        The value is that of the list form, otherwise that of the record's own path. It is NULL for a record
        whose own path was not read. Returns None if no record has the field.
        """
        if name not in self._expressions:
            self._expressions[name] = self._resolve_field(name)
        return self._expressions[name]

    def _resolve_field(self, name: str) -> str | None:
        is_documented = self.resource.field(name) is not None
        is_column = is_documented and name in self._columns
        if not is_column and not _PLAIN_NAME.fullmatch(name):
            return None
        sources = []
        if is_column:
            sources.append(f'"{name}"')
        elif is_documented or self._is_listed(name):
            sources.append(f"json_extract(_doc, {self._bind_path(name)})")
        if self._reads_items and item_forms.adds_field(self._connection, self.resource, name):
            sources.append(f"json_extract(_item, {self._bind_path(name)})")
        return f"coalesce({', '.join(sources)})" if len(sources) > 1 else next(iter(sources), None)

    def _is_listed(self, name: str) -> bool:
        """Return whether a record can have the undocumented field `name` in its list form."""
        # instr comes first, because it is several times cheaper than parsing each record.
        sql = (
            f'SELECT 1 FROM "{self.resource.table}" WHERE instr(_doc, ?) > 0 '
            "AND json_type(_doc, ?) IS NOT NULL LIMIT 1"
        )
        if self._connection.execute(sql, (f'"{name}":', f'$."{name}"')).fetchone() is not None:
            return True
        # Records whose fields the specification does not show can have any field.
        return not self.resource.fields and single_record.is_empty(self._connection, self.resource)

    def _bind_path(self, name: str) -> str:
        return self.bind(f'$."{name}"')

    def build_condition(self, condition: Condition | AnyOf) -> str:
        """Return SQL that is true for the records that match `condition`.

        A NULL matches only `eq` with null.
        """
        if isinstance(condition, AnyOf):
            return f"({' OR '.join(self.build_condition(inner) for inner in condition.conditions)})"
        name = condition.property
        column = self.build_expression(name, "filter")
        operator, value = condition.operator, condition.value
        if value is None:
            return f"{column} IS NULL" if operator == "eq" else f"{column} IS NOT NULL"
        if operator in ("like", "notlike"):
            return self._build_like_condition(column, str(value), negated=operator == "notlike")
        kind = get_value_kind(self.resource.field(name), self.resource)
        if operator == "in":
            non_null_values = [element for element in value if element is not None]
            return self._build_in_condition(
                name, column, [self._parse_value(name, column, kind, element) for element in non_null_values]
            )
        typed_value = self._parse_value(name, column, kind, value)
        if operator == "eq":
            return self._build_in_condition(
                name, column, [self._select_stored_forms(name, column, typed_value)]
            )
        if operator == "ne":
            # NOT (NULL IN …) is NULL, as `ne` requires. `IS NOT` would match NULL as well.
            return f"NOT {self._build_in_condition(name, column, [typed_value])}"
        return self._build_range_condition(name, column, _COMPARISONS[operator], typed_value)

    def _parse_value(self, name: str, column: str, kind: ValueKind, value: Any) -> _Value:
        """Return `value` in the forms in which it can be stored.

        Raises QueryError if the field `name` cannot have such a value.
        """
        value_error = FilterError(
            f"filter on {quote_value(name)}: {quote_value(value)} is not a {_KIND_NAMES[kind]}"
        )
        if kind == "boolean":
            bit = _BOOLEANS.get(value if isinstance(value, int) else str(value).lower())
            if bit is None:
                raise value_error
            return _Value((bit, str(bit), "true" if bit else "false"), bit, None)
        if isinstance(value, bool):
            if kind != "any":
                raise value_error
            return _Value((int(value),), int(value), None)
        if kind == "time":
            date_match = _DATE.fullmatch(value) if isinstance(value, str) else None
            if date_match is None:
                raise value_error
            text = f"{date_match[1]} {date_match[2] or '00:00'}{date_match[3] or ':00'}"
            return _Value((text,), None, text, time=True)
        if isinstance(value, int | float):
            return _make_number_value(to_sqlite_number(value), kind)
        number = parse_number(value)
        if kind in ("number", "decimal"):
            if number is None:
                # Coded fields that the specification types as integers contain words
                # (docs/platform.md#4-types). So do other fields, if a record has a word.
                field = self.resource.field(name)
                is_coded = field is not None and field.meaning in ("code", "choice")
                if not is_coded and not self._has_text_values(column):
                    raise value_error
                return _Value((value,), None, value)
            return _make_number_value(number, kind, value)
        forms: tuple[Any, ...] = (value,)
        if number is not None and value in _list_text_forms(number):
            forms = (value, number)
        if kind == "any" and number is not None:
            return _Value(forms, number, value)
        return _Value(forms, None, value)

    def _select_stored_forms(self, name: str, column: str, value: _Value) -> _Value:
        """Remove forms that no record has, if an index finds them.

        With two values SQLite cannot read an index in the order of its next column: it would sort all
        matches, 27 ms instead of 0.5 ms for a user with 130,000 CDRs.
        """
        if len(value.forms) < 2 or column != f'"{name}"' or not self.has_index(name, name):
            return value
        sql = f'SELECT 1 FROM "{self.resource.table}" WHERE {column} = ? LIMIT 1'
        forms = tuple(form for form in value.forms if self._connection.execute(sql, (form,)).fetchone())
        return replace(value, forms=forms or value.forms[:1])

    def _has_text_values(self, column: str) -> bool:
        sql = f"SELECT 1 FROM \"{self.resource.table}\" WHERE {column} >= '' LIMIT 1"
        return self._connection.execute(sql, self.values).fetchone() is not None

    def _build_in_condition(self, name: str, column: str, values: list[_Value]) -> str:
        forms = ", ".join(self.bind(form) for value in values for form in value.forms)
        if not forms:
            return "0"
        condition = f"{column} IN ({forms})"
        decimals = [self.bind(value.number) for value in values if value.decimal]
        if decimals:
            condition = (
                f"({condition} OR ({column} >= '' AND number_of({column}) IN"
                f" ({', '.join(decimals)})) IS TRUE)"
            )
        field = self.resource.field(name)
        if field is None or field.actual_type == "array":
            # A list equals each of its members. It is stored as JSON text.
            condition = (
                f"({condition} OR CASE WHEN {column} GLOB '[[]*' AND json_valid({column}) THEN"
                f" EXISTS (SELECT 1 FROM json_each({column}) AS m WHERE m.atom IN ({forms})) ELSE 0 END)"
            )
        return condition

    def _build_range_condition(self, name: str, column: str, comparison: str, value: _Value) -> str:
        if value.number is not None and value.text is not None:
            # The field has no documented type: numbers are compared as numbers, texts as texts.
            number, text = self.bind(value.number), self.bind(value.text)
            return (
                f"(({column} {comparison} {number} AND {column} < '')"
                f" OR ({column} {comparison} {text} AND {column} >= ''))"
            )
        if value.number is not None:
            bound = self.bind(value.number)
            if (
                name == self.resource.key
                and get_value_kind(self.resource.field(name), self.resource) == "number"
            ):
                return f"{column} {comparison} {bound}"
            if comparison in (">", ">="):
                return (
                    f"({column} {comparison} {bound} AND ({column} < ''"
                    f" OR number_of({column}) {comparison} {bound}))"
                )
            return (
                f"({column} {comparison} {bound} OR ({column} >= ''"
                f" AND number_of({column}) {comparison} {bound}))"
            )
        bound = self.bind(value.text)
        if value.time:
            return (
                f"{column} {comparison} {bound}"
                if comparison in (">", ">=")
                else f"({column} {comparison} {bound} AND {column} >= '')"
            )
        if comparison in (">", ">="):
            return (
                f"({column} {comparison} {bound} OR ({column} < ''"
                f" AND CAST({column} AS TEXT) {comparison} {bound}))"
            )
        return (
            f"({column} {comparison} {bound} AND ({column} >= ''"
            f" OR CAST({column} AS TEXT) {comparison} {bound}))"
        )

    def _build_like_condition(self, column: str, pattern: str, *, negated: bool) -> str:
        not_prefix = "NOT " if negated else ""
        if not pattern.isascii() or "\x00" in pattern:
            condition = f"folded_like({self.bind(pattern)}, CAST({column} AS TEXT))"
            if not pattern.casefold().isascii():
                # Only a text with more bytes than letters can match a pattern with other letters than ASCII.
                # Comparing both lengths costs a quarter of a function call. The condition is not valid for
                # patterns that fold to ASCII, such as the Kelvin sign, which folds to k.
                condition = f"(length(CAST({column} AS BLOB)) > length({column}) AND {condition})"
            return f"{not_prefix}{condition}"
        if "%" in pattern:
            return f"{column} {not_prefix}LIKE {self.bind(pattern)}"
        literal = pattern.replace("\\", "\\\\").replace("_", "\\_")
        return f"{column} {not_prefix}LIKE {self.bind(f'%{literal}%')} ESCAPE '\\'"


@dataclass(frozen=True, slots=True)
class _Value:
    """Value of a filter.

    `forms`: stored values that equal it. `number`, `text`: bounds for comparisons with numbers and texts.
    `time`: the value is a date. `decimal`: texts are compared as numbers too.
    """

    forms: tuple[Any, ...]
    number: int | float | None
    text: str | None
    time: bool = False
    decimal: bool = False


def _make_number_value(number: int | float, kind: ValueKind, *text_forms: str) -> _Value:
    return _Value((number, *_list_text_forms(number), *text_forms), number, None, decimal=kind == "decimal")


_KIND_NAMES: dict[ValueKind, str] = {
    "number": "number",
    "decimal": "number",
    "boolean": "boolean",
    "text": "string",
    "time": "date ('YYYY-MM-DD HH:MM:SS' or 'YYYY-MM-DD')",
    "any": "plain value",
}
_BOOLEANS: dict[Any, int] = {0: 0, 1: 1, "0": 0, "1": 1, "true": 1, "false": 0}


def _list_text_forms(number: int | float) -> tuple[str, ...]:
    """Return the texts by which a string can represent `number`."""
    if isinstance(number, float) and number.is_integer() and abs(number) < _INT64_LIMIT:
        return (str(int(number)), repr(number))
    return (repr(number),)
