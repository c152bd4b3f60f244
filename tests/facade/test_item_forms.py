"""A record's own path, its list, its Account page and SQL agree with the platform after every sync."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.comparison import account
from tests.support.application import TestApp
from tests.support.clock import Clock
from tests.support.fake_exchange import read_fixture
from tests.support.page_text import text
from tests.support.people import ALICE
from tests.support.platform_collection import PlatformCollection

RECORDING = read_fixture("response-monitors-list-200")["data"][0]
RECORDING_ID = RECORDING["id"]
USER = read_fixture("response-users-list-200")["data"][0]
USER_ID = USER["id"]
USER_SETTINGS = {**USER, "vm_to_email": True, "ring_time": "25"}
"""The user as its own path returns it."""
SOUND = b"\xff\xfb" + bytes(range(256)) * 40


def sync(app: TestApp, collection: str) -> None:
    """Run `sync COLLECTION --full --no-files`."""
    account.sync(app, collection, full=True)


def read_row(app: TestApp, table: str, key: int) -> dict[str, Any]:
    """The record's row, as other programs read it."""
    path = app.context.settings.storage.data_dir / "mirror.db"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return dict(connection.execute(f"SELECT * FROM {table} WHERE id = ?", (key,)).fetchone())


def assert_agreement(app: TestApp, collection: str, record: dict[str, Any]) -> None:
    """The facade's list and item, and SQL, have `record`, which has one form."""
    assert app.get(f"/{collection}").json["data"] == [record]
    assert app.get(f"/{collection}/{record['id']}").json["data"] == record
    row = read_row(app, collection, record["id"])
    assert json.loads(row["_doc"]) == record
    assert row["_item"] is None


@pytest.fixture
def app(own_app: TestApp) -> TestApp:
    return own_app


@pytest.fixture
def recordings(app: TestApp) -> PlatformCollection:
    return PlatformCollection(app.platform, "monitors", RECORDING)


@pytest.fixture
def users(app: TestApp) -> PlatformCollection:
    """A platform whose own path of a user returns more than the list."""
    users = PlatformCollection(app.platform, "users", USER)
    users.own[USER_ID] = USER_SETTINGS
    return users


# --- own paths that return what the list returns -------------------------------------------------------


def test_a_transcript_that_arrives_after_a_read_through_is_shown(
    app: TestApp, recordings: PlatformCollection
) -> None:
    assert app.get(f"/monitors/{RECORDING_ID}").json["data"] == RECORDING
    recordings.change(RECORDING_ID, transcript="Good morning", summary="A greeting")
    sync(app, "monitors")
    assert_agreement(app, "monitors", {**RECORDING, "transcript": "Good morning", "summary": "A greeting"})
    page = app.log_in(ALICE).get(f"/account/monitors/{RECORDING_ID}")
    assert page.status_code == 200
    assert "Good morning" in text(page)
    assert recordings.count_reads(RECORDING_ID) == 1


def test_an_own_path_without_additional_fields_is_read_once(app: TestApp) -> None:
    users = PlatformCollection(app.platform, "users", USER)
    sync(app, "users")
    assert users.count_reads(USER_ID) == 1
    sync(app, "users")
    assert_agreement(app, "users", USER)
    assert users.count_reads(USER_ID) == 1
    page = app.log_in(ALICE).get(f"/account/users/{USER_ID}")
    assert "there are no other fields" in text(page)


# --- own paths that return more ------------------------------------------------------------------------


def test_a_record_read_before_the_first_sync_has_its_list_form_in_the_list(
    app: TestApp, users: PlatformCollection
) -> None:
    assert app.get(f"/users/{USER_ID}").json["data"] == USER_SETTINGS
    row = read_row(app, "users", USER_ID)
    assert json.loads(row["_doc"]) == USER
    assert json.loads(row["_item"]) == USER_SETTINGS
    users.change(USER_ID, first_name="Anne", vm_to_email=False)
    sync(app, "users")
    assert app.get("/users").json["data"] == [{**USER, "first_name": "Anne"}]
    assert app.get(f"/users/{USER_ID}").json["data"]["first_name"] == "Anne"
    assert app.get(f"/users/{USER_ID}").json["data"]["vm_to_email"] is False


