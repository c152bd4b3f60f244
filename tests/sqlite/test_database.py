"""Single-writer database: durable writes, changes announced after the commit."""

from __future__ import annotations

import gc
import queue
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from integration.core import clock
from integration.core.errors import StorageBroken, StorageBusy, StorageError
from integration.sqlite import database, wal
from integration.sqlite.database import Database
from integration.sqlite.readers import KEPT_IDLE
from integration.sqlite.transaction import Change, Transaction

CHANGES = "CREATE TABLE IF NOT EXISTS _changes (id INTEGER PRIMARY KEY AUTOINCREMENT, at, topic, key, data)"


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL)")
    connection.execute(CHANGES)


@pytest.fixture
def db(tmp_path):
    database = Database(tmp_path / "test.db", prepare=prepare, synchronous="FULL")
    yield database
    database.close()


@pytest.fixture
def statement_errors(monkeypatch) -> dict[str, Exception]:
    """Errors that connections raise, by start of the statement."""
    errors: dict[str, Exception] = {}

    class FailingConnection(sqlite3.Connection):
        def execute(self, sql, *parameters):
            for start, error in errors.items():
                if sql.startswith(start):
                    raise error
            return super().execute(sql, *parameters)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailingConnection))
    return errors


def add(text):
    return lambda tx: tx.execute("INSERT INTO notes VALUES (?)", (text,))


@contextmanager
def busy_writer(database: Database) -> Iterator[None]:
    """Block the writer. Jobs submitted in the block share the next group."""
    started, finish = threading.Event(), threading.Event()

    def block(_: Transaction) -> None:
        started.set()
        finish.wait(30)

    future = database.submit(block)
    # Without this wait the first jobs of the block could be in the group of `block`.
    assert started.wait(30)
    try:
        yield
    finally:
        finish.set()
    future.result(30)


def notes(path):
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY rowid")]


def test_a_failing_job_does_not_undo_other_jobs_of_its_group(db):
    with busy_writer(db):
        good, bad, also_good = db.submit(add("a")), db.submit(add(None)), db.submit(add("b"))
    good.result(30)
    also_good.result(30)
    with pytest.raises(sqlite3.IntegrityError):
        bad.result(30)
    assert notes(db.path) == ["a", "b"]


def test_adjacent_items_are_written_in_one_call_and_only_a_faulty_item_fails(db):
    calls = []

    def write_items(tx: Transaction, texts: list[str | None]) -> list[str]:
        calls.append(texts)
        tx.executemany("INSERT INTO notes VALUES (?)", [(text,) for text in texts])
        return [f"stored {text}" for text in texts]

    with busy_writer(db):
        before = [db.submit_grouped(write_items, text) for text in ("a", "b")]
        db.submit(add("between"))
        after = [db.submit_grouped(write_items, text) for text in ("c", None, "d")]
    assert [future.result(30) for future in before] == ["stored a", "stored b"]
    assert [after[0].result(30), after[2].result(30)] == ["stored c", "stored d"]
    with pytest.raises(sqlite3.IntegrityError):
        after[1].result(30)
    assert calls == [["a", "b"], ["c", None, "d"], ["c"], [None], ["d"]]
    assert notes(db.path) == ["a", "b", "between", "c", "d"]


def test_changes_are_announced_after_the_commit_and_not_for_failed_jobs(db):
    announced: list[tuple[Change, list[str]]] = []
    db.on_commit = lambda changes: announced.extend((change, notes(db.path)) for change in changes)

    def announce(tx: Transaction):
        tx.execute("INSERT INTO notes VALUES ('announced')")
        return tx.announce("call", 7, {"state": "ringing"})

    def announce_and_fail(tx: Transaction):
        tx.announce("call", 8)
        raise ValueError("no")

    with busy_writer(db):
        good, bad = db.submit(announce), db.submit(announce_and_fail)
    assert good.result(30) == 1
    with pytest.raises(ValueError):
        bad.result(30)
    assert [(change.number, change.key, seen) for change, seen in announced] == [(1, "7", ["announced"])]


def test_a_failing_listener_does_not_fail_the_write_and_is_reported_for_a_time(db, caplog, monkeypatch):
    def listener(changes):
        raise RuntimeError("listener")

    assert db.listener_error is None
    db.on_commit = listener
    assert db.write(lambda tx: tx.announce("call", 1)) == 1
    assert "listener failed" in caplog.text
    db.on_commit = None
    db.write(add("later"))
    assert "RuntimeError: listener" in db.listener_error
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + database.LISTENER_ERROR_SECONDS + 1)
    assert db.listener_error is None


def test_readers_cannot_write_and_see_one_snapshot(db):
    db.write(add("before"))
    with db.read() as connection:
        assert [row[0] for row in connection.execute("SELECT text FROM notes")] == ["before"]
        db.write(add("after"))
        assert [row[0] for row in connection.execute("SELECT text FROM notes")] == ["before"]
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("INSERT INTO notes VALUES ('no')")


def test_a_query_is_interrupted_at_its_time_limit(db, monkeypatch):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with db.read(seconds=0.05) as connection, pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(endless)
    with db.read() as connection:
        assert connection.execute("SELECT 1").fetchone()[0] == 1


def test_a_lock_of_another_program_raises_storage_busy_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    db = Database(tmp_path / "test.db", prepare=prepare)
    other_program = sqlite3.connect(db.path, isolation_level=None)
    other_program.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy):
        db.write(add("refused"))
    other_program.execute("ROLLBACK")
    other_program.close()
    db.write(add("accepted"))
    assert notes(db.path) == ["accepted"]
    db.close()


