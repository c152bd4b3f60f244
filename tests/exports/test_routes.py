"""Exports over HTTP: who may, what they get, and that it is written down."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from integration.access import audit, people, sessions
from tests.support.application import TestApp
from tests.support.fake_exchange import ADMINISTRATOR, USER, read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]
URL = "/exports/cdrs.csv"


@pytest.fixture
def exporting(app: TestApp) -> TestApp:
    app.put("cdrs", {**CDR, "id": 1, "user_id": 7}, {**CDR, "id": 2, "user_id": 8})
    return app


def log_in(app: TestApp, email: str, role: str, **options: Any) -> None:
    person = people.create(app.app_db, email, role, **options)
    token = sessions.create(app.app_db, person.id)
    app.client.set_cookie("session", token)


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_a_person_with_the_right_downloads_and_it_is_audited(exporting: TestApp) -> None:
    log_in(exporting, "root@example.com", "admin")
    answer = exporting.client.get(URL)
    assert answer.status_code == 200
    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="cdrs.csv"'
    assert [row["id"] for row in rows(answer.data)] == ["1", "2"]
    entry = audit.list_newest(exporting.app_db)[0]
    assert (entry.who, entry.what, entry.about) == ("root@example.com", "export", "cdrs.csv")


def test_a_program_is_audited_by_the_name_of_its_key_and_head_is_no_export(exporting: TestApp) -> None:
    key = exporting.add_key("ledger")
    assert exporting.client.head(URL, headers=key).headers["X-Export-Rows"] == "2"
    assert audit.list_newest(exporting.app_db) == []
    assert exporting.client.get("/exports/sms_cannedresponses.jsonl", headers=key).status_code == 200
    entry = audit.list_newest(exporting.app_db)[0]
    assert (entry.who, entry.what) == ("key ledger", "export")
    assert (entry.about, entry.result) == ("sms_cannedresponses.jsonl", "0 rows")


def test_it_takes_the_facades_filter_and_more(exporting: TestApp) -> None:
    condition = json.dumps([{"property": "user_id", "operator": "eq", "value": 8}])
    answer = exporting.client.get(
        URL,
        query_string={"filter": condition, "columns": "id,calldate", "tz": "Europe/Madrid", "bom": "1"},
        headers=exporting.headers,
    )
    assert answer.data.decode() == '\ufeff"id","calldate"\r\n2,"2026-09-02 10:45:55"\r\n'
    lines = exporting.client.get("/exports/cdrs.jsonl", headers=exporting.headers)
    assert [json.loads(line)["id"] for line in lines.data.splitlines()] == [1, 2]


def test_nobody_else_may(exporting: TestApp) -> None:
    assert exporting.client.get(URL).status_code == 401
    assert exporting.client.get(URL, headers={"Accept": "text/html"}).status_code == 302
    assert exporting.client.get(URL, headers={"X-Auth-Token": "f" * 40}).status_code == 401
    assert exporting.client.get(URL, headers={"X-Auth-Token": USER}).status_code == 403
    assert exporting.client.get(URL, headers={"X-Auth-Token": ADMINISTRATOR}).status_code == 200
    limited = exporting.add_key("limited", collections=["sms"])
    assert exporting.client.get(URL, headers=limited).status_code == 403
    log_in(exporting, "viewer@example.com", "viewer")
    assert exporting.client.get(URL).status_code == 403


def test_a_key_for_one_user_exports_that_users_records(exporting: TestApp) -> None:
    mine = exporting.add_key("mine", user=7)
    assert [row["id"] for row in rows(exporting.client.get(URL, headers=mine).data)] == ["1"]
    assert exporting.client.get("/exports/ddis.csv", headers=mine).status_code == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/exports/nothing.csv", 404),
        ("/exports/me.csv", 404),
        ("/exports/cdrs.csv?columns=nope", 400),
        ("/exports/cdrs.csv?filter=%7B", 400),
        ("/exports/sms/cannedresponses.csv", 200),
        ("/exports/sms_cannedresponses.csv", 200),
    ],
)
def test_what_can_be_exported(exporting: TestApp, path: str, status: int) -> None:
    answer = exporting.client.get(path, headers=exporting.headers)
    assert answer.status_code == status
    if status >= 400:
        assert set(answer.json) == {"message", "errors"}
