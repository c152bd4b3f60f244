"""Read-only connections to database files."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from integration.core.errors import StorageBusy, StorageError
from integration.sqlite.readers import ReadOnlyDatabase, open_readonly


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "a %41?.db")) as connection:
        connection.executescript("CREATE TABLE things (id INTEGER); INSERT INTO things VALUES (7)")
    return tmp_path / "a %41?.db"


def test_a_read_only_connection_reads_by_name_for_any_path_without_trusted_schema(path: Path) -> None:
    with open_readonly(path) as connection:
        assert connection.execute("SELECT * FROM things").fetchone()["id"] == 7
        assert connection.execute("PRAGMA trusted_schema").fetchone()[0] == 0
        assert not connection.in_transaction


def test_a_read_only_connection_rejects_writes(path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"), open_readonly(path) as connection:
        connection.execute("DELETE FROM things")


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"), open_readonly(tmp_path / "no.db"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "opener", [open_readonly, lambda path, seconds: ReadOnlyDatabase(path).read(seconds)]
)
def test_a_lock_of_another_program_is_awaited_for_the_given_time(path: Path, opener) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(StorageBusy), opener(path, 0.1) as connection:
            connection.execute("SELECT * FROM things").fetchone()
        assert 0.1 <= time.monotonic() - began < 3
