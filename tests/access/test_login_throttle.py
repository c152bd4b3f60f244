from __future__ import annotations

import threading
from pathlib import Path

import pytest

from integration.access import login_throttle
from integration.access.login_throttle import TooManyAttempts
from integration.app_schema import open_app_db
from integration.sqlite.database import Database
from tests.support.clock import Clock


def guess(app_db: Database, account: str = "ann@example.com", address: str = "192.0.2.1") -> bool:
    try:
        login_throttle.begin_attempt(app_db, "password", account, address)
    except TooManyAttempts:
        return False
    return True


def test_an_account_takes_ten_guesses_a_minute_from_anywhere(app_db: Database, frozen_clock: Clock) -> None:
    assert sum(guess(app_db, address=f"192.0.2.{n}") for n in range(20)) == 10
    assert guess(app_db, account="ben@example.com", address="192.0.2.1")
    frozen_clock.advance(61)
    assert guess(app_db)


def test_an_address_takes_ten_guesses_a_minute_at_anyone(app_db: Database, frozen_clock: Clock) -> None:
    assert sum(guess(app_db, account=f"p{n}@example.com") for n in range(20)) == 10
    assert guess(app_db, account="p0@example.com", address="192.0.2.2")


def test_the_window_slides(app_db: Database, frozen_clock: Clock) -> None:
    for _ in range(10):
        assert guess(app_db)
        frozen_clock.advance(5)
    with pytest.raises(TooManyAttempts) as refusal:
        login_throttle.begin_attempt(app_db, "password", "ann@example.com", "192.0.2.1")
    assert refusal.value.retry_after == 10
    frozen_clock.advance(10)
    assert guess(app_db)
    assert not guess(app_db)


def test_a_restart_does_not_begin_a_new_minute(tmp_path: Path, frozen_clock: Clock) -> None:
    app_db = open_app_db(tmp_path / "house.db")
    assert sum(guess(app_db) for _ in range(10)) == 10
    app_db.close()
    app_db = open_app_db(tmp_path / "house.db")
    assert not guess(app_db)
    app_db.close()


def test_guesses_side_by_side_do_not_slip_through(app_db: Database) -> None:
    gone: list[bool] = []
    threads = [threading.Thread(target=lambda: gone.append(guess(app_db))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(gone) == 10


def test_a_right_password_is_no_guess_but_forgives_none(app_db: Database) -> None:
    for _ in range(9):
        guess(app_db)
    for _ in range(5):
        login_throttle.discard_attempt(
            app_db, login_throttle.begin_attempt(app_db, "password", "ann@example.com", "192.0.2.1")
        )
    assert guess(app_db)
    assert not guess(app_db)


def test_spellings_of_an_account_and_of_an_address_are_one(app_db: Database) -> None:
    spellings = ["ann@example.com", " Ann@Example.com"]
    assert sum(guess(app_db, account=spellings[n % 2], address=f"2001:db8:{n}::1") for n in range(20)) == 10
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts"))
    assert sum(guess(app_db, account=f"p{n}", address=f"2001:db8::{n:x}") for n in range(20)) == 10
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts"))
    addresses = ["192.0.2.1", "::ffff:192.0.2.1"]
    assert sum(guess(app_db, account=f"p{n}", address=addresses[n % 2]) for n in range(20)) == 10


def test_keys_count_apart_from_passwords_and_only_when_wrong(app_db: Database) -> None:
    assert sum(guess(app_db, account="9000001") for _ in range(10)) == 10
    login_throttle.check_limit(app_db, "key", "9000001", "192.0.2.1")
    for _ in range(10):
        login_throttle.record_failure(app_db, "key", None, "192.0.2.1")
    with pytest.raises(TooManyAttempts):
        login_throttle.check_limit(app_db, "key", "9000001", "192.0.2.1")
    with pytest.raises(TooManyAttempts):
        login_throttle.record_failure(app_db, "key", None, "192.0.2.1")


def test_a_clock_set_back_locks_nobody_out(app_db: Database, frozen_clock: Clock) -> None:
    for _ in range(10):
        guess(app_db)
    frozen_clock.advance(-86400)
    assert guess(app_db)


def test_what_was_typed_is_not_kept_readable(app_db: Database) -> None:
    guess(app_db, account="my secret password")
    assert b"my secret" not in b"".join(path.read_bytes() for path in app_db.path.parent.glob("house.db*"))
