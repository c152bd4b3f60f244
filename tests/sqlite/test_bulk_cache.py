from __future__ import annotations

import sqlite3

import pytest

from integration.sqlite.bulk_cache import CACHE_KIB, DEFAULT_KIB, bulk_cache
from integration.sqlite.database import Database


@pytest.fixture
def db(tmp_path):
    database = Database(tmp_path / "test.db", prepare=lambda _: None, synchronous="FULL")
    yield database
    database.close()


def get_cache_size(db: Database) -> int:
    def work(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA cache_size").fetchone()[0])

    return db.run_exclusive(work)


def close_and_fail(db: Database) -> None:
    db.close()
    raise KeyError


def test_a_bulk_cache_ends_with_its_block_whose_error_is_raised(db):
    with bulk_cache(db):
        assert get_cache_size(db) == -CACHE_KIB
    assert get_cache_size(db) == -DEFAULT_KIB
    with pytest.raises(KeyError), bulk_cache(db):
        close_and_fail(db)
