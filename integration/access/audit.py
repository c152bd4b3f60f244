"""Audit log: actions of users and clients, with results. Never contains secrets."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

from integration.access.audit_trail import chain
from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.listing import escape_like
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    about TEXT NOT NULL,
    result TEXT NOT NULL,
    address TEXT NOT NULL,
    hash TEXT,
    link TEXT,
    erased_hash TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS audit_at ON audit (at); -- serves retention and the entries of the current hour
"""
"""`hash`, `link` and `erased_hash` show tampering: see `audit_trail.chain`."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Entry of the audit log.

    `who`: e-mail address of a dashboard user, 'key NAME', 'command line' or ''. `what`: the action. `about`:
    its subject. `at`: UTC text. `address`: IP address of the client, '' if there is none.
    """

    id: int
    at: str
    who: str
    what: str
    about: str
    result: str
    address: str


def record(
    target: Transaction | Database,
    who: str,
    action: str,
    subject: str = "",
    result: str = "done",
    *,
    address: str = "",
) -> None:
    """Write an entry of the audit log.

    With a transaction the entry is committed together with the action. With a database the entry is durable
    on return.
    """
    values = (clock.utc_text(), who, action, subject, result, address)

    def work(tx: Transaction) -> None:
        audit_chain = chain.find_chain(tx.gates)
        # Without a chain SQLite chooses the id.
        entry_id, entry_hash, link = audit_chain((tx, values)) if audit_chain else (None, None, None)
        tx.execute(
            "INSERT INTO audit (id, at, who, what, about, result, address, hash, link)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (entry_id, *values, entry_hash, link),
        )
        if audit_chain is not None and audit_chain.publish is not None:
            entry = dict(zip((*chain.COLUMNS, "link"), (entry_id, *values, link), strict=True))
            tx.after_commit(partial(audit_chain.publish, entry))

    if isinstance(target, Database):
        target.write(work)
    else:
        work(target)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filter of entries; empty fields match all.

    `text` is a fragment of any column. `since` and `until` (exclusive) are UTC text.
    """

    who: str = ""
    action: str = ""
    text: str = ""
    since: str = ""
    until: str = ""


def list_newest(
    app_db: Database,
    limit: int = 100,
    before: int | None = None,
    audit_filter: AuditFilter | None = None,
) -> list[AuditEntry]:
    """Return up to `limit` entries, newest first.

    `before`: id of the last entry of the previous page; None for the first page.
    """
    shown = audit_filter or AuditFilter()
    with app_db.read() as connection:
        rows = connection.execute(
            "SELECT id, at, who, what, about, result, address FROM audit"
            " WHERE id < :before AND (:who = '' OR who = :who) AND (:action = '' OR what = :action)"
            " AND (:since = '' OR at >= :since) AND (:until = '' OR at < :until)"
            " AND (:text = '' OR who || char(10) || what || char(10) || about || char(10) || result"
            " || char(10) || address LIKE :like ESCAPE '\\')"
            " ORDER BY id DESC LIMIT :limit",
            {
                **asdict(shown),
                "like": f"%{escape_like(shown.text)}%",
                "before": 2**62 if before is None else before,
                "limit": limit,
            },
        ).fetchall()
    return [AuditEntry(*row) for row in rows]


def list_values(app_db: Database, column: Literal["who", "what"]) -> list[str]:
    """Return all actors or actions that have entries, sorted."""
    with app_db.read() as connection:
        rows = connection.execute(f"SELECT DISTINCT {column} FROM audit WHERE {column} <> '' ORDER BY 1")
        return [row[0] for row in rows]


def has_entry_since(connection: sqlite3.Connection, since: str, who: str, action: str, subject: str) -> bool:
    """Return whether an equal entry exists.

    `since`: UTC text; older entries do not count.
    """
    row = connection.execute(
        "SELECT 1 FROM audit WHERE at >= ? AND who = ? AND what = ? AND about = ? LIMIT 1",
        (since, who, action, subject),
    ).fetchone()
    return row is not None


def count_before(connection: sqlite3.Connection, before: str) -> int:
    """Count the entries older than `before` (UTC text)."""
    return int(connection.execute("SELECT count(*) FROM audit WHERE at < ?", (before,)).fetchone()[0])


def delete_before(tx: Transaction, before: str) -> int:
    """Delete entries older than `before` (UTC text); return their number.

    The deletion ends at the first entry that is not older, and leaves an anchor in the chain: only missing
    entries before it are legitimate. An entry dated in the future was stored while the clock was wrong, and
    does not end the deletion.
    """
    audit_chain = chain.find_chain(tx.gates)
    if audit_chain is not None:
        audit_chain.load_or_start(tx)
    first_kept = tx.execute(
        "SELECT min(id) FROM audit WHERE at >= ? AND at <= ?", (before, clock.utc_text())
    ).fetchone()[0]
    last = tx.execute(
        "SELECT id, link FROM audit WHERE id < ? ORDER BY id DESC LIMIT 1",
        (2**62 if first_kept is None else first_kept,),
    ).fetchone()
    if last is None:
        return 0
    if audit_chain is not None:
        audit_chain.move_anchor(tx, *last)
    return tx.execute("DELETE FROM audit WHERE id <= ?", (last[0],)).rowcount


def rewrite(tx: Transaction, changes: Mapping[int, Mapping[str, object]], who: str, reason: str) -> None:
    """Replace texts of entries for an erasure, and record that.

    `changes`: new values by column, by id of the entry. The hash of the original content is kept.
    """
    audit_chain = chain.find_chain(tx.gates)
    if audit_chain is not None:
        audit_chain.load_or_start(tx)
    for entry_id, values in changes.items():
        row = tx.execute(f"SELECT {', '.join(chain.COLUMNS)} FROM audit WHERE id = ?", (entry_id,)).fetchone()
        new_values = {**dict(zip(chain.COLUMNS, row, strict=True)), **values}
        erased_hash = audit_chain.hash_erased(list(new_values.values())) if audit_chain else None
        assignments = ", ".join(f"{name} = ?" for name in values)
        tx.execute(
            f"UPDATE audit SET {assignments}, erased_hash = ? WHERE id = ?",
            (*values.values(), erased_hash, entry_id),
        )
    if changes:
        record(tx, who, chain.REWRITTEN, f"{reason}: {', '.join(map(str, sorted(changes)))}")


def add_hash_columns(schema: Schema) -> None:
    """Migration: add the columns of the chain."""
    table = schema.table("audit")
    for name in ("hash", "link", "erased_hash"):
        if table.exists() and name not in table.columns_dict:
            table.add_column(name, str)
