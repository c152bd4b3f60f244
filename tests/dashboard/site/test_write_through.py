"""Writes of the dashboard whose result cannot be stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import Browser, TestApp, running_app
from tests.support.page_text import text
from tests.support.people import ERIN
from tests.support.scripted_server import Reply, Request, Server

CONTACT = {"id": 7001, "first_name": "Cora", "last_name": "Sample", "tel": "442079460123"}
MIRROR, APP_DB = "mirror_db", "app_db"


@pytest.fixture
def platform() -> Iterator[Server]:
    server = Server()
    server.routes["/v1.2/contacts"] = lambda request, reply: reply.json({"data": CONTACT, "links": {}}, 201)
    yield server
    server.close()


@pytest.fixture
def app(tmp_path: Path, platform: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestApp]:
    monkeypatch.setattr("integration.sqlite.writer_connection.BUSY_SECONDS", 0.1)
    with running_app(tmp_path / "data", platform__base_url=f"{platform.url}/v1.2") as app:
        yield app
        app.context.platform.close()


@pytest.fixture
def agent(app: TestApp) -> Browser:
    return app.log_in(ERIN)


def make_fail(app: TestApp, database: str, statement: str, table: str) -> None:
    """Let every `statement` (INSERT, UPDATE, DELETE) on `table` fail."""
    trigger = (
        f"CREATE TRIGGER failure BEFORE {statement} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'simulated storage failure'); END"
    )
    getattr(app, database).write(lambda tx: tx.execute(trigger))


def create_contact(agent: Browser) -> Any:
    return agent.post("/contacts", first_name="Cora", once="one form", follow=False)


@pytest.mark.parametrize(
    ("database", "statement", "table"),
    [(APP_DB, "UPDATE", "journal"), (APP_DB, "UPDATE", "idempotency"), (MIRROR, "INSERT", "contacts")],
)
def test_storage_failure_after_the_write_does_not_change_the_response(
    app: TestApp,
    agent: Browser,
    platform: Server,
    caplog: pytest.LogCaptureFixture,
    database: str,
    statement: str,
    table: str,
) -> None:
    make_fail(app, database, statement, table)
    response = create_contact(agent)
    assert (response.status_code, response.headers.get("Location")) == (303, "/contacts/7001"), text(response)
    assert "simulated storage failure" in caplog.text
    create_contact(agent)
    assert platform.count("/v1.2/contacts") == 1


def test_locked_database_after_the_write_does_not_change_the_response(
    app: TestApp, agent: Browser, platform: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(app.app_db.path, check_same_thread=False)) as other_program:

        def lock(request: Request, reply: Reply) -> None:
            other_program.execute("BEGIN IMMEDIATE")
            reply.json({"data": CONTACT, "links": {}}, 201)

        platform.routes["/v1.2/contacts"] = lock
        response = create_contact(agent)
    assert (response.status_code, response.headers.get("Location")) == (303, "/contacts/7001"), text(response)
    assert "another program holds the write lock" in caplog.text
    create_contact(agent)
    assert platform.count("/v1.2/contacts") == 1


@pytest.mark.parametrize(("statement", "table"), [("UPDATE", "journal"), ("DELETE", "idempotency")])
def test_storage_failure_after_a_refusal_does_not_change_the_response(
    app: TestApp, agent: Browser, platform: Server, statement: str, table: str
) -> None:
    refusal = {"message": "Contact limit reached", "errors": []}
    platform.routes["/v1.2/contacts"] = lambda request, reply: reply.json(refusal, 412)
    make_fail(app, APP_DB, statement, table)
    response = create_contact(agent)
    assert response.status_code == 412
    assert "Contact limit reached" in text(response)


def test_storage_failure_without_a_response_of_the_platform_does_not_repeat_the_write(
    app: TestApp, agent: Browser, platform: Server
) -> None:
    platform.routes["/v1.2/contacts"] = lambda request, reply: reply.raw(b"", close=True)
    make_fail(app, APP_DB, "UPDATE", "journal")
    response = create_contact(agent)
    assert response.status_code == 502
    assert "Check whether the action was done before you repeat it." in text(response)
    create_contact(agent)
    assert platform.count("/v1.2/contacts") == 1
