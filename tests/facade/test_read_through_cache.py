"""Dictionaries and lists below a record: asked of the platform, its last answer kept."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.applications.facade_app import Room, says

CODES = {"data": [{"property": "type", "id": "O", "name": "Outbound"}], "total": 1}


TWO = {
    "data": [
        {"property": "type", "id": "O", "name": "Outbound"},
        {"property": "type", "id": "I", "name": "Inbound"},
    ],
    "total": 2,
}


def test_a_dictionary_that_came_as_a_list_is_answered_from_the_mirror(room: Room) -> None:
    path = "/cdrs/dictionaries"
    room.put("cdrs/dictionaries", *TWO["data"])
    room.away()
    answer = room.get(path)
    assert answer.json == TWO
    assert answer.headers["X-Mirror-Complete"] == "true"
    one = quote('[{"property":"id","operator":"eq","value":"I"}]')
    assert room.get(f"{path}?filter={one}").json == {"data": TWO["data"][1:], "total": 1}
    assert room.server.asked == []
    assert room.get(path, {**room.headers, "Cache-Control": "no-cache"}).status_code == 502


def test_a_dictionary_never_read_or_of_one_record_is_asked_of_the_platform(room: Room) -> None:
    """The one record may be an object of codes, whose envelope is another."""
    path = "/cdrs/dictionaries"
    codes = {"data": {"type": {"O": "Outbound"}}, "links": {}}
    room.server.routes[room.base + path] = says(codes)
    room.put("cdrs/dictionaries", *TWO["data"], complete=False)
    assert room.get(path).json == codes
    room.put("cdrs/dictionaries", codes["data"])
    assert room.get(path, {**room.headers, "Cache-Control": "no-cache"}).json == codes
    assert room.asked(path) == 2


def test_a_dictionary_is_asked_for_once_a_day(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/cdrs/dictionaries"
    room.server.routes[room.base + path] = says(CODES)
    assert [room.get(path).json for _ in range(3)] == [CODES] * 3
    assert room.asked(path) == 1
    assert int(room.get(path).headers["X-Mirror-Age"]) < 60
    assert room.get(path, {**room.headers, "Cache-Control": "no-cache"}).json == CODES
    assert room.asked(path) == 2
    monkeypatch.setattr("integration.facade.read_through_cache.FRESH_SECONDS", 0)
    room.get(path)
    assert room.asked(path) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/users/7/cdrs",
        "/users/7/contacts",
        "/contacts/5/cdrs",
        "/cdrs/5/notes",
        "/users/7/smsthreads/1/2",
        "/users/7/cdrs?limit=5&page=2",
    ],
)
def test_a_list_below_a_record_is_read_through_and_lasts_while_the_platform_is_away(
    room: Room, path: str
) -> None:
    plain = path.partition("?")[0]
    room.server.routes[room.base + plain] = says({"data": [{"id": 1}], "total": 1})
    assert room.get(path).json["total"] == 1
    room.server.routes[room.base + plain] = says({"data": [{"id": 1}, {"id": 2}], "total": 2})
    fresh = room.get(path)
    assert fresh.json["total"] == 2
    assert "X-Mirror-Age" not in fresh.headers
    room.away()
    kept = room.get(path)
    assert (kept.status_code, kept.json) == (200, fresh.json)
    assert "X-Mirror-Age" in kept.headers
    assert room.get(path + ("&" if "?" in path else "?") + "sort=id").status_code == 502
    assert room.get(path, {**room.headers, "Cache-Control": "no-cache"}).status_code == 502


def test_a_refusal_is_not_kept_and_a_later_answer_is_not_lost(room: Room) -> None:
    path = "/contacts/5/cdrs"
    room.server.routes[room.base + path] = says({"message": "Access denied", "errors": []}, 403)
    assert room.get(path).status_code == 403
    room.away()
    assert room.get(path).status_code == 502


def test_live_calls_do_not_last(room: Room) -> None:
    for path in ("/users/7/calls", "/calls/5/monitors", "/calls/5/trace"):
        room.server.routes[room.base + path] = says({"data": [], "total": 0})
        assert room.get(path).status_code == 200
    room.away()
    assert [room.get(path).status_code for path in ("/users/7/calls", "/calls/5/trace")] == [502, 502]


def test_secrets_in_a_kept_answer_stay_hidden_from_local_keys(room: Room) -> None:
    path = "/users/7/contacts"
    room.server.routes[room.base + path] = says({"data": [{"id": 1, "vm_pin": "4711"}], "total": 1})
    assert b"4711" not in room.get(path).data
    room.away()
    assert b"4711" not in room.get(path).data
