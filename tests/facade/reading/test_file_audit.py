"""Audit of files that clients of the facade receive (promise S14)."""

from __future__ import annotations

import pytest

from integration.access import audit
from tests.facade.test_files import SOUND, URL, archive, offer
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import USER


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    # Entries are counted by the hour, so a test must not pass its end.
    shared_app.clock.freeze("2026-11-20 10:10:00")
    return shared_app


def list_entries(app: TestApp) -> list[tuple[str, str, str]]:
    """Who, what and about of the entries, oldest first."""
    return [(entry.who, entry.what, entry.about) for entry in reversed(audit.list_newest(app.app_db))]


@pytest.mark.parametrize("range_header", ["bytes=1-", f"bytes=-{len(SOUND)}"])
def test_every_part_of_a_recording_is_recorded(app: TestApp, range_header: str) -> None:
    archive(app)
    response = app.get(URL, {**app.headers, "Range": range_header})
    assert response.status_code in (200, 206)
    assert list_entries(app) == [("key tests", "fetched recording", "1052000001")]


def test_responses_without_content_are_not_recorded(app: TestApp) -> None:
    archive(app)
    etag = app.client.head(app.base + URL, headers=app.headers).headers["ETag"]
    assert app.get(URL, {**app.headers, "If-None-Match": etag}).status_code == 304
    assert app.get(URL, {**app.headers, "Range": "bytes=999999-"}).status_code == 416
    assert app.get("/monitors/5.mp3").status_code == 404
    assert list_entries(app) == []


def test_a_client_has_one_entry_per_file_and_hour(app: TestApp) -> None:
    archive(app)
    for _ in range(2):
        for path in (URL, "/monitors/0001052000001.mp3"):
            app.get(path, {**app.headers, "Range": "bytes=7-"})
            app.get(path)
    app.get(URL, app.add_key("second"))
    app.clock.set("2026-11-20 11:00:00")
    app.get(URL)
    assert list_entries(app) == [
        ("key tests", "fetched recording", "1052000001"),
        ("key second", "fetched recording", "1052000001"),
        ("key tests", "fetched recording", "1052000001"),
    ]


def test_traces_captures_and_other_files_are_recorded(app: TestApp) -> None:
    for path, kind in (
        ("/cdrs/7.trace", "text/plain"),
        ("/cdrs/7.pcap", "application/vnd.tcpdump.pcap"),
        ("/msdrs/7.trace", "text/plain"),
        ("/calls/7/trace", "application/json"),
        ("/transactions/7.pdf", "application/json"),
        ("/queues/7/report", "application/octet-stream"),
    ):
        app.platform.routes[path] = lambda _, reply, kind=kind: reply.content(b"{}", kind)
    app.put("cdrs", {"id": 7, "calldate": "2026-09-02 08:45:55"})
    app.put("msdrs", {"id": 7, "created_at": "2026-09-02 08:45:55"})
    for path in (
        "/cdrs/7.trace",
        "/cdrs/7.pcap",
        "/msdrs/7.trace",
        "/calls/7/trace",
        "/transactions/7.pdf",
        "/queues/7/report",
        "/cdrs/7",
    ):
        assert app.get(path).status_code == 200, path
    assert [entry[1:] for entry in list_entries(app)] == [
        ("fetched trace", "7"),
        ("fetched pcap", "7"),
        ("fetched msdr_trace", "7"),
        ("fetched live trace", "7"),
        ("fetched file", "/transactions/7.pdf"),
        ("fetched file", "/queues/7/report"),
    ]


def test_a_file_passed_through_for_a_platform_user_is_recorded(app: TestApp) -> None:
    offer(app)
    assert app.get(URL, {"X-Auth-Token": USER}).status_code == 200
    assert list_entries(app) == [("platform user 1000002", "fetched recording", "1052000001")]
