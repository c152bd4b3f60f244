from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from integration.access import passwords, people, sessions, setup_links
from integration.access.rights import RIGHTS, ROLES, has
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from tests.support.busy_hashing import busy_hashing
from tests.support.clock import Clock

GOOD = "correct horse battery"
HASHER = passwords.HASHER
"""Hasher of the product, before tests replace it by a cheap one."""


def read_files(app_db: Database) -> bytes:
    return b"".join(path.read_bytes() for path in app_db.path.parent.glob("house.db*"))


def test_password_is_verified_and_never_stored_in_plain_text(app_db: Database) -> None:
    people.create(app_db, "Ann@Example.com", "agent", password_hash=passwords.hash_password(GOOD))
    person = people.authenticate(app_db, " ann@example.COM ", GOOD)
    assert person is not None
    assert (person.email, person.role, person.has_password) == ("ann@example.com", "agent", True)
    assert people.authenticate(app_db, "ann@example.com", GOOD + "!") is None
    assert GOOD.encode() not in read_files(app_db)


def test_password_hash_has_at_least_the_cost_of_the_rfc() -> None:
    stored = HASHER.hash(GOOD)
    assert stored.startswith("$argon2id$")
    costs = dict(part.split("=") for part in stored.split("$")[3].split(","))
    assert int(costs["m"]) * int(costs["t"]) >= 64 * 1024 * 3


def test_hash_of_other_cost_is_renewed_at_login(app_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    people.create(app_db, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=2, memory_cost=8, parallelism=1))
    assert people.authenticate(app_db, "ann@example.com", GOOD) is not None
    with app_db.read() as connection:
        assert "m=8,t=2" in connection.execute("SELECT password FROM people").fetchone()[0]
    assert people.authenticate(app_db, "ann@example.com", GOOD) is not None


def test_user_without_a_password_cannot_log_in(app_db: Database) -> None:
    people.create(app_db, "ann@example.com", "agent")
    assert people.authenticate(app_db, "ann@example.com", "") is None
    assert people.authenticate(app_db, "ann@example.com", "no account has this password") is None