def notes_without_wal(path, folder):
    """Return the notes in the database file itself, without its write-ahead log."""
    return notes(shutil.copy(path, folder / "copy.db"))


def test_the_wal_is_checkpointed_after_a_number_of_commits_or_rows(db, tmp_path, monkeypatch):
    monkeypatch.setattr(wal, "CHECKPOINT_COMMITS", 3)
    for number in range(4):
        db.write(add(str(number)))
    assert notes_without_wal(db.path, tmp_path) == ["0", "1", "2"]
    monkeypatch.setattr(wal, "CHECKPOINT_ROWS", 2)
    db.write(lambda tx: tx.executemany("INSERT INTO notes VALUES (?)", [("4",), ("5",)]))
    db.write(lambda tx: None)
    assert notes_without_wal(db.path, tmp_path) == ["0", "1", "2", "3", "4", "5"]


def test_a_wal_of_a_killed_process_is_checkpointed_when_the_database_is_opened(db, tmp_path):
    db.write(add("left"))
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("test.db", "test.db-wal"):
        shutil.copy(tmp_path / name, killed / name)
    successor = Database(killed / "test.db", prepare=prepare)
    assert notes_without_wal(successor.path, tmp_path) == ["left"]
    successor.close()


@pytest.mark.parametrize(
    ("code", "continues"), [(sqlite3.SQLITE_IOERR_FSYNC, False), (sqlite3.SQLITE_FULL, True)]
)
def test_a_disk_error_in_a_checkpoint_ends_the_writer_and_a_full_disk_does_not(
    tmp_path, monkeypatch, statement_errors, code, continues
):
    monkeypatch.setattr(wal, "CHECKPOINT_COMMITS", 1)
    broken = queue.SimpleQueue()
    db = Database(tmp_path / "test.db", prepare=prepare, on_broken=broken.put)
    db.write(add("before"))

    def fail_checkpoints(tx: Transaction) -> None:
        error = sqlite3.OperationalError("the disk failed")
        error.sqlite_errorcode = code
        statement_errors["PRAGMA wal_checkpoint"] = error
        tx.execute("INSERT INTO notes VALUES ('durable')")

    # The checkpoint comes after the commit, so the write succeeds.
    db.write(fail_checkpoints)
    if continues:
        db.write(add("and on"))
        assert broken.empty()
    else:
        assert str(broken.get(timeout=30)) == "the disk failed"
        with pytest.raises(StorageError):
            db.write(add("refused"))
    db.close()


def test_a_write_within_a_write_job_raises_instead_of_blocking(db):
    with pytest.raises(RuntimeError, match="write job"):
        db.write(lambda tx: db.write(add("never")))


def test_a_closed_database_completes_queued_jobs_and_rejects_new_ones(tmp_path):
    closed = Database(tmp_path / "closed.db", prepare=prepare)
    queued = [closed.submit(add(str(number))) for number in range(50)]
    closed.close()
    for future in queued:
        future.result(30)
    with pytest.raises(StorageError, match="closed"):
        closed.write(add("late"))
    assert len(notes(closed.path)) == 50


def test_a_failed_writer_fails_all_waiting_jobs_and_is_unhealthy(tmp_path, statement_errors):
    errors = []
    failing = Database(tmp_path / "failing.db", prepare=prepare, on_broken=errors.append)
    statement_errors["BEGIN"] = ZeroDivisionError("division by zero")
    for _ in range(2):
        with pytest.raises(StorageBroken, match="division"):
            failing.write(add("never"), timeout=5)
    assert not failing.is_healthy
    assert [type(error) for error in errors] == [ZeroDivisionError]
    failing.close()


def test_a_failed_exclusive_job_breaks_the_database_only_on_a_disk_error(tmp_path):
    errors: list[BaseException] = []
    db = Database(tmp_path / "test.db", prepare=prepare, on_broken=errors.append)

    def disk_fails(_connection):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    try:
        with pytest.raises(ZeroDivisionError):
            db.run_exclusive(lambda connection: 1 // 0)
        with pytest.raises(StorageError, match="nowhere"):
            db.run_exclusive(lambda connection: connection.execute("DROP TABLE nowhere"))
        db.write(add("stored"))
        assert errors == []
        with pytest.raises(StorageBroken, match="disk I/O"):
            db.run_exclusive(disk_fails)
        with pytest.raises(StorageBroken):
            db.write(add("never"))
        assert len(errors) == 1
    finally:
        db.close()


def test_all_but_a_few_connections_of_a_rush_are_closed_when_they_are_idle(db, stopped_clock):
    def count_open() -> int:
        # SQLite keeps the descriptors of closed connections for later ones, so these are not counted.
        return sum(1 for one in gc.get_objects() if isinstance(one, sqlite3.Connection))

    before = count_open()
    with ExitStack() as rush:
        for _ in range(20):
            rush.enter_context(db.read()).execute("SELECT count(*) FROM notes").fetchone()
    assert count_open() == before + 20
    for _ in range(3):
        stopped_clock.advance(40)
        with db.read() as connection:
            connection.execute("SELECT count(*) FROM notes").fetchone()
    assert count_open() == before + KEPT_IDLE


def test_a_bulk_cache_hides_no_error_of_its_block(db):
    def fail():
        db.close()
        raise KeyError

    with pytest.raises(KeyError), database.bulk_cache(db):
        fail()
