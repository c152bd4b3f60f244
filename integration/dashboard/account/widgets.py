"""Widgets of account forms: current, entered and sent values.

An *entry* is the value of a field in its form: text, a list of texts, or named texts. The same entry is read
from a record and from a submitted form, so both can be compared and shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from werkzeug.datastructures import MultiDict

from integration.context import app_context
from integration.core.errors import SwitchroomError
from integration.core.ids import as_id, parse_id
from integration.dashboard.account.editable import FormSpec
from integration.dashboard.site import edit_versions, formats
from integration.mirror.query import browse

Entry = str | list[str] | dict[str, str] | list[dict[str, str]]

MAX_ROWS = 200
"""Rows of an entered list; longer lists of a record are kept while they are not changed."""

FREQUENCY_LISTS = ("time_of_day", "day_of_week", "day_of_month")
"""Members of the frequency of a report schedule that are lists of integers."""
_ID_LISTS = frozenset({"groups", "time_interval"})
"""Lists of texts that are ids if they are decimal."""


class InvalidEntry(SwitchroomError):
    """The entry cannot be sent. The message names the expected form."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of a reference or code.

    `group`: heading above its choices. `id`: id of the record, if `value` is another field of it.
    """

    value: str
    label: str
    group: str = ""
    id: str = ""


Choices = Sequence[Choice]


# --- from a record -------------------------------------------------------------------------------------


def read_stored(spec: FormSpec, record: Mapping[str, Any], choices: Choices) -> Entry:
    """Return the entry of a field of a record."""
    kind, value = spec.widget.kind, record.get(spec.source, record.get(spec.name))
    if kind in ("secret", "file"):
        return ""
    if kind == "yes":
        return "" if value is None else "1" if value in (True, 1, "1", "true") else "0"
    if kind == "date":
        return str(value or "")[:10]
    if kind == "phone":
        return app_context().phone_numbers.to_platform_form(_normalize_text(str(value or "")))
    if kind == "one":
        return next(iter(_match_choices(browse.extract_ids(value), choices)), "")
    if kind == "destination":
        return _join_destination(record.get(spec.name.removesuffix("_id") + "_type"), value)
    if kind in ("many", "ordered"):
        return _match_choices(browse.extract_ids(value), choices)
    if kind == "agents":
        return _read_agents(value)
    if kind == "lines":
        return _split_lines("\n".join(_split_list(value)))
    if kind == "parties":
        return [text for one in _split_list(value) if (text := _normalize_text(one))]
    if kind == "frequency":
        return _read_frequency(value)
    if kind == "rules":
        return _normalize_rule_rows([row for row in value or () if isinstance(row, dict)])
    return _normalize_text("" if value is None else str(value), kind)


def _match_choices(ids: list[str], choices: Choices) -> list[str]:
    """Return the values of the choices with these ids; other ids unchanged."""
    values = {choice.id: choice.value for choice in choices if choice.id}
    return [values.get(one, one) for one in ids]


def _join_destination(type_code: Any, target_id: Any) -> str:
    if type_code in (None, ""):
        return ""
    return f"{type_code}:" if type_code == "H" or target_id in (None, "", 0) else f"{type_code}:{target_id}"


def _read_agents(value: Any) -> list[str]:
    """Return 'id:in' or 'id:out' of each member.

    Members without a status count as logged in.
    """
    entries = []
    for entry in value if isinstance(value, list) else ():
        is_out = isinstance(entry, dict) and entry.get("status") in (False, 0, "0")
        entries += [f"{user}:{'out' if is_out else 'in'}" for user in browse.extract_ids(entry)]
    return sorted(entries)


def _split_list(value: Any) -> list[str]:
    """Return the texts of a list or of comma-separated text.

    Records have both forms.
    """
    if isinstance(value, list):
        return [str(one) for one in value if isinstance(one, str | int)]
    return [part for one in str(value or "").split(",") if (part := one.strip())]


def parse_frequency(value: Any) -> dict[str, Any]:
    """Return the frequency object of a record, which may be JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _read_frequency(value: Any) -> dict[str, str]:
    frequency = parse_frequency(value)
    entry = {"type": str(frequency.get("type") or "")}
    for name in FREQUENCY_LISTS:
        numbers = frequency.get(name)
        entry[name] = ", ".join(map(str, numbers)) if isinstance(numbers, list) else ""
    return entry


