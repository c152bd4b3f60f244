"""What is to be looked up on the platform soon: the CDR and recordings of a leg that ended, a recording
that was announced.

Look-backs find the same within a minute or so; look-ups only make it sooner, so they give up early.
`kind` is 'leg' (its CDRs and recordings, by live_id) or 'monitor' (a recording by its own id).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.core.ids import id_list
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
-- serves the scheduler: what is due, and when the next will be
CREATE INDEX IF NOT EXISTS _lookups_due ON _lookups (next_at) WHERE state = 'open';
-- serves the System page: calls that nothing was learnt about
CREATE INDEX IF NOT EXISTS _lookups_unlearnt ON _lookups (id) WHERE state = 'unlearnt';
-- serves look-backs: which legs ended lately
CREATE INDEX IF NOT EXISTS _lookups_wanted ON _lookups (wanted_at) WHERE kind = 'leg';
"""

LookupKind = Literal["leg", "monitor"]

RETRY_DELAYS: tuple[float, ...] = (2, 5, 15, 60, 300, 900, 3600, 21600, 59918)
"""Seconds before the first look-up of an ended leg, the second, and so on; the last comes after a day."""

LEG_COLLECTIONS = ("cdrs", "monitors")
"""What is asked for by the ids of legs."""

FRESH_SECONDS = 3600.0
"""So long after a leg's end a record of it may be listed any minute (promise P9)."""

MAX_CALL_SECONDS = 2 * 86400.0
"""No call lasts longer; a start before that is some clock's fault."""

MAX_RECORDING_TRIES = 6
"""Look-ups after which a connected leg with a CDR but no recording is taken not to be recorded. One that
comes later is announced, or found by the look-back."""

MAX_MONITOR_TRIES = 4


QUEUE = RetryQueue(
    "_lookups",
    key=("kind", "id"),
    gaps=RETRY_DELAYS,
    waiting="state = 'open'",
    columns="kind, id",
    order="next_at",
)

_DELAY_SQL = (
    f"CASE tries {' '.join(f'WHEN {n} THEN {gap}' for n, gap in enumerate(RETRY_DELAYS))}"
    f" ELSE {RETRY_DELAYS[-1]} END"
)
_IS_DELAYED = f"state = 'open' AND next_at > :now + 1 + {_DELAY_SQL}"


@dataclass(frozen=True, slots=True)
class DueLookup:
    kind: LookupKind
    id: int


def enqueue_leg(tx: Transaction, leg_id: int, ended_at: str) -> None:
    """The leg ended: `ended_at` (UTC text) is when, and only says whether the wait has already been long."""
    now = clock.unix()
    ended_time = clock.parse_utc(ended_at)
    delay = RETRY_DELAYS[0] if ended_time is None or abs(now - ended_time.timestamp()) < 60 else 0.0
    tx.execute(
        "INSERT OR IGNORE INTO _lookups (kind, id, wanted_at, next_at) VALUES ('leg', ?, ?, ?)",
        (leg_id, now, now + delay),
    )


def enqueue_recording(tx: Transaction, leg_id: int | None, monitor_id: int | None) -> None:
    """A recording can be fetched: look at once. Nothing to do where it is known already."""
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
            (leg_id, now, now, len(RETRY_DELAYS)),
        )


def due(connection: sqlite3.Connection, now: float, limit: int = 200) -> list[DueLookup]:
    """What to look up at `now` (Unix seconds), longest overdue first."""
    return [DueLookup(row["kind"], row["id"]) for row in QUEUE.due(connection, now, limit)]


def has_delayed_lookups(connection: sqlite3.Connection, now: float) -> bool:
    """Whether a look-up waits for longer than it ever should: the clock was set back since."""
    row = connection.execute(f"SELECT 1 FROM _lookups WHERE {_IS_DELAYED} LIMIT 1", {"now": now}).fetchone()
    return row is not None


def reset_delayed_lookups(tx: Transaction, now: float) -> None:
    """After the clock was set back: look-ups that would wait until it has caught up are due now."""
    tx.execute(
        f"UPDATE _lookups SET wanted_at = min(wanted_at, :now), next_at = :now WHERE {_IS_DELAYED}",
        {"now": now},
    )


def next_at(connection: sqlite3.Connection) -> float | None:
    """When the next look-up is due (Unix seconds); None where nothing is wanted."""
    return QUEUE.next_at(connection)


def find_recent_leg_start(connection: sqlite3.Connection, now: float) -> int | None:
    """The earliest start (Unix seconds) of the legs that ended within FRESH_SECONDS; None where none did.
    Their records are dated by it, and their ids may be lower than what was read since."""
    row = connection.execute(
        "SELECT min(started) FROM _legs WHERE started > ? AND leg_id IN "
        "(SELECT id FROM _lookups WHERE kind = 'leg' AND wanted_at > ?)",
        (now - MAX_CALL_SECONDS, now - FRESH_SECONDS),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def finish_lookups(tx: Transaction, lookups: Sequence[DueLookup], now: float) -> list[int]:
    """A look-up of `lookups` was answered and its records are stored: settle what is settled, arrange the
    rest. Returns the legs that became 'unlearnt': a day after their end there is no CDR of them."""
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
    """Whether a day went by after the end of one of these legs, and it had no CDR."""
    row = connection.execute(
        "SELECT 1 FROM _lookups WHERE state = 'unlearnt' AND kind = 'leg' "
        "AND id IN (SELECT value FROM json_each(?)) LIMIT 1",
        (id_list(leg_ids),),
    ).fetchone()
    return row is not None


def list_unresolved_calls(connection: sqlite3.Connection, since: float) -> list[int]:
    """Calls whose legs were told to have ended since `since` (Unix seconds), of none of which there is a CDR
    a day later; newest first."""
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
