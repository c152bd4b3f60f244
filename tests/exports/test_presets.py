"""Presets: rows of the page with names, labels, local times, files."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from integration.workspace import notes
from tests.support.application import TestApp


@pytest.fixture
def app(shared_app):
    return shared_app


def exporting(app: TestApp) -> Any:
    """A client with the session of an administrator."""
    client = app.product.site.test_client()
    client.set_cookie("session", app.make_token())
    return client


def archived(app: TestApp, number: int, path: str) -> None:
    """Insert the state of an archived recording."""
    app.mirror_db.write(
        lambda tx: tx.execute(
            "INSERT INTO media (kind, record_id, path, state, updated_at)"
            " VALUES ('recording', ?, ?, 'have', '')",
            (number, path),
        )
    )


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_call_is_exported_with_labels_durations_and_links(app):
    app.put("me", {"id": 1, "currency_iso": "GBP"})
    app.insert("monitors", id=31, live_id=7, timestamp="2026-07-01 09:15:00")
    archived(app, 31, "recordings/2026/07/01/31.mp3")
    app.leg(7)
    app.call(
        7, "2026-07-01 09:15:00", recordings=1, charge=0.25, wait_seconds=67, talk_seconds=3725, user_id=5,
        user_name="Ann Example", outcome="answered", direction="in",
    )  # fmt: skip
    (row,) = rows(exporting(app).get("/exports/call-history.csv").data)
    assert row["started_at"] == "2026-07-01 09:15:00"
    assert row["started_local"] == "2026-07-01 10:15:00+01:00"
    assert (row["direction"], row["direction_label"]) == ("in", "Inbound")
    assert (row["outcome"], row["outcome_label"]) == ("answered", "Answered")
    assert (row["wait_seconds"], row["wait"]) == ("67", "0:01:07")
    assert (row["talk_seconds"], row["talk"]) == ("3725", "1:02:05")
    assert (row["charge"], row["currency"]) == ("0.25", "GBP")
    assert (row["user_id"], row["user_name"]) == ("5", "Ann Example")
    assert row["party_e164"] == "+447700900101"
    assert row["recording_files"] == "recordings/2026/07/01/31.mp3"
    assert row["recording_links"].endswith("/recordings/31.mp3")


@pytest.mark.parametrize(
    ("stamp", "zone", "local"),
    [
        ("2026-07-01 00:00:00", "America/St_Johns", "2026-06-30 21:30:00-02:30"),
        ("2026-07-01 00:00:00", "Australia/Lord_Howe", "2026-07-01 10:30:00+10:30"),
        ("0001-01-01 00:00:00", "America/New_York", "0001-01-01 00:00:00"),
        ("9999-12-31 23:59:59", "Asia/Tokyo", "9999-12-31 23:59:59"),
    ],
)
def test_local_times_have_their_utc_offset(app, stamp, zone, local):
    app.call(1, stamp)
    url = f"/exports/call-history.csv?columns=started_at,started_local&tz={zone}"
    (row,) = rows(exporting(app).get(url).data)
    assert row == {"started_at": stamp, "started_local": local}


def test_presets_of_missed_calls_recordings_voicemail_and_messages(app):
    app.put("users", {"id": 5, "first_name": "Ann", "last_name": "Example"})
    app.call(1, "2026-07-01 09:00:00", outcome="missed")
    app.call(2, "2026-07-01 09:01:00", outcome="answered")
    app.call(3, "2026-07-01 09:02:00", outcome="voicemail")
    app.leg(2)
    app.insert("monitors", id=31, live_id=2, user_id=5, timestamp="2026-07-01 09:01:00", duration=61)
    app.insert(
        "voicemessages", id=41, live_id=3, origtime="2026-07-01 09:02:00", duration=9, transcript="=hi"
    )
    app.put(
        "sms",
        {
            "id": 51,
            "created_at": "2026-07-01 09:03:00",
            "user_id": 5,
            "message": "-1",
            "from": "+447700900101",
        },
    )
    client = exporting(app)
    assert [row["id"] for row in rows(client.get("/exports/missed.csv").data)] == ["3", "1"]
    (recording,) = rows(client.get("/exports/recordings.csv").data)
    assert (recording["call_id"], recording["user_name"], recording["duration_hms"]) == (
        "2",
        "Ann Example",
        "0:01:01",
    )
    assert recording["timestamp_local"] == "2026-07-01 10:01:00+01:00"
    (voicemail,) = rows(client.get("/exports/voicemail.csv").data)
    assert (voicemail["transcript"], voicemail["duration_hms"]) == ("'=hi", "0:00:09")
    (message,) = rows(client.get("/exports/messages.csv?from=2026-07-01%2010:03:00").data)
    assert (message["from"], message["message"], message["user_name"]) == (
        "+447700900101",
        "'-1",
        "Ann Example",
    )
    lines = [json.loads(line) for line in client.get("/exports/missed.jsonl").data.splitlines()]
    assert [line["started_local"] for line in lines] == [
        "2026-07-01 10:02:00+01:00",
        "2026-07-01 10:00:00+01:00",
    ]


def test_calls_are_exported_with_labels_of_both_sources_and_their_origins(app):
    for number, labels in ((1, '["Order", "Complaint"]'), (2, "[]"), (3, None)):
        app.call(number, f"2026-07-0{number} 09:15:00")
        app.leg(number)
        app.insert("cdrs", id=700 + number, live_id=number, labels=labels)
    for leg, label in ((1, "Order"), (1, "VIP"), (3, "VIP")):
        app.app_db.write(lambda tx, leg=leg, label=label: notes.add_label(tx, leg, "ann@example.com", label))
    exported = rows(exporting(app).get("/exports/call-history.csv").data)
    assert [(row["id"], row["labels"], row["label_origins"]) for row in exported] == [
        ("3", "VIP", "local"),
        ("2", "", ""),
        ("1", "Complaint; Order; VIP", "platform; platform+local; local"),
    ]
    chosen = exporting(app).get(
        "/exports/call-history.csv?columns=id,labels&view=label%3DOrder%26range%3Dall"
    )
    assert rows(chosen.data) == [{"id": "1", "labels": "Complaint; Order; VIP"}]
