"""Local keys of the facade.

A key has the form of a platform key, as clients require: a user id of seven digits and a secret of 40
lower-case hex digits (docs/platform.md#2-sign-in). The secret has 160 random bits and is shown once. Only its
SHA-256 is stored; a slow hash is necessary only for passwords that people choose.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from integration.access import session_ends
from integration.access.key_limits import NO_LIMITS, KeyLimits
from integration.core import clock, tokens
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.readers import Readable, open_readonly
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

USER_IDS = range(9_000_000, 10_000_000)
"""User ids of local keys.

User ids of the platform have five to seven digits and start at low numbers. See docs/platform.md#4-types.
"""
_COLLECTION_PATTERN = re.compile(r"^[a-z0-9]+(/[a-z0-9]+)*$")
_USED_AT_INTERVAL_SECONDS = 300.0
"""Seconds between two writes of a key's last use."""
_USED_FROM_INTERVAL_SECONDS = 10.0
"""Seconds between two writes of a key's last use if its address has changed."""
DEFAULT_OVERLAP_HOURS = 24.0
"""Hours for which the old secret of a rotated key stays valid."""
MAX_OVERLAP_HOURS = 24.0 * 90

TABLES = """
CREATE TABLE IF NOT EXISTS keys (
    user_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'write')),
    collections TEXT,
    platform_user_id INTEGER,
    secret_hash BLOB NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    used_at REAL,
    revoked_at TEXT,
    expires_at TEXT,
    networks TEXT NOT NULL DEFAULT '[]',
    requests_per_minute INTEGER,
    rights TEXT NOT NULL DEFAULT '["export", "recordings"]',
    used_from TEXT,
    old_secret_hash BLOB,
    old_secret_until TEXT
) STRICT;
-- serves the rule that a name is one key in force; a revoked row stays, so that its id is not reissued
CREATE UNIQUE INDEX IF NOT EXISTS keys_name ON keys (name) WHERE revoked_at IS NULL;
"""


@dataclass(frozen=True, slots=True)
class Key:
    """Local key.

    `user_id`: id of the key, never of a platform user. `collections`: paths without a leading slash, None for
    all. `platform_user_id`: user scope, None for no limit. `used_at`: Unix seconds; other times are UTC text.
    `used_from`: address of the last use. `old_secret_until`: end of the secret before the last rotation.
    """

    user_id: int
    name: str
    scope: Scope
    collections: tuple[str, ...] | None
    platform_user_id: int | None
    created_at: str
    used_at: float | None
    limits: KeyLimits = NO_LIMITS
    used_from: str | None = None
    old_secret_until: str | None = None

    def can_access(self, collection: str) -> bool:
        """Return whether the key allows access to `collection`.

        `collection`: a path with or without a leading slash.
        """
        return self.collections is None or collection.strip("/") in self.collections


def add(
    app_db: Database,
    name: str,
    scope: str,
    collections: Sequence[str] | None = None,
    platform_user_id: int | None = None,
    *,
    limits: KeyLimits = NO_LIMITS,
    reserved_ids: Collection[int] = (),
) -> tuple[int, str]:
    """Create a key and return its user id and secret.

    The secret is not stored. `reserved_ids`: user ids that the key must not get. Raises DomainError for an
    invalid argument or a name in use.
    """
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise DomainError(
            f"Invalid name {name[:110]!r}. A key needs a name of 1 to 100 printable characters."
        )
    if scope not in SCOPES:
        raise DomainError(f"There is no scope {scope!r}. Scopes are {', '.join(SCOPES)}.")
    paths = _normalize_paths(collections)
    secret = secrets.token_hex(20)

    def work(tx: Transaction) -> int:
        if tx.execute("SELECT 1 FROM keys WHERE name = ? AND revoked_at IS NULL", (name,)).fetchone():
            raise DomainError(f"A key {name!r} exists already. Revoke it first or choose another name.")
        user_id = _choose_user_id(tx, reserved_ids)
        tx.execute(
            "INSERT INTO keys (user_id, name, scope, collections, platform_user_id, secret_hash, created_at,"
            " expires_at, networks, requests_per_minute, rights) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                user_id,
                name,
                scope,
                None if paths is None else json.dumps(paths),
                platform_user_id,
                tokens.digest(secret),
                clock.utc_text(),
                limits.expires_at,
                json.dumps(limits.networks),
                limits.requests_per_minute,
                json.dumps(sorted(limits.rights)),
            ),
        )
        return user_id

    return app_db.write(work), secret


def authenticate(app_db: Database, user_part: str | None, secret: str, address: str = "") -> Key | None:
    """Return the key with these credentials, None if there is none.

    `user_part`: user id of Basic, None with `X-Auth-Token`. A wrong user id and a wrong secret take equally
    long. The caller limits attempts (`login_throttle`). Raises KeyRefused if the key has expired or is not
    accepted from `address`.
    """
    with app_db.read() as connection:
        row = _find_row(connection, secret)
    if row is None or (user_part is not None and user_part != str(row["user_id"])):
        return None
    key = _from_row(row)
    key.limits.check(key.name, address)
    _record_use(app_db, key, address)
    return key


def _find_row(connection: sqlite3.Connection, secret: str) -> sqlite3.Row | None:
    """Return the row of a secret, current or before the last rotation."""
    digest = tokens.digest(secret)
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM keys WHERE secret_hash = ? AND revoked_at IS NULL", (digest,)
    ).fetchone()
    if row is not None:
        return row if tokens.matches(secret, row["secret_hash"]) else None
    row = connection.execute(
        "SELECT * FROM keys WHERE old_secret_hash = ? AND old_secret_until > ? AND revoked_at IS NULL",
        (digest, clock.utc_text()),
    ).fetchone()
    return row if row is not None and tokens.matches(secret, row["old_secret_hash"]) else None


