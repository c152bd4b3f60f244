"""Labels of CDRs, and the account's call labels with their colours."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from integration.core.ids import id_list
from integration.mirror.page_queries.missed_calls import IS_OPEN
from integration.sqlite.listing import escape_like

if TYPE_CHECKING:
    # Exports import this module, but not the library of telephone numbers.
    from integration.mirror.page_queries.reports import Span

INDEX = """
-- serves the queries of this module; labels first, so that each different list is found in one step
CREATE INDEX IF NOT EXISTS cdrs_labels ON cdrs (labels, live_id)
    WHERE labels IS NOT NULL AND labels <> '[]';
"""
"""SQL script of the index."""

MAX_LEGS = 5000
"""Largest number of legs that a search returns."""

MAX_LISTS = 10_000
"""Largest number of different lists of labels that `list_names` reads."""

_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}|[a-zA-Z]{3,20}")

LABELLED = "cdrs.labels IS NOT NULL AND cdrs.labels <> '[]'"
"""SQL condition of CDRs with labels. The index serves it only in this spelling."""
ENTRIES = "json_each(CASE WHEN json_valid(cdrs.labels) THEN cdrs.labels ELSE '[]' END) AS entry"
"""SQL of the entries of `cdrs.labels`, as a table with the alias `entry`."""
ENTRY_NAME = (
    "trim(CASE entry.type WHEN 'text' THEN entry.value WHEN 'object' THEN entry.value ->> '$.name'"
    " WHEN 'integer' THEN (SELECT call_label._doc ->> '$.name' FROM calllabels AS call_label"
    " WHERE call_label.id = entry.value) END)"
)
"""SQL of the name of an entry.

The specification does not show entries. A text is the name; an object has it; a number is the id of a call
label.
"""
_LABELS = (
    "WITH RECURSIVE lists (labels) AS ("
    f"SELECT min(cdrs.labels) FROM cdrs WHERE {LABELLED} UNION ALL"
    f" SELECT (SELECT min(cdrs.labels) FROM cdrs WHERE {LABELLED} AND cdrs.labels > lists.labels)"
    " FROM lists WHERE lists.labels IS NOT NULL LIMIT :lists),"
    f" named (labels, label) AS (SELECT cdrs.labels, {ENTRY_NAME} FROM lists AS cdrs, {ENTRIES})"
)
"""SQL of the table `named`: the different values of `cdrs.labels`, with the names of their entries.

