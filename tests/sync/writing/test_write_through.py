"""The write-through service: one request per idempotency key, and what repeats get."""

from __future__ import annotations

from typing import Any

import pytest

from integration.sync.writing import write_through
from integration.sync.writing.write_through import WriteRequest, WriteResult
from tests.support.application import TestApp
from tests.support.records import find_record, list_writes
from tests.support.scripted_server import Server

CONTACT = {"id": 7001, "first_name": "Grace", "pin": "4711"}


def send(app: TestApp, path: str = "/contacts", method: str = "POST", **options: Any) -> WriteResult:
    """Send a write under the idempotency key `one`."""
    options = {"body": b'{"first_name":"Grace"}', "idempotency_key": "one", **options}
    return write_through.send(app.context, WriteRequest("ann", "::1", method, path, **options))


def respond(app: TestApp, path: str, value: Any, status: int = 200) -> None:
    app.platform.respond(path, value, status)


@pytest.fixture
def platform(wired_platform: Server) -> Server:
    return wired_platform


def test_repeat_returns_the_record_and_stores_no_secret(app: TestApp) -> None:
    respond(app, "/contacts", {"data": CONTACT, "links": {}}, 201)
    first, repeat = send(app), send(app)
    assert first.record is not None
    assert first.record.values == CONTACT
    assert repeat.record is not None
    assert (repeat.status, repeat.body, repeat.record.values["id"]) == (201, first.body, 7001)
    assert b"4711" not in repeat.body
    assert find_record(app.mirror_db, "contacts", 7001) == CONTACT
    assert app.platform.count("/contacts") == 1


def test_repeat_without_a_first_response_returns_the_same_problem(app: TestApp) -> None:
    app.platform.routes["/contacts"] = lambda request, reply: reply.raw(b"", close=True)
    first, repeat = send(app), send(app)
    assert first.status is None
    assert "The phone system did not respond (" in first.message
    assert (repeat.message, repeat.problem) == (first.message, first.problem)
    assert app.platform.count("/contacts") == 1


def test_repeat_before_the_first_response_states_that_it_is_missing(app: TestApp) -> None:
    def respond_late(_request: Any, reply: Any) -> None:
        repeats.append(send(app))
        reply.json({"data": CONTACT, "links": {}}, 201)

    repeats: list[WriteResult] = []
    app.platform.routes["/contacts"] = respond_late
    assert send(app).status == 201
    assert "the phone system has not responded yet" in repeats[0].message


def test_failure_without_a_reason_names_its_status(app: TestApp) -> None:
    app.platform.routes["/contacts"] = lambda request, reply: reply.content(b"<html>", "text/html", 500)
    assert send(app).message == "The phone system failed with status 500. Try again in a minute."


class TestTimeout:
    @pytest.fixture
    def settings(self, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr(write_through, "WRITE_TIMEOUT_SECONDS", 0.2)
        settings["platform__timeout"] = "0.2"
        return settings

    def test_repeat_of_a_timeout_is_a_timeout(self, app: TestApp) -> None:
        app.platform.routes["/contacts"] = lambda request, reply: app.platform.stopping.wait(5)
        assert [send(app).has_timed_out for _ in range(2)] == [True, True]


@pytest.mark.parametrize(("may_repeat_refused", "requests"), [(True, 2), (False, 1)])
def test_refused_write_can_be_repeated_only_if_the_request_allows_it(
    app: TestApp, may_repeat_refused: bool, requests: int
) -> None:
    refusal = {"message": "Wrong", "errors": [{"code": "SF0010", "field": "tel", "message": "too long"}]}
    respond(app, "/contacts", refusal, 400)
    results = [send(app, may_repeat_refused=may_repeat_refused) for _ in range(2)]
    assert [result.status for result in results] == [400, 400]
    assert [result.message for result in results] == ["Phone system: Wrong: tel: too long."] * 2
    assert [result.fields for result in results] == [{"tel": "too long"}] * 2
    assert app.platform.count("/contacts") == requests


def test_write_that_cannot_be_logged_is_not_sent_and_keeps_no_key(app: TestApp) -> None:
    refuse = "CREATE TRIGGER refuse BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'refused'); END"
    app.app_db.write(lambda tx: tx.execute(refuse))
    respond(app, "/contacts", {"data": CONTACT, "links": {}}, 201)
    with pytest.raises(Exception, match="refused"):
        send(app, may_repeat_refused=True)
    app.app_db.write(lambda tx: tx.execute("DROP TRIGGER refuse"))
    assert send(app, may_repeat_refused=True).status == 201
    assert (app.platform.count("/contacts"), len(list_writes(app.app_db))) == (1, 1)
