from __future__ import annotations

import pytest

from integration.access import people, sessions
from integration.core import clock
from integration.core.errors import StorageFull
from integration.sqlite.database import Database
from tests.house.conftest import Clock


@pytest.fixture
def ann(house: Database) -> people.Person:
    return people.create(house, "ann@example.com", "agent")


def settle(house: Database) -> None:
    """Wait until what was submitted before is durable."""
    house.write(lambda tx: None)


def test_a_session_stands_for_its_person_as_they_are_now(house: Database, ann: people.Person) -> None:
    token = sessions.begin(house, ann.id, address="192.0.2.7", agent="Browser")
    people.set_role(house, ann.email, "supervisor")
    found = sessions.find(house, token)
    assert found is not None
    session, person = found
    assert person.role == "supervisor"
    assert (session.address, session.agent) == ("192.0.2.7", "Browser")
    assert sessions.find(house, token + "x") is None
    assert token.encode() not in b"".join(path.read_bytes() for path in house.path.parent.glob("house.db*"))


def test_a_session_ends_when_nobody_uses_it(house: Database, ann: people.Person, moving: Clock) -> None:
    token = sessions.begin(house, ann.id)
    moving.forward(sessions.IDLE - 1)
    assert sessions.find(house, token) is not None
    settle(house)
    moving.forward(sessions.IDLE - 1)
    assert sessions.find(house, token, touch=False) is not None
    moving.forward(2)
    assert sessions.find(house, token) is None


def test_a_session_ends_a_week_after_login_however_busy(
    house: Database, ann: people.Person, moving: Clock
) -> None:
    token = sessions.begin(house, ann.id)
    for _ in range(int(sessions.ABSOLUTE // 3600) - 1):
        moving.forward(3600)
        assert sessions.find(house, token) is not None
        settle(house)
    moving.forward(3601)
    assert sessions.find(house, token) is None


def test_a_session_lives_through_a_clock_set_back(house: Database, ann: people.Person, moving: Clock) -> None:
    token = sessions.begin(house, ann.id)
    moving.forward(-86400)
    assert sessions.find(house, token) is not None
    settle(house)
    [session] = sessions.of_person(house, ann.id)
    assert session.seen_at == moving.at


def test_login_ends_the_session_the_browser_came_with(house: Database, ann: people.Person) -> None:
    first = sessions.begin(house, ann.id)
    second = sessions.begin(house, ann.id, instead_of=first)
    assert sessions.find(house, first) is None
    assert sessions.find(house, second) is not None


def test_sessions_can_be_ended_one_by_one_and_all(house: Database, ann: people.Person) -> None:
    tokens = [sessions.begin(house, ann.id) for _ in range(4)]
    sessions.end(house, tokens[0])
    newest = sessions.of_person(house, ann.id)[0]
    sessions.revoke(house, newest.id)
    assert [sessions.find(house, token) is not None for token in tokens] == [False, True, True, False]
    sessions.revoke_all(house, ann.id)
    assert sessions.of_person(house, ann.id) == []


def test_a_session_does_not_outlast_a_night_that_the_machine_slept(
    house: Database, ann: people.Person, moving: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    token, steady = sessions.begin(house, ann.id), sessions.Steady(house)
    slept = clock.asleep() + sessions.IDLE
    monkeypatch.setattr(clock, "asleep", lambda: slept)
    moving.forward(sessions.IDLE)
    steady.look()
    assert sessions.find(house, token) is None


def test_a_session_lives_through_a_clock_that_is_set(
    house: Database, ann: people.Person, moving: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    token, steady = sessions.begin(house, ann.id), sessions.Steady(house)
    for jump in (30 * 86400.0, -60 * 86400.0):
        moving.forward(jump)
        steady.look()
        assert sessions.find(house, token) is not None
        settle(house)
    with monkeypatch.context() as full:
        full.setattr(house, "write", lambda _work: (_ for _ in ()).throw(StorageFull("the disk is full")))
        moving.forward(30 * 86400.0)
        with pytest.raises(StorageFull):
            steady.look()
    steady.look()
    assert sessions.find(house, token) is not None, "what could not be noted is noted later"
    moving.forward(30.0)
    steady.look()
    moving.forward(sessions.IDLE)
    assert sessions.find(house, token) is None, "what passes, passes"
