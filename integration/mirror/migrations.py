"""Named steps from an older mirror.db to today's. One transaction each, recorded, in this order.

Tables that are missing are created from the catalogue at every start (`schema.py`); a step is only needed
where rows that exist must change. mirror.db can be rebuilt, so a step may also just empty a derived table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from integration import clock
from integration.errors import NewerDatabase
from integration.mirror import walks

Step = Callable[[sqlite3.Connection], None]

MIRROR_STEPS: Mapping[str, Step] = {"walks tell more": walks.add_columns}


def migrate(connection: sqlite3.Connection, steps: Mapping[str, Step], name: str) -> Sequence[str]:
    """Apply the steps that are not recorded yet; returns their names.

    Raises NewerDatabase when the file records a step this version does not know.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS _migrations (name TEXT PRIMARY KEY, applied_at TEXT NOT NULL) STRICT"
    )
    known = {row[0] for row in connection.execute("SELECT name FROM _migrations")}
    unknown = known - set(steps)
    if unknown:
        raise NewerDatabase(
            f"{name} was written by a newer Switchroom (it has step {min(unknown)!r}); start that version"
        )
    applied = []
    for step_name, step in steps.items():
        if step_name in known:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            step(connection)
            connection.execute("INSERT INTO _migrations VALUES (?, ?)", (step_name, clock.stamp()))
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        applied.append(step_name)
    return applied


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
