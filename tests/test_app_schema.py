from __future__ import annotations

import re
import sqlite3
import stat
from pathlib import Path

import pytest

import integration
from integration import app_schema
from integration.access import people
from integration.app_schema import open_app_db
from integration.core.errors import NewerDatabase, StorageError


def test_it_and_its_companions_are_private(tmp_path: Path) -> None:
    path = tmp_path / "house.db"
    path.touch(0o644)
    path.chmod(0o644)
    app_db = open_app_db(path)
    people.create(app_db, "ann@example.com", "viewer")
    for name in ("house.db", "house.db-wal", "house.db-shm"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    app_db.close()


def test_its_commits_are_synced(tmp_path: Path) -> None:
    app_db = open_app_db(tmp_path / "house.db")
    assert app_db.write(lambda tx: tx.execute("PRAGMA synchronous").fetchone()[0]) == 2
    app_db.close()


def test_it_opens_again_with_what_it_held(tmp_path: Path) -> None:
    app_db = open_app_db(tmp_path / "house.db")
    people.create(app_db, "ann@example.com", "viewer")
    app_db.close()
    app_db = open_app_db(tmp_path / "house.db")
    assert people.find(app_db, "ann@example.com") is not None
    app_db.close()


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    open_app_db(tmp_path / "house.db").close()
    with sqlite3.connect(tmp_path / "house.db") as connection:
        connection.execute("INSERT INTO _migrations VALUES ('9999 of the future', '2030-01-01 00:00:00')")
    connection.close()
    with pytest.raises(NewerDatabase, match="9999 of the future"):
        open_app_db(tmp_path / "house.db")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"house\.db"):
        open_app_db(tmp_path / "nowhere" / "house.db")


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
