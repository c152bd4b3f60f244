"""Audit log: actions of users and clients, with results. Never contains secrets."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.listing import escape_like
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from flask import Request
    from werkzeug.wrappers import Response

TABLES = """
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    about TEXT NOT NULL,
    result TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS audit_at ON audit (at); -- serves retention and the entries of the current hour
"""

HOOK = "audit"
"""Key of the hooks of house.db that receive each new `AuditEntry`, in its transaction."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Entry of the audit log.

    `who`: e-mail address of a dashboard user, 'key NAME', 'command line', 'text back' or ''. `what`: the
    action. `about`: its subject. `at`: UTC text. `address`: IP address of the client, '' if there is none.
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
        entry_id = tx.execute(
            "INSERT INTO audit (at, who, what, about, result, address) VALUES (?, ?, ?, ?, ?, ?)", values
        ).lastrowid
        for hook in tx.hooks.get(HOOK, ()):
            hook(tx, AuditEntry(entry_id or 0, *values))

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


def record_content(
    app_db: Database,
    request: Request,
    response: Response,
    *,
    who: str,
    action: str,
    subject: str,
    result: str = "done",
) -> None:
    """Record that `who` received confidential content, such as a recording (promise S14).

    Every response with content counts, whatever part of the file it has; HEAD, 304 and errors have none. A
    player sends many Range requests, so each client, file and hour (UTC) has one entry.
    """
    if request.method != "GET" or response.status_code not in (200, 206):
        return
    address, hour_start = request.remote_addr or "", clock.utc_text()[:13] + ":00:00"

    def is_recorded(connection: sqlite3.Connection) -> bool:
        sql = "SELECT 1 FROM audit WHERE at >= ? AND who = ? AND what = ? AND about = ? LIMIT 1"
        return connection.execute(sql, (hour_start, who, action, subject)).fetchone() is not None

    def work(tx: Transaction) -> None:
        if not is_recorded(tx.connection):
            record(tx, who, action, subject, result, address=address)

    # A read first: repeated requests must not wait for the disk.
    with app_db.read() as connection:
        if is_recorded(connection):
            return
    app_db.write(work)


def drop_hash_chain(schema: Schema) -> None:
    """Migration: drop the chain of hashes that version 0.1.0 stored."""
    schema.table("audit_chain").drop(ignore=True)
    table = schema.table("audit")
    for name in {"hash", "link", "erased_hash"} & table.columns_dict.keys():
        # Not `transform`, which would lose the highest id: ids are never used twice.
        schema.execute(f"ALTER TABLE audit DROP COLUMN {name}")
