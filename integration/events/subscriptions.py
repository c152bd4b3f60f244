"""Subscriptions of outgoing webhooks: receivers, their kinds of events, secrets and progress.

`deliveries.py` sends the events, `delivery_log.py` has the attempts.
"""

from __future__ import annotations

import base64
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

from standardwebhooks import Webhook

from integration.core import backoff, clock
from integration.core.errors import DomainError
from integration.core.retry_delays import EVENTS, EVENTS_DISABLED_AFTER
from integration.events.feed import KINDS
from integration.outbound.public_addresses import PublicHosts
from integration.outbound.urls import check_new_url, shorten_url
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
-- The secrets are stored in clear text, because each request is signed with them.
CREATE TABLE IF NOT EXISTS event_subscriptions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    url TEXT NOT NULL,
    kinds TEXT NOT NULL,
    with_parties INTEGER NOT NULL CHECK (with_parties IN (0, 1)),
    secret TEXT NOT NULL,
    old_secret TEXT,
    old_secret_until TEXT,
    created_at TEXT NOT NULL,
    cursor TEXT NOT NULL,
    delivered_at TEXT,
    states_since TEXT,
    states_after INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    failing_since TEXT,
    next_at TEXT,
    error TEXT,
    disabled_at TEXT
) STRICT;
"""

MAX_SUBSCRIPTIONS = 20
MAX_NAME_LENGTH = 60
OLD_SECRET_HOURS = 24
"""Hours for which requests are signed with the secret before the last rotation as well."""


State = Literal["enabled", "failing", "disabled"]
STATES: tuple[State, ...] = get_args(State)

BEFORE_GAP = -1


class Position(NamedTuple):
    """Place of a subscription in the events.

    `cursor`: the last event that was delivered or set aside. `states_since` (UTC text) is set while the
    receiver gets the states of calls after a gap: of those that changed since then. The last one had the
    change `states_after`, which is BEFORE_GAP until the receiver has the gap.
    """

    cursor: str
    states_since: str | None = None
    states_after: int = 0


@dataclass(frozen=True, slots=True)
class Subscription:
    """A receiver of events. Times are UTC text.

    `cursor`, `states_since`, `states_after`: its `Position`. `tries` failed attempts of the next event began
    at `failing_since`; the next one is at `next_at`. `error` is the reason of the last one. After the last
    attempt the subscription is `disabled_at`.
    """

    id: int
    name: str
    url: str
    kinds: tuple[str, ...]
    with_parties: bool
    created_at: str
    cursor: str
    delivered_at: str | None
    states_since: str | None
    states_after: int
    tries: int
    failing_since: str | None
    next_at: str | None
    error: str | None
    disabled_at: str | None
    secret: str = field(repr=False)
    old_secret: str | None = field(repr=False)
    old_secret_until: str | None

    @property
    def position(self) -> Position:
        return Position(self.cursor, self.states_since, self.states_after)

    @property
    def state(self) -> State:
        if self.disabled_at:
            return "disabled"
        return "failing" if self.tries else "enabled"

    @property
    def display_url(self) -> str:
        """`url` for pages."""
        return shorten_url(self.url)

    def describe(self) -> dict[str, Any]:
        """Return the subscription as JSON, without its secrets."""
        names = ("name", "url", "kinds", "state", "created_at", "delivered_at", "failing_since", "next_at")
        return {
            **{name: getattr(self, name) for name in names},
            "anonymous": not self.with_parties,
            "error": self.error,
        }

    def is_due(self, now: str) -> bool:
        return self.disabled_at is None and (self.next_at is None or self.next_at <= now)

    def sign(self, message_id: str, at: datetime, body: str) -> str:
        """Return the header `webhook-signature`: after a rotation for 24 hours with both secrets."""
        signing_secrets = [self.secret]
        if self.old_secret and (self.old_secret_until or "") > clock.utc_text(at):
            signing_secrets.append(self.old_secret)
        return " ".join(Webhook(secret).sign(message_id, at, body) for secret in signing_secrets)


def list_all(connection: sqlite3.Connection) -> list[Subscription]:
    """Return all subscriptions, sorted by name."""
    return [_from_row(row) for row in connection.execute("SELECT * FROM event_subscriptions ORDER BY name")]


def find(connection: sqlite3.Connection, number: int) -> Subscription | None:
    row = connection.execute("SELECT * FROM event_subscriptions WHERE id = ?", (number,)).fetchone()
    return None if row is None else _from_row(row)


def require(connection: sqlite3.Connection, name: str) -> Subscription:
    """Return the subscription `name`. Raises DomainError."""
    row = connection.execute("SELECT * FROM event_subscriptions WHERE name = ?", (name.strip(),)).fetchone()
    if row is None:
        raise DomainError(
            f"There is no outgoing webhook {name.strip()!r}. `switchroom events list` shows all of them."
        )
    return _from_row(row)


def add(
    app_db: Database,
    settings: Settings,
    name: str,
    url: str,
    kinds: Sequence[str],
    *,
    with_parties: bool,
    cursor: str,
) -> str:
    """Add a subscription to the events after `cursor`. Returns its secret. Raises DomainError."""
    name, url, chosen = name.strip(), url.strip(), [kind.strip() for kind in kinds if kind.strip()]
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise DomainError(f"Enter a name of 1 to {MAX_NAME_LENGTH} printable characters.")
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown or not chosen:
        reason = f"There is no kind of event {unknown[0][:60]!r}." if unknown else "Choose a kind of event."
        raise DomainError(f"{reason} Kinds are {', '.join(KINDS)}.")
    try:
        check_new_url(url, PublicHosts(settings.outgoing.allow_hosts), settings.outgoing.allow_hosts)
    except ValueError as error:
        raise DomainError(str(error)) from None
    secret = _make_secret()
    values = {
        "name": name,
        "url": url,
        "kinds": ",".join(kind for kind in KINDS if kind in chosen),
        "with_parties": int(with_parties),
        "secret": secret,
        "created_at": clock.utc_text(),
        "cursor": cursor,
    }

    def work(tx: Transaction) -> None:
        if tx.execute("SELECT count(*) FROM event_subscriptions").fetchone()[0] >= MAX_SUBSCRIPTIONS:
            raise DomainError(
                f"At most {MAX_SUBSCRIPTIONS} outgoing webhooks are possible. Remove one first."
            )
        if tx.execute("SELECT 1 FROM event_subscriptions WHERE name = ?", (name,)).fetchone():
            raise DomainError(f"An outgoing webhook {name!r} exists already. Choose another name.")
        tx.execute(
            f"INSERT INTO event_subscriptions ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            tuple(values.values()),
        )

    app_db.write(work)
    return secret


def rotate(app_db: Database, number: int) -> str:
    """Replace the secret of a subscription, and return the new one.

    Requests are signed with both for 24 hours.
    """
    secret, until = _make_secret(), clock.utc_text(clock.now() + timedelta(hours=OLD_SECRET_HOURS))
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE event_subscriptions SET old_secret = secret, old_secret_until = ?, secret = ?"
            " WHERE id = ?",
            (until, secret, number),
        )
    )
    return secret


def enable(app_db: Database, number: int) -> None:
    """Continue at the cursor at once, after a failure or the end of all attempts."""
    app_db.write(lambda tx: update(tx, number, disabled_at=None, **_NO_FAILURE))


def remove(app_db: Database, number: int) -> None:
    """Delete a subscription and its log."""

    def work(tx: Transaction) -> None:
        tx.execute("DELETE FROM event_subscriptions WHERE id = ?", (number,))
        tx.execute("DELETE FROM event_attempts WHERE subscription_id = ?", (number,))

    app_db.write(work)


# --- progress --------------------------------------------------------------------------------------------

_NO_FAILURE: dict[str, Any] = {"tries": 0, "failing_since": None, "next_at": None, "error": None}


def advance(tx: Transaction, number: int, position: Position, *, is_delivered: bool) -> None:
    """Record that an event is delivered or set aside."""
    delivered = {"delivered_at": clock.utc_text()} if is_delivered else {}
    update(tx, number, **position._asdict(), **delivered, **_NO_FAILURE)


def move(tx: Transaction, subscription: Subscription, position: Position) -> None:
    """Store another position of a subscription, unless an event was delivered or set aside since."""
    stored = find(tx.connection, subscription.id)
    if stored is not None and stored.position == subscription.position:
        update(tx, subscription.id, **position._asdict())


def mark_failed(tx: Transaction, subscription: Subscription, error: str, *, has_ended: bool) -> None:
    """Record a failed attempt, and schedule the next one or disable the subscription.

    `has_ended`: the receiver ended the subscription.
    """
    now, tries = clock.now(), subscription.tries + 1
    since = subscription.failing_since or clock.utc_text(now)
    next_at = now + timedelta(seconds=backoff.delay(tries, EVENTS))
    is_last = clock.utc_text(next_at - timedelta(seconds=EVENTS_DISABLED_AFTER)) > since
    update(
        tx,
        subscription.id,
        tries=tries,
        failing_since=since,
        next_at=clock.utc_text(next_at),
        error=error,
        disabled_at=clock.utc_text(now) if has_ended or is_last else None,
    )


def update(tx: Transaction, number: int, **values: object) -> None:
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.execute(f"UPDATE event_subscriptions SET {assignments} WHERE id = ?", (*values.values(), number))


def describe_disabled(app_db: Database) -> str | None:
    """Return the disabled subscriptions and their reasons for the health check, None without one."""
    with app_db.read() as connection:
        disabled = [one for one in list_all(connection) if one.disabled_at]
    return (
        "; ".join(f"{one.name} is disabled: {one.error or 'enable it to continue'}" for one in disabled)
        or None
    )


def _make_secret() -> str:
    """Return a secret of 32 random bytes in the form of Standard Webhooks."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def _from_row(row: sqlite3.Row) -> Subscription:
    kinds, with_parties = tuple(row["kinds"].split(",")), bool(row["with_parties"])
    return Subscription(**{**dict(row), "kinds": kinds, "with_parties": with_parties})
