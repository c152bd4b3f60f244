from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from integration import app_schema as database
from integration.access import people
from integration.app_schema import open_house
from integration.core.errors import NewerDatabase, StorageError


def test_it_and_its_companions_are_private(tmp_path: Path) -> None:
    path = tmp_path / "house.db"
    path.touch(0o644)
    path.chmod(0o644)
    house = open_house(path)
    people.create(house, "ann@example.com", "viewer")
    for name in ("house.db", "house.db-wal", "house.db-shm"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    house.close()


def test_its_commits_are_synced(tmp_path: Path) -> None:
    house = open_house(tmp_path / "house.db")
    assert house.write(lambda tx: tx.execute("PRAGMA synchronous").fetchone()[0]) == 2
    house.close()


def test_it_opens_again_with_what_it_held(tmp_path: Path) -> None:
    house = open_house(tmp_path / "house.db")
    people.create(house, "ann@example.com", "viewer")
    house.close()
    house = open_house(tmp_path / "house.db")
    assert people.find(house, "ann@example.com") is not None
    house.close()


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    open_house(tmp_path / "house.db").close()
    with sqlite3.connect(tmp_path / "house.db") as connection:
        connection.execute("INSERT INTO _migrations VALUES ('9999 of the future', '2030-01-01 00:00:00')")
    connection.close()
    with pytest.raises(NewerDatabase, match="9999 of the future"):
        open_house(tmp_path / "house.db")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"house\.db"):
        open_house(tmp_path / "nowhere" / "house.db")


def test_every_module_with_tables_is_an_owner() -> None:
    folder = Path(database.__file__).parent
    with_tables = {path.stem for path in folder.glob("*.py") if "\nTABLES" in path.read_text()}
    assert with_tables == {owner.__name__.rpartition(".")[2] for owner in database.OWNERS}
