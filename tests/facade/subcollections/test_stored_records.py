"""Paths below a record whose records are stored with it: notes, chat messages, announcements."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.facade.subcollections.records import CDRS, USER, list_ids
from tests.support.application import TestApp

NOTES = [
    {"id": 42, "cdr_id": 11, "text": "Call back <b>tomorrow</b>", "created_at": "2026-11-20 09:05:00"},
    {"id": 41, "cdr_id": 11, "text": "Angry", "created_at": "2026-11-20 09:01:00"},
]
MESSAGES = [
    {"id": 51, "chat_id": 3, "user_id": USER, "from": "visitor", "message": "Hello"},
    {"id": 52, "chat_id": 3, "user_id": USER, "from": "operator", "message": "How can we help?"},
    {"id": 53, "chat_id": 4, "user_id": USER, "from": "visitor", "message": "Price list"},
]


def read_through(app: TestApp, path: str, records: list[dict[str, Any]]) -> None:
    """Have the mirror read the records below a record once."""
    app.platform.respond(path, {"data": records, "total": len(records)})
    assert app.get(path).json == {"data": records, "total": len(records)}
    app.platform.fail()
    app.platform.requests.clear()


def test_notes_of_a_cdr_are_stored_and_queried(account: TestApp) -> None:
    path = "/cdrs/11/notes"
    assert account.get(path).status_code == 502
    read_through(account, path, NOTES)
    account.clock.advance(90)
    response = account.get(path)
    assert response.json == {"data": [NOTES[1], NOTES[0]], "total": 2}
    assert response.headers["X-Mirror-Complete"] == "true"
    assert 90 <= int(response.headers["X-Mirror-Age"]) < 120
    contains = quote('[{"property":"text","operator":"like","value":"tomorrow"}]')
    assert list_ids(account.get(f"{path}?filter={contains}")) == [42]
    assert list_ids(account.get(f"{path}?sort=text&dir=DESC")) == [42, 41]
    unknown = quote('[{"property":"no_such","operator":"eq","value":1}]')
    assert account.get(f"{path}?filter={unknown}").status_code == 400
    assert account.platform.requests == []


def test_the_announcements_of_a_user_keep_the_form_of_the_platform(account: TestApp) -> None:
    path = f"/users/{USER}/audio"
    form = {"data": {"user_id": USER, "language": "en"}, "links": {}}
    account.platform.respond(path, form)
    assert account.get(path).json == form
    account.platform.fail()
    assert account.get(path).json == form


def test_notes_are_read_again_when_the_cdr_counts_others(account: TestApp) -> None:
    path = "/cdrs/11/notes"
    read_through(account, path, NOTES)
    account.put("cdrs", {**CDRS[0], "nb_notes": 3}, *CDRS[1:])
    kept = account.get(path)
    assert (kept.json["total"], kept.headers["X-Mirror-Complete"]) == (2, "false")
    new = {"id": 43, "cdr_id": 11, "text": "Called back"}
    account.platform.respond(path, {"data": [*NOTES, new], "total": 3})
    assert account.get(path).json["total"] == 3


def test_a_cdr_without_notes_has_none_while_the_platform_is_unreachable(account: TestApp) -> None:
    assert account.get("/cdrs/12/notes").json == {"data": [], "total": 0}


def test_a_page_of_the_platform_is_not_stored_as_all_records(account: TestApp) -> None:
    path = f"/users/{USER}/chatmsgs"
    account.platform.respond(path, {"data": MESSAGES[:1], "total": 3})
    assert account.get(path).json["total"] == 3
    account.platform.respond(path, {"data": MESSAGES, "total": 3})
    assert account.get(f"{path}?limit=1").status_code == 200
    account.platform.fail()
    assert account.get(path).status_code == 502


def test_a_write_below_a_record_is_followed_by_a_read(account: TestApp) -> None:
    path = f"/users/{USER}/audio"
    account.platform.respond("GET /users/{id}/audio", {"data": {"language": "en"}, "links": {}})
    account.platform.routes["DELETE /users/{id}/audio"] = lambda request, reply: reply.content(
        b"", "text/plain", 204
    )
    assert account.get(path).json["data"] == {"language": "en"}
    account.platform.respond("GET /users/{id}/audio", {"data": {"language": "de"}, "links": {}})
    assert account.get(path).json["data"] == {"language": "en"}
    writer = account.add_key("writer", "write")
    assert account.client.delete(account.base + path, headers=writer).status_code == 204
    assert account.get(path).json["data"] == {"language": "de"}
