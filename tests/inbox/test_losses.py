"""inbox.db removed, emptied, put aside or replaced by an older file, while mirror.db is kept."""

from __future__ import annotations

import json
import logging
import shutil

import pytest

from integration.app_schema import open_app_db
from tests.support.fake_exchange import read_fixture
from tests.support.people import ALICE

NOW = "2026-09-02 12:00:00"
SAMPLE = read_fixture("webhook-call.ringing")


@pytest.fixture(autouse=True)
def now(movable_clock):
    movable_clock.freeze(NOW)


def receive(app, *numbers):
    """Store one webhook of a ringing leg for each number, and apply them."""
    for number in numbers:
        webhook = {**SAMPLE, "id": f"1788350400.{number}", "call_id": 4278000000 + number}
        app.context.inbox.receive(json.dumps(webhook).encode()).result(30)
    app.context.applier.run()


def list_webhooks(app):
    with app.context.inbox.database.read() as connection:
        return [tuple(row) for row in connection.execute("SELECT seq, status FROM inbox ORDER BY seq")]


def list_legs(app):
    with app.mirror_db.read() as connection:
        return [row[0] for row in connection.execute("SELECT leg_id FROM _legs ORDER BY leg_id")]


def read_report(app):
    return app.client.get("/readyz").json


def remove_inbox(data_dir):
    for suffix in ("", "-wal", "-shm"):
        (data_dir / f"inbox.db{suffix}").unlink(missing_ok=True)


def empty_inbox(data_dir):
    remove_inbox(data_dir)
    (data_dir / "inbox.db").touch()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [(remove_inbox, "was missing"), (empty_inbox, "had 0 bytes")],
)
def test_webhooks_after_the_loss_of_the_inbox_are_applied(app, tmp_path, caplog, damage, fault):
    receive(app, 1, 2, 3)
    app.product.stop()
    damage(tmp_path)
    with caplog.at_level(logging.ERROR):
        app.restart()
    receive(app, 4, 5)
    assert list_webhooks(app) == [(4, "done"), (5, "done")]
    assert list_legs(app) == [4278000001, 4278000002, 4278000003, 4278000004, 4278000005]
    sentence = (
        f"inbox.db: the file {fault} at the start on {NOW} UTC, so webhooks 1 to 3 are no longer stored;"
        " calls that mirror.db had applied are complete, and `switchroom sync --full` reads the others"
        " from the platform"
    )
    assert sentence in caplog.messages
    assert read_report(app)["facts"]["lost webhooks"] == sentence
    assert sentence.replace("`", "") in app.log_in(ALICE).get("/system").text


def test_webhooks_after_an_older_inbox_was_put_back_are_applied(app, tmp_path):
    receive(app, 1)
    app.product.stop()
    shutil.copy(tmp_path / "inbox.db", tmp_path / "inbox.older")
    app.restart()
    receive(app, 2, 3)
    app.product.stop()
    (tmp_path / "inbox.older").rename(tmp_path / "inbox.db")
    app.restart()
    receive(app, 4)
    assert list_webhooks(app) == [(1, "done"), (4, "done")]
    assert "was older than mirror.db" in read_report(app)["facts"]["lost webhooks"]
    assert "webhooks 2 to 3 are no longer stored" in read_report(app)["facts"]["lost webhooks"]


def test_a_loss_is_reported_for_seven_days_across_restarts(app, tmp_path, movable_clock, caplog):
    receive(app, 1)
    app.product.stop()
    remove_inbox(tmp_path)
    app.restart()
    caplog.clear()
    movable_clock.set("2026-09-09 11:59:00")
    app.restart()
    assert "so webhook 1 is no longer stored" in read_report(app)["facts"]["lost webhooks"]
    assert not [message for message in caplog.messages if "inbox.db" in message]
    movable_clock.set("2026-09-09 12:01:00")
    app.restart()
    assert "lost webhooks" not in read_report(app)["facts"]


def test_an_inbox_that_is_lost_before_any_webhook_was_applied_is_reported(app, tmp_path):
    app.product.stop()
    remove_inbox(tmp_path)
    app.restart()
    assert "so its webhooks are no longer stored" in read_report(app)["facts"]["lost webhooks"]
    receive(app, 1)
    assert list_webhooks(app) == [(1, "done")]


def test_nothing_is_lost_at_a_start_and_with_webhooks_that_retention_deleted(app):
    assert "lost webhooks" not in read_report(app)["facts"]
    receive(app, 1, 2)
    app.context.inbox.database.write(lambda tx: tx.execute("DELETE FROM inbox"))
    app.restart()
    receive(app, 3)
    assert list_webhooks(app) == [(3, "done")]
    assert "lost webhooks" not in read_report(app)["facts"]


def test_an_interrupted_first_start_is_not_a_loss(tmp_path):
    (tmp_path / "house.db").touch()
    open_app_db(tmp_path / "house.db").close()


def test_a_webhook_that_stays_new_for_more_than_60_s_fails_a_health_check(app, movable_clock):
    receive(app, 1)
    webhook = {**SAMPLE, "id": "1788350400.2", "call_id": 4278000002}
    app.context.inbox.receive(json.dumps(webhook).encode()).result(30)
    movable_clock.set("2026-09-02 12:01:00")
    assert read_report(app)["checks"]["webhook delay"]["state"] == "ok"
    movable_clock.set("2026-09-02 12:01:01")
    report = read_report(app)
    assert report["status"] == "degraded"
    assert report["checks"]["webhook delay"]["error"] == (
        f"Webhook 2 of {NOW} UTC is stored but not applied after 60 s. If this does not change within"
        f" minutes, run `switchroom replay --since '{NOW}'`."
    )
    app.context.applier.run()
    assert read_report(app)["checks"]["webhook delay"]["state"] == "ok"
