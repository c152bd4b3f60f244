"""Facade and exports of one application share the state of verified credentials."""

from __future__ import annotations

import pytest

from integration.access.authenticator import RECHECK_SECONDS
from integration.access.login_throttle import MAX_ATTEMPTS
from tests.support.application import TestApp
from tests.support.fake_exchange import ADMINISTRATOR

BASE = "/v1.2/voipstudio"
FACADE, EXPORT, PREPARED = f"{BASE}/ping", "/exports/cdrs.csv", "/exports/prepared/1"
VERIFIED, UNKNOWN = {"X-Auth-Token": ADMINISTRATOR}, {"X-Auth-Token": "f" * 40}


def send(app: TestApp, url: str, status: int = 200) -> list[str]:
    """Send a request with the verified credential.

    Return the paths that the product requested from the platform.
    """
    before = len(app.platform.requests)
    assert app.client.get(url, headers=VERIFIED).status_code == status
    return [request.path for request in app.platform.requests[before:]]


def test_credential_verified_by_the_facade_is_not_verified_for_an_export(app: TestApp) -> None:
    assert "/me" in send(app, FACADE)
    assert send(app, EXPORT) == []


def test_rights_read_by_the_facade_are_not_read_for_an_export(
    app: TestApp,
) -> None:
    send(app, FACADE)
    app.clock.advance(RECHECK_SECONDS + 1)
    assert send(app, EXPORT) == ["/ping"]


@pytest.mark.parametrize(("url", "status"), [(EXPORT, 200), (PREPARED, 404)])
def test_failed_check_of_the_facade_is_not_repeated_for_an_export(
    app: TestApp, url: str, status: int
) -> None:
    send(app, FACADE)
    app.platform.fail()
    app.clock.advance(RECHECK_SECONDS + 1)
    assert send(app, FACADE) == ["/ping"]
    assert send(app, url, status) == []


def test_failed_attempts_count_across_facade_and_exports(app: TestApp) -> None:
    for number in range(MAX_ATTEMPTS):
        url = EXPORT if number % 2 else FACADE
        assert app.client.get(url, headers=UNKNOWN).status_code == 401
    assert app.client.get(FACADE, headers=UNKNOWN).status_code == 429
    assert app.client.get(EXPORT, headers=UNKNOWN).status_code == 429
