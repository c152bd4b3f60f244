"""Large exports that are prepared in the background: who asked for what, how far it is, which file it became.

`running` outlives the process that ran it: whoever starts next begins it again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.core.refused import Refused
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS prepared_exports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    who TEXT NOT NULL,
    person_id INTEGER,
    export TEXT NOT NULL,
    form TEXT NOT NULL,
    args TEXT NOT NULL,
    only_user INTEGER,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
    total INTEGER NOT NULL,
    begun INTEGER NOT NULL DEFAULT 0,
    rows INTEGER,
    bytes INTEGER,
    error TEXT,
    created_at TEXT NOT NULL,
    ended_at TEXT
) STRICT;
"""

State = Literal["waiting", "running", "done", "failed", "cancelled"]
MOST_AT_ONCE = 5
"""Of one owner, waiting or running."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """`owner` alone may have the file: 'person ID', 'key USER_ID' or 'platform user …'. `only_user` is the
    platform user they were narrowed to; `total` the rows when it was asked for, `rows` and `bytes` those of
    the file. Times are UTC text."""

    id: int
    owner: str
    who: str
    person_id: int | None
    export: str
    form: str
    args: Mapping[str, str]
    only_user: int | None
    state: State
    total: int
    begun: int
    rows: int | None
    bytes: int | None
    error: str | None
    created_at: str
    ended_at: str | None

    @property
    def under_way(self) -> bool:
        return self.state in ("waiting", "running")


def add(
    house: Database,
    *,
    owner: str,
    who: str,
    person_id: int | None,
    export: str,
    form: str,
    args: Mapping[str, str],
    only_user: int | None,
    total: int,
) -> Prepared:
    """Ask for a file. The same one, asked for again while it is under way, is that one. Raises Refused where
    the owner has too many under way."""
    asked = json.dumps({name: args[name] for name in sorted(args) if args[name]})

    def work(tx: Transaction) -> Prepared:
        under_way = [one for one in of_owner(tx.connection, owner) if one.under_way]
        for one in under_way:
            if (one.export, one.form, dict(one.args)) == (export, form, json.loads(asked)):
                return one
        if len(under_way) >= MOST_AT_ONCE:
            raise Refused(f"{MOST_AT_ONCE} exports are being prepared for you already.")
        row = tx.execute(
            "INSERT INTO prepared_exports"
            " (owner, who, person_id, export, form, args, only_user, state, total, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
            (owner, who, person_id, export, form, asked, only_user, total, clock.stamp()),
        )
        made = find(tx.connection, int(row.lastrowid or 0))
        assert made is not None
        return made

    return house.write(work)


def find(connection: sqlite3.Connection, number: int) -> Prepared | None:
    row = connection.execute("SELECT * FROM prepared_exports WHERE id = ?", (number,)).fetchone()
    return None if row is None else _of(row)


def of_owner(connection: sqlite3.Connection, owner: str) -> list[Prepared]:
    """The newest first."""
    rows = connection.execute("SELECT * FROM prepared_exports WHERE owner = ? ORDER BY id DESC", (owner,))
    return [_of(row) for row in rows]


def in_states(connection: sqlite3.Connection, *states: State) -> list[Prepared]:
    """The oldest first."""
    marks = ", ".join("?" * len(states))
    rows = connection.execute(f"SELECT * FROM prepared_exports WHERE state IN ({marks}) ORDER BY id", states)
    return [_of(row) for row in rows]


def begin(house: Database, number: int) -> bool:
    """Take it up; False where somebody cancelled it meanwhile."""
    return _moved(house, number, "running", ("waiting", "running"), begun=1)


def done(house: Database, number: int, rows: int, size: int) -> bool:
    """The file is there; False where somebody cancelled it meanwhile."""
    return _moved(house, number, "done", ("running",), rows=rows, size=size)


def failed(house: Database, number: int, error: str) -> None:
    _moved(house, number, "failed", ("waiting", "running"), error=error)


def cancel(house: Database, number: int) -> bool:
    return _moved(house, number, "cancelled", ("waiting", "running"))


def forget(house: Database, number: int) -> None:
    house.write(lambda tx: tx.execute("DELETE FROM prepared_exports WHERE id = ?", (number,)))


def _moved(
    house: Database,
    number: int,
    state: State,
    before: tuple[State, ...],
    *,
    begun: int = 0,
    rows: int | None = None,
    size: int | None = None,
    error: str | None = None,
) -> bool:
    ended = None if state == "running" else clock.stamp()
    marks = ", ".join("?" * len(before))
    return house.write(
        lambda tx: (
            tx.execute(
                "UPDATE prepared_exports SET state = ?, begun = begun + ?, rows = ?, bytes = ?, error = ?,"
                f" ended_at = ? WHERE id = ? AND state IN ({marks})",
                (state, begun, rows, size, error, ended, number, *before),
            ).rowcount
            > 0
        )
    )


def _of(row: sqlite3.Row) -> Prepared:
    return Prepared(**{**dict(row), "args": json.loads(row["args"])})
