"""sqlite-utils on a given connection: pragmas, transactions and imports."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.sqlite.schema import ANY, execute_script, open_schema, read_columns
from tests.support.child_processes import Running, start
from tests.support.harness import NOWHERE, Product

__all__ = ["start"]

RECORDER = """import os, pathlib
pathlib.Path(os.environ["IMPORTED"]).open("a").write(__name__ + "\\n")
Timestamp = object
"""


def test_the_connection_keeps_its_pragmas_and_its_transaction() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema = open_schema(connection)
    assert connection.execute("PRAGMA recursive_triggers").fetchone() == (0,)
    connection.execute("BEGIN IMMEDIATE")
    schema.table("things").create({"id": int, "value": ANY}, pk="id", not_null=["id"])
    schema.executescript("CREATE TABLE others (id INTEGER) STRICT; INSERT INTO others VALUES (1);")
    connection.execute("ROLLBACK")
    assert schema.table_names() == []


def test_a_column_of_type_any_keeps_numbers_in_text_as_text() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    table = open_schema(connection).table("things").create({"id": int, "value": ANY}, pk="id")
    connection.execute("INSERT INTO things VALUES (1, '+442079460001'), (2, '0123'), (3, 4.0)")
    assert [row[0] for row in connection.execute("SELECT value FROM things ORDER BY id")] == [
        "+442079460001",
        "0123",
        4.0,
    ]
    assert table.strict


@pytest.mark.exhaustive
def test_a_started_worker_does_not_import_pandas_or_numpy(
    tmp_path: Path, start: Callable[..., Running]
) -> None:
    """sqlite-utils imports pandas and numpy if installed, which costs 80 MB."""
    record = tmp_path / "imported"
    for name in ("pandas", "numpy"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "__init__.py").write_text(RECORDER)
    environment = {"PYTHONPATH": str(tmp_path / "packages"), "IMPORTED": str(record)}

    # Returns when the worker responds.
    product = Product(tmp_path / "data", base_url=NOWHERE, environment=environment)
    product.stop()
    assert not record.exists(), record.read_text()

    plain = start("-c", "import sqlite_utils", **environment)
    assert plain.ended() == 0, plain.err
    assert record.read_text().split() == ["pandas", "numpy"]
    later = start("-c", "import integration.sqlite.schema, pandas, numpy", **environment)
    assert later.ended() == 0, later.err


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
