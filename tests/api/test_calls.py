"""Calls of the own API, through HTTP: filters, pages, details, and what a key may see."""

from __future__ import annotations

from typing import Any

import pytest

from integration.access.keys import KeyLimits
from integration.workspace import notes
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.people import ALICE

ANN, BOB = 1000005, 1000006


@pytest.fixture
def office(shared_app: SharedApp) -> SharedApp:
    """Five calls of a day, the last one open."""
    app = shared_app
    app.call(101, "2026-09-02 08:00:00", user_id=ANN, user_name="Ann Example")
    app.call(102, "2026-09-02 09:00:00", outcome="missed", talk_seconds=None)
    app.call(103, "2026-09-02 10:00:00", user_id=BOB, direction="out", party="447700900202",
             party_e164="+447700900202")  # fmt: skip
    app.call(
        104, "2026-09-02 22:30:00", outcome="missed", our_e164="+442079460009", our_number="442079460009"
    )
    app.call(105, "2026-09-03 07:00:00", state="talking", outcome=None, user_id=ANN)
    return app


def request(app: TestApp, method: str, path: str, **options: Any) -> Any:
    return app.client.open(path, method=method, **options)


def get(app: TestApp, path: str, key: dict[str, str] | None = None) -> Any:
    response = request(app, "GET", f"/api{path}", headers=app.headers if key is None else key)
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "no-store"
    return response.json


def list_ids(app: TestApp, query: str = "", key: dict[str, str] | None = None) -> list[int]:
    return [call["id"] for call in get(app, f"/calls{query}", key)["data"]]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", [105, 104, 103, 102, 101]),
        ("?outcome=missed", [104, 102]),
        ("?open=1", [105]),
        ("?direction=out", [103]),
        ("?person=1000005", [105, 101]),
        ("?party=%2B44 7700 900202", [103]),
        ("?party=07700900202", [103]),
        ("?line=02079460009", [104]),
        # 22:30 UTC is half past eleven in London's summer, still the second.
        ("?from=2026-09-02&to=2026-09-02", [104, 103, 102, 101]),
        ("?from=2026-09-02T09:00:00Z&to=2026-09-02T22:30:00Z", [103, 102]),
        ("?from=2026-09-02T11:00:00%2B02:00&outcome=missed", [104, 102]),
    ],
)
def test_calls_are_listed_by_filter_newest_first(office: SharedApp, query: str, ids: list[int]) -> None:
    assert list_ids(office, query) == ids


def test_a_call_has_the_columns_of_the_sql_view_and_its_labels(office: SharedApp) -> None:
    office.app_db.write(lambda tx: notes.add_label(tx, 101, ALICE.email, "Complaint"))
    [call] = get(office, "/calls?person=1000005&outcome=answered")["data"]
    with office.mirror_db.read() as connection:
        row = dict(connection.execute("SELECT * FROM v_calls WHERE id = 101").fetchone())
    assert call == {**row, "labels": ["Complaint"]}
    assert (call["started_at"], call["started_local"], call["user_name"], call["outcome"]) == (
        "2026-09-02 08:00:00", "2026-09-02 09:00:00", "Ann Example", "answered",
    )  # fmt: skip


def test_pages_together_are_the_list_although_calls_arrive(office: SharedApp) -> None:
    found, path = [], "/calls?limit=2"
    while True:
        page = get(office, path)
        found += [call["id"] for call in page["data"]]
        if page["next"] is None:
            break
        path = f"/calls?limit=2&next={page['next']}"
        office.call(200 + len(found), "2026-09-03 09:00:00")
    assert found == [105, 104, 103, 102, 101]


