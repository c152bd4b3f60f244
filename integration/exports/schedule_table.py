"""Schedules of exports: what is exported, how often, in which zone, and where to (`export_deliveries.py` has
what became of it)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from integration.core import clock
from integration.core.refused import Refused
from integration.exports import deliveries as export_deliveries
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS export_schedules (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    file TEXT NOT NULL UNIQUE,
    who TEXT NOT NULL,
    export TEXT NOT NULL,
    form TEXT NOT NULL,
    args TEXT NOT NULL,
    every TEXT NOT NULL CHECK (every IN ('day', 'week', 'month')),
    at TEXT NOT NULL,
    zone TEXT NOT NULL,
    target TEXT NOT NULL CHECK (target IN ('folder', 'email', 'put')),
    place TEXT NOT NULL,
    secret TEXT NOT NULL,
    wait_hours INTEGER NOT NULL,
    incomplete INTEGER NOT NULL CHECK (incomplete IN (0, 1)),
    since TEXT NOT NULL,
    paused_at TEXT,
    created_at TEXT NOT NULL
) STRICT;
"""

Target = Literal["folder", "email", "put"]
TARGETS: tuple[Target, ...] = get_args(Target)
MOST = 100
"""Schedules of an installation."""
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Schedule:
    """`export` and `form` are those of `/exports/<export>.<form>`, `args` its parameters. `file` is how
    names of files begin, before their period. `at` is 'HH:MM' in `zone`; `place` is a folder below the
    allowed one, e-mail addresses with blanks between, or a URL; `secret` its Authorization header, or ''.

    It runs in the name of `who`. For data that is not complete it waits `wait_hours`; then it delivers what
    there is where `incomplete` says so. Periods that were due until `since` (UTC text) are none of its.
    """

    id: int
    name: str
    file: str
    who: str
    export: str
    form: str
    args: Mapping[str, str]
    every: Literal["day", "week", "month"]
    at: str
    zone: str
    target: Target
    place: str
    secret: str
    wait_hours: int
    incomplete: bool
    since: str
    paused_at: str | None
    created_at: str

    @property
    def shown_place(self) -> str:
        """`place` for pages and logs: what stands behind '?' in a URL may be a credential."""
        return self.place.partition("?")[0] if self.target == "put" else self.place


def everything(connection: sqlite3.Connection) -> list[Schedule]:
    """All schedules, by name."""
    rows = connection.execute("SELECT * FROM export_schedules ORDER BY name COLLATE NOCASE, id")
    return [_of(row) for row in rows]


def find(connection: sqlite3.Connection, number: int) -> Schedule | None:
    row = connection.execute("SELECT * FROM export_schedules WHERE id = ?", (number,)).fetchone()
    return None if row is None else _of(row)


def file_name(name: str) -> str:
    """What files of the schedule `name` are called. Raises Refused where nothing is left of it."""
    file = re.sub(r"[^\w.]+", "-", name.casefold()).strip("-._")
    if not file:
        raise Refused("A schedule needs a name with letters or figures in it.")
    return file


def add(house: Database, wanted: Schedule) -> int:
    """Keep a new schedule; returns its id. Raises Refused."""

    def work(tx: Transaction) -> int:
        if tx.execute("SELECT count(*) FROM export_schedules").fetchone()[0] >= MOST:
            raise Refused(f"There are {MOST} schedules already. Remove one first.")
        now = clock.stamp()
        made = replace(wanted, id=0, since=now, created_at=now, paused_at=None)
        return _put(tx, made)

    return house.write(work)


def change(house: Database, wanted: Schedule) -> None:
    """Replace the schedule of this id; what failed is tried again at once. Raises Refused."""

    def work(tx: Transaction) -> None:
        before = find(tx.connection, wanted.id)
        if before is None:
            raise Refused("This schedule was removed.")
        since = before.since
        if wanted.every != before.every:
            # Periods of another length are other periods.
            since = clock.stamp()
            export_deliveries.drop_open(tx, wanted.id)
        _put(tx, replace(wanted, since=since, created_at=before.created_at, paused_at=before.paused_at))
        export_deliveries.forgive(tx, wanted.id)

    house.write(work)


def remove(house: Database, number: int) -> bool:
    """False where there is none. Its log stays."""
    return house.write(
        lambda tx: tx.execute("DELETE FROM export_schedules WHERE id = ?", (number,)).rowcount > 0
    )


def pause(house: Database, number: int) -> None:
    """Deliver nothing until `resume`."""
    house.write(
        lambda tx: tx.execute(
            "UPDATE export_schedules SET paused_at = coalesce(paused_at, ?) WHERE id = ?",
            (clock.stamp(), number),
        )
    )


def resume(house: Database, number: int) -> None:
    """Go on with what was open before the pause, and with what becomes due from now on."""

    def work(tx: Transaction) -> None:
        tx.execute(
            "UPDATE export_schedules SET since = ?, paused_at = NULL WHERE id = ? AND paused_at IS NOT NULL",
            (clock.stamp(), number),
        )
        export_deliveries.forgive(tx, number)

    house.write(work)


_WRITTEN = (
    "name", "file", "who", "export", "form", "args", "every", "at", "zone", "target", "place", "secret",
    "wait_hours", "incomplete", "since", "paused_at", "created_at",
)  # fmt: skip


def _put(tx: Transaction, wanted: Schedule) -> int:
    name = " ".join(wanted.name.split())[:LONGEST_NAME]
    kept = replace(wanted, name=name, file=file_name(name))
    taken = tx.execute(
        "SELECT name FROM export_schedules WHERE file = ? AND id <> ?", (kept.file, kept.id)
    ).fetchone()
    if taken is not None:
        raise Refused(
            f"Files of the schedule “{taken[0]}” are called {kept.file} already. Choose another name."
        )
    values: list[object] = []
    for column in _WRITTEN:
        value = getattr(kept, column)
        values.append(json.dumps(dict(value)) if column == "args" else value)
    if kept.id:
        changes = ", ".join(f"{column} = ?" for column in _WRITTEN)
        tx.execute(f"UPDATE export_schedules SET {changes} WHERE id = ?", (*values, kept.id))
        return kept.id
    names, marks = ", ".join(_WRITTEN), ", ".join("?" * len(_WRITTEN))
    row = tx.execute(f"INSERT INTO export_schedules ({names}) VALUES ({marks})", values)
    return int(row.lastrowid or 0)


def _of(row: sqlite3.Row) -> Schedule:
    values = {name: row[name] for name in ("id", *_WRITTEN)}
    return Schedule(**{**values, "args": json.loads(row["args"]), "incomplete": bool(row["incomplete"])})
