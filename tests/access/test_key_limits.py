"""Limits, rights and rotation of local keys, over HTTP."""

from __future__ import annotations

import pytest

from integration.access import keys
from integration.access.keys import KeyLimits, parse_limits
from integration.core.errors import DomainError
from tests.support.application import basic_headers
from tests.support.applications.shared_app import SharedApp

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.9"


def ping(app: SharedApp, headers: dict[str, str], address: str = HERE) -> int:
    environment = {"REMOTE_ADDR": address}
    return app.client.get(f"{app.base}/ping", headers=headers, environ_base=environment).status_code


@pytest.mark.parametrize(
    ("expires", "last_second"),
    [("2026-11-20", "2026-11-20 23:59:58"), ("2026-11-20 09:30:00", "2026-11-20 09:29:59")],
)
def test_an_expired_key_is_refused(shared_app: SharedApp, expires: str, last_second: str) -> None:
    shared_app.clock.freeze("2026-11-18 12:00:00")
    headers = shared_app.add_key(limits=parse_limits(expires, (), "", ()))
    shared_app.clock.set(last_second)
    assert ping(shared_app, headers) == 200
    shared_app.clock.set("2026-11-21 00:00:00")
    response = shared_app.get("/ping", headers)
    assert response.status_code == 401
    assert "expired at 2026-11-20" in response.json["message"]
    assert shared_app.platform.requests == []


def test_a_key_is_accepted_from_its_networks_only(shared_app: SharedApp) -> None:
    headers = shared_app.add_key(limits=parse_limits("", ("192.0.2.0/28", "2001:db8::1"), "", ()))
    for address, status in (
        ("192.0.2.15", 200), ("::ffff:192.0.2.1", 200), ("2001:db8::1", 200),
        ("192.0.2.16", 403), ("127.0.0.1", 403), ("2001:db8::2", 403),
    ):  # fmt: skip
        assert ping(shared_app, headers, address) == status, address
        metrics = shared_app.client.get("/metrics", headers=headers, environ_base={"REMOTE_ADDR": address})
        assert metrics.status_code == (200 if address == "127.0.0.1" else status), address
        exported = shared_app.client.get(
            "/exports/cdrs.csv", headers=headers, environ_base={"REMOTE_ADDR": address}
        )
        assert exported.status_code == 403


def test_requests_above_the_rate_are_429(shared_app: SharedApp) -> None:
    headers = shared_app.add_key(limits=KeyLimits(requests_per_minute=3))
    other = shared_app.add_key("other")
    shared_app.clock.freeze("2026-11-18 12:00:00")
    assert [ping(shared_app, headers) for _ in range(4)] == [200, 200, 200, 429]
    refused = shared_app.get("/ping", headers)
    assert refused.headers["Retry-After"] == "20"
    assert ping(shared_app, other) == 200
    shared_app.clock.advance(20)
    assert [ping(shared_app, headers) for _ in range(2)] == [200, 429]


def test_the_last_use_has_its_address(shared_app: SharedApp) -> None:
    shared_app.clock.freeze("2026-11-18 12:00:00")
    headers = shared_app.add_key()
    for minutes, address, shown in ((0, HERE, HERE), (1, ELSEWHERE, ELSEWHERE), (2, ELSEWHERE, ELSEWHERE)):
        shared_app.clock.set(f"2026-11-18 12:0{minutes}:00")
        ping(shared_app, headers, address)
        shared_app.app_db.write(lambda _: None)
        (key,) = keys.list_all(shared_app.app_db)
        assert key.used_from == shown
    page = shared_app.log_in().get("/settings/keys").text
    assert f"from {ELSEWHERE}" in page


