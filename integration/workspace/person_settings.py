"""Settings of each dashboard user: what the user entered, chose or dismissed."""

from __future__ import annotations

import sqlite3
from typing import Literal

from integration.sqlite.database import Database
from integration.sqlite.schema import Schema, execute_script, read_columns
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS person_settings (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    setting TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (person_id, setting)
) STRICT, WITHOUT ROWID;
"""

Setting = Literal["name", "start page", "notifications seen", "phone", "first steps", "hidden columns"]
"""`start page`: path of the page after a login. `notifications seen`: time of the newest seen one, UTC text.

`phone`: id of the platform user whose phone rings, for a user without a phone of their own. `first steps`:
'dismissed'. `hidden columns`: those of the page Calls, separated by spaces.
"""

MAX_NAME_LENGTH = 60
"""Characters of a name."""


def load(connection: sqlite3.Connection, person_id: int, setting: Setting) -> str | None:
    row = connection.execute(
        "SELECT value FROM person_settings WHERE person_id = ? AND setting = ?", (person_id, setting)
    ).fetchone()
    return row[0] if row is not None else None


def load_of_all(connection: sqlite3.Connection, setting: Setting) -> dict[int, str]:
    """Return the values of a setting by dashboard user."""
    rows = connection.execute("SELECT person_id, value FROM person_settings WHERE setting = ?", (setting,))
    return {row[0]: row[1] for row in rows}


def save(app_db: Database, person_id: int, setting: Setting, value: str) -> None:
    """Store a setting; '' removes it."""

    def work(tx: Transaction) -> None:
        tx.execute("DELETE FROM person_settings WHERE person_id = ? AND setting = ?", (person_id, setting))
        if value:
            tx.execute("INSERT INTO person_settings VALUES (?, ?, ?)", (person_id, setting, value))

    app_db.write(work)


def save_name(app_db: Database, person_id: int, name: str) -> None:
    """Store the name of a dashboard user, at most MAX_NAME_LENGTH characters; '' removes it."""
    save(app_db, person_id, "name", " ".join(name.split())[:MAX_NAME_LENGTH])


def merge_tables(schema: Schema) -> None:
    """Migration: put the settings of three tables into one."""
    columns_by_table = read_columns(schema)
    if "start_page" in columns_by_table.get("person_settings", ()):
        schema.execute("ALTER TABLE person_settings RENAME TO former_settings")
        columns_by_table["former_settings"] = columns_by_table["person_settings"]
    execute_script(schema, TABLES)
    for table, column, setting in (
        ("former_settings", "name", "name"),
        ("former_settings", "start_page", "start page"),
        ("former_settings", "looked_at", "notifications seen"),
        ("phones", "platform_user_id", "phone"),
    ):
        if column in columns_by_table.get(table, ()):
            schema.execute(
                f"INSERT INTO person_settings SELECT person_id, ?, {column} FROM {table}"
                f" WHERE {column} IS NOT NULL",
                (setting,),
            )
    if "dismissals" in columns_by_table:
        schema.execute(
            "INSERT INTO person_settings SELECT person_id, part, 'dismissed' FROM dismissals"
            " WHERE part = 'first steps'"
        )
    for table in ("former_settings", "phones", "dismissals"):
        schema.table(table).drop(ignore=True)


def merge_hidden_columns(schema: Schema) -> None:
    """Migration: put the hidden columns of the page Calls among the settings."""
    if schema.table("hidden_columns").exists():
        schema.execute(
            "INSERT INTO person_settings SELECT person_id, 'hidden columns', columns FROM hidden_columns"
            " WHERE page = 'calls' AND columns <> ''"
        )
        schema.table("hidden_columns").drop()
