"""Queries of the page of one call: legs, events and records."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.core.ids import id_list
from integration.mirror.page_queries.media_lists import MAILBOX_OWNER


@dataclass(frozen=True, slots=True)
class CallDetail:
    """All stored data of a call.

    `files` maps (kind, record id) to rows of `media`.
    """

    legs: list[sqlite3.Row]
    events: list[sqlite3.Row]
    cdrs: list[sqlite3.Row]
    recordings: list[sqlite3.Row]
    voicemails: list[sqlite3.Row]
    files: dict[tuple[str, int], sqlite3.Row]


def load_call_detail(connection: sqlite3.Connection, call_id: int) -> CallDetail:
    """Load the data of a call.

    `call_id` is the call's present id (see `history.find`).
    """
    call_legs = list_legs(connection, call_id)
    leg_ids = [leg["leg_id"] for leg in call_legs] or [call_id]
    recordings = _fetch_for_ids(
        connection, "SELECT * FROM monitors WHERE live_id IN ({}) ORDER BY timestamp, id", leg_ids
    )
    voicemails = _fetch_for_ids(
        connection,
        "SELECT * FROM voicemessages WHERE live_id IN ({0}) OR parent_live_id IN ({0}) ORDER BY origtime, id",
        # A message may name a root that has no leg.
        [*leg_ids, call_id],
    )
    files = {
        (row["kind"], row["record_id"]): row
        for kind, records in (("recording", recordings), ("voicemail", voicemails))
        for row in _fetch_for_ids(
            connection,
            f"SELECT * FROM media WHERE kind = '{kind}' AND record_id IN ({{}})",
            [record["id"] for record in records],
        )
    }
    return CallDetail(
        call_legs,
        _fetch_for_ids(
            connection,
            "SELECT * FROM _leg_events WHERE leg_id IN ({}) ORDER BY at, coalesce(micros, 0), event_id",
            leg_ids,
        ),
        _fetch_for_ids(connection, "SELECT * FROM cdrs WHERE live_id IN ({}) ORDER BY calldate, id", leg_ids),
        recordings,
        voicemails,
        files,
    )


def list_legs(connection: sqlite3.Connection, call_id: int) -> list[sqlite3.Row]:
    """Return the legs of a call by start.

    `call_id` is the call's present id.
    """
    return connection.execute(
        "SELECT * FROM _legs WHERE call_id = ? ORDER BY started, leg_id", (call_id,)
    ).fetchall()


def map_legs_to_calls(connection: sqlite3.Connection, call_ids: Sequence[int]) -> dict[int, int]:
    """Map the ids of these calls and their legs to call ids."""
    rows = _fetch_for_ids(connection, "SELECT leg_id, call_id FROM _legs WHERE call_id IN ({})", call_ids)
    return {**{call: call for call in call_ids}, **{row["leg_id"]: row["call_id"] for row in rows}}


def find_calls_of_audio(
    connection: sqlite3.Connection, table: str, record_ids: Sequence[int]
) -> dict[int, sqlite3.Row]:
    """Map ids of recordings (`monitors`) or voicemail (`voicemessages`) to their calls.

    The rows are those of `_calls` with `record_id`.
    """
    rows = connection.execute(
        f"SELECT r.id AS record_id, c.* FROM {table} AS r JOIN _legs AS l ON l.leg_id = r.live_id"
        " JOIN _calls AS c ON c.id = l.call_id WHERE r.id IN (SELECT value FROM json_each(?))",
        (id_list(record_ids),),
    )
    return {row["record_id"]: row for row in rows}


def load_view_of_calls(connection: sqlite3.Connection, call_ids: Sequence[int]) -> dict[int, sqlite3.Row]:
    """Return the rows of the view `v_calls` by id."""
    rows = _fetch_for_ids(connection, "SELECT * FROM v_calls WHERE id IN ({})", call_ids)
    return {row["id"]: row for row in rows}


def list_recordings(connection: sqlite3.Connection, call_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the ids of the recordings of calls, in order of time, by call id."""
    recordings: dict[int, list[int]] = {}
    for call_id, record_id in connection.execute(
        "SELECT l.call_id, r.id FROM json_each(?) AS ids JOIN _legs AS l ON l.call_id = ids.value"
        " JOIN monitors AS r ON r.live_id = +l.leg_id ORDER BY r.timestamp, r.id",
        (id_list(call_ids),),
    ):
        recordings.setdefault(call_id, []).append(record_id)
    return recordings


def load_view_of_legs(connection: sqlite3.Connection, call_id: int) -> list[sqlite3.Row]:
    """Return the rows of the view `v_legs` of a call, by start."""
    return connection.execute(
        "SELECT * FROM v_legs WHERE call_id = ? ORDER BY started_at, leg_id", (call_id,)
    ).fetchall()


def find_recording_user(connection: sqlite3.Connection, monitor_id: int) -> tuple[bool, int | None]:
    """Return (whether the recording exists, id of its platform user)."""
    return _find_user(connection, "SELECT user_id FROM monitors WHERE id = ?", monitor_id)


def find_voicemail_user(connection: sqlite3.Connection, message_id: int) -> tuple[bool, int | None]:
    """Return (whether the message exists, platform user of the mailbox)."""
    return _find_user(
        connection,
        f"SELECT u.id FROM voicemessages v LEFT JOIN users u ON {MAILBOX_OWNER} WHERE v.id = ?",
        message_id,
    )


def _find_user(connection: sqlite3.Connection, sql: str, record_id: int) -> tuple[bool, int | None]:
    row = connection.execute(sql, (record_id,)).fetchone()
    return (False, None) if row is None else (True, row[0])


def _fetch_for_ids(connection: sqlite3.Connection, sql: str, ids: Sequence[int]) -> list[sqlite3.Row]:
    """Return the rows for a list of ids, which replaces each `{}` or `{0}` in `sql`."""
    return connection.execute(sql.format("SELECT value FROM json_each(?1)"), (id_list(ids),)).fetchall()
