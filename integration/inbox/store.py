"""inbox.db: every webhook as received; one commit serves all that queued up for it.

Bodies never change, but for a number that a person wants erased.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import orjson

from integration.core import clock
from integration.inbox.interpret import read_envelope
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.migrations import run_script
from integration.sqlite.transaction import Transaction

Status = Literal["new", "done", "failed", "unknown", "unreadable"]

Acknowledgement = Literal["stored", "duplicate", "unreadable"]
"""What the sender is told (interface.md §3)."""

GROUP = 512
"""Most webhooks that one commit makes durable."""

TROUBLED_SHOWN = 20

TABLES = """
CREATE TABLE IF NOT EXISTS inbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    received_at TEXT NOT NULL,
    event_name TEXT,
    call_id ANY,
    body BLOB NOT NULL,
    status TEXT NOT NULL DEFAULT 'new',
    deliveries INTEGER NOT NULL DEFAULT 1,
    error TEXT,
    applied_at TEXT,
    flagged INTEGER NOT NULL DEFAULT 0,
    body_hash BLOB NOT NULL,
    UNIQUE (event_id, body_hash)
) STRICT;
-- serves the System page and `replay --failed`
CREATE INDEX IF NOT EXISTS inbox_troubled ON inbox (status) WHERE status <> 'done';
"""


class _Arrival(NamedTuple):
    """A webhook to be stored: the columns of its row that are known before it is looked up."""

    event_id: str
    received_at: str
    event_name: str | None
    call_id: Any
    body: bytes
    status: Status
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One stored webhook, to be applied."""

    seq: int
    event_id: str
    received_at: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Overview:
    """`last_received_at` is text UTC or None; `total` counts stored webhooks; `by_status` those that are not
    done; `troubled` has the newest that failed, are unknown or unreadable: seq, event_name, received_at,
    status, error."""

    last_received_at: str | None
    total: int
    by_status: dict[str, int]
    troubled: list[sqlite3.Row]


