"""Older files come to today's form, whole or not at all."""

from __future__ import annotations

import sqlite3

import pytest

from integration.core.errors import NewerDatabase
from integration.sqlite.migrations import migrate

TABLES = "CREATE TABLE IF NOT EXISTS doors (id INTEGER PRIMARY KEY, colour TEXT);\n"


def create(schema):
    schema.executescript(TABLES)


@pytest.fixture
def connection(tmp_path):
    opened = sqlite3.connect(tmp_path / "any.db", isolation_level=None)
    opened.row_factory = sqlite3.Row
    yield opened
    opened.close()


@pytest.fixture
def older(connection):
    """A file of before there were colours."""
    migrate(connection, "any.db", {}, lambda s: s.execute("CREATE TABLE doors (id INTEGER PRIMARY KEY)"))
    return connection


def columns(connection):
    return [row[1] for row in connection.execute("PRAGMA table_info(doors)")]


def paint(schema):
    schema.table("doors").add_column("colour", str)


def recorded(connection):
    return [tuple(row) for row in connection.execute("SELECT migration_set, name FROM _sqlite_migrations")]


def test_an_older_file_gets_each_new_step_once(older):
    migrate(older, "any.db", {"colour": paint}, create)
    migrate(older, "any.db", {"colour": paint}, create)
    assert columns(older) == ["id", "colour"]
    assert recorded(older) == [("any", "colour")]


def test_a_new_file_has_its_last_form_already(connection):
    def never(_):
        raise AssertionError("a new file needs no step")

    migrate(connection, "any.db", {"never": never}, create)
    migrate(connection, "any.db", {"never": never}, create)
    assert columns(connection) == ["id", "colour"]
    assert recorded(connection) == [("any", "never")]


def test_a_step_that_fails_leaves_the_old_form_and_is_tried_again(older):
    def broken(schema):
        paint(schema)
        raise ValueError("half done")

    with pytest.raises(ValueError, match="half done"):
        migrate(older, "any.db", {"colour": broken}, create)
    assert columns(older) == ["id"]
    assert recorded(older) == []
    migrate(older, "any.db", {"colour": paint}, create)
    assert columns(older) == ["id", "colour"]


def test_a_creation_that_fails_leaves_an_empty_file(connection):
    def broken(schema):
        create(schema)
        raise ValueError("half done")

    with pytest.raises(ValueError, match="half done"):
        migrate(connection, "any.db", {}, broken)
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0


def test_all_of_it_is_one_transaction_that_locks_at_once(older):
    """A reader that became a writer later could fail half-way, where another program writes meanwhile."""
    statements = []
    older.set_trace_callback(statements.append)
    migrate(older, "any.db", {"colour": paint}, create)
    boundaries = [text for text in statements if text.startswith(("BEGIN", "COMMIT", "ROLLBACK"))]
    assert boundaries == ["BEGIN IMMEDIATE", "COMMIT"]


def test_a_newer_file_is_refused_by_name(older):
    migrate(older, "any.db", {"of the future": lambda _: None}, create)
    with pytest.raises(NewerDatabase, match=r"any\.db .*'of the future'"):
        migrate(older, "any.db", {}, create)


def test_a_record_of_the_first_versions_counts(connection):
    connection.execute("CREATE TABLE _migrations (name TEXT PRIMARY KEY, applied_at TEXT NOT NULL) STRICT")
    create(connection)
    connection.execute("INSERT INTO _migrations VALUES ('colour', '2026')")
    later = {"colour": paint, "size": lambda c: c.execute("ALTER TABLE doors ADD COLUMN size TEXT")}
    migrate(connection, "any.db", later, create)
    migrate(connection, "any.db", later, create)
    assert columns(connection) == ["id", "colour", "size"]
    assert recorded(connection) == [("any", "colour"), ("any", "size")]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {"doors", "_sqlite_migrations"}


def test_a_record_of_the_first_versions_without_code_is_refused(connection):
    connection.execute("CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT")
    connection.execute("INSERT INTO _migrations VALUES ('of the future', '2099')")
    with pytest.raises(NewerDatabase, match="of the future"):
        migrate(connection, "any.db", {}, create)
    assert connection.execute("SELECT name FROM _migrations").fetchone()["name"] == "of the future"


def test_a_script_that_lacks_its_end_is_refused(connection):
    with pytest.raises(sqlite3.OperationalError, match="incomplete"):
        migrate(connection, "any.db", {}, lambda s: s.executescript("CREATE TABLE half (id INTEGER"))
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
