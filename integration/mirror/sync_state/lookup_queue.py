"""Queue of lookups: CDRs and recordings of ended legs, and announced recordings.

Incremental syncs read the same records about a minute later. Lookups only make them available earlier, so
the number of tries is small. `kind` is 'leg' (CDRs and recordings by live_id) or 'monitor' (a recording
by its id).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.core.ids import id_list
from integration.core.retry_delays import LOOKUPS
from integration.sqlite.retry_queue import RetryQueue
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _lookups (
    kind TEXT NOT NULL,
    id INTEGER NOT NULL,
    wanted_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_at REAL,
    state TEXT NOT NULL DEFAULT 'open',
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
-- serves the scheduler: due lookups and the time of the next one
CREATE INDEX IF NOT EXISTS _lookups_due ON _lookups (next_at) WHERE state = 'open';
-- serves the System page: calls without CDR
CREATE INDEX IF NOT EXISTS _lookups_unlearnt ON _lookups (id) WHERE state = 'unlearnt';
-- serves incremental syncs: legs that ended recently
CREATE INDEX IF NOT EXISTS _lookups_wanted ON _lookups (wanted_at) WHERE kind = 'leg';
"""

LookupKind = Literal["leg", "monitor"]

LEG_COLLECTIONS = ("cdrs", "monitors")
"""Collections requested by the ids of legs."""

FRESH_SECONDS = 3600.0
"""Seconds after a leg's end in which its records are expected (promise P9)."""

MAX_CALL_SECONDS = 2 * 86400.0
"""Longest duration of a call in seconds.

An earlier start is caused by a wrong clock.
"""

MAX_RECORDING_TRIES = 6
"""Lookups of a connected leg with a CDR but no recording.

After them the leg counts as not recorded. A later recording is announced by a webhook or read by an
incremental sync.
"""

MAX_MONITOR_TRIES = 4
"""Lookups of an announced recording."""


QUEUE = RetryQueue(
    "_lookups",
    key=("kind", "id"),
    delays=LOOKUPS,
    waiting="state = 'open'",
    columns="kind, id",
    order="next_at",
)

_DELAY_SQL = (
    f"CASE tries {' '.join(f'WHEN {n} THEN {gap}' for n, gap in enumerate(LOOKUPS))} ELSE {LOOKUPS[-1]} END"
)
_IS_DELAYED = f"state = 'open' AND next_at > :now + 1 + {_DELAY_SQL}"


@dataclass(frozen=True, slots=True)
class DueLookup:
    """A lookup to make: the leg or recording `id`."""

    kind: LookupKind
    id: int


def enqueue_leg(tx: Transaction, leg_id: int, ended_at: str) -> None:
    """Queue the lookup of an ended leg.

    If it ended within the last minute (`ended_at`, UTC text), the lookup waits LOOKUPS[0] seconds.
    Otherwise it is due immediately.
    """
    now = clock.unix()
    ended_time = clock.parse_utc(ended_at)
    delay = LOOKUPS[0] if ended_time is None or abs(now - ended_time.timestamp()) < 60 else 0.0
    tx.execute(
        "INSERT OR IGNORE INTO _lookups (kind, id, wanted_at, next_at) VALUES ('leg', ?, ?, ?)",
        (leg_id, now, now + delay),
    )


def enqueue_recording(tx: Transaction, leg_id: int | None, monitor_id: int | None) -> None:
    """Queue the lookup of an announced recording, due immediately.

    The recording is requested by `monitor_id`, or by `leg_id` if its id is unknown. A recording that is
    already stored is not requested.
    """
    now = clock.unix()
    if monitor_id is not None:
        if tx.execute("SELECT 1 FROM monitors WHERE id = ?", (monitor_id,)).fetchone() is None:
            tx.execute(
                "INSERT OR IGNORE INTO _lookups (kind, id, wanted_at, next_at) VALUES ('monitor', ?, ?, ?)",
                (monitor_id, now, now),
            )
    elif leg_id is not None:
        tx.execute(
            "INSERT INTO _lookups (kind, id, wanted_at, next_at) VALUES ('leg', ?, ?, ?) "
            "ON CONFLICT (kind, id) DO UPDATE SET next_at = excluded.next_at, state = 'open' "
            "WHERE tries < ?",
            (leg_id, now, now, len(LOOKUPS)),
        )


def due(connection: sqlite3.Connection, now: float, limit: int = 200) -> list[DueLookup]:
    """Return the lookups due at `now` (Unix seconds), longest overdue first."""
    return [DueLookup(row["kind"], row["id"]) for row in QUEUE.due(connection, now, limit)]


def has_delayed_lookups(connection: sqlite3.Connection, now: float) -> bool:
    """Return whether a lookup is delayed because the clock was set back."""
    row = connection.execute(f"SELECT 1 FROM _lookups WHERE {_IS_DELAYED} LIMIT 1", {"now": now}).fetchone()
    return row is not None


