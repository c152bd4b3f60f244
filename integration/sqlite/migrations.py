"""From an older database file to today's form: named steps, then whatever tables are missing.

Every table is declared in its last form by `CREATE … IF NOT EXISTS`; a new one needs nothing more. A step is
only needed where tables or rows that exist must change. A file that records a step this version doesn't know
was written by a newer one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from integration.core import clock
from integration.core.errors import NewerDatabase

Step = Callable[[sqlite3.Connection], object]
"""Runs in one transaction with its record; must not commit. It may meet a file that lacks tables which came
later than it."""

_CREATE_TABLE = "CREATE TABLE IF NOT EXISTS _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT"


def migrate(connection: sqlite3.Connection, name: str, steps: Mapping[str, Step], create: Step) -> None:
    """Apply the steps that are not recorded yet, in order, then `create` what is missing.

    Each is one transaction: a kill leaves the old form or the new one. A new file is created in its last
    form and counts as migrated. Raises NewerDatabase, naming the file by `name`.
    """
    is_new = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
    if not is_new:
        connection.execute(_CREATE_TABLE)
        applied = {row[0] for row in connection.execute("SELECT name FROM _migrations")}
        unknown = applied - steps.keys()
        if unknown:
            raise NewerDatabase(
                f"{name} was written by a newer version of Switchroom (it knows {min(unknown)!r});"
                " start that one"
            )
        for step_name in [step_name for step_name in steps if step_name not in applied]:
            with _immediate_transaction(connection):
                steps[step_name](connection)
                _record_step(connection, step_name)
    with _immediate_transaction(connection):
        create(connection)
        if is_new:
            connection.execute(_CREATE_TABLE)
            for step_name in steps:
                _record_step(connection, step_name)


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run a script of `CREATE … IF NOT EXISTS` statements in the caller's transaction.

    `executescript` is rejected: it commits whatever transaction is open.
    """
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    if statement.strip():
        raise ValueError(f"unfinished SQL statement: {statement.strip()[:60]!r}")


def _record_step(connection: sqlite3.Connection, step_name: str) -> None:
    # By position: the second column of older files is called `applied_at`.
    connection.execute("INSERT INTO _migrations VALUES (?, ?)", (step_name, clock.utc_text()))


@contextmanager
def _immediate_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
