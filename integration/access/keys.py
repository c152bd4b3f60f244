"""Local keys of the facade, and their limits: expiry, networks, rate and rights.

A key has the form of a platform key, as clients require: a user id of seven digits and a secret of 40
lower-case hex digits (docs/platform.md#2-sign-in). The secret has 160 random bits and is shown once. Only its
SHA-256 is stored; a slow hash is necessary only for passwords that people choose.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import sqlite3
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Literal, get_args

from integration.access import session_ends
from integration.access.rights import list_key_rights
from integration.core import clock, tokens
from integration.core.errors import DomainError, SwitchroomError
from integration.settings.values import is_in_networks
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


MAX_NETWORKS = 50
MAX_REQUESTS_PER_MINUTE = 100_000


class KeyRefused(SwitchroomError):
    """A valid key that a limit refuses.

    `status` is that of the response. `retry_after` is in seconds.
    """

    def __init__(self, message: str, status: int, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of a key.

    `expires_at`: UTC text, None for no expiry. `networks`: addresses from which the key is accepted, empty
    for any. `requests_per_minute`: None for no limit. `rights`: names of `access/rights`.
    """

    expires_at: str | None = None
    networks: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    rights: frozenset[str] = frozenset()

    def check(self, name: str, address: str) -> None:
        """Raise KeyRefused if the key has expired or `address` is not allowed.

        `name`: name of the key for the message.
        """
        if self.expires_at is not None and clock.utc_text() >= self.expires_at:
            raise KeyRefused(f"The key {name!r} expired at {self.expires_at} (UTC).", 401)
        if self.networks and not is_in_networks([*map(ip_network, self.networks)], address):
            raise KeyRefused(f"The key {name!r} is not accepted from the address {address}.", 403)


NO_LIMITS = KeyLimits()
"""Limits of a key without rights."""


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


# --- limits ---------------------------------------------------------------------------------------------


def parse_limits(
    expires: str, networks: Collection[str], requests_per_minute: str, rights: Collection[str]
) -> KeyLimits:
    """Parse the limits that a user entered.

    An empty text is no limit. `expires`: a day, whose end counts, or a time (UTC). Raises DomainError.
    """
    names = [right.name for right in list_key_rights()]
    unknown = sorted(set(rights).difference(names))
    if unknown:
        raise DomainError(f"There is no right {unknown[0]!r}. Rights are {', '.join(names)}.")
    return KeyLimits(
        _parse_expiry(expires.strip()),
        _parse_networks(networks),
        _parse_rate(requests_per_minute.strip()),
        frozenset(rights),
    )


def _parse_expiry(text: str) -> str | None:
    if not text:
        return None
    moment = clock.parse_utc(f"{text} 23:59:59" if len(text) == 10 else text)
    if moment is None:
        raise DomainError(f"Invalid time {text!r}. Use 2030-02-28 or '2030-02-28 14:30:00' (UTC).")
    expires_at = clock.utc_text(moment)
    if expires_at <= clock.utc_text():
        raise DomainError(f"The key would expire at once, because {text} is in the past.")
    return expires_at


def _parse_networks(texts: Collection[str]) -> tuple[str, ...]:
    networks = []
    for text in texts:
        try:
            networks.append(str(ip_network(text.strip(), strict=False)))
        except ValueError:
            raise DomainError(
                f"{text!r} is not an address or network. Use 192.0.2.1 or 192.0.2.0/24."
            ) from None
    if len(networks) > MAX_NETWORKS:
        raise DomainError(f"A key can have at most {MAX_NETWORKS} networks.")
    return tuple(dict.fromkeys(networks))


def _parse_rate(text: str) -> int | None:
    if not text:
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) <= 6
    if not is_number or not 1 <= int(text) <= MAX_REQUESTS_PER_MINUTE:
        raise DomainError(f"Invalid rate {text!r}. Enter requests per minute, from 1 to 100,000.")
    return int(text)


class KeyRates:
    """Count of the requests of each key, in memory.

    A key can send the requests of one minute at once. Its allowance then grows evenly.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._allowances: dict[int, tuple[float, float]] = {}

    def count(self, key_id: int, requests_per_minute: int) -> None:
        """Count a request. Raises KeyRefused above the rate."""
        now = clock.monotonic()
        with self._lock:
            allowance, counted_at = self._allowances.get(key_id, (float(requests_per_minute), now))
            per_second = requests_per_minute / 60
            allowance = min(float(requests_per_minute), allowance + (now - counted_at) * per_second)
            is_allowed = allowance >= 1
            self._allowances[key_id] = (allowance - 1 if is_allowed else allowance, now)
        if not is_allowed:
            retry_after = max(1, math.ceil((1 - allowance) / per_second))
            raise KeyRefused(
                f"This key is limited to {requests_per_minute} requests per minute. Try again in"
                f" {retry_after} seconds.",
                429,
                retry_after,
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
