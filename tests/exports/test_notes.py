"""Exports of notes and chat messages, which the platform lists below CDRs and users only."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.support.application import TestApp
from tests.support.people import ALICE

NOTES = [
    {"id": 41, "text": "=Angry <b>customer</b>", "created_at": "2026-11-20 09:01:00", "pin": "1"},
    {"id": 42, "text": "Call back", "created_at": "2026-11-21 09:05:00"},
]
MESSAGES = [{"id": 51, "chat_id": 3, "message": "Hello"}, {"id": 52, "chat_id": 3, "message": "Hi"}]


@pytest.fixture
def filled(app: TestApp) -> TestApp:
    """An application with two notes of one call and two chat messages of one user."""
    app.put("users", {"id": 7, "first_name": "Ann", "last_name": "Example"}, {"id": 8})
    app.put(
        "cdrs",
        {"id": 11, "live_id": 101, "user_id": 7, "calldate": "2026-11-20 09:00:00", "nb_notes": 1},
        {"id": 12, "live_id": 102, "user_id": 8, "calldate": "2026-11-21 09:00:00", "nb_notes": 1},
    )
    for path, records in (
        ("/cdrs/11/notes", NOTES[:1]),
        ("/cdrs/12/notes", NOTES[1:]),
        ("/users/7/chatmsgs", MESSAGES),
    ):
        app.platform.respond(path, {"data": records, "total": len(records)})
        assert app.get(path).status_code == 200
    app.platform.fail()
    return app


def export(app: TestApp, name: str, headers: dict[str, str] | None = None) -> Any:
    return app.client.get(f"/exports/{name}", headers=headers or app.headers)


def read_rows(response: Any) -> list[dict[str, str]]:
    assert response.status_code == 200, response.data
    return list(csv.DictReader(io.StringIO(response.data.decode(), newline="")))


def test_notes_have_their_call_and_the_fields_found_in_them(filled: TestApp) -> None:
    response = export(filled, "notes.csv?columns=cdr_id,calldate,live_id,cdr_user_name,text,created_at")
    assert read_rows(response) == [
        {"cdr_id": "11", "calldate": "2026-11-20 09:00:00", "live_id": "101",
         "cdr_user_name": "Ann Example", "text": "'=Angry <b>customer</b>",
         "created_at": "2026-11-20 09:01:00"},
        {"cdr_id": "12", "calldate": "2026-11-21 09:00:00", "live_id": "102", "cdr_user_name": "",
         "text": "Call back", "created_at": "2026-11-21 09:05:00"},
    ]  # fmt: skip
    assert response.headers["X-Export-Rows"] == "2"
    rows = read_rows(export(filled, "notes.csv"))
    assert [row["text"] for row in rows] == ["'=Angry <b>customer</b>", "Call back"]
    assert set(rows[0]) >= {"cdr_id", "calldate", "live_id", "cdr_user_id", "id", "text", "created_at"}


def test_notes_of_a_period_are_selected_by_their_calls(filled: TestApp) -> None:
    rows = read_rows(export(filled, "notes.csv?columns=id&from=2026-11-21&to=2026-11-22&tz=UTC"))
    assert rows == [{"id": "42"}]


def test_chat_messages_have_their_user(filled: TestApp) -> None:
    assert read_rows(export(filled, "chat-messages.csv?columns=user_id,user_name,id,message")) == [
        {"user_id": "7", "user_name": "Ann Example", "id": "51", "message": "Hello"},
        {"user_id": "7", "user_name": "Ann Example", "id": "52", "message": "Hi"},
    ]


def test_keys_export_what_they_may_read(filled: TestApp) -> None:
    own = filled.add_key("own", user=7)
    assert read_rows(export(filled, "notes.csv?columns=id", own)) == [{"id": "41"}]
    assert export(filled, "chat-messages.csv", own).status_code == 403
    sms_only = filled.add_key("sms", collections=["sms"])
    assert export(filled, "notes.csv", sms_only).status_code == 403
    assert export(filled, "chat-messages.csv", sms_only).status_code == 403


def test_the_export_page_offers_both(filled: TestApp) -> None:
    page = filled.log_in(ALICE).get("/export/notes")
    assert page.status_code == 200
    assert "Notes" in page.text
    assert "&lt;b&gt;customer" in page.text
    assert "Chat messages" in page.text
