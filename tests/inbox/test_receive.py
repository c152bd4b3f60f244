"""The receiver through real HTTP: what it acknowledged is on disk, what it refuses says why."""

from __future__ import annotations

import base64
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
from integration.sqlite.errors import translate_error

SECRET = "s" * 43
SAMPLES = sorted((Path(__file__).parents[1] / "fixtures" / "platform").glob("webhook-*.json"))


class Receiver:
    def __init__(self, folder: Path, settings: Webhooks, secrets=(SECRET,)):
        self.inbox = Inbox(folder / "inbox.db")
        self.application = Application(self.inbox, settings, list(secrets))
        self.server = make_server("127.0.0.1", 0, self.application, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def ask(self, method="POST", body=b"", path=f"/webhooks/{SECRET}", headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=30)
        # What is refused by its head alone may be refused before all of it was sent.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, dict(headers), encode_chunked=not isinstance(body, bytes))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content else None, answer.headers

    def post(self, payload, **more):
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        status, content, _ = self.ask(body=body, **more)
        return status, content

    def rows(self):
        with sqlite3.connect(self.inbox.database.path) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM inbox ORDER BY seq")]

    def close(self):
        self.server.shutdown()
        self.inbox.close()


@pytest.fixture
def make(tmp_path):
    made = []

    def start(secrets=(SECRET,), **settings):
        made.append(Receiver(tmp_path, Webhooks(**settings), secrets))
        return made[-1]

    yield start
    for receiver in made:
        receiver.close()


@pytest.fixture
def receiver(make):
    return make()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_it_stores_every_kind_of_webhook_byte_for_byte(receiver, sample):
    body = sample.read_bytes()
    assert receiver.post(body) == (200, {"status": "stored"})
    (row,) = receiver.rows()
    payload = json.loads(body)
    assert row["body"] == body
    assert row["event_id"] == payload["id"]
    assert row["event_name"] == payload.get("event_name", payload.get("nome_do_evento"))
    assert row["call_id"] == payload.get("call_id")
    assert (row["status"], row["deliveries"], row["flagged"]) == ("new", 1, 0)


def test_it_counts_a_duplicate_and_keeps_one_row(receiver):
    event = {"id": "uk003.6a97e243000643.77053295", "event_name": "call.initial", "call_id": 1}
    assert receiver.post(event)[1] == {"status": "stored"}
    assert receiver.post(event)[1] == {"status": "duplicate"}
    assert [row["deliveries"] for row in receiver.rows()] == [2]


def test_it_counts_what_it_told_its_senders(receiver):
    event = {"id": "x.1", "event_name": "call.initial"}
    for payload in (event, event, {"id": "x.2"}, b"{", b"{}"):
        receiver.post(payload)
    receiver.ask("GET")
    receiver.ask(path="/webhooks/wrong")
    receiver.ask("PUT")
    assert receiver.inbox.count_acknowledgements() == {
        "stored": 2,
        "duplicate": 1,
        "unreadable": 1,
        "refused": 2,
    }


def test_it_keeps_both_bodies_of_one_id_and_flags_the_second(receiver):
    for text in ("one", "two"):
        assert receiver.post({"id": "x.1", "event_name": "sms.received", "text": text})[1] == {
            "status": "stored"
        }
    assert [row["flagged"] for row in receiver.rows()] == [0, 1]


def test_an_event_without_id_is_filed_under_the_hash_of_its_body(receiver):
    body = b'{"event_name":"call.ringing","call_id":5}'
    receiver.post(body)
    receiver.post(body)
    (row,) = receiver.rows()
    assert row["event_id"].startswith("sha256:")
    assert row["deliveries"] == 2


@pytest.mark.parametrize(
    "identifier", [7, "7", 7.0, 2**63, 2**200, "", None, "x" * 10_000, [1], {"a": 1}, True]
)
def test_odd_ids_are_stored(receiver, identifier):
    assert receiver.post({"id": identifier, "event_name": "call.initial", "call_id": 1})[0] == 200
    assert len(receiver.rows()) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", "unreadable"),
        (b"[1,2]", "unreadable"),
        (b'{"id":"x.1"}{"id":"x.2"}', "unreadable"),
        (b'"text"', "unreadable"),
        (rb'{"id":"x.1","from_no":"\x"}', "unreadable"),
        (b'{"id":"x.1","call_id":01}', "unreadable"),
        (b"\xff\xfe{\x00}\x00", "unreadable"),
        (b'{"a":NaN}', "stored"),
        (b'{"a":"\\ud800"}', "stored"),
        (b'{"a":"\x00"}', "stored"),
        (b'{"a":' + b"9" * 5000 + b"}", "stored"),
        (b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "stored"),
        (b'\xef\xbb\xbf{"a":1}', "stored"),
    ],
    ids=[
        "text",
        "array",
        "string",
        "escape",
        "zero",
        "utf-16",
        "nan",
        "surrogate",
        "nul",
        "long number",
        "deep",
        "bom",
    ],
)
def test_odd_bodies_are_kept_as_received(receiver, body, status):
    assert receiver.post(body) == (200, {"status": status})
    assert receiver.rows()[0]["body"] == body


