"""Authentication of clients by local keys and platform credentials."""

from __future__ import annotations

import base64

import pytest

from integration.access import keys
from integration.access.keys import KeyLimits
from tests.support.application import TestApp, basic_headers
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import ADMINISTRATOR, OTHER_CUSTOMER, USER, WITHOUT_CUSTOMER, read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


def test_local_key_is_accepted_as_basic_credentials_and_as_token(shared_app: SharedApp) -> None:
    user, secret = keys.add(shared_app.app_db, "both", "read")
    assert shared_app.get("/ping", basic_headers(user, secret)).json["data"] == {"response": "Pong"}
    assert shared_app.get("/ping", {"X-Auth-Token": secret}).json["message"] == "Pong"
    for headers in (basic_headers(user + 1, secret), basic_headers(user, secret.upper()),
                    {"X-Auth-Token": "\xff" * 40}):  # fmt: skip
        assert shared_app.get("/ping", headers).status_code == 401, headers
    stored = b"".join(path.read_bytes() for path in shared_app.app_db.path.parent.glob("house.db*"))
    assert secret.encode() not in stored
    keys.revoke(shared_app.app_db, "both")
    assert shared_app.get("/ping", basic_headers(user, secret)).status_code == 401
    assert keys.add(shared_app.app_db, "both", "read")[0] != user


def test_basic_credentials_without_a_user_or_a_secret_are_rejected(app: TestApp) -> None:
    limits = KeyLimits(rights=frozenset(("export",)))
    user, secret = keys.add(app.app_db, "nameless", "read", limits=limits)
    credentials = [("", secret), (" ", secret), ("", ADMINISTRATOR), (user, "")]
    for headers in [basic_headers(*pair) for pair in credentials]:
        response = app.get("/ping", headers)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"].startswith("Basic ")
        assert app.client.get("/exports/cdrs.csv", headers=headers).status_code == 401
        far = {"REMOTE_ADDR": "192.0.2.7"}
        assert app.client.get("/metrics", headers=headers, environ_base=far).status_code == 401
    assert app.platform.count("/me") == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer " + ADMINISTRATOR}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 400),
        ({"Authorization": "Basic ###"}, 400),
        ({"Authorization": "Basic \xe9"}, 400),
        ({"X-Auth-Token": "f" * 40}, 401),
        (basic_headers(1000009, "f" * 40), 401),
    ],
)
def test_invalid_credentials_are_rejected_like_on_the_platform(
    shared_app: SharedApp, headers: dict[str, str], status: int
) -> None:
    response = shared_app.get("/cdrs", headers)
    assert response.status_code == status
    assert response.json["errors"] == []
    if status == 400:
        assert response.json == read_fixture("response-auth-header-400")


def test_credentials_are_verified_before_the_body_is_read(shared_app: SharedApp) -> None:
    class Untouchable:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

        readline = readlines = __iter__ = read

    unread = {"wsgi.input": Untouchable(), "CONTENT_LENGTH": "100000"}
    response = shared_app.client.post(f"{shared_app.base}/sms", environ_overrides=unread)
    assert response.status_code == 401


