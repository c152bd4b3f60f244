"""X-Mirror-Age and X-Mirror-Complete state no more than the mirror has."""

from __future__ import annotations

import pytest

from integration.mirror.sync_state import collection_state
from tests.support.application import TestApp
from tests.support.clock import Clock
from tests.support.fake_exchange import read_fixture
from tests.support.platform_collection import PlatformCollection

USER = read_fixture("response-users-list-200")["data"][0]
USER_SETTINGS = {**USER, "vm_to_email": True}
QUEUE = {"id": 80001, "name": "Support", "users": [USER["id"]]}
HOUR = 3600


@pytest.fixture
def app(own_app: TestApp) -> TestApp:
    return own_app


def finish_sync(app: TestApp, collection: str) -> None:
    """End a full sync that found no change."""
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, collection, None, 1))


@pytest.fixture(autouse=True)
def time(movable_clock: Clock) -> Clock:
    movable_clock.freeze()
    return movable_clock


def test_the_last_response_of_an_unreachable_platform_is_not_complete(app: TestApp, time: Clock) -> None:
    app.platform.respond("/cdrs/5/notes", {"data": [{"id": 1, "note": "Called back"}], "total": 1})
    assert "X-Mirror-Complete" not in app.get("/cdrs/5/notes").headers
    app.platform.fail()
    time.advance(90)
    answer = app.get("/cdrs/5/notes")
    assert answer.status_code == 200
    assert answer.headers["X-Mirror-Complete"] == "false"
    assert answer.headers["X-Mirror-Age"] == "90"


def test_the_age_of_an_item_form_is_that_of_its_own_reading(app: TestApp, time: Clock) -> None:
    users = PlatformCollection(app.platform, "users", USER)
    users.own[USER["id"]] = USER_SETTINGS
    app.put("users", USER)
    assert app.get(f"/users/{USER['id']}").json["data"] == USER_SETTINGS
    time.advance(HOUR)
    finish_sync(app, "users")
    time.advance(7)
    answer = app.get(f"/users/{USER['id']}")
    assert answer.json["data"] == USER_SETTINGS
    assert answer.headers["X-Mirror-Age"] == str(HOUR + 7)
    assert answer.headers["X-Mirror-Complete"] == "true"
    assert app.get("/users").headers["X-Mirror-Age"] == "7"


def test_a_page_with_a_relation_is_as_old_as_its_oldest_part(app: TestApp, time: Clock) -> None:
    app.put("users", USER)
    time.advance(HOUR)
    app.put("queues", QUEUE)
    time.advance(7)
    with_users = app.get("/queues?include=users&fields[users]=id,first_name")
    assert with_users.json["data"][0]["users"] == [{"id": USER["id"], "first_name": "Ann"}]
    assert with_users.headers["X-Mirror-Age"] == str(HOUR + 7)
    assert with_users.headers["X-Mirror-Complete"] == "true"
    assert app.get("/queues").headers["X-Mirror-Age"] == "7"


def test_a_page_with_a_relation_that_was_never_synced_is_not_complete(app: TestApp) -> None:
    app.put("users", USER, complete=False)
    app.put("queues", QUEUE)
    answer = app.get("/queues?include=users&fields[users]=id,first_name")
    assert answer.json["data"][0]["users"] == [{"id": USER["id"], "first_name": "Ann"}]
    assert answer.headers["X-Mirror-Complete"] == "false"


def test_me_is_as_old_as_its_last_reading(app: TestApp, time: Clock) -> None:
    assert app.get("/me").status_code == 200
    time.advance(HOUR)
    answer = app.get("/me")
    assert answer.headers["X-Mirror-Age"] == str(HOUR)
    assert answer.headers["X-Mirror-Complete"] == "false"
    app.put("me", read_fixture("response-me-200")["data"])
    time.advance(7)
    answer = app.get("/me")
    assert answer.headers["X-Mirror-Age"] == "7"
    assert answer.headers["X-Mirror-Complete"] == "true"
