"""Dashboard users: accounts, roles and rights.

| Role | Sees and does |
|---|---|
| viewer | reads calls and messages |
| agent | also edits call-backs and notes, sends messages |
| supervisor | also sees the work of all users, and reports |
| admin | also manages users, keys and settings |
| exports | exports calls, missed calls and CDRs, reads Reports, and nothing else |

Rights (`rights.RIGHTS`) follow the role unless they are granted or denied to the user by name. With
`dashboard.agents_see: own` viewers and agents see, and listen to, only the calls of their own platform user.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from integration.access import passwords, session_ends
from integration.access.login import mail_queue, second_factor
from integration.access.rights import EXPORTS_ONLY, RIGHTS, ROLE_LABELS, ROLES, Role, compute_rights
from integration.core import clock
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.readers import Readable
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from integration.sqlite.schema import Schema

_EMAIL_PATTERN = re.compile(r"^[^@\s<>\"',;]{1,64}@[^@\s<>\"',;]{1,189}$")

TABLES = """
CREATE TABLE IF NOT EXISTS people (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'agent', 'supervisor', 'admin')),
    platform_user_id INTEGER,
    password TEXT,
    created_at TEXT NOT NULL,
    password_at TEXT,
    login_at TEXT,
    rights TEXT NOT NULL DEFAULT '{}',
    exports_rights TEXT
) STRICT;
"""
"""Column `rights` is JSON: true or false for each right granted or denied by name.

