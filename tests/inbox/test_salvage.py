"""Readable webhooks of a damaged inbox.db, saved into a new file."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from integration.inbox import salvage
from integration.inbox.store import Inbox
from integration.sqlite.database_files import find_faults

PAGE_BYTES = 4096
COUNT = 400
COLUMNS = "seq, event_id, received_at, event_name, call_id, body, status, deliveries, flagged, body_hash"


def make_body(number: int, size: int = 300) -> bytes:
    return json.dumps({"id": f"e-{number}", "call_id": number, "filler": "x" * size}).encode()


def query(path: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def overwrite_page(path: Path, page: int) -> None:
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xee" + os.urandom(PAGE_BYTES - 1))


def find_root(path: Path, name: str) -> int:
    return query(path, f"SELECT rootpage FROM sqlite_schema WHERE name = '{name}'")[0][0]


def find_leaves(path: Path) -> list[int]:
    """Return the leaf pages of the table in order: SQLite file format, section 1.6."""
    page = path.read_bytes()[(find_root(path, "inbox") - 1) * PAGE_BYTES :][:PAGE_BYTES]
    assert page[0] == 5
    cells = [int.from_bytes(page[12 + 2 * i :][:2], "big") for i in range(int.from_bytes(page[3:5], "big"))]
    return [int.from_bytes(page[cell : cell + 4], "big") for cell in cells] + [
        int.from_bytes(page[8:12], "big")
    ]


def list_seqs_of_leaf(path: Path, leaf: int) -> list[int]:
    """Return the seqs in a leaf: each cell has a length of two bytes, then the seq."""
    page = path.read_bytes()[(leaf - 1) * PAGE_BYTES :][:PAGE_BYTES]
    cells = [int.from_bytes(page[8 + 2 * i :][:2], "big") for i in range(int.from_bytes(page[3:5], "big"))]
    return [
        page[cell + 2] if page[cell + 2] < 128 else (page[cell + 2] & 127) << 7 | page[cell + 3]
        for cell in cells
    ]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an inbox.db with COUNT webhooks, each delivered twice."""
    path = tmp_path_factory.mktemp("original") / "inbox.db"
    inbox = Inbox(path)
    for _ in range(2):
        for future in [inbox.receive(make_body(number)) for number in range(1, COUNT + 1)]:
            future.result(30)
    inbox.record_results((seq, "done", None) for seq in range(1, COUNT - 9))
    inbox.close()
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return shutil.copy(original, tmp_path / "inbox.db")


def read_rows(path: Path) -> dict[int, tuple]:
    return {row[0]: row for row in query(path, f"SELECT {COLUMNS} FROM inbox")}


def read_losses(path: Path) -> list[tuple]:
    return query(path, "SELECT fault, first_seq, last_seq FROM losses")


def find_missing(new_path: Path, original: Path) -> list[int]:
    """Return the seqs that were not saved. The others must be unchanged, and the new file intact."""
    assert find_faults(new_path) == []
    saved, expected = read_rows(new_path), read_rows(original)
    assert saved.items() <= expected.items()
    return sorted(expected.keys() - saved.keys())


@pytest.mark.parametrize("positions", [(0,), (7,), (-1,), (3, 20)])
def test_only_the_webhooks_of_damaged_pages_are_lost(path: Path, original: Path, positions: tuple) -> None:
    leaves = find_leaves(path)
    lost = [list_seqs_of_leaf(path, leaves[position]) for position in positions]
    for position in positions:
        overwrite_page(path, leaves[position])
    new_path = salvage.build_replacement(path)
    assert find_missing(new_path, original) == [seq for seqs in lost for seq in seqs] != []
    assert read_losses(new_path) == [("was damaged", seqs[0], seqs[-1]) for seqs in lost]


def overwrite_index(path: Path) -> None:
    overwrite_page(path, find_root(path, "sqlite_autoindex_inbox_1"))


def overwrite_sequence(path: Path) -> None:
    overwrite_page(path, find_root(path, "sqlite_sequence"))


@pytest.mark.parametrize("overwrite", [overwrite_index, overwrite_sequence])
def test_no_webhook_is_lost_with_a_page_that_leads_to_none(
    path: Path, original: Path, overwrite: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    overwrite(path)
    with caplog.at_level(logging.WARNING):
        new_path = salvage.build_replacement(path)
    assert find_missing(new_path, original) == []
    assert read_losses(new_path) == []
    assert query(new_path, "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'") == [(COUNT,)]
    assert f"inbox.db: {COUNT} webhooks saved, 0 lost" in caplog.messages


def test_the_webhooks_behind_a_damaged_page_are_named(path: Path) -> None:
    overwrite_page(path, find_root(path, "inbox"))
    new_path = salvage.build_replacement(path)
    assert (read_rows(new_path), read_losses(new_path)) == ({}, [("was damaged", 1, COUNT)])
    assert query(new_path, "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'") == [(COUNT,)]


def test_a_body_with_changed_bytes_is_not_saved(path: Path, original: Path) -> None:
    content = path.read_bytes()
    place = content.index(make_body(123)) + 40
    path.write_bytes(content[:place] + b"y" + content[place + 1 :])
    new_path = salvage.build_replacement(path)
    assert find_missing(new_path, original) == [123]
    assert read_losses(new_path) == [("was damaged", 123, 123)]


def test_large_bodies_and_pages_of_the_write_ahead_log_are_saved(tmp_path: Path) -> None:
    live, path = tmp_path / "live.db", tmp_path / "inbox.db"
    bodies = [make_body(number, 20_000) for number in range(1, 31)]
    for run in range(2):
        inbox = Inbox(live)
        for future in [inbox.receive(body) for body in bodies]:
            future.result(30)
        if (
            run == 1
        ):  # The second deliveries are in the -wal only, and change each page with the start of a row.
            shutil.copy(live, path)
            shutil.copy(f"{live}-wal", f"{path}-wal")
        inbox.close()
    overwrite_page(path, find_leaves(path)[-1])
    new_path = salvage.build_replacement(path)
    assert query(new_path, "SELECT body, deliveries FROM inbox ORDER BY seq") == [
        (body, 2) for body in bodies
    ]


@pytest.mark.parametrize(
    "overwrite", [lambda path: overwrite_page(path, 1), lambda path: path.write_bytes(os.urandom(50_000))]
)
def test_a_file_that_sqlite_cannot_open_is_replaced_by_an_empty_one(
    path: Path, overwrite: Callable[[Path], object]
) -> None:
    overwrite(path)
    new_path = salvage.build_replacement(path)
    assert (read_rows(new_path), read_losses(new_path)) == ({}, [])
