"""Databases of each release are migrated to the schema of new ones and keep their rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.release.schemas import FOLDER, OPENERS, PRINTED_FOLDER, make_all, print_schema

VERSIONS = sorted(path.name for path in FOLDER.iterdir())
OLD_ROWS = {
    "mirror": "INSERT INTO _walks (collection, mark, walk_rows, failures) VALUES ('cdrs', 7, 3, 1)",
    "house": "INSERT INTO attempts (address, at) VALUES (x'00', 1.5)",
    "inbox": "INSERT INTO inbox (event_id, received_at, body, body_hash) VALUES ('1', '2026', x'00', x'01')",
}

DROPPED = {
    "_call_directory",
    "_call_ids",
    "_calls_search_docsize",
    "_calls_search_due",
    "callback_position",
    "_cdr_months",
    "_checks",
    "_cdr_user_months",
    "dismissals",
    "hidden_columns",
    "phones",
    "_legs_due",
    "_migrations",
    "_versions",
    "_report_basis",
    "_report_due",
    "audit_chain",
    "export_periods",
    "export_schedules",
    "prepared_exports",
    "promoted_fields",
}
"""Tables of older versions that this one does not have."""


def test_the_printed_schemas_are_those_of_this_code() -> None:
    printed = {path.name: path.read_text("utf-8") for path in PRINTED_FOLDER.iterdir()}
    assert printed == make_all(print_schema), "run `python -m tests.release.schemas`"


def squeeze(text: str | None) -> str | None:
    """The statement without white space, because SQLite stores it as written."""
    return None if text is None else "".join(text.split())


def describe(path: Path) -> dict[str, Any]:
    """Tables, columns, references, indexes, triggers and views of a schema."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        execute = connection.execute
        tables = {row[1]: row[2:] for row in execute("PRAGMA table_list") if row[0] == "main"}
        indexes = {name: execute("SELECT * FROM pragma_index_list(?)", (name,)).fetchall() for name in tables}
        texts = {
            row[0]: squeeze(row[1])
            for row in execute("SELECT name, sql FROM sqlite_schema WHERE type <> 'table'")
        }
        return {
            "tables": tables,
            "columns": {
                name: execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall() for name in tables
            },
            "references": {
                name: execute("SELECT * FROM pragma_foreign_key_list(?)", (name,)).fetchall()
                for name in tables
            },
            "indexes": {name: sorted(row[1:] for row in rows) for name, rows in indexes.items()},
            "index columns": {
                row[1]: execute("SELECT * FROM pragma_index_xinfo(?)", (row[1],)).fetchall()
                for rows in indexes.values()
                for row in rows
            },
            "indexes, triggers and views": texts,
        }


def make_older(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FOLDER / version / f"{path.stem}.sql").read_text())
        connection.execute(OLD_ROWS[path.stem])
        connection.commit()


def read_migrations(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return set(connection.execute("SELECT migration_set, name FROM _sqlite_migrations"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OPENERS)
def test_a_migrated_file_is_like_a_fresh_one(name: str, version: str, tmp_path: Path) -> None:
    fresh, older = tmp_path / "fresh" / f"{name}.db", tmp_path / "older" / f"{name}.db"
    for path in (fresh, older):
        path.parent.mkdir()
    make_older(older, version)
    assert describe(older)["tables"].keys() - DROPPED <= describe_fresh(name, fresh)["tables"].keys()
    OPENERS[name](older).close()
    assert describe(older) == describe(fresh)
    assert read_migrations(older) == read_migrations(fresh)


def describe_fresh(name: str, path: Path) -> dict[str, Any]:
    OPENERS[name](path).close()
    return describe(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_migrated_file_keeps_its_rows(version: str, tmp_path: Path) -> None:
    for name, opener in OPENERS.items():
        path = tmp_path / f"{name}.db"
        make_older(path, version)
        opener(path).close()
    with closing(sqlite3.connect(tmp_path / "mirror.db")) as connection:
        row = connection.execute("SELECT collection, mark, walk_rows, failures, accepted, held FROM _walks")
        assert row.fetchall() == [("cdrs", 7, 3, 1, 0, None)]
    with closing(sqlite3.connect(tmp_path / "house.db")) as connection:
        assert connection.execute("SELECT address, at FROM attempts").fetchall() == [(b"\x00", 1.5)]
    with closing(sqlite3.connect(tmp_path / "inbox.db")) as connection:
        assert connection.execute("SELECT seq, event_id, status FROM inbox").fetchall() == [(1, "1", "new")]


def test_settings_of_dashboard_users_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "house.db"
    make_older(path, "0.1.0")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE person_settings (person_id INTEGER PRIMARY KEY REFERENCES people (id)
                ON DELETE CASCADE, start_page TEXT, looked_at TEXT, name TEXT) STRICT;
            INSERT INTO people (id, email, role, created_at) VALUES (1, 'ann@example.com', 'admin', '');
            INSERT INTO person_settings VALUES (1, '/calls', '2026-03-01 08:00:00', 'Ann');
            INSERT INTO phones VALUES (1, 10002);
            INSERT INTO dismissals VALUES (1, 'first steps');
            INSERT INTO hidden_columns VALUES (1, 'calls', 'cost line');
        """)
    OPENERS["house"](path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert dict(connection.execute("SELECT setting, value FROM person_settings WHERE person_id = 1")) == {
            "first steps": "dismissed",
            "hidden columns": "cost line",
            "name": "Ann",
            "notifications seen": "2026-03-01 08:00:00",
            "phone": "10002",
            "start page": "/calls",
        }


def test_legs_that_were_due_before_are_due(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    make_older(path, "0.1.0")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO _legs_due VALUES (3), (9)")
        connection.commit()
    OPENERS["mirror"](path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT derived, low, high FROM _due").fetchall() == [("legs", 3, 9)]


def test_checks_of_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    make_older(path, "0.1.0")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            INSERT INTO media (kind, record_id, path, state, updated_at) VALUES
                ('fax', 1, '', 'have', '2026-01-01'), ('fax', 2, '', 'have', '2026-01-02');
            UPDATE _checks SET checked_at = '2026-02-01', found_at = '2026-02-01', finding = 'is missing'
                WHERE record_id = 1;
            DELETE FROM _checks WHERE record_id = 2;
        """)
    OPENERS["mirror"](path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT record_id, checked_at, finding FROM media").fetchall() == [
            (1, "2026-02-01", "is missing"), (2, "2026-01-02", None),
        ]  # fmt: skip


def test_ids_of_merged_calls_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    make_older(path, "0.1.0")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO _call_ids VALUES (3, 3), (7, 3)")
        connection.commit()
    OPENERS["mirror"](path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM _merged_calls").fetchall() == [(7, 3, 0)]
