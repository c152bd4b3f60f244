"""Encodings of JSON from the platform, from clients and in webhooks."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
import requests

from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.application import TestApp
from tests.support.scripted_server import Handler, Server

USER = {"id": 1000002, "first_name": "Zoë", "password": "secret-password"}
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"]
"""UTF-8 with a byte order mark, UTF-16 with and without one, UTF-32."""


@pytest.fixture
def platform(wired_platform: Server) -> Server:
    return wired_platform


def sends(value: Any, encoding: str, kind: str = "application/json") -> Handler:
    body = json.dumps(value, ensure_ascii=False).encode(encoding)
    return lambda _request, reply: reply.content(body, kind)


def find_webhook_path(app: TestApp) -> str:
    return str(re.findall(r"/webhooks/[\w-]+", app.log_in().get("/system").text)[0])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_platform_json_is_read_in_every_unicode_encoding(app: TestApp, encoding: str) -> None:
    app.platform.routes["/users"] = sends({"data": [USER], "total": 1}, encoding)
    app.platform.routes["/users/1000002"] = sends({"data": USER}, encoding)
    run_full_sync(app.context, PLAN["users"])
    assert app.get("/users/1000002").json["data"]["first_name"] == "Zoë"
    # A response that is passed on is readable, and its secrets are masked.
    kind = "application/json; charset=utf-16"
    app.platform.routes["/users/1000003"] = sends({"data": USER | {"id": 1000003}}, encoding, kind)
    response = app.get("/users/1000003")
    assert response.status_code == 200
    assert (response.json["data"]["first_name"], response.json["data"]["password"]) == ("Zoë", None)
    app.platform.routes["/users/1000003"] = sends({"message": "Zoë is missing"}, encoding)
    app.platform.routes["/contacts"] = lambda _request, reply: reply.content(
        json.dumps({"message": "Limited", "errors": []}).encode(encoding), "application/json", 400
    )
    with pytest.raises(Exception, match="Limited"):
        app.context.platform.get("/contacts")


@pytest.mark.parametrize("encoding", [*ENCODINGS, "iso-8859-1"])
def test_the_body_of_a_client_is_sent_to_the_platform_as_utf8(app: TestApp, encoding: str) -> None:
    app.platform.respond("/sms", {"data": {"id": 1}}, 201)
    body = json.dumps({"text": "Zoë"}, ensure_ascii=False).encode(encoding)
    kind = "application/json; charset=iso-8859-1"
    headers = app.add_key("writer", "write")
    response = app.client.post(f"{app.base}/sms", data=body, content_type=kind, headers=headers)
    assert response.status_code == 201
    assert json.loads(app.platform.requests[-1].body) == {"text": "Zoë"}
    app.platform.respond("/login", {"user_id": 1000002, "user_token": "t" * 40})
    body = json.dumps({"email": "zoë@example.com", "password": "p"}, ensure_ascii=False).encode(encoding)
    assert app.client.post(f"{app.base}/login", data=body, content_type=kind).status_code == 200
    assert json.loads(app.platform.requests[-1].body)["email"] == "zoë@example.com"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_webhook_is_interpreted_in_every_unicode_encoding(app: TestApp, encoding: str) -> None:
    app.insert("users", id=1000002, _doc="{}")
    url = find_webhook_path(app)
    event = {"id": "e.1", "event_name": "call.ringing", "call_id": 70, "src": "447700900123", "dst": "Zoë"}
    body = json.dumps(event, ensure_ascii=False).encode(encoding)
    response = requests.post(app.url + url, data=body, timeout=20)
    assert (response.status_code, response.json()) == (200, {"status": "stored"})
    app.apply_webhooks()
    with app.context.inbox.database.read() as connection:
        rows = connection.execute("SELECT event_id, event_name, call_id, status, body FROM inbox").fetchall()
    assert [tuple(row) for row in rows] == [("e.1", "call.ringing", 70, "done", body)]


def test_a_compressed_request_body_is_415_everywhere(app: TestApp) -> None:
    url = find_webhook_path(app)
    body = gzip.compress(b'{"id": "e.2", "event_name": "call.ringing", "call_id": 71}')
    headers = {**app.add_key("writer", "write"), "Content-Type": "application/json"}
    for path in (url, f"{app.base}/sms", "/login", "/exports/prepared/1"):
        for encoding in ("gzip", "br", "identity, deflate"):
            response = requests.post(
                app.url + path, data=body, headers={**headers, "Content-Encoding": encoding}, timeout=20
            )
            assert (response.status_code, response.headers["Accept-Encoding"]) == (415, "identity"), path
            assert "without compression" in response.json()["message"]
    plain = requests.post(
        app.url + url, json={"id": "e.3"}, headers={"Content-Encoding": "identity"}, timeout=20
    )
    assert plain.json() == {"status": "stored"}
    with app.context.inbox.database.read() as connection:
        assert [row[0] for row in connection.execute("SELECT event_id FROM inbox")] == ["e.3"]