# --- from a form ---------------------------------------------------------------------------------------


def read_entered(spec: FormSpec, form: MultiDict[str, str], stored: Entry, choices: Choices) -> Entry:
    """Return the entry of a field of the submitted form.

    A yes-no field without a choice has its stored value.
    """
    kind, name = spec.widget.kind, spec.name
    if kind in ("many", "ordered"):
        members = list(dict.fromkeys(text for text in form.getlist(name) if text))
        return _sort_members(name, members, form, stored) if kind == "ordered" else members
    if kind == "agents":
        states = {choice.value: form.get(f"{name} {choice.value}", "") for choice in choices}
        return sorted(f"{user}:{state}" for user, state in states.items() if state in ("in", "out"))
    if kind == "lines":
        return _split_lines(form.get(name, ""))
    if kind == "parties":
        texts = (_normalize_text(one) for one in form.getlist(name))
        return [_parse_party(text, choices) for text in texts if text]
    if kind == "frequency":
        return {part: _normalize_text(form.get(f"{name} {part}", "")) for part in ("type", *FREQUENCY_LISTS)}
    if kind == "rules":
        return _read_rule_rows(name, form, [choice.value for choice in choices])
    text = _normalize_text(form.get(name, ""), kind)
    if kind == "phone":
        return app_context().phone_numbers.to_platform_form(text)
    return stored if kind == "yes" and not text else text


def _sort_members(name: str, members: list[str], form: MultiDict[str, str], stored: Entry) -> list[str]:
    """Sort members by their entered places.

    Of two equal places the changed one is first: 2 for the third member moves it up. Members without a place
    are last.
    """
    stored_places = {str(one): place for place, one in enumerate(stored, 1)}

    def sort_key(member: str) -> tuple[float, bool]:
        place = as_id(form.get(f"{name} place {member}", "").strip())
        if place is None:
            return (math.inf, True)
        return (place, stored_places.get(member) == place)

    return sorted(members, key=sort_key)


def _read_rule_rows(name: str, form: MultiDict[str, str], columns: Sequence[str]) -> list[dict[str, str]]:
    columns_of_texts = [form.getlist(f"{name} {column}") for column in columns]
    return _normalize_rule_rows(
        [dict(zip(columns, texts, strict=True)) for texts in zip(*columns_of_texts, strict=False)]
    )


def _normalize_rule_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the rows without their empty texts, and without empty rows."""
    normalized = [
        {name: text for name, one in row.items() if (text := _normalize_text(str(one)))} for row in rows
    ]
    return [row for row in normalized if row]


def _parse_party(text: str, choices: Choices) -> str:
    """Return a person's id, a number as digits, or the text."""
    named = next((choice.value for choice in choices if choice.label == text), None)
    return named or app_context().phone_numbers.to_platform_form(text)


def describe_party(text: str, choices: Choices) -> str:
    """Return the label of a person or a number in national form."""
    named = next((choice.label for choice in choices if choice.value == text), None)
    return named or formats.national(text)


def _split_lines(text: str) -> list[str]:
    return [line for one in text.splitlines() if (line := _normalize_text(one))]


def _normalize_text(text: str, kind: str = "") -> str:
    return edit_versions.normalize_text(text, has_lines=kind == "prose")


# --- for the platform ----------------------------------------------------------------------------------


