"""Saved column sets: private, shared, and after the removal of users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.access import people
from integration.app_schema import open_app_db
from integration.sqlite.database import Database
from integration.workspace import saved


@pytest.fixture
def app_db(tmp_path: Path) -> Iterator[Database]:
    database = open_app_db(tmp_path / "house.db")
    for name in ("ann", "bea"):
        people.create(database, f"{name}@example.com", "supervisor")
    yield database
    database.close()


ANN, BEA = 1, 2


def found(app_db: Database, name: str, person: int | None) -> tuple[str, ...] | None:
    with app_db.read() as connection:
        column_set = saved.find(connection, saved.COLUMN_SETS, "cdrs", name, person)
    return None if column_set is None else column_set.columns


def test_own_column_set_precedes_the_shared_one_and_others_are_private(app_db: Database) -> None:
    saved.save(app_db, saved.COLUMN_SETS, "cdrs", ANN, " for  tax ", "id,charge", shared=True)
    saved.save(app_db, saved.COLUMN_SETS, "cdrs", BEA, "for tax", "charge", shared=False)
    saved.save(app_db, saved.COLUMN_SETS, "cdrs", ANN, "mine", "dst", shared=False)
    assert found(app_db, "for tax", ANN) == ("id", "charge")
    assert found(app_db, "for tax", BEA) == ("charge",)
    assert found(app_db, "for  tax", None) == ("id", "charge")
    assert found(app_db, "mine", BEA) is None
    assert found(app_db, "mine", None) is None
    with app_db.read() as connection:
        assert saved.find(connection, saved.COLUMN_SETS, "sms", "for tax", ANN) is None
        names = [(one.name, one.shared) for one in saved.all_of(connection, saved.COLUMN_SETS, "cdrs", BEA)]
    assert names == [("for tax", True), ("for tax", False)]


def test_shared_column_set_is_kept_when_its_owner_is_removed(app_db: Database) -> None:
    saved.save(app_db, saved.COLUMN_SETS, "cdrs", ANN, "for all", "id", shared=True)
    saved.save(app_db, saved.COLUMN_SETS, "cdrs", ANN, "mine", "id", shared=False)
    people.create(app_db, "root@example.com", "admin")
    people.remove(app_db, "ann@example.com")
    assert found(app_db, "for all", BEA) == ("id",)
    with app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM column_sets").fetchone()[0] == 1
        (kept,) = saved.all_of(connection, saved.COLUMN_SETS, "cdrs", BEA)
    assert not saved.remove(app_db, saved.COLUMN_SETS, kept.id, BEA)
    assert saved.remove(app_db, saved.COLUMN_SETS, kept.id, BEA, include_shared=True)
