"""Database inbox.db: all webhooks as received.

Webhooks that arrive during a commit share the next commit. Bodies change only through an erasure.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import orjson

from integration.core import clock
from integration.core.ids import MAX_ID, id_list
from integration.inbox.interpret import read_envelope
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.readers import build_readonly_uri
from integration.sqlite.schema import Schema, execute_script
from integration.sqlite.transaction import Transaction
from integration.sqlite.write_jobs import Pending

Status = Literal["new", "done", "failed", "unknown", "unreadable"]

Acknowledgement = Literal["stored", "duplicate", "unreadable"]
"""`status` of the 200 response to the sender."""

GROUP_SIZE = 512
"""Maximum number of webhooks of one commit, deletion or rewrite."""

MAX_PROBLEMS_SHOWN = 20
"""Maximum number of problems in an InboxOverview."""

MIGRATIONS: dict[str, migrations.Step] = {}

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
CREATE TABLE IF NOT EXISTS losses (
    found_at TEXT NOT NULL, fault TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL
) STRICT;
"""


class _NewWebhook(NamedTuple):
    """Webhook to be stored: columns of its row that need no query."""

    event_id: str
    received_at: str
    event_name: str | None
    call_id: Any
    body: bytes
    status: Status
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """Columns of a stored webhook that are needed to apply it.

    `received_at` is UTC text.
    """

    seq: int
    event_id: str
    received_at: str
    event_name: str | None
    body: bytes


_SELECT_WEBHOOK = f"SELECT {', '.join(field.name for field in fields(StoredWebhook))} FROM inbox"  # noqa: S608


@dataclass(frozen=True, slots=True)
class InboxOverview:
    """Summary of the inbox for the System page.

    `last_received_at` is UTC text or None. `total` is the number of stored webhooks, or slightly more after
    deletions. `by_status` has the numbers of webhooks that are not done. `problems` has the newest webhooks
    that failed, are unknown or unreadable: seq, event_name, received_at, status, error.
    """

    last_received_at: str | None
    total: int
    by_status: dict[str, int]
    problems: list[sqlite3.Row]


