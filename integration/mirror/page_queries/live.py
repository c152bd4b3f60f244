"""Named queries of the live page: open calls, who is free, who waits in which queue."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

OPEN = "state <> 'ended'"


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures of the rail and the strip above the live list."""

    ringing: int = 0
    talking: int = 0
    on_hold: int = 0
    unconfirmed: int = 0

    @property
    def open(self) -> int:
        return self.ringing + self.talking + self.on_hold + self.unconfirmed


def counts(connection: sqlite3.Connection, only_user: int | None = None) -> Counts:
    """Open calls by state; 'dialling' counts as ringing, unconfirmed ones apart."""
    rows = connection.execute(
        "SELECT CASE WHEN unconfirmed THEN 'unconfirmed' WHEN state = 'dialling' THEN 'ringing'"
        " ELSE state END AS word, count(*) AS n FROM _calls"
        " WHERE state <> 'ended' AND (? IS NULL OR user_id = ?) GROUP BY word",
        (only_user, only_user),
    )
    found = {row["word"]: row["n"] for row in rows}
    return Counts(**{word: found.get(word, 0) for word in ("ringing", "talking", "on_hold", "unconfirmed")})


def open_calls(connection: sqlite3.Connection, only_user: int | None = None) -> list[sqlite3.Row]:
    """Calls going on, longest first."""
    return connection.execute(
        "SELECT * FROM _calls WHERE state <> 'ended' AND (? IS NULL OR user_id = ?)"
        # The plus keeps SQLite from reading all calls in order instead of the few that are open.
        " ORDER BY +started_at, id",
        (only_user, only_user),
    ).fetchall()


def just_ended(
    connection: sqlite3.Connection, since: str, only_user: int | None = None, limit: int = 8
) -> list[sqlite3.Row]:
    """Calls that ended last, newest first; `since` (text UTC) bounds how far their start lies back."""
    return connection.execute(
        "SELECT * FROM _calls WHERE started_at >= ? AND state = 'ended' AND (? IS NULL OR user_id = ?)"
        " ORDER BY coalesce(ended_at, started_at) DESC, id DESC LIMIT ?",
        (since, only_user, only_user, limit),
    ).fetchall()


def call(connection: sqlite3.Connection, call_id: int) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute("SELECT * FROM _calls WHERE id = ?", (call_id,)).fetchone()
    return row


def count_theirs(connection: sqlite3.Connection, call_ids: list[int], user_id: int) -> int:
    """How many of these calls were this user's, or nobody's in particular (a group's)."""
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE id IN (SELECT value FROM json_each(?))"
        " AND (user_id = ? OR user_id IS NULL)",
        (json.dumps(call_ids), user_id),
    ).fetchone()
    return int(row[0])


def change_number(connection: sqlite3.Connection) -> str:
    """'<epoch>-<number>' of the newest change this snapshot holds: where a stream has to begin."""
    epoch = connection.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()
    number = connection.execute("SELECT coalesce(max(id), 0) FROM _changes").fetchone()[0]
    return f"{epoch['value'] if epoch else ''}-{number}"


@dataclass(frozen=True, slots=True)
class PersonNow:
    """One of the account's people. `state` is derived from calls we know, never told by the platform:
    idle, ringing, talking, on_hold, dnd. `since` is text UTC or None."""

    id: int
    name: str
    ext: str
    state: str
    since: str | None
    call_id: int | None


_RANK = {"talking": 3, "on_hold": 2, "ringing": 1, "dialling": 1}


def people_now(connection: sqlite3.Connection, since: str) -> list[PersonNow]:
    """Active people with what they are doing; `since` (text UTC) is how far back 'free since' looks."""
    busy: dict[int, sqlite3.Row] = {}
    for row in connection.execute(
        "SELECT id, user_id, state, state_since FROM _calls"
        " WHERE state <> 'ended' AND unconfirmed = 0 AND user_id IS NOT NULL"
    ):
        known = busy.get(row["user_id"])
        if known is None or _RANK.get(row["state"], 0) > _RANK.get(known["state"], 0):
            busy[row["user_id"]] = row
    free = {
        row["user_id"]: row["at"]
        for row in connection.execute(
            # The plus keeps SQLite from reading all calls by person instead of the last ones by time.
            "SELECT user_id, max(ended_at) AS at FROM _calls"
            " WHERE started_at >= ? AND +user_id IS NOT NULL GROUP BY +user_id",
            (since,),
        )
    }
    people = []
    for user in connection.execute(
        "SELECT id, trim(coalesce(first_name, '') || ' ' || coalesce(last_name, '')) AS name, ext, dnd"
        " FROM users WHERE coalesce(active, 1) <> 0 AND _missing_since IS NULL"
        " ORDER BY name COLLATE NOCASE, id"
    ):
        now = busy.get(user["id"])
        if now is not None:
            state = "ringing" if now["state"] == "dialling" else now["state"]
            moment, call_id = now["state_since"], now["id"]
        else:
            state = "dnd" if user["dnd"] in (1, "1", "true") else "idle"
            # Since when somebody does not want to be disturbed is nowhere told.
            moment, call_id = (None if state == "dnd" else free.get(user["id"])), None
        people.append(
            PersonNow(
                user["id"],
                user["name"] or f"User {user['id']}",
                str(user["ext"] or ""),
                state,
                moment,
                call_id,
            )
        )
    return people


def queues_now(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Every queue: id, name, waiting (calls nobody answered yet), longest (text UTC of the first waiting)."""
    return connection.execute(
        "SELECT q.id AS id, q.name AS name, count(c.id) AS waiting, min(c.started_at) AS longest"
        " FROM queues q LEFT JOIN _calls c ON c.group_kind = 'queue' AND c.group_id = q.id"
        # The second condition says no more, but is the one that the index of open calls goes by.
        " AND c.state = 'ringing' AND c.state <> 'ended' AND c.unconfirmed = 0"
        " WHERE q._missing_since IS NULL GROUP BY q.id ORDER BY waiting DESC, q.name COLLATE NOCASE"
    ).fetchall()


def people_whose_group_misses_are_hidden(connection: sqlite3.Connection) -> int:
    """How many people have `log_missed_calls` off: the platform keeps no CDR of a group's or queue's missed
    call for them. It stands in a user's own record only, so nobody counts before that was read."""
    row = connection.execute(
        "SELECT count(*) FROM users WHERE coalesce(active, 1) <> 0 AND _missing_since IS NULL"
        " AND CASE WHEN json_valid(_item) THEN json_extract(_item, '$.log_missed_calls') END"
        " IN (0, '0', 'false')"
    ).fetchone()
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Freshness:
    """When call records were last read (text UTC; None: never), and why not since (None: all is well)."""

    last_success_at: str | None
    last_error: str | None
    last_error_at: str | None


def freshness(connection: sqlite3.Connection) -> Freshness:
    """Of the CDRs, which settle everything else; `walks.state_of` counts rows, too slow for every page."""
    row = connection.execute(
        "SELECT last_success_at, last_error, last_error_at FROM _walks WHERE collection = 'cdrs'"
    ).fetchone()
    return Freshness(*row) if row is not None else Freshness(None, None, None)


def untold_calls(connection: sqlite3.Connection, since: str) -> int:
    """Outside calls since `since` (text UTC) that records show but no webhook told."""
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE started_at >= ? AND direction <> 'internal'"
        " AND ',' || sources || ',' NOT LIKE '%,webhook,%'",
        (since,),
    ).fetchone()
    return int(row[0])
