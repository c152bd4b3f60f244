"""Migrate a database to the current schema by named steps.

Missing tables are created after the steps.

Each table is declared in its current form by `CREATE … IF NOT EXISTS`, so a new table needs no step. A step
is needed only if existing tables or rows must change. A file that records a step without code in this version
was written by a newer version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from integration.core.errors import NewerDatabase
from integration.sqlite.schema import Schema, make_migrations, open_schema

Step = Callable[[Schema], None]
"""Function that changes the schema. It must not commit.

Tables that were added after the step can be missing in the file.
"""

FORMER_TABLE = "_migrations"
"""Table with the recorded steps in files of versions before `_sqlite_migrations`."""


def read_recorded_steps(connection: sqlite3.Connection, name: str) -> set[str] | None:
    """Return the names of the steps that a file records.

    `name`: of the file. None for a file without tables.
    """
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    recorded = set[str]()
    if "_sqlite_migrations" in tables:
        rows = connection.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = ?", (name.removesuffix(".db"),)
        )
        recorded.update(row[0] for row in rows)
    if FORMER_TABLE in tables:
        recorded.update(row[0] for row in connection.execute("SELECT name FROM _migrations"))
    return recorded if tables else None


def migrate(connection: sqlite3.Connection, name: str, steps: Mapping[str, Step], create: Step) -> None:
    """Apply the missing steps in order, then `create` missing tables.

    A step is missing if the file does not record it. All changes are one transaction, so a killed process
    leaves the old or the new schema. A new file is created in its current form and records all steps. Raises
    NewerDatabase with the file's `name`.
    """
    schema = open_schema(connection)
    migrations = make_migrations(name.removesuffix(".db"))
    with _immediate_transaction(connection):
        tables = schema.table_names()
        recorded = read_recorded_steps(connection, name) or set()
        unknown = recorded - steps.keys()
        if unknown:
            raise NewerDatabase(
                f"{name} was written by a newer version of Switchroom (it records the migration step "
                f"{min(unknown)!r}). Start that version."
            )
        for step_name, step in steps.items():
            is_done = not tables or step_name in recorded
            migrations(name=step_name)(_do_nothing if is_done else step)
        migrations.apply(schema)
        if FORMER_TABLE in tables:
            schema.table(FORMER_TABLE).drop()
        create(schema)


def _do_nothing(_schema: Schema) -> None:
    """Replace a step that only has to be recorded."""


@contextmanager
def _immediate_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    # sqlite-utils would open a deferred transaction, which fails if another program writes before it does.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