class Inbox:
    """inbox.db. `on_stored()` is called after each commit that stored something new."""

    def __init__(
        self,
        path: Path,
        *,
        on_stored: Callable[[], None] | None = None,
        on_broken: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.database = Database(path, prepare=_prepare, synchronous="FULL", group=GROUP, on_broken=on_broken)
        self.on_stored = on_stored
        self.redact: Callable[[bytes], bytes] | None = None
        """What of a body may be stored (`mirror.erased`); None: all of it."""
        self.received = 0
        """Webhooks taken in since the start, whether durable yet or not."""
        self.refused = 0
        """Requests to the receiver that a sender has to mend or repeat. Requests count side by side without a
        lock: Python hands over between calls and loops, never within `+= 1`."""
        self._told = Counter[str]()

    def receive(self, body: bytes) -> Future[Acknowledgement]:
        """Queue `body` for the next commit; the future is done once it is durable."""
        self.received += 1
        if self.redact is not None:
            body = self.redact(body)
        envelope = read_envelope(body)
        digest = hashlib.sha256(body).digest()
        received_at = clock.stamp()

        return self.database.gather(
            self._store,
            _Arrival(
                envelope.event_id or f"sha256:{digest.hex()}",
                received_at,
                envelope.event_name,
                envelope.call_id,
                body,
                "new" if envelope.readable else "unreadable",
                digest,
            ),
        )

    def counts(self) -> dict[str, int]:
        """What senders were told since the start: stored, duplicate, unreadable, refused."""
        told = {answer: self._told[answer] for answer in get_args(Acknowledgement)}
        return {**told, "refused": self.refused}

    def _store(self, tx: Transaction, arrivals: list[_Arrival]) -> list[Acknowledgement]:
        """In at most three statements. The same body again is counted; another body under the same id is a
        row of its own, flagged."""
        known = _known(tx, {arrival.event_id for arrival in arrivals})
        new: list[Any] = []
        again: list[tuple[str, bytes]] = []
        answers: list[Acknowledgement] = []
        for arrival in arrivals:
            hashes = known.setdefault(arrival.event_id, set())
            if arrival.body_hash in hashes:
                again.append((arrival.event_id, arrival.body_hash))
                answers.append("duplicate")
                continue
            new += (*arrival, int(bool(hashes)))
            hashes.add(arrival.body_hash)
            answers.append("unreadable" if arrival.status == "unreadable" else "stored")
        if new:
            tx.execute(_insert(len(answers) - len(again)), new)
            if self.on_stored is not None:
                tx.after_commit(self.on_stored)
        tx.after_commit(partial(self._told.update, answers))
        if again:
            tx.executemany(
                "UPDATE inbox SET deliveries = deliveries + 1 WHERE event_id = ? AND body_hash = ?", again
            )
        return answers

    def unapplied(self, mirror_path: Path) -> list[int]:
        """Every seq that mirror.db does not say was applied, whatever its status here, and those whose status
        does not say yet what became of them; oldest first.

        After a power cut that rolled mirror.db back this finds what must be applied again (promise P2).
        After a kill between the two commits the status is made good by applying once more.
        """
        with self.database.read() as connection:
            connection.execute("ROLLBACK")
            connection.execute("ATTACH ? AS applied", (f"{mirror_path.resolve().as_uri()}?mode=ro",))
            try:
                rows = connection.execute(
                    "SELECT seq FROM inbox WHERE seq NOT IN (SELECT seq FROM applied._applied)"
                    " OR status = 'new' ORDER BY seq"
                ).fetchall()
            finally:
                connection.execute("DETACH applied")
        return [int(row[0]) for row in rows]

    def after(self, seq: int, limit: int) -> list[Row]:
        """The next rows behind `seq`, in the order they were stored."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT seq, event_id, received_at, body FROM inbox WHERE seq > ? ORDER BY seq LIMIT ?",
                (seq, limit),
            ).fetchall()
        return [Row(int(row[0]), row[1], row[2], bytes(row[3])) for row in rows]

    def rows(self, seqs: Sequence[int]) -> list[Row]:
        """The rows with these numbers, in order."""
        found: list[Row] = []
        with self.database.read() as connection:
            for seq in seqs:
                row = connection.execute(
                    "SELECT seq, event_id, received_at, body FROM inbox WHERE seq = ?", (seq,)
                ).fetchone()
                if row is not None:
                    found.append(Row(int(row[0]), row[1], row[2], bytes(row[3])))
        return found

    def chosen(self, *, failed: bool, since: str, after: int) -> list[int]:
        """The numbers of rows received at or after `since` (UTC text) and above `after`, in order; with
        `failed` only those that could not be applied."""
        only = "status = 'failed' AND" if failed else ""
        with self.database.read() as connection:
            rows = connection.execute(
                f"SELECT seq FROM inbox WHERE {only} received_at >= ? AND seq > ? ORDER BY seq",
                (since, after),
            ).fetchall()
        return [int(row[0]) for row in rows]

    def overview(self) -> Overview:
        with self.database.read() as connection:
            newest = connection.execute("SELECT received_at FROM inbox ORDER BY seq DESC LIMIT 1").fetchone()
            return Overview(
                newest["received_at"] if newest else None,
                # Few rows go from the middle, and counting a million takes longer than a page may.
                connection.execute("SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM inbox").fetchone()[0],
                dict(
                    connection.execute(
                        "SELECT status, count(*) FROM inbox WHERE status <> 'done' GROUP BY status"
                    ).fetchall()
                ),
                connection.execute(
                    "SELECT seq, event_name, received_at, status, error FROM inbox"
                    " WHERE status <> 'done' AND status <> 'new' ORDER BY seq DESC LIMIT ?",
                    (TROUBLED_SHOWN,),
                ).fetchall(),
            )

    def one(self, seq: int) -> sqlite3.Row | None:
        """A webhook with its body as received (bytes)."""
        with self.database.read() as connection:
            row: sqlite3.Row | None = connection.execute(
                "SELECT seq, event_id, event_name, received_at, status, deliveries, error, applied_at,"
                " flagged, body FROM inbox WHERE seq = ?",
                (seq,),
            ).fetchone()
        return row

    def mark(self, results: Iterable[tuple[int, Status, str | None]]) -> None:
        """Copy what became of rows into `status`, for people; `_applied` in mirror.db is the truth."""
        at = clock.stamp()
        marks = [(status, error, at, seq) for seq, status, error in results]
        self.database.write(
            lambda tx: tx.executemany(
                "UPDATE inbox SET status = ?, error = ?, applied_at = ? WHERE seq = ?", marks
            )
        )

    def due(self, before: str) -> list[tuple[int, object, bytes]]:
        """Webhooks received before `before` (UTC text): seq, call_id, body."""
        with self.database.read(whole=True) as connection:
            rows = connection.execute("SELECT seq, call_id, body, received_at FROM inbox ORDER BY seq")
            return [(row[0], row[1], row[2]) for row in takewhile(lambda row: row[3] < before, rows)]

    def rewrite(self, seqs: Sequence[int], change: Callable[[bytes], bytes]) -> None:
        """Put `change(body)` in the place of these bodies. One that becomes like another is that one."""

        def work(tx: Transaction, some: Sequence[int]) -> None:
            for seq in some:
                row = tx.execute("SELECT event_id, body FROM inbox WHERE seq = ?", (seq,)).fetchone()
                if row is None or (body := change(row[1])) == row[1]:
                    continue
                digest = hashlib.sha256(body).digest()
                event_id = f"sha256:{digest.hex()}" if row[0].startswith("sha256:") else row[0]
                changed = tx.execute(
                    "UPDATE OR IGNORE inbox SET event_id = ?, body = ?, body_hash = ?, error = NULL"
                    " WHERE seq = ?",
                    (event_id, body, digest, seq),
                )
                if not changed.rowcount:
                    tx.execute("DELETE FROM inbox WHERE seq = ?", (seq,))

        for begin in range(0, len(seqs), GROUP):
            self.database.write(partial(work, some=seqs[begin : begin + GROUP]))

    def forget(self, before: str, spared: Iterable[int] = ()) -> int:
        """Remove webhooks received before `before` (UTC text), up to a number that leaves room for others;
        returns how many. From the old end only, but for the seqs `spared`, and none that still waits to be
        applied."""
        kept = orjson.dumps(list(spared)).decode()
        return self.database.write(
            lambda tx: (
                tx.execute(
                    # Python counts the rows of what begins with DELETE, and of no WITH.
                    "DELETE FROM inbox WHERE seq IN ("
                    "WITH oldest AS (SELECT seq, received_at, status FROM inbox"
                    " WHERE seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?)"
                    " SELECT seq FROM oldest WHERE seq < coalesce("
                    "(SELECT min(seq) FROM oldest WHERE received_at >= ? OR status = 'new'), ?))",
                    (kept, GROUP, before, 2**63 - 1),
                ).rowcount
            )
        )

    def close(self) -> None:
        self.database.close()


def naming(connection: sqlite3.Connection, names: Callable[[str], bool], legs: Set[int]) -> list[int]:
    """The seqs of webhooks whose body `names` holds of, or that tell of one of these legs."""
    return [
        row[0]
        for row in connection.execute("SELECT seq, call_id, body FROM inbox ORDER BY seq")
        if row[1] in legs or names(row[2].decode("utf-8", "replace"))
    ]


def _prepare(connection: sqlite3.Connection) -> None:
    migrations.prepare(connection, "inbox.db", {}, lambda fresh: run_script(fresh, TABLES))


def _known(tx: Transaction, event_ids: Set[str]) -> dict[str, set[bytes]]:
    """The hashes of the bodies that are stored under each of these ids."""
    # As one row, since each row would give up the interpreter: see `Database.gather`.
    (found,) = tx.execute(
        "SELECT json_group_array(json_array(event_id, hex(body_hash))) FROM inbox"
        f" WHERE event_id IN ({','.join('?' * len(event_ids))})",
        tuple(event_ids),
    ).fetchone()
    known: dict[str, set[bytes]] = {}
    for event_id, digest in orjson.loads(found):
        known.setdefault(event_id, set()).add(bytes.fromhex(digest))
    return known


@cache
def _insert(rows: int) -> str:
    """One statement for so many rows of `_Arrival` and whether it is flagged."""
    columns = ",".join((*_Arrival._fields, "flagged"))
    return f"INSERT INTO inbox ({columns}) VALUES {','.join(['(?,?,?,?,?,?,?,?)'] * rows)}"
