"""Other programs beside `serve`: they may open and close the databases at any time (promise P30)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.maintenance import database_checks, rotation
from integration.maintenance.manifest import DATABASES
from integration.privacy import retention
from tests.server.test_damaged_databases import query, send_legs, wait_until_applied
from tests.support.database_locks import find_missing_locks
from tests.support.harness import Product, Simulator, wait_for
from tests.trials.tools import seeded_bug
from tests.trials.tools.traffic import Access, create_access

NUMBER = "+447700900001"
COPY = "before-restore-20200101-000000"
JOBS = (rotation.HEALTH_NAME, retention.JOB_NAME, database_checks.JOB_NAME)
OUTSIDER = """
import sqlite3, sys
for path in sys.argv[1:]:
    connection = sqlite3.connect(path, timeout=30)
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    connection.close()
"""
"""Opens and closes databases for writing, as `sqlite3 FILE .tables` does."""


class Installation:
    """Product with calls of NUMBER, hard links of its databases, and simulator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data_dir = folder, folder / "data"
        self.access: Access = create_access(self.data_dir)
        self.simulator = Simulator("--seed", "7", "--cdrs", "40", "--no-traffic")
        platform = {"user_id": self.simulator.user_id, "api_key": self.simulator.api_key}
        settings = {"dashboard__country": "GB", "backup__every_hours": "1", "retention__cdrs_days": "3650"}
        self.product = Product(self.data_dir, base_url=self.simulator.url, **platform, **settings)
        send_legs(self.product, 1, 3)
        self.product.stop()
        # The age of this file makes the scheduled backup due.
        os.utime(self.data_dir / "account.json", (1_600_000_000, 1_600_000_000))
        self.product = Product(
            self.data_dir,
            base_url=self.simulator.url,
            program=seeded_bug.make_program(["start_all_jobs"]),
            **platform,
            **settings,
        )
        wait_until_applied(self.data_dir, 6)

    def link_databases(self) -> None:
        """Copy data_dir by hard links, as `cp -al` does: into a folder of old data, and into a backup."""
        for folder in (self.data_dir / COPY, self.data_dir / "copy"):
            folder.mkdir(exist_ok=True)
            for name in DATABASES:
                for suffix in ("", "-wal"):
                    if not (folder / (name + suffix)).exists():
                        os.link(self.data_dir / (name + suffix), folder / (name + suffix))

    def find_jobs_without_result(self) -> list[str]:
        checks = self.product.client.json("GET", "/readyz")["checks"]
        return [name for name in JOBS if checks.get(name, {}).get("last_ok_at") is None]

    def get(self, path: str, headers: dict[str, str] | None = None) -> bytes:
        status, body, _ = self.product.client.send("GET", path, headers=headers or self.access.dashboard)
        assert status == 200, (path, status, body[:300])
        return body

    def search_number(self) -> None:
        """Search the number on the page, which also searches copies and backups."""
        page = self.get("/privacy").decode()
        token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
        form = f"csrf_token={token}&number=%2B447700900001".encode()
        headers = {**self.access.dashboard, "Content-Type": "application/x-www-form-urlencoded"}
        assert self.product.client.send("POST", "/privacy/find", form, headers)[0] == 303
        wait_for(lambda: COPY.encode() in self.get("/privacy"), "the report of the number")

    def close(self) -> None:
        self.product.stop()
        self.simulator.stop()


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    made = Installation(tmp_path_factory.mktemp("locks"))
    yield made
    made.close()


def run(*arguments: str, status: int | None = 0) -> Callable[[Installation], None]:
    """Return a function that runs a command; in an argument, FOLDER is a new folder."""

    def work(installation: Installation) -> None:
        folder = str(installation.folder / "out")
        done = installation.product.command(*(text.replace("FOLDER", folder) for text in arguments))
        assert status in (None, done.returncode), done.stdout + done.stderr

    return work


def await_jobs(installation: Installation) -> None:
    wait_for(lambda: not installation.find_jobs_without_result(), "a run of each job", 120)
    assert list((installation.data_dir / "backups").glob("switchroom-*"))


ACTIONS: dict[str, Callable[[Installation], None]] = {
    "jobs": await_jobs,
    "hold": run("hold", "+447700900999", "--reason", "dispute"),
    "erase preview": run("erase", NUMBER),
    "page of a number": Installation.search_number,
    "erase": run("erase", NUMBER, "--yes", status=1),
    "backup": run("backup", "FOLDER"),
    "verify": run("verify", status=None),
    "verify --repair": run("verify", "--repair", status=None),
    "verify --coverage": run("verify", "--coverage", "users"),
    "export": run("export", "calls", "--out", "FOLDER.csv"),
    "export page": lambda installation: installation.get("/exports/calls.csv") and None,
    "sync": run("sync", "--full", "users"),
    "replay": run("replay"),
    "key": run("key", "add", "reader", "--scope", "read"),
    "doctor": run("doctor", status=None),
    "restore refused": run("restore", "FOLDER", "--replace", status=1),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_the_worker_keeps_its_locks(installation: Installation, name: str) -> None:
    installation.link_databases()
    worker = installation.product.worker
    ACTIONS[name](installation)
    assert find_missing_locks(worker, installation.data_dir) == []
    checks = installation.product.client.json("GET", "/readyz")["checks"]
    assert {checks[database]["state"] for database in DATABASES} == {"ok"}
    assert installation.product.worker == worker


def test_no_webhook_is_lost_beside_an_erasure_and_another_program(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    product = Product(data_dir, dashboard__country="GB")
    try:
        send_legs(product, 1, 3)
        wait_until_applied(data_dir, 6)
        assert product.command("erase", NUMBER, "--yes").returncode == 0
        subprocess.run([sys.executable, "-c", OUTSIDER, *(data_dir / name for name in DATABASES)], check=True)
        send_legs(product, 100, 30)
        key = product.command("key", "add", "reader", "--scope", "read")
        assert key.returncode == 0
    finally:
        product.kill()
    product.start()
    try:
        wait_until_applied(data_dir, 66)
        assert query(data_dir / "inbox.db", "SELECT count(DISTINCT event_id) FROM inbox") == [(66,)]
        assert query(data_dir / "house.db", "SELECT name FROM keys") == [("reader",)]
    finally:
        product.stop()