class Inbox:
    """Access to inbox.db.

    `on_stored()` is called after each commit with a new webhook.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_stored: Callable[[], None] | None = None,
        on_broken: Callable[[BaseException], None] | None = None,
        on_damaged: Callable[[str], None] | None = None,
    ) -> None:
        self.database = Database(
            path,
            prepare=prepare,
            synchronous="FULL",
            group_size=GROUP_SIZE,
            on_broken=on_broken,
            on_damaged=on_damaged,
        )
        self.on_stored = on_stored
        self.redact: Callable[[bytes], bytes] | None = None
        """Erasure gate: returns the body to store (`ErasureGate.filter_webhook`). None: unchanged."""
        self.received_count = 0
        """Webhooks received since the start, durable or not."""
        self.refused_count = 0
        """Requests to the receiver with a 4xx or 5xx response.

        Threads count without a lock: Python switches threads between calls and loops, never within `+= 1`.
        """
        self._acknowledgement_counts = Counter[str]()

    def receive(self, body: bytes) -> Pending[Acknowledgement]:
        """Queue `body` for the next commit.

        The result is set when the body is durable.
        """
        self.received_count += 1
        if self.redact is not None:
            body = self.redact(body)
        envelope = read_envelope(body)
        digest = hashlib.sha256(body).digest()
        received_at = clock.utc_text()

        return self.database.submit_grouped(
            self._store,
            _NewWebhook(
                envelope.event_id or f"sha256:{digest.hex()}",
                received_at,
                envelope.event_name,
                envelope.call_id,
                body,
                "new" if envelope.is_readable else "unreadable",
                digest,
            ),
        )

    def count_acknowledgements(self) -> dict[str, int]:
        """Count the acknowledgements since the start: stored, duplicate, unreadable, refused."""
        counts = {
            acknowledgement: self._acknowledgement_counts[acknowledgement]
            for acknowledgement in get_args(Acknowledgement)
        }
        return {**counts, "refused": self.refused_count}

    def _store(self, tx: Transaction, webhooks: list[_NewWebhook]) -> list[Acknowledgement]:
        """Store `webhooks` in at most three statements.

        A repeated body increments `deliveries` of its row. Another body with the same id is a second, flagged
        row.
        """
        hashes_by_event = _load_hashes(tx, {webhook.event_id for webhook in webhooks})
        new_values: list[Any] = []
        duplicates: list[tuple[str, bytes]] = []
        acknowledgements: list[Acknowledgement] = []
        for webhook in webhooks:
            hashes = hashes_by_event.setdefault(webhook.event_id, set())
            if webhook.body_hash in hashes:
                duplicates.append((webhook.event_id, webhook.body_hash))
                acknowledgements.append("duplicate")
                continue
            new_values += (*webhook, int(bool(hashes)))
            hashes.add(webhook.body_hash)
            acknowledgements.append("unreadable" if webhook.status == "unreadable" else "stored")
        if new_values:
            tx.execute(_insert_sql(len(acknowledgements) - len(duplicates)), new_values)
            if self.on_stored is not None:
                tx.after_commit(self.on_stored)
        tx.after_commit(partial(self._acknowledgement_counts.update, acknowledgements))
        if duplicates:
            tx.executemany(
                "UPDATE inbox SET deliveries = deliveries + 1 WHERE event_id = ? AND body_hash = ?",
                duplicates,
            )
        return acknowledgements

    def list_unapplied(self, mirror_path: Path) -> list[int]:
        """List the seqs without a recorded result, oldest first.

        They are not in `_applied` of mirror.db, or have status 'new'. After a power failure that rolled
        mirror.db back, the first condition finds the webhooks that must be applied again, whatever their
        status (promise P2). After a crash between the two commits the second condition finds webhooks without
        a final status, which a repetition sets.
        """
        with self.database.read() as connection:
            connection.execute("ROLLBACK")
            connection.execute("ATTACH ? AS applied", (build_readonly_uri(mirror_path),))
            try:
                rows = connection.execute(
                    "SELECT seq FROM inbox WHERE seq NOT IN (SELECT seq FROM applied._applied)"
                    " OR status = 'new' ORDER BY seq"
                ).fetchall()
            finally:
                connection.execute("DETACH applied")
        return [int(row[0]) for row in rows]

    def list_after(self, seq: int, limit: int) -> list[StoredWebhook]:
        """Load at most `limit` webhooks with a seq above `seq`, in order."""
        with self.database.read() as connection:
            rows = connection.execute(f"{_SELECT_WEBHOOK} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
            return [StoredWebhook(*row) for row in rows]

    def load_rows(self, seqs: Sequence[int]) -> list[StoredWebhook]:
        """Load the webhooks `seqs`, ordered by seq."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"{_SELECT_WEBHOOK} WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",  # noqa: S608
                (id_list(seqs),),
            )
            return [StoredWebhook(*row) for row in rows]

    def list_seqs(self, *, failed: bool, since: str, after: int) -> list[int]:
        """List the seqs above `after` of webhooks received since, in order.

        `since` is UTC text and inclusive. With `failed`, only webhooks that could not be applied.
        """
        condition = "status = 'failed' AND" if failed else ""
        with self.database.read() as connection:
            rows = connection.execute(
                f"SELECT seq FROM inbox WHERE {condition} received_at >= ? AND seq > ? ORDER BY seq",  # noqa: S608
                (since, after),
            ).fetchall()
        return [int(row[0]) for row in rows]

    def has_received(self) -> bool:
        """Return whether any webhook was ever stored. Webhooks that retention has deleted count."""
        with self.database.read() as connection:
            return has_received(connection)

    def load_overview(self) -> InboxOverview:
        with self.database.read() as connection:
            newest = connection.execute("SELECT received_at FROM inbox ORDER BY seq DESC LIMIT 1").fetchone()
            return InboxOverview(
                newest["received_at"] if newest else None,
                # Few rows are deleted between others, and counting a million rows is too slow for a page.
                connection.execute("SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM inbox").fetchone()[0],
                dict(
                    connection.execute(
                        "SELECT status, count(*) FROM inbox WHERE status <> 'done' GROUP BY status"
                    ).fetchall()
                ),
                connection.execute(
                    "SELECT seq, event_name, received_at, status, error FROM inbox"
                    " WHERE status <> 'done' AND status <> 'new' ORDER BY seq DESC LIMIT ?",
                    (MAX_PROBLEMS_SHOWN,),
                ).fetchall(),
            )

    def find(self, seq: int) -> sqlite3.Row | None:
        """Load a webhook with its body as received (bytes), or None."""
        with self.database.read() as connection:
            row: sqlite3.Row | None = connection.execute(
                "SELECT seq, event_id, event_name, received_at, status, deliveries, error, applied_at,"
                " flagged, body FROM inbox WHERE seq = ?",
                (seq,),
            ).fetchone()
        return row

    def record_results(self, results: Iterable[tuple[int, Status, str | None]]) -> None:
        """Store the results of applied webhooks for display.

        `_applied` of mirror.db is the authority.
        """
        applied_at = clock.utc_text()
        values = [(status, error, applied_at, seq) for seq, status, error in results]
        self.database.write(
            lambda tx: tx.executemany(
                "UPDATE inbox SET status = ?, error = ?, applied_at = ? WHERE seq = ?", values
            )
        )

    def list_before(self, before: str) -> list[tuple[int, object, bytes]]:
        """List seq, call_id and body of webhooks received before `before`.

        `before` is UTC text.
        """
        with self.database.read(full_scan=True) as connection:
            rows = connection.execute("SELECT seq, call_id, body, received_at FROM inbox ORDER BY seq")
            return [(row[0], row[1], row[2]) for row in takewhile(lambda row: row[3] < before, rows)]

    def delete_before(self, before: str, protected_seqs: Iterable[int] = ()) -> int:
        """Delete at most GROUP_SIZE of the webhooks received before `before`.

        `before` is UTC text; the oldest webhooks go first. Skips `protected_seqs` and stops at the first
        webhook that is not applied. Small batches let other writes run in between. Returns the number of
        deleted webhooks.
        """
        protected_json = id_list(protected_seqs)
        return self.database.write(
            lambda tx: (
                tx.execute(
                    # sqlite3 sets `rowcount` for a statement that begins with DELETE, not with WITH.
                    "DELETE FROM inbox WHERE seq IN ("
                    "WITH oldest AS (SELECT seq, received_at, status FROM inbox"
                    " WHERE seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?)"
                    " SELECT seq FROM oldest WHERE seq < coalesce("
                    "(SELECT min(seq) FROM oldest WHERE received_at >= ? OR status = 'new'), ?))",
                    (protected_json, GROUP_SIZE, before, MAX_ID),
                ).rowcount
            )
        )

    def close(self) -> None:
        self.database.close()