def _record_use(app_db: Database, key: Key, address: str) -> None:
    now, user_id = clock.unix(), key.user_id
    is_elsewhere = address != (key.used_from or "")
    interval = _USED_FROM_INTERVAL_SECONDS if is_elsewhere else _USED_AT_INTERVAL_SECONDS
    if key.used_at is None or abs(now - key.used_at) >= interval:
        app_db.submit(
            lambda tx: tx.execute(
                "UPDATE keys SET used_at = ?, used_from = ? WHERE user_id = ?",
                (now, address or None, user_id),
            )
        )


def list_all(app_db: Readable) -> list[Key]:
    """Return all keys that are not revoked, ordered by name."""
    with app_db.read() as connection:
        rows = connection.execute("SELECT * FROM keys WHERE revoked_at IS NULL ORDER BY name").fetchall()
    return [_from_row(row) for row in rows]


def revoke(app_db: Database, name: str) -> None:
    """Revoke a key, with immediate effect.

    Raises DomainError if no valid key has this name.
    """

    def work(tx: Transaction) -> None:
        cursor = tx.execute(
            "UPDATE keys SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL",
            (clock.utc_text(), name.strip()),
        )
        if not cursor.rowcount:
            raise DomainError(f"There is no key {name!r}. `switchroom key list` shows all keys.")
        session_ends.report_change(tx)

    app_db.write(work)


def rotate(app_db: Database, name: str, overlap_hours: float = DEFAULT_OVERLAP_HOURS) -> tuple[int, str]:
    """Replace the secret of a key.

    Returns the key's user id and the new secret. The old secret stays valid for `overlap_hours`, 0 to end it
    at once. Raises DomainError if no valid key has this name, or for an invalid number of hours.
    """
    if not 0 <= overlap_hours <= MAX_OVERLAP_HOURS:
        raise DomainError(f"Invalid overlap. Enter hours, from 0 to {MAX_OVERLAP_HOURS:,.0f}.")
    secret = secrets.token_hex(20)

    def work(tx: Transaction) -> int:
        row = tx.execute(
            "SELECT user_id FROM keys WHERE name = ? AND revoked_at IS NULL", (name.strip(),)
        ).fetchone()
        if row is None:
            raise DomainError(f"There is no key {name!r}. `switchroom key list` shows all keys.")
        tx.execute(
            "UPDATE keys SET old_secret_hash = secret_hash, old_secret_until = ?, secret_hash = ?"
            " WHERE user_id = ?",
            (clock.utc_text(clock.unix() + overlap_hours * 3600), tokens.digest(secret), row["user_id"]),
        )
        session_ends.report_change(tx)
        return int(row["user_id"])

    return app_db.write(work), secret


def list_platform_user_ids(mirror_path: Path) -> frozenset[int]:
    """Return the user ids in the mirror, none without a mirror."""
    if not mirror_path.exists():
        return frozenset()
    with open_readonly(mirror_path) as connection:
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'users'").fetchone() is None:
            return frozenset()
        return frozenset(
            row[0] for row in connection.execute("SELECT id FROM users") if isinstance(row[0], int)
        )


def _normalize_paths(collections: Sequence[str] | None) -> list[str] | None:
    if collections is None:
        return None
    paths = [path.strip().strip("/") for path in collections if path.strip()]
    if not paths:
        raise DomainError("The list of collections is empty. Omit it to allow all collections.")
    for path in paths:
        if not _COLLECTION_PATTERN.match(path):
            raise DomainError(f"{path!r} is not the path of a collection, such as 'cdrs'.")
    return paths


def _choose_user_id(tx: Transaction, reserved_ids: Collection[int]) -> int:
    while True:
        user_id = secrets.choice(USER_IDS)
        existing = tx.execute("SELECT 1 FROM keys WHERE user_id = ?", (user_id,)).fetchone()
        if existing is None and user_id not in reserved_ids:
            return user_id


def _from_row(row: sqlite3.Row) -> Key:
    return Key(
        user_id=row["user_id"],
        name=row["name"],
        scope=row["scope"],
        collections=None if row["collections"] is None else tuple(json.loads(row["collections"])),
        platform_user_id=row["platform_user_id"],
        created_at=row["created_at"],
        used_at=row["used_at"],
        limits=KeyLimits(
            row["expires_at"],
            tuple(json.loads(row["networks"])),
            row["requests_per_minute"],
            frozenset(json.loads(row["rights"])),
        ),
        used_from=row["used_from"],
        old_secret_until=row["old_secret_until"],
    )


def add_limit_columns(schema: Schema) -> None:
    """Migration: add the columns of limits and rotation.

    Existing keys keep their access: all rights, and no other limit.
    """
    table = schema.table("keys")
    if not table.exists() or "rights" in table.columns_dict:
        return
    for definition in (
        "expires_at TEXT",
        "networks TEXT NOT NULL DEFAULT '[]'",
        "requests_per_minute INTEGER",
        """rights TEXT NOT NULL DEFAULT '["export", "recordings"]'""",
        "used_from TEXT",
        "old_secret_hash BLOB",
        "old_secret_until TEXT",
    ):
        schema.execute(f"ALTER TABLE keys ADD COLUMN {definition}")
