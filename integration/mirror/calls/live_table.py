"""Update table `calls`, the live calls, from webhooks. Polls use `upsert`.

A leg that has ended is removed at once, whichever source reported the end.
"""

from __future__ import annotations

import orjson

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.legs import ENDED
from integration.mirror.records.upsert import delete_rows, upsert
from integration.sqlite.transaction import Transaction

COLLECTION = "calls"


def apply_event(tx: Transaction, event: CallEvent) -> None:
    """Update the row of the leg after its event was stored.

    The row gets the state of the leg, which may differ from the state of the event.
    """
    calls = get_resource(COLLECTION)
    leg = tx.execute("SELECT state FROM _legs WHERE leg_id = ?", (event.leg_id,)).fetchone()
    if leg is None or event.leg_id is None:
        return
    if leg["state"] == ENDED:
        return
    row = tx.execute("SELECT _doc FROM calls WHERE id = ?", (event.leg_id,)).fetchone()
    values = orjson.loads(row["_doc"]) if row is not None else {"id": event.leg_id}
    values["state"] = leg["state"]
    for name, value in _get_event_fields(event).items():
        if value is not None and values.get(name) in (None, ""):
            values[name] = value
    record = JsonRecord(orjson.dumps(values).decode(), values)
    upsert(tx, calls, [record], source="webhook", requested_at=clock.utc_text())


def remove_ended_legs(tx: Transaction, leg_ids: list[int]) -> None:
    """Remove legs that were found ended."""
    delete_rows(tx, get_resource(COLLECTION), leg_ids)


def _get_event_fields(event: CallEvent) -> dict[str, object]:
    """Return the fields of the event in the form of `/calls`.

    Times are Unix seconds (docs/platform.md#13-times).
    """
    return {
        "context": event.context,
        "destination": event.destination,
        "start_time": _to_unix_seconds(event.start_time),
        "connected_at": _to_unix_seconds(event.connected_at),
        "src": event.src,
        "src_id": event.src_id,
        "src_name": event.src_name,
        "dst": event.dst,
        "dst_id": event.dst_id,
        "dst_name": event.dst_name,
    }


def _to_unix_seconds(text: str | None) -> int | None:
    parsed = clock.parse_utc(text)
    return int(parsed.timestamp()) if parsed is not None else None
