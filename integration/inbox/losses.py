"""Webhooks lost with an inbox.db that was removed, emptied, damaged or replaced.

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
from itertools import groupby
from pathlib import Path

from integration.core import clock
from integration.core.health import Health
from integration.inbox import salvage
from integration.inbox.apply import describe_delay, read_last_applied
from integration.inbox.store import Inbox, read_last_seq
from integration.sqlite import damage, database_files
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

FACT = "lost webhooks"
"""Fact of /readyz: the sentence of the newest loss."""
REPORT_TIME = timedelta(days=7)
"""Time for which a loss is reported."""
MAX_RANGES_SHOWN = 10
"""Maximum number of ranges in the sentence of a loss."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Webhooks that are no longer stored.

    `found_at`: UTC text. `fault`: 'was missing', 'had 0 bytes', 'was damaged' or 'was older than mirror.db'.
    `ranges`: first and last numbers, in order; empty if the numbers are unknown.
    """

    found_at: str
    fault: str
    ranges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """Return one sentence for users: what happened and what to do."""
        return (
            f"inbox.db: the file {self.fault} at the start on {self.found_at} UTC, so {self._list_webhooks()}"
            " no longer stored; calls that mirror.db had applied are complete, and `switchroom sync --full`"
            " reads the others from the platform"
        )

    def _list_webhooks(self) -> str:
        if not self.ranges:
            return "its webhooks are"
        count = sum(last - first + 1 for first, last in self.ranges)
        if count == 1:
            return f"webhook {self.ranges[0][0]:,} is"
        texts = [
            f"{first:,}" if first == last else f"{first:,} to {last:,}"
            for first, last in self.ranges[:MAX_RANGES_SHOWN]
        ]
        if len(self.ranges) > MAX_RANGES_SHOWN:
            texts.append(f"{len(self.ranges) - MAX_RANGES_SHOWN} more ranges")
        total = f" ({count:,} in total)" if len(self.ranges) > 1 else ""
        return f"webhooks {', '.join(texts)}{total} are"


def open_inbox(
    data_dir: Path,
    mirror_db: Database,
    health: Health,
    on_stored: Callable[[], None],
    on_broken: Callable[[BaseException], None] | None,
    on_damaged: damage.DamageHandler | None = None,
    early_inbox: Inbox | None = None,
) -> Inbox:
    """Open inbox.db and report lost webhooks.

    The other two databases must be open. `early_inbox` is an inbox.db that is open already. A damaged file is
    replaced by one with its readable webhooks. New webhooks are numbered above all that mirror.db has
    applied. A delayed webhook fails a health check. Raises StorageError, NewerDatabase.
    """
    path, started_at, is_salvaged = data_dir / "inbox.db", clock.utc_text(), False

    def open_database(handle_damage: damage.DamageHandler) -> Inbox:
        return Inbox(path, on_stored=on_stored, on_broken=on_broken, on_damaged=handle_damage)

    def build_replacement(damaged_path: Path) -> Path:
        nonlocal is_salvaged
        is_salvaged = True
        return salvage.build_replacement(damaged_path)

    fault = None
    if not damage.get_replacement_path(path).exists():
        fault = database_files.find_lost_databases(data_dir, [path.name]).get(path.name)
    if early_inbox is None:
        inbox = damage.open_or_replace(path, open_database, on_damaged, build_replacement)
    else:
        inbox = early_inbox
        inbox.on_stored = on_stored
    _continue_numbers(inbox, mirror_db, salvage.FAULT if is_salvaged and fault is None else fault)
    with inbox.database.read() as connection:
        for loss in list_recent(connection):
            if loss.found_at >= started_at:
                log.error("%s", loss)
    health.provide_fact(FACT, partial(_describe_newest, inbox))
    health.probe("webhook delay", partial(describe_delay, inbox))
    database_files.record_creation(data_dir)
    return inbox


def _continue_numbers(inbox: Inbox, mirror_db: Database, fault: str | None) -> None:
    """Number new webhooks above the highest applied number.

    Records the loss if there is one. `fault`: what `find_lost_databases` returned for inbox.db, or that of
    the module `salvage`, which has recorded the losses below the highest number of the file.
    """
    with mirror_db.read() as connection:
        applied_seq = read_last_applied(connection)

    def work(tx: Transaction) -> None:
        last_seq = read_last_seq(tx)
        if applied_seq <= last_seq and fault in (None, salvage.FAULT):
            return
        if applied_seq > last_seq:
            # SQLite creates the row with the first webhook, and has no UNIQUE constraint on the name.
            tx.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
            tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (applied_seq,))
        tx.execute(
            "INSERT INTO losses (found_at, fault, first_seq, last_seq) VALUES (?, ?, ?, ?)",
            (clock.utc_text(), fault or "was older than mirror.db", last_seq + 1, applied_seq),
        )

    inbox.database.write(work)


def _describe_newest(inbox: Inbox) -> str | None:
    with inbox.database.read() as connection:
        recent_losses = list_recent(connection)
    return str(recent_losses[0]) if recent_losses else None


def list_recent(connection: sqlite3.Connection) -> list[Loss]:
    """Return the losses found within REPORT_TIME, newest first."""
    rows = connection.execute(
        "SELECT found_at, fault, first_seq, last_seq FROM losses WHERE found_at >= ?"
        " ORDER BY found_at DESC, fault, first_seq",
        (clock.utc_text(clock.now() - REPORT_TIME),),
    ).fetchall()
    return [
        Loss(found_at, fault, tuple((row[2], row[3]) for row in group if row[3]))
        for (found_at, fault), group in groupby(rows, key=lambda row: (row[0], row[1]))
    ]
