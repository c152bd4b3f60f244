"""Live calls: update table `calls` from webhooks and from records of the platform.

A leg that has ended is removed at once, whichever source reported the end, and never stored again by a record
that was requested before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.json_records import JsonRecord, read_record, serialize_values
from integration.core.timestamps import parse_seconds
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.legs import ENDED, STATE_RANK
from integration.mirror.calls.store import CallStore
from integration.mirror.records import item_forms
from integration.mirror.records.rows import Key, Source
from integration.mirror.records.upsert import delete_rows, get_usable_key, upsert
from integration.sqlite.transaction import Transaction

COLLECTION = "calls"


def apply_event(tx: Transaction, event: CallEvent) -> None:
    """Update the row of the leg after its event was stored.

    The row gets the state of the leg, which may differ from the state of the event.
    """
    calls = get_resource(COLLECTION)
    state = _find_leg_state(tx, event.leg_id)
    if state is None or state == ENDED:
        return
    row = tx.execute("SELECT _doc FROM calls WHERE id = ?", (event.leg_id,)).fetchone()
    values: dict[str, object] = read_record(row["_doc"]).values if row is not None else {"id": event.leg_id}
    values["state"] = state
    _fill_empty(values, _get_event_fields(event))
    upsert(tx, calls, [_make_record(values)], source="webhook", requested_at=clock.utc_text())


def store_read(
    tx: Transaction,
    call_store: CallStore,
    records: Iterable[JsonRecord],
    *,
    source: Source,
    requested_at: float,
) -> None:
    """Store live calls that the platform returned outside a poll.

    `requested_at`: start of the request (Unix seconds).
    """
    calls, records, read_at = get_resource(COLLECTION), list(records), clock.utc_text(requested_at)
    call_store.add_sightings(tx, records, read_at)
    store_records(tx, records, source=source, requested_at=requested_at)
    for record in records:
        key = get_usable_key(calls, record)
        if record.links is not None and key is not None and _find_row(tx, key) is not None:
            item_forms.store(
                tx, calls, key, record.text, adds_fields=None, read_at=read_at, links=record.links
            )


def store_written(tx: Transaction, record: JsonRecord, requested_at: float) -> None:
    """Store the live call that a write returned.

    Fields that it lacks keep their stored values.
    """
    row = _find_row(tx, get_usable_key(get_resource(COLLECTION), record))
    if row is not None:
        record = _make_record(read_record(row["_doc"]).values | record.values)
    store_records(tx, [record], source="write", requested_at=requested_at)


def store_records(
    tx: Transaction, records: Iterable[JsonRecord], *, source: Source, requested_at: float
) -> None:
    """Update the rows of legs from the platform's records.

    `requested_at`: start of the request (Unix seconds). If a webhook arrived since then, the row gets the
    state of the leg and all other fields of the record.
    """
    calls, requested_text = get_resource(COLLECTION), clock.utc_text(requested_at)
    current_records: list[JsonRecord] = []
    for record in records:
        key = get_usable_key(calls, record)
        leg_state = _find_leg_state(tx, key)
        if leg_state == ENDED:
            continue
        row = _find_row(tx, key)
        if leg_state is not None and _has_event_since(tx, key, requested_at):
            record = _set_newer_state(record, leg_state, row)
        if row is not None and row["_source"] == "webhook" and row["_last_seen"] > requested_text:
            # "The newer read wins" would drop the fields that the webhook lacks.
            upsert(tx, calls, [record], source=source, requested_at=row["_last_seen"])
        else:
            current_records.append(record)
    upsert(tx, calls, current_records, source=source, requested_at=requested_text)


def has_ended(connection: sqlite3.Connection, leg_id: Key) -> bool:
    """Return whether the mirror has the end of a leg."""
    return _find_leg_state(connection, leg_id) == ENDED


def remove_ended_legs(tx: Transaction) -> None:
    """Remove the rows of legs that have ended."""
    rows = tx.execute(
        "SELECT id FROM calls JOIN _legs ON _legs.leg_id = calls.id WHERE _legs.state = 'ENDED'"
    )
    delete_rows(tx, get_resource(COLLECTION), [row[0] for row in rows.fetchall()])


def list_open_legs(connection: sqlite3.Connection, seen_before: str | None = None) -> list[int]:
    """Return the ids of open legs, ascending.

    A leg is open if it has a row in `calls` or its row in `_legs` has not ended. With `seen_before` (UTC
    text) rows of `calls` that were first seen later are excluded.
    """
    rows = connection.execute(
        "SELECT id FROM calls WHERE ? IS NULL OR _first_seen <= ? UNION "
        "SELECT leg_id FROM _legs WHERE state <> 'ENDED' AND NOT EXISTS "
        "(SELECT 1 FROM calls WHERE calls.id = _legs.leg_id) ORDER BY 1",
        (seen_before, seen_before),
    )
    return [row[0] for row in rows]


def list_unread_legs(connection: sqlite3.Connection, limit: int) -> list[int]:
    """Return the ids of open legs that only webhooks reported.

    No poll has listed or missed them, and they were not requested by their own paths.
    """
    rows = connection.execute(
        "SELECT calls.id FROM calls JOIN _legs ON _legs.leg_id = calls.id WHERE _legs.state <> 'ENDED' "
        "AND NOT EXISTS (SELECT 1 FROM _leg_live WHERE _leg_live.leg_id = calls.id) ORDER BY 1 LIMIT ?",
        (limit,),
    )
    return [row[0] for row in rows]


def _find_leg_state(connection: sqlite3.Connection | Transaction, leg_id: Key | None) -> str | None:
    row = connection.execute("SELECT state FROM _legs WHERE leg_id = ?", (leg_id,)).fetchone()
    return None if row is None else str(row["state"])


def _find_row(tx: Transaction, key: Key | None) -> sqlite3.Row | None:
    row: sqlite3.Row | None = tx.execute(
        "SELECT _doc, _source, _last_seen FROM calls WHERE id = ?", (key,)
    ).fetchone()
    return row


def _has_event_since(tx: Transaction, leg_id: Key | None, since: float) -> bool:
    row = tx.execute(
        "SELECT 1 FROM _leg_events WHERE leg_id = ? AND received_at > ? LIMIT 1", (leg_id, since)
    ).fetchone()
    return row is not None


def _set_newer_state(record: JsonRecord, leg_state: str, row: sqlite3.Row | None) -> JsonRecord:
    """Return the record with the state of a newer event.

    An undocumented state is kept, because events cannot be compared with it.
    """
    if record.values.get("state") == leg_state or str(record.values.get("state")).upper() not in STATE_RANK:
        return record
    values = record.values | {"state": leg_state}
    if row is not None:
        _fill_empty(values, {"connected_at": read_record(row["_doc"]).values.get("connected_at")})
    return _make_record(values)


def _fill_empty(values: dict[str, object], other_values: dict[str, object]) -> None:
    """Set the fields of `values` that are missing, null or empty."""
    for name, value in other_values.items():
        if value is not None and values.get(name) in (None, ""):
            values[name] = value


def _make_record(values: dict[str, object]) -> JsonRecord:
    return JsonRecord(serialize_values(values), values)


def _get_event_fields(event: CallEvent) -> dict[str, object]:
    """Return the fields of the event in the form of `/calls`.

    Times are Unix seconds (docs/platform.md#13-times).
    """
    names = ("context", "destination", "src", "src_id", "src_name", "dst", "dst_id", "dst_name")
    return {
        **{name: getattr(event, name) for name in names},
        "start_time": parse_seconds(event.start_time),
        "connected_at": parse_seconds(event.connected_at),
    }
