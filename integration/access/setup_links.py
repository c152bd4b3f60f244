"""One-time setup links, through which dashboard users choose a password.

There is no default login. The token has 256 random bits, is stored hashed and is valid for one use within 48
hours. A link without a person creates the first administrator, who enters an e-mail address. A reset link,
which a user requests by e-mail, is valid for 30 minutes. The link of a demo logs in without a new password.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integration.access import people
from integration.core import clock, tokens
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from integration.sqlite.schema import Schema

SETUP_PATH, DEMO_PATH = "setup", "demo"
"""Path of the page on which a user chooses a password, and of that which logs in to a demo without one."""
VALID_SECONDS = 48 * 3600.0
"""Seconds for which a link is valid."""
RESET_SECONDS = 1800.0
"""Seconds for which a reset link is valid."""

TABLES = """
CREATE TABLE IF NOT EXISTS setup_links (
    token_hash BLOB PRIMARY KEY,
    person_id INTEGER REFERENCES people (id) ON DELETE CASCADE,
    created_at REAL NOT NULL,
    is_reset INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS setup_links_person ON setup_links (person_id); -- serves the end of earlier links
"""


@dataclass(frozen=True, slots=True)
class SetupLink:
    """Valid setup link.

    `person` is None for the link that creates the first administrator.
    """

    person: people.Person | None


def create_link(app_db: Database, email: str, base_url: str, path: str = SETUP_PATH) -> str:
    """Create a setup link and return its URL.

    `path`: path of the page that redeems it. The user's earlier links become invalid. Raises DomainError for
    an unknown address.
    """
    token = tokens.new()

    def work(tx: Transaction) -> None:
        person = people.require_person(tx.connection, email)
        tx.execute("DELETE FROM setup_links WHERE person_id = ?", (person.id,))
        _insert(tx, token, person.id)

    app_db.write(work)
    return _make_url(base_url, token, path)


def create_reset_link(app_db: Database, person_id: int, base_url: str) -> str:
    """Create a reset link and return its URL.

    The user's earlier reset links become invalid. A setup link of an administrator stays valid: any visitor
    can request a reset link.
    """
    token = tokens.new()

    def work(tx: Transaction) -> None:
        tx.execute("DELETE FROM setup_links WHERE person_id = ? AND is_reset", (person_id,))
        _insert(tx, token, person_id, is_reset=True)

    app_db.write(work)
    return _make_url(base_url, token)


def create_first_run_link(app_db: Database, base_urls: Sequence[str]) -> list[str]:
    """Return the URLs of a setup link for the first administrator.

    There is one for each base URL. The link replaces that of an earlier start. The list is empty if there are
    dashboard users.
    """
    token = tokens.new()

    def work(tx: Transaction) -> bool:
        tx.execute("DELETE FROM setup_links WHERE person_id IS NULL")
        if tx.execute("SELECT 1 FROM people LIMIT 1").fetchone():
            return False
        _insert(tx, token, None)
        return True

    return [_make_url(base_url, token) for base_url in base_urls] if app_db.write(work) else []


def find(app_db: Database, token: str) -> SetupLink | None:
    """Return a link without redeeming it.

    None if the link is unknown, used or expired.
    """
    with app_db.read() as connection:
        return _find_link(connection, token)


def redeem(
    app_db: Database, token: str, password_hash: str | None, email: str | None = None
) -> people.Person | None:
    """Redeem a link: set the user's password, unless it is None, and return the user.

    The login is recorded. Returns None if the link is unknown, used or expired. `email` is
    required for the link of the first administrator only. After a DomainError the link is still valid.
    """

    def work(tx: Transaction) -> people.Person | None:
        link = _find_link(tx.connection, token)
        if link is None:
            return None
        tx.execute("DELETE FROM setup_links WHERE token_hash = ?", (tokens.digest(token),))
        if link.person is not None:
            if password_hash is not None:
                people.store_password(tx, link.person.id, password_hash)
            people.record_login(tx, link.person.id)
            return people.require_person(tx.connection, link.person.email)
        if not email:
            raise DomainError("The e-mail address is missing. Enter the address of the first administrator.")
        first = people.insert(tx, email, "admin", password_hash)
        people.record_login(tx, first.id)
        return people.require_person(tx.connection, first.email)

    return app_db.write(work)


def _find_link(connection: sqlite3.Connection, token: str) -> SetupLink | None:
    now = clock.unix()
    row = connection.execute(
        "SELECT person_id FROM setup_links WHERE token_hash = ? AND created_at > iif(is_reset, ?, ?)",
        (tokens.digest(token), now - RESET_SECONDS, now - VALID_SECONDS),
    ).fetchone()
    if row is None:
        return None
    if row["person_id"] is not None:
        return SetupLink(people.find_by_id(connection, row["person_id"]))
    # A first administrator may have been added by `user add` since this link was created.
    return None if connection.execute("SELECT 1 FROM people LIMIT 1").fetchone() else SetupLink(None)


def add_reset_column(schema: Schema) -> None:
    """Migration: add the column `is_reset`."""
    table = schema.table("setup_links")
    if table.exists() and "is_reset" not in table.columns_dict:
        schema.execute("ALTER TABLE setup_links ADD COLUMN is_reset INTEGER NOT NULL DEFAULT 0")


def _insert(tx: Transaction, token: str, person_id: int | None, *, is_reset: bool = False) -> None:
    now = clock.unix()
    tx.execute("DELETE FROM setup_links WHERE created_at <= ?", (now - VALID_SECONDS,))
    tx.execute(
        "INSERT INTO setup_links VALUES (?, ?, ?, ?)", (tokens.digest(token), person_id, now, int(is_reset))
    )


def _make_url(base_url: str, token: str, path: str = SETUP_PATH) -> str:
    return f"{base_url.rstrip('/')}/{path}/{token}"
