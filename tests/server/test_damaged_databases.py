"""Damaged pages of databases, with real processes and files: webhooks are stored and applied exactly once."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
import requests

from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.application import TestApp, running_app
from tests.support.harness import Client, Product, wait_for
from tests.support.people import ALICE
from tests.support.platform_collection import PlatformCollection

PAGE_BYTES = 4096
STATES = (("call.ringing", "RINGING"), ("call.hangup", "HANGUP"))


def make_body(leg: int, step: int) -> bytes:
    """Return a webhook with the fields of the platform's samples."""
    name, state = STATES[step]
    return json.dumps(
        {
            "id": f"{leg}-{step}",
            "event_time": f"2026-09-02 08:45:5{step}",
            "event_name": name,
            "call_id": 4278000000 + leg,
            "state": state,
            "connected_at": None,
            "start_time": "2026-09-02 08:45:50",
            "context": "LOCAL_USER",
            "destination": "in",
            "src": f"4477009{leg:05d}",
            "src_id": "0",
            "dst": "442079460002",
            "dst_id": "10002",
        }
    ).encode()


def query(path: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(sql).fetchall()


def damage_middle_page(path: Path, table: str) -> None:
    """Overwrite the leaf page in the middle of a table with random bytes."""
    with open(path, "r+b") as file:
        file.seek((find_middle_leaf(path, table) - 1) * PAGE_BYTES)
        file.write(b"\xee" + os.urandom(PAGE_BYTES - 1))


def find_middle_leaf(path: Path, table: str) -> int:
    """Return the number of the leaf page in the middle of a table.

    The page with the root of the table lists its leaves: SQLite file format, section 1.6.
    """
    ((root,),) = query(path, f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
    with open(path, "rb") as file:
        file.seek((root - 1) * PAGE_BYTES)
        page = file.read(PAGE_BYTES)
        assert page[0] in (2, 5), "the table has one page only"
        cell_count = int.from_bytes(page[3:5], "big")
        cell = int.from_bytes(page[12 + 2 * (cell_count // 2) :][:2], "big")
        return int.from_bytes(page[cell : cell + 4], "big")


def damage_root_page(path: Path, table: str) -> None:
    ((root,),) = query(path, f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
    with open(path, "r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xee" + os.urandom(PAGE_BYTES - 1))


def find_put_aside(data_dir: Path, name: str) -> list[str]:
    return sorted(
        path.name
        for path in data_dir.iterdir()
        if re.fullmatch(re.escape(name) + r"\.damaged-\d{8}-\d{6}", path.name)
    )


def deliver(client: Client, path: str, body: bytes) -> int:
    """Send a webhook. Returns the status.

    It is sent again after a connection that ends without a response, as a worker that ends may cause.
    """
    return wait_for(lambda: client.send("POST", path, body)[0], "a response")


class Sender:
    """Sends webhooks one after the other, each once, and counts the statuses."""

    def __init__(self, url: str, path: str, first_leg: int) -> None:
        self.statuses = Counter[int]()
        self.legs = 0
        self._client, self._path, self._first = Client(url), path, first_leg
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for step in range(2):
                body, status = make_body(self._first + self.legs, step), 0
                while status != 200:
                    status = deliver(self._client, self._path, body)
                    self.statuses[status] += 1
            self.legs += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)


@contextmanager
def sending(product: Product, first_leg: int) -> Iterator[Sender]:
    sender = Sender(product.url, product.webhook_path, first_leg)
    try:
        yield sender
    finally:
        sender.stop()


def send_legs(product: Product, first_leg: int, count: int) -> None:
    for leg in range(first_leg, first_leg + count):
        for step in range(2):
            assert product.client.send("POST", product.webhook_path, make_body(leg, step))[0] == 200


def wait_until_applied(data_dir: Path, count: int) -> None:
    def is_applied() -> bool:
        try:
            return query(data_dir / "mirror.db", "SELECT count(*) FROM _applied") == [(count,)]
        except sqlite3.Error:
            return False

    wait_for(is_applied, f"{count} webhooks applied")


def assert_each_applied_once(data_dir: Path, legs: int) -> None:
    """Each leg has two events and one call, and each webhook the status `done`."""
    wait_until_applied(data_dir, 2 * legs)
    assert query(data_dir / "inbox.db", "SELECT count(*), count(DISTINCT event_id) FROM inbox") == [
        (2 * legs, 2 * legs)
    ]
    wait_for(
        lambda: query(data_dir / "inbox.db", "SELECT DISTINCT status FROM inbox") == [("done",)], "statuses"
    )
    mirror = data_dir / "mirror.db"
    assert query(mirror, "SELECT count(*), count(DISTINCT event_id) FROM _leg_events") == [
        (2 * legs, 2 * legs)
    ]
    assert query(mirror, "SELECT count(*), count(DISTINCT leg_id) FROM _legs") == [(legs, legs)]
    assert query(mirror, "PRAGMA integrity_check") == [("ok",)]


def read_facts(product: Product) -> dict:
    return product.client.json("GET", "/readyz")["facts"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directory of a stopped product with 250 legs, to be copied."""
    data_dir = tmp_path_factory.mktemp("filled")
    with running_app(data_dir) as app:
        stored = [app.context.inbox.receive(make_body(leg, step)) for leg in range(250) for step in range(2)]
        for webhook in stored:
            webhook.result(30)
        app.apply_webhooks()
    wait_until_applied(data_dir, 500)
    return data_dir


@pytest.fixture
def data_dir(tmp_path: Path, filled: Path) -> Path:
    """Copy of `filled`.

    Storing its 500 webhooks for each test would take half a second.
    """
    return shutil.copytree(filled, tmp_path / "data")


@pytest.mark.exhaustive
def test_a_page_damaged_in_operation_costs_no_webhook(data_dir: Path) -> None:
    # With another country than `filled` a start would read all facts, and SQLite would answer from its cache.
    product = Product(data_dir, dashboard__country="GB")
    try:
        with sending(product, 1000) as sender:
            wait_for(lambda: sender.legs > 5, "webhooks before the damage")
            worker = product.worker
            damage_middle_page(data_dir / "mirror.db", "_leg_events")
            # Later events of all legs: the facts of some are on the damaged page.
            for leg in range(250):
                body = json.loads(make_body(leg, 1)) | {"id": f"{leg}-late", "event_name": "call.missed"}
                assert deliver(product.client, product.webhook_path, json.dumps(body).encode()) == 200
            wait_for(lambda: find_put_aside(data_dir, "mirror.db"), "the damaged file put aside")
            legs_then = sender.legs
            wait_for(lambda: sender.legs > legs_then + 20, "webhooks after the damage")
        assert set(sender.statuses) == {200}
        count = 750 + 2 * sender.legs
        wait_until_applied(data_dir, count)
        mirror = data_dir / "mirror.db"
        assert query(mirror, "SELECT count(*), count(DISTINCT event_id) FROM _leg_events") == [(count, count)]
        assert query(mirror, "SELECT count(*) FROM _legs") == [(250 + sender.legs,)]
        assert query(mirror, "PRAGMA integrity_check") == [("ok",)]
        (name,) = find_put_aside(data_dir, "mirror.db")
        assert read_facts(product)["damaged databases"] == [name]
        assert product.worker != worker
        wait_for(lambda: any("The worker is back" in line for line in product.lines), "a new worker")
        assert sum("The worker is back" in line for line in product.lines) == 1
        assert any("mirror.db was damaged" in line and name in line for line in product.lines)
        found = product.command("doctor").stdout
        assert re.search(rf"^warn +mirror\.db: .*{name}", found, re.M), found
    finally:
        product.stop()


@pytest.mark.parametrize(
    "damage_page", [damage_middle_page, pytest.param(damage_root_page, marks=pytest.mark.exhaustive)]
)
def test_a_page_damaged_while_stopped_is_found_and_the_mirror_is_rebuilt(
    data_dir: Path, damage_page: Callable[[Path, str], None]
) -> None:
    damage_page(data_dir / "mirror.db", "_applied")
    product = Product(data_dir)
    try:
        with sending(product, 1000) as sender:
            wait_for(lambda: find_put_aside(data_dir, "mirror.db"), "the damaged file put aside")
            wait_for(lambda: sender.legs > 20, "webhooks")
        assert set(sender.statuses) == {200}
        assert_each_applied_once(data_dir, 250 + sender.legs)
        assert len(find_put_aside(data_dir, "mirror.db")) == 1
    finally:
        product.stop()


def overwrite_header(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(b"no database\n" * 10)


def count_rows_of_middle_leaf(path: Path) -> int:
    with open(path, "rb") as file:
        file.seek((find_middle_leaf(path, "inbox") - 1) * PAGE_BYTES)
        return int.from_bytes(file.read(PAGE_BYTES)[3:5], "big")


@pytest.mark.exhaustive
def test_webhooks_around_a_damaged_page_of_the_inbox_are_saved(data_dir: Path) -> None:
    lost_count = count_rows_of_middle_leaf(data_dir / "inbox.db")
    damage_middle_page(data_dir / "inbox.db", "inbox")
    product = Product(data_dir)  # Its check of all pages finds the damage.
    try:
        with sending(product, 1000) as sender:
            wait_for(lambda: find_put_aside(data_dir, "inbox.db"), "the damaged file put aside")
            legs_then = sender.legs
            wait_for(lambda: sender.legs > legs_then + 20, "webhooks after the damage")
        # A start that repairs inbox.db takes longer than requests wait, if the computer is busy.
        assert set(sender.statuses) <= {200, 503}
        wait_until_applied(data_dir, 500 + 2 * sender.legs)
        inbox = data_dir / "inbox.db"
        assert query(inbox, "SELECT count(*), count(DISTINCT event_id) FROM inbox") == [
            (500 + 2 * sender.legs - lost_count,) * 2
        ]
        assert query(inbox, "PRAGMA integrity_check") == [("ok",)]
        assert query(data_dir / "mirror.db", "SELECT count(*) FROM _legs") == [(250 + sender.legs,)]
        ((first, last),) = query(inbox, "SELECT first_seq, last_seq FROM losses")
        assert last - first + 1 == lost_count > 5
        (name,) = find_put_aside(data_dir, "inbox.db")
        facts = read_facts(product)
        assert facts["damaged databases"] == [name]
        assert f"so webhooks {first} to {last} are no longer stored" in facts["lost webhooks"]
        assert any("inbox.db was damaged" in line and name in line for line in product.lines)
        assert any(f"so webhooks {first} to {last} are" in line for line in product.lines)
        # None if the start found the damage before its worker was ready.
        assert sum("The worker is back" in line for line in product.lines) <= 1
        found = product.command("doctor").stdout
        assert re.search(rf"^warn +inbox\.db: .*{name}", found, re.M), found
        assert re.search(rf"^warn +inbox\.db: .*webhooks {first} to {last} are no longer", found, re.M), found
        (data_dir / name).unlink()
        assert "damaged databases" not in read_facts(product)
    finally:
        product.stop()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("spoil", "lost"),
    [(overwrite_header, "webhooks 1 to 500 are"), (partial(damage_root_page, table="sqlite_sequence"), "")],
)
def test_an_inbox_that_cannot_be_opened_is_replaced_at_the_start(
    data_dir: Path, spoil: Callable[[Path], None], lost: str
) -> None:
    spoil(data_dir / "inbox.db")
    product = Product(data_dir)
    try:
        assert len(find_put_aside(data_dir, "inbox.db")) == 1
        send_legs(product, 250, 5)
        wait_until_applied(data_dir, 510)
        inbox, mirror = data_dir / "inbox.db", data_dir / "mirror.db"
        assert query(inbox, "SELECT count(*), max(seq) FROM inbox") == [(10 if lost else 510, 510)]
        assert query(mirror, "SELECT count(*) FROM _legs") == [(255,)]
        sentence = read_facts(product).get("lost webhooks", "")
        assert lost in sentence
        assert bool(lost) == bool(sentence)
    finally:
        product.stop()


def test_beside_a_damaged_application_database_webhooks_and_syncs_continue_and_pages_name_the_repair(
    app: TestApp, tmp_path: Path
) -> None:
    path, browser = tmp_path / "house.db", app.log_in(ALICE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage_root_page(path, "views")
    assert browser.get("/live").status_code == 200
    app.app_db.damage_watch.check(lambda: False)
    for page in (browser.get("/live"), requests.get(f"{app.url}/login", timeout=30)):
        assert page.status_code == 503
        assert "out of data_dir, copy house.db from the newest backup" in page.text
        assert str(tmp_path) not in page.text
    assert app.client.get("/readyz").json["status"] == "degraded"
    app.context.inbox.receive(make_body(1, 1)).result(30)
    app.apply_webhooks()
    PlatformCollection(app.platform, "users", {"id": 10002, "ext": "1002"})
    run_full_sync(app.context, PLAN["users"])
    assert query(tmp_path / "mirror.db", "SELECT count(*) FROM _legs") == [(1,)]
    assert query(tmp_path / "mirror.db", "SELECT id FROM users") == [(10002,)]
