"""Migrations of older database files, in one transaction."""

from __future__ import annotations

import sqlite3

import pytest

from integration.core.errors import NewerDatabase
from integration.sqlite.migrations import WAY_BACK, migrate
from integration.sqlite.schema import open_schema, read_columns

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
    """A file without the column `colour`."""
    migrate(connection, "any.db", {}, lambda s: s.execute("CREATE TABLE doors (id INTEGER PRIMARY KEY)"))
    return connection


def columns(connection):
    return [row[1] for row in connection.execute("PRAGMA table_info(doors)")]


def paint(schema):
    schema.table("doors").add_column("colour", str)


def recorded(connection):
    return [tuple(row) for row in connection.execute("SELECT migration_set, name FROM _sqlite_migrations")]


def test_an_older_file_gets_each_migration_once(older):
    migrate(older, "any.db", {"colour": paint}, create)
    migrate(older, "any.db", {"colour": paint}, create)
    assert columns(older) == ["id", "colour"]
    assert recorded(older) == [("any", "colour")]


def test_a_new_file_is_created_in_its_present_form_and_records_all_migrations(connection):
    def never(_):
        raise AssertionError("a new file needs no migration")

    migrate(connection, "any.db", {"never": never}, create)
    migrate(connection, "any.db", {"never": never}, create)
    assert columns(connection) == ["id", "colour"]
    assert recorded(connection) == [("any", "never")]


def test_a_failed_migration_is_rolled_back_and_can_be_repeated(older):
    def broken(schema):
        paint(schema)
        raise ValueError("half done")

    with pytest.raises(ValueError, match="half done"):
        migrate(older, "any.db", {"colour": broken}, create)
    assert columns(older) == ["id"]
    assert recorded(older) == []
    migrate(older, "any.db", {"colour": paint}, create)
    assert columns(older) == ["id", "colour"]


def test_a_newer_file_is_rejected_with_the_name_of_its_migration(older):
    migrate(older, "any.db", {"of the future": lambda _: None}, create)
    with pytest.raises(NewerDatabase, match=r"any\.db .*'of the future'"):
        migrate(older, "any.db", {}, create)


def test_migrations_recorded_by_the_first_versions_are_not_repeated(connection):
    connection.execute("CREATE TABLE _migrations (name TEXT PRIMARY KEY, applied_at TEXT NOT NULL) STRICT")
    create(connection)
    connection.execute("INSERT INTO _migrations VALUES ('colour', '2026')")
    later = {"colour": paint, "size": lambda c: c.execute("ALTER TABLE doors ADD COLUMN size TEXT")}
    migrate(connection, "any.db", later, create)
    migrate(connection, "any.db", later, create)
    assert columns(connection) == ["id", "colour", "size"]
    assert recorded(connection) == [("any", "colour"), ("any", "size")]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {"doors", "_sqlite_migrations", "_migrations"}
    assert [row["name"] for row in connection.execute("SELECT name FROM _migrations")] == [WAY_BACK]


def test_an_unknown_migration_recorded_by_the_first_versions_is_rejected(connection):
    connection.execute("CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT")
    connection.execute("INSERT INTO _migrations VALUES ('of the future', '2099')")
    with pytest.raises(NewerDatabase, match="of the future"):
        migrate(connection, "any.db", {}, create)
    assert connection.execute("SELECT name FROM _migrations").fetchone()["name"] == "of the future"


def test_columns_are_those_of_tables_only(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE things (id, name)")
    connection.execute("CREATE VIEW seen AS SELECT name FROM things")
    assert read_columns(open_schema(connection))["things"] == {"id", "name"}
    assert "seen" not in read_columns(open_schema(connection))
