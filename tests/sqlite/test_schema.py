"""sqlite-utils on a given connection: pragmas, transactions and imports."""

from __future__ import annotations

import sqlite3

import pytest

from integration.sqlite.schema import execute_script, open_schema, read_columns

SCRIPT = """
-- A comment; with a semicolon.
CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT DEFAULT 'a;b') STRICT;
CREATE TRIGGER log_thing AFTER INSERT ON things BEGIN
    INSERT INTO logged VALUES (NEW.id);
    INSERT INTO logged VALUES (NEW.name);
END;
CREATE TABLE logged (value ANY) STRICT; INSERT INTO things (id) VALUES (7)"""


def test_a_script_is_part_of_the_open_transaction() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema = open_schema(connection)
    connection.execute("BEGIN IMMEDIATE")
    execute_script(schema, SCRIPT)
    assert connection.execute("SELECT value FROM logged").fetchall() == [(7,), ("a;b",)]
    connection.execute("ROLLBACK")
    assert schema.table_names() == []


@pytest.mark.parametrize(
    "script", ["CREATE TABLE half (id INTEGER", "CREATE TRIGGER t BEGIN SELECT 1;", "x;"]
)
def test_a_script_with_an_invalid_statement_raises(script: str) -> None:
    schema = open_schema(sqlite3.connect(":memory:", isolation_level=None))
    with pytest.raises(sqlite3.OperationalError):
        execute_script(schema, script)


def test_read_columns_ignores_views_and_indexes() -> None:
    schema = open_schema(sqlite3.connect(":memory:", isolation_level=None))
    execute_script(
        schema, SCRIPT + "; CREATE VIEW seen AS SELECT name FROM things; CREATE INDEX n ON things (name)"
    )
    assert read_columns(schema) == {"things": {"id", "name"}, "logged": {"value"}}
