"""Call-back list and reports of the own API, compared with the pages of the same application."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from integration.access.keys import KeyLimits
from integration.access.rights import WORKSPACE
from integration.settings.model import list_warnings
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import TestApp, running_app
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import FakeExchange
from tests.support.people import ALICE, BOB, CAROL, DAVE

NOW = datetime(2026, 9, 2, 12, tzinfo=UTC)


@pytest.fixture
def office(shared_app: SharedApp) -> SharedApp:
    """Three callers who were missed on 2 September, one of them by the user 100, and one answered call."""
    app = shared_app
    app.clock.set(NOW.timestamp())
    for member in (ALICE, BOB, CAROL, DAVE):
        app.add(member)
    app.call(101, "2026-09-02 09:00:00", outcome="missed", talk_seconds=None, wait_seconds=20)
    app.call(102, "2026-09-02 10:00:00", outcome="missed", talk_seconds=None, party="447700900202",
             party_e164="+447700900202")  # fmt: skip
    app.call(103, "2026-09-02 11:00:00", outcome="missed", talk_seconds=None, party="447700900303",
             party_e164="+447700900303", user_id=100)  # fmt: skip
    app.call(104, "2026-09-02 11:30:00", user_id=100, user_name="Carol Example", party="447700900404",
             party_e164="+447700900404")  # fmt: skip
    update_from_mirror(app.app_db, app.mirror_db)
    return app


def request(app: TestApp, method: str, path: str, **options: Any) -> Any:
    return app.client.open(path, method=method, **options)


def make_key(app: TestApp, name: str = "crm", **options: Any) -> dict[str, str]:
    return app.add_key(name, "write", limits=KeyLimits(rights=frozenset({WORKSPACE.name})), **options)


def list_parties(app: TestApp, key: dict[str, str], query: str = "") -> list[tuple[int, str]]:
    response = request(app, "GET", f"/api/missed{query}", headers=key)
    assert response.status_code == 200, response.text
    return [(item["id"], item["party"]) for item in response.json["data"]]


def post(app: TestApp, key: dict[str, str], path: str, body: Any = None, **headers: str) -> Any:
    return request(app, "POST", f"/api/missed/{path}", headers={**key, **headers}, json=body or {})


def test_the_list_has_pages_and_only_what_the_key_sees(office: SharedApp) -> None:
    key = make_key(office)
    everyone = list_parties(office, key)
    assert [party for _, party in everyone] == ["+447700900303", "+447700900202", "+447700900101"]
    first = request(office, "GET", "/api/missed?limit=2", headers=key).json
    assert [item["party"] for item in first["data"]] == ["+447700900303", "+447700900202"]
    assert list_parties(office, key, f"?limit=2&next={first['next']}") == everyone[2:]
    # Missed calls of a group belong to everybody, those of another user do not.
    other = make_key(office, "other", user=200)
    assert list_parties(office, other) == everyone[1:]
    assert post(office, other, f"{everyone[0][0]}/claim", {"owner": BOB.email}).status_code == 404


def test_claim_note_and_done_are_those_of_the_page_missed(office: SharedApp) -> None:
    key = make_key(office)
    number = list_parties(office, key)[0][0]
    claimed = post(office, key, f"{number}/claim", {"owner": BOB.email})
    assert (claimed.status_code, claimed.json["data"]["owner"]) == (200, BOB.email)
    assert post(office, key, f"{number}/claim", {"owner": BOB.email}).status_code == 200
    taken = post(office, key, f"{number}/claim", {"owner": CAROL.email})
    assert (taken.status_code, taken.json["message"]) == (409, f"{BOB.email} claimed this caller.")
    assert (
        post(office, key, f"{number}/note", {"note": "Rings at five"}).json["data"]["note"] == "Rings at five"
    )
    assert "Rings at five" in office.log_in(ALICE).get("/missed").text
    assert post(office, key, f"{number}/done", {"owner": CAROL.email}).status_code == 409
    done = post(office, key, f"{number}/done", {"owner": BOB.email}).json["data"]
    assert (done["state"], done["closed_by"], done["note"]) == ("closed", BOB.email, "Rings at five")
    assert [item[0] for item in list_parties(office, key, "?state=closed")] == [number]
    with office.app_db.read() as connection:
        entries = connection.execute("SELECT who, what FROM audit ORDER BY id").fetchall()
    assert {tuple(entry) for entry in entries} >= {
        ("key crm", "call-back assign"), ("key crm", "call-back note"), ("key crm", "call-back close"),
    }  # fmt: skip
    by_key = post(office, key, f"{list_parties(office, key)[0][0]}/done").json["data"]
    assert by_key["closed_by"] == "key crm"


def test_a_repeated_post_with_one_idempotency_key_happens_once(office: SharedApp) -> None:
    key = make_key(office)
    number = list_parties(office, key)[0][0]
    once = {"Idempotency-Key": "7d0f"}
    first = post(office, key, f"{number}/done", **once)
    office.log_in(ALICE).post(f"/missed/{number}/reopen")
    assert post(office, key, f"{number}/done", **once).json == first.json
    assert number in [item[0] for item in list_parties(office, key)], "the repeat closes nothing again"
    assert post(office, key, f"{number}/done", {"note": "x"}, **once).status_code == 422
    refused = post(
        office, key, f"{number}/claim", {"owner": "nobody@example.com"}, **{"Idempotency-Key": "8"}
    )
    assert refused.status_code == 400
    assert (
        post(office, key, f"{number}/claim", {"owner": BOB.email}, **{"Idempotency-Key": "8"}).status_code
        == 200
    )


def test_what_an_item_cannot_take_is_refused(office: SharedApp) -> None:
    key = make_key(office)
    number = list_parties(office, key)[0][0]
    for path, body, status, words in (
        (f"{number}/claim", {}, 400, "e-mail address of a dashboard user"),
        (f"{number}/claim", {"owner": "x@example.com"}, 400, "no dashboard user 'x@example.com'"),
        (f"{number}/claim", {"note": "x"}, 400, "Members are owner"),
        (f"{number}/claim", {"owner": DAVE.email}, 400, "who can call back"),
        (f"{number}/note", {}, 400, "Send the text of the note"),
        (f"{number}/note", {"note": 5}, 400, "a text of at most 500"),
        (f"{number}/note", {"note": "x" * 501}, 400, "a text of at most 500"),
        (f"{number}/note", ["x"], 400, "must be a JSON object"),
        (f"{number}/open", {}, 404, "no resource"),
        ("999/done", {}, 404, "no item 999"),
    ):
        response = post(office, key, path, body)
        assert (response.status_code, words in response.json["message"]) == (status, True), response.text
    as_form = request(office, "POST", f"/api/missed/{number}/done", headers=key, data={"note": "x"})
    assert as_form.status_code == 415
    read_only = office.add_key("reader", "read", limits=KeyLimits(rights=frozenset({WORKSPACE.name})))
    assert post(office, read_only, f"{number}/done").status_code == 403
    assert post(office, office.headers, f"{number}/done").status_code == 403
    assert request(office, "GET", "/api/missed", headers=office.headers).status_code == 403


def test_a_report_has_the_figures_of_the_page_reports(office: SharedApp) -> None:
    key = make_key(office)
    report = request(office, "GET", "/api/reports/2026-09-01..2026-09-02", headers=key).json["data"]
    assert (report["from"], report["to"], report["timezone"]) == ("2026-09-01", "2026-09-02", "Europe/London")
    total = report["total"]
    assert (total["calls"], total["inbound"], total["answered"], total["missed"], total["unanswered"]) == (
        4, 4, 1, 3, 3,
    )  # fmt: skip
    assert (total["service_level_percent"], total["average_wait"], total["average_talk"]) == (25.0, 7.0, 60.0)
    assert report["called_back"] == {"unanswered": 3, "within_an_hour": 0, "within_a_day": 0}
    assert [(day["day"], day["calls"]) for day in report["days"]] == [("2026-09-02", 4)]
    assert [(person["key"], person["answered"]) for person in report["people"]] == [("100", 1)]
    assert [line["inbound"] for line in report["lines"]] == [4]
    assert request(office, "GET", "/api/reports/today", headers=key).json["data"]["total"] == total
    week = request(office, "GET", "/api/reports/week", headers=key).json["data"]
    assert (week["from"], week["to"]) == ("2026-08-31", "2026-09-02"), "weeks begin on Monday"
    page = office.log_in(BOB).get("/reports?from=2026-09-01&to=2026-09-02").text
    assert 'data-count-of="1">1</a> <small>of 4' in page, "the service level of the page"


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ("year", "Use today, week, month"),
        ("2026-09-02..2026-09-01", "after the last one"),
        ("2025-07-28..2026-09-01", "at most 400 days"),
        ("2026-09-01..2026-02-30", "is not a day"),
    ],
)
def test_a_period_that_cannot_be_reported_is_refused(office: SharedApp, period: str, words: str) -> None:
    response = request(office, "GET", f"/api/reports/{period}", headers=make_key(office))
    assert (response.status_code, words in response.json["message"]) == (400, True), response.text


def test_reports_need_the_right_and_all_users(office: SharedApp) -> None:
    assert request(office, "GET", "/api/reports/week", headers=office.headers).status_code == 403
    assert request(office, "GET", "/api/reports/week", headers=make_key(office, user=100)).status_code == 403


def test_responses_have_the_form_of_the_openapi_document(office: SharedApp) -> None:
    """Of every operation one response, and no member that the document does not name."""
    from jsonschema import Draft202012Validator

    key = make_key(office)
    everything = office.add_key(
        "everything", limits=KeyLimits(rights=frozenset({WORKSPACE.name, "recordings"}))
    )
    document = request(office, "GET", "/openapi.json", headers=key).json
    number = list_parties(office, key)[0][0]
    start = request(office, "GET", "/api/events", headers=key).json["next"]
    office.mirror_db.write(lambda tx: tx.announce("call", 101, {"event": "call.ended"}))
    responses = {
        "/api/calls": request(office, "GET", "/api/calls", headers=key),
        "/api/calls/{id}": request(office, "GET", "/api/calls/101", headers=everything),
        "/api/missed": request(office, "GET", "/api/missed", headers=key),
        "/api/events": request(office, "GET", f"/api/events?after={start}", headers=key),
        "/api/reports/{period}": request(office, "GET", "/api/reports/week", headers=key),
        "/api/missed/{id}/claim": post(office, key, f"{number}/claim", {"owner": BOB.email}),
        "/api/missed/{id}/note": post(office, key, f"{number}/note", {"note": "x"}),
        "/api/missed/{id}/done": post(office, key, f"{number}/done"),
    }
    own_paths = {path: item for path, item in document["paths"].items() if path.startswith("/api/")}
    assert responses.keys() == own_paths.keys()
    for path, response in responses.items():
        assert response.status_code == 200, path
        [operation] = own_paths[path].values()
        assert (operation["tags"], operation["servers"]) == (["Switchroom"], [{"url": "/"}])
        schema = close(operation["responses"]["200"]["content"]["application/json"]["schema"])
        assert [error.message for error in Draft202012Validator(schema).iter_errors(response.json)] == [], (
            path
        )
    [call, *_] = request(office, "GET", "/api/calls", headers=key).json["data"]
    documented = own_paths["/api/calls"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert list(documented["properties"]["data"]["items"]["properties"]) == [
        *call,
        "merged_into",
    ], "the columns of v_calls"


def close(schema: Any) -> Any:
    """Return the schema without undescribed members of objects that have described ones."""
    if isinstance(schema, list):
        return [close(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(value) for name, value in schema.items()}
    return {**closed, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else closed


def test_a_base_path_of_the_facade_below_api_turns_the_own_api_off(
    tmp_path: Path, platform: FakeExchange
) -> None:
    with running_app(tmp_path, platform=platform, facade__base_paths="/api/v1,/v1.2") as app:
        app.put("cdrs")
        assert request(app, "GET", "/api/v1/cdrs", headers=app.headers).json == {"data": [], "total": 0}
        assert request(app, "GET", "/api/calls", headers=app.headers).status_code in (302, 401, 404)
        assert "/api/calls" not in request(app, "GET", "/openapi.json", headers=app.headers).json["paths"]
        assert [line for line in list_warnings(app.context.settings) if "/api/v1" in line] == [
            "facade.base_paths: /api/v1 has precedence, so the own API below /api is off"
        ]
