"""Records that are younger than the last sync of their collection."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.application import TestApp
from tests.support.clock import Clock
from tests.support.fake_exchange import ADMINISTRATOR, API_KEY, NOT_FOUND, read_fixture
from tests.support.platform_collection import PlatformCollection

CDR = read_fixture("response-cdrs-list-200")["data"][0]
HIGHEST = CDR["id"]
NEW = {**CDR, "id": HIGHEST + 1}


@pytest.fixture
def app(own_app: TestApp) -> TestApp:
    return own_app


@pytest.fixture
def cdrs(app: TestApp) -> PlatformCollection:
    """The platform's CDRs; the mirror has all of them."""
    cdrs = PlatformCollection(app.platform, "cdrs", CDR)
    app.put("cdrs", CDR)
    return cdrs


def test_a_record_younger_than_the_last_sync_is_read_from_the_platform_and_kept(
    app: TestApp, cdrs: PlatformCollection
) -> None:
    cdrs.add(NEW)
    assert app.get(f"/cdrs/{NEW['id']}").json["data"] == NEW
    app.platform.fail()
    answer = app.get(f"/cdrs/{NEW['id']}")
    assert (answer.status_code, answer.json["data"]) == (200, NEW)
    assert [record["id"] for record in app.get("/cdrs").json["data"]] == [HIGHEST, NEW["id"]]


def test_the_404_of_a_new_key_is_valid_for_five_seconds_or_until_a_sync_or_no_cache(
    app: TestApp, movable_clock: Clock, cdrs: PlatformCollection
) -> None:
    movable_clock.freeze()
    for _ in range(3):
        answer = app.get(f"/cdrs/{NEW['id']}")
        assert (answer.status_code, answer.json["errors"]) == (404, [])
    assert cdrs.count_reads(NEW["id"]) == 1
    cdrs.add(NEW)
    movable_clock.advance(4.9)
    assert app.get(f"/cdrs/{NEW['id']}").status_code == 404
    movable_clock.advance(0.2)
    assert app.get(f"/cdrs/{NEW['id']}").json["data"] == NEW
    assert cdrs.count_reads(NEW["id"]) == 2
    for number in (NEW["id"] + 1, NEW["id"] + 2):
        assert app.get(f"/cdrs/{number}").status_code == 404
    app.put("cdrs", CDR, NEW, {**NEW, "id": NEW["id"] + 1})
    assert app.get(f"/cdrs/{NEW['id'] + 1}").status_code == 200
    assert cdrs.count_reads(NEW["id"] + 1) == 1
    cdrs.add({**NEW, "id": NEW["id"] + 2})
    fresh = {**app.headers, "Cache-Control": "no-cache"}
    assert app.get(f"/cdrs/{NEW['id'] + 2}", fresh).status_code == 200


def test_while_the_platform_is_away_only_new_keys_are_unknown(app: TestApp, cdrs: PlatformCollection) -> None:
    app.platform.fail()
    assert app.get(f"/cdrs/{NEW['id']}").status_code == 502
    assert app.get(f"/cdrs/{HIGHEST - 1}").status_code == 404
    assert app.get(f"/cdrs/{HIGHEST}").json["data"] == CDR
    assert app.get("/cdrs/99999999999999999999").status_code == 404


def test_parallel_reads_of_a_new_key_cost_one_request(app: TestApp, cdrs: PlatformCollection) -> None:
    arrived, may_respond = threading.Event(), threading.Event()

    def respond(request: Any, reply: Any) -> None:
        arrived.set()
        assert may_respond.wait(20)
        reply.json(NOT_FOUND, 404)

    app.platform.routes["GET /cdrs/{id}"] = respond
    headers, statuses = app.headers, []

    def read() -> None:
        statuses.append(
            app.product.site.test_client().get(f"{app.base}/cdrs/{NEW['id']}", headers=headers).status_code
        )

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    assert arrived.wait(20)
    may_respond.set()
    for reader in readers:
        reader.join(20)
    assert statuses == [404] * 4
    assert cdrs.count_reads(NEW["id"]) == 1


# --- clients -------------------------------------------------------------------------------------------


def test_a_key_of_one_user_learns_nothing_of_other_users(app: TestApp, cdrs: PlatformCollection) -> None:
    cdrs.add({**NEW, "user_id": 1000002})
    cdrs.add({**NEW, "id": NEW["id"] + 1, "user_id": 1000001})
    own = app.add_key("own", user=1000001)
    assert app.get(f"/cdrs/{NEW['id']}", own).status_code == 404
    assert app.get(f"/cdrs/{NEW['id'] + 1}", own).json["data"]["user_id"] == 1000001
    assert app.get(f"/cdrs/{NEW['id'] + 2}", own).status_code == 404


def test_a_404_of_one_client_is_not_that_of_another(app: TestApp, cdrs: PlatformCollection) -> None:
    """The platform may show a record to one login and hide it from another."""

    def respond(request: Any, reply: Any) -> None:
        secret = request.headers.get("X-Auth-Token", "") or request.headers.get("Authorization", "")
        if secret == ADMINISTRATOR:
            reply.json(NOT_FOUND, 404)
        else:
            reply.json({"data": NEW, "links": {}})

    app.platform.routes["GET /cdrs/{id}"] = respond
    assert app.get(f"/cdrs/{NEW['id']}", {"X-Auth-Token": ADMINISTRATOR}).status_code == 404
    assert app.get(f"/cdrs/{NEW['id']}", {"X-Auth-Token": API_KEY}).json["data"] == NEW
