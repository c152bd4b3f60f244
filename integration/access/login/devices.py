"""Known devices: browsers in which a dashboard user has logged in before.

The cookie has a random token that changes at every login; table `devices` has its hash. A known device has an
attempt limit of its own, so wrong passwords from other addresses do not lock its user out. A login from any
other browser is reported to the user by e-mail.
"""

from __future__ import annotations

import re

from integration.access.people import normalize_email
from integration.core import clock, tokens
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

KEEP_SECONDS = 180 * 86400.0
"""Seconds after the last login for which a device is known."""
MAX_DEVICES = 20
"""Known devices of each user; the one with the oldest login is dropped."""

TABLES = """
CREATE TABLE IF NOT EXISTS devices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    login_at REAL NOT NULL,
    UNIQUE (token_hash, person_id)
) STRICT;
CREATE INDEX IF NOT EXISTS devices_person ON devices (person_id); -- serves the limit of a user
"""

_BROWSERS = (
    ("Edge", "Edg"),
    ("Opera", "OPR"),
    ("Firefox", "Firefox"),
    ("Firefox", "FxiOS"),
    ("Chrome", "Chrome"),
    ("Chrome", "CriOS"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("macOS", "Macintosh"),
    ("ChromeOS", "CrOS"),
    ("Linux", "Linux"),
)
"""Names and the marks in a User-Agent header. The first match counts."""


def find_id(app_db: Database, token: str | None, email: str) -> int | None:
    """Return the id of a known device, None for another browser."""
    if token is None:
        return None
    with app_db.read() as connection:
        row = connection.execute(
            "SELECT devices.id FROM devices JOIN people ON people.id = person_id "
            "WHERE token_hash = ? AND email = ? AND devices.login_at > ?",
            (tokens.digest(token), normalize_email(email), clock.unix() - KEEP_SECONDS),
        ).fetchone()
    return None if row is None else int(row["id"])


def record_login(tx: Transaction, person_id: int, old_token: str | None, new_token: str) -> bool:
    """Record a login and replace the token of the browser.

    Returns True for a new device. The token is replaced for all users of the browser. A token that another
    user planted in the cookie is worth nothing afterwards.
    """
    now = clock.unix()
    tx.execute("DELETE FROM devices WHERE login_at <= ?", (now - KEEP_SECONDS,))
    new_hash = tokens.digest(new_token)
    if old_token is not None:
        tx.execute(
            "UPDATE devices SET token_hash = ? WHERE token_hash = ?", (new_hash, tokens.digest(old_token))
        )
    updated = tx.execute(
        "UPDATE devices SET login_at = ? WHERE token_hash = ? AND person_id = ?", (now, new_hash, person_id)
    )
    if updated.rowcount:
        return False
    tx.execute(
        "INSERT INTO devices (token_hash, person_id, login_at) VALUES (?, ?, ?)", (new_hash, person_id, now)
    )
    tx.execute(
        "DELETE FROM devices WHERE person_id = ?1 AND id NOT IN "
        "(SELECT id FROM devices WHERE person_id = ?1 ORDER BY login_at DESC, id DESC LIMIT ?2)",
        (person_id, MAX_DEVICES),
    )
    return True


def describe_agent(agent: str) -> str:
    """Return browser and system, such as 'Firefox on Windows'."""
    browser = _find_name(_BROWSERS, agent)
    system = _find_name(_SYSTEMS, agent)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or agent.strip()[:40] or "Unknown browser"


def _find_name(names: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for name, mark in names if re.search(rf"\b{mark}\b", agent)), "")