@pytest.mark.parametrize("body", [b"", b"{}", b" {} \n"])
def test_a_probe_is_answered_and_not_stored(receiver, body):
    assert receiver.ask(body=body)[0] == 200
    assert receiver.rows() == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_platforms_check_of_the_url_is_answered(receiver, method):
    assert receiver.ask(method)[0] == 200
    assert receiver.ask(method, path="/webhooks/wrong")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "status"), [("PUT", f"/webhooks/{SECRET}", 405), ("POST", "/webhooks/", 404)]
)
def test_what_it_does_not_offer_is_refused_in_the_same_shape(receiver, method, path, status):
    answered, body, _ = receiver.ask(method, path=path, body=b"{}")
    assert (answered, sorted(body)) == (status, ["errors", "message"])


def test_the_limit_is_inclusive(receiver):
    assert receiver.post(b'{"a":"%s"}' % (b"x" * (BODY_LIMIT - len('{"a":""}'))))[0] == 200
    assert receiver.post(b"x" * (BODY_LIMIT + 1))[0] == 413
    assert len(receiver.rows()) == 1


def test_a_chunked_body_over_the_limit_is_refused(receiver):
    chunks = iter([b"x" * 65536] * 5)
    assert receiver.ask(body=chunks, headers=[("Transfer-Encoding", "chunked")])[0] == 413
    assert receiver.rows() == []


def test_a_body_that_ends_early_is_refused_and_not_stored(receiver):
    """As the server hands it over when the sender went away: no more comes, and it looks whole."""
    builder = EnvironBuilder(f"/webhooks/{SECRET}", method="POST", data=b'{"id":"1"')
    environ = builder.get_environ() | {"CONTENT_LENGTH": "500", "wsgi.input_terminated": True}
    assert run_wsgi_app(receiver.application, environ)[1].startswith("400")
    assert receiver.rows() == []


def test_wrong_secrets_all_look_the_same(receiver):
    answers = [
        receiver.ask(path=f"/webhooks/{wrong}", body=b'{"id":"1"}')
        for wrong in ("x", "s" * 42, "%C3%A9", SECRET + "s")
    ]
    assert {(status, json.dumps(body)) for status, body, _ in answers} == {
        (404, '{"message": "Not found", "errors": []}')
    }
    assert receiver.rows() == []


def test_both_secrets_work_while_rotating(make):
    receiver = make(secrets=("new-secret", "old-secret"))
    for secret in ("new-secret", "old-secret"):
        assert receiver.post({"id": secret}, path=f"/webhooks/{secret}")[0] == 200
    assert receiver.ask(path=f"/webhooks/{SECRET}", body=b'{"id":"1"}')[0] == 404


def test_basic_credentials_are_demanded_where_set(make):
    receiver = make(username="hook", password="pässword")
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


def test_addresses_outside_the_list_get_the_same_404(make):
    assert make(allow_from=["192.0.2.0/24"]).post({"id": "1"})[0] == 404


def test_addresses_inside_the_list_are_heard(make):
    assert make(allow_from=["127.0.0.0/8"]).post({"id": "1"})[0] == 200


def test_it_says_503_and_stores_nothing_when_the_lock_is_held(make, monkeypatch):
    monkeypatch.setattr("integration.sqlite.database.BUSY_SECONDS", 0.05)
    receiver = make()
    outsider = sqlite3.connect(receiver.inbox.database.path, isolation_level=None)
    outsider.execute("BEGIN IMMEDIATE")
    status, _, headers = receiver.ask(body=b'{"id":"1"}')
    assert (status, headers["Retry-After"]) == (503, "5")
    outsider.execute("ROLLBACK")
    outsider.close()
    assert receiver.post({"id": "1"}) == (200, {"status": "stored"})


def test_copies_from_many_senders_are_one_event_with_the_right_count(receiver):
    event = json.dumps({"id": "x.1", "event_name": "call.hangup", "call_id": 3}).encode()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: receiver.post(event), range(100)))
    assert {status for status, _ in answers} == {200}
    assert sum(body["status"] == "stored" for _, body in answers) == 1
    assert [row["deliveries"] for row in receiver.rows()] == [100]


def test_a_full_disk_is_told_apart_from_a_broken_one(tmp_path):
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert "Free space" in str(translate_error(error, tmp_path / "inbox.db"))
