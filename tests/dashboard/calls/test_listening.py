"""Recordings, traces, faxes and webhooks on the dashboard: content, access and audit log."""

from __future__ import annotations

import re

import pytest

from integration.access import audit, people
from integration.core import clock
from integration.mirror.page_queries import history
from integration.workspace import notes
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.people import ALICE, BOB, CALLER, CAROL, DAVE


@pytest.fixture
def recording(app):
    app.event("call.connected", 5, ago(60), state="CONNECTED", connected_at=ago(60), dst_id="11")
    app.event("call.hangup", 5, ago(57), state="HANGUP", dst_id="11")
    record = {"id": 900, "live_id": 5, "user_id": 11, "duration": 3, "size": 1000, "timestamp": ago(60)}
    app.put("monitors", {**record, "transcript": "<u>Hello</u>"})
    return app.archive("recording", 900, bytes(range(250)) * 4)


def test_a_recording_is_sent_completely_or_by_range(app, client, recording):
    part = client.get("/recordings/900.mp3", headers={"Range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, recording.read_bytes()[100:200])
    assert part.headers["Content-Range"] == "bytes 100-199/1000"
    last = client.get("/recordings/900.mp3", headers={"Range": "bytes=-100000000000000000000"})
    assert (last.status_code, last.content) == (206, recording.read_bytes())
    assert last.headers["Content-Range"] == "bytes 0-999/1000"
    complete = client.get("/recordings/900.mp3")
    assert (complete.status_code, complete.content) == (200, recording.read_bytes())
    assert client.get("/recordings/901.mp3").status_code == 404
    assert "<u>Hello</u>" in text(client.get("/calls/5"))


def test_who_may_edit_a_recording_finds_its_form_until_the_platform_deletes_it(app, recording):
    paths = ("/calls/5", "/calls/5/beside", "/recordings")
    for member, sees_link in ((ALICE, True), (BOB, True), (CAROL.as_user(11), False)):
        client = app.log_in(member)
        for path in paths:
            assert ('href="/account/monitors/900?edit=1"' in client.get(path).text) is sees_link, path
        assert (client.get("/account/monitors/900?edit=1").status_code == 200) is sees_link
    app.mirror_db.write(lambda tx: tx.execute("UPDATE monitors SET _missing_since = '2026-01-01 00:00:00'"))
    for path in paths:
        assert "/account/monitors/" not in app.log_in(ALICE).get(path).text


def list_content_entries(app):
    return [(entry.what, entry.about, entry.address) for entry in reversed(audit.list_newest(app.app_db))]


def test_any_part_of_a_recording_is_one_audit_entry_an_hour(app, client, recording):
    moment = clock.parse_utc("2027-11-20 10:10:00").timestamp()
    app.clock.freeze(moment)
    client = app.log_in()
    client.head("/recordings/900.mp3")
    assert list_content_entries(app) == []
    for part in ({"Range": "bytes=1-"}, {"Range": "bytes=-1000"}, {"Range": "bytes=0-"}, {}):
        assert client.get("/recordings/900.mp3", headers=part).status_code in (200, 206)
    assert list_content_entries(app) == [("listened to recording", "900", "127.0.0.1")]
    app.clock.freeze(moment + 3600)
    client.get("/recordings/900.mp3", headers={"Range": "bytes=1-"})
    assert len(list_content_entries(app)) == 2


def test_traces_faxes_and_webhooks_are_recorded_once_and_not_for_head(app, client):
    app.call(5, ago(60))
    app.leg(5, call_id=5)
    app.put("cdrs", {"id": 70, "live_id": 5, "calldate": ago(60)})
    app.put("faxes", {"id": 8, "created_at": ago(60)})
    app.archive("trace", 70, b"SIP")
    app.archive("fax", 8, b"%PDF")
    app.context.inbox.receive(b"{}").result(30)
    with app.context.inbox.database.read() as connection:
        seq = connection.execute("SELECT seq FROM inbox").fetchone()[0]
    paths = ("/calls/5/70.trace", "/messages/faxes/8.pdf", f"/system/events/{seq}")
    for path in paths:
        assert client.head(path).status_code == 200, path
        assert list_content_entries(app) == []
    for path in paths:
        for headers in ({}, {"Range": "bytes=1-"}):
            assert client.get(path, headers=headers).status_code in (200, 206), path
    assert [entry[:2] for entry in list_content_entries(app)] == [
        ("read trace", "70"),
        ("read fax", "8"),
        ("read webhook", str(seq)),
    ]


def test_a_recording_needs_the_right_and_a_visible_call(own_calls_only):
    app = own_calls_only
    app.put("monitors", {"id": 900, "live_id": 5, "user_id": 11, "duration": 3, "timestamp": ago(60)})
    app.archive("recording", 900, b"0123456789")
    assert app.log_in(DAVE.as_user(11)).get("/recordings/900.mp3").status_code == 403
    assert app.log_in(CAROL.as_user(12)).get("/recordings/900.mp3").status_code == 404
    assert app.log_in(CAROL.as_user(11)).get("/recordings/900.mp3").status_code == 200


@pytest.fixture
def spoken(app):
    """A call with a recording and a voice message, with transcripts, and a call without."""
    app.call(5, ago(60), party_name="Nora Lind", recordings=1, voicemails=1)
    app.leg(5)
    app.call(6, ago(50), party_name="Greenhouse Ltd")
    app.insert(
        "monitors",
        id=900,
        live_id=5,
        timestamp=ago(60),
        transcript="The greenhouse.",
        summary="A delivery.",
        _doc='{"id":900,"transcript":"The greenhouse.","summary":"A delivery."}',
    )
    app.insert(
        "voicemessages",
        id=800,
        live_id=5,
        origtime=ago(60),
        transcript="Ring me.",
        _doc='{"id":800,"transcript":"Ring me."}',
    )
    app.app_db.write(lambda tx: notes.add_note(tx, 5, BOB.email, "Likes tea"))
    return app


def deny_recordings(app, member):
    app.add(member)
    people.change(app.app_db, member.email, rights={"recordings": False})
    return app.log_in(member)


def test_transcripts_need_the_right_to_play_recordings(spoken):
    words = ("greenhouse.", "delivery.", "Ring me.")
    granted, denied = spoken.log_in(ALICE), deny_recordings(spoken, BOB)
    for path in (
        "/calls/5", "/calls/5/beside", f"/contacts/of/{CALLER}", "/account/monitors", "/account/monitors/900",
        "/account/voicemessages", "/account/voicemessages/800", "/exports/monitors.csv",
        "/exports/monitors.jsonl", "/exports/voicemail.csv",
    ):  # fmt: skip
        assert any(word in granted.get(path).text for word in words), path
        page = denied.get(path)
        assert page.status_code == 200
        assert [word for word in words if word in page.text] == [], path
    listed = "/account/monitors?q=greenhouse"
    assert ["/monitors/900" in client.get(listed).text for client in (granted, denied)] == [True, False]


@pytest.mark.parametrize("max_matches", [0, 4000])
def test_searches_find_words_of_transcripts_only_with_the_right(spoken, max_matches, monkeypatch):
    monkeypatch.setattr(history, "MAX_INDEXED_MATCHES", max_matches)
    clients = spoken.log_in(ALICE), deny_recordings(spoken, BOB)

    def find(client, search):
        page = client.get(f"/calls?range=all&q={search}").text
        rows = client.get(f"/exports/call-history.csv?columns=id&view=range%3Dall%26q%3D{search}").text
        found = [number for number in ("5", "6") if f'href="/calls/{number}"' in page]
        assert sorted(rows.split()[1:]) == found
        return "".join(found)

    for search, granted, denied in (
        ("greenhouse", "56", "6"),
        ("nora greenhouse", "5", ""),
        ("gr", "6", "6"),
        ("nora", "5", "5"),
        ("447700900101", "56", "56"),
        ("tea", "5", "5"),
    ):
        assert [find(client, search) for client in clients] == [granted, denied], search


def test_a_message_that_names_a_root_without_leg_is_on_the_page_of_the_call(app):
    app.call(101, ago(60), voicemails=1)
    app.leg(102, call_id=101, root_id=101)
    app.insert("voicemessages", id=800, live_id=104, parent_live_id=101, transcript="Ring me.")
    assert "Ring me." in app.log_in().get("/calls/101").text


def test_agents_limited_to_own_calls_see_no_counts_of_all_files(own_calls_only):
    app = own_calls_only
    record = {"user_id": 11, "live_id": 5, "duration": 3, "timestamp": ago(60)}
    app.put("monitors", {"id": 900, **record}, {"id": 901, **record, "user_id": 12})
    app.archive("recording", 900, b"audio")
    app.archive("recording", 901, b"audio")
    assert "Audio saved (2)" in text(app.log_in(BOB).get("/recordings"))
    agent = app.log_in(CAROL.as_user(11))
    page = agent.get("/recordings")
    assert 'href="/recordings?state=have"' in page.text
    for shown in (page, agent.get("/recordings?state=failed")):
        assert not re.search(r"Saved \(|hidden by the filter", text(shown))
