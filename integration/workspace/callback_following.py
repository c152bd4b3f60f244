"""Keeps the call-back list up to date with mirror.db."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from integration.core import clock
from integration.core.number_variants import ERASED
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from integration.workspace.callback_items import MISSED, REACHED, WITHHELD, Call, recompute

BATCH = 1000
LOOK_BACK = 7 * 86_400
"""Misses older than this at the installation's first start open nothing."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What mirror.db told: `calls` of the callers concerned, ids of theirs it `knows`, ids that `moved`."""

    epoch: str
    number: int
    parties: frozenset[str]
    calls: tuple[Call, ...]
    known: frozenset[int]
    moved: dict[int, int]


def follow(house: Database, mirror: Database, callback_seconds: int = 15) -> int:
    """Bring the list up to date with mirror.db. Returns the number of callers looked at.

    Harmless to repeat, and to break off: the position is kept with the items. `callback_seconds` is how
    long an outbound call must have talked to count: a mailbox answers too.
    """
    looked = 0
    while True:
        position = house.write(_position)
        with mirror.read() as calls, house.read() as kept:
            batch = _read(calls, kept, position, callback_seconds)
        if batch is None:
            return looked
        house.write(lambda tx, batch=batch: _take(tx, batch))  # type: ignore[misc]
        looked += len(batch.parties)


def _position(tx: Transaction) -> tuple[str, int, str]:
    row = tx.execute("SELECT epoch, number, since FROM callback_position").fetchone()
    if row is None:
        row = ("", 0, clock.stamp(clock.unix() - LOOK_BACK))
        tx.execute("INSERT INTO callback_position VALUES (0, ?, ?, ?)", row)
    return tuple(row)


def _read(
    calls: sqlite3.Connection, kept: sqlite3.Connection, position: tuple[str, int, str], callback_seconds: int
) -> _Batch | None:
    epoch, number, since = position
    now_epoch = str(calls.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()[0])
    oldest, newest = calls.execute("SELECT min(id), max(id) FROM _changes").fetchone()
    if epoch == now_epoch and (newest is None or newest <= number):
        return None
    parties: set[str] = set()
    if epoch != now_epoch or (oldest or 0) > number + 1:
        # Another mirror, or changes that were tidied away: whatever we hold may have changed meanwhile.
        number = number if epoch == now_epoch else 0
        parties |= {row[0] for row in kept.execute("SELECT DISTINCT party FROM callback_calls")}
    rows = calls.execute(
        "SELECT change_no, id, outcome, coalesce(party_e164, party) AS party, started_at FROM _calls"
        " WHERE change_no > ? ORDER BY change_no LIMIT ?",
        (number, BATCH),
    ).fetchall()
    upto = rows[-1]["change_no"] if len(rows) == BATCH else max(newest or 0, number)
    gone = [
        int(row[0])
        for row in calls.execute(
            "SELECT key FROM _changes WHERE topic = 'call_gone' AND id > ? AND id <= ?", (number, upto)
        )
    ]
    changed = json.dumps([row["id"] for row in rows] + gone)
    parties |= {
        row[0]
        for row in kept.execute(
            "SELECT party FROM callback_calls WHERE call_id IN (SELECT value FROM json_each(?))", (changed,)
        )
    }
    parties |= {
        _key(row["party"], row["id"])
        for row in rows
        if row["outcome"] in MISSED and (row["started_at"] or "") >= since and row["party"] != ERASED
    }
    others = json.dumps(sorted({row["party"] for row in rows if row["party"]} - parties))
    parties |= {
        row[0]
        for row in kept.execute(
            "SELECT DISTINCT party FROM callback_calls WHERE party IN (SELECT value FROM json_each(?))",
            (others,),
        )
    }
    firsts = dict(
        tuple(row)
        for row in kept.execute(
            "SELECT party, min(at) FROM callback_calls WHERE kind <> 'reached'"
            " AND party IN (SELECT value FROM json_each(?)) GROUP BY party",
            (json.dumps(sorted(parties)),),
        )
    )
    found = [
        call
        for party in sorted(parties)
        for call in _calls_of(calls, party, since, firsts.get(party), callback_seconds)
    ]
    held = [
        row[0]
        for row in kept.execute(
            "SELECT call_id FROM callback_calls WHERE party IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(parties)),),
        )
    ]
    leads = dict(
        tuple(row)
        for row in calls.execute(
            "SELECT id, call_id FROM _call_ids WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted({*held, *gone})),),
        )
    )
    moved = {id_: to for id_, to in leads.items() if id_ != to}
    return _Batch(now_epoch, upto, frozenset(parties), tuple(found), frozenset(leads), moved)


