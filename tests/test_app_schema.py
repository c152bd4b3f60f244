"""house.db: permissions, durability and migrations."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from pathlib import Path

import pytest

import integration
from integration import app_schema
from integration.access import people
from integration.app_schema import open_app_db
from integration.exports import jobs
from integration.workspace import wallboards
from tests.release.schemas import FOLDER


def test_the_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "house.db"
    path.touch(0o644)
    path.chmod(0o644)
    app_db = open_app_db(path)
    people.create(app_db, "ann@example.com", "viewer")
    for name in ("house.db", "house.db-wal", "house.db-shm"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    app_db.close()


def test_commits_are_synced_to_disk(tmp_path: Path) -> None:
    app_db = open_app_db(tmp_path / "house.db")
    assert app_db.write(lambda tx: tx.execute("PRAGMA synchronous").fetchone()[0]) == 2
    app_db.close()


PEOPLE_WITH_RIGHT_COLUMNS = """
CREATE TABLE people (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'agent', 'supervisor', 'admin')),
    export INTEGER CHECK (export IN (0, 1)),
    recordings INTEGER CHECK (recordings IN (0, 1)),
    platform_user_id INTEGER,
    password TEXT,
    created_at TEXT NOT NULL,
    password_at TEXT,
    login_at TEXT
) STRICT;
CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;
INSERT INTO _migrations VALUES ('0001 first form', '2026-01-01 00:00:00');
INSERT INTO people (email, role, export, recordings, created_at) VALUES
    ('alice@example.com', 'admin', NULL, NULL, '2026-01-01 00:00:00'),
    ('bob@example.com', 'supervisor', 0, NULL, '2026-01-01 00:00:00'),
    ('carol@example.com', 'agent', 1, 0, '2026-01-01 00:00:00');
"""
"""Table `people` before the migration “0002 rights in one column”, with three people."""
EFFECTIVE_RIGHTS = {
    "alice@example.com": {"export", "recordings"},
    "bob@example.com": {"recordings"},
    "carol@example.com": {"export"},
}


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "old" / "house.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.executescript(PEOPLE_WITH_RIGHT_COLUMNS)
    connection.close()
    return path


def test_right_columns_become_one_column(old_file: Path, tmp_path: Path) -> None:
    for _ in range(2):
        app_db = open_app_db(old_file)
        assert {person.email: set(person.rights) for person in people.list_all(app_db)} == EFFECTIVE_RIGHTS
        assert people.load_explicit_rights(app_db, 3) == {"export": True, "recordings": False}
        assert people.load_explicit_rights(app_db, 1) == {}
        people.change(app_db, "alice@example.com", rights={"export": None})
        app_db.close()
    open_app_db(tmp_path / "house.db").close()
    assert read_columns(old_file) == read_columns(tmp_path / "house.db")


def read_columns(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    columns = connection.execute("PRAGMA table_xinfo(people)").fetchall()
    connection.close()
    return columns


def test_schedules_of_earlier_versions_keep_their_columns(tmp_path: Path) -> None:
    """Their default columns lacked the fields that only a user's own path returns."""
    path = tmp_path / "house.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((FOLDER / "0.1.0" / "house.sql").read_text())
        for number, (export, form, args) in enumerate(OLD_SCHEDULES):
            connection.execute(
                "INSERT INTO export_schedules VALUES (?, ?, ?, 'a@example.com', ?, ?, ?, 'day', '06:00',"
                " 'Europe/London', 'folder', '', '', 6, 1, '', NULL, '')",
                (number, str(number), str(number), export, form, json.dumps(args)),
            )
    connection.close()
    for _ in range(2):
        app_db = open_app_db(path)
        with app_db.read() as connection:
            stored = {schedule.id: dict(schedule.args) for schedule in jobs.list_schedules(connection)}
        app_db.close()
        assert stored == dict(enumerate(OLD_ARGS))


LISTED = (
    "id,is_initial,email,first_name,last_name,roles,active,visited_apps,is_root,two_factor_auth,created_at,ext,"
    "cli,dnd,nb_sip_locations,customer"
)
OLD_SCHEDULES: list[tuple[str, str, dict[str, str]]] = [
    ("users", "csv", {}),
    ("users", "xlsx", {"headings": "words"}),
    ("users", "csv", {"columns": "id,ext"}),
    ("users", "csv", {"set": "mine"}),
    ("users", "jsonl", {}),
    ("contacts", "csv", {}),
]
OLD_ARGS = [
    {"columns": LISTED},
    {"headings": "words", "columns": LISTED.replace("created_at", "created_local")},
    *(args for _, _, args in OLD_SCHEDULES[2:]),
]
"""Parameters after the migration. Lines of JSON are the records as received."""


OTHER_DATABASES = {"mirror", "inbox"}
"""Packages whose tables are in mirror.db and inbox.db."""


def test_every_module_with_tables_is_an_owner() -> None:
    root = Path(integration.__file__).parent
    with_tables = [
        ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in OTHER_DATABASES
        and re.search(r"^TABLES\b", path.read_text(), re.MULTILINE)
    ]
    assert sorted(with_tables) == sorted(owner.__name__ for owner in app_schema.TABLE_MODULES)


def test_the_former_default_target_of_call_backs_becomes_no_target(tmp_path: Path) -> None:
    path = tmp_path / "house.db"
    open_app_db(path).close()
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "ALTER TABLE wallboards DROP COLUMN callback_target;"
            "ALTER TABLE wallboards ADD COLUMN missed_target INTEGER NOT NULL DEFAULT 0;"
            "INSERT INTO wallboards (name, token_hash, level_target, wait_target, missed_target, created_at)"
            " VALUES ('Hall', x'01', 80, 60, 0, ''), ('Office', x'02', 80, 60, 5, '');"
            "DELETE FROM _sqlite_migrations WHERE name = 'optional targets of call-backs'"
        )
    connection.close()
    app_db = open_app_db(path)
    assert [(one.name, one.callback_target) for one in wallboards.list_all(app_db)] == [
        ("Hall", None),
        ("Office", 5),
    ]
    app_db.close()
