"""What the page of one call shows: every leg, and everything that was told of it in the order it happened."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from integration.mirror.calls import reading
from integration.mirror.calls.facts import LegFacts
from integration.mirror.calls.stamps import stamp


class TimelineEntry(NamedTuple):
    """One fact. `at` is UTC text; `micros` its place within the second, None where only the second is known.

    `kind`: an event's name without 'call.' (initial, ringing, …, dtmf, unknown ones as they are), or seen,
    missing, gone (polls), cdr, recording, voicemail. `state`, `cause`, `context` are as received, '' where
    not told; `who` is the name at the far end; `detail` what else the fact says ('*' of a DTMF,
    'final', '18 s, 11 s billed'). `record` is the event's or record's id.
    """

    at: str
    micros: int | None
    leg_id: int
    kind: str
    state: str
    who: str
    context: str
    cause: str
    detail: str
    source: str
    record: str


def call_id_of(connection: sqlite3.Connection, any_id: int) -> int | None:
    """The call that any id it ever had leads to: a leg's, its root's, one it had before it was joined."""
    row = connection.execute("SELECT call_id FROM _call_ids WHERE id = ?", (any_id,)).fetchone()
    return None if row is None else int(row[0])


def legs_of(connection: sqlite3.Connection, call_id: int) -> list[sqlite3.Row]:
    """Rows of `_legs` of the call, in the order they began. `origins` is JSON: fact → webhook, poll, cdr."""
    return connection.execute(
        "SELECT * FROM _legs WHERE call_id = ? ORDER BY started, leg_id", (call_id,)
    ).fetchall()


def timeline(connection: sqlite3.Connection, call_id: int) -> list[TimelineEntry]:
    """Everything told of the call's legs, oldest first."""
    ids = [row["leg_id"] for row in legs_of(connection, call_id)]
    entries = [
        entry for facts in reading.facts_of(connection, ids).values() for entry in _of(connection, facts)
    ]
    return sorted(entries, key=lambda entry: (entry.at, entry.micros or 0, entry.leg_id, entry.record))


def _of(connection: sqlite3.Connection, facts: LegFacts) -> list[TimelineEntry]:
    leg = facts.leg_id
    entries = []
    for event, _ in facts.events:
        detail = event.dtmf_tag or ""
        if event.final is not None:
            detail = "final" if event.final else "not final"
        elif event.terminated_by:
            detail = f"by {event.terminated_by}"
        entries.append(
            TimelineEntry(
                event.at, event.micros, leg, event.name.removeprefix("call."), event.state or "",
                event.dst_name or "", event.context or "", event.t_cause or "", detail, "webhook",
                event.event_id,
            )
        )  # fmt: skip
    seen = facts.sighting
    if seen is not None:
        entries.append(_polled(leg, seen.seen, "seen", seen.state or "", seen.context or ""))
    if facts.missing is not None:
        entries.append(_polled(leg, facts.missing, "missing"))
    if facts.gone is not None:
        entries.append(_polled(leg, facts.gone, "gone"))
    for cdr in facts.cdrs:
        told = f"{cdr.duration} s, {cdr.billsec} s billed"
        entries.append(
            TimelineEntry(
                stamp(cdr.calldate) or "", None, leg, "cdr", cdr.disposition or "", cdr.dst_name or "",
                cdr.context or "", cdr.t_cause or "", told, "cdr", str(cdr.id),
            )
        )  # fmt: skip
    for kind, table, column, ids in (
        ("recording", "monitors", "timestamp", [recording.id for recording in facts.recordings]),
        ("voicemail", "voicemessages", "origtime", [message.id for message in facts.voicemails]),
    ):
        for id_, at, duration in connection.execute(
            f"SELECT id, {column}, duration FROM {table} WHERE id IN (SELECT value FROM json_each(?))",
            (reading.ids_json(ids),),
        ):
            lasts = f"{duration} s" if duration is not None else ""
            entries.append(
                TimelineEntry(str(at or ""), None, leg, kind, "", "", "", "", lasts, kind, str(id_))
            )
    return entries


def _polled(leg: int, at: int, kind: str, state: str = "", context: str = "") -> TimelineEntry:
    return TimelineEntry(stamp(at) or "", None, leg, kind, state, "", context, "", "", "poll", "")