def test_administrator_reads_the_mirror_after_one_request_of_me(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.put("me", read_fixture("response-me-200")["data"])
    for headers in (
        {"X-Auth-Token": ADMINISTRATOR},
        basic_headers(1000009, ADMINISTRATOR),
        basic_headers("root@example.com", ADMINISTRATOR),
    ):
        assert app.get("/cdrs", headers).json["total"] == 1
    assert app.platform.count("/me") == 1
    assert app.platform.count("/cdrs") == 0


@pytest.mark.parametrize("mirrored", [True, False])
def test_administrator_of_another_customer_gets_403(app: TestApp, mirrored: bool) -> None:
    app.put("cdrs", CDR)
    if mirrored:
        app.put("me", read_fixture("response-me-200")["data"])
    for _ in range(2):
        assert app.get("/cdrs", {"X-Auth-Token": OTHER_CUSTOMER}).status_code == 403
    assert (
        app.client.post(f"{app.base}/sms", headers={"X-Auth-Token": OTHER_CUSTOMER}, json={}).status_code
        == 403
    )
    assert app.platform.count("/cdrs") == app.platform.count("/sms") == 0


def test_administrator_without_a_customer_reads_the_mirror_once_listed_as_a_user(
    app: TestApp,
) -> None:
    app.put("cdrs", CDR)
    app.platform.respond("/cdrs", {"data": [], "total": 0})
    assert app.get("/cdrs", {"X-Auth-Token": WITHOUT_CUSTOMER}).json["total"] == 0
    app.put("users", {"id": 1000056, "email": "una@example.com"})
    assert app.get("/cdrs", {"X-Auth-Token": WITHOUT_CUSTOMER}).json["total"] == 1


def test_verified_secret_is_rejected_with_another_user_name(app: TestApp) -> None:
    assert app.get("/ping", basic_headers(1000009, ADMINISTRATOR)).status_code == 200
    assert app.get("/ping", basic_headers(1000002, ADMINISTRATOR)).status_code == 401
    assert app.get("/ping", basic_headers("bob@example.com", ADMINISTRATOR)).status_code == 401
    assert app.get("/ping", basic_headers(1000009, ADMINISTRATOR)).status_code == 200


def test_the_configured_account_is_an_administrator(app: TestApp) -> None:
    app.put("cdrs", CDR)
    assert app.get("/cdrs", basic_headers(1000001, "a" * 40)).headers["X-Mirror-Complete"] == "true"


def test_request_of_an_ordinary_user_is_passed_through_with_its_credentials(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.platform.respond("/cdrs", {"data": [], "total": 0})
    response = app.get("/cdrs?limit=5", basic_headers(1000002, USER))
    assert response.json == {"data": [], "total": 0}
    assert "X-Mirror-Age" not in response.headers
    sent = app.platform.requests[-1].headers
    assert sent["Authorization"] == basic_headers(1000002, USER)["Authorization"]
    assert "X-Auth-Token" not in sent


def revoke_on_platform(app: TestApp) -> None:
    app.platform.respond("/ping", {"message": "no", "errors": []}, 401)
    app.platform.respond("/me", {"message": "no", "errors": []}, 401)


def test_revoked_credential_in_use_ends_within_a_minute(app: TestApp) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    app.put("cdrs", CDR)
    app.put("me", read_fixture("response-me-200")["data"])
    for _ in range(4):
        assert app.get("/cdrs", headers).status_code == 200
        app.clock.advance(10)
    assert app.platform.count("/ping") == 0
    app.clock.advance(11)
    assert app.get("/cdrs", headers).status_code == 200
    assert app.get("/cdrs", headers).status_code == 200
    assert app.platform.count("/ping") == 1
    revoke_on_platform(app)
    app.clock.advance(51)
    assert app.get("/cdrs", headers).status_code == 401
    assert app.get("/cdrs", headers).status_code == 401


@pytest.mark.parametrize("is_unreachable", [False, True])
def test_first_refusal_of_the_platform_ends_a_credential(app: TestApp, is_unreachable: bool) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    app.put("cdrs", CDR)
    assert app.get("/cdrs", headers).status_code == 200
    revoke_on_platform(app)
    app.platform.respond("/sms", {"message": "no", "errors": []}, 401)
    assert app.client.post(f"{app.base}/sms", json={"to": "1"}, headers=headers).status_code == 401
    if is_unreachable:
        app.platform.fail()
    assert app.get("/cdrs", headers).status_code == (502 if is_unreachable else 401)


def test_refusal_of_one_request_does_not_end_a_valid_credential(app: TestApp) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    app.put("cdrs", CDR)
    assert app.get("/cdrs", headers).status_code == 200
    app.platform.respond("/transactions", {"message": "no", "errors": []}, 401)
    assert app.get("/transactions", headers).status_code == 401
    assert app.get("/cdrs", headers).status_code == 200


def test_administrator_is_refused_after_a_revocation_and_a_restart(app: TestApp) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    assert app.get("/ping", headers).status_code == 200
    revoke_on_platform(app)
    app.restart()
    app.clock.advance(51)
    assert app.get("/ping", headers).status_code == 401
    assert app.get("/cdrs", headers).status_code == 401


def test_former_administrator_loses_the_mirror_within_15_minutes(app: TestApp) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    app.put("cdrs", CDR)
    assert app.get("/cdrs", headers).json["total"] == 1
    now = {"id": 1000009, "customer_id": 100001, "email": "root@example.com", "is_root": False}
    app.platform.respond("/me", {"data": now, "links": {}})
    app.platform.respond("/cdrs", {"data": [], "total": 0})
    totals = []
    for _ in range(3):
        app.clock.advance(301)
        totals.append(app.get("/cdrs", headers).json["total"])
    assert totals == [1, 1, 0]
    assert app.platform.count("/ping") == 2


def test_verified_credential_reads_and_cannot_write_during_an_outage(app: TestApp) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    app.put("cdrs", CDR)
    assert app.get("/cdrs", headers).status_code == 200
    app.platform.fail()
    app.clock.advance(3600)
    assert app.get("/cdrs", headers).status_code == 200
    assert app.client.post(f"{app.base}/sms", json={}, headers=headers).status_code == 502
    app.clock.advance(86400)
    assert app.get("/cdrs", headers).status_code == 502


def test_unverified_credentials_are_502_during_an_outage(app: TestApp) -> None:
    app.platform.fail()
    for _ in range(15):
        assert app.get("/cdrs", {"X-Auth-Token": ADMINISTRATOR}).status_code == 502


def test_wrong_credentials_are_limited_per_account(app: TestApp) -> None:
    responses = [app.get("/cdrs", basic_headers(1000009, f"{n:040x}")).status_code for n in range(12)]
    assert responses == [401] * 10 + [429] * 2
    stopped = app.get("/cdrs", basic_headers(1000009, ADMINISTRATOR))
    assert stopped.status_code == 429
    assert int(stopped.headers["Retry-After"]) >= 1


def test_secrets_are_stored_hashed(app: TestApp) -> None:
    app.get("/ping", {"X-Auth-Token": ADMINISTRATOR})
    with app.app_db.read() as connection:
        for row in connection.execute("SELECT * FROM remembered"):
            assert ADMINISTRATOR not in str(tuple(row))


class TestWithoutPlatformCredentials:
    @pytest.fixture
    def settings(self, settings: dict[str, str]) -> dict[str, str]:
        settings["facade__platform_credentials"] = "false"
        return settings

    def test_only_local_keys_are_accepted(self, app: TestApp) -> None:
        assert app.get("/ping", {"X-Auth-Token": ADMINISTRATOR}).status_code == 401
        assert app.get("/ping").status_code == 200
        assert app.platform.count("/me") == 0


def test_wrong_keys_from_an_address_do_not_block_valid_credentials(app: TestApp) -> None:
    assert app.get("/me", {"X-Auth-Token": ADMINISTRATOR}).status_code == 200
    statuses = [app.get("/ping", {"X-Auth-Token": f"{n:040x}"}).status_code for n in range(12)]
    assert set(statuses) == {401, 429}
    assert statuses[-1] == 429
    assert app.get("/ping").status_code == 200
    assert app.get("/ping", {"X-Auth-Token": ADMINISTRATOR}).status_code == 200
