"""Exports over HTTP: access, content and audit log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.access import audit, people, sessions
from tests.exports.test_presets import rows
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import ADMINISTRATOR, USER, read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]
URL = "/exports/cdrs.csv"


@pytest.fixture
def exporting(shared_app: SharedApp) -> TestApp:
    shared_app.put("cdrs", {**CDR, "id": 1, "user_id": 7}, {**CDR, "id": 2, "user_id": 8})
    return shared_app


def log_in(app: TestApp, email: str, role: str, **options: Any) -> None:
    person = people.create(app.app_db, email, role, **options)
    token = sessions.create(app.app_db, person.id)
    app.client.set_cookie("session", token)


def test_download_of_a_dashboard_user_is_audited(exporting: TestApp) -> None:
    log_in(exporting, "root@example.com", "admin")
    response = exporting.client.get(URL)
    assert response.status_code == 200
    assert response.content_type == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="cdrs.csv"'
    assert [row["id"] for row in rows(response.data)] == ["1", "2"]
    entry = audit.list_newest(exporting.app_db)[0]
    assert (entry.who, entry.what, entry.about) == ("root@example.com", "export", "cdrs.csv")


def test_download_of_a_client_is_audited_by_key_name_and_head_is_not(exporting: TestApp) -> None:
    key = exporting.add_key("accounts")
    assert exporting.client.head(URL, headers=key).headers["X-Export-Rows"] == "2"
    assert audit.list_newest(exporting.app_db) == []
    assert exporting.client.get("/exports/sms_cannedresponses.jsonl", headers=key).status_code == 200
    entry = audit.list_newest(exporting.app_db)[0]
    assert (entry.who, entry.what) == ("key accounts", "export")
    assert (entry.about, entry.result) == ("sms_cannedresponses.jsonl", "0 rows")


def test_export_accepts_filter_columns_zone_and_bom(exporting: TestApp) -> None:
    condition = json.dumps([{"property": "user_id", "operator": "eq", "value": 8}])
    response = exporting.client.get(
        URL,
        query_string={"filter": condition, "columns": "id,calldate", "tz": "Europe/Madrid", "bom": "1"},
        headers=exporting.headers,
    )
    assert response.data.decode() == '\ufeff"id","calldate"\r\n2,"2026-09-02 10:45:55"\r\n'
    exporting.put("cdrs", {**CDR, "id": 1, "charge": 1.5, "dst": "a;=1"})
    url = f"{URL}?columns=id,charge,dst"
    excel = exporting.client.get(f"{url}&bom=1&separator=%3B&to=2100-01-01", headers=exporting.headers)
    assert excel.data.decode().splitlines()[:2] == ['\ufeff"id";"charge";"dst"', '1;1,5;"a;=1"']
    plain = exporting.client.get(url, headers=exporting.headers)
    assert plain.data.decode().splitlines()[:2] == ['"id","charge","dst"', '1,1.5,"a;=1"']
    assert exporting.client.get(f"{url}&separator=%3B", headers=exporting.headers).data.startswith(
        b'"id";"ch'
    )
    refused = exporting.client.get(f"{url}&separator=%7C", headers=exporting.headers)
    assert (refused.status_code, "'|'" in refused.json["message"]) == (400, True)
    lines = exporting.client.get("/exports/cdrs.jsonl", headers=exporting.headers)
    assert [json.loads(line)["id"] for line in lines.data.splitlines()] == [1, 2]


def test_export_requires_credentials_with_the_right(exporting: TestApp) -> None:
    assert exporting.client.get(URL).status_code == 401
    assert exporting.client.get(URL, headers={"Accept": "text/html"}).status_code == 302
    assert exporting.client.get(URL, headers={"X-Auth-Token": "f" * 40}).status_code == 401
    assert exporting.client.get(URL, headers={"X-Auth-Token": USER}).status_code == 403
    assert exporting.client.get(URL, headers={"X-Auth-Token": ADMINISTRATOR}).status_code == 200
    limited = exporting.add_key("limited", collections=["sms"])
    assert exporting.client.get(URL, headers=limited).status_code == 403
    log_in(exporting, "viewer@example.com", "viewer")
    assert exporting.client.get(URL).status_code == 403


def test_key_with_user_scope_exports_only_records_of_that_user(exporting: TestApp) -> None:
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
def test_status_of_export_urls(exporting: TestApp, path: str, status: int) -> None:
    response = exporting.client.get(path, headers=exporting.headers)
    assert response.status_code == status
    if status >= 400:
        assert set(response.json) == {"message", "errors"}
