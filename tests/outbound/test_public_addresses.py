"""URLs of users reach public addresses and `outgoing.allow_hosts` only."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from integration.access import audit, sessions
from integration.alerts import notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.messages import make_notifications
from integration.alerts.rules import Finding, Rule
from integration.alerts.send import SendingFailed, send_due
from integration.core import clock
from integration.exports import jobs
from integration.outbound.public_addresses import PublicHosts, is_public
from integration.outbound.upload import UploadFailed, upload_file
from tests.outbound.conftest import SetAddresses
from tests.support.applications.shared_app import SharedApp, running_shared_app
from tests.support.scripted_server import Server

FOUND = Finding(1, "a", "Ann Example has been waiting", "/calls/7", "2026-03-04 11:00:00")
RULE = {"name": "Long waits", "condition": "waiting", "threshold": "45", "notice": "1", "day": "0"}
SCHEDULE = {
    "export": "call-history", "name": "Front desk", "form": "csv", "every": "day", "at": "06:00",
    "zone": "Europe/London", "target": "put", "wait_hours": "6", "otherwise": "incomplete",
}  # fmt: skip
REFUSAL = "is an address of this machine or of an internal network"


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    """Application that may reach one internal host."""
    with running_shared_app(
        tmp_path_factory.mktemp("shared"), outgoing__allow_hosts="nas.example.com,10.0.0.5"
    ) as app:
        yield app


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 200)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True), ("64:ff9b::808:808", True),
        ("2002:808:808::1", True),
        ("127.0.0.1", False), ("127.9.9.9", False), ("0.0.0.0", False), ("10.1.2.3", False),
        ("172.16.0.1", False), ("192.168.1.1", False), ("169.254.169.254", False), ("100.64.0.1", False),
        ("100.100.100.200", False), ("168.63.129.16", False), ("192.0.0.192", False), ("224.0.0.1", False),
        ("240.0.0.1", False), ("255.255.255.255", False),
        ("::", False), ("::1", False), ("fe80::1", False), ("fc00::1", False), ("fd00:ec2::254", False),
        ("fec0::1", False), ("ff02::1", False), ("ff0e::1", False), ("::127.0.0.1", False),
        ("::ffff:127.0.0.1", False), ("::ffff:a00:1", False), ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::1", False), ("2002:7f00:1::1", False), ("2001:0:7f00:1::1", False),
    ],
)  # fmt: skip
def test_public_addresses_are_recognised(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0",
        "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "10.0.0.6", "169.254.169.254", "[fe80::1]",
        "hook.example.com",
    ],
)  # fmt: skip
def test_an_internal_host_is_refused_when_saved(
    shared_app: SharedApp, set_addresses: SetAddresses, host: str
) -> None:
    set_addresses("hook.example.com", ["8.8.8.8", "192.168.1.7"])
    browser, url = shared_app.log_in(), f"https://{host}:8443/x"
    for path, form in (
        ("/system/alerts", {**RULE, "url": url}),
        ("/exports/schedules/new", {**SCHEDULE, "place": url}),
    ):
        response = browser.post(path, **form)
        assert response.status_code == 400, path
        assert REFUSAL in response.text
        assert "outgoing.allow_hosts" in response.text
    with shared_app.app_db.read() as connection:
        assert alert_rules.list_all(connection) == []
        assert jobs.list_schedules(connection) == []


@pytest.mark.parametrize("host", ["nas.example.com", "NAS.example.com.", "10.0.0.5", "other.example.com"])
def test_a_named_host_is_allowed(
    shared_app: SharedApp,
    set_addresses: SetAddresses,
    host: str,
) -> None:
    # Another name of an allowed address is no more than the address itself.
    set_addresses(host.lower(), ["10.0.0.5"])
    shared_app.log_in().post("/system/alerts", **RULE, url=f"https://{host}/x")
    with shared_app.app_db.read() as connection:
        (rule,) = alert_rules.list_all(connection)
    assert rule.url == f"https://{host}/x"


def test_a_name_that_cannot_be_resolved_is_saved(
    shared_app: SharedApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    client, token = shared_app.client, shared_app.make_token()
    client.set_cookie("session", token)
    form = {**RULE, "url": "https://hook.example.com/x", "csrf_token": sessions.derive_csrf_token(token)}
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert client.post("/system/alerts", data=form).status_code == 303
    assert "alert rule added" in [entry.what for entry in audit.list_newest(shared_app.app_db)]


def test_a_refused_target_of_a_stored_rule_receives_nothing(shared_app: SharedApp, server: Server) -> None:
    rule = Rule(0, "Long waits", "waiting", 60, url=f"{server.url}/hook", secret="Bearer canary")
    number = alert_rules.save(shared_app.app_db, rule)
    with shared_app.app_db.read() as connection:
        rule = alert_rules.find(connection, number)
    made = list(make_notifications(shared_app.context.settings, rule, "alert", [FOUND], clock.now()))
    shared_app.app_db.write(lambda tx: notification_log.add(tx, made))
    with pytest.raises(SendingFailed, match=REFUSAL):
        send_due(shared_app.context, "post")
    assert server.requests == []
    page = shared_app.log_in().post(f"/system/alerts/{number}/test").text
    assert REFUSAL in page
    assert "returned" not in page
    assert server.requests == []


def test_a_name_that_changes_after_the_check_is_refused(
    server: Server,
    set_addresses: SetAddresses,
) -> None:
    port = int(server.url.rpartition(":")[2])
    lookups = set_addresses("hook.localhost", ["8.8.8.8"], ["127.0.0.1"])
    hosts = PublicHosts(())
    assert hosts.resolve("hook.localhost", port) == ["8.8.8.8"]
    with pytest.raises(UploadFailed, match=REFUSAL):
        upload_file(f"http://hook.localhost:{port}/a", io.BytesIO(b"abc"), 3, {}, hosts)
    assert (server.requests, len(lookups)) == ([], 2)


def test_the_address_that_was_checked_is_connected(
    server: Server,
    set_addresses: SetAddresses,
) -> None:
    port = int(server.url.rpartition(":")[2])
    # An address that refuses connections is followed by the next; a second lookup would reach none.
    lookups = set_addresses("hook.localhost", ["127.0.0.2", "127.0.0.1"], ["127.0.0.3"])
    hosts = PublicHosts(("127.0.0.1", "127.0.0.2"))
    assert upload_file(f"http://hook.localhost:{port}/a", io.BytesIO(b"abc"), 3, {}, hosts) == 200
    assert len(lookups) == 1
    (request,) = server.requests
    assert request.headers["Host"] == f"hook.localhost:{port}"