def has_received(connection: sqlite3.Connection) -> bool:
    """Return whether any webhook was ever stored."""
    return read_last_seq(connection) > 0


def read_last_seq(connection: sqlite3.Connection | Transaction) -> int:
    """Return the highest number that a webhook ever had, or 0."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").fetchone()
    return 0 if row is None else int(row[0])


def prepare(connection: sqlite3.Connection) -> None:
    """Create or migrate the schema of inbox.db. Raises NewerDatabase."""
    migrations.migrate(connection, "inbox.db", MIGRATIONS, _create_tables)


def _create_tables(schema: Schema) -> None:
    execute_script(schema, TABLES)


def _load_hashes(tx: Transaction, event_ids: Set[str]) -> dict[str, set[bytes]]:
    """Load the hashes of stored bodies for each of `event_ids`."""
    # As one row, because each row would release the interpreter lock: see `Database.submit_grouped`.
    (hashes_json,) = tx.execute(
        "SELECT json_group_array(json_array(event_id, hex(body_hash))) FROM inbox"  # noqa: S608
        f" WHERE event_id IN ({','.join('?' * len(event_ids))})",
        tuple(event_ids),
    ).fetchone()
    hashes_by_event: dict[str, set[bytes]] = {}
    for event_id, digest in orjson.loads(hashes_json):
        hashes_by_event.setdefault(event_id, set()).add(bytes.fromhex(digest))
    return hashes_by_event


@cache
def _insert_sql(row_count: int) -> str:
    """Return the statement that inserts `row_count` rows.

    Columns are the fields of `_NewWebhook` and `flagged`.
    """
    columns = ",".join((*_NewWebhook._fields, "flagged"))
    return f"INSERT INTO inbox ({columns}) VALUES {','.join(['(?,?,?,?,?,?,?,?)'] * row_count)}"  # noqa: S608
