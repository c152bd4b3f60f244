from __future__ import annotations

import threading
from pathlib import Path

import pytest

from integration.access import login_throttle
from integration.access.login_throttle import TooManyAttempts
from integration.app_schema import open_app_db
from integration.sqlite.database import Database
from tests.support.clock import Clock


def attempt(app_db: Database, account: str = "ann@example.com", address: str = "192.0.2.1") -> bool:
    try:
        login_throttle.begin_attempt(app_db, "password", account, address)
    except TooManyAttempts:
        return False
    return True


def test_limit_applies_to_a_sliding_minute(app_db: Database, frozen_clock: Clock) -> None:
    for _ in range(10):
        assert attempt(app_db)
        frozen_clock.advance(5)
    with pytest.raises(TooManyAttempts) as refusal:
        login_throttle.begin_attempt(app_db, "password", "ann@example.com", "192.0.2.1")
    assert refusal.value.retry_after == 10
    frozen_clock.advance(10)
    assert attempt(app_db)
    assert not attempt(app_db)


def test_restart_keeps_the_counted_attempts(tmp_path: Path, frozen_clock: Clock) -> None:
    app_db = open_app_db(tmp_path / "house.db")
    assert sum(attempt(app_db) for _ in range(10)) == 10
    app_db.close()
    app_db = open_app_db(tmp_path / "house.db")
    assert not attempt(app_db)
    app_db.close()


def test_parallel_attempts_do_not_exceed_the_limit(app_db: Database) -> None:
    accepted: list[bool] = []
    threads = [threading.Thread(target=lambda: accepted.append(attempt(app_db))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(accepted) == 10


def test_successful_login_is_not_counted_and_resets_no_failures(app_db: Database) -> None:
    for _ in range(9):
        attempt(app_db)
    for _ in range(5):
        login_throttle.discard_attempt(
            app_db, login_throttle.begin_attempt(app_db, "password", "ann@example.com", "192.0.2.1")
        )
    assert attempt(app_db)
    assert not attempt(app_db)


def test_spellings_of_an_account_or_address_share_a_limit(app_db: Database) -> None:
    spellings = ["ann@example.com", " Ann@Example.com"]
    assert sum(attempt(app_db, account=spellings[n % 2], address=f"2001:db8:{n}::1") for n in range(20)) == 10
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts"))
    assert sum(attempt(app_db, account=f"p{n}", address=f"2001:db8::{n:x}") for n in range(20)) == 10
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts"))
    addresses = ["192.0.2.1", "::ffff:192.0.2.1"]
    assert sum(attempt(app_db, account=f"p{n}", address=addresses[n % 2]) for n in range(20)) == 10


def test_keys_are_counted_separately(app_db: Database) -> None:
    assert sum(attempt(app_db, account="9000001") for _ in range(10)) == 10
    for _ in range(10):
        login_throttle.begin_attempt(app_db, "key", None, "192.0.2.1")
    with pytest.raises(TooManyAttempts):
        login_throttle.begin_attempt(app_db, "key", None, "192.0.2.1")


def test_clock_set_back_does_not_block_logins(app_db: Database, frozen_clock: Clock) -> None:
    for _ in range(10):
        attempt(app_db)
    frozen_clock.advance(-86400)
    assert attempt(app_db)
