from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from integration.access import passwords, people, sessions, setup_links
from integration.core.refused import Refused
from integration.sqlite.database import Database
from tests.house.conftest import Clock

GOOD = "correct horse battery"
HASHER = passwords._hasher
"""The one of the product, before tests make it cheap."""


def bytes_of(house: Database) -> bytes:
    return b"".join(path.read_bytes() for path in house.path.parent.glob("house.db*"))


def test_a_password_is_checked_and_never_stored_as_typed(house: Database) -> None:
    people.create(house, "Ann@Example.com", "agent", password_hash=passwords.hash_password(GOOD))
    person = people.authenticate(house, " ann@example.COM ", GOOD)
    assert person is not None
    assert (person.email, person.role, person.ready) == ("ann@example.com", "agent", True)
    assert people.authenticate(house, "ann@example.com", GOOD + "!") is None
    assert GOOD.encode() not in bytes_of(house)


def test_a_guess_costs_what_the_rfc_asks_for() -> None:
    stored = HASHER.hash(GOOD)
    assert stored.startswith("$argon2id$")
    costs = dict(part.split("=") for part in stored.split("$")[3].split(","))
    assert int(costs["m"]) * int(costs["t"]) >= 64 * 1024 * 3


def test_a_hash_of_other_costs_is_renewed_at_login(house: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    people.create(house, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=2, memory_cost=8, parallelism=1))
    assert people.authenticate(house, "ann@example.com", GOOD) is not None
    with house.read() as connection:
        assert "m=8,t=2" in connection.execute("SELECT password FROM people").fetchone()[0]
    assert people.authenticate(house, "ann@example.com", GOOD) is not None


def test_one_without_a_password_cannot_log_in(house: Database) -> None:
    people.create(house, "ann@example.com", "agent")
    assert people.authenticate(house, "ann@example.com", "") is None
    assert people.authenticate(house, "ann@example.com", "no account has this password") is None


