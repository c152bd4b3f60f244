"""People of the dashboard: who they are, their role, what they may do.

| Role | Sees and does | `export` | `recordings` |
|---|---|---|---|
| viewer | reads calls and messages | no | no |
| agent | works: call-backs, notes, messages | no | yes |
| supervisor | everyone's work, reports | yes | yes |
| admin | people, keys, settings | yes | yes |

The rights `export` and `recordings` follow the role unless a person was given or denied them by name. With
`dashboard.agents_see: own` viewers and agents see (and listen to) the calls of their own platform user
only, so an agent's right to recordings reaches no further than the calls they may see.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Literal, get_args

from integration.access import passwords
from integration.core import clock
from integration.core.refused import Refused
from integration.sqlite.beside import Readable
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

Role = Literal["viewer", "agent", "supervisor", "admin"]
Right = Literal["export", "recordings"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most."""
RIGHTS: tuple[Right, ...] = get_args(Right)
_FROM_ROLE: dict[Right, Role] = {"export": "supervisor", "recordings": "agent"}
_SET_RIGHT: dict[Right, str] = {
    "export": "UPDATE people SET export = ? WHERE id = ?",
    "recordings": "UPDATE people SET recordings = ? WHERE id = ?",
}

_EMAIL = re.compile(r"^[^@\s<>\"',;]{1,64}@[^@\s<>\"',;]{1,189}$")

TABLES = """
CREATE TABLE IF NOT EXISTS people (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'agent', 'supervisor', 'admin')),
    export INTEGER CHECK (export IN (0, 1)),
    recordings INTEGER CHECK (recordings IN (0, 1)),
    platform_user_id INTEGER,
    password TEXT,
    created_at TEXT NOT NULL,
    password_at TEXT,
    login_at TEXT
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who may log in. `platform_user_id` is the user of the platform they are, if known;
    `ready` says whether they have set a password. Times are UTC text."""

    id: int
    email: str
    role: Role
    rights: frozenset[Right]
    platform_user_id: int | None
    ready: bool
    created_at: str
    login_at: str | None

    def may(self, role_or_right: str) -> bool:
        """Whether the role is at least this one, or the right is theirs."""
        if role_or_right in ROLES:
            return ROLES.index(self.role) >= ROLES.index(role_or_right)
        if role_or_right in RIGHTS:
            return role_or_right in self.rights
        raise ValueError(f"neither a role nor a right: {role_or_right!r}")


def create(
    house: Database,
    email: str,
    role: str,
    *,
    password_hash: str | None = None,
    platform_user_id: int | None = None,
) -> Person:
    """Add a person; without a hash they can log in only after a set-up link.

    Raises Refused for a malformed address, an unknown role, or an address that is taken.
    """
    return house.write(lambda tx: insert(tx, email, role, password_hash, platform_user_id))


def insert(
    tx: Transaction,
    email: str,
    role: str,
    password_hash: str | None = None,
    platform_user_id: int | None = None,
) -> Person:
    """`create` within a transaction that does more."""
    address = normal_email(email)
    if not _EMAIL.match(address):
        raise Refused(f"not an e-mail address: {email!r}")
    if tx.execute("SELECT 1 FROM people WHERE email = ?", (address,)).fetchone():
        raise Refused(f"{address} is there already")
    now = clock.stamp()
    tx.execute(
        "INSERT INTO people (email, role, platform_user_id, password, created_at, password_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (address, _role(role), platform_user_id, password_hash, now, now if password_hash else None),
    )
    return demand(tx.connection, address)


def find(house: Database, email: str) -> Person | None:
    """The person with this address, in any case of its letters."""
    with house.read() as connection:
        return _by_email(connection, email)


def get(house: Database, person_id: int) -> Person | None:
    with house.read() as connection:
        return by_id(connection, person_id)


def everyone(house: Readable) -> list[Person]:
    """All people, by address."""
    with house.read() as connection:
        return [from_row(row) for row in connection.execute("SELECT * FROM people ORDER BY email")]


def authenticate(house: Database, email: str, password: str) -> Person | None:
    """The person whose password this is. An unknown address costs the same work as a wrong password."""
    with house.read() as connection:
        row = connection.execute("SELECT * FROM people WHERE email = ?", (normal_email(email),)).fetchone()
    stored = row["password"] if row else None
    if not passwords.verify(stored, password) or stored is None:
        return None
    fresh = passwords.hash_password(password) if passwords.outdated(stored) else stored

    def welcome(tx: Transaction) -> Person | None:
        # Only if the password is still the one that was checked: it may have been changed meanwhile.
        changed = tx.execute(
            "UPDATE people SET login_at = ?, password = ? WHERE id = ? AND password = ?",
            (clock.stamp(), fresh, row["id"], stored),
        )
        return by_id(tx.connection, row["id"]) if changed.rowcount else None

    return house.write(welcome)


