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

from integration.core import clock, tokens
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.readers import Readable, open_readonly
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
    revoked_at TEXT
) STRICT;
-- serves the rule that a name is one key in force; a revoked row stays, so that its id is not reissued
CREATE UNIQUE INDEX IF NOT EXISTS keys_name ON keys (name) WHERE revoked_at IS NULL;
"""


@dataclass(frozen=True, slots=True)
class Key:
    """Local key.

    `user_id`: id of the key, never of a platform user. `collections`: paths without a leading slash, None for
    all. `platform_user_id`: user scope, None for no limit. `used_at`: Unix seconds; other times are UTC text.
    """

    user_id: int
    name: str
    scope: Scope
    collections: tuple[str, ...] | None
    platform_user_id: int | None
    created_at: str
    used_at: float | None
    revoked_at: str | None

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
            "INSERT INTO keys (user_id, name, scope, collections, platform_user_id, secret_hash, created_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                user_id,
                name,
                scope,
                None if paths is None else json.dumps(paths),
                platform_user_id,
                tokens.digest(secret),
                clock.utc_text(),
            ),
        )
        return user_id

    return app_db.write(work), secret


def authenticate(app_db: Database, user_part: str | None, secret: str) -> Key | None:
    """Return the key with these credentials, None if there is none.

    `user_part`: user id of Basic, None with `X-Auth-Token`. A wrong user id and a wrong secret take equally
    long. The caller limits attempts (`login_throttle`).
    """
    digest = tokens.digest(secret)
    with app_db.read() as connection:
        row = connection.execute(
            "SELECT * FROM keys WHERE secret_hash = ? AND revoked_at IS NULL", (digest,)
        ).fetchone()
    if row is None or not tokens.matches(secret, row["secret_hash"]):
        return None
    if user_part is not None and user_part != str(row["user_id"]):
        return None
    now = clock.unix()
    if row["used_at"] is None or abs(now - row["used_at"]) >= _USED_AT_INTERVAL_SECONDS:
        user_id = row["user_id"]
        app_db.submit(lambda tx: tx.execute("UPDATE keys SET used_at = ? WHERE user_id = ?", (now, user_id)))
    return _from_row(row)


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

    app_db.write(work)


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
        revoked_at=row["revoked_at"],
    )
