"""Paths below a record: served from the mirror, by relation or stored with their record."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from integration.sync.reading import live_poll
from tests.support.application import TestApp

USER, COLLEAGUE = 1000002, 1000003
CALL = 4278000101
CDRS = [
    {"id": 11, "live_id": CALL, "user_id": USER, "calldate": "2026-11-20 09:00:00", "type": "I",
     "src": "447700900001", "dst": "442079460002", "billsec": 30, "nb_notes": 2},
    {"id": 12, "live_id": 4278000102, "user_id": COLLEAGUE, "calldate": "2026-11-20 10:00:00", "type": "O",
     "src": "442079460002", "dst": "00447700900001", "billsec": 5, "nb_notes": 0},
    {"id": 13, "live_id": 4278000103, "user_id": USER, "calldate": "2026-11-20 11:00:00", "type": "O",
     "src": "442079460002", "dst": "447700900009", "billsec": 60, "nb_notes": 0},
    {"id": 14, "live_id": 4278000104, "user_id": USER, "calldate": "2026-11-20 12:00:00", "type": "I",
     "src": "07700900001", "dst": "442079460002", "billsec": 0, "nb_notes": 0},
]  # fmt: skip
CONTACTS = [
    {"id": 5, "user_id": USER, "global": False, "first_name": "Ann", "tel": "+447700900001"},
    {"id": 6, "user_id": COLLEAGUE, "global": False, "first_name": "Bob", "tel": "+447700900009"},
    {"id": 7, "user_id": COLLEAGUE, "global": True, "first_name": "Cleo", "tel": "+447700900010"},
    {"id": 8, "user_id": None, "global": False, "first_name": "Dora", "tel": None},
]
SMS = [
    {"id": 21, "user_id": USER, "from": "447700900001", "to": "442079460002", "message": "one"},
    {"id": 22, "user_id": USER, "from": "442079460002", "to": "+447700900001", "message": "two"},
    {"id": 23, "user_id": COLLEAGUE, "from": "442079460002", "to": "447700900001", "message": "theirs"},
    {"id": 24, "user_id": USER, "from": "442079460002", "to": "447700900009", "message": "other"},
    {"id": 25, "user_id": None, "from": "00447700900001", "to": "442079460002", "message": "shared"},
    {"id": 26, "user_id": USER, "from": "447700900001", "to": "447700900001", "message": "to itself"},
]
MONITORS = [
    {"id": 31, "live_id": CALL, "user_id": USER, "timestamp": "2026-11-20 09:00:00", "duration": 30},
    {"id": 32, "live_id": 4278000103, "user_id": USER, "timestamp": "2026-11-20 11:00:00", "duration": 60},
]
NOTES = [
    {"id": 42, "cdr_id": 11, "text": "Call back <b>tomorrow</b>", "created_at": "2026-11-20 09:05:00"},
    {"id": 41, "cdr_id": 11, "text": "Angry", "created_at": "2026-11-20 09:01:00"},
]
MESSAGES = [
    {"id": 51, "chat_id": 3, "user_id": USER, "from": "visitor", "message": "Hello"},
    {"id": 52, "chat_id": 3, "user_id": USER, "from": "operator", "message": "How can we help?"},
    {"id": 53, "chat_id": 4, "user_id": USER, "from": "visitor", "message": "Price list"},
]


@pytest.fixture
def account(app: TestApp) -> TestApp:
    """An application whose mirror is complete, in front of an unreachable platform."""
    app.put("users", {"id": USER, "first_name": "Ann"}, {"id": COLLEAGUE, "first_name": "Bob"})
    app.put("cdrs", *CDRS)
    app.put("contacts", *CONTACTS)
    app.put("sms", *SMS)
    app.put("monitors", *MONITORS)
    app.platform.fail()
    return app


def list_ids(response: Any) -> list[int]:
    assert response.status_code == 200, response.data
    assert response.json["total"] == len(response.json["data"])
    return [record["id"] for record in response.json["data"]]


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        (f"/users/{USER}/cdrs", [11, 13, 14]),
        (f"/users/{COLLEAGUE}/cdrs", [12]),
        (f"/users/{USER}/contacts", [5, 7, 8]),
        (f"/users/{COLLEAGUE}/contacts", [6, 7, 8]),
        ("/contacts/5/cdrs", [11, 12, 14]),
        ("/contacts/6/cdrs", [13]),
        ("/contacts/8/cdrs", []),
        (f"/users/{USER}/smsthreads/447700900001/442079460002", [21, 22, 25]),
        (f"/users/{USER}/smsthreads/442079460002/07700900001", [21, 22, 25]),
        (f"/users/{USER}/sms/threads/%2B447700900001/00442079460002", [21, 22, 25]),
        (f"/users/{COLLEAGUE}/sms/threads/447700900001/442079460002", [23, 25]),
        (f"/users/{USER}/smsthreads/447700900001/447700900001", [26]),
        (f"/users/{USER}/smsthreads/1001/442079460002", []),
        (f"/calls/{CALL}/monitors", [31]),
        ("/calls/4278000104/monitors", []),
    ],
)
def test_related_records_come_from_the_mirror_while_the_platform_is_unreachable(
    account: TestApp, path: str, ids: list[int]
) -> None:
    response = account.get(path)
    assert list_ids(response) == ids
    assert response.headers["X-Mirror-Complete"] == "true"
    assert int(response.headers["X-Mirror-Age"]) < 60
    assert account.platform.requests == []


def test_related_records_are_those_of_their_own_collection(account: TestApp) -> None:
    assert (
        account.get(f"/users/{USER}/cdrs").json["data"][0] == account.get("/cdrs/11").json["data"] == CDRS[0]
    )


def test_pager_filter_sort_and_groups_apply_to_related_records(account: TestApp) -> None:
    path = f"/users/{USER}/cdrs"
    long_calls = quote('[{"property":"billsec","operator":"gt","value":10}]')
    assert list_ids(account.get(f"{path}?filter={long_calls}&sort=billsec&dir=DESC")) == [13, 11]
    second = account.get(f"{path}?page=2&limit=2").json
    assert ([record["id"] for record in second["data"]], second["total"]) == ([14], 3)
    groups = account.get(f"{path}?group_by=type&sort=type").json
    assert [(record["type"], record["count"], record["id"]) for record in groups["data"]] == [
        ("I", 2, 14),
        ("O", 1, 13),
    ]
    wrong = quote('[{"property":"no_such","operator":"eq","value":1}]')
    assert account.get(f"{path}?filter={wrong}").status_code == 400


def test_live_calls_of_a_user(app: TestApp) -> None:
    app.put("users", {"id": USER}, {"id": COLLEAGUE})
    mine = {"id": CALL, "src_id": "0", "dst_id": str(USER), "state": "RINGING"}
    placed = {"id": CALL + 1, "src_id": USER, "dst_id": "0", "state": "CONNECTED"}
    theirs = {"id": CALL + 2, "src_id": "0", "dst_id": str(COLLEAGUE), "state": "RINGING"}
    app.platform.respond("/calls", {"data": [mine, placed, theirs], "total": 3})
    live_poll.poll(app.context.sync_jobs.context)
    app.platform.fail()
    response = app.get(f"/users/{USER}/calls")
    assert response.json == {"data": [mine, placed], "total": 2}
    assert response.headers["X-Mirror-Complete"] == "true"
    assert int(response.headers["X-Mirror-Age"]) < 60


@pytest.mark.parametrize(
    "path",
    [
        "/users/999/cdrs",
        "/users/999/chatmsgs",
        "/contacts/4/cdrs",
        "/cdrs/9/notes",
        "/users/999/sms/threads/1/2",
    ],
)
def test_an_unknown_parent_of_a_complete_collection_is_404(account: TestApp, path: str) -> None:
    assert account.get(path).status_code == 404
    assert account.platform.requests == []


def test_a_parent_above_all_stored_keys_is_requested_once(account: TestApp) -> None:
    path = "/contacts/9/cdrs"
    assert account.get(path).status_code == 502
    account.platform.respond(path, {"data": CDRS[:1], "total": 1})
    assert account.get(path).json["total"] == 1
    unknown = "/users/2000000/chatmsgs"
    account.platform.respond(unknown, {"message": "Not found", "errors": []}, 404)
    assert [account.get(unknown).status_code for _ in range(3)] == [404, 404, 404]
    assert account.platform.count(unknown) == 1
    account.clock.advance(6)
    account.get(unknown)
    assert account.platform.count(unknown) == 2


def test_an_unknown_call_is_requested_from_the_platform(account: TestApp) -> None:
    assert account.get("/calls/77/monitors").status_code == 502
    account.platform.respond("/calls/77/monitors", {"data": [{"id": 9}], "total": 1})
    assert account.get("/calls/77/monitors").json == {"data": [{"id": 9}], "total": 1}


def test_an_incomplete_collection_is_read_through_and_served_without_the_platform(app: TestApp) -> None:
    app.put("users", {"id": USER})
    app.put("cdrs", *CDRS[:2], complete=False)
    path = f"/users/{USER}/cdrs"
    app.platform.respond(path, {"data": CDRS[2:], "total": 2})
    assert list_ids(app.get(path)) == [13, 14]
    app.platform.fail()
    partial = app.get(f"{path}?sort=id")
    assert list_ids(partial) == [11]
    assert partial.headers["X-Mirror-Complete"] == "false"


def test_no_cache_requests_the_platform(account: TestApp) -> None:
    path = f"/users/{USER}/cdrs"
    headers = {**account.headers, "Cache-Control": "no-cache"}
    assert account.get(path, headers).status_code == 502
    account.platform.respond(path, {"data": [], "total": 0})
    assert account.get(path, headers).json == {"data": [], "total": 0}


def test_keys_see_what_their_limits_allow(account: TestApp) -> None:
    own = account.add_key("own", user=USER)
    assert list_ids(account.get(f"/users/{USER}/cdrs", own)) == [11, 13, 14]
    assert list_ids(account.get(f"/users/{USER}/contacts", own)) == [5, 7, 8]
    assert list_ids(account.get(f"/users/{USER}/smsthreads/447700900001/442079460002", own)) == [21, 22]
    for path in (
        f"/users/{COLLEAGUE}/cdrs",
        f"/users/{USER}/calls",
        f"/users/{USER}/chatmsgs",
        "/contacts/5/cdrs",
        "/cdrs/11/notes",
        f"/calls/{CALL}/monitors",
    ):
        assert account.get(path, own).status_code == 403, path
    users_only = account.add_key("users", collections=["users"])
    for path in ("cdrs", "contacts", "calls", "smsthreads/1/2", "sms/threads/1/2"):
        assert account.get(f"/users/{USER}/{path}", users_only).status_code == 403, path


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


def test_chat_messages_of_a_user_have_pages_and_groups(account: TestApp) -> None:
    path = f"/users/{USER}/chatmsgs"
    read_through(account, path, MESSAGES)
    page = account.get(f"{path}?page=2&limit=2").json
    assert ([record["id"] for record in page["data"]], page["total"]) == ([53], 3)
    groups = account.get(f"{path}?group_by=chat_id").json
    assert groups == {"data": [{**MESSAGES[1], "count": 2}, {**MESSAGES[2], "count": 1}], "total": 2}


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
