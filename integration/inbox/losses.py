"""Webhooks lost with an inbox.db that was removed, emptied or replaced.

`_applied` of mirror.db holds the numbers of applied webhooks. A new inbox.db would give the same numbers to
new webhooks, which would count as applied. The numbers therefore continue above the highest applied one.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from integration.core import clock
from integration.core.health import Health
from integration.inbox.apply import describe_delay, read_last_applied
from integration.inbox.store import Inbox
from integration.sqlite import database_files
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

FACT = "lost webhooks"
"""Fact of /readyz: the sentence of the newest loss."""
REPORT_TIME = timedelta(days=7)
"""Time for which a loss is reported."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Range of webhooks that are no longer stored.

    `found_at`: UTC text. `fault`: 'was missing', 'had 0 bytes' or 'was older than mirror.db'.
    `last_seq` is 0 if mirror.db has applied no webhook.
    """

    found_at: str
    fault: str
    first_seq: int
    last_seq: int

    def __str__(self) -> str:
        """Return one sentence for users: what happened and what to do."""
        webhooks = f"webhooks {self.first_seq:,} to {self.last_seq:,}" if self.last_seq else "its webhooks"
        return (
            f"inbox.db: the file {self.fault} at the start on {self.found_at} UTC, so {webhooks} are no"
            " longer stored; calls that mirror.db had applied are complete, and `switchroom sync --full`"
            " reads the others from the platform"
        )


def open_inbox(
    data_dir: Path,
    mirror_db: Database,
    health: Health,
    on_stored: Callable[[], None],
    on_broken: Callable[[BaseException], None] | None,
) -> Inbox:
    """Open inbox.db and report lost webhooks.

    The other two databases must be open. New webhooks are numbered above all that mirror.db has applied. A
    delayed webhook fails a health check. Raises StorageError, NewerDatabase.
    """
    fault = database_files.find_lost_databases(data_dir, ["inbox.db"]).get("inbox.db")
    inbox = Inbox(data_dir / "inbox.db", on_stored=on_stored, on_broken=on_broken)
    loss = _continue_numbers(inbox, mirror_db, fault)
    if loss is not None:
        log.error("%s", loss)
    with inbox.database.read() as connection:
        recent_losses = list_recent(connection)
    if recent_losses:
        health.set_fact(FACT, str(recent_losses[0]))
    health.probe("webhook delay", partial(describe_delay, inbox))
    database_files.record_creation(data_dir)
    return inbox


def _continue_numbers(inbox: Inbox, mirror_db: Database, fault: str | None) -> Loss | None:
    """Number new webhooks above the highest applied number.

    Returns the loss if there is one. `fault`: what `find_lost_databases` returned for inbox.db.
    """
    applied_seq = read_last_applied(mirror_db)

    def work(tx: Transaction) -> Loss | None:
        row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").fetchone()
        last_seq = 0 if row is None else int(row[0])
        if applied_seq <= last_seq and fault is None:
            return None
        if applied_seq > last_seq:
            # SQLite creates the row with the first webhook, and has no UNIQUE constraint on the name.
            tx.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
            tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (applied_seq,))
        loss = Loss(clock.utc_text(), fault or "was older than mirror.db", last_seq + 1, applied_seq)
        tx.execute(
            "INSERT INTO losses (found_at, fault, first_seq, last_seq) VALUES (?, ?, ?, ?)",
            (loss.found_at, loss.fault, loss.first_seq, loss.last_seq),
        )
        return loss

    return inbox.database.write(work)


def list_recent(connection: sqlite3.Connection) -> list[Loss]:
    """Return the losses found within REPORT_TIME, newest first."""
    rows = connection.execute(
        "SELECT found_at, fault, first_seq, last_seq FROM losses WHERE found_at >= ? ORDER BY rowid DESC",
        (clock.utc_text(clock.now() - REPORT_TIME),),
    )
    return [Loss(*row) for row in rows]
