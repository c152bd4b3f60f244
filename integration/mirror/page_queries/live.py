"""Queries of the live page: live calls, status of users and queues."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta

from integration.core import clock
from integration.core.ids import id_list, parse_id
from integration.core.json_records import read_record
from integration.mirror.page_queries.history import IS_CALL_OF_ID
from integration.mirror.records.rows import build_name_sql

LONGEST_CALL = timedelta(hours=12)
"""Maximum duration of calls that are found by their end, because indexes have the start."""
MAX_JUST_ENDED = 8
"""Largest number of calls that `list_just_ended` returns."""


@dataclass(frozen=True, slots=True)
class LiveCallCounts:
    """Numbers of live calls by state, for navigation and live page."""

    ringing: int = 0
    dialling: int = 0
    talking: int = 0
    on_hold: int = 0
    unconfirmed: int = 0

    @property
    def total(self) -> int:
        """Number of live calls."""
        return self.ringing + self.dialling + self.talking + self.on_hold + self.unconfirmed


def count_live_calls(connection: sqlite3.Connection, user_scope: int | None = None) -> LiveCallCounts:
    """Count live calls by state.

    Unconfirmed calls are counted separately.
    """
    rows = connection.execute(
        "SELECT iif(unconfirmed, 'unconfirmed', state) AS label, count(*) AS n FROM _calls"
        " WHERE state <> 'ended' AND (? IS NULL OR user_id = ?) GROUP BY label",
        (user_scope, user_scope),
    )
    return LiveCallCounts(**{row["label"]: row["n"] for row in rows})


def list_live_calls(connection: sqlite3.Connection, user_scope: int | None = None) -> list[sqlite3.Row]:
    """Return the live calls, longest first."""
    return connection.execute(
        "SELECT * FROM _calls WHERE state <> 'ended' AND (? IS NULL OR user_id = ?)"
        # With the plus SQLite reads the few live calls and sorts them, instead of all calls in order.
        " ORDER BY +started_at, id",
        (user_scope, user_scope),
    ).fetchall()


def list_just_ended(connection: sqlite3.Connection, since: str, user_scope: int | None) -> list[sqlite3.Row]:
    """Return the calls that ended last, newest first.

    Calls that started before `since` (UTC text) are excluded.
    """
    return connection.execute(
        "SELECT * FROM _calls WHERE started_at >= ? AND state = 'ended' AND (? IS NULL OR user_id = ?)"
        " ORDER BY coalesce(ended_at, started_at) DESC, id DESC LIMIT ?",
        (since, user_scope, user_scope, MAX_JUST_ENDED),
    ).fetchall()


def find_call(connection: sqlite3.Connection, call_id: int) -> sqlite3.Row | None:
    """Return the call with this present id, or None."""
    row: sqlite3.Row | None = connection.execute("SELECT * FROM _calls WHERE id = ?", (call_id,)).fetchone()
    return row


def select_calls(
    connection: sqlite3.Connection, call_ids: list[int], queue_id: int | None, line: str
) -> set[int]:
    """Return those of `call_ids` that belong to a queue and a number.

    Ids may be former ids of calls. `queue_id` None and `line` "" (else E.164) do not limit the calls.
    """
    rows = connection.execute(
        f"SELECT ids.value AS id FROM json_each(:ids) AS ids JOIN _calls AS c ON {IS_CALL_OF_ID}"
        " WHERE (:queue IS NULL OR c.group_kind = 'queue' AND c.group_id = :queue)"
        " AND (:line = '' OR :line IN (c.our_e164, c.our_number))",
        {"ids": id_list(call_ids), "queue": queue_id, "line": line},
    )
    return {row["id"] for row in rows}


def find_queue_users(connection: sqlite3.Connection, queue_id: int) -> frozenset[int] | None:
    """Return the users who are logged in to a queue.

    Users without a state count as logged in. None if the queue's record does not list its users.
    """
    row = connection.execute("SELECT _doc, _item FROM queues WHERE id = ?", (queue_id,)).fetchone()
    values = {name: value for text in row or () if text for name, value in read_record(text).values.items()}
    users = values.get("users")
    if not isinstance(users, list):
        return None
    states = (user if isinstance(user, dict) else {"id": user} for user in users)
    present = (str(state.get("id")) for state in states if state.get("status") not in (False, 0))
    return frozenset(user_id for text in present if (user_id := parse_id(text)))


def get_change_number(connection: sqlite3.Connection) -> str:
    """Return '<epoch>-<number>' of the newest change: the start of a live stream.

    Callers must read the content of the page in the same snapshot, or the stream misses changes.
    """
    epoch = connection.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()
    number = connection.execute("SELECT coalesce(max(id), 0) FROM _changes").fetchone()[0]
    return f"{epoch['value'] if epoch else ''}-{number}"


@dataclass(frozen=True, slots=True)
class UserStatus:
    """Platform user with a state: idle, ringing, dialling, talking, on_hold or dnd.

    The platform does not report the state; it is derived from stored calls and the user's `dnd`. `since` is
    UTC text or None.
    """

    id: int
    name: str
    ext: str
    state: str
    since: str | None
    call_id: int | None


_STATE_RANK = {"talking": 3, "on_hold": 2, "ringing": 1, "dialling": 1}


def list_user_status(connection: sqlite3.Connection, since: str) -> list[UserStatus]:
    """Return the status of all active users, sorted by name.

    Calls that started before `since` (UTC text) are not considered for the time since which a user is free.
    """
    # The party of an internal call is the extension of the other user.
    call_by_user: dict[int | str, sqlite3.Row] = {}
    for row in connection.execute(
        "SELECT id, user_id, iif(direction = 'internal', party, NULL) AS ext, state, state_since FROM _calls"
        " WHERE state <> 'ended' AND unconfirmed = 0"
    ):
        for user_or_ext in (row["user_id"], row["ext"]):
            other_call = call_by_user.get(user_or_ext)
            if user_or_ext is not None and (
                other_call is None
                or _STATE_RANK.get(row["state"], 0) > _STATE_RANK.get(other_call["state"], 0)
            ):
                call_by_user[user_or_ext] = row
    free_since = {
        row["user_or_ext"]: row["at"]
        for row in connection.execute(
            # With the plus SQLite reads the recent calls by time, instead of all calls by user.
            "SELECT +user_id AS user_or_ext, max(ended_at) AS at FROM _calls"
            " WHERE started_at >= :since AND +user_id IS NOT NULL GROUP BY 1 UNION ALL"
            " SELECT party, max(ended_at) FROM _calls"
            " WHERE started_at >= :since AND direction = 'internal' GROUP BY 1",
            {"since": since},
        )
    }
    statuses = []
    for user in connection.execute(
        f"SELECT id, {build_name_sql('users')} AS name, ext, dnd"
        " FROM users WHERE coalesce(active, 1) <> 0 AND _missing_since IS NULL"
        " ORDER BY name COLLATE NOCASE, id"
    ):
        ext = str(user["ext"] or "")
        current_call = call_by_user.get(user["id"]) or (call_by_user.get(ext) if ext else None)
        if current_call is not None:
            state, state_since, call_id = (current_call[name] for name in ("state", "state_since", "id"))
        else:
            state = "dnd" if user["dnd"] in (1, "1", "true") else "idle"
            # The platform does not report the start of "do not disturb".
            ends = [at for key in (user["id"], ext) if key and (at := free_since.get(key))]
            state_since, call_id = (None if state == "dnd" else max(ends, default=None)), None
        statuses.append(
            UserStatus(
                user["id"],
                user["name"] or f"User {user['id']}",
                ext,
                state,
                state_since,
                call_id,
            )
        )
    return statuses


def find_last_talk(connection: sqlite3.Connection, user_id: int, since: str) -> sqlite3.Row | None:
    """Return the last answered external call of a user.

    None unless it ended since `since` (UTC text).
    """
    row: sqlite3.Row | None = connection.execute(
        # As for free users, SQLite shall read the recent calls by time.
        "SELECT * FROM _calls WHERE started_at >= :started AND +user_id = :user AND state = 'ended'"
        " AND outcome = 'answered' AND ended_at >= :since ORDER BY ended_at DESC, id DESC LIMIT 1",
        {"started": clock.utc_text(clock.now() - LONGEST_CALL), "user": user_id, "since": since},
    ).fetchone()
    return row


def count_by_slot(
    connection: sqlite3.Connection, since: int, seconds: int, user_scope: int | None = None
) -> dict[int, tuple[int, int, int]]:
    """Count external calls since a Unix time in slots of `seconds`.

    Returns (calls, missed, voicemail) by the number of the slot. Slots without calls are omitted.
    """
    scope = "" if user_scope is None else " AND user_id = :user"
    rows = connection.execute(
        "SELECT (CAST(strftime('%s', started_at) AS INTEGER) - :since) / :seconds AS slot, count(*),"
        " sum(outcome IS 'missed'), sum(outcome IS 'voicemail') FROM _calls"
        f" WHERE started_at >= :text AND direction <> 'internal'{scope} GROUP BY slot",
        {"since": since, "seconds": seconds, "text": clock.utc_text(since), "user": user_scope},
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def list_queue_status(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the queues on the platform, most waiting calls first.

    Columns: id, name, waiting (number of ringing calls), longest (UTC text, start of the first ringing call).
    """
    return connection.execute(
        "SELECT q.id AS id, q.name AS name, count(c.id) AS waiting, min(c.started_at) AS longest"
        " FROM queues q LEFT JOIN _calls c ON c.group_kind = 'queue' AND c.group_id = q.id"
        # The second condition on `state` is redundant, but SQLite requires it to use the index of open calls.
        " AND c.state = 'ringing' AND c.state <> 'ended' AND c.unconfirmed = 0"
        " WHERE q._missing_since IS NULL GROUP BY q.id ORDER BY waiting DESC, q.name COLLATE NOCASE"
    ).fetchall()


def list_users_without_missed_call_log(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return id and name of the active users whose setting `log_missed_calls` is off.

    The platform stores no CDR of missed group and queue calls for these users. Only a user's own record
    (`_item`) has the setting, so users whose record was not read yet are not listed.
    """
    return connection.execute(
        f"SELECT id, coalesce({build_name_sql('users')}, 'User ' || id) AS name FROM users"
        " WHERE coalesce(active, 1) <> 0 AND _missing_since IS NULL"
        " AND CASE WHEN json_valid(_item) THEN json_extract(_item, '$.log_missed_calls') END"
        " IN (0, '0', 'false') ORDER BY name COLLATE NOCASE"
    ).fetchall()


def count_calls_without_webhook(connection: sqlite3.Connection, since: str) -> int:
    """Count the external calls since `since` (UTC text) without a webhook."""
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE started_at >= ? AND direction <> 'internal'"
        " AND ',' || sources || ',' NOT LIKE '%,webhook,%'",
        (since,),
    ).fetchone()
    return int(row[0])
