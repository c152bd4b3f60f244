from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from integration.access import passwords, people, setup_links
from integration.access.rights import has
from integration.core.errors import DomainError
from integration.sqlite.database import Database
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


@pytest.mark.parametrize(
    "address", ["", "ann", "ann@", "@example.com", "a b@example.com", "<ann@example.com>"]
)
def test_malformed_address_is_rejected(app_db: Database, address: str) -> None:
    with pytest.raises(DomainError, match="not an e-mail address"):
        people.create(app_db, address, "agent")


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


def test_first_run_link_is_void_once_a_user_exists(app_db: Database) -> None:
    (url,) = setup_links.create_first_run_link(app_db, ["http://127.0.0.1:8000"])
    token = url.rpartition("/")[2]
    people.create(app_db, "ann@example.com", "admin")
    assert setup_links.find(app_db, token) is None
    assert setup_links.redeem(app_db, token, passwords.hash_password(GOOD), "eve@example.com") is None
