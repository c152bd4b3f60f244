"""Opt-out list: numbers that get no text messages.

A received message that consists of a stop word (setting `text_back.stop_words`) adds its sender. An entry has
the keyed hash of its number, by which the number is recognised after its erasure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from integration.context import AppContext
from integration.core import clock
from integration.core.errors import DomainError
from integration.core.number_variants import ERASED
from integration.mirror.derived import due
from integration.mirror.derived.declaration import ALL_TIMES, JOIN_RANGES, Range, to_json
from integration.mirror.derived.followed_by_app_db import RECEIVED_MESSAGES
from integration.mirror.page_queries import messages, phones, search_index
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
-- numbers that get no text messages; `number` is 'erased' after an erasure, `digest` its keyed hash
CREATE TABLE IF NOT EXISTS opt_outs (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, number TEXT NOT NULL, word TEXT NOT NULL,
    at TEXT NOT NULL, removed_at TEXT
) STRICT;
"""

BATCH_SIZE = 1000
"""Number of messages that are read together."""
_RECEIVED = (
    f"""SELECT s."from", s.message, s.created_at
 FROM {JOIN_RANGES.format(table="sms AS s", key="s.created_at")} WHERE s.type IS NOT 'O'""",
    "SELECT e.sender, e.text, e.at"
    f" FROM {JOIN_RANGES.format(table='_sms_events AS e', key='e.at')} WHERE e.sms_id IS NULL",
)


@dataclass(frozen=True, slots=True)
class OptOut:
    """An entry of the list. `number` is in E.164, or 'erased'. `word` was received at the time `at` (UTC)."""

    id: int
    number: str
    word: str
    at: str

    @property
    def is_erased(self) -> bool:
        return self.number == ERASED


def list_all(connection: sqlite3.Connection) -> list[OptOut]:
    """Return the entries, newest first."""
    rows = connection.execute(
        "SELECT id, number, word, at FROM opt_outs WHERE removed_at IS NULL ORDER BY at DESC, id DESC"
    )
    return [OptOut(*row) for row in rows]


def find(connection: sqlite3.Connection, erasure_gate: ErasureGate, number: str) -> OptOut | None:
    """Return the entry of a number in E.164."""
    row = connection.execute(
        "SELECT id, number, word, at FROM opt_outs WHERE removed_at IS NULL AND (number = ? OR digest = ?)",
        (number, _make_digest(erasure_gate, number) if erasure_gate.has_key else ""),
    ).fetchone()
    return None if row is None else OptOut(*row)


def remove(app_db: Database, entry_id: int) -> str:
    """Remove an entry. Messages until now do not add it again.

    Returns its number. Raises DomainError for an unknown id.
    """

    def work(tx: Transaction) -> str:
        row = tx.execute(
            "UPDATE opt_outs SET removed_at = ? WHERE id = ? AND removed_at IS NULL RETURNING number",
            (clock.utc_text(), entry_id),
        ).fetchone()
        if row is None:
            raise DomainError("This number was already removed from the list.")
        return str(row[0])

    return app_db.write(work)


def mark_unlisted_messages(app_db: Database, mirror_db: Database) -> None:
    """Record the messages since the newest entry as due.

    house.db may be an older copy, without numbers that opted out later.
    """
    with app_db.read() as connection:
        (newest,) = connection.execute("SELECT coalesce(max(at), '') FROM opt_outs").fetchone()
    unlisted = (newest, ALL_TIMES[1])
    with mirror_db.read() as connection:
        has_messages = RECEIVED_MESSAGES.list_keys(connection, unlisted, 1)
    if has_messages:
        mirror_db.write(lambda tx: due.mark(tx, RECEIVED_MESSAGES.name, [unlisted]))


def follow_messages(context: AppContext) -> None:
    """Add the senders of received stop words. Messages stay due until house.db has their senders."""
    mirror_db, gate = context.mirror_db, context.erasure_gate
    while True:
        with mirror_db.read() as connection:
            if not due.is_due(connection, RECEIVED_MESSAGES):
                return
        ranges = mirror_db.write(lambda tx: due.take_for_other_database(tx, RECEIVED_MESSAGES, BATCH_SIZE))
        with mirror_db.read() as connection:
            found = _list_stop_words(context, connection, ranges)
        if found:
            gate.create_key(context.settings.storage.data_dir)
            entries = [(_make_digest(gate, number), number, word, at) for number, word, at in found]
            context.app_db.write(lambda tx, entries=entries: _add(tx, entries))  # type: ignore[misc]
        mirror_db.write(lambda tx: due.finish(tx, RECEIVED_MESSAGES))


def _list_stop_words(
    context: AppContext, connection: sqlite3.Connection, ranges: Sequence[Range]
) -> list[tuple[str, str, str]]:
    """Return number (E.164), text and time of the messages that are a stop word."""
    numbers = context.phone_numbers
    stop_words = {_fold(word) for word in context.settings.text_back.stop_words}
    account_numbers = phones.list_account_numbers(connection, numbers)
    rows = [row for sql in _RECEIVED for row in connection.execute(sql, (to_json(ranges),))]
    found = [
        (numbers.to_e164(numbers.restore_contact(messages.normalize_digits(sender))), text.strip()[:40], at)
        for sender, text, at in rows
        if isinstance(text, str) and _fold(text) in stop_words
    ]
    return [(number, text, at) for number, text, at in found if number and number not in account_numbers]


def _fold(text: str) -> str:
    """Return a text without case, accents, spaces and punctuation."""
    return "".join(filter(str.isalnum, search_index.fold(text)))


def _make_digest(erasure_gate: ErasureGate, number: str) -> str:
    return erasure_gate.digest(number.removeprefix("+")).hex()


def _add(tx: Transaction, entries: Iterable[tuple[str, str, str, str]]) -> None:
    tx.executemany(
        "INSERT INTO opt_outs (digest, number, word, at) VALUES (?, ?, ?, ?) ON CONFLICT (digest)"
        " DO UPDATE SET number = excluded.number, word = excluded.word, at = excluded.at, removed_at = NULL"
        " WHERE excluded.at > removed_at",
        sorted(entries, key=lambda entry: entry[-1]),
    )
