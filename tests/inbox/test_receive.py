"""Webhook receiver over HTTP: acknowledged webhooks are stored, others rejected."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from werkzeug.serving import make_server
from werkzeug.test import EnvironBuilder, run_wsgi_app

from integration.inbox.receive import BODY_LIMIT
from integration.inbox.receive import Receiver as Application
from integration.inbox.store import Inbox
from integration.settings.model import Webhooks

SECRET = "s" * 43
SAMPLES = sorted((Path(__file__).parents[1] / "fixtures" / "platform").glob("webhook-*.json"))


class Receiver:
    def __init__(self, folder: Path, settings: Webhooks, secrets=(SECRET,)):
        self.inbox = Inbox(folder / "inbox.db")
        self.application = Application(self.inbox, settings, list(secrets))
        self.server = make_server("127.0.0.1", 0, self.application, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def request(self, method="POST", body=b"", path=f"/webhooks/{SECRET}", headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=30)
        # The receiver may reject a request by its headers before the entire body was sent.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, dict(headers), encode_chunked=not isinstance(body, bytes))
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content) if content else None, response.headers

    def post(self, payload, **more):
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        status, content, _ = self.request(body=body, **more)
        return status, content

    def rows(self):
        with sqlite3.connect(self.inbox.database.path) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM inbox ORDER BY seq")]

    def close(self):
        self.server.shutdown()
        self.inbox.close()


@pytest.fixture
def make_receiver(tmp_path):
    receivers = []

    def start(secrets=(SECRET,), **settings):
        receivers.append(Receiver(tmp_path, Webhooks(**settings), secrets))
        return receivers[-1]

    yield start
    for receiver in receivers:
        receiver.close()


@pytest.fixture
def receiver(make_receiver):
    return make_receiver()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_each_kind_of_webhook_is_stored_byte_for_byte(receiver, sample):
    body = sample.read_bytes()
    assert receiver.post(body) == (200, {"status": "stored"})
    (row,) = receiver.rows()
    payload = json.loads(body)
    assert row["body"] == body
    assert row["event_id"] == payload["id"]
    assert row["event_name"] == payload.get("event_name", payload.get("nome_do_evento"))
    assert row["call_id"] == payload.get("call_id")
    assert (row["status"], row["deliveries"], row["flagged"]) == ("new", 1, 0)


def test_acknowledgements_are_counted_by_result(receiver):
    event = {"id": "x.1", "event_name": "call.initial"}
    for payload in (event, event, {"id": "x.2"}, b"{", b"{}"):
        receiver.post(payload)
    receiver.request("GET")
    receiver.request(path="/webhooks/wrong")
    receiver.request("PUT")
    assert receiver.inbox.count_acknowledgements() == {
        "stored": 2,
        "duplicate": 1,
        "unreadable": 1,
        "refused": 2,
    }


def test_two_bodies_with_one_id_are_stored_and_the_second_is_flagged(receiver):
    for text in ("one", "two"):
        assert receiver.post({"id": "x.1", "event_name": "sms.received", "text": text})[1] == {
            "status": "stored"
        }
    assert [row["flagged"] for row in receiver.rows()] == [0, 1]


def test_unusual_bodies_are_stored_as_received(receiver):
    bodies = {
        "unreadable": (
            *(b"not json", b"[1,2]", b'{"id":"x.1"}{"id":"x.2"}', b'"text"', rb'{"id":"x.1","from_no":"\x"}'),
            *(b'{"id":"x.1","call_id":01}', b"\xff\xfe{\x00}"),
        ),
        "stored": (
            *(
                b"\xff\xfe{\x00}\x00",
                b'{"a":NaN}',
                b'{"a":"\\ud800"}',
                b'{"a":"\x00"}',
                b'\xef\xbb\xbf{"a":1}',
            ),
            *(b'{"a":' + b"9" * 5000 + b"}", b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
        ),
    }
    for status, received in bodies.items():
        for body in received:
            assert (*receiver.post(body), receiver.rows()[-1]["body"]) == (200, {"status": status}, body)
    text = '{"id":"x.1","event_name":"call.initial","call_id":7,"src_name":"Zoë"}'.encode("windows-1252")
    assert receiver.post(text) == (200, {"status": "stored"})
    row = receiver.rows()[-1]
    assert (row["body"], row["event_id"], row["call_id"]) == (text, "x.1", 7)


def test_methods_paths_and_probes(receiver):
    """A probe and an empty event get 200 and are not stored."""
    for suffix in ("", "/"):
        for method in ("GET", "HEAD"):
            assert receiver.request(method, path=f"/webhooks/{SECRET}{suffix}")[0] == 200
            assert receiver.request(method, path=f"/webhooks/wrong{suffix}")[0] == 404
        for body in (b"", b"{}", b" {} \n"):
            assert receiver.request(body=body, path=f"/webhooks/{SECRET}{suffix}")[0] == 200
    assert receiver.rows() == []
    assert receiver.post({"id": "slash"}, path=f"/webhooks/{SECRET}/") == (200, {"status": "stored"})
    for path in (f"/webhooks/{SECRET}x/", f"/webhooks/{SECRET}//", f"/webhooks/{SECRET}/x", "/webhooks//"):
        assert receiver.post({"id": path}, path=path)[0] == 404
    status, body, _ = receiver.request("PUT", body=b"{}")
    assert (status, sorted(body)) == (405, ["errors", "message"])
    assert len(receiver.rows()) == 1


@pytest.mark.parametrize(("network", "status"), [("192.0.2.0/24", 404), ("127.0.0.0/8", 200)])
def test_only_addresses_inside_the_list_are_accepted(make_receiver, network, status):
    assert make_receiver(allow_from=[network]).post({"id": "1"})[0] == status


def test_a_body_of_the_maximum_size_is_stored_and_a_larger_one_gets_413(receiver):
    assert receiver.post(b'{"a":"%s"}' % (b"x" * (BODY_LIMIT - len('{"a":""}'))))[0] == 200
    assert receiver.post(b"x" * (BODY_LIMIT + 1))[0] == 413
    assert len(receiver.rows()) == 1


def test_a_chunked_body_over_the_limit_gets_413(receiver):
    chunks = iter([b"x" * 65536] * 5)
    assert receiver.request(body=chunks, headers=[("Transfer-Encoding", "chunked")])[0] == 413
    assert receiver.rows() == []


def test_a_truncated_body_gets_400_and_is_not_stored(receiver):
    """The server passes on such a body when the sender disconnects."""
    builder = EnvironBuilder(f"/webhooks/{SECRET}", method="POST", data=b'{"id":"1"')
    environ = builder.get_environ() | {"CONTENT_LENGTH": "500", "wsgi.input_terminated": True}
    assert run_wsgi_app(receiver.application, environ)[1].startswith("400")
    assert receiver.rows() == []


def test_all_wrong_secrets_get_the_same_404(receiver):
    responses = [
        receiver.request(path=f"/webhooks/{wrong}", body=b'{"id":"1"}')
        for wrong in ("x", "s" * 42, "%C3%A9", SECRET + "s")
    ]
    assert {(status, json.dumps(body)) for status, body, _ in responses} == {
        (404, '{"message": "Not found", "errors": []}')
    }
    assert receiver.rows() == []


def test_both_secrets_are_accepted_during_a_rotation(make_receiver):
    receiver = make_receiver(secrets=("new-secret", "old-secret"))
    for secret in ("new-secret", "old-secret"):
        assert receiver.post({"id": secret}, path=f"/webhooks/{secret}")[0] == 200
    assert receiver.request(path=f"/webhooks/{SECRET}", body=b'{"id":"1"}')[0] == 404


def test_configured_basic_credentials_are_required(make_receiver):
    receiver = make_receiver(username="hook", password="pässword")
    right = base64.b64encode("hook:pässword".encode()).decode()
    wrong = base64.b64encode(b"hook:other").decode()
    for header, expected in [
        (None, 401),
        ("Basic !!!", 401),
        ("Basic \xe9", 401),
        (f"Basic {wrong}", 401),
        (f"Bearer {right}", 401),
        (f"Basic {right}", 200),
    ]:
        headers = [("Authorization", header)] if header else []
        assert receiver.post({"id": str(header)}, headers=headers)[0] == expected
    assert len(receiver.rows()) == 1


def test_a_locked_inbox_gets_503_with_retry_after(make_receiver, monkeypatch):
    monkeypatch.setattr("integration.sqlite.database.BUSY_SECONDS", 0.05)
    receiver = make_receiver()
    other_program = sqlite3.connect(receiver.inbox.database.path, isolation_level=None)
    other_program.execute("BEGIN IMMEDIATE")
    status, _, headers = receiver.request(body=b'{"id":"1"}')
    assert (status, headers["Retry-After"]) == (503, "5")
    other_program.execute("ROLLBACK")
    other_program.close()
    assert receiver.post({"id": "1"}) == (200, {"status": "stored"})


def test_concurrent_duplicates_are_one_event_with_the_number_of_deliveries(receiver):
    event = json.dumps({"id": "x.1", "event_name": "call.hangup", "call_id": 3}).encode()
    with ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(lambda _: receiver.post(event), range(100)))
    assert {status for status, _ in responses} == {200}
    assert sum(body["status"] == "stored" for _, body in responses) == 1
    assert [row["deliveries"] for row in receiver.rows()] == [100]


@pytest.mark.parametrize("headers", [[], [("Content-Encoding", "gzip")]])
def test_a_compressed_body_gets_415_with_or_without_its_header(receiver, headers):
    body = gzip.compress(b'{"id":"x.1","event_name":"call.initial","call_id":7}')
    status, content, response_headers = receiver.request(body=body, headers=headers)
    assert (status, response_headers["Accept-Encoding"]) == (415, "identity")
    assert content["message"] == "The body is compressed. Send it without compression."
    assert receiver.rows() == []
