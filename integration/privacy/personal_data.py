"""Places of personal data: each table in which a telephone number, or a name of its person, can be.

`PLACES` is the only list. The search for a number (`finder`), its erasure, the report without an erasure and
the check of legal holds follow it. A table without an entry is searched in every column, and an erasure
replaces only the number in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from integration.catalogue import get_resource
from integration.catalogue.collection_titles import get_title
from integration.catalogue.events import EVENT_FIELDS
from integration.catalogue.shapes import Resource
from integration.core.errors import PlatformBroken
from integration.core.ids import id_list
from integration.core.json_records import read_record, read_record_bytes, to_column_value
from integration.core.number_variants import ERASED, Finder
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.derived.registry import DERIVED
from integration.mirror.privacy.erasure_gate import (
    OWN_NUMBER_TABLES,
    PERSON_TABLES,
    is_history,
    remove_number,
    strip_record,
)
from integration.mirror.records.rows import UpsertResult
from integration.mirror.schema import list_mirrored_resources
from integration.sqlite.transaction import Transaction
from integration.workspace.callback_items import recompute_items

LABELS = {resource.table: get_title(resource) for resource in list_mirrored_resources()} | {
    "cdrs": "CDRs",
    "monitors": "recordings",
    "voicemessages": "voicemail messages",
    "sms": "SMS",
    "faxes": "faxes",
    "mediasessions": "media sessions",
    "msdrs": "media session detail records",
    "contacts": "contacts (removed)",
}
"""Labels of the tables of collections in reports."""

DERIVED_TABLES = {"_due", "media"}.union(*(derived.tables for derived in DERIVED))
"""Tables that follow from others, so that they are not searched."""
_NOT_SEARCHED = DERIVED_TABLES | {"erasures", "erased_records", "legal_holds"}
_MAX_OTHER_NUMBER = 10**10
"""Largest integer that is an id or a time, not a telephone number."""
_IN_LEGS, _IN_CALLS = (f"IN (SELECT value FROM json_each(:{ids}))" for ids in ("legs", "calls"))


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a table.

    `key`: the columns that identify it. `values`: all columns. `is_owned`: the row is about the person, and
    does not only contain the number.
    """

    key: Mapping[str, Any]
    values: Mapping[str, Any]
    is_owned: bool = False


Changes = Mapping[str, Any]
"""New values of columns."""
ErasedRow = tuple[Row, Changes | None]
"""A row as it was, and its changes; None if it was deleted."""


def delete_row(_row: Row, _finder: Finder[Any]) -> None:
    """Erase a row by its deletion."""


def scrub_row(row: Row, finder: Finder[Any], texts: Sequence[str] = ()) -> Changes | None:
    """Replace only the number; in the columns `texts`, which may also name the person, the entire text.

    A row with the number in its key is deleted.
    """
    columns = [name for name, value in row.values.items() if has_number(value, finder)]
    if not row.key.keys().isdisjoint(columns):
        return None
    return {name: ERASED if name in texts else _scrub(row.values[name], finder) for name in columns}