def make_body(spec: FormSpec, entry: Entry, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the request body for an entry.

    A cleared text is '', any other cleared value null. Raises InvalidEntry.
    """
    kind = spec.widget.kind
    if spec.widget.is_required and not entry:
        raise InvalidEntry(f"{spec.label} is empty. Enter at least one number or person.")
    _check_size(spec, entry)
    if isinstance(entry, str):
        return _make_text_body(spec, entry)
    if kind == "frequency" and isinstance(entry, dict):
        return {spec.name: _make_frequency(spec, entry, parse_frequency(record.get(spec.name)))}
    if kind == "agents":
        states = (str(one).rsplit(":", 1) for one in entry)
        return {spec.name: [{"id": int(user), "status": state == "in"} for user, state in states]}
    if kind == "rules":
        return {spec.name: list(entry)}
    to_value: Callable[[str], Any] = str
    if spec.widget.target_key == "id" and (kind in ("many", "ordered", "parties") or spec.name in _ID_LISTS):
        to_value = _to_id
    return {spec.name: [to_value(str(one)) for one in entry]}


def _check_size(spec: FormSpec, entry: Entry) -> None:
    """Raise InvalidEntry for too many rows or too long a text."""
    rows = [entry] if isinstance(entry, str | dict) else entry
    if spec.widget.kind in ("lines", "parties", "rules") and len(rows) > MAX_ROWS:
        raise InvalidEntry(f"{spec.label} has {len(rows):,} entries. Remove all but {MAX_ROWS}.")
    for row in rows:
        for text in row.values() if isinstance(row, dict) else (row,):
            excess = edit_versions.describe_excess(spec.label, text, has_lines=spec.widget.kind == "prose")
            if excess:
                raise InvalidEntry(excess)


def _to_id(text: str) -> int | str:
    """Return a short decimal text as an integer.

    Telephone numbers stay texts.
    """
    number = parse_id(text)
    return text if number is None or len(text) > 9 else number


def _make_text_body(spec: FormSpec, entry: str) -> dict[str, Any]:
    kind, name = spec.widget.kind, spec.name
    if kind == "destination":
        type_code, _, target = entry.partition(":")
        target_id = as_id(target)
        fields: dict[str, Any] = {name.removesuffix("_id") + "_type": type_code} if type_code else {}
        return fields | ({name: target_id} if target_id is not None else {})
    if kind == "yes":
        return {name: entry == "1"} if entry else {}
    if not entry:
        return {name: "" if kind in ("text", "prose", "phone", "choice", "colour") else None}
    if spec.field.actual_type in ("integer", "number"):
        return {name: _parse_number(spec, entry)}
    return {name: entry}


def _parse_number(spec: FormSpec, text: str) -> int | float:
    if spec.field.actual_type == "integer":
        number = as_id(text)
        if number is None:
            raise InvalidEntry(f"{spec.label} must be a whole number.")
        return number
    try:
        decimal = float(text.replace(",", "."))
    except ValueError:
        decimal = math.nan
    if not math.isfinite(decimal):
        raise InvalidEntry(f"{spec.label} must be a number, such as 0.15.")
    return decimal


def _make_frequency(spec: FormSpec, entry: Mapping[str, str], stored: Mapping[str, Any]) -> dict[str, Any]:
    lists: dict[str, list[int]] = {}
    for name in FREQUENCY_LISTS:
        texts = [text for one in entry.get(name, "").split(",") if (text := one.strip())]
        numbers = [parse_id(text) for text in texts]
        if None in numbers:
            raise InvalidEntry(f"{spec.label}: use whole numbers with commas, such as 8, 14.")
        lists[name] = [number for number in numbers if number is not None]
    return {**stored, "type": entry.get("type", ""), **lists}


# --- as text -------------------------------------------------------------------------------------------


def as_text(entry: Entry) -> str:
    """Return an entry as one text, for comparisons."""
    return entry if isinstance(entry, str) else json.dumps(entry, sort_keys=True)


def describe(spec: FormSpec, entry: Entry, choices: Choices) -> str:
    """Return an entry in words, for a message about a conflict."""
    labels = {choice.value: choice.label for choice in choices}
    if isinstance(entry, str):
        if spec.widget.kind == "yes":
            return {"1": "Yes", "0": "No"}.get(entry, "")
        return formats.national(entry) if spec.widget.kind == "phone" else labels.get(entry, entry)
    if isinstance(entry, dict):
        return "; ".join(text for text in entry.values() if text)
    if spec.widget.kind == "agents":
        states = (str(one).rsplit(":", 1) for one in entry)
        return ", ".join(
            labels.get(user, user) + ("" if state == "in" else " (logged out)") for user, state in states
        )
    return ", ".join(
        " ".join(one.values()) if isinstance(one, dict) else labels.get(one, one) for one in entry
    )