def set_password(house: Database, email: str, password_hash: str) -> Person:
    """A new password; ends every session and set-up link of the person. Raises Refused if unknown."""

    def work(tx: Transaction) -> Person:
        person = demand(tx.connection, email)
        put_password(tx, person.id, password_hash)
        return demand(tx.connection, email)

    return house.write(work)


def put_password(tx: Transaction, person_id: int, password_hash: str) -> None:
    """`set_password` within a transaction that does more."""
    tx.execute(
        "UPDATE people SET password = ?, password_at = ? WHERE id = ?",
        (password_hash, clock.stamp(), person_id),
    )
    tx.execute("DELETE FROM sessions WHERE person_id = ?", (person_id,))
    tx.execute("DELETE FROM setup_links WHERE person_id = ?", (person_id,))


def set_role(house: Database, email: str, role: str) -> Person:
    """Raises Refused for an unknown person or role, and for the last administrator."""

    def work(tx: Transaction) -> Person:
        person = demand(tx.connection, email)
        if _role(role) != "admin":
            _keep_an_admin(tx, person)
        tx.execute("UPDATE people SET role = ? WHERE id = ?", (role, person.id))
        return demand(tx.connection, email)

    return house.write(work)


def set_right(house: Database, email: str, right: Right, given: bool | None) -> Person:
    """Give or deny a right by name; None lets it follow the role again."""
    if right not in RIGHTS:
        raise Refused(f"no such right: {right!r}; rights are {', '.join(RIGHTS)}")

    def work(tx: Transaction) -> Person:
        person = demand(tx.connection, email)
        value = None if given is None else int(given)
        tx.execute(_SET_RIGHT[right], (value, person.id))
        return demand(tx.connection, email)

    return house.write(work)


def own_rights(house: Database, person_id: int) -> dict[str, bool | None]:
    """What was given or denied by name; None for what follows the role."""
    with house.read() as connection:
        row = connection.execute(
            f"SELECT {', '.join(RIGHTS)} FROM people WHERE id = ?", (person_id,)
        ).fetchone()
    return {right: None if row is None or row[right] is None else bool(row[right]) for right in RIGHTS}


def set_platform_user(house: Database, email: str, user_id: int | None) -> Person:
    """Say which user of the platform a person is (`dashboard.agents_see: own` needs it)."""

    def work(tx: Transaction) -> Person:
        person = demand(tx.connection, email)
        tx.execute("UPDATE people SET platform_user_id = ? WHERE id = ?", (user_id, person.id))
        return demand(tx.connection, email)

    return house.write(work)


def remove(house: Database, email: str) -> None:
    """Remove a person and end their sessions at once. Raises Refused if unknown or the last administrator."""

    def work(tx: Transaction) -> None:
        person = demand(tx.connection, email)
        _keep_an_admin(tx, person)
        tx.execute("DELETE FROM people WHERE id = ?", (person.id,))

    house.write(work)


def none_yet(house: Database) -> bool:
    """Whether nobody was ever added: the installation waits for its first administrator."""
    with house.read() as connection:
        return connection.execute("SELECT 1 FROM people LIMIT 1").fetchone() is None


def normal_email(email: str) -> str:
    return email.strip().casefold()


def by_id(connection: sqlite3.Connection, person_id: int) -> Person | None:
    """`get` on an open connection."""
    row = connection.execute("SELECT * FROM people WHERE id = ?", (person_id,)).fetchone()
    return from_row(row) if row else None


def demand(connection: sqlite3.Connection, email: str) -> Person:
    """The person with this address, within a transaction. Raises Refused if there is none."""
    person = _by_email(connection, email)
    if person is None:
        raise Refused(f"nobody here has the address {normal_email(email)!r}")
    return person


def from_row(row: sqlite3.Row) -> Person:
    """A Person from a row that has all columns of `people`."""
    role: Role = row["role"]
    rights = frozenset(
        right
        for right in RIGHTS
        if (row[right] if row[right] is not None else ROLES.index(role) >= ROLES.index(_FROM_ROLE[right]))
    )
    return Person(
        id=row["id"],
        email=row["email"],
        role=role,
        rights=rights,
        platform_user_id=row["platform_user_id"],
        ready=row["password"] is not None,
        created_at=row["created_at"],
        login_at=row["login_at"],
    )


def _role(role: str) -> Role:
    for known in ROLES:
        if role == known:
            return known
    raise Refused(f"no such role: {role!r}; roles are {', '.join(ROLES)}")


def _by_email(connection: sqlite3.Connection, email: str) -> Person | None:
    row = connection.execute("SELECT * FROM people WHERE email = ?", (normal_email(email),)).fetchone()
    return from_row(row) if row else None


def _keep_an_admin(tx: Transaction, person: Person) -> None:
    if person.role != "admin":
        return
    others = tx.execute(
        "SELECT 1 FROM people WHERE role = 'admin' AND id != ? LIMIT 1", (person.id,)
    ).fetchone()
    if others is None:
        raise Refused(f"{person.email} is the last administrator; add another one first")