def test_an_unknown_address_costs_a_hash_too(house: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    people.create(house, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    people.create(house, "ben@example.com", "agent")
    checked = []
    real = passwords._hasher.verify

    class Counting:
        def verify(self, stored: str, password: str) -> bool:
            checked.append(stored.split("$")[:4])
            return real(stored, password)

        def hash(self, password: str) -> str:
            raise AssertionError("a hash more than a wrong password costs")

    passwords._nobodys()
    monkeypatch.setattr(passwords, "_hasher", Counting())
    for address in ("ann@example.com", "ben@example.com", "nobody@example.com"):
        assert people.authenticate(house, address, "wrong password") is None
    assert len(checked) == 3
    assert checked[0] == checked[1] == checked[2]


@pytest.mark.parametrize("password", ["", "short", "x" * 201])
def test_passwords_have_bounds(password: str) -> None:
    with pytest.raises(Refused, match="characters"):
        passwords.hash_password(password)


def test_one_password_written_on_two_keyboards_is_the_same() -> None:
    assert passwords.verify(passwords.hash_password("Cafe\u0301 du matin"), "Caf\u00e9 du matin")
    assert not passwords.verify(passwords.hash_password("ten or more \ud800"), "ten or more \ud801 ")


def test_more_passwords_than_places_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "WAIT_SECONDS", 0.01)
    with passwords._place(), passwords._place():
        with pytest.raises(passwords.Busy):
            passwords.verify(None, GOOD)


@pytest.mark.parametrize(
    "address", ["", "ann", "ann@", "@example.com", "a b@example.com", "<ann@example.com>"]
)
def test_a_malformed_address_is_refused(house: Database, address: str) -> None:
    with pytest.raises(Refused, match="not an e-mail address"):
        people.create(house, address, "agent")


def test_an_address_is_one_person_in_any_case(house: Database) -> None:
    people.create(house, "ann@example.com", "agent")
    with pytest.raises(Refused, match="already"):
        people.create(house, "ANN@example.com", "viewer")


def test_rights_follow_the_role_unless_given_or_denied(house: Database) -> None:
    rights = {
        role: people.create(house, f"{role}@example.com", role).rights
        for role in ("viewer", "agent", "supervisor", "admin")
    }
    assert rights == {
        "viewer": set(),
        "agent": {"recordings"},
        "supervisor": {"export", "recordings"},
        "admin": {"export", "recordings"},
    }
    assert people.set_right(house, "viewer@example.com", "export", True).may("export")
    assert not people.set_right(house, "admin@example.com", "recordings", False).may("recordings")
    assert people.set_right(house, "admin@example.com", "recordings", None).may("recordings")


def test_a_role_includes_those_below_it(house: Database) -> None:
    supervisor = people.create(house, "sue@example.com", "supervisor")
    assert [supervisor.may(role) for role in people.ROLES] == [True, True, True, False]
    with pytest.raises(ValueError, match="emperor"):
        supervisor.may("emperor")


def test_the_last_administrator_stays(house: Database) -> None:
    people.create(house, "ann@example.com", "admin")
    people.create(house, "ben@example.com", "agent")
    with pytest.raises(Refused, match="last administrator"):
        people.remove(house, "ann@example.com")
    with pytest.raises(Refused, match="last administrator"):
        people.set_role(house, "ann@example.com", "agent")
    people.set_role(house, "ben@example.com", "admin")
    people.remove(house, "ann@example.com")
    assert [person.email for person in people.everyone(house)] == ["ben@example.com"]


def test_a_new_password_ends_sessions_and_links(house: Database) -> None:
    ann = people.create(house, "ann@example.com", "admin", password_hash=passwords.hash_password(GOOD))
    token = sessions.begin(house, ann.id)
    link = setup_links.one_time_link(house, "ann@example.com", "http://127.0.0.1:8000")
    people.set_password(house, "ann@example.com", passwords.hash_password("another long password"))
    assert sessions.find(house, token) is None
    assert setup_links.look(house, link.rpartition("/")[2]) is None
    assert people.authenticate(house, "ann@example.com", GOOD) is None


def test_a_removed_person_is_out_at_once(house: Database) -> None:
    people.create(house, "ann@example.com", "admin")
    ben = people.create(house, "ben@example.com", "agent")
    token = sessions.begin(house, ben.id)
    people.remove(house, "ben@example.com")
    assert sessions.find(house, token) is None


def test_a_link_works_once(house: Database) -> None:
    people.create(house, "ann@example.com", "agent")
    url = setup_links.one_time_link(house, "ann@example.com", "https://switchroom.example.com/")
    base, _, token = url.rpartition("/")
    assert base == "https://switchroom.example.com/setup"
    assert len(token) >= 22
    assert token.encode() not in bytes_of(house)
    link = setup_links.look(house, token)
    assert link is not None
    assert link.person is not None
    person = setup_links.use(house, token, passwords.hash_password(GOOD))
    assert person is not None
    assert person.email == "ann@example.com"
    assert setup_links.use(house, token, passwords.hash_password(GOOD + "2")) is None
    assert people.authenticate(house, "ann@example.com", GOOD) is not None


def test_a_link_ends_after_two_days(house: Database, moving: Clock) -> None:
    people.create(house, "ann@example.com", "agent")
    token = setup_links.one_time_link(house, "ann@example.com", "http://localhost").rpartition("/")[2]
    moving.forward(48 * 3600 - 1)
    assert setup_links.look(house, token) is not None
    moving.forward(2)
    assert setup_links.look(house, token) is None
    assert setup_links.use(house, token, "irrelevant") is None


def test_a_newer_link_replaces_the_older(house: Database) -> None:
    people.create(house, "ann@example.com", "agent")
    first, second = (
        setup_links.one_time_link(house, "ann@example.com", "http://localhost").rpartition("/")[2]
        for _ in range(2)
    )
    assert setup_links.look(house, first) is None
    assert setup_links.look(house, second) is not None


def test_the_first_link_makes_the_first_administrator_only(house: Database) -> None:
    url = setup_links.first_run_link(house, "http://127.0.0.1:8000")
    assert url is not None
    stale = url.rpartition("/")[2]
    url = setup_links.first_run_link(house, "http://127.0.0.1:8000")
    assert url is not None
    token = url.rpartition("/")[2]
    assert setup_links.look(house, stale) is None
    with pytest.raises(Refused, match="e-mail"):
        setup_links.use(house, token, passwords.hash_password(GOOD), "not an address")
    person = setup_links.use(house, token, passwords.hash_password(GOOD), "ann@example.com")
    assert person is not None
    assert person.role == "admin"
    assert setup_links.first_run_link(house, "http://127.0.0.1:8000") is None


def test_the_first_link_is_void_once_somebody_came_another_way(house: Database) -> None:
    url = setup_links.first_run_link(house, "http://127.0.0.1:8000")
    assert url is not None
    token = url.rpartition("/")[2]
    people.create(house, "ann@example.com", "admin")
    assert setup_links.look(house, token) is None
    assert setup_links.use(house, token, passwords.hash_password(GOOD), "eve@example.com") is None
