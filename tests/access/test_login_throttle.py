from __future__ import annotations

import threading
from pathlib import Path

import pytest

from integration.access import login_throttle as attempts
from integration.access.login_throttle import TooManyAttempts
from integration.app_schema import open_house
from integration.sqlite.database import Database
from tests.house.conftest import Clock


def guess(house: Database, account: str = "ann@example.com", address: str = "192.0.2.1") -> bool:
    try:
        attempts.begin(house, "password", account, address)
    except TooManyAttempts:
        return False
    return True


def test_an_account_takes_ten_guesses_a_minute_from_anywhere(house: Database, moving: Clock) -> None:
    assert sum(guess(house, address=f"192.0.2.{n}") for n in range(20)) == 10
    assert guess(house, account="ben@example.com", address="192.0.2.1")
    moving.forward(61)
    assert guess(house)


def test_an_address_takes_ten_guesses_a_minute_at_anyone(house: Database, moving: Clock) -> None:
    assert sum(guess(house, account=f"p{n}@example.com") for n in range(20)) == 10
    assert guess(house, account="p0@example.com", address="192.0.2.2")


def test_the_window_slides(house: Database, moving: Clock) -> None:
    for _ in range(10):
        assert guess(house)
        moving.forward(5)
    with pytest.raises(TooManyAttempts) as refusal:
        attempts.begin(house, "password", "ann@example.com", "192.0.2.1")
    assert refusal.value.retry_after == 10
    moving.forward(10)
    assert guess(house)
    assert not guess(house)


def test_a_restart_does_not_begin_a_new_minute(tmp_path: Path, moving: Clock) -> None:
    house = open_house(tmp_path / "house.db")
    assert sum(guess(house) for _ in range(10)) == 10
    house.close()
    house = open_house(tmp_path / "house.db")
    assert not guess(house)
    house.close()


def test_guesses_side_by_side_do_not_slip_through(house: Database) -> None:
    gone: list[bool] = []
    threads = [threading.Thread(target=lambda: gone.append(guess(house))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(gone) == 10


def test_a_right_password_is_no_guess_but_forgives_none(house: Database) -> None:
    for _ in range(9):
        guess(house)
    for _ in range(5):
        attempts.succeeded(house, attempts.begin(house, "password", "ann@example.com", "192.0.2.1"))
    assert guess(house)
    assert not guess(house)


def test_spellings_of_an_account_and_of_an_address_are_one(house: Database) -> None:
    spellings = ["ann@example.com", " Ann@Example.com"]
    assert sum(guess(house, account=spellings[n % 2], address=f"2001:db8:{n}::1") for n in range(20)) == 10
    house.write(lambda tx: tx.execute("DELETE FROM attempts"))
    assert sum(guess(house, account=f"p{n}", address=f"2001:db8::{n:x}") for n in range(20)) == 10
    house.write(lambda tx: tx.execute("DELETE FROM attempts"))
    addresses = ["192.0.2.1", "::ffff:192.0.2.1"]
    assert sum(guess(house, account=f"p{n}", address=addresses[n % 2]) for n in range(20)) == 10


def test_keys_count_apart_from_passwords_and_only_when_wrong(house: Database) -> None:
    assert sum(guess(house, account="9000001") for _ in range(10)) == 10
    attempts.check(house, "key", "9000001", "192.0.2.1")
    for _ in range(10):
        attempts.failed(house, "key", None, "192.0.2.1")
    with pytest.raises(TooManyAttempts):
        attempts.check(house, "key", "9000001", "192.0.2.1")
    with pytest.raises(TooManyAttempts):
        attempts.failed(house, "key", None, "192.0.2.1")


def test_a_clock_set_back_locks_nobody_out(house: Database, moving: Clock) -> None:
    for _ in range(10):
        guess(house)
    moving.forward(-86400)
    assert guess(house)


def test_what_was_typed_is_not_kept_readable(house: Database) -> None:
    guess(house, account="my secret password")
    assert b"my secret" not in b"".join(path.read_bytes() for path in house.path.parent.glob("house.db*"))
