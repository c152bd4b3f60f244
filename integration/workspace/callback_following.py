"""Update the call-back list from the calls in mirror.db."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from integration.core import clock
from integration.core.ids import MAX_ID, id_list
from integration.core.number_variants import ERASED
from integration.core.phone_numbers import is_withheld
from integration.mirror.derived import due
from integration.mirror.derived.declaration import JOIN_RANGES, Range, to_json
from integration.mirror.derived.followed_by_app_db import CALLBACKS
from integration.mirror.page_queries.history import ESTIMATED_START, build_call_id_sql
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from integration.workspace import callbacks
from integration.workspace.callback_items import (
    MISSED_KINDS,
    REACHED,
    WITHHELD_PREFIX,
    CallbackCall,
    recompute_items,
)

BATCH_SIZE = 1000
"""Number of changed calls of one transaction."""
_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"
INITIAL_PERIOD_SECONDS = 7 * 86_400
"""Age in seconds above which missed calls at the first start of an installation create no items."""


START_MARGIN_SECONDS = 86_400
"""Seconds before the newest listed call, from which a start computes the list again."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Calls of the affected `parties`.

    `mirrored_ids` are the ids of listed calls that mirror.db has; `merged_ids` maps the ids of merged calls
    to the remaining ones.
    """

    parties: frozenset[str]
    calls: tuple[CallbackCall, ...]
    mirrored_ids: frozenset[int]
    merged_ids: dict[int, int]

    @property
    def has_effect(self) -> bool:
        """False if the batch changes no item of the list.

        Such batches are not committed: an initial sync of a million CDRs has hundreds.
        """
        return bool(self.parties or self.merged_ids)


def mark_unlisted_calls(app_db: Database, mirror_db: Database) -> None:
    """Record the calls after the newest listed one as due.

    house.db may be an older copy, without calls that an earlier one has listed.
    """
    with app_db.read() as connection:
        row = connection.execute("SELECT since FROM callback_start").fetchone()
        newest = clock.parse_utc(connection.execute("SELECT max(at) FROM callback_calls").fetchone()[0])
    if row is None:
        return
    since = str(row[0])
    if newest is not None:
        since = max(since, clock.utc_text(newest.timestamp() - START_MARGIN_SECONDS))
    with mirror_db.read() as connection:
        sql = "SELECT min(id) FROM _calls WHERE started_at >= ?"
        (first,) = connection.execute(sql, (since,)).fetchone()
    if first is not None:
        mirror_db.write(lambda tx: due.mark(tx, CALLBACKS.name, [(first, MAX_ID)]))


def update_and_announce(app_db: Database, mirror_db: Database, callback_seconds: int) -> None:
    """Apply changes of calls, and announce a changed list to open pages."""
    # The change of the mirror was announced before the list was updated.
    update_from_mirror(
        app_db, mirror_db, callback_seconds, lambda: mirror_db.write(lambda tx: tx.announce("callback", 0))
    )


def update_from_mirror(
    app_db: Database,
    mirror_db: Database,
    callback_seconds: int = 15,
    announce_change: Callable[[], object] = lambda: None,
) -> int:
    """Apply the calls that are due.

    Returns the number of processed callers.

    The update is idempotent and can be interrupted: calls stay due until house.db has them.
    `callback_seconds` is the shortest talk time in seconds of an outbound call that counts as a call-back,
    because mailboxes answer calls too. `announce_change` is called after each commit that changed the open
    list.
    """
    updated, since = 0, ""
    while _is_due(mirror_db):
        since = since or app_db.write(_load_start)
        ranges = mirror_db.write(lambda tx: due.take_for_other_database(tx, CALLBACKS, BATCH_SIZE))
        with mirror_db.read() as mirror_connection, app_db.read() as app_connection:
            batch = _read_batch(mirror_connection, app_connection, ranges, since, callback_seconds)
        if batch.has_effect:
            if app_db.write(lambda tx, batch=batch: _apply_batch(tx, batch)):  # type: ignore[misc]
                announce_change()
            updated += len(batch.parties)
        mirror_db.write(lambda tx: due.finish(tx, CALLBACKS))
    return updated


def _is_due(mirror_db: Database) -> bool:
    with mirror_db.read() as connection:
        return due.is_due(connection, CALLBACKS)


def _load_start(tx: Transaction) -> str:
    """Return the time from which missed calls create items (UTC text)."""
    row = tx.execute("SELECT since FROM callback_start").fetchone()
    if row is not None:
        return str(row[0])
    since = clock.utc_text(clock.unix() - INITIAL_PERIOD_SECONDS)
    tx.execute("INSERT INTO callback_start VALUES (0, ?)", (since,))
    return since


def _read_batch(
    mirror_connection: sqlite3.Connection,
    app_connection: sqlite3.Connection,
    ranges: Sequence[Range],
    since: str,
    callback_seconds: int,
) -> _Batch:
    due_ranges = to_json(ranges)
    rows = mirror_connection.execute(
        f"SELECT c.id, c.outcome, coalesce(c.party_e164, c.party) AS party, {ESTIMATED_START} AS at"
        f" FROM {JOIN_RANGES.format(table='_calls AS c', key='c.id')}",
        (due_ranges,),
    ).fetchall()
    listed_parties = _fetch_pairs(
        app_connection,
        f"SELECT k.call_id, k.party FROM {JOIN_RANGES.format(table='callback_calls AS k', key='k.call_id')}",
        due_ranges,
    )
    parties = set(listed_parties.values())
    # Earlier versions listed several callers under one name. Their calls stay in that item.
    shared_items = {call_id: party for call_id, party in listed_parties.items() if is_withheld(party)}
    parties |= {
        row["party"] or shared_items.get(row["id"]) or f"{WITHHELD_PREFIX}{row['id']}"
        for row in rows
        if row["outcome"] in MISSED_KINDS and (row["at"] or "") >= since and row["party"] != ERASED
    }
    # Older calls change no item; an initial sync has thousands for each call that does.
    recent_parties = {row["party"] for row in rows if row["party"] and (row["at"] or "") >= since}
    parties |= _fetch_pairs(
        app_connection,
        f"SELECT party, 1 FROM callback_calls WHERE party {_IN_JSON_LIST}",
        id_list(sorted(recent_parties - parties)),
    ).keys()
    parties_json = id_list(sorted(parties))
    first_missed_at = _fetch_pairs(
        app_connection,
        "SELECT party, min(at) FROM callback_calls WHERE kind <> 'reached'"
        f" AND party {_IN_JSON_LIST} GROUP BY party",
        parties_json,
    )
    batch_calls = [
        call
        for party in sorted(parties)
        for call in (
            _load_withheld_calls(mirror_connection, app_connection, party)
            if is_withheld(party)
            else _load_calls(mirror_connection, party, since, first_missed_at.get(party), callback_seconds)
        )
    ]
    listed_ids = _fetch_pairs(
        app_connection, f"SELECT call_id, 1 FROM callback_calls WHERE party {_IN_JSON_LIST}", parties_json
    )
    acted_ids = _fetch_pairs(
        app_connection,
        f"SELECT k.call_id, 1 FROM {JOIN_RANGES.format(table='callback_deed_calls AS k', key='k.call_id')}",
        due_ranges,
    )
    current_ids = _fetch_pairs(
        mirror_connection,
        f"SELECT value, {build_call_id_sql('value')} AS call_id FROM json_each(?) WHERE call_id IS NOT NULL",
        id_list({*listed_ids, *acted_ids}),
    )
    merged_ids = {call_id: target_id for call_id, target_id in current_ids.items() if call_id != target_id}
    return _Batch(frozenset(parties), tuple(batch_calls), frozenset(current_ids), merged_ids)


def _fetch_pairs(connection: sqlite3.Connection, sql: str, values: str) -> dict[Any, Any]:
    return {row[0]: row[1] for row in connection.execute(sql, (values,))}


_COLUMNS = f"c.id, c.outcome, {ESTIMATED_START}, c.our_number, c.party_name"


def _load_withheld_calls(
    connection: sqlite3.Connection, app_connection: sqlite3.Connection, party: str
) -> list[CallbackCall]:
    """Return the missed calls of an item without a number.

    They are the call of 'withheld:<call id>', or those that an earlier version listed under a name such as
    'Blocked'.
    """
    listed = app_connection.execute("SELECT call_id FROM callback_calls WHERE party = ?", (party,))
    call_ids = {row[0] for row in listed}
    if party.startswith(WITHHELD_PREFIX):
        call_ids = {int(party.removeprefix(WITHHELD_PREFIX))}
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM _calls AS c WHERE c.id IN (SELECT value FROM json_each(?))"
        " AND c.party IN ('', ?) AND c.outcome IN ('missed', 'voicemail')",
        (id_list(call_ids), party),
    )
    return [
        CallbackCall(call_id, party, started_at, outcome, our_number, name)
        for call_id, outcome, started_at, our_number, name in rows
    ]


def _load_calls(
    connection: sqlite3.Connection, party: str, since: str, first_missed_at: str | None, callback_seconds: int
) -> Sequence[CallbackCall]:
    """Return a caller's missed calls and the calls that reached them.

    The first missed call is the earliest one in mirror.db or in the list.
    """
    if party == ERASED:
        # An erased number cannot be called back.
        return ()
    selection = (
        f"SELECT {_COLUMNS} FROM _calls AS c WHERE coalesce(c.party_e164, c.party) = ?1 AND {{}}"
        " AND (c.outcome IN ('missed', 'voicemail')"
        " OR c.direction = 'in' AND c.answered_at IS NOT NULL"
        " OR c.direction = 'out' AND c.outcome = 'answered' AND c.talk_seconds >= ?3)"
    )
    # Of calls without a time only the missed ones count: whether another one was later is unknown.
    undated = f"c.started_at IS NULL AND c.outcome IN {MISSED_KINDS} AND {ESTIMATED_START} >= ?2"
    rows = connection.execute(
        f"{selection.format('c.started_at >= ?2')} UNION ALL {selection.format(undated)} ORDER BY 3, 1",
        (party, since, callback_seconds),
    )
    calls = [
        CallbackCall(
            call_id, party, started_at, outcome if outcome in MISSED_KINDS else REACHED, our_number, name
        )
        for call_id, outcome, started_at, our_number, name in rows
    ]
    missed_at = [call.at for call in calls if call.kind != REACHED] + (
        [first_missed_at] if first_missed_at else []
    )
    return [call for call in calls if missed_at and call.at >= min(missed_at)]


def _apply_batch(tx: Transaction, batch: _Batch) -> bool:
    """Store the calls of a batch and recompute its callers' items.

    Returns whether the open list changed.
    """
    # With 5,000 open items each takes 0.6 ms: more than an entire webhook, most of which change no item.
    old_fingerprint = callbacks.compute_fingerprint(tx.connection)
    for old_id, new_id in batch.merged_ids.items():
        tx.execute(
            "INSERT OR IGNORE INTO callback_deed_calls"
            " SELECT ?, deed_id FROM callback_deed_calls WHERE call_id = ?",
            (new_id, old_id),
        )
    new_calls = {call.call_id: call for call in batch.calls}
    parties = set(batch.parties)
    for row in tx.execute(
        "SELECT call_id, party, at, kind, our_number, party_name FROM callback_calls"
        " WHERE party IN (SELECT value FROM json_each(?1)) OR call_id IN (SELECT value FROM json_each(?2))",
        (id_list(sorted(parties)), id_list(sorted(new_calls))),
    ).fetchall():
        stored = CallbackCall(*row)
        parties.add(stored.party)
        if new_calls.get(stored.call_id) == stored:
            del new_calls[stored.call_id]
        elif stored.call_id not in new_calls and stored.call_id in batch.mirrored_ids:
            # The call is in the mirror, but has another outcome or caller now. A call that a rebuilt mirror
            # does not have is kept unchanged.
            tx.execute("DELETE FROM callback_calls WHERE call_id = ?", (stored.call_id,))
    tx.executemany(
        "INSERT INTO callback_calls (call_id, party, at, kind, our_number, party_name)"
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET party = excluded.party, at = excluded.at, kind = excluded.kind,"
        " our_number = excluded.our_number, party_name = excluded.party_name",
        [astuple(call) for call in new_calls.values()],
    )
    for party in sorted(parties):
        recompute_items(tx, party)
    return callbacks.compute_fingerprint(tx.connection) != old_fingerprint