def delete_or_scrub_row(row: Row, finder: Finder[Any], texts: Sequence[str] = ()) -> Changes | None:
    """Delete a row about the person. Of others, replace the number."""
    return None if row.is_owned else scrub_row(row, finder, texts)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Table of a database with data of persons.

    `searched`: columns that are searched for a number; empty: all. `owned_by`: a row with the number in one
    of these columns is about the person; so is a row for which the SQL condition `linked` is true, with the
    ids of the person's :legs and :calls. `leg_columns`: ids of legs in rows with the number, which become
    legs of the person; with `names_calls`, the keys of the rows become calls of the person. `erase` returns
    the new values of a row, or None to delete it; `after` follows in the same transaction. `is_own_number`:
    the account's own numbers, which are never erased. `named_by`: number of key columns that name a row in a
    report.
    """

    table: str
    label: str
    searched: tuple[str, ...] = ()
    owned_by: tuple[str, ...] = ()
    linked: str = ""
    leg_columns: tuple[str, ...] = ()
    names_calls: bool = False
    erase: Callable[[Row, Finder[Any]], Changes | None] = scrub_row
    after: Callable[[Transaction, Sequence[ErasedRow]], None] | None = None
    is_own_number: bool = False
    named_by: int = 1
    resource: Resource | None = field(default=None, repr=False)

    def name(self, key: Sequence[Any]) -> Any:
        """Return the name of a row with this key in a report."""
        return key[0] if self.named_by == 1 else " ".join(map(str, key[: self.named_by]))


def has_number(value: object, finder: Finder[Any]) -> bool:
    """Return whether the value of a column contains the number."""
    if isinstance(value, bytes):
        return finder.contains_number_in_bytes(value)
    if isinstance(value, int):
        return abs(value) > _MAX_OTHER_NUMBER and finder.contains_number(str(value))
    return isinstance(value, str) and finder.contains_number(value)


def _scrub(value: object, finder: Finder[Any]) -> object:
    if not isinstance(value, bytes):
        return remove_number(str(value), finder)
    try:
        return remove_number(value.decode(), finder).encode()
    except UnicodeDecodeError:
        return finder.replace_numbers_in_bytes(value, ERASED)


# --- mirror.db -----------------------------------------------------------------------------------------
# Records are kept, so that calls are still counted, the counts of a day still equal those of the platform,
# and no record has to be read twice. Contacts are deleted.


def _make_collection(resource: Resource) -> Place:
    is_person = resource.table in PERSON_TABLES
    leg_columns = LEG_FIELDS.get(resource.table, ())
    return Place(
        resource.table,
        LABELS[resource.table],
        searched=("_doc", "_item"),
        linked=" OR ".join(f"{name} {_IN_LEGS}" for name in leg_columns),
        leg_columns=leg_columns,
        erase=delete_row if is_person else partial(_strip_columns, resource),
        after=partial(_follow_record, resource),
        is_own_number=resource.table in OWN_NUMBER_TABLES,
        resource=resource,
    )


def _strip_columns(resource: Resource, row: Row, finder: Finder[Any]) -> Changes:
    def strip(text: str) -> str:
        if is_history(resource):
            return strip_record(read_record(text), resource.fields, finder.contains_number).text
        return remove_number(text, finder)

    doc, item = strip(row.values["_doc"]), row.values["_item"]
    values = read_record(doc).values
    columns = {
        field.name: to_column_value(values.get(field.name))
        for field in resource.fields
        if field.name != resource.key
    }
    return {**columns, "_doc": doc, "_item": item and strip(item)}


def _follow_record(resource: Resource, tx: Transaction, rows: Sequence[ErasedRow]) -> None:
    """Delete what is below records, and run the hooks of their table."""
    keys = [next(iter(row.key.values())) for row, _ in rows]
    tx.execute(
        "DELETE FROM _below WHERE collection = ? AND key IN (SELECT value FROM json_each(?))",
        (resource.collection, id_list(keys)),
    )
    if changed := [read_record(changes["_doc"]) for _, changes in rows if changes]:
        for hook in tx.hooks.get(resource.table, ()):
            hook(tx, UpsertResult(updated=keys, changed=changed))


def _strip_leg_event(row: Row, finder: Finder[Any]) -> Changes:
    event_id = row.values["event_id"]
    text = strip_record(read_record(row.values["doc"]), EVENT_FIELDS, finder.contains_number).text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    numbers = {
        name: ERASED if number and finder.contains_number(number) else number
        for name in ("src", "dst")
        for number in [row.values[name]]
    }
    return {
        "event_id": f"sha256:{digest}" if event_id.startswith("sha256:") else event_id,
        "body_hash": digest[:32],
        **numbers,
        **dict.fromkeys(("src_name", "dst_name", "dtmf_tag")),
        "doc": text,
    }


def _strip_live_leg(row: Row, finder: Finder[Any]) -> Changes:
    if row.values["doc"] is None:
        return {}
    fields = get_resource("calls").fields
    return {"doc": strip_record(read_record(row.values["doc"]), fields, finder.contains_number).text}


_EVENTS_LABEL = "call events of webhooks and polls"
_OF_LEG = {"searched": ("doc",), "linked": f"leg_id {_IN_LEGS}", "leg_columns": ("leg_id",)}
_MIRROR_PLACES = (
    Place("_leg_events", _EVENTS_LABEL, erase=_strip_leg_event, **_OF_LEG),  # type: ignore[arg-type]
    Place("_leg_live", _EVENTS_LABEL, erase=_strip_live_leg, **_OF_LEG),  # type: ignore[arg-type]
    *sorted(
        map(_make_collection, list_mirrored_resources()), key=lambda place: place.table not in PERSON_TABLES
    ),
    # The fields of an event can have other names than documented, so its text is removed with the number.
    Place("_sms_events", "events of SMS", erase=delete_row),
    Place("_below", "notes or messages below", named_by=2),
)
"""Contacts precede the records whose calls are then computed without their names."""


# --- inbox.db ------------------------------------------------------------------------------------------


def _strip_webhook(row: Row, finder: Finder[Any]) -> Changes:
    event_id, body = row.values["event_id"], row.values["body"]
    try:
        stripped = strip_record(read_record_bytes(body), EVENT_FIELDS, finder.contains_number).text.encode()
    except PlatformBroken:
        stripped = finder.replace_numbers_in_bytes(body, ERASED)
    digest = hashlib.sha256(stripped).digest()
    return {
        "event_id": f"sha256:{digest.hex()}" if event_id.startswith("sha256:") else event_id,
        "body": stripped,
        "body_hash": digest,
        "error": None,
    }


_INBOX_PLACES = (
    Place(
        "inbox",
        "webhooks as received",
        searched=("body",),
        linked=f"call_id {_IN_LEGS}",
        erase=_strip_webhook,
    ),
)


# --- house.db ------------------------------------------------------------------------------------------


def _recompute_callbacks(tx: Transaction, rows: Sequence[ErasedRow]) -> None:
    for party in sorted({row.values["party"] for row, _ in rows}):
        recompute_items(tx, party)


def _delete_links_of_actions(tx: Transaction, _rows: Sequence[ErasedRow]) -> None:
    tx.execute("DELETE FROM callback_deed_calls WHERE deed_id NOT IN (SELECT id FROM callback_deeds)")


_APP_PLACES = (
    Place(
        "callbacks",
        "call-back items",
        owned_by=("party",),
        linked=f"last_call_id {_IN_CALLS}",
        erase=delete_or_scrub_row,
    ),
    Place(
        "callback_calls",
        "calls of call-back items",
        owned_by=("party",),
        linked=f"call_id {_IN_CALLS}",
        names_calls=True,
        erase=delete_or_scrub_row,
        after=_recompute_callbacks,
    ),
    Place(
        "callback_deeds",
        "actions on call-back items",
        linked=f"id IN (SELECT deed_id FROM callback_deed_calls WHERE call_id {_IN_CALLS})",
        erase=delete_or_scrub_row,
        after=_delete_links_of_actions,
    ),
    Place("notes", "notes", linked=f"leg_id {_IN_LEGS}", erase=partial(delete_or_scrub_row, texts=("text",))),
    # The keyed hash stays, so the number remains opted out.
    Place("opt_outs", "opt-outs of text messages", searched=("number",)),
    Place("text_back_calls", "texts sent back", searched=("number",)),
    Place("audit", "audit log"),
    Place("journal", "write log", erase=partial(scrub_row, texts=("body", "result"))),
    Place("alert_log", "notification log", erase=partial(scrub_row, texts=("subject", "body"))),
    Place("event_attempts", "log of outgoing webhooks", erase=partial(scrub_row, texts=("response",))),
    Place("alert_findings", "alerts", erase=partial(scrub_row, texts=("text",))),
    # A repeated write must not get a response with missing parts.
    Place("idempotency", "responses to repeated writes", erase=delete_row),
)

PLACES = {"mirror.db": _MIRROR_PLACES, "inbox.db": _INBOX_PLACES, "house.db": _APP_PLACES}
"""Declared places by database, in the order of the search and of the erasure."""
_OTHER_LABELS = {"house.db": "entries of logs, saved views, settings"}


def list_places(database: str, tables: Sequence[str]) -> list[Place]:
    """Return the places of a database that has `tables`."""
    declared = [place for place in PLACES[database] if place.table in tables]
    label = _OTHER_LABELS.get(database, f"other rows of {database}")
    others = sorted({*tables} - {place.table for place in declared} - _NOT_SEARCHED)
    return [*declared, *(Place(table, label) for table in others)]
