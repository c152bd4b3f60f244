"""Deletions by id and of entire collections, and pending deletions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from integration.core import clock
from integration.core.commands import Progress
from integration.mirror.sync_state import pending_deletions
from integration.privacy import holds
from integration.sync.writing.deletion_poller import poll_due
from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import FakeExchange
from tests.support.people import CALLER
from tests.support.records import find_record


def make_deletions_due(app: TestApp) -> None:
    """Make every pending deletion due for its next check."""
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _accepted SET due_at = 0"))


def test_records_deleted_by_id_are_hidden_and_kept_in_the_table(app: TestApp, writer: dict[str, str]) -> None:
    app.put("monitors", *[{"id": n, "timestamp": "2026-09-02 08:45:55"} for n in (1, 2, 3)])
    app.platform.routes["/monitors/1,2"] = lambda request, reply: reply.content(b"", "text/plain", 204)
    response = app.client.delete(f"{app.base}/monitors/1,2", headers=writer)
    assert (response.status_code, response.data) == (204, b"")
    assert [record["id"] for record in app.get("/monitors").json["data"]] == [3]
    with app.mirror_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM monitors").fetchone()[0] == 3


def test_deleted_contact_no_longer_names_its_calls(app: TestApp, writer: dict[str, str]) -> None:
    app.put("contacts", {"id": 5, "first_name": "Zoe", "last_name": "Caller", "mobile": f"+{CALLER}"})
    app.event("call.ringing", 101, "2026-09-02 08:45:55")

    def read_name() -> str:
        with app.mirror_db.read() as connection:
            return str(connection.execute("SELECT party_name FROM _calls").fetchone()[0])

    assert read_name() == "Zoe Caller"
    app.platform.routes["/contacts/5"] = lambda request, reply: reply.content(b"", "text/plain", 204)
    assert app.client.delete(f"{app.base}/contacts/5", headers=writer).status_code == 204
    assert read_name() == ""


def test_destructive_deletions_are_rejected_by_default(app: TestApp, writer: dict[str, str]) -> None:
    for path in (
        *("/sms", "/chatmsgs", "/cdrs", "/monitors", "/statements", "/voicemessages", "/customers/1"),
        *("/faxes", "/sms/cannedresponses"),
    ):
        response = app.client.delete(app.base + path, headers=writer)
        assert response.status_code in (403, 405), path
        assert "destructive" in response.json["message"] or response.status_code == 405
    assert app.platform.requests == []


def test_pending_deletion_is_polled_until_it_is_done(app: TestApp, writer: dict[str, str]) -> None:
    app.put("monitors", *[{"id": n, "timestamp": "2026-09-02 08:45:55"} for n in (1, 2, 3)])
    left = [{"id": 1}, {"id": 2}]

    def accepts(request: Any, reply: Any) -> None:
        reply.json({"message": "Accepted"}, 202)

    def listed(request: Any, reply: Any) -> None:
        if request.method == "DELETE":
            accepts(request, reply)
        else:
            reply.json({"data": left, "total": len(left)})

    def shown() -> list[int]:
        return [record["id"] for record in app.get("/monitors").json["data"]]

    app.platform.routes["/monitors/1,2"] = accepts
    app.platform.routes["/monitors"] = listed
    assert app.client.delete(f"{app.base}/monitors/1,2", headers=writer).status_code == 202
    assert shown() == [1, 2, 3]
    make_deletions_due(app)
    left.pop()
    poll_due(app.context)
    assert shown() == [1, 3]
    make_deletions_due(app)
    left.clear()
    poll_due(app.context)
    assert shown() == [3]
    with app.mirror_db.read() as connection:
        assert pending_deletions.due(connection, clock.unix() + 1e9) == []


def test_pending_deletion_is_polled_after_a_list_with_a_record_without_id(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.put("monitors", {"id": 1})
    app.platform.respond("/monitors/1", {"message": "Accepted"}, 202)
    app.platform.respond("/monitors", {"data": [{"destination": "Reception"}], "total": 1})
    assert app.client.delete(f"{app.base}/monitors/1", headers=writer).status_code == 202
    make_deletions_due(app)
    poll_due(app.context)
    assert [record["id"] for record in app.get("/monitors").json["data"]] == [1]
    make_deletions_due(app)
    app.platform.respond("/monitors", {"data": [], "total": 0})
    poll_due(app.context)
    assert app.get("/monitors").json["data"] == []


def test_deletion_does_not_wait_for_the_back_off_of_background_requests(
    own_app: TestApp, own_writer: dict[str, str]
) -> None:
    own_app.put("monitors", {"id": 1})
    own_app.platform.respond("/monitors/1", {"message": "Accepted"}, 202)
    own_app.platform.respond("/monitors", {"data": [], "total": 0})
    own_app.context.platform.budget.record_failure(3600)
    deleting = ThreadPoolExecutor(1).submit(
        own_app.client.delete, f"{own_app.base}/monitors/1", headers=own_writer
    )
    try:
        assert deleting.result(30).status_code == 202
    finally:
        own_app.context.platform.close()
    assert find_record(own_app.mirror_db, "monitors", 1) is None


def test_destructive_deletions_can_be_allowed(tmp_path: Path, platform: FakeExchange) -> None:
    with running_app(tmp_path, platform=platform, facade__destructive="true") as app:
        app.put("cdrs", {"id": 1})
        platform.routes["/cdrs"] = lambda request, reply: reply.content(b"", "text/plain", 204)
        assert app.client.delete(f"{app.base}/cdrs", headers=app.add_key("w", "write")).status_code == 204
        assert app.get("/cdrs").json == {"data": [], "total": 0}


@pytest.mark.parametrize("status", [204, 202])
def test_rows_of_deleted_records_are_deleted_except_under_legal_hold(
    tmp_path: Path, platform: FakeExchange, status: int
) -> None:
    with running_app(tmp_path, platform=platform, sync__on_platform_delete="delete") as app:
        hold = {"kind": "number", "what": f"+{CALLER}", "reason": "claim 17"}
        holds.set_hold(app.context, hold, Progress(lambda _: None, lambda: True))
        app.put("monitors", {"id": 1, "src": CALLER}, {"id": 2, "src": "447700900456"}, {"id": 3})
        platform.routes["/monitors/1,2"] = lambda request, reply: reply.content(b"", "text/plain", status)
        platform.respond("/monitors", {"data": [], "total": 0})
        response = app.client.delete(f"{app.base}/monitors/1,2", headers=app.add_key("w", "write"))
        assert response.status_code == status
        assert [record["id"] for record in app.get("/monitors").json["data"]] == [3]
        with app.mirror_db.read() as connection:
            assert [row[0] for row in connection.execute("SELECT id FROM monitors ORDER BY id")] == [1, 3]
