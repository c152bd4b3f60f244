"""An application that the tests of a module share.

Building an application takes 0.1 s of CPU time, most of it for the routes. `SharedApp.clear` takes 5 ms.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.support.application import BASE_PATH, DEFAULTS, TestApp
from tests.support.clock import Clock
from tests.support.fake_exchange import NOT_FOUND, FakeExchange, add_account
from tests.support.scripted_server import Server

DOWNLOAD_THREADS = ("fetch ", "pass-through download")
"""Beginnings of the names of threads that may write after the response."""
DOWNLOAD_SECONDS = 30
"""Seconds that `clear` waits for each download."""


class SharedApp(TestApp):
    """Application with `clear`, which removes what a test stored.

    `clear` keeps the state of the services in memory, such as verified platform credentials and health. Tests
    that depend on it, change the schema or stop a service need an application of their own.
    """

    def __init__(self, data_dir: Path, platform: FakeExchange | Server, **settings: str) -> None:
        # Failures of an earlier test slow the scheduler down to a 64th of its rate.
        values = {**DEFAULTS, "sync__max_requests_per_minute": "60000", "storage__data_dir": str(data_dir),
                  **settings}  # fmt: skip
        if isinstance(platform, Server):
            values["platform__base_url"] = platform.url + platform.base
        super().__init__(values, platform, Clock())
        self.data_dir = data_dir
        self._databases = (self.mirror_db, self.app_db, self.context.inbox.database)
        self._initial_files = set(data_dir.iterdir())
        self._tables = {database.name: list_empty_tables(database) for database in self._databases}

    def clear(self) -> None:
        """Remove rows, files, keys, sessions and responses of the platform.

        Waits for downloads and restores the clock.
        """
        for thread in threading.enumerate():
            if thread.name.startswith(DOWNLOAD_THREADS):
                thread.join(DOWNLOAD_SECONDS)
        self.clock.restore()
        self.platform.routes.clear()
        self.platform.requests.clear()
        add_account(self.platform)
        self.platform.respond("*", NOT_FOUND, 404)
        for database in self._databases:
            clear_tables(database, self._tables[database.name])
        for path in set(self.data_dir.iterdir()) - self._initial_files:
            if path.is_dir():
                shutil.rmtree(path)
            elif not path.name.startswith(tuple(self._tables)):
                path.unlink()
        self.client = self.product.site.test_client()
        self.__dict__.pop("headers", None)


def list_empty_tables(database: Database) -> list[str]:
    """Tables without rows, without the shadow tables of full-text indexes."""
    with database.read() as connection:
        tables = connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
            " AND name NOT LIKE 'sqlite_%'"
        )
        names = [str(row["name"]) for row in tables]
        return [
            name for name in names if not connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()
        ]


def has_rows(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is not None


def clear_tables(database: Database, tables: list[str]) -> None:
    """Delete all rows of `tables`, and drop cached positions of the mirror."""
    with database.read() as connection:
        filled = [name for name in tables if has_rows(connection, name)]

    def work(tx: Transaction) -> None:
        tx.execute("PRAGMA defer_foreign_keys = ON")
        for name in filled:
            tx.execute(f'DELETE FROM "{name}"')
        if database.name == "mirror.db":
            # `Records.insert` does not count its rows.
            tx.execute("UPDATE _orders SET number = number + 1")

    database.write(work)


@contextmanager
def running_shared_app(
    data_dir: Path, platform: FakeExchange | Server | None = None, **settings: str
) -> Iterator[SharedApp]:
    """A shared application that is closed at the end of the block."""
    app = SharedApp(data_dir, platform or FakeExchange(), **settings)
    try:
        yield app
    finally:
        app.clock.restore()
        app.close()


@contextmanager
def running_wired_app(data_dir: Path) -> Iterator[SharedApp]:
    """A shared application in front of a platform behind a real connection."""
    server = Server(base=BASE_PATH)
    try:
        with running_shared_app(data_dir, server) as app:
            yield app
    finally:
        server.close()


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    """Application of a module, in front of a FakeExchange."""
    with running_shared_app(tmp_path_factory.mktemp("shared")) as app:
        yield app


@pytest.fixture
def shared_app(module_app: SharedApp) -> SharedApp:
    """The application of the module, empty."""
    module_app.clear()
    return module_app