def test_a_rotated_key_has_two_secrets_for_the_overlap(shared_app: SharedApp) -> None:
    shared_app.clock.freeze("2026-11-18 12:00:00")
    old_headers = shared_app.add_key("crm")
    key_id, secret = keys.rotate(shared_app.app_db, "crm", 2)
    new_headers = basic_headers(key_id, secret)
    assert old_headers["X-Auth-Token"] != secret
    assert (ping(shared_app, old_headers), ping(shared_app, new_headers)) == (200, 200)
    shared_app.clock.set("2026-11-18 14:00:00")
    shared_app.platform.respond("GET /me", {"message": "Unauthorized"}, 401)
    assert (ping(shared_app, old_headers), ping(shared_app, new_headers)) == (401, 200)
    _, newest = keys.rotate(shared_app.app_db, "crm", 0)
    assert ping(shared_app, new_headers) == 401
    assert ping(shared_app, {"X-Auth-Token": newest}) == 200
    keys.revoke(shared_app.app_db, "crm")
    assert ping(shared_app, {"X-Auth-Token": newest}) == 401


@pytest.mark.parametrize(
    "path",
    ["/monitors/7.mp3", "/monitors/7.MP3", "/voicemessages/7.mp3", "/cdrs/7.trace", "/cdrs/7.pcap",
     "/calls/7/trace", "/calls/7/trace/"],
)  # fmt: skip
def test_audio_and_traces_need_the_right_recordings(shared_app: SharedApp, path: str) -> None:
    without = shared_app.add_key("plain", limits=KeyLimits(rights=frozenset({"export"})))
    refused = shared_app.get(path, without)
    assert refused.status_code == 403
    assert "'recordings'" in refused.json["message"]
    granted = shared_app.add_key("audio", limits=KeyLimits(rights=frozenset({"recordings"})))
    assert shared_app.get(path, granted).status_code == 404


def test_exports_need_the_right_export(shared_app: SharedApp) -> None:
    shared_app.put("cdrs", {"id": 1, "calldate": "2026-11-18 10:00:00"})
    client = shared_app.client
    for rights, csv_status, zip_status in (
        ((), 403, 403), (("recordings",), 403, 403), (("export",), 200, 403),
        (("export", "recordings"), 200, 200),
    ):  # fmt: skip
        headers = shared_app.add_key("-".join(rights) or "none", limits=KeyLimits(rights=frozenset(rights)))
        assert client.get("/exports/cdrs.csv", headers=headers).status_code == csv_status, rights
        assert client.get("/exports/monitors.zip", headers=headers).status_code == zip_status, rights
        assert shared_app.get("/cdrs", headers).status_code == 200


def test_the_page_adds_a_key_with_limits_and_rotates_it(shared_app: SharedApp) -> None:
    shared_app.clock.freeze("2026-11-18 12:00:00")
    browser = shared_app.log_in()
    browser.post(
        "/settings/keys", name="crm", scope="read", expires="2027-01-31", networks="192.0.2.7, 10.0.0.0/8",
        rate="600", right="export",
    )  # fmt: skip
    (key,) = keys.list_all(shared_app.app_db)
    assert key.limits == KeyLimits(
        "2027-01-31 23:59:59", ("192.0.2.7/32", "10.0.0.0/8"), 600, frozenset({"export"})
    )
    page = browser.get("/settings/keys").text
    for text in ("Read only, Export", "192.0.2.7/32, 10.0.0.0/8", "600 requests a minute"):
        assert text in page
    assert f"{key.user_id}:" in browser.post(f"/settings/keys/{key.user_id}/rotate").text
    (key,) = keys.list_all(shared_app.app_db)
    assert key.old_secret_until == "2026-11-19 12:00:00"
    refused = browser.post("/settings/keys", name="erp", scope="read", networks="office")
    assert refused.status_code == 400
    assert "is not an address or network" in refused.text


@pytest.mark.parametrize(
    ("expires", "networks", "rate", "rights"),
    [("2020-01-01", (), "", ()), ("tomorrow", (), "", ()), ("2030-02-31", (), "", ()),
     ("", ("192.0.2.300",), "", ()), ("", ("example.com",), "", ()), ("", (), "0", ()), ("", (), "-5", ()),
     ("", (), "999999", ()), ("", (), "", ("erase",))],
)  # fmt: skip
def test_invalid_limits_are_rejected(
    expires: str, networks: tuple[str, ...], rate: str, rights: tuple[str, ...]
) -> None:
    with pytest.raises(DomainError):
        parse_limits(expires, networks, rate, rights)
