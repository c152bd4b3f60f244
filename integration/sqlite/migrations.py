"""Bring an older database file to the current schema: named steps, then the missing tables.

Every table is declared in its last form by `CREATE … IF NOT EXISTS`; a new one needs nothing more. A step is
only needed where tables or rows that exist must change. A file that records a step without code in this
version was written by a newer one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from integration.core.errors import NewerDatabase
from integration.sqlite.schema import Migrations, Schema, open_schema

Step = Callable[[Schema], None]
"""Must not commit. A step may meet a file without the tables that were added after it."""

FORMER_TABLE = "_migrations"
"""Records of files that were written before `_sqlite_migrations`."""


def migrate(connection: sqlite3.Connection, name: str, steps: Mapping[str, Step], create: Step) -> None:
    """Apply the steps that are not recorded yet, in order, then `create` what is missing.

    One transaction: a kill leaves the old schema or the new one. A new file is created in its last form and
    records all steps. Raises NewerDatabase, naming the file by `name`.
    """
    schema = open_schema(connection)
    migrations = Migrations(name.removesuffix(".db"))
    with _immediate_transaction(connection):
        tables = schema.table_names()
        recorded = {migration.name for migration in migrations.applied(schema)}
        if FORMER_TABLE in tables:
            recorded.update(row["name"] for row in schema.table(FORMER_TABLE).rows)
        unknown = recorded - steps.keys()
        if unknown:
            raise NewerDatabase(
                f"{name} was written by a newer version of Switchroom (it knows {min(unknown)!r});"
                " start that one"
            )
        for step_name, step in steps.items():
            is_done = not tables or step_name in recorded
            migrations(name=step_name)(_do_nothing if is_done else step)
        migrations.apply(schema)
        if FORMER_TABLE in tables:
            schema.table(FORMER_TABLE).drop()
        create(schema)


def _do_nothing(_schema: Schema) -> None:
    """Stand in for a step that only has to be recorded."""


@contextmanager
def _immediate_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    # sqlite-utils would open a deferred one, which fails where another program writes in between.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
