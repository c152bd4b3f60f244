"""Errors in the platform's words, and paths as clients write them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]
UNKNOWN_PROPERTY = quote('[{"property":"nothing","operator":"eq","value":1}]')
INVALID_DATE = quote('[{"property":"calldate","operator":"gt","value":"yesterday"}]')


@pytest.mark.parametrize(
    ("query", "message", "field", "reason"),
    [
        ("filter=%7B", "Filtration error", "filter", "filter is not valid JSON"),
        (f"filter={UNKNOWN_PROPERTY}", "Filtration error", "filter", "has no property 'nothing'"),
        (f"filter={INVALID_DATE}", "Filtration error", "filter", "'yesterday' is not a date"),
        ("sort=nothing", "Validation error", "", "sort: /cdrs has no property 'nothing'"),
        ("dir=up", "Validation error", "", "dir must be ASC or DESC, not 'up'"),
        ("page=0", "Validation error", "", "page must be an integer of at least 1, not '0'"),
        ("group_by=nothing", "Validation error", "", "group_by: /cdrs has no property 'nothing'"),
    ],
)
def test_an_invalid_query_gets_the_message_of_the_platform_and_the_reason(
    app: TestApp, query: str, message: str, field: str, reason: str
) -> None:
    app.put("cdrs", CDR)
    response = app.get(f"/cdrs?{query}")
    assert response.status_code == 400
    assert response.json["message"] == message
    [entry] = response.json["errors"]
    assert (entry["code"], entry["field"]) == ("SF0010", field)
    assert reason in entry["message"]


def test_a_query_beyond_the_time_limit_gets_400_with_advice(
    app: TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("integration.web.api_requests.QUERY_TIMEOUT_SECONDS", 0.0)
    app.put("cdrs", {**CDR, "id": 20_001})
    app.mirror_db.write(
        lambda tx: tx.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " INSERT INTO cdrs (id, src_name, _doc, _source, _first_seen, _last_seen)"
            " SELECT i, 'Ann Example', '{}', 'sync', '', '' FROM n"
        )
    )
    condition = quote('[{"property":"src_name","operator":"like","value":"%Bob%"}]')
    response = app.get(f"/cdrs?filter={condition}")
    assert (response.status_code, response.json["message"]) == (400, "Filtration error")
    [entry] = response.json["errors"]
    assert entry["message"] == (
        "The query needs more than 0 s of CPU time and was cancelled. Filter by an indexed property."
    )


def test_a_word_is_a_valid_value_of_a_coded_field_without_records(app: TestApp) -> None:
    app.put("calls")
    for operator, value in (("eq", "in"), ("in", ["in", "out"]), ("gt", "a")):
        condition = json.dumps([{"property": "destination", "operator": operator, "value": value}])
        response = app.get(f"/calls?filter={quote(condition)}")
        assert (response.status_code, response.json) == (200, {"data": [], "total": 0})
    duration = quote('[{"property":"duration","operator":"gt","value":"long"}]')
    assert app.get(f"/calls?filter={duration}").status_code == 400


@pytest.mark.parametrize("query", [f"filter={UNKNOWN_PROPERTY}", "sort=nothing", "group_by=nothing"])
def test_an_empty_collection_whose_fields_are_not_specified_can_be_queried(app: TestApp, query: str) -> None:
    app.put("calltracking/cdrs")
    response = app.get(f"/calltracking/cdrs?{query}")
    assert (response.status_code, response.json) == (200, {"data": [], "total": 0})
    app.put("calltracking/cdrs", {"id": 1, "src": "447700900101"})
    assert app.get(f"/calltracking/cdrs?{query}").status_code == 400


@pytest.mark.parametrize("path", ["/cdrs/", "/cdrs/{id}/", "/ping/"])
def test_one_trailing_slash_is_accepted(app: TestApp, path: str) -> None:
    app.put("cdrs", CDR)
    path = path.replace("{id}", str(CDR["id"]))
    assert app.get(path).status_code == 200
    assert app.get(path).json == app.get(path.rstrip("/")).json
    assert app.get(f"{path}/").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept": "application/json"},
        {"X-Auth-Token": "a" * 40},
        {"Authorization": "Basic MTAwMDAwMTpzZWNyZXQ="},
        {"X-Auth-Token": "a" * 40, "Accept": "text/html"},
    ],
)
@pytest.mark.parametrize(
    ("path", "status"), [("/calls", 401), ("/", 401), ("/v9/voipstudio/cdrs", 404), ("/nothing", 404)]
)
def test_a_client_outside_the_facade_gets_json_and_never_the_login_page(
    app: TestApp, headers: dict[str, str], path: str, status: int
) -> None:
    response = app.client.get(path, headers=headers)
    assert response.status_code == status
    assert set(response.json) == {"message", "errors"}


def test_a_damaged_application_database_is_503_with_what_to_do(tmp_path: Path) -> None:
    with running_app(tmp_path) as app:
        headers = app.add_key("excel")
        app.restart()
        path = tmp_path / "house.db"
        with sqlite3.connect(path) as connection:
            ((root,),) = connection.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'keys'"
            ).fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(path, "r+b") as file:
            file.seek((root - 1) * 4096)
            file.write(b"\xee" * 4096)
        response = app.client.get(f"{app.base}/cdrs", headers=headers)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "60")
    assert "Run `switchroom doctor`" in str(response.json)
