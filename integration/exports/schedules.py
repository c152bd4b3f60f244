"""Export schedules: export, frequency, time zone and target. `delivery_states.py` stores their progress."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from integration.catalogue import RESOURCES
from integration.core import clock
from integration.core.errors import DomainError
from integration.exports import delivery_states
from integration.exports.columns import use_one_zone
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema
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
PARTITION_PARAMETER = "partition_by"
"""Parameter of an export in files by month; its value is 'month'."""
MAX_SCHEDULES = 100
"""Largest number of schedules of an installation."""
MAX_NAME_LENGTH = 60
"""Characters of a schedule's name; a longer name is truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A recurring export.

    `export` and `form` are as in `/exports/<export>.<form>`, `args` the parameters. `file` is the prefix
    of file names, before the period. `at` is 'HH:MM' in `zone`. `place` is a folder below `exports.folder`,
    e-mail addresses separated by blanks, or a URL; `secret` is the Authorization header for the URL, or ''.

    Exports run with the rights of the dashboard user `who` (an e-mail address). A schedule waits `wait_hours`
    for complete data, then delivers an incomplete file if `incomplete` is set. Periods due until `since` (UTC
    text) are not delivered.
    """

    id: int = 0
    name: str = ""
    file: str = ""
    who: str = ""
    export: str
    form: str = "xlsx"
    args: Mapping[str, str]
    every: Literal["day", "week", "month"] = "day"
    at: str = "06:00"
    zone: str
    target: Target = "folder"
    place: str = ""
    secret: str = ""
    wait_hours: int = 6
    incomplete: bool = True
    since: str = ""
    paused_at: str | None = None
    created_at: str = ""

    @property
    def is_by_month(self) -> bool:
        """True for one file per month.

        A delivery then writes the changed months.
        """
        return self.args.get(PARTITION_PARAMETER) == "month"

    @property
    def display_form(self) -> str:
        """Format for pages and lists: 'csv', 'parquet by month'."""
        return f"{self.form} by month" if self.is_by_month else self.form

    @property
    def display_place(self) -> str:
        """`place` for pages and logs, without the query of a URL.

        The query may contain credentials.
        """
        return self.place.partition("?")[0] if self.target == "put" else self.place


def list_all(connection: sqlite3.Connection) -> list[Schedule]:
    """Return all schedules, sorted by name."""
    rows = connection.execute("SELECT * FROM export_schedules ORDER BY name COLLATE NOCASE, id")
    return [_from_row(row) for row in rows]


def find(connection: sqlite3.Connection, schedule_id: int) -> Schedule | None:
    row = connection.execute("SELECT * FROM export_schedules WHERE id = ?", (schedule_id,)).fetchone()
    return None if row is None else _from_row(row)


def make_file_name(name: str) -> str:
    """Return the file name prefix of a schedule.

    Raises DomainError for a name without letters and digits.
    """
    file = re.sub(r"[^\w.]+", "-", name.casefold()).strip("-._")
    if not file:
        raise DomainError("Enter a name that contains letters or digits.")
    return file


def add(app_db: Database, schedule: Schedule) -> int:
    """Store a new schedule. Returns its id. Raises DomainError."""

    def work(tx: Transaction) -> int:
        if tx.execute("SELECT count(*) FROM export_schedules").fetchone()[0] >= MAX_SCHEDULES:
            raise DomainError(f"At most {MAX_SCHEDULES} schedules are possible. Remove one first.")
        now = clock.utc_text()
        new_schedule = replace(schedule, id=0, since=now, created_at=now, paused_at=None)
        return _upsert(tx, new_schedule)

    return app_db.write(work)


def change(app_db: Database, schedule: Schedule) -> None:
    """Replace a schedule and retry its failed periods at the next run.

    Raises DomainError.
    """

    def work(tx: Transaction) -> None:
        stored = find(tx.connection, schedule.id)
        if stored is None:
            raise DomainError("This schedule was removed.")
        since = stored.since
        if schedule.every != stored.every:
            # Open periods of another frequency have invalid keys.
            since = clock.utc_text()
            delivery_states.delete_open_periods(tx, schedule.id)
        _upsert(tx, replace(schedule, since=since, created_at=stored.created_at, paused_at=stored.paused_at))
        delivery_states.reset_retries(tx, schedule.id)

    app_db.write(work)


def remove(app_db: Database, schedule_id: int) -> bool:
    """Delete a schedule; its log stays.

    Returns False if it does not exist.
    """
    return app_db.write(
        lambda tx: tx.execute("DELETE FROM export_schedules WHERE id = ?", (schedule_id,)).rowcount > 0
    )


def pause(app_db: Database, schedule_id: int) -> None:
    """Pause a schedule: deliver nothing until `resume`."""
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE export_schedules SET paused_at = coalesce(paused_at, ?) WHERE id = ?",
            (clock.utc_text(), schedule_id),
        )
    )


def resume(app_db: Database, schedule_id: int) -> None:
    """Resume a schedule.

    Deliver the periods that were open before the pause and those due from now on.
    """

    def work(tx: Transaction) -> None:
        tx.execute(
            "UPDATE export_schedules SET since = ?, paused_at = NULL WHERE id = ? AND paused_at IS NOT NULL",
            (clock.utc_text(), schedule_id),
        )
        delivery_states.reset_retries(tx, schedule_id)

    app_db.write(work)


def store_default_columns(schema: Schema) -> None:
    """Migration step: store the default columns of earlier versions.

    The default columns of a collection now include the fields that only a record's own path returns. Files of
    existing schedules keep their columns.
    """
    if not schema.table("export_schedules").exists():
        return
    resources = {resource.table: resource for resource in RESOURCES if resource.has_item_only_fields}
    for row in schema.execute("SELECT id, export, form, args, zone FROM export_schedules").fetchall():
        schedule_id, export, form, args, zone = row[0], row[1], row[2], json.loads(row[3]), row[4]
        has_words = args.get("headings") == "words"
        if export not in resources or args.get("columns") or args.get("set"):
            continue
        if form == "jsonl" and not has_words:
            continue  # Its lines are the records as received.
        resource = resources[export]
        columns = tuple(field.name for field in resource.fields if field.documented and not field.item_only)
        if has_words:
            columns = use_one_zone(resource, columns, zone)
        changed_args = json.dumps({**args, "columns": ",".join(columns)})
        schema.execute("UPDATE export_schedules SET args = ? WHERE id = ?", (changed_args, schedule_id))


_COLUMNS = (
    "name", "file", "who", "export", "form", "args", "every", "at", "zone", "target", "place", "secret",
    "wait_hours", "incomplete", "since", "paused_at", "created_at",
)  # fmt: skip


def _upsert(tx: Transaction, schedule: Schedule) -> int:
    name = " ".join(schedule.name.split())[:MAX_NAME_LENGTH]
    cleaned = replace(schedule, name=name, file=make_file_name(name))
    conflict = tx.execute(
        "SELECT name FROM export_schedules WHERE file = ? AND id <> ?", (cleaned.file, cleaned.id)
    ).fetchone()
    if conflict is not None:
        raise DomainError(
            f"The schedule “{conflict[0]}” already uses the file name {cleaned.file}. Choose another name."
        )
    values: list[object] = []
    for column in _COLUMNS:
        value = getattr(cleaned, column)
        values.append(json.dumps(dict(value)) if column == "args" else value)
    if cleaned.id:
        changes = ", ".join(f"{column} = ?" for column in _COLUMNS)
        tx.execute(f"UPDATE export_schedules SET {changes} WHERE id = ?", (*values, cleaned.id))
        return cleaned.id
    names, placeholders = ", ".join(_COLUMNS), ", ".join("?" * len(_COLUMNS))
    row = tx.execute(f"INSERT INTO export_schedules ({names}) VALUES ({placeholders})", values)
    return int(row.lastrowid or 0)


def _from_row(row: sqlite3.Row) -> Schedule:
    values = {name: row[name] for name in ("id", *_COLUMNS)}
    return Schedule(**{**values, "args": json.loads(row["args"]), "incomplete": bool(row["incomplete"])})
