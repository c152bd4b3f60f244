"""Column headings in words, with the zone of every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from integration.catalogue.field_labels import label_field
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.exports.columns import ColumnKind

_LABELS = {
    "party": "Number", "party_e164": "Number (international)", "party_name": "Name",
    "our_e164": "Our number (international)", "group_kind": "Group type", "group_id": "Group (id)",
    "group_name": "Ring group or queue", "user_id": "Person (id)", "user_name": "Person",
    "wait": "Waited", "talk": "Talked", "hold": "On hold", "ivr": "In the menu", "charge": "Cost",
    "live_id": "Leg (id)", "call_id": "Call (id)", "id": "ID", "timestamp": "Time",
    "extension_id": "Extension (id)", "_source": "Source", "cdrs": "CDRs",
}  # fmt: skip
"""Labels of columns where `label_field` has none, or has the same label for another column of the export."""
OPERATOR_LABELS = {
    "eq": "is", "ne": "is not", "like": "contains", "notlike": "without", "gte": "≥", "gt": ">", "lte": "≤",
    "lt": "<", "in": "one of",
}  # fmt: skip
"""Operators of filters in words."""
_UTC_BOOKKEEPING = ("_first_seen", "_last_seen", "_missing_since")


def make_word_headings(
    columns: Sequence[tuple[str, ColumnKind]],
    resource: Resource,
    derived_names: Collection[str],
    zone: str,
    local_zone: str,
) -> list[str]:
    """Return one heading for each of `columns` (name, kind).

    No two are equal. `zone` is the zone of columns of the kind `time`, `local_zone` that of the kind `local`.
    """
    zones = {"time": zone, "utc": "UTC", "local": local_zone}
    headings = []
    for name, kind in columns:
        if kind in zones:
            base = name.removesuffix("_local").removesuffix("_at")
            headings.append(clock.add_zone(find_label(base), zones[kind]))
        else:
            headings.append(_make_heading(name, resource, derived_names))
    counts = Counter(headings)
    return [
        f"{heading} · {name}" if counts[heading] > 1 else heading
        for heading, (name, _) in zip(headings, columns, strict=True)
    ]


def is_code_or_id(name: str, resource: Resource, derived_names: Collection[str]) -> bool:
    """Return whether a column has codes or ids."""
    heading = _make_heading(name, resource, derived_names)
    return name == "id" or heading.endswith((" (code)", " (id)")) or bool(_find_words(name, derived_names))


def use_words(names: Sequence[str], resource: Resource, derived_names: Collection[str]) -> tuple[str, ...]:
    """Return columns without codes and ids, with labels and names in their place if there are any."""
    columns = [
        name if not is_code_or_id(name, resource, derived_names) else _find_words(name, derived_names)
        for name in names
    ]
    return tuple(dict.fromkeys(name for name in columns if name))


def _find_words(name: str, derived_names: Collection[str]) -> str | None:
    """Return the column with the label of a code or the name of an id, None if there is none."""
    candidates = (f"{name}_label", f"{name.removesuffix('_id')}_name", f"{name}_names")
    return next((candidate for candidate in candidates if candidate in derived_names), None)


def _make_heading(name: str, resource: Resource, derived_names: Collection[str]) -> str:
    if name in _UTC_BOOKKEEPING:
        return f"{find_label(name)} (UTC)"
    if name in _LABELS:
        return _LABELS[name]
    if name.endswith("_seconds"):
        return f"{find_label(name.removesuffix('_seconds'))} (seconds)"
    resource_field = resource.field(name)
    if resource_field is not None and resource_field.meaning == "duration":
        return f"{find_label(name)} (seconds)"
    if f"{name}_label" in derived_names:
        return f"{find_label(name)} (code)"
    for suffix in ("_hms", "_label"):
        if name in derived_names and name.endswith(suffix):
            return find_label(name.removesuffix(suffix))
    for suffix in ("_name", "_names"):
        base = name.removesuffix(suffix)
        if base != name and (name in derived_names or resource.field(base) is not None):
            return f"{find_label(base)} (name{'s' * (suffix == '_names')})"
    return f"{find_label(name)}{' (id)' * name.endswith('_id')}"


def find_label(name: str) -> str:
    """Return the label of a field or column."""
    return _LABELS.get(name) or label_field(name)
