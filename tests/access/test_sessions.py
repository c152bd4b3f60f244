from __future__ import annotations

import pytest

from integration.access import people, sessions
from integration.core import clock
from integration.core.errors import StorageFull
from integration.sqlite.database import Database
from tests.support.clock import Clock


@pytest.fixture
def ann(app_db: Database) -> people.Person:
    return people.create(app_db, "ann@example.com", "agent")


def wait_for_writes(app_db: Database) -> None:
    """Wait until all submitted writes are durable."""
    app_db.write(lambda tx: None)


def test_session_survives_a_clock_set_back(app_db: Database, ann: people.Person, frozen_clock: Clock) -> None:
    token = sessions.create(app_db, ann.id)
    frozen_clock.advance(-86400)
    assert sessions.find(app_db, token) is not None
    wait_for_writes(app_db)
    [session] = sessions.list_of_person(app_db, ann.id)
    assert session.seen_at == frozen_clock.unix()


def test_session_expires_while_the_machine_is_suspended(
    app_db: Database, ann: people.Person, frozen_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    token, steady = sessions.create(app_db, ann.id), sessions.ClockWatch(app_db)
    slept = clock.suspended_seconds() + sessions.IDLE_SECONDS
    monkeypatch.setattr(clock, "suspended_seconds", lambda: slept)
    frozen_clock.advance(sessions.IDLE_SECONDS)
    steady.check()
    assert sessions.find(app_db, token) is None


def test_session_survives_an_adjusted_clock(
    app_db: Database, ann: people.Person, frozen_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    token, steady = sessions.create(app_db, ann.id), sessions.ClockWatch(app_db)
    for jump in (30 * 86400.0, -60 * 86400.0):
        frozen_clock.advance(jump)
        steady.check()
        assert sessions.find(app_db, token) is not None
        wait_for_writes(app_db)
    with monkeypatch.context() as full:
        full.setattr(app_db, "write", lambda _work: (_ for _ in ()).throw(StorageFull("the disk is full")))
        frozen_clock.advance(30 * 86400.0)
        with pytest.raises(StorageFull):
            steady.check()
    steady.check()
    assert sessions.find(app_db, token) is not None, "a failed write is repeated later"
    frozen_clock.advance(30.0)
    steady.check()
    frozen_clock.advance(sessions.IDLE_SECONDS)
    assert sessions.find(app_db, token) is None, "elapsed time counts after the adjustment"
