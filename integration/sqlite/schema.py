"""Tables, columns, indexes and triggers of a database file, through sqlite-utils.

The only module that imports sqlite-utils. For schemas, migrations and maintenance; queries and row writes use
the connection directly.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any


@cache
def _load_library() -> ModuleType:
    """Import sqlite-utils on first use.

    Commands that only read need no schema.
    """
    import sqlite_utils

    return sqlite_utils


if TYPE_CHECKING:
    import sqlite_utils

    Schema = sqlite_utils.Database
    Migrations = sqlite_utils.Migrations
else:
    Schema = Any  # Only annotations use it.

ANY = "ANY"
"""Column type that stores values unchanged: INTEGER affinity drops the plus of `+442079460001`."""


def open_schema(connection: sqlite3.Connection) -> Schema:
    """Return the schema of `connection`, which the caller closes.

    New tables are STRICT. Outside a transaction each change is committed separately; inside a transaction,
    the methods of sqlite-utils use savepoints. `transform` drops triggers and WITHOUT ROWID without an error,
    and refuses, inside a transaction, a table that others reference with ON DELETE.
    """
    # The defaults set a pragma on the connection and run every installed plugin.
    schema: Schema = _load_library().Database(
        connection, recursive_triggers=False, execute_plugins=False, strict=True
    )
    return schema


def make_migrations(name: str) -> Migrations:
    """Return an empty set of migration steps, recorded under `name`."""
    migrations: Migrations = _load_library().Migrations(name)
    return migrations


def execute_script(schema: Schema, script: str) -> None:
    """Execute the statements of `script`, each with a semicolon, in the open transaction.

    `Schema.executescript` compares every prefix of a statement, character by character: 60 of the 75 ms in
    which a current mirror.db is opened. `sqlite3.executescript` would commit.
    """
    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            schema.execute(statement)
            statement = ""


def read_columns(schema: Schema) -> dict[str, set[str]]:
    """Return the names of columns by table.

    One query replaces two queries per table.
    """
    columns: dict[str, set[str]] = {}
    for table, column in schema.execute(
        "SELECT tables.name, columns.name FROM sqlite_schema AS tables"
        " JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
    ):
        columns.setdefault(table, set()).add(column)
    return columns
