"""Migrate a database to the current schema by named steps.

Missing tables are created after the steps.

Each table is declared in its current form by `CREATE … IF NOT EXISTS`, so a new table needs no step. A step
is needed only if existing tables or rows must change. A file that records a step without code in this version
was written by a newer version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from integration import __version__
from integration.core import clock
from integration.core.errors import NewerDatabase
from integration.sqlite.schema import Schema, make_migrations, open_schema

Step = Callable[[Schema], None]
"""Function that changes the schema. It must not commit.

Tables that were added after the step can be missing in the file.
"""

FORMER_TABLE = "_migrations"
"""Table in which version 0.1.0 records its steps.

It refuses a file with an unknown name here, with the message “… (it knows NAME); start that one”. Later
versions record their steps in `_sqlite_migrations`, and have only WAY_BACK here.
"""

WAY_BACK = f"{__version__}: to go back, restore backups/before-{__version__} or an older backup"
"""Name in FORMER_TABLE, for users of 0.1.0. Later versions keep the name that the first of them wrote."""


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
    elif FORMER_TABLE in tables:
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
        _record_way_back(schema, steps)
        create(schema)


def _record_way_back(schema: Schema, steps: Mapping[str, Step]) -> None:
    """Make version 0.1.0 refuse the file."""
    table = schema.table(FORMER_TABLE)
    if not table.exists() or not {row["name"] for row in table.rows} - steps.keys():
        table.drop(ignore=True)
        schema.execute("CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT")
        schema.execute("INSERT INTO _migrations VALUES (?, ?)", (WAY_BACK, clock.utc_text()))


def remove_way_back(path: Path) -> None:
    """Let version 0.1.0 open a file whose form it has."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TABLE IF EXISTS {FORMER_TABLE}")


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
