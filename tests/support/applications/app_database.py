"""Application database without the rest of the product, and fast password hashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from integration.access import passwords
from integration.app_schema import open_app_db
from integration.sqlite.database import Database


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords with the lowest cost.

    tests/access/test_people.py checks the parameters of the product's hasher.
    """
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def app_db(tmp_path: Path) -> Iterator[Database]:
    database = open_app_db(tmp_path / "house.db")
    yield database
    database.close()
