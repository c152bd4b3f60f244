from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from integration.access import keys
from integration.sqlite.database import Database


def test_user_id_of_a_key_is_no_reserved_id(app_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    few = keys.USER_IDS[:200]
    monkeypatch.setattr(keys, "USER_IDS", few)
    assert keys.add(app_db, "crm", "read", reserved_ids=set(few) - {few[7]})[0] == few[7]


def test_platform_user_ids_are_read_from_the_mirror(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.db"
    assert keys.list_platform_user_ids(mirror) == set()
    connection = sqlite3.connect(mirror)
    assert keys.list_platform_user_ids(mirror) == set()
    connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO users VALUES (?)", [(412345,), (9000001,)])
    connection.commit()
    connection.close()
    assert keys.list_platform_user_ids(mirror) == {412345, 9000001}
