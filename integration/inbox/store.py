"""inbox.db: every webhook as received; one commit serves all that queued up for it.

Bodies never change, but for a number that a person wants erased.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Future
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

Status = Literal["new", "done", "failed", "unknown", "unreadable"]

Acknowledgement = Literal["stored", "duplicate", "unreadable"]
"""What the sender is told."""

GROUP_SIZE = 512
"""Most webhooks that one commit makes durable."""

MAX_PROBLEMS_SHOWN = 20

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


class _NewWebhook(NamedTuple):
    """A webhook to be stored: the columns of its row that are known before it is looked up."""

    event_id: str
    received_at: str
    event_name: str | None
    call_id: Any
    body: bytes
    status: Status
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """One stored webhook, to be applied."""

    seq: int
    event_id: str
    received_at: str
    event_name: str | None
    body: bytes


_SELECT_WEBHOOK = f"SELECT {', '.join(field.name for field in fields(StoredWebhook))} FROM inbox"  # noqa: S608


@dataclass(frozen=True, slots=True)
class InboxOverview:
    """`last_received_at` is text UTC or None; `total` counts stored webhooks; `by_status` those that are not
    done; `problems` has the newest that failed, are unknown or unreadable: seq, event_name, received_at,
    status, error."""

    last_received_at: str | None
    total: int
    by_status: dict[str, int]
    problems: list[sqlite3.Row]


class Inbox:
    """inbox.db. `on_stored()` is called after each commit that stored something new."""

    def __init__(
        self,
        path: Path,
        *,
        on_stored: Callable[[], None] | None = None,
        on_broken: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.database = Database(
            path, prepare=_migrate, synchronous="FULL", group_size=GROUP_SIZE, on_broken=on_broken
        )
        self.on_stored = on_stored
        self.redact: Callable[[bytes], bytes] | None = None
        """What of a body may be stored (`mirror.erased`); None: all of it."""
        self.received_count = 0
        """Webhooks taken in since the start, whether durable yet or not."""
        self.refused_count = 0
        """Requests to the receiver that a sender has to mend or repeat. Requests count side by side without a
        lock: Python hands over between calls and loops, never within `+= 1`."""
        self._acknowledgement_counts = Counter[str]()

    def receive(self, body: bytes) -> Future[Acknowledgement]:
        """Queue `body` for the next commit; the future is done once it is durable."""
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
        """What senders were told since the start: stored, duplicate, unreadable, refused."""
        counts = {
            acknowledgement: self._acknowledgement_counts[acknowledgement]
            for acknowledgement in get_args(Acknowledgement)
        }
        return {**counts, "refused": self.refused_count}

    def _store(self, tx: Transaction, webhooks: list[_NewWebhook]) -> list[Acknowledgement]:
        """In at most three statements. The same body again is counted; another body under the same id is a
        row of its own, flagged."""
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
        """Every seq that mirror.db does not say was applied, whatever its status here, and those whose status
        does not say yet what became of them; oldest first.

        After a power cut that rolled mirror.db back this finds what must be applied again (promise P2).
        After a kill between the two commits the status is made good by applying once more.
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
        """The next rows after `seq`, in the order they were stored."""
        with self.database.read() as connection:
            rows = connection.execute(f"{_SELECT_WEBHOOK} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
            return [StoredWebhook(*row) for row in rows]

    def load_rows(self, seqs: Sequence[int]) -> list[StoredWebhook]:
        """The rows with these numbers, in order."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"{_SELECT_WEBHOOK} WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",  # noqa: S608
                (id_list(seqs),),
            )
            return [StoredWebhook(*row) for row in rows]

    def list_seqs(self, *, failed: bool, since: str, after: int) -> list[int]:
        """The numbers of rows received at or after `since` (UTC text) and above `after`, in order; with
        `failed` only those that could not be applied."""
        condition = "status = 'failed' AND" if failed else ""
        with self.database.read() as connection:
            rows = connection.execute(
                f"SELECT seq FROM inbox WHERE {condition} received_at >= ? AND seq > ? ORDER BY seq",  # noqa: S608
                (since, after),
            ).fetchall()
        return [int(row[0]) for row in rows]

    def load_overview(self) -> InboxOverview:
        with self.database.read() as connection:
            newest = connection.execute("SELECT received_at FROM inbox ORDER BY seq DESC LIMIT 1").fetchone()
            return InboxOverview(
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
                    (MAX_PROBLEMS_SHOWN,),
                ).fetchall(),
            )

    def find(self, seq: int) -> sqlite3.Row | None:
        """A webhook with its body as received (bytes)."""
        with self.database.read() as connection:
            row: sqlite3.Row | None = connection.execute(
                "SELECT seq, event_id, event_name, received_at, status, deliveries, error, applied_at,"
                " flagged, body FROM inbox WHERE seq = ?",
                (seq,),
            ).fetchone()
        return row

    def record_results(self, results: Iterable[tuple[int, Status, str | None]]) -> None:
        """Copy what became of rows into `status`, for people; `_applied` in mirror.db is the truth."""
        applied_at = clock.utc_text()
        values = [(status, error, applied_at, seq) for seq, status, error in results]
        self.database.write(
            lambda tx: tx.executemany(
                "UPDATE inbox SET status = ?, error = ?, applied_at = ? WHERE seq = ?", values
            )
        )

    def list_before(self, before: str) -> list[tuple[int, object, bytes]]:
        """Webhooks received before `before` (UTC text): seq, call_id, body."""
        with self.database.read(full_scan=True) as connection:
            rows = connection.execute("SELECT seq, call_id, body, received_at FROM inbox ORDER BY seq")
            return [(row[0], row[1], row[2]) for row in takewhile(lambda row: row[3] < before, rows)]

    def rewrite_bodies(self, seqs: Sequence[int], transform: Callable[[bytes], bytes]) -> None:
        """Put `transform(body)` in the place of these bodies. One that becomes like another is that one."""

        def work(tx: Transaction, batch: Sequence[int]) -> None:
            for seq in batch:
                row = tx.execute("SELECT event_id, body FROM inbox WHERE seq = ?", (seq,)).fetchone()
                if row is None or (body := transform(row[1])) == row[1]:
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

        for start in range(0, len(seqs), GROUP_SIZE):
            self.database.write(partial(work, batch=seqs[start : start + GROUP_SIZE]))

    def delete_before(self, before: str, protected_seqs: Iterable[int] = ()) -> int:
        """Remove webhooks received before `before` (UTC text), up to a number that leaves room for others;
        returns how many. From the old end only, but for the seqs `protected_seqs`, and none that still waits
        to be applied."""
        protected_json = id_list(protected_seqs)
        return self.database.write(
            lambda tx: (
                tx.execute(
                    # Python counts the rows of what begins with DELETE, and of no WITH.
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


def find_mentions(
    connection: sqlite3.Connection, matches: Callable[[str], bool], leg_ids: Set[int]
) -> list[int]:
    """The seqs of webhooks whose body `matches` holds of, or that tell of one of these legs."""
    return [
        row[0]
        for row in connection.execute("SELECT seq, call_id, body FROM inbox ORDER BY seq")
        if row[1] in leg_ids or matches(row[2].decode("utf-8", "replace"))
    ]


def _migrate(connection: sqlite3.Connection) -> None:
    migrations.migrate(connection, "inbox.db", {}, _create_tables)


def _create_tables(schema: Schema) -> None:
    execute_script(schema, TABLES)


def _load_hashes(tx: Transaction, event_ids: Set[str]) -> dict[str, set[bytes]]:
    """The hashes of the bodies that are stored under each of these ids."""
    # As one row, since each row would give up the interpreter: see `Database.submit_grouped`.
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
    """One statement for so many rows of `_NewWebhook` and whether it is flagged."""
    columns = ",".join((*_NewWebhook._fields, "flagged"))
    return f"INSERT INTO inbox ({columns}) VALUES {','.join(['(?,?,?,?,?,?,?,?)'] * row_count)}"  # noqa: S608
