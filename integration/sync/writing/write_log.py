"""Write log and idempotency keys.

Each write sent to the platform is stored with its result and without secrets. An entry is committed before
the request is sent, so after a crash the log shows which write may have been done. Responses for an
`Idempotency-Key` are kept for a day.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from integration.catalogue.field_meanings import SENT_SECRET_NAMES, is_secret
from integration.core import clock, tokens
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    address TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    body TEXT,
    status INTEGER,
    result TEXT,
    seconds REAL
) STRICT;
CREATE TABLE IF NOT EXISTS idempotency (
    who TEXT NOT NULL,
    key_hash BLOB NOT NULL,
    request_hash BLOB NOT NULL,
    at REAL NOT NULL,
    status INTEGER,
    content_type TEXT,
    body BLOB,
    PRIMARY KEY (who, key_hash)
) STRICT;
CREATE INDEX IF NOT EXISTS idempotency_at ON idempotency (at); -- serves the deletion after a day
"""

IDEMPOTENCY_SECONDS = 86400.0
"""Seconds for which the response of an idempotency key is kept."""
MAX_RECENT = 500
"""Newest entries among which recent ones are searched. The request budget allows 200 writes in 20 s."""
MAX_BODY_LENGTH = 10_000
"""Maximum number of characters of a body in the write log."""
_SECRET_PATTERN = re.compile(
    r"pass|token|secret|nonce|^code$|api_?key|^pin|_pin$|fingerprint|^sip_", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """Entry of the write log.

    `status` and `seconds` are None while the write runs or if it was aborted.
    """

    id: int
    at: str
    who: str
    address: str
    method: str
    path: str
    body: str | None
    status: int | None
    result: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """Earlier request with the same Idempotency-Key, and its response.

    `status` is None while the request runs or if it was aborted before its response was stored, and 0 if
    there was no response. `is_same_request` is True if method, path and body are the same.
    """

    is_same_request: bool
    status: int | None
    content_type: str | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """Click-to-call that the platform has not refused. `to` is the number as it was sent."""

    id: int
    at: str
    who: str
    to: str


@dataclass(frozen=True, slots=True)
class SentMessage:
    """SMS that the platform has not refused. `to` is the number as it was sent."""

    at: str
    who: str
    to: str | None
    text: str | None


def begin(
    app_db: Database,
    *,
    who: str,
    address: str,
    method: str,
    path: str,
    body: bytes | None,
    check: Callable[[sqlite3.Connection], None] | None = None,
) -> int:
    """Commit an entry for a write that will be sent next.

    Returns the id of the entry. `check` runs in the same transaction. If it raises, nothing is stored.
    """
    values = (clock.utc_text(), who, address, method, path, redact_body(body))

    def work(tx: Transaction) -> int:
        if check is not None:
            check(tx.connection)
        cursor = tx.execute(
            "INSERT INTO journal (at, who, address, method, path, body) VALUES (?, ?, ?, ?, ?, ?)", values
        )
        return int(cursor.lastrowid or 0)

    return app_db.write(work)


def finish(app_db: Database, entry_id: int, *, status: int | None, result: str, seconds: float) -> None:
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE journal SET status = ?, result = ?, seconds = ? WHERE id = ?",
            (status, result, round(seconds, 3), entry_id),
        )
    )


def list_placed_calls(connection: sqlite3.Connection, since: str) -> list[PlacedCall]:
    """List the calls that were placed since `since` (UTC text) and not refused, newest first."""
    rows = connection.execute(
        "SELECT id, at, who, CASE WHEN json_valid(body) THEN body ->> '$.to' END AS dialled"
        " FROM (SELECT * FROM journal ORDER BY id DESC LIMIT ?)"
        " WHERE at >= ? AND method = 'POST' AND path = '/calls' AND (result IS NULL OR status < 400)",
        (MAX_RECENT, since),
    )
    return [PlacedCall(row["id"], row["at"], row["who"], row["dialled"]) for row in rows if row["dialled"]]


