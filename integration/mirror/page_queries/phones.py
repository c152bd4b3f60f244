"""Queries for call control: phones, live legs, transfer targets."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.core.ids import id_list
from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.records.rows import build_name_sql


@dataclass(frozen=True, slots=True)
class Phone:
    """Platform user whose phone can ring. `number` is the extension."""

    id: int
    name: str
    number: str
    email: str


_SELECT_PHONES = (
    f"SELECT id, coalesce({build_name_sql('users')}, 'User ' || id) AS name,"
    " CAST(coalesce(ext, '') AS TEXT) AS number, CAST(coalesce(email, '') AS TEXT) AS email FROM users"
    " WHERE _missing_since IS NULL AND coalesce(active, 1) <> 0"
)


def list_phones(connection: sqlite3.Connection) -> list[Phone]:
    """Return the phones of all active users, sorted by name."""
    return [Phone(*row) for row in connection.execute(f"{_SELECT_PHONES} ORDER BY name COLLATE NOCASE, id")]


def find_phone(connection: sqlite3.Connection, user_id: int | None) -> Phone | None:
    """Return the phone of an active platform user, or None."""
    row = connection.execute(f"{_SELECT_PHONES} AND id = ?", (user_id,)).fetchone()
    return None if row is None else Phone(*row)


def find_phone_by_email(connection: sqlite3.Connection, email: str) -> Phone | None:
    """Return the phone of the platform user with this e-mail address.

    None unless exactly one active user has the address.
    """
    rows = connection.execute(f"{_SELECT_PHONES} AND lower(email) = lower(?) LIMIT 2", (email,)).fetchall()
    return Phone(*rows[0]) if len(rows) == 1 else None


def find_own_phone(connection: sqlite3.Connection, user_id: int | None, email: str) -> Phone | None:
    """Return the phone that an administrator assigned, otherwise the one with the e-mail address."""
    return find_phone(connection, user_id) or find_phone_by_email(connection, email)


def share_pickup_group(connection: sqlite3.Connection, user_id: int, ringing: Sequence[int]) -> bool:
    """Return whether a user is in the pickup group of a ringing phone.

    `ringing`: platform users. Only the own path of a user has the group, see `_item`. A user who was not read
    yet is in none.
    """
    groups = {
        row[0]: row[1]
        for row in connection.execute(
            "SELECT id, json_extract(_item, '$.pickup_group_id') FROM users"
            " WHERE id IN (SELECT value FROM json_each(?)) AND json_valid(_item)",
            (id_list([user_id, *ringing]),),
        )
    }
    return bool(groups.get(user_id)) and any(groups.get(user) == groups[user_id] for user in ringing)


def list_caller_id_numbers(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the account's numbers that a call may show.

    Columns: e164 (as received), name.
    """
    return connection.execute(
        "SELECT e164, name FROM ddis WHERE _missing_since IS NULL ORDER BY e164"
    ).fetchall()


def list_account_numbers(connection: sqlite3.Connection, phone_numbers: PhoneNumbers) -> frozenset[str]:
    """Return the account's numbers in E.164: those that are never blocked and cannot opt out."""
    numbers = (phone_numbers.to_e164(row["e164"]) for row in list_caller_id_numbers(connection))
    return frozenset(number for number in numbers if number)


def list_transfer_targets(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return (kind, name, number) of queues and ring groups with numbers."""
    return [
        (kind, row["name"], row["number"])
        for kind, table in (("Queues", "queues"), ("Ring groups", "ringgroups"))
        for row in connection.execute(
            f"SELECT coalesce(name, id) AS name, CAST(number AS TEXT) AS number FROM {table}"
            " WHERE _missing_since IS NULL AND number IS NOT NULL ORDER BY 1 COLLATE NOCASE"
        )
    ]


@dataclass(frozen=True, slots=True)
class LiveLeg:
    """Open leg. `side` is that of `LegView`.

    `monitor_state` is the platform's code: 'A' recording, 'P' paused, None unknown.
    """

    id: int
    state: str
    is_connected: bool
    side: str
    user_id: int | None
    monitor_state: str | None


def list_live_legs(connection: sqlite3.Connection, call_id: int) -> list[LiveLeg]:
    """Return the open legs of a call; connected legs are first."""
    rows = connection.execute(
        "SELECT l.leg_id, l.state, l.connected, l.side, l.user_id, c.monitor_state FROM _legs l"
        " LEFT JOIN calls c ON c.id = l.leg_id WHERE l.call_id = ? AND l.state <> 'ENDED'"
        " ORDER BY l.connected DESC, l.leg_id",
        (call_id,),
    )
    return [
        LiveLeg(row[0], row[1], bool(row[2]), row[3], row[4], None if row[5] is None else str(row[5]))
        for row in rows
    ]