A call has few of the account's labels, so few lists are different. Each is one step in the index: 8 lists of
41,000 CDRs take 0.1 ms, the lists of all CDRs 36 ms.
"""
_NAMED_LEGS = (
    f"(SELECT cdrs.live_id AS leg_id, label FROM named CROSS JOIN cdrs USING (labels) WHERE {LABELLED})"
)
"""SQL of the legs with labels, as a table. Needs the tables of _LABELS."""


def list_names(connection: sqlite3.Connection) -> list[str]:
    """Return the labels of all CDRs in alphabetical order.

    If more than MAX_LISTS lists are different, labels that occur only in later lists are missing.
    """
    rows = connection.execute(
        f"{_LABELS} SELECT DISTINCT label FROM named WHERE label <> '' ORDER BY label", {"lists": MAX_LISTS}
    )
    return [row["label"] for row in rows]


def load_by_leg(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return labels in alphabetical order by leg id.

    Legs without labels are omitted.
    """
    rows = connection.execute(
        "SELECT DISTINCT leg_id, label FROM"
        f" (SELECT cdrs.live_id AS leg_id, {ENTRY_NAME} AS label FROM cdrs, {ENTRIES} WHERE {LABELLED}"
        " AND cdrs.live_id IN (SELECT value FROM json_each(?))) WHERE label <> '' ORDER BY label",
        (id_list(leg_ids),),
    )
    labels: dict[int, list[str]] = {}
    for row in rows:
        labels.setdefault(row["leg_id"], []).append(row["label"])
    return labels


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Numbers of external calls with a label."""

    calls: int = 0
    inbound: int = 0
    outbound: int = 0


def count_calls(
    connection: sqlite3.Connection, local_labels: Sequence[tuple[int, str]], span: Span
) -> dict[str, LabelCounts]:
    """Count the external calls of a span by label.

    A label on several legs of a call counts once. `local_labels` are (leg id, label) of the application
    database.
    """
    rows = connection.execute(
        f"{_LABELS}, labelled (leg_id, label) AS (SELECT value ->> 0, value ->> 1 FROM json_each(:local)"
        f" UNION SELECT leg_id, label FROM {_NAMED_LEGS} WHERE label <> ''),"
        # The id of a call can be that of a leg which belongs to another call: as the filter of Calls.
        " found (label, id) AS (SELECT label, leg_id FROM labelled"
        " UNION SELECT label, call_id FROM labelled JOIN _legs USING (leg_id))"
        " SELECT label, count(*), sum(direction = 'in'), sum(direction = 'out') FROM found"
        " JOIN _calls AS c USING (id) WHERE started_at >= :since AND started_at < :until"
        f" AND direction <> 'internal'{f' AND {IS_OPEN}' if span.open_only else ''} GROUP BY label",
        {"local": json.dumps(local_labels), **span.get_parameters(), "lists": -1},
    )
    return {row[0]: LabelCounts(*row[1:]) for row in rows}


def find_legs(connection: sqlite3.Connection, label: str) -> list[int]:
    """Return the ids of the legs whose CDRs have a label."""
    rows = connection.execute(
        f"{_LABELS} SELECT DISTINCT leg_id FROM {_NAMED_LEGS} WHERE label = :label",
        {"label": label, "lists": -1},
    )
    return [row["leg_id"] for row in rows]


def search_legs(connection: sqlite3.Connection, query: str) -> list[int]:
    """Return the ids of legs with a matching label.

    A label matches if it contains every word of `query`. Only the first 10 words count.
    """
    patterns = {f"word{number}": f"%{escape_like(word)}%" for number, word in enumerate(query.split()[:10])}
    if not patterns:
        return []
    condition = " AND ".join(f"label LIKE :{name} ESCAPE '\\'" for name in patterns)
    rows = connection.execute(
        f"{_LABELS} SELECT DISTINCT leg_id FROM {_NAMED_LEGS} WHERE {condition} LIMIT :legs",
        {**patterns, "lists": -1, "legs": MAX_LEGS},
    )
    return [row["leg_id"] for row in rows]


def load_names_by_id(connection: sqlite3.Connection) -> dict[int, str]:
    """Return the names of the account's call labels by id."""
    rows = connection.execute("SELECT id, _doc ->> '$.name' AS name FROM calllabels")
    return {row["id"]: str(row["name"] or "").strip() for row in rows}


def load_live_entries(connection: sqlite3.Connection, leg_id: int) -> list[Any]:
    """Return the labels of a live call as received."""
    row = connection.execute(
        "SELECT _doc -> '$.labels' AS labels FROM calls WHERE id = ?", (leg_id,)
    ).fetchone()
    return [] if row is None else parse_entries(row["labels"])


def parse_entries(value: Any) -> list[Any]:
    """Return the entries of `labels`, a list or its JSON text.

    Returns [] for any other value.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return value if isinstance(value, list) else []


def name_entry(entry: Any, names_by_id: Mapping[int, str]) -> str:
    """Return the name of an entry of `labels`, like ENTRY_NAME.

    Returns "" for an entry without a name.
    """
    if isinstance(entry, dict):
        entry = entry.get("name")
    if isinstance(entry, int):
        return names_by_id.get(entry, "")
    return entry.strip() if isinstance(entry, str) else ""


def load_colours(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the account's call labels with their colours.

    They are in alphabetical order; the colour can be "". They are read from the received records, because
    the specification does not document their fields.
    """
    rows = connection.execute(
        "SELECT DISTINCT _doc ->> '$.name' AS name,"
        " coalesce(_doc ->> '$.color', _doc ->> '$.colour') AS colour"
        " FROM calllabels WHERE _missing_since IS NULL ORDER BY name COLLATE NOCASE"
    )
    colours = {}
    for row in rows:
        name, colour = str(row["name"] or "").strip(), str(row["colour"] or "")
        if name:
            colours[name] = colour if _COLOUR.fullmatch(colour) else ""
    return colours


def load_entries(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> dict[int, list[Any]]:
    """Return the labels of a call's CDRs as received, by CDR id.

    The CDR of the first leg is first.
    """
    rows = connection.execute(
        "SELECT id, labels FROM cdrs WHERE live_id IN (SELECT value FROM json_each(?))"
        " AND _missing_since IS NULL ORDER BY live_id IS NOT ?, calldate, id",
        (json.dumps(list(leg_ids)), leg_ids[0]),
    )
    return {row["id"]: parse_entries(row["labels"]) for row in rows}