def reset_delayed_lookups(tx: Transaction, now: float) -> None:
    """Make lookups due that are delayed by a clock set back."""
    tx.execute(
        f"UPDATE _lookups SET wanted_at = min(wanted_at, :now), next_at = :now WHERE {_IS_DELAYED}",
        {"now": now},
    )


def next_at(connection: sqlite3.Connection) -> float | None:
    """Return when the next lookup is due (Unix seconds), or None."""
    return QUEUE.next_at(connection)


def find_recent_leg_start(connection: sqlite3.Connection, now: float) -> int | None:
    """Return the earliest start of recently ended legs, or None.

    The result is in Unix seconds, for legs that ended within FRESH_SECONDS. The records of these legs are
    dated by the start, and their ids can be below the high-water mark.
    """
    row = connection.execute(
        "SELECT min(started) FROM _legs WHERE started BETWEEN ? AND ? AND leg_id IN "
        "(SELECT id FROM _lookups WHERE kind = 'leg' AND wanted_at > ?)",
        (now - MAX_CALL_SECONDS, now, now - FRESH_SECONDS),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def finish_lookups(tx: Transaction, lookups: Sequence[DueLookup], now: float) -> list[int]:
    """Finish or reschedule `lookups` whose responses are stored.

    Returns the legs that changed to state 'unlearnt': they have no CDR a day after their end.
    """
    leg_ids = [lookup.id for lookup in lookups if lookup.kind == "leg"]
    monitor_ids = [lookup.id for lookup in lookups if lookup.kind == "monitor"]
    with_cdr = _fetch_by_leg(tx, "SELECT live_id, max(coalesce(billsec, 0) > 0) FROM cdrs", leg_ids)
    recorded_leg_ids = _fetch_by_leg(tx, "SELECT live_id, 1 FROM monitors", leg_ids)
    unresolved_ids = []
    for leg_id, tries in _fetch_tries(tx, "leg", leg_ids):
        if leg_id in with_cdr and (
            leg_id in recorded_leg_ids or not with_cdr[leg_id] or tries + 1 >= MAX_RECORDING_TRIES
        ):
            QUEUE.finish(tx, ("leg", leg_id), tries + 1, state="done")
        elif not QUEUE.fail(tx, ("leg", leg_id), tries + 1, now):
            QUEUE.finish(tx, ("leg", leg_id), tries + 1, state="done" if leg_id in with_cdr else "unlearnt")
            if leg_id not in with_cdr:
                unresolved_ids.append(leg_id)
    stored_monitor_ids = {
        row[0]
        for row in tx.execute(
            "SELECT id FROM monitors WHERE id IN (SELECT value FROM json_each(?))", (id_list(monitor_ids),)
        )
    }
    for monitor_id, tries in _fetch_tries(tx, "monitor", monitor_ids):
        key = ("monitor", monitor_id)
        if monitor_id in stored_monitor_ids or tries + 1 >= MAX_MONITOR_TRIES:
            QUEUE.finish(tx, key, tries + 1, state="done" if monitor_id in stored_monitor_ids else "unlearnt")
        else:
            QUEUE.fail(tx, key, tries + 1, now)
    return unresolved_ids


def has_unresolved(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> bool:
    """Return whether one of the legs had no CDR after a day."""
    row = connection.execute(
        "SELECT 1 FROM _lookups WHERE state = 'unlearnt' AND kind = 'leg' "
        "AND id IN (SELECT value FROM json_each(?)) LIMIT 1",
        (id_list(leg_ids),),
    ).fetchone()
    return row is not None


def list_unresolved_calls(connection: sqlite3.Connection, since: float) -> list[int]:
    """Return the calls without any CDR after a day, newest first.

    Only calls with a leg that ended after `since` (Unix seconds, time of the report).
    """
    rows = connection.execute(
        "SELECT DISTINCT c.id FROM _lookups AS u JOIN _legs AS l ON l.leg_id = u.id "
        "JOIN _calls AS c ON c.id = l.call_id "
        "WHERE u.kind = 'leg' AND u.state = 'unlearnt' AND u.wanted_at > ? AND c.cdrs = 0 ORDER BY c.id DESC",
        (since,),
    )
    return [row[0] for row in rows]


def _fetch_by_leg(tx: Transaction, select: str, leg_ids: list[int]) -> dict[int, int]:
    rows = tx.execute(
        f"{select} WHERE live_id IN (SELECT value FROM json_each(?)) GROUP BY live_id",
        (id_list(leg_ids),),
    )
    return {row[0]: row[1] for row in rows}


def _fetch_tries(tx: Transaction, kind: LookupKind, ids: list[int]) -> list[tuple[int, int]]:
    rows = tx.execute(
        "SELECT id, tries FROM _lookups WHERE kind = ? AND state = 'open' "
        "AND id IN (SELECT value FROM json_each(?))",
        (kind, id_list(ids)),
    )
    return [(row["id"], row["tries"]) for row in rows]
