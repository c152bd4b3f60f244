"""Named queries of the live page: open calls, who is free, who waits in which queue."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.core.ids import id_list

MAX_JUST_ENDED = 8


@dataclass(frozen=True, slots=True)
class LiveCallCounts:
    """Figures of the rail and the strip above the live list."""

    ringing: int = 0
    talking: int = 0
    on_hold: int = 0
    unconfirmed: int = 0

    @property
    def total(self) -> int:
        return self.ringing + self.talking + self.on_hold + self.unconfirmed


def count_live_calls(connection: sqlite3.Connection, user_scope: int | None = None) -> LiveCallCounts:
    """Open calls by state; 'dialling' counts as ringing, unconfirmed ones apart."""
    rows = connection.execute(
        "SELECT CASE WHEN unconfirmed THEN 'unconfirmed' WHEN state = 'dialling' THEN 'ringing'"
        " ELSE state END AS word, count(*) AS n FROM _calls"
        " WHERE state <> 'ended' AND (? IS NULL OR user_id = ?) GROUP BY word",
        (user_scope, user_scope),
    )
    count_by_state = {row["word"]: row["n"] for row in rows}
    return LiveCallCounts(
        **{state: count_by_state.get(state, 0) for state in ("ringing", "talking", "on_hold", "unconfirmed")}
    )


def list_live_calls(connection: sqlite3.Connection, user_scope: int | None = None) -> list[sqlite3.Row]:
    """Calls going on, longest first."""
    return connection.execute(
        "SELECT * FROM _calls WHERE state <> 'ended' AND (? IS NULL OR user_id = ?)"
        # The plus keeps SQLite from reading all calls in order instead of the few that are open.
        " ORDER BY +started_at, id",
        (user_scope, user_scope),
    ).fetchall()


def list_just_ended(connection: sqlite3.Connection, since: str, user_scope: int | None) -> list[sqlite3.Row]:
    """Calls that ended last, newest first; `since` (text UTC) bounds how far their start lies back."""
    return connection.execute(
        "SELECT * FROM _calls WHERE started_at >= ? AND state = 'ended' AND (? IS NULL OR user_id = ?)"
        " ORDER BY coalesce(ended_at, started_at) DESC, id DESC LIMIT ?",
        (since, user_scope, user_scope, MAX_JUST_ENDED),
    ).fetchall()


def find_call(connection: sqlite3.Connection, call_id: int) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute("SELECT * FROM _calls WHERE id = ?", (call_id,)).fetchone()
    return row


def count_visible_calls(connection: sqlite3.Connection, call_ids: list[int], user_id: int) -> int:
    """How many of these calls were this user's, or nobody's in particular (a group's)."""
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE id IN (SELECT value FROM json_each(?))"
        " AND (user_id = ? OR user_id IS NULL)",
        (id_list(call_ids), user_id),
    ).fetchone()
    return int(row[0])


def get_change_number(connection: sqlite3.Connection) -> str:
    """'<epoch>-<number>' of the newest change this snapshot holds: where a stream has to begin."""
    epoch = connection.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()
    number = connection.execute("SELECT coalesce(max(id), 0) FROM _changes").fetchone()[0]
    return f"{epoch['value'] if epoch else ''}-{number}"


@dataclass(frozen=True, slots=True)
class UserStatus:
    """One of the account's people. `state` is derived from calls we know, never told by the platform:
    idle, ringing, talking, on_hold, dnd. `since` is text UTC or None."""

    id: int
    name: str
    ext: str
    state: str
    since: str | None
    call_id: int | None


_STATE_RANK = {"talking": 3, "on_hold": 2, "ringing": 1, "dialling": 1}


def list_user_status(connection: sqlite3.Connection, since: str) -> list[UserStatus]:
    """Active people with what they are doing; `since` (text UTC) is how far back 'free since' looks."""
    call_by_user: dict[int, sqlite3.Row] = {}
    for row in connection.execute(
        "SELECT id, user_id, state, state_since FROM _calls"
        " WHERE state <> 'ended' AND unconfirmed = 0 AND user_id IS NOT NULL"
    ):
        other_call = call_by_user.get(row["user_id"])
        if other_call is None or _STATE_RANK.get(row["state"], 0) > _STATE_RANK.get(other_call["state"], 0):
            call_by_user[row["user_id"]] = row
    free_since = {
        row["user_id"]: row["at"]
        for row in connection.execute(
            # The plus keeps SQLite from reading all calls by person instead of the last ones by time.
            "SELECT user_id, max(ended_at) AS at FROM _calls"
            " WHERE started_at >= ? AND +user_id IS NOT NULL GROUP BY +user_id",
            (since,),
        )
    }
    statuses = []
    for user in connection.execute(
        "SELECT id, trim(coalesce(first_name, '') || ' ' || coalesce(last_name, '')) AS name, ext, dnd"
        " FROM users WHERE coalesce(active, 1) <> 0 AND _missing_since IS NULL"
        " ORDER BY name COLLATE NOCASE, id"
    ):
        current_call = call_by_user.get(user["id"])
        if current_call is not None:
            state = "ringing" if current_call["state"] == "dialling" else current_call["state"]
            state_since, call_id = current_call["state_since"], current_call["id"]
        else:
            state = "dnd" if user["dnd"] in (1, "1", "true") else "idle"
            # Since when somebody does not want to be disturbed is nowhere told.
            state_since, call_id = (None if state == "dnd" else free_since.get(user["id"])), None
        statuses.append(
            UserStatus(
                user["id"],
                user["name"] or f"User {user['id']}",
                str(user["ext"] or ""),
                state,
                state_since,
                call_id,
            )
        )
    return statuses


def list_queue_status(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Every queue: id, name, waiting (calls nobody answered yet), longest (text UTC of the first waiting)."""
    return connection.execute(
        "SELECT q.id AS id, q.name AS name, count(c.id) AS waiting, min(c.started_at) AS longest"
        " FROM queues q LEFT JOIN _calls c ON c.group_kind = 'queue' AND c.group_id = q.id"
        # The second condition says no more, but is the one that the index of open calls goes by.
        " AND c.state = 'ringing' AND c.state <> 'ended' AND c.unconfirmed = 0"
        " WHERE q._missing_since IS NULL GROUP BY q.id ORDER BY waiting DESC, q.name COLLATE NOCASE"
    ).fetchall()


def count_users_without_missed_call_log(connection: sqlite3.Connection) -> int:
    """How many people have `log_missed_calls` off: the platform keeps no CDR of a group's or queue's missed
    call for them. It stands in a user's own record only, so nobody counts before that was read."""
    row = connection.execute(
        "SELECT count(*) FROM users WHERE coalesce(active, 1) <> 0 AND _missing_since IS NULL"
        " AND CASE WHEN json_valid(_item) THEN json_extract(_item, '$.log_missed_calls') END"
        " IN (0, '0', 'false')"
    ).fetchone()
    return int(row[0])


def count_calls_without_webhook(connection: sqlite3.Connection, since: str) -> int:
    """Outside calls since `since` (text UTC) that records show but no webhook told."""
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE started_at >= ? AND direction <> 'internal'"
        " AND ',' || sources || ',' NOT LIKE '%,webhook,%'",
        (since,),
    ).fetchone()
    return int(row[0])