def _key(party: str, call_id: int) -> str:
    return party or f"{WITHHELD}{call_id}"


def _calls_of(
    connection: sqlite3.Connection, party: str, since: str, held: str | None, callback_seconds: int
) -> Sequence[Call]:
    """The misses of a caller and the calls that reached them, from the first miss on: the first in
    mirror.db, or the first that we hold where that is earlier."""
    if party == ERASED:
        # Nobody can be called back.
        return ()
    columns = "id, outcome, started_at, our_number, party_name"
    if party.startswith(WITHHELD):
        rows = connection.execute(
            f"SELECT {columns} FROM _calls"
            " WHERE id = ? AND party = '' AND outcome IN ('missed', 'voicemail')",
            (int(party.removeprefix(WITHHELD)),),
        )
    else:
        rows = connection.execute(
            f"SELECT {columns} FROM _calls WHERE coalesce(party_e164, party) = ?1 AND started_at >= ?2"
            " AND (outcome IN ('missed', 'voicemail')"
            " OR direction = 'in' AND answered_at IS NOT NULL"
            " OR direction = 'out' AND outcome = 'answered' AND talk_seconds >= ?3)"
            " ORDER BY started_at, id",
            (party, since, callback_seconds),
        )
    calls = [
        Call(id_, party, at, outcome if outcome in MISSED else REACHED, ours, name)
        for id_, outcome, at, ours, name in rows
    ]
    misses = [call.at for call in calls if call.kind != REACHED] + ([held] if held else [])
    return [call for call in calls if misses and call.at >= min(misses)]


def _take(tx: Transaction, batch: _Batch) -> None:
    """Write what the batch told and make the items of its callers anew."""
    for old, new in batch.moved.items():
        tx.execute(
            "INSERT OR IGNORE INTO callback_deed_calls"
            " SELECT ?, deed_id FROM callback_deed_calls WHERE call_id = ?",
            (new, old),
        )
    told = {call.call_id: call for call in batch.calls}
    parties = set(batch.parties)
    for row in tx.execute(
        "SELECT call_id, party, at, kind, our_number, party_name FROM callback_calls"
        " WHERE party IN (SELECT value FROM json_each(?1)) OR call_id IN (SELECT value FROM json_each(?2))",
        (json.dumps(sorted(parties)), json.dumps(sorted(told))),
    ).fetchall():
        had = Call(*row)
        parties.add(had.party)
        if told.get(had.call_id) == had:
            del told[had.call_id]
        elif had.call_id not in told and had.call_id in batch.known:
            # The mirror knows the call, and it is no longer of this kind, or another's. One that it does
            # not know, since it was built anew, is remembered as it was.
            tx.execute("DELETE FROM callback_calls WHERE call_id = ?", (had.call_id,))
    tx.executemany(
        "INSERT INTO callback_calls (call_id, party, at, kind, our_number, party_name)"
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET party = excluded.party, at = excluded.at, kind = excluded.kind,"
        " our_number = excluded.our_number, party_name = excluded.party_name",
        [astuple(call) for call in told.values()],
    )
    for party in sorted(parties):
        recompute(tx, party)
    tx.execute("UPDATE callback_position SET epoch = ?, number = ?", (batch.epoch, batch.number))
