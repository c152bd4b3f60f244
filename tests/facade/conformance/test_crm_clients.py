"""Requests of queue scripts, CRM connectors and workflow tools.

See docs/platform.md#16-clients.
"""

from __future__ import annotations

import base64
import json
import re
import socket

import pytest

from tests.support.applications.client_site import CRM, Site
from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive


class TestQueueScript:
    """Requests with raw brackets and commas in the URL.

    The script requires each response body to arrive in one read.
    """

    def request(self, site: Site, method: str, target: str, body: bytes = b"") -> tuple[int, bytes, int]:
        """Send a request. Return status, body and number of body reads."""
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

    def test_credentials_have_the_required_form(self, site: Site) -> None:
        assert re.fullmatch(r"[0-9]{6,7}:[a-f0-9]{40}", site.key)

    def test_queue_members_are_read_logged_out_and_logged_in(self, site: Site) -> None:
        target = "queues?include=users&fields[users]=id,first_name,last_name,status"
        status, content, reads = self.request(site, "GET", target)
        assert (status, reads) == (200, 1)
        assert len(content) < 16 * 1024
        queue = json.loads(content)["data"][0]
        assert {"id", "first_name", "last_name", "status"} == queue["users"][0].keys()
        agent = queue["users"][0]
        for logged_in in (not agent["status"], agent["status"]):
            users = [{"id": user["id"], "status": user["status"]} for user in queue["users"]]
            users[0]["status"] = logged_in
            body = json.dumps({"users": users}).encode()
            status, content, reads = self.request(site, "PATCH", f"queues/{queue['id']}?include=users", body)
            assert (status, reads) == (200, 1)
            statuses = {user["id"]: user["status"] for user in json.loads(content)["data"]["users"]}
            assert statuses[agent["id"]] is logged_in


class TestConnector:
    """The CTI connector: a browser's requests from another origin."""

    def test_call_is_made_transferred_and_ended(self, site: Site) -> None:
        user = site.find_user(is_root=True)
        browser = {"Content_Type": "application/json", "Origin": CRM}
        login = {"email": user["email"], "password": user["password"]}
        status, body, headers = site.request("POST", "/login", login, **browser)
        assert status == 200
        assert headers["Access-Control-Allow-Origin"] == CRM
        browser["X_Auth_Token"] = body["user_token"]
        status, body, _ = site.request("GET", "/me", **browser)
        assert status == 200
        assert {"id", "sip_password", "sip_domain"} <= body["data"].keys()
        assert site.request("GET", "/ping", **browser)[0] == 200
        status, body, _ = site.request("POST", "/calls", {"to": "442079460999"}, **browser)
        assert status == 201, body
        number = body["data"]["id"]
        wait_for(lambda: self._state(site, number, browser) == "CONNECTED", "the call to be answered")

        def is_done(change: dict[str, str]) -> bool:
            return 200 <= site.request("PATCH", f"/calls/{number}", change, **browser)[0] < 400

        assert is_done({"action_url": f"{CRM}/7", "action_text": "Order 7"})
        # The call is CONNECTED twice: when the agent answers, and when the other end does.
        wait_for(lambda: is_done({"dst": "1002"}), "the transfer")
        status, _, _ = site.request("DELETE", f"/calls/{number}", **browser)
        assert status in (204, 404)
        assert "id" in site.request("GET", "/users", **browser)[1]["data"][0]
        assert site.request("POST", "/logout", **browser)[0] == 200
        assert site.request("GET", "/ping", **browser)[0] == 401

    def test_ringing_call_is_answered_and_ended(self, site: Site) -> None:
        user = site.find_user(is_root=True)
        call_script = {"script": "plain_answered", "user": str(user["id"]), "until": "ringing"}
        number = site.simulator.control("POST", "calls", call_script)["leg_ids"][0]
        browser = {
            "Content_Type": "application/json",
            "Origin": CRM,
            "X_Auth_Token": site.key.partition(":")[2],
        }
        assert self._state(site, number, browser) == "RINGING"
        status, content, headers = site.request(
            "PATCH", f"/calls/{number}", {"state": "CONNECTED"}, **browser
        )
        assert 200 <= status < 400, content
        assert headers["Access-Control-Allow-Origin"] == CRM
        wait_for(lambda: self._state(site, number, browser) == "CONNECTED", "the call to be answered")
        assert site.request("DELETE", f"/calls/{number}", **browser)[0] == 204
        # A live poll that was already sent may still list the call.
        wait_for(lambda: site.request("GET", f"/calls/{number}", **browser)[0] == 404, "the end of the call")

    def _state(self, site: Site, number: int, browser: dict[str, str]) -> object:
        status, body, _ = site.request("GET", f"/calls/{number}", **browser)
        return body["data"]["state"] if status == 200 else None


def test_workflow_tool_creates_contacts_and_calls_and_lists_campaigns(site: Site) -> None:
    token = {"X_Auth_Token": site.key.partition(":")[2], "Content_Type": "application/json"}
    status, body, _ = site.request(
        "POST", "/contacts", {"first_name": "Grace", "last_name": "Example", "tel": "442079460123"}, **token
    )
    assert status == 201
    found = site.request("GET", f"/contacts/{body['data']['id']}", **token)[1]
    assert found["data"] == body["data"]
    status, body, _ = site.request("GET", "/calltracking/campaigns", **token)
    assert status == 200
    assert all("calldate" in row for row in body["data"])
    number = site.request("GET", "/ddis?limit=1", **token)[1]["data"][0]["e164"]
    status, body, _ = site.request("POST", "/leadcalls", {"caller_id": number, "to": "447700900123"}, **token)
    assert status == 201, body
    status, body, _ = site.request("POST", "/webcalls", {"from": "447700900123", "to": "1001"}, **token)
    assert status in (201, 400), body
    if status == 400:
        # The vendor's own account always received this error (docs/platform.md#5-errors).
        assert body["message"]