A user with the role exports has its rights in `exports_rights`, which is null for other roles. The columns
`role` and `rights` of this user are those of a viewer with every right denied, for versions without the role.
"""


@dataclass(frozen=True, slots=True)
class Person:
    """Dashboard user.

    `platform_user_id` is the platform user of the same person, None if not set. `has_password` is False until
    a password is set. Times are UTC text.
    """

    id: int
    email: str
    role: Role
    rights: frozenset[str]
    platform_user_id: int | None
    has_password: bool
    created_at: str
    login_at: str | None


def describe_access(person: Person) -> str:
    """Return address, role and rights of a dashboard user for the audit log."""
    labels = (RIGHTS[name].label for name in sorted(person.rights))
    return f"{person.email}, {ROLE_LABELS[person.role]}, may: {', '.join(labels) or 'nothing more'}"


def create(
    app_db: Database,
    email: str,
    role: str,
    *,
    password_hash: str | None = None,
    platform_user_id: int | None = None,
) -> Person:
    """Add a dashboard user.

    Without a password hash the user needs a setup link. Raises DomainError for a malformed address, an
    unknown role, or an address in use.
    """
    return app_db.write(lambda tx: insert(tx, email, role, password_hash, platform_user_id))


def insert(
    tx: Transaction,
    email: str,
    role: str,
    password_hash: str | None = None,
    platform_user_id: int | None = None,
) -> Person:
    """Add a dashboard user within a transaction. See `create`."""
    address = normalize_email(email)
    if not _EMAIL_PATTERN.match(address):
        raise DomainError(f"{email!r} is not an e-mail address.")
    if tx.execute("SELECT 1 FROM people WHERE email = ?", (address,)).fetchone():
        raise DomainError(f"A dashboard user with the e-mail address {address} exists already.")
    now = clock.utc_text()
    stored = _to_columns(_check_role(role), {})
    tx.execute(
        "INSERT INTO people"
        " (email, role, rights, exports_rights, platform_user_id, password, created_at, password_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (address, *stored, platform_user_id, password_hash, now, now if password_hash else None),
    )
    return require_person(tx.connection, address)


def find(app_db: Database, email: str) -> Person | None:
    """Return the dashboard user with this address, None if there is none.

    Case is ignored.
    """
    with app_db.read() as connection:
        return _find_by_email(connection, email)


def get(app_db: Database, person_id: int) -> Person | None:
    with app_db.read() as connection:
        return find_by_id(connection, person_id)


def list_all(app_db: Readable) -> list[Person]:
    """Return all dashboard users, ordered by address."""
    with app_db.read() as connection:
        return [from_row(row) for row in connection.execute("SELECT * FROM people ORDER BY email")]


def authenticate(app_db: Database, email: str, password: str) -> Person | None:
    """Return the dashboard user if the password is correct, else None.

    An unknown address takes as long as a wrong password. Raises TooManyLogins.
    """
    with app_db.read() as connection:
        row = connection.execute("SELECT * FROM people WHERE email = ?", (normalize_email(email),)).fetchone()
    stored_hash = row["password"] if row else None
    if not passwords.verify(stored_hash, password) or stored_hash is None:
        return None
    new_hash = passwords.rehash(password) if passwords.needs_rehash(stored_hash) else stored_hash

    def record_login(tx: Transaction) -> Person | None:
        # Only if the password is still the verified one: it may have been changed since.
        changed = tx.execute(
            "UPDATE people SET login_at = ?, password = ? WHERE id = ? AND password = ?",
            (clock.utc_text(), new_hash, row["id"], stored_hash),
        )
        return find_by_id(tx.connection, row["id"]) if changed.rowcount else None

    return app_db.write(record_login)


def record_login(tx: Transaction, person_id: int) -> None:
    """Set the time of the last login to now."""
    tx.execute("UPDATE people SET login_at = ? WHERE id = ?", (clock.utc_text(), person_id))


def has_password(app_db: Database, person: Person, password: str) -> bool:
    """Return whether this is the current password of the user. Raises TooManyLogins."""
    with app_db.read() as connection:
        row = connection.execute("SELECT password FROM people WHERE id = ?", (person.id,)).fetchone()
    return passwords.verify(row["password"] if row else None, password)


def set_password(app_db: Database, email: str, password_hash: str) -> Person:
    """Set a password; end sessions, setup links and known devices.

    The user gets a notice if this replaces a password. Raises DomainError for an unknown address.
    """

    def work(tx: Transaction) -> Person:
        person = require_person(tx.connection, email)
        store_password(tx, person.id, password_hash)
        return require_person(tx.connection, email)

    return app_db.write(work)


def store_password(tx: Transaction, person_id: int, password_hash: str) -> None:
    """Set a password within a transaction. See `set_password`."""
    if tx.execute("SELECT 1 FROM people WHERE id = ? AND password IS NOT NULL", (person_id,)).fetchone():
        mail_queue.add_notice(tx, person_id, "password changed")
    tx.execute(
        "UPDATE people SET password = ?, password_at = ? WHERE id = ?",
        (password_hash, clock.utc_text(), person_id),
    )
    session_ends.end_sessions(tx, "person_id = ?", (person_id,))
    tx.execute("DELETE FROM setup_links WHERE person_id = ?", (person_id,))
    tx.execute("DELETE FROM devices WHERE person_id = ?", (person_id,))


def change(
    app_db: Database,
    email: str,
    *,
    role: str | None = None,
    rights: Mapping[str, bool | None] = MappingProxyType({}),
    platform_user_id: int | Literal["unchanged"] | None = "unchanged",
) -> Person:
    """Change a dashboard user in one transaction.

    `rights` are granted (True), denied (False) or follow the role (None); others are unchanged. The linked
    platform user is required by `dashboard.agents_see: own`. Raises DomainError for an unknown address, role
    or right, and if no administrator would remain.
    """
    for right in rights:
        if right not in RIGHTS:
            raise DomainError(f"There is no right {right!r}. Rights are {', '.join(RIGHTS)}.")

    def work(tx: Transaction) -> Person:
        person = require_person(tx.connection, email)
        new_role = person.role if role is None else _check_role(role)
        if new_role != "admin":
            _check_not_last_admin(tx, person)
        row = tx.execute("SELECT * FROM people WHERE id = ?", (person.id,)).fetchone()
        explicit = {**read_explicit_rights(row), **rights}
        stored_rights = {name: value for name, value in explicit.items() if value is not None}
        user_id = person.platform_user_id if platform_user_id == "unchanged" else platform_user_id
        tx.execute(
            "UPDATE people SET role = ?, rights = ?, exports_rights = ?, platform_user_id = ? WHERE id = ?",
            (*_to_columns(new_role, stored_rights), user_id, person.id),
        )
        session_ends.report_change(tx)
        return require_person(tx.connection, email)

    return app_db.write(work)


def load_explicit_rights(app_db: Database, person_id: int) -> dict[str, bool]:
    """Return the rights that are granted or denied by name.

    The others follow the role.
    """
    with app_db.read() as connection:
        row = connection.execute("SELECT * FROM people WHERE id = ?", (person_id,)).fetchone()
    return {} if row is None else read_explicit_rights(row)


def remove_second_factor(app_db: Database, email: str) -> Person:
    """Remove the second factor of a dashboard user, who gets a notice.

    Raises DomainError for an unknown address, and if there is no second factor.
    """

    def work(tx: Transaction) -> Person:
        person = require_person(tx.connection, email)
        if not second_factor.remove(tx, person.id):
            raise DomainError(f"{person.email} has no second factor.")
        mail_queue.add_notice(tx, person.id, "second factor removed")
        return person

    return app_db.write(work)


def remove(app_db: Database, email: str) -> None:
    """Remove a dashboard user and end the user's sessions at once.

    Raises DomainError for an unknown address and for the last administrator.
    """

    def work(tx: Transaction) -> None:
        person = require_person(tx.connection, email)
        _check_not_last_admin(tx, person)
        session_ends.end_sessions(tx, "person_id = ?", (person.id,), by_admin=True)
        tx.execute("DELETE FROM people WHERE id = ?", (person.id,))

    app_db.write(work)


def normalize_email(email: str) -> str:
    return email.strip().casefold()


def find_by_id(connection: sqlite3.Connection, person_id: int) -> Person | None:
    """Return a dashboard user by id, None if there is none."""
    row = connection.execute("SELECT * FROM people WHERE id = ?", (person_id,)).fetchone()
    return from_row(row) if row else None


def require_person(connection: sqlite3.Connection, email: str) -> Person:
    """Return the dashboard user with this address, on an open connection.

    Raises DomainError if there is none.
    """
    person = _find_by_email(connection, email)
    if person is None:
        raise DomainError(
            f"No dashboard user has the e-mail address {normalize_email(email)!r}. "
            "`switchroom user list` shows all users."
        )
    return person


def from_row(row: sqlite3.Row) -> Person:
    """Build a Person from a row with all columns of `people`."""
    role: Role = row["role"] if _read_exports_rights(row) is None else EXPORTS_ONLY
    return Person(
        id=row["id"],
        email=row["email"],
        role=role,
        rights=compute_rights(role, read_explicit_rights(row)),
        platform_user_id=row["platform_user_id"],
        has_password=row["password"] is not None,
        created_at=row["created_at"],
        login_at=row["login_at"],
    )


def _check_role(role: str) -> Role:
    for candidate in ROLES:
        if role == candidate:
            return candidate
    raise DomainError(f"There is no role {role!r}. Roles are {', '.join(ROLES)}.")


def _find_by_email(connection: sqlite3.Connection, email: str) -> Person | None:
    row = connection.execute("SELECT * FROM people WHERE email = ?", (normalize_email(email),)).fetchone()
    return from_row(row) if row else None


def _check_not_last_admin(tx: Transaction, person: Person) -> None:
    if person.role != "admin":
        return
    other_admin = tx.execute(
        "SELECT 1 FROM people WHERE role = 'admin' AND id != ? LIMIT 1", (person.id,)
    ).fetchone()
    if other_admin is None:
        raise DomainError(f"{person.email} is the last administrator. Add another administrator first.")


# --- rights as stored ----------------------------------------------------------------------------------

_COLUMN_RIGHTS = ("export", "recordings")
"""Rights that were separate columns in earlier versions."""


def read_explicit_rights(row: sqlite3.Row) -> dict[str, bool]:
    """Return the rights granted or denied by name in a row."""
    exports_rights = _read_exports_rights(row)
    if exports_rights is not None:
        return exports_rights
    if "rights" in row.keys():  # noqa: SIM118 – `in` on a Row searches its values
        stored: dict[str, bool] = json.loads(row["rights"])
        return stored
    # A read-only command can open a database that no writer has migrated yet.
    return {name: bool(row[name]) for name in _COLUMN_RIGHTS if row[name] is not None}


def _read_exports_rights(row: sqlite3.Row) -> dict[str, bool] | None:
    """Return the rights granted or denied to a user with the role exports; None for another role."""
    # A read-only command can open a database that no writer has migrated yet.
    text = row["exports_rights"] if "exports_rights" in row.keys() else None  # noqa: SIM118
    return None if text is None else dict(json.loads(text))


def _to_columns(role: Role, explicit: Mapping[str, bool]) -> tuple[str, str, str | None]:
    """Return the columns `role`, `rights` and `exports_rights`."""
    if role == EXPORTS_ONLY:
        return "viewer", _format_rights(dict.fromkeys(RIGHTS, False)), _format_rights(explicit)
    return role, _format_rights(explicit), None


def add_exports_column(schema: Schema) -> None:
    """Migration: add the column `exports_rights`."""
    if "exports_rights" not in schema.table("people").columns_dict:
        schema.table("people").add_column("exports_rights", str)


def merge_right_columns(schema: Schema) -> None:
    """Migration: move the columns `export` and `recordings` into `rights`."""
    table = schema.table("people")
    if not set(table.columns_dict).issuperset(_COLUMN_RIGHTS):
        return
    rights = [
        (
            _format_rights({name: bool(row[name]) for name in _COLUMN_RIGHTS if row[name] is not None}),
            row["id"],
        )
        for row in table.rows
    ]
    table.add_column("rights", str, not_null_default="{}")
    schema.conn.executemany("UPDATE people SET rights = ? WHERE id = ?", rights)
    for name in _COLUMN_RIGHTS:
        schema.execute(f"ALTER TABLE people DROP COLUMN {name}")


def _format_rights(explicit: Mapping[str, bool]) -> str:
    return json.dumps(explicit, sort_keys=True)