def test_unknown_address_costs_as_much_as_a_wrong_password(
    app_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.create(app_db, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    people.create(app_db, "ben@example.com", "agent")
    checked = []
    real = passwords.HASHER

    class Counting:
        def verify(self, stored: str, password: str) -> bool:
            checked.append(stored.split("$")[:4])
            return real.verify(stored, password)

        def hash(self, password: str) -> str:
            checked.append("a hash more than a wrong password costs")
            return real.hash(password)

    monkeypatch.setattr(passwords, "HASHER", Counting())
    # The first unknown address since the start computes the hash that the others are compared with.
    people.authenticate(app_db, "first@example.com", "wrong password")
    checked.clear()
    for address in ("ann@example.com", "ben@example.com", "nobody@example.com"):
        assert people.authenticate(app_db, address, "wrong password") is None
    assert len(checked) == 3
    assert checked[0] == checked[1] == checked[2]


@pytest.mark.parametrize("password", ["", "short", "x" * 201])
def test_password_of_invalid_length_is_rejected(password: str) -> None:
    with pytest.raises(DomainError, match="characters"):
        passwords.hash_password(password)


def test_password_is_normalised_to_one_unicode_form() -> None:
    assert passwords.verify(passwords.hash_password("Cafe\u0301 du matin"), "Caf\u00e9 du matin")
    assert not passwords.verify(passwords.hash_password("ten or more \ud800"), "ten or more \ud801 ")


def test_too_many_parallel_logins_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "WAIT_SECONDS", 0.01)
    with busy_hashing(monkeypatch):
        with pytest.raises(passwords.TooManyLogins):
            passwords.verify(None, GOOD)


@pytest.mark.parametrize(
    "address", ["", "ann", "ann@", "@example.com", "a b@example.com", "<ann@example.com>"]
)
def test_malformed_address_is_rejected(app_db: Database, address: str) -> None:
    with pytest.raises(DomainError, match="not an e-mail address"):
        people.create(app_db, address, "agent")


def test_address_is_unique_in_any_case(app_db: Database) -> None:
    people.create(app_db, "ann@example.com", "agent")
    with pytest.raises(DomainError, match="already"):
        people.create(app_db, "ANN@example.com", "viewer")


def test_rights_follow_the_role_unless_granted_or_denied(app_db: Database) -> None:
    rights = {
        role: people.create(app_db, f"{role}@example.com", role).rights
        for role in ("viewer", "agent", "supervisor", "admin")
    }
    assert rights == {
        "viewer": set(),
        "agent": {"recordings"},
        "supervisor": {"export", "recordings"},
        "admin": {"export", "recordings"},
    }
    assert has(people.change(app_db, "viewer@example.com", rights={"export": True}), "export")
    assert not has(people.change(app_db, "admin@example.com", rights={"recordings": False}), "recordings")
    assert has(people.change(app_db, "admin@example.com", rights={"recordings": None}), "recordings")


def test_role_includes_lower_roles(app_db: Database) -> None:
    supervisor = people.create(app_db, "sue@example.com", "supervisor")
    assert [has(supervisor, role) for role in ROLES] == [True, True, True, False, False]
    accountant = people.create(app_db, "pam@example.com", "exports")
    assert [role for role in (*ROLES, *RIGHTS) if has(accountant, role)] == ["exports", "export"]
    with pytest.raises(ValueError, match="emperor"):
        has(supervisor, "emperor")


def test_last_administrator_cannot_be_removed(app_db: Database) -> None:
    people.create(app_db, "ann@example.com", "admin")
    people.create(app_db, "ben@example.com", "agent")
    with pytest.raises(DomainError, match="last administrator"):
        people.remove(app_db, "ann@example.com")
    with pytest.raises(DomainError, match="last administrator"):
        people.change(app_db, "ann@example.com", role="agent")
    people.change(app_db, "ben@example.com", role="admin")
    people.remove(app_db, "ann@example.com")
    assert [person.email for person in people.list_all(app_db)] == ["ben@example.com"]


def test_new_password_ends_sessions_and_setup_links(app_db: Database) -> None:
    ann = people.create(app_db, "ann@example.com", "admin", password_hash=passwords.hash_password(GOOD))
    token = sessions.create(app_db, ann.id)
    link = setup_links.create_link(app_db, "ann@example.com", "http://127.0.0.1:8000")
    people.set_password(app_db, "ann@example.com", passwords.hash_password("another long password"))
    assert sessions.find(app_db, token) is None
    assert setup_links.find(app_db, link.rpartition("/")[2]) is None
    assert people.authenticate(app_db, "ann@example.com", GOOD) is None


def test_removed_user_loses_the_session(app_db: Database) -> None:
    people.create(app_db, "ann@example.com", "admin")
    ben = people.create(app_db, "ben@example.com", "agent")
    token = sessions.create(app_db, ben.id)
    people.remove(app_db, "ben@example.com")
    assert sessions.find(app_db, token) is None


def test_setup_link_works_once(app_db: Database) -> None:
    people.create(app_db, "ann@example.com", "agent")
    url = setup_links.create_link(app_db, "ann@example.com", "https://switchroom.example.com/")
    base, _, token = url.rpartition("/")
    assert base == "https://switchroom.example.com/setup"
    assert len(token) >= 22
    assert token.encode() not in read_files(app_db)
    link = setup_links.find(app_db, token)
    assert link is not None
    assert link.person is not None
    person = setup_links.redeem(app_db, token, passwords.hash_password(GOOD))
    assert person is not None
    assert person.email == "ann@example.com"
    assert setup_links.redeem(app_db, token, passwords.hash_password(GOOD + "2")) is None
    assert people.authenticate(app_db, "ann@example.com", GOOD) is not None


def test_setup_link_expires_after_two_days(app_db: Database, frozen_clock: Clock) -> None:
    people.create(app_db, "ann@example.com", "agent")
    token = setup_links.create_link(app_db, "ann@example.com", "http://localhost").rpartition("/")[2]
    frozen_clock.advance(48 * 3600 - 1)
    assert setup_links.find(app_db, token) is not None
    frozen_clock.advance(2)
    assert setup_links.find(app_db, token) is None
    assert setup_links.redeem(app_db, token, "irrelevant") is None


def test_newer_setup_link_replaces_the_older(app_db: Database) -> None:
    people.create(app_db, "ann@example.com", "agent")
    first, second = (
        setup_links.create_link(app_db, "ann@example.com", "http://localhost").rpartition("/")[2]
        for _ in range(2)
    )
    assert setup_links.find(app_db, first) is None
    assert setup_links.find(app_db, second) is not None


def test_first_run_link_creates_only_the_first_administrator(app_db: Database) -> None:
    (url,) = setup_links.create_first_run_link(app_db, ["http://127.0.0.1:8000"])
    stale = url.rpartition("/")[2]
    (url,) = setup_links.create_first_run_link(app_db, ["http://127.0.0.1:8000"])
    token = url.rpartition("/")[2]
    assert setup_links.find(app_db, stale) is None
    with pytest.raises(DomainError, match="e-mail"):
        setup_links.redeem(app_db, token, passwords.hash_password(GOOD), "not an address")
    person = setup_links.redeem(app_db, token, passwords.hash_password(GOOD), "ann@example.com")
    assert person is not None
    assert person.role == "admin"
    assert setup_links.create_first_run_link(app_db, ["http://127.0.0.1:8000"]) == []


def test_first_run_link_is_void_once_a_user_exists(app_db: Database) -> None:
    (url,) = setup_links.create_first_run_link(app_db, ["http://127.0.0.1:8000"])
    token = url.rpartition("/")[2]
    people.create(app_db, "ann@example.com", "admin")
    assert setup_links.find(app_db, token) is None
    assert setup_links.redeem(app_db, token, passwords.hash_password(GOOD), "eve@example.com") is None
