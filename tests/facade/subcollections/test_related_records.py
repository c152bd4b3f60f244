"""Paths below a record whose records are part of a mirrored collection."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from integration.sync.reading import live_poll
from tests.facade.subcollections.records import CALL, CDRS, COLLEAGUE, USER, list_ids
from tests.support.application import TestApp


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
        "/cdrs?include=user_id",
    ):
        assert account.get(path, own).status_code == 403, path
    users_only = account.add_key("users", collections=["users"])
    for path in ("cdrs", "contacts", "calls", "smsthreads/1/2", "sms/threads/1/2"):
        assert account.get(f"/users/{USER}/{path}", users_only).status_code == 403, path
