"""The requests that real clients send (observed.md §10), byte for byte, to the product as it is served."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness import Product, Simulator, installed, wait_for

pytestmark = pytest.mark.exhaustive

NODE = {
    "accept": "*/*",
    "accept-language": "*",
    "sec-fetch-mode": "cors",
    "user-agent": "node",
    "accept-encoding": "gzip, deflate",
}
CRM = "https://crm.example.com"


@dataclass
class Site:
    """The product before a simulator, both as processes. `key` is a local one: user_id:secret."""

    simulator: Simulator
    product: Product
    key: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """Status, parsed body (bytes where it isn't JSON) and headers."""
        sent = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, content, got = self.product.client.ask(method, "/v1.2/voipstudio" + path, sent, named)
        is_json = "json" in (got["Content-Type"] or "") and content
        return status, json.loads(content) if is_json else content, got

    def person(self, **known: Any) -> dict[str, Any]:
        people = self.simulator.control("GET", "account")["people"]
        return next(row for row in people if all(row.get(name) == value for name, value in known.items()))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    # The Singer tap asks for one page of 10,000 and never for a second.
    settings = {"facade__cors_origins": CRM, "facade__max_limit": "100000"}
    folder = tmp_path_factory.mktemp("data")
    options = ("--seed", "5", "--no-traffic", "--cdrs", "6000")
    with installed(folder, *options, base="/v1.2/voipstudio", **settings) as (simulator, product):
        made = product.command("key", "add", "clients", "--scope", "write")
        found = Site(simulator, product, made.stdout.strip())
        token = found.key.partition(":")[2]

        def read() -> bool:
            return all(
                found.ask("GET", f"/{name}?limit=1", X_Auth_Token=token)[2]["X-Mirror-Complete"] == "true"
                for name in ("cdrs", "monitors", "users", "queues", "sms")
            )

        wait_for(read, "the mirror", 180)
        yield found


class TestCommandLine:
    """The vendor's own `vs`, Node's fetch."""

    def log_in(self, site: Site) -> str:
        person = site.person(is_root=True)
        status, body, _ = site.ask(
            "POST",
            "/login",
            {"email": person["email"], "password": person["password"]},
            Content_Type="application/json",
            **NODE,
        )
        assert status == 200
        return str(body["user_token"])

    def test_it_logs_in_makes_a_token_and_logs_out(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": self.log_in(site)}
        name = quote('[{"property":"name","operator":"eq","value":"VoIPstudio CLI"}]')
        status, body, _ = site.ask("GET", f"/apitokens?filter={name}", **session)
        assert (status, body["data"]) == (200, [])
        status, body, _ = site.ask(
            "POST",
            "/apitokens",
            {"name": "VoIPstudio CLI", "expiry": 2592000},
            Content_Type="application/json",
            **session,
        )
        token = body["data"]["token"]
        assert (status, bool(token)) == (201, True)
        session["x-auth-token"] = token
        status, body, _ = site.ask("GET", "/me", **session)
        assert status == 200
        assert {"id", "email", "first_name", "last_name", "customer_id"} <= body["data"].keys()
        status, content, _ = site.ask("DELETE", f"/apitokens/{token}", **session)
        assert (status, content) == (204, b"")
        assert site.ask("GET", "/me", **session)[0] == 401

    def test_it_logs_in_with_a_code(self, site: Site) -> None:
        person = site.person(two_factor=True)
        login = {"email": person["email"], "password": person["password"]}
        status, body, _ = site.ask("POST", "/login", login, Content_Type="application/json", **NODE)
        assert status == 202
        code = site.person(two_factor=True)["code"]
        status, body, _ = site.ask(
            "POST",
            "/login2fa",
            {"code": code, "nonce": body["nonce"]},
            Content_Type="application/json",
            **NODE,
        )
        assert status == 200
        assert site.ask("GET", "/me", x_auth_token=body["user_token"], **NODE)[0] == 200

    def test_it_lists_a_page_and_all(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        status, body, _ = site.ask("GET", "/cdrs?limit=25&page=1&filter=%5B%5D&sort=id&dir=DESC", **session)
        assert (status, len(body["data"])) == (200, 25)
        total, collected, page = body["total"], 0, 0
        while collected < total:
            page += 1
            _, body, _ = site.ask("GET", f"/cdrs?limit=100&page={page}&filter=%5B%5D", **session)
            assert body["data"], page
            collected += len(body["data"])
        assert collected == total

    @pytest.mark.parametrize(
        ("collection", "ending"), [("monitors", "mp3"), ("voicemessages", "mp3"), ("faxes", "pdf")]
    )
    def test_it_downloads_and_compares_the_size(self, site: Site, collection: str, ending: str) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        _, body, _ = site.ask("GET", f"/{collection}?limit=1&page=1&sort=id&dir=DESC", **session)
        number = body["data"][0]["id"]
        status, body, _ = site.ask("GET", f"/{collection}/{number}", **session)
        assert (status, body["data"]["id"]) == (200, number)
        status, content, headers = site.ask("GET", f"/{collection}/{number}.{ending}", **session)
        assert status == 200
        assert len(content) == int(headers["Content-Length"])
        if collection == "monitors":
            assert len(content) == body["data"]["size"]
        if ending == "pdf":
            assert content.startswith(b"%PDF")

    def test_it_downloads_an_invoice(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        status, body, _ = site.ask("GET", "/transactions?limit=25&page=1&sort=id&dir=DESC", **session)
        assert status == 200
        number = body["data"][-1]["id"]
        assert site.ask("GET", f"/transactions/{number}", **session)[1]["data"]["id"] == number
        status, body, headers = site.ask("GET", f"/transactions/{number}.pdf", **session)
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, "application/json")
        assert base64.b64decode(body["data"]["base64"]).startswith(b"%PDF")

    @pytest.mark.parametrize(
        "name", ["monitors", "voicemessages", "faxes", "transactions", "cdrs", "sms", "conversations"]
    )
    def test_every_list_it_knows_has_records_and_a_number_of_them(self, site: Site, name: str) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        status, body, headers = site.ask(
            "GET", f"/{name}?limit=25&page=1&filter=%5B%5D&sort=id&dir=DESC", **session
        )
        assert (status, type(body["total"])) == (200, int)
        assert 0 < len(body["data"]) == min(25, body["total"])
        numbers = [record["id"] for record in body["data"]]
        assert numbers == sorted(numbers, reverse=True)
        assert "Content-Encoding" not in headers

    def test_it_downloads_a_batch_four_at_a_time(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        _, body, _ = site.ask("GET", "/monitors?limit=12&page=1&filter=%5B%5D", **session)
        sizes = {record["id"]: record["size"] for record in body["data"]}

        def download(number: int) -> int:
            status, content, _ = site.ask("GET", f"/monitors/{number}.mp3", **session)
            assert status == 200
            return len(content)

        with ThreadPoolExecutor(4) as pool:
            assert dict(zip(sizes, pool.map(download, sizes), strict=True)) == sizes

    def test_it_finds_what_is_wrong_in_the_message(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        for path, status in (("/monitors/5", 404), ("/monitors/5.mp3", 404), ("/cdrs?filter=%7B", 400)):
            found, body, _ = site.ask("GET", path, **session)
            assert (found, body["errors"]) == (status, [])
            assert body["message"]
        assert site.ask("GET", "/me", x_auth_token="0" * 40, **NODE)[0] == 401

    def test_a_download_that_the_platform_cuts_is_cut_for_it(self, site: Site) -> None:
        session = {**NODE, "x-auth-token": site.key.partition(":")[2]}
        _, body, _ = site.ask("GET", "/cdrs?limit=5", **session)
        for record in body["data"]:
            path = f"/cdrs/{record['id']}.pcap"
            site.simulator.control("POST", "faults", {"spec": f"truncate@{path}"})
            try:
                # Short of its length, or cut before the head was sent; never whole, never waited for.
                with pytest.raises((http.client.IncompleteRead, http.client.RemoteDisconnected)):
                    site.ask("GET", path, **session)
            finally:
                site.simulator.control("DELETE", "faults")
        status, content, headers = site.ask("GET", path, **session)
        assert (status, len(content)) == (200, int(headers["Content-Length"]))
        assert not [line for line in site.product.lines if "Traceback" in line]


def test_answers_are_never_in_pieces_that_name_a_next_page(site: Site) -> None:
    """A header of that name ends the tap's run; a body in chunks would be none that it can measure."""
    for path in ("/cdrs?page=1&limit=10000", "/monitors", "/me"):
        headers = site.ask("GET", path, X_Auth_Token=site.key.partition(":")[2])[2]
        assert "X-Next-Page" not in headers
        assert "Content-Length" in headers


def test_the_singer_tap_gets_as_many_as_it_asks_for(site: Site) -> None:
    status, body, headers = site.ask(
        "GET",
        "/cdrs?page=1&limit=10000",
        X_Auth_Token=site.key.partition(":")[2],
        User_Agent="python-requests/2.32.3",
    )
    assert status == 200
    assert len(body["data"]) == min(10_000, body["total"]) > 5000
    assert "X-Next-Page" not in headers
    assert all(isinstance(record["calldate"], str) for record in body["data"])


def test_the_data_studio_connector_collects_as_many_as_the_total_says(site: Site) -> None:
    basic = {"Authorization": "Basic " + base64.b64encode(site.key.encode()).decode()}
    assert site.ask("GET", "/me", Content_Type="application/json", **basic)[0] == 200
    wrong = {"Authorization": "Basic " + base64.b64encode(site.key.encode() + b"x").decode()}
    assert site.ask("GET", "/me", Content_Type="application/json", **wrong)[0] == 401
    entries = [
        {"operator": "gt", "property": "calldate", "value": "2000-01-01 00:00:00"},
        {"operator": "lt", "property": "calldate", "value": "2099-01-01 23:59:59"},
    ]
    text = quote(json.dumps(entries, separators=(",", ":"))).replace("%20", "+")
    rows: list[dict[str, Any]] = []
    for page in range(1, 101):
        status, body, _ = site.ask(
            "GET", f"/cdrs?page={page}&limit=5000&filter={text}", Content_Type="application/json", **basic
        )
        assert status == 200
        rows += body["data"]
        if len(rows) >= body["total"]:
            break
    assert type(body["total"]) is int
    assert len(rows) == body["total"]
    assert {record["type"] for record in rows} <= {"O", "I", "M"}


class TestQueueScript:
    """Raw brackets and commas in the URL; a body that must come in one read."""

    def ask(self, site: Site, method: str, target: str, body: bytes = b"") -> tuple[int, bytes, int]:
        """Status, body, and in how many reads the body came after its head."""
        credentials = base64.b64encode(site.key.encode()).decode()
        head = (
            f"{method} /v1.1/voipstudio/{target} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Basic {credentials}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", site.product.port), timeout=30) as connection:
            connection.sendall(head.encode() + body)
            got, reads = b"", 0
            while piece := connection.recv(1 << 20):
                if b"\r\n\r\n" in got or not (got + piece).endswith(b"\r\n\r\n"):
                    reads += 1
                got += piece
        top, _, content = got.partition(b"\r\n\r\n")
        return int(top.split()[1]), content, reads

    def test_its_credentials_have_the_form_it_insists_on(self, site: Site) -> None:
        assert re.fullmatch(r"[0-9]{6,7}:[a-f0-9]{40}", site.key)

    def test_it_reads_queues_and_logs_agents_out_and_in(self, site: Site) -> None:
        target = "queues?include=users&fields[users]=id,first_name,last_name,status"
        status, content, reads = self.ask(site, "GET", target)
        assert (status, reads) == (200, 1)
        assert len(content) < 16 * 1024
        queue = json.loads(content)["data"][0]
        assert {"id", "first_name", "last_name", "status"} == queue["users"][0].keys()
        agent = queue["users"][0]
        for logged_in in (not agent["status"], agent["status"]):
            users = [{"id": user["id"], "status": user["status"]} for user in queue["users"]]
            users[0]["status"] = logged_in
            body = json.dumps({"users": users}).encode()
            status, content, reads = self.ask(site, "PATCH", f"queues/{queue['id']}?include=users", body)
            assert (status, reads) == (200, 1)
            told = {user["id"]: user["status"] for user in json.loads(content)["data"]["users"]}
            assert told[agent["id"]] is logged_in


class TestConnector:
    """The CTI connector: a browser's requests from another origin."""

    @pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
    def test_the_browser_is_allowed_to_send_what_it_sends(self, site: Site, method: str) -> None:
        status, _, headers = site.ask(
            "OPTIONS",
            "/calls/7",
            Origin=CRM,
            Access_Control_Request_Method=method,
            Access_Control_Request_Headers="content-type,x-auth-token",
        )
        assert status == 204
        assert headers["Access-Control-Allow-Origin"] == CRM
        assert method in headers["Access-Control-Allow-Methods"].split(", ")
        allowed = headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert {"content-type", "x-auth-token"} <= set(allowed)
        _, _, others = site.ask("OPTIONS", "/calls/7", Origin="https://elsewhere.example.net")
        assert "Access-Control-Allow-Origin" not in others

    def test_it_calls_transfers_and_hangs_up(self, site: Site) -> None:
        person = site.person(is_root=True)
        browser = {"Content_Type": "application/json", "Origin": CRM}
        login = {"email": person["email"], "password": person["password"]}
        status, body, headers = site.ask("POST", "/login", login, **browser)
        assert status == 200
        assert headers["Access-Control-Allow-Origin"] == CRM
        browser["X_Auth_Token"] = body["user_token"]
        status, body, _ = site.ask("GET", "/me", **browser)
        assert status == 200
        assert {"id", "sip_password", "sip_domain"} <= body["data"].keys()
        assert site.ask("GET", "/ping", **browser)[0] == 200
        status, body, _ = site.ask("POST", "/calls", {"to": "442079460999"}, **browser)
        assert status == 201, body
        number = body["data"]["id"]
        wait_for(lambda: self._state(site, number, browser) == "CONNECTED", "the call to be answered")

        def is_done(change: dict[str, str]) -> bool:
            return 200 <= site.ask("PATCH", f"/calls/{number}", change, **browser)[0] < 400

        assert is_done({"action_url": f"{CRM}/7", "action_text": "Order 7"})
        # It was CONNECTED when the agent picked up, too, and rings again until the other end does.
        wait_for(lambda: is_done({"dst": "1002"}), "the transfer")
        status, _, _ = site.ask("DELETE", f"/calls/{number}", **browser)
        assert status in (204, 404)
        assert "id" in site.ask("GET", "/users", **browser)[1]["data"][0]
        assert site.ask("POST", "/logout", **browser)[0] == 200
        assert site.ask("GET", "/ping", **browser)[0] == 401

    def test_it_answers_a_call_that_rings(self, site: Site) -> None:
        person = site.person(is_root=True)
        wish = {"script": "plain_answered", "user": str(person["id"]), "until": "ringing"}
        number = site.simulator.control("POST", "calls", wish)["leg_ids"][0]
        browser = {
            "Content_Type": "application/json",
            "Origin": CRM,
            "X_Auth_Token": site.key.partition(":")[2],
        }
        assert self._state(site, number, browser) == "RINGING"
        status, content, headers = site.ask("PATCH", f"/calls/{number}", {"state": "CONNECTED"}, **browser)
        assert 200 <= status < 400, content
        assert headers["Access-Control-Allow-Origin"] == CRM
        wait_for(lambda: self._state(site, number, browser) == "CONNECTED", "the call to be answered")
        assert site.ask("DELETE", f"/calls/{number}", **browser)[0] == 204
        # A poll that was on its way may list it still.
        wait_for(lambda: site.ask("GET", f"/calls/{number}", **browser)[0] == 404, "the end of the call")

    def _state(self, site: Site, number: int, browser: dict[str, str]) -> object:
        status, body, _ = site.ask("GET", f"/calls/{number}", **browser)
        return body["data"]["state"] if status == 200 else None


def test_the_python_command_line_follows_a_call_and_sends_an_sms(site: Site) -> None:
    token = {"X_Auth_Token": site.key.partition(":")[2], "Content_Type": "application/json"}
    assert site.ask("GET", "/ping", **token)[0] == 200
    sender = site.ask("GET", "/ddis", **token)[1]["data"]
    number = next(row["e164"] for row in sender if row["sms_enabled"])
    user = site.ask("GET", "/users", **token)[1]["data"][0]["id"]
    status, body, _ = site.ask("POST", "/calls", {"to": "447700900123", "from": str(user)}, **token)
    assert status in (201, 412), body
    if status == 201:
        call = body["data"]["id"]
        assert site.ask("GET", f"/calls/{call}", **token)[0] == 200
        assert site.ask("DELETE", f"/calls/{call}", **token)[0] == 204
        wait_for(lambda: site.ask("GET", f"/calls/{call}", **token)[0] == 404, "the end of the call")
    status, body, _ = site.ask(
        "POST", "/sms", {"from": number, "to": "447700900123", "message": "Hi"}, **token
    )
    assert status == 201, body
    texts = site.ask("GET", "/sms?sort=id&dir=DESC&limit=1", **token)[1]["data"]
    assert texts[0]["id"] == body["data"]["id"]


def test_a_workflow_tool_makes_contacts_and_polls_campaigns(site: Site) -> None:
    token = {"X_Auth_Token": site.key.partition(":")[2], "Content_Type": "application/json"}
    status, body, _ = site.ask(
        "POST", "/contacts", {"first_name": "Grace", "last_name": "Example", "tel": "442079460123"}, **token
    )
    assert status == 201
    found = site.ask("GET", f"/contacts/{body['data']['id']}", **token)[1]
    assert found["data"] == body["data"]
    status, body, _ = site.ask("GET", "/calltracking/campaigns", **token)
    assert status == 200
    assert all("calldate" in row for row in body["data"])
    number = site.ask("GET", "/ddis?limit=1", **token)[1]["data"][0]["e164"]
    status, body, _ = site.ask("POST", "/leadcalls", {"caller_id": number, "to": "447700900123"}, **token)
    assert status == 201, body
    status, body, _ = site.ask("POST", "/webcalls", {"from": "447700900123", "to": "1001"}, **token)
    assert status in (201, 400), body
    if status == 400:
        # What the vendor's own account was always told (observed.md §5).
        assert body["message"]
