"""Named queries of one call's page: its legs, its events, and the records that belong to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything we hold of a call. `files` is (kind, record id) → row of `media`."""

    legs: list[sqlite3.Row]
    events: list[sqlite3.Row]
    cdrs: list[sqlite3.Row]
    recordings: list[sqlite3.Row]
    voicemails: list[sqlite3.Row]
    files: dict[tuple[str, int], sqlite3.Row]


def whole(connection: sqlite3.Connection, call_id: int) -> Whole:
    """`call_id` is the call's present id (see `history.find`)."""
    found = legs(connection, call_id)
    ids = [leg["leg_id"] for leg in found] or [call_id]
    recordings = _of(connection, "SELECT * FROM monitors WHERE live_id IN ({}) ORDER BY timestamp, id", ids)
    voicemails = _of(
        connection,
        "SELECT * FROM voicemessages WHERE live_id IN ({0}) OR parent_live_id IN ({0}) ORDER BY origtime, id",
        ids,
    )
    files = {
        (row["kind"], row["record_id"]): row
        for kind, records in (("recording", recordings), ("voicemail", voicemails))
        for row in _of(
            connection,
            f"SELECT * FROM media WHERE kind = '{kind}' AND record_id IN ({{}})",
            [record["id"] for record in records],
        )
    }
    return Whole(
        found,
        _of(
            connection,
            "SELECT * FROM _leg_events WHERE leg_id IN ({}) ORDER BY at, coalesce(micros, 0), event_id",
            ids,
        ),
        _of(connection, "SELECT * FROM cdrs WHERE live_id IN ({}) ORDER BY calldate, id", ids),
        recordings,
        voicemails,
        files,
    )


def legs(connection: sqlite3.Connection, call_id: int) -> list[sqlite3.Row]:
    """In the order they began; `call_id` is the call's present id."""
    return connection.execute(
        "SELECT * FROM _legs WHERE call_id = ? ORDER BY started, leg_id", (call_id,)
    ).fetchall()


def calls_of_legs(connection: sqlite3.Connection, call_ids: Sequence[int]) -> dict[int, int]:
    """Leg id → call id, of all legs of these calls, and of each call's own id."""
    rows = _of(connection, "SELECT leg_id, call_id FROM _legs WHERE call_id IN ({})", call_ids)
    return {**{call: call for call in call_ids}, **{row["leg_id"]: row["call_id"] for row in rows}}


def user_of_recording(connection: sqlite3.Connection, monitor_id: int) -> tuple[bool, int | None]:
    """(whether there is such a recording, the platform user whose call it was)."""
    return _user(connection, "SELECT user_id FROM monitors WHERE id = ?", monitor_id)


def user_of_voicemail(connection: sqlite3.Connection, message_id: int) -> tuple[bool, int | None]:
    """(whether there is such a message, the platform user whose extension it was left at)."""
    return _user(
        connection,
        "SELECT u.id FROM voicemessages v LEFT JOIN users u ON u.ext = CAST(v.extension_id AS TEXT)"
        " OR u.id = v.extension_id WHERE v.id = ?",
        message_id,
    )


def _user(connection: sqlite3.Connection, sql: str, number: int) -> tuple[bool, int | None]:
    row = connection.execute(sql, (number,)).fetchone()
    return (False, None) if row is None else (True, row[0])


def _of(connection: sqlite3.Connection, sql: str, ids: Sequence[int]) -> list[sqlite3.Row]:
    """Rows for a list of ids; each `{}` of `sql` becomes its question marks."""
    if not ids:
        return []
    marks = ", ".join(f"?{n}" for n in range(1, len(ids) + 1))
    return connection.execute(sql.replace("{}", marks).replace("{0}", marks), list(ids)).fetchall()