def test_one_call_has_legs_events_recordings_and_notes(office: SharedApp) -> None:
    app = office
    app.leg(101, started_at="2026-09-02 08:00:00", user_id=ANN)
    app.insert("monitors", id=7001, live_id=101, timestamp="2026-09-02 08:00:07", user_id=ANN)
    app.archive("recording", 7001, b"sound")
    app.insert("_merged_calls", id=99, into_id=101, change_no=0)
    app.app_db.write(lambda tx: notes.add_note(tx, 101, ALICE.email, "Wants an offer"))
    everything = KeyLimits(rights=frozenset({"recordings", "workspace"}))
    call = get(app, "/calls/101", app.add_key("crm", limits=everything))
    assert (call["data"]["id"], [leg["leg_id"] for leg in call["legs"]], call["events"]) == (101, [101], [])
    assert call["recordings"] == [
        {"id": 7001, "leg_id": 101, "is_stored": True, "path": "/monitors/7001.mp3"}
    ]
    [note] = call["notes"]
    assert (note["by"], note["text"]) == (ALICE.email, "Wants an offer")
    assert get(app, "/calls/99")["data"]["id"] == 101, "the former id of a call leads to it"

    plain = get(app, "/calls/101", app.add_key("plain", limits=KeyLimits()))
    assert "notes" not in plain
    assert "path" not in plain["recordings"][0]


def test_a_key_sees_only_the_calls_of_its_user(office: SharedApp) -> None:
    key = office.add_key("ann", user=ANN)
    assert list_ids(office, key=key) == [105, 101]
    assert list_ids(office, "?person=1000006", key) == []
    unknown = request(office, "GET", "/api/calls/999", headers=key)
    hidden = request(office, "GET", "/api/calls/103", headers=key)
    assert (hidden.status_code, hidden.json["message"].replace("103", "999")) == (
        404,
        unknown.json["message"],
    )


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/calls?colour=red", 400, "'colour'"),
        ("/calls?limit=0", 400, "from 1 to 500"),
        ("/calls?limit=501", 400, "from 1 to 500"),
        ("/calls?from=yesterday", 400, "'yesterday' is not a time"),
        ("/calls?from=2026-02-30", 400, "'2026-02-30' is not a day"),
        ("/calls?person=ann", 400, "'ann' is not an id"),
        ("/calls?outcome=lost", 400, "'lost' is not one of answered"),
        ("/calls?open=1&outcome=missed", 400, "An open call has no outcome"),
        ("/calls?next=2", 400, "`next` in an earlier response"),
        ("/calls?party=1&party=2", 400, "more than once"),
        ("/calls?changed_after=2026-09-02", 400, "'changed_after'"),
        ("/calls?changed_after=", 400, "'changed_after'"),
        ("/calls?changed_after=0&person=1", 400, "'person'"),
        ("/calls/101?fields=id", 400, "'fields'"),
        ("/calls/abc", 404, "no resource"),
        ("/nothing", 404, "no resource"),
        ("", 404, "no resource"),
    ],
)
def test_bad_requests_get_an_error_that_names_it(
    office: SharedApp, path: str, status: int, words: str
) -> None:
    response = request(office, "GET", f"/api{path}", headers=office.headers)
    assert (response.status_code, list(response.json)) == (status, ["message", "errors"])
    assert words in response.json["message"]


def test_a_key_of_other_collections_another_method_and_no_key_are_refused(office: SharedApp) -> None:
    contacts_only = office.add_key("contacts", collections=["contacts"])
    assert request(office, "GET", "/api/calls", headers=contacts_only).status_code == 403
    assert request(office, "GET", "/api/calls/101", headers=contacts_only).status_code == 403
    assert request(office, "GET", "/api/calls").status_code == 401
    refused = request(office, "POST", "/api/calls", headers=office.headers, json={})
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert request(office, "HEAD", "/api/calls", headers=office.headers).status_code == 200
    assert request(office, "OPTIONS", "/api/calls").headers["Allow"] == "GET, HEAD, OPTIONS"


def test_credentials_of_the_platform_are_refused(office: SharedApp) -> None:
    response = request(office, "GET", "/api/calls", auth=("1000001", "a" * 40))
    assert response.status_code == 403
    assert "local key" in response.json["message"]


def test_a_cursor_of_another_epoch_or_above_the_newest_change_is_refused(office: SharedApp) -> None:
    cursor = get(office, "/calls?changed_after=0")["next"]
    assert get(office, f"/calls?changed_after={cursor}") == {"data": [], "next": cursor}
    epoch, _, number = cursor.partition("-")
    for unknown in (f"other-{number}", f"{epoch}-{int(number) + 1}"):
        response = request(office, "GET", f"/api/calls?changed_after={unknown}", headers=office.headers)
        assert response.status_code == 410, unknown
        assert unknown in response.json["message"]
