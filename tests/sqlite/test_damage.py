"""Invalid pages of a database file: discovery, confirmation, and the file put aside."""

from __future__ import annotations

import os
import queue
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from integration.core.errors import StorageBroken, StorageDamaged
from integration.sqlite import damage
from integration.sqlite.database import Database

PAGE_BYTES = 4096


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT)")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Database with 100 notes, one per page; the root of `notes` is page 2."""
    path = tmp_path / "test.db"
    with closing(sqlite3.connect(path)) as connection:
        prepare(connection)
        connection.executemany("INSERT INTO notes VALUES (?, ?)", [(i, "x" * 3000) for i in range(100)])
        connection.commit()
    return path


def damage_page(path: Path, page: int) -> None:
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xee" * PAGE_BYTES)


def attach(connection: sqlite3.Connection, other: Path) -> None:
    connection.execute("ROLLBACK")
    connection.execute("ATTACH ? AS other", (f"file:{other}?mode=ro",))


def test_a_page_that_a_reader_finds_damaged_is_confirmed_and_other_pages_stay_usable(path: Path) -> None:
    damage_page(path, 50)
    reasons: queue.Queue[str] = queue.Queue()
    database = Database(path, prepare=prepare, on_damaged=reasons.put)
    with pytest.raises(sqlite3.DatabaseError, match="malformed"), database.read() as connection:
        connection.execute("SELECT sum(length(text)) FROM notes").fetchone()
    assert "malformed" in reasons.get(timeout=30)
    assert database.damage is not None
    assert database.write(lambda tx: tx.execute("INSERT INTO notes VALUES (1000, 'new')").rowcount) == 1
    with database.read() as connection:
        assert connection.execute("SELECT text FROM notes WHERE id = 1000").fetchone()[0] == "new"
    assert database.is_healthy
    database.close()
    assert reasons.empty()


def test_a_damaged_page_fails_only_the_jobs_that_need_it(path: Path) -> None:
    damage_page(path, 50)
    reasons: queue.Queue[str] = queue.Queue()
    database = Database(path, prepare=prepare, on_damaged=reasons.put)
    futures = [
        database.submit(lambda tx: tx.execute("UPDATE notes SET text = 'a' WHERE id = 1").rowcount),
        database.submit(lambda tx: tx.execute("UPDATE notes SET text = 'a'").rowcount),
        database.submit(lambda tx: tx.execute("UPDATE notes SET text = 'b' WHERE id = 90").rowcount),
    ]
    assert futures[0].result(30) == 1
    with pytest.raises(StorageDamaged, match="doctor"):
        futures[1].result(30)
    assert futures[2].result(30) == 1
    assert "malformed" in reasons.get(timeout=30)
    database.close()


def test_an_error_of_another_database_is_not_damage_of_this_one(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"no database\n" * 1000)
    reasons: list[str] = []
    database = Database(path, prepare=prepare, on_damaged=reasons.append, on_broken=lambda _: None)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"), database.read() as connection:
        attach(connection, other)
    assert damage.find_damage(path) is None
    database.close()
    assert (database.damage, reasons) == (None, [])


def test_a_disk_that_cannot_be_read_is_not_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage_page(path, 50)
    broken: queue.Queue[BaseException] = queue.Queue()
    reasons: list[str] = []

    def fail_to_read(_path: Path) -> str:
        raise StorageBroken("disk I/O error")

    monkeypatch.setattr(damage, "find_damage", fail_to_read)
    database = Database(path, prepare=prepare, on_damaged=reasons.append, on_broken=broken.put)
    with pytest.raises(sqlite3.DatabaseError), database.read() as connection:
        connection.execute("SELECT sum(length(text)) FROM notes").fetchone()
    assert "disk I/O" in str(broken.get(timeout=30))
    assert not database.is_healthy
    assert reasons == []
    database.close()


def test_damage_that_only_the_cache_of_the_writer_has_ends_the_process(path: Path) -> None:
    intact = path.read_bytes()
    broken: queue.Queue[BaseException] = queue.Queue()
    damage_page(path, 50)
    database = Database(path, prepare=prepare, on_broken=broken.put)

    def read_then_repair(tx):
        try:
            tx.execute("SELECT sum(length(text)) FROM notes").fetchone()
        finally:
            with open(path, "r+b") as file:
                file.write(intact)

    with pytest.raises(StorageDamaged):
        database.write(read_then_repair)
    assert "malformed" in str(broken.get(timeout=30))
    assert database.damage is None
    database.close()


def test_a_marked_file_is_put_aside_with_its_wal_and_the_mark_removed(path: Path) -> None:
    side_file = path.with_name("test.db-wal")
    side_file.write_bytes(b"rest")
    damage.mark_damaged(path, "page 50")
    assert damage.find_marks(path.parent) == {"test.db": "page 50"}
    database = damage.open_or_replace(path, lambda _: Database(path, prepare=prepare))
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone()[0] == 0
    database.close()
    (kept,) = damage.list_put_aside(path.parent)
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == b"rest"
    assert damage.find_marks(path.parent) == {}
    assert 0 < damage.seconds_until_rebuild(path.parent) <= 600
    damage.open_or_replace(path, lambda _: Database(path, prepare=prepare)).close()
    assert damage.list_put_aside(path.parent) == [kept]


def test_an_intact_file_is_not_replaced(path: Path) -> None:
    database = damage.open_or_replace(path, lambda _: Database(path, prepare=prepare))
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone()[0] == 100
    database.close()
    assert damage.seconds_until_rebuild(path.parent) == 0
    assert os.listdir(path.parent) == ["test.db"]
