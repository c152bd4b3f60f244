"""Audit of responses with confidential content: recordings, traces, webhooks, prepared exports."""

from __future__ import annotations

import sqlite3

from flask import Request
from werkzeug.wrappers import Response

from integration.access import audit
from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction


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
    """Record that `who` received content (promise S14).

    Every response with content counts, whatever part of the file it has; HEAD, 304 and errors have none. A
    player sends many Range requests, so each client, file and hour (UTC) has one entry.
    """
    if request.method != "GET" or response.status_code not in (200, 206):
        return
    # A read first: repeated requests must not wait for the disk.
    with app_db.read() as connection:
        if _has_entry(connection, who, action, subject):
            return

    address = request.remote_addr or ""

    def work(tx: Transaction) -> None:
        if not _has_entry(tx.connection, who, action, subject):
            audit.record(tx, who, action, subject, result, address=address)

    app_db.write(work)


def _has_entry(connection: sqlite3.Connection, who: str, action: str, subject: str) -> bool:
    hour_start = clock.utc_text()[:13] + ":00:00"
    return audit.has_entry_since(connection, hour_start, who, action, subject)
