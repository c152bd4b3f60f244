"""Legal holds: calls and numbers whose records must not be removed by retention and erasure.

Each hold has a reason. A hold is in force when its command returns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from integration.access import audit
from integration.context import AppContext
from integration.core import clock
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.core.errors import DomainError
from integration.mirror.privacy.held_records import HeldRecords, is_call_id
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS legal_holds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('number', 'call')),
    what TEXT NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (kind, what)
) STRICT;
"""
"""The table has the holds in force; released ones are in the audit log."""

HoldKind = Literal["number", "call"]
MAX_REASON_LENGTH = 500
"""Largest number of characters of a reason."""


@dataclass(frozen=True, slots=True)
class LegalHold:
    """A legal hold.

    `what` is a number in E.164 or the id of a call; `at` is UTC text.
    """

    id: int
    kind: HoldKind
    what: str
    reason: str
    who: str
    at: str


def list_all(connection: sqlite3.Connection) -> list[LegalHold]:
    """Return all holds, oldest first.

    Returns an empty list for a house.db of a version without holds.
    """
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'legal_holds'").fetchone() is None:
        return []
    columns = "id, kind, what, reason, who, at"
    return [LegalHold(*row) for row in connection.execute(f"SELECT {columns} FROM legal_holds ORDER BY id")]


def refresh_held(
    app_connection: sqlite3.Connection, mirror_connection: sqlite3.Connection, held_records: HeldRecords
) -> HeldRecords:
    """Reload `held_records` with the legal holds of house.db, and return it."""
    all_holds = list_all(app_connection)
    held_records.load(
        mirror_connection,
        [hold.what for hold in all_holds if hold.kind == "number"],
        [int(hold.what) for hold in all_holds if hold.kind == "call"],
    )
    return held_records


def parse_subject(text: str, parse_number: Callable[[str], str]) -> tuple[HoldKind, str]:
    """Parse what a user puts under hold: its kind, and the id of a call or a number in E.164.

    Digits without a leading 0 are the id of a call; `parse_number` parses every other text.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and not text.startswith("0"):
        return "call", text
    return "number", parse_number(text)


@command("hold.set")
def set_hold(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    """Set a legal hold on {kind, what} for {reason}.

    {who}: the actor, {address}: that of the actor's computer. Raises DomainError for an unknown call, without
    a reason, and if the hold already exists.
    """
    kind, what, reason = arguments["kind"], arguments["what"], " ".join(arguments["reason"].split())
    who = arguments.get("who") or COMMAND_LINE
    if kind == "call":
        with context.mirror_db.read() as connection:
            if not is_call_id(connection, int(what)):
                raise DomainError(
                    f"There is no call with the id {what}. A telephone number begins with + or 0."
                )
    if not 0 < len(reason) <= MAX_REASON_LENGTH:
        raise DomainError(f"Enter a reason of 1 to {MAX_REASON_LENGTH} characters for the legal hold.")

    def work(tx: Transaction) -> None:
        added = tx.execute(
            "INSERT OR IGNORE INTO legal_holds (kind, what, reason, who, at) VALUES (?, ?, ?, ?, ?)",
            (kind, what, reason, who, clock.utc_text()),
        )
        if not added.rowcount:
            raise DomainError(f"{what} is already under legal hold.")
        about = f"{kind} {what}: {reason}"
        audit.record(tx, who, "legal hold set", about, address=arguments.get("address", ""))

    context.app_db.write(work)
    refresh(context)
    return {}


@command("hold.release")
def release_hold(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    """Release the legal hold on {kind, what}, by the actor {who} at {address}.

    Raises DomainError if there is none.
    """
    kind, what, who = arguments["kind"], arguments["what"], arguments.get("who") or COMMAND_LINE

    def work(tx: Transaction) -> None:
        if not tx.execute("DELETE FROM legal_holds WHERE kind = ? AND what = ?", (kind, what)).rowcount:
            raise DomainError(f"{what} is not under legal hold. `switchroom hold --list` lists the holds.")
        about, address = f"{kind} {what}", arguments.get("address", "")
        audit.record(tx, who, "legal hold released", about, address=address)

    context.app_db.write(work)
    refresh(context)
    return {}


def refresh(context: AppContext) -> HeldRecords:
    """Reload the held records of the running product, and return them."""
    with context.app_db.read() as app_connection, context.mirror_db.read() as mirror_connection:
        return refresh_held(app_connection, mirror_connection, context.held_records)