def list_sent_messages(connection: sqlite3.Connection, since: str, until: str) -> list[SentMessage]:
    """List the SMS that were sent between two times (UTC text) and not refused, oldest first.

    One without a response, or with a status from 500 on, may have been sent."""
    rows = connection.execute(
        "SELECT at, who, body ->> '$.to' AS receiver, body ->> '$.message' AS text FROM journal"
        " WHERE at BETWEEN ? AND ? AND method = 'POST' AND path = '/sms'"
        " AND coalesce(status, 0) NOT BETWEEN 400 AND 499"
        " AND json_valid(body) ORDER BY id",
        (since, until),
    )
    return [SentMessage(*row) for row in rows]


def has_action_url(connection: sqlite3.Connection, path: str) -> bool:
    """Return whether one of the newest entries attaches an address to the live call with this path."""
    row = connection.execute(
        "SELECT 1 FROM (SELECT * FROM journal ORDER BY id DESC LIMIT ?) WHERE method = 'PATCH' AND path = ?"
        " AND CASE WHEN json_valid(body) THEN body ->> '$.action_url' END <> '' LIMIT 1",
        (MAX_RECENT, path),
    ).fetchone()
    return row is not None


def list_newest(app_db: Database, limit: int = 100, before: int | None = None) -> list[WriteEntry]:
    """List entries, newest first.

    `before` is the id of the last entry of the previous page.
    """
    with app_db.read() as connection:
        rows = connection.execute(
            "SELECT id, at, who, address, method, path, body, status, result, seconds FROM journal"
            " WHERE id < ? ORDER BY id DESC LIMIT ?",
            (2**62 if before is None else before, limit),
        ).fetchall()
    return [WriteEntry(*row) for row in rows]


def claim_key(
    app_db: Database, who: str, key: str, method: str, path: str, body: bytes | None
) -> EarlierRequest | None:
    """Claim the idempotency key `key` of client `who`.

    Returns None for the first request with the key, otherwise the first request. The insert is conditional,
    so that of two concurrent requests exactly one is sent.
    """
    key_hash = tokens.digest(key)
    request_hash = tokens.digest(b"\0".join((method.encode(), path.encode(), body or b"")))
    now = clock.unix()

    def work(tx: Transaction) -> EarlierRequest | None:
        tx.execute("DELETE FROM idempotency WHERE at < ?", (now - IDEMPOTENCY_SECONDS,))
        cursor = tx.execute(
            "INSERT OR IGNORE INTO idempotency (who, key_hash, request_hash, at) VALUES (?, ?, ?, ?)",
            (who, key_hash, request_hash, now),
        )
        if cursor.rowcount:
            return None
        row = tx.execute(
            "SELECT * FROM idempotency WHERE who = ? AND key_hash = ?", (who, key_hash)
        ).fetchone()
        return EarlierRequest(
            row["request_hash"] == request_hash, row["status"], row["content_type"], row["body"]
        )

    return app_db.write(work)


def store_response(app_db: Database, who: str, key: str, status: int, content_type: str, body: bytes) -> None:
    """Store the response for repeats of `key`."""
    key_hash = tokens.digest(key)
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE idempotency SET status = ?, content_type = ?, body = ? WHERE who = ? AND key_hash = ?",
            (status, content_type, body, who, key_hash),
        )
    )


def release_key(app_db: Database, who: str, key: str) -> None:
    """Delete the claim of a request that had no effect.

    `key` can then be reused.
    """
    key_hash = tokens.digest(key)
    app_db.write(
        lambda tx: tx.execute("DELETE FROM idempotency WHERE who = ? AND key_hash = ?", (who, key_hash))
    )


def redact_body(body: bytes | None) -> str | None:
    """Return the body for the write log; None without a body.

    Secrets and long texts are replaced.
    """
    if not body:
        return None
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "(not JSON)"
    text = orjson.dumps(_redact(parsed)).decode()
    return text if len(text) <= MAX_BODY_LENGTH else text[:MAX_BODY_LENGTH] + "…"


def _holds_secret(name: str) -> bool:
    # Undocumented requests are logged too, so the pattern covers more names than the catalogue.
    return is_secret(name) or name in SENT_SECRET_NAMES or _SECRET_PATTERN.search(name) is not None


def _redact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "***" if _holds_secret(name) else _redact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_redact(inner) for inner in value]
    if isinstance(value, str) and len(value) > 1000:
        return f"({len(value)} characters)"
    return value
