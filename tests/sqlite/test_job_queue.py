"""Bulk jobs: live jobs and reads of requests go first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from integration.sqlite import job_queue
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.sqlite.test_database import add, busy_writer, notes, prepare


@pytest.fixture
def db(tmp_path):
    database = Database(tmp_path / "test.db", prepare=prepare)
    yield database
    database.close()


def test_a_live_job_waits_for_one_step_of_a_bulk_job(db):
    """A live job arrives in each step.

    It is durable before the next step runs.
    """
    db.write(add("before"))
    live, stored_before_step = [], []

    def step(tx, number):
        stored_before_step.append(notes(db.path))
        live.append(db.submit(add(f"live {number}")))
        tx.execute("INSERT INTO notes VALUES (?)", (f"bulk {number}",))
        return number

    assert db.write_bulk([partial(step, number=number) for number in (1, 2, 3)]) == [1, 2, 3]
    for future in live:
        future.result(30)
    assert stored_before_step == [
        ["before"],
        ["before", "bulk 1", "live 1"],
        ["before", "bulk 1", "live 1", "bulk 2", "live 2"],
    ]


def test_steps_share_a_transaction_while_no_job_waits(db):
    announced = []
    db.on_commit = announced.append
    assert db.write_bulk([lambda tx: tx.announce("step", 0)] * 4) == [1, 2, 3, 4]
    assert [len(changes) for changes in announced] == [4]


def test_bulk_jobs_advance_while_live_jobs_never_end(db):
    """Each live job queues the next one before it ends."""
    is_finished = threading.Event()

    def live(_: Transaction) -> None:
        if not is_finished.is_set():
            db.submit(live)

    db.submit(live)
    try:
        assert db.write_bulk([lambda tx, n=n: n for n in range(50)]) == list(range(50))
    finally:
        is_finished.set()


def test_a_failed_step_fails_only_its_bulk_job(db):
    def fail(tx):
        tx.execute("INSERT INTO notes VALUES ('undone')")
        raise LookupError("step")

    with busy_writer(db):
        failing = ThreadPoolExecutor(1).submit(db.write_bulk, [add("first"), fail, add("never")])
        other = ThreadPoolExecutor(1).submit(db.write_bulk, [add("other")])
    with pytest.raises(LookupError, match="step"):
        failing.result(30)
    other.result(30)
    assert "other" in notes(db.path)
    assert not {"undone", "never"} & set(notes(db.path))
    db.write(add("later"))
    assert notes(db.path)[-1] == "later"


def test_closing_finishes_a_running_bulk_job(db):
    closer = threading.Thread(target=db.close)

    def close(_: Transaction) -> None:
        closer.start()
        # A closed database fails a job at once.
        while not db.submit(lambda tx: None).done():
            pass

    db.write_bulk([add("one"), close, add("two"), add("three")])
    closer.join(30)
    assert notes(db.path) == ["one", "two", "three"]


def test_a_bulk_job_pauses_while_a_request_reads(db, monkeypatch):
    """Live jobs run meanwhile. Reads without a limit are not of requests."""
    monkeypatch.setattr(job_queue, "PAUSE_SECONDS", 600.0)
    with db.read(seconds=5):
        bulk = ThreadPoolExecutor(1).submit(db.write_bulk, [add("bulk")])
        for number in range(20):
            db.write(add(f"live {number}"))
        assert not bulk.done()
        assert "bulk" not in notes(db.path)
    bulk.result(30)
    assert notes(db.path)[-1] == "bulk"
    with db.read():
        db.write_bulk([add("bulk")])


def test_bulk_jobs_advance_while_reads_of_requests_never_end(db, monkeypatch):
    monkeypatch.setattr(job_queue, "PAUSE_SECONDS", 0.01)
    announced = []
    db.on_commit = announced.append
    with db.read(seconds=5):
        db.write_bulk([lambda tx: tx.announce("step", 0)] * 3)
    # Each step has its own transaction, so that a read waits for the present one only.
    assert [len(changes) for changes in announced] == [1, 1, 1]
