"""Queries of restore and verify: applied webhooks, epoch."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from integration.mirror.records import change_log
from integration.sqlite.readers import build_readonly_uri


@dataclass(frozen=True, slots=True)
class UnappliedWebhooks:
    """Stored webhooks that are not applied: number, lowest `seq`, earliest receipt."""

    count: int
    seq: int | None
    received_at: str | None


def find_unapplied_webhooks(
    connection: sqlite3.Connection, inbox_path: Path, before: str
) -> UnappliedWebhooks:
    """Find webhooks in inbox.db that mirror.db has not applied.

    Considers webhooks received before `before` (UTC text).
    """
    with _attached_inbox(connection, inbox_path):
        row = connection.execute(
            "SELECT count(*), min(seq), min(received_at) FROM inbox.inbox AS stored WHERE received_at < ? "
            "AND NOT EXISTS (SELECT 1 FROM main._applied AS applied WHERE applied.seq = stored.seq)",
            (before,),
        ).fetchone()
    return UnappliedWebhooks(*row)


def find_seq_beyond_inbox(connection: sqlite3.Connection, inbox_path: Path) -> int:
    """Return the highest applied `seq` if inbox.db never assigned it, otherwise 0.

    A result above 0 means that mirror.db is newer than inbox.db.
    """
    applied_seq = connection.execute("SELECT coalesce(max(seq), 0) FROM _applied").fetchone()[0]
    # Read after mirror.db, so that a webhook that arrives between the two reads is no finding.
    with _attached_inbox(connection, inbox_path):
        inbox_seq = connection.execute(
            "SELECT coalesce(max(seq), 0) FROM inbox.sqlite_sequence WHERE name = 'inbox'"
        ).fetchone()[0]
    return int(applied_seq) if applied_seq > inbox_seq else 0


def renew_epoch(path: Path) -> None:
    """Set a new epoch in a restored mirror.db.

    The change number of an open page may be later than the backup. The new epoch makes the page reload
    instead of missing changes.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        change_log.renew_epoch(connection)


@contextmanager
def _attached_inbox(connection: sqlite3.Connection, inbox_path: Path) -> Iterator[None]:
    """Attach inbox.db to a connection of mirror.db, read-only."""
    connection.execute("ATTACH ? AS inbox", (build_readonly_uri(inbox_path),))
    try:
        yield
    finally:
        connection.execute("DETACH inbox")