def test_a_changed_list_form_makes_a_sync_read_the_own_path(app: TestApp, users: PlatformCollection) -> None:
    sync(app, "users")
    users.change(USER_ID, first_name="Anne", ring_time="40")
    sync(app, "users")
    assert users.count_reads(USER_ID) == 2
    app.platform.fail()
    assert app.get(f"/users/{USER_ID}").json["data"] == {
        **USER_SETTINGS,
        "first_name": "Anne",
        "ring_time": "40",
    }
    page = text(app.log_in(ALICE).get(f"/account/users/{USER_ID}"))
    assert "Anne" in page
    assert "requested individually" in page


def test_a_changed_list_form_hides_the_older_item_until_it_is_read(
    app: TestApp, users: PlatformCollection
) -> None:
    sync(app, "users")
    app.put("users", {**USER, "first_name": "Anne"})
    assert read_row(app, "users", USER_ID)["_item"] is None
    app.platform.fail()
    away = app.get(f"/users/{USER_ID}")
    assert (away.status_code, away.json["data"]["first_name"]) == (200, "Anne")
    assert away.headers["X-Mirror-Complete"] == "false"
    app.platform.routes.clear()
    users.connect()
    users.change(USER_ID, first_name="Anne")
    assert app.get(f"/users/{USER_ID}").json["data"] == {**USER_SETTINGS, "first_name": "Anne"}
    reads = users.count_reads(USER_ID)
    assert app.get(f"/users/{USER_ID}").json["data"] == {**USER_SETTINGS, "first_name": "Anne"}
    assert users.count_reads(USER_ID) == reads


def test_a_field_that_the_list_gains_ends_the_item_form(app: TestApp) -> None:
    users = PlatformCollection(app.platform, "users", USER)
    users.own[USER_ID] = USER_SETTINGS
    sync(app, "users")
    users.listed[USER_ID] = USER_SETTINGS
    sync(app, "users")
    assert_agreement(app, "users", USER_SETTINGS)


# --- the newer read wins -------------------------------------------------------------------------------


def test_an_item_requested_before_the_list_was_read_does_not_replace_it(
    app: TestApp, movable_clock: Clock, recordings: PlatformCollection
) -> None:
    def respond_late(request: Any, reply: Any) -> None:
        """Return the record as it was, after a list that was read later is stored."""
        reply.json({"data": RECORDING, "links": {}})
        movable_clock.advance(5)
        app.put("monitors", {**RECORDING, "transcript": "Good morning"})

    sync(app, "monitors")
    app.platform.routes[f"/monitors/{RECORDING_ID}"] = respond_late
    app.get(f"/monitors/{RECORDING_ID}", {**app.headers, "Cache-Control": "no-cache"})
    assert_agreement(app, "monitors", {**RECORDING, "transcript": "Good morning"})


# --- an older data_dir ---------------------------------------------------------------------------------


def make_older(data_dir: Path, *items: tuple[str, dict[str, Any]]) -> None:
    """Turn mirror.db into that of the version before, with `items` as (table, record)."""
    with closing(sqlite3.connect(data_dir / "mirror.db")) as connection:
        for table, record in items:
            connection.execute(
                f"UPDATE {table} SET _item = ? WHERE id = ?", (json.dumps(record), record["id"])
            )
        connection.execute("DROP TABLE _item_forms")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'item forms that add fields'")
        connection.commit()


def test_items_frozen_by_an_older_version_are_hidden(
    app: TestApp, tmp_path: Path, users: PlatformCollection
) -> None:
    app.put("monitors", {**RECORDING, "transcript": "Good morning"})
    app.put("users", USER)
    app.product.stop()
    make_older(tmp_path, ("monitors", RECORDING), ("users", {**USER_SETTINGS, "ext": "1009"}))
    app.restart()
    app.platform.fail()
    recording = app.get(f"/monitors/{RECORDING_ID}")
    assert recording.json["data"]["transcript"] == "Good morning"
    assert recording.headers["X-Mirror-Complete"] == "true"
    changed = app.get(f"/users/{USER_ID}")
    assert changed.json["data"] == USER
    assert changed.headers["X-Mirror-Complete"] == "false"
