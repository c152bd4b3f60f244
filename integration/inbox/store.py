"""inbox.db: every webhook as received. Bodies never change; one commit serves all that queued up for it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from integration import clock
from integration.database import Database, Transaction
from integration.inbox.interpret import Envelope, read_envelope
from integration.mirror.migrations import migrate, run_script

Status = Literal["new", "done", "failed", "unknown", "unreadable"]

GROUP = 512
"""Most webhooks that one commit makes durable."""

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


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the sender is told: `stored`, `duplicate` or `unreadable` (interface.md §3)."""

    status: Literal["stored", "duplicate", "unreadable"]
    seq: int


@dataclass(frozen=True, slots=True)
class Row:
    """One stored webhook, to be applied."""

    seq: int
    event_id: str
    received_at: str
    body: bytes


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

    def receive(self, body: bytes) -> Future[Receipt]:
        """Queue `body` for the next commit; the future is done once it is durable."""
        envelope = read_envelope(body)
        digest = hashlib.sha256(body).digest()
        received_at = clock.stamp()

        def store(tx: Transaction) -> Receipt:
            event_id = envelope.event_id or f"sha256:{digest.hex()}"
            twin = tx.execute(
                "UPDATE inbox SET deliveries = deliveries + 1 "
                "WHERE event_id = ? AND body_hash = ? RETURNING seq",
                (event_id, digest),
            ).fetchone()
            if twin is not None:
                return Receipt("duplicate", int(twin[0]))
            seq = _insert(tx, event_id, received_at, envelope, body, digest)
            if self.on_stored is not None:
                tx.after_commit(self.on_stored)
            return Receipt("stored" if envelope.readable else "unreadable", seq)

        return self.database.submit(store)

    def unapplied(self, mirror_path: Path) -> list[int]:
        """Every seq that mirror.db does not say was applied, whatever its status here, oldest first.

        After a power cut that rolled mirror.db back this finds what must be applied again (promise P2).
        """
        with self.database.read() as connection:
            connection.execute("ROLLBACK")
            connection.execute("ATTACH ? AS applied", (f"{mirror_path.resolve().as_uri()}?mode=ro",))
            try:
                rows = connection.execute(
                    "SELECT seq FROM inbox WHERE seq NOT IN (SELECT seq FROM applied._applied) ORDER BY seq"
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

    def mark(self, results: Iterable[tuple[int, Status, str | None]]) -> None:
        """Copy what became of rows into `status`, for people; `_applied` in mirror.db is the truth."""
        at = clock.stamp()
        marks = [(status, error, at, seq) for seq, status, error in results]
        self.database.write(
            lambda tx: tx.executemany(
                "UPDATE inbox SET status = ?, error = ?, applied_at = ? WHERE seq = ?", marks
            )
        )

    def close(self) -> None:
        self.database.close()


def _prepare(connection: sqlite3.Connection) -> None:
    migrate(connection, {}, "inbox.db")
    run_script(connection, TABLES)


def _insert(
    tx: Transaction, event_id: str, received_at: str, envelope: Envelope, body: bytes, digest: bytes
) -> int:
    other = tx.execute("SELECT 1 FROM inbox WHERE event_id = ? LIMIT 1", (event_id,)).fetchone()
    cursor = tx.execute(
        "INSERT INTO inbox (event_id, received_at, event_name, call_id, body, status, flagged, body_hash) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            event_id,
            received_at,
            envelope.event_name,
            envelope.call_id,
            body,
            "new" if envelope.readable else "unreadable",
            int(other is not None),
            digest,
        ),
    )
    return int(cursor.lastrowid or 0)
