"""Requests of real clients, byte for byte, to the served product.

See docs/platform.md#16-clients.
"""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.applications.client_site import NODE, Site
from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive


class TestCommandLine:
    """Requests of the vendor's command line `vs`, which uses Node's fetch."""

    def log_in(self, site: Site) -> str:
        user = site.find_user(is_root=True)
        status, body, _ = site.request(
            "POST",
            "/login",
            {"email": user["email"], "password": user["password"]},
            Content_Type="application/json",
            **NODE,
        )
        assert status == 200
        return str(body["user_token"])

    def test_api_token_works_until_it_is_deleted(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": self.log_in(site)}
        name = quote('[{"property":"name","operator":"eq","value":"VoIPstudio CLI"}]')
        status, body, _ = site.request("GET", f"/apitokens?filter={name}", **session)
        assert (status, body["data"]) == (200, [])
        status, body, _ = site.request(
            "POST",
            "/apitokens",
            {"name": "VoIPstudio CLI", "expiry": 2592000},
            Content_Type="application/json",
            **session,
        )
        token = body["data"]["token"]
        assert (status, bool(token)) == (201, True)
        session["x-auth-token"] = token
        status, body, _ = site.request("GET", "/me", **session)
        assert status == 200
        assert {"id", "email", "first_name", "last_name", "customer_id"} <= body["data"].keys()
        status, content, _ = site.request("DELETE", f"/apitokens/{token}", **session)
        assert (status, content) == (204, b"")
        assert site.request("GET", "/me", **session)[0] == 401

    def test_login_with_a_second_factor_returns_a_token(self, site: Site) -> None:
        user = site.find_user(two_factor=True)
        login = {"email": user["email"], "password": user["password"]}
        status, body, _ = site.request("POST", "/login", login, Content_Type="application/json", **NODE)
        assert status == 202
        code = site.find_user(two_factor=True)["code"]
        status, body, _ = site.request(
            "POST",
            "/login2fa",
            {"code": code, "nonce": body["nonce"]},
            Content_Type="application/json",
            **NODE,
        )
        assert status == 200
        assert site.request("GET", "/me", x_auth_token=body["user_token"], **NODE)[0] == 200

    def test_pages_of_cdrs_add_up_to_the_total(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        status, body, _ = site.request(
            "GET", "/cdrs?limit=25&page=1&filter=%5B%5D&sort=id&dir=DESC", **session
        )
        assert (status, len(body["data"])) == (200, 25)
        total, collected, page = body["total"], 0, 0
        while collected < total:
            page += 1
            _, body, _ = site.request("GET", f"/cdrs?limit=100&page={page}&filter=%5B%5D", **session)
            assert body["data"], page
            collected += len(body["data"])
        assert collected == total

    @pytest.mark.parametrize(
        ("collection", "ending"), [("monitors", "mp3"), ("voicemessages", "mp3"), ("faxes", "pdf")]
    )
    def test_file_has_the_announced_size(self, site: Site, collection: str, ending: str) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        _, body, _ = site.request("GET", f"/{collection}?limit=1&page=1&sort=id&dir=DESC", **session)
        number = body["data"][0]["id"]
        status, body, _ = site.request("GET", f"/{collection}/{number}", **session)
        assert (status, body["data"]["id"]) == (200, number)
        status, content, headers = site.request("GET", f"/{collection}/{number}.{ending}", **session)
        assert status == 200
        assert len(content) == int(headers["Content-Length"])
        if collection == "monitors":
            assert len(content) == body["data"]["size"]
        if ending == "pdf":
            assert content.startswith(b"%PDF")

    def test_invoice_is_a_pdf_in_base64(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        status, body, _ = site.request("GET", "/transactions?limit=25&page=1&sort=id&dir=DESC", **session)
        assert status == 200
        number = body["data"][-1]["id"]
        assert site.request("GET", f"/transactions/{number}", **session)[1]["data"]["id"] == number
        status, body, headers = site.request("GET", f"/transactions/{number}.pdf", **session)
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, "application/json")
        assert base64.b64decode(body["data"]["base64"]).startswith(b"%PDF")

    @pytest.mark.parametrize(
        "name", ["monitors", "voicemessages", "faxes", "transactions", "cdrs", "sms", "conversations"]
    )
    def test_collection_lists_records_and_an_integer_total(self, site: Site, name: str) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        status, body, headers = site.request(
            "GET", f"/{name}?limit=25&page=1&filter=%5B%5D&sort=id&dir=DESC", **session
        )
        assert (status, type(body["total"])) == (200, int)
        assert 0 < len(body["data"]) == min(25, body["total"])
        numbers = [record["id"] for record in body["data"]]
        assert numbers == sorted(numbers, reverse=True)
        assert "Content-Encoding" not in headers


def test_singer_tap_receives_as_many_records_as_its_limit(site: Site) -> None:
    status, body, headers = site.request(
        "GET",
        "/cdrs?page=1&limit=10000",
        X_Auth_Token=site.key.partition(":")[2],
        User_Agent="python-requests/2.32.3",
    )
    assert status == 200
    assert len(body["data"]) == min(10_000, body["total"]) > 5000
    assert "X-Next-Page" not in headers
    assert all(isinstance(record["calldate"], str) for record in body["data"])


def test_data_studio_connector_collects_all_records_of_the_total(site: Site) -> None:
    basic = {"Authorization": "Basic " + base64.b64encode(site.key.encode()).decode()}
    assert site.request("GET", "/me", Content_Type="application/json", **basic)[0] == 200
    wrong = {"Authorization": "Basic " + base64.b64encode(site.key.encode() + b"x").decode()}
    assert site.request("GET", "/me", Content_Type="application/json", **wrong)[0] == 401
    entries = [
        {"operator": "gt", "property": "calldate", "value": "2000-01-01 00:00:00"},
        {"operator": "lt", "property": "calldate", "value": "2099-01-01 23:59:59"},
    ]
    text = quote(json.dumps(entries, separators=(",", ":"))).replace("%20", "+")
    rows: list[dict[str, Any]] = []
    for page in range(1, 101):
        status, body, _ = site.request(
            "GET", f"/cdrs?page={page}&limit=5000&filter={text}", Content_Type="application/json", **basic
        )
        assert status == 200
        rows += body["data"]
        if len(rows) >= body["total"]:
            break
    assert type(body["total"]) is int
    assert len(rows) == body["total"]
    assert {record["type"] for record in rows} <= {"O", "I", "M"}


def test_python_command_line_follows_a_call_and_sends_an_sms(site: Site) -> None:
    token = {"X_Auth_Token": site.key.partition(":")[2], "Content_Type": "application/json"}
    assert site.request("GET", "/ping", **token)[0] == 200
    sender = site.request("GET", "/ddis", **token)[1]["data"]
    number = next(row["e164"] for row in sender if row["sms_enabled"])
    user = site.request("GET", "/users", **token)[1]["data"][0]["id"]
    status, body, _ = site.request("POST", "/calls", {"to": "447700900123", "from": str(user)}, **token)
    assert status in (201, 412), body
    if status == 201:
        call = body["data"]["id"]
        assert site.request("GET", f"/calls/{call}", **token)[0] == 200
        assert site.request("DELETE", f"/calls/{call}", **token)[0] == 204
        wait_for(lambda: site.request("GET", f"/calls/{call}", **token)[0] == 404, "the end of the call")
    status, body, _ = site.request(
        "POST", "/sms", {"from": number, "to": "447700900123", "message": "Hi"}, **token
    )
    assert status == 201, body
    texts = site.request("GET", "/sms?sort=id&dir=DESC&limit=1", **token)[1]["data"]
    assert texts[0]["id"] == body["data"]["id"]
