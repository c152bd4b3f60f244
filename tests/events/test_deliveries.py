"""Outgoing webhooks: signed requests in order, retries, events set aside, gaps, replay and privacy."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
import requests
from standardwebhooks import Webhook

from integration.access import audit
from integration.core import clock
from integration.core.commands import Progress, find_handler
from integration.core.errors import DomainError
from integration.events import delivery_log, subscriptions
from integration.mirror.records import change_log
from tests.events.conftest import sign
from tests.support.harness import ROOT, keep_port, wait_for
from tests.support.people import ALICE, CALLER

PAGE = "/settings/outgoing"


def test_a_signed_request_has_the_present_call_and_nothing_is_sent_twice(app, webhooks):
    secret = webhooks.add()
    webhooks.add("anonymous", anonymous=True)
    webhooks.announce(7, 8)
    webhooks.announce(9, event="call.ringing")
    webhooks.deliver()
    webhooks.deliver()
    assert webhooks.calls() == [("call.ended", 7), ("call.ended", 8)]
    request, body = webhooks.requests()[0], webhooks.received()[0]
    assert Webhook(secret).verify(request.body, request.headers) == body
    assert request.headers["webhook-id"] == body["id"]
    assert request.headers["Content-Type"] == "application/json"
    assert (body["data"]["party"], body["data"]["outcome"], body["data"]["labels"]) == (
        CALLER,
        "answered",
        [],
    )
    assert "notes" not in body["data"]
    assert CALLER not in webhooks.requests("anonymous")[0].body.decode()


def test_failures_are_retried_in_order_and_the_third_day_disables(app, webhooks, frozen_clock):
    webhooks.add()
    webhooks.statuses["/crm"] = [500, 301, 408, 429, 503] + [500] * 20
    webhooks.announce(7, 8)
    delays = []
    while (failing := webhooks.find()).disabled_at is None:
        webhooks.deliver()
        delays.append(int(frozen_clock.unix()))
        failing = webhooks.find()
        if failing.disabled_at is None:
            frozen_clock.set(failing.next_at)
    waits = [later - earlier for earlier, later in itertools.pairwise(delays)]
    assert waits == [5, 60, 300, 1800, 7200] + [21600] * 11
    assert {call for _, call in webhooks.calls()} == {7}
    check = app.context.health.report()
    assert check["status"] == "degraded"
    assert (
        "crm is disabled: 127.0.0.1 returned 500"
        in check["checks"]["receivers of outgoing webhooks"]["error"]
    )
    frozen_clock.advance(days=9)
    webhooks.deliver()
    assert len(webhooks.requests()) == len(delays)
    webhooks.statuses.clear()
    subscriptions.enable(app.app_db, webhooks.find().id)
    webhooks.deliver()
    assert webhooks.calls()[-2:] == [("call.ended", 7), ("call.ended", 8)]
    assert app.context.health.report()["checks"]["receivers of outgoing webhooks"]["state"] == "ok"


def test_an_event_that_the_receiver_refuses_six_times_is_set_aside_and_replayed(app, webhooks, frozen_clock):
    webhooks.add()
    webhooks.statuses["/crm"] = [404] * 6
    webhooks.announce(7, 8)
    for _ in range(6):
        webhooks.deliver()
        frozen_clock.advance(hours=2)
    assert webhooks.calls() == [("call.ended", 7)] * 6 + [("call.ended", 8)]
    with app.app_db.read() as connection:
        (attempt,) = delivery_log.list_set_aside(connection)
        number, _ = delivery_log.find_event(connection, attempt.id)
    assert attempt.error == "127.0.0.1 returned 404"
    cursor = webhooks.find().cursor
    assert app.context.deliveries.replay(number, [attempt.id]) == 1
    assert (webhooks.calls()[-1], webhooks.find().cursor) == (("call.ended", 7), cursor)
    with app.app_db.read() as connection:
        assert delivery_log.list_set_aside(connection) == []
        attempts = delivery_log.list_first_attempts(connection, number, "2000-01-01")
        keys = [delivery_log.find_event(connection, id_)[1].key for id_ in attempts]
    assert keys == [7, 8]
    webhooks.statuses["/crm"] = [500]
    with pytest.raises(DomainError, match=r"0 of 2 events were delivered. Then one failed: .* returned 500"):
        app.context.deliveries.replay(number, attempts)


def test_a_running_request_delays_neither_skip_nor_test(app, webhooks, frozen_clock):
    webhooks.add()
    number, browser = webhooks.find().id, app.log_in()
    webhooks.announce(7, 8)
    with pytest.raises(DomainError, match="No failed event"):
        app.context.deliveries.skip(number)
    webhooks.statuses["/crm"] = [500]
    webhooks.deliver()
    webhooks.hanging.add("/crm")
    frozen_clock.advance(seconds=5)
    app.context.deliveries.run()
    wait_for(lambda: len(webhooks.requests()) == 2, "the request that hangs", 10)
    assert "Testing" in browser.post(f"{PAGE}/{number}/test").text
    assert "Set aside" in browser.post(f"{PAGE}/{number}/skip").text
    assert webhooks.log() == [("delivery", "failed", 500), ("delivery", "set aside", None)]
    webhooks.released.set()
    wait_for(lambda: "accepted the test with 200" in browser.get(PAGE).text, "the test", 10)
    webhooks.deliver()
    assert sorted(webhooks.calls()) == [("call.ended", 7)] * 2 + [("call.ended", 8), ("test", 0)]
    find_handler("events.test")(app.context, {"name": "crm"}, None)
    tests = [entry for entry in audit.list_newest(app.app_db) if entry.what == "outgoing webhook tested"]
    assert [(entry.who, entry.result) for entry in tests] == [
        ("command line", "done"),
        (ALICE.email, "done"),
        (ALICE.email, "begun"),
    ]
    assert "Set aside" not in browser.get(PAGE).text, "the running request has delivered the event"


def test_a_refusal_after_other_failures_is_the_first_of_six(app, webhooks, frozen_clock):
    webhooks.add()
    webhooks.add("ended")
    webhooks.statuses["/ended"] = [410]
    webhooks.statuses["/crm"] = [503] * 5 + [404] * 6
    webhooks.announce(7, 8)
    for _ in range(11):
        assert {call for _, call in webhooks.calls()} <= {7}
        webhooks.deliver()
        frozen_clock.advance(hours=6)
    assert webhooks.calls() == [("call.ended", 7)] * 11 + [("call.ended", 8)]
    assert webhooks.log()[-2:] == [("delivery", "set aside", 404), ("delivery", "delivered", 200)]
    assert (webhooks.find("ended").state, webhooks.calls("ended")) == ("disabled", [("call.ended", 7)])


def test_the_failure_of_a_deleted_call_does_not_count_for_the_next(app, webhooks, frozen_clock):
    webhooks.add()
    webhooks.statuses["/crm"] = [500, 500]
    webhooks.announce(7)
    webhooks.deliver()
    app.mirror_db.write(lambda tx: tx.execute("DELETE FROM _calls WHERE id = 7"))
    frozen_clock.advance(days=4)
    webhooks.announce(8)
    webhooks.deliver()
    assert webhooks.calls() == [("call.ended", 7), ("call.ended", 8)]
    assert (webhooks.find().state, webhooks.find().tries) == ("failing", 1)


def test_a_response_after_a_removal_is_not_logged(app, webhooks):
    webhooks.add()
    webhooks.hanging.add("/crm")
    webhooks.announce(7)
    app.context.deliveries.run()
    wait_for(webhooks.requests, "the request", 10)
    subscriptions.remove(app.app_db, webhooks.find().id)
    webhooks.released.set()
    webhooks.deliver()
    assert webhooks.log() == []


def test_a_receiver_that_hangs_delays_no_other(app, webhooks):
    webhooks.hanging.add("/hanging")
    for name in ("hanging", "crm"):
        webhooks.add(name)
    consumer = app.context.deliveries.consumer
    consumer.start()
    for call in (7, 8, 9):
        webhooks.announce(call)
        wait_for(lambda call=call: webhooks.calls()[-1:] == [("call.ended", call)], "an event", 10)
    assert webhooks.calls("hanging") == [("call.ended", 7)], "one request at a time"
    webhooks.released.set()
    wait_for(lambda: len(webhooks.calls("hanging")) == 3, "the events of the other receiver", 10)
    assert webhooks.calls("hanging") == webhooks.calls()


def test_the_old_secret_signs_for_a_day_after_a_rotation(app, webhooks, frozen_clock):
    old = webhooks.add()
    new = subscriptions.rotate(app.app_db, webhooks.find().id)
    webhooks.announce(7)
    webhooks.deliver()
    frozen_clock.advance(hours=24)
    webhooks.announce(8)
    webhooks.deliver()
    first, second = webhooks.requests()
    assert first.headers["webhook-signature"] == f"{sign(first, new)} {sign(first, old)}"
    assert second.headers["webhook-signature"] == sign(second, new)


def test_a_new_epoch_sends_a_gap_and_the_calls_since_an_hour_before(app, webhooks, frozen_clock, caplog):
    frozen_clock.set("2026-03-04 10:00:00")
    webhooks.add("crm", "call.ringing")
    webhooks.add("texts", "message.received")
    app.call(1, "2026-03-04 08:00:00")
    app.call(2, "2026-03-04 09:30:00")
    webhooks.announce(3, event="call.ringing")
    webhooks.deliver()
    frozen_clock.set("2026-03-04 15:00:00")
    app.mirror_db.write(lambda tx: change_log.renew_epoch(tx.connection))
    caplog.set_level("INFO")
    for _ in range(2):
        caplog.clear()
        app.restart()
        assert "webhook crm: events are missing" in caplog.text
        assert "the calls since 2026-03-04 09:00:00 follow as soon as all CDRs are read" in caplog.text
    webhooks.announce(4, event="call.ringing")
    webhooks.deliver()
    assert len(webhooks.received()) == 1
    assert "as soon as all call records are read" in app.log_in().get(PAGE).text
    app.put("cdrs")
    webhooks.deliver()
    webhooks.deliver()
    gap, *later = webhooks.received()[1:]
    assert (gap["type"], gap["data"]) == ("gap", {"from": "2026-03-04 10:00:00", "to": "2026-03-04 15:00:00"})
    assert [(body["type"], body["data"]["id"]) for body in later] == [
        ("call.updated", 3),
        ("call.updated", 4),
        ("call.ringing", 4),
    ]
    assert [body["type"] for body in webhooks.received("texts")] == ["gap"]
    assert webhooks.find().states_since is None


def test_a_new_epoch_sends_stored_changes_if_earlier_ones_are_deleted(app, webhooks, frozen_clock):
    frozen_clock.set("2026-03-04 15:00:00")
    app.put("cdrs")
    webhooks.add()
    webhooks.announce(1)
    webhooks.deliver()
    frozen_clock.set("2026-03-05 15:00:00")
    webhooks.announce(1, event="call.updated", changed=["labels"])
    number = app.mirror_db.write(lambda tx: tx.announce("call_gone", 2, {"into": 1}))
    app.insert("_merged_calls", id=2, into_id=1, change_no=number)
    webhooks.announce(3)
    app.mirror_db.write(lambda tx: change_log.prune(tx, 3))
    app.mirror_db.write(lambda tx: change_log.renew_epoch(tx.connection))
    app.restart()
    webhooks.deliver()
    webhooks.deliver()
    assert webhooks.calls()[1:] == [
        ("gap", None),
        ("call.updated", 1),
        ("call.updated", 2),
        ("call.updated", 3),
    ]


def test_messages_that_are_deleted_while_calls_are_sent_are_a_second_gap(app, webhooks, frozen_clock):
    frozen_clock.set("2026-03-04 15:00:00")
    app.put("cdrs")
    webhooks.add("crm", "call.ended", "message.received")
    webhooks.announce(1)
    app.mirror_db.write(lambda tx: change_log.renew_epoch(tx.connection))
    app.restart()
    webhooks.statuses["/crm"] = [500]
    webhooks.deliver()
    app.mirror_db.write(lambda tx: tx.announce("sms", 9, {"event": "message.received"}))
    webhooks.announce(2)
    app.mirror_db.write(lambda tx: change_log.prune(tx, 1))
    frozen_clock.advance(hours=1)
    webhooks.deliver()
    assert [kind for kind, _ in webhooks.calls()].count("gap") == 3, (
        "two attempts of the first, and one of the second"
    )
    assert webhooks.calls()[-1] == ("call.updated", 2)


def test_at_most_twenty_subscriptions_of_known_kinds(app, webhooks):
    with pytest.raises(DomainError, match=r"no kind of event 'call\.lost'\. Kinds are call\.ringing"):
        webhooks.add("crm", "call.lost")
    for number in range(20):
        webhooks.add(f"crm{number}")
    with pytest.raises(DomainError, match="At most 20"):
        webhooks.add("crm20")
    subscriptions.remove(app.app_db, webhooks.find("crm3").id)
    with pytest.raises(DomainError, match="exists already"):
        webhooks.add("CRM4")
    arguments = {"name": "x", "url": "http://203.0.113.5/", "kinds": ["call.ended"], "anonymous": False}
    with pytest.raises(DomainError, match="must begin with https://"):
        find_handler("events.add")(app.context, arguments, None)


def test_an_erasure_sends_the_erased_call_and_covers_the_responses_in_the_log(app, webhooks):
    webhooks.add()
    webhooks.text = f"thank you for +{CALLER} " + "x" * 2000
    for name in ("call.ringing", "call.connected", "call.hangup"):
        app.event(name, 7, clock.utc_text())
    webhooks.deliver()
    assert webhooks.received()[-1]["data"]["party"] == CALLER
    with app.app_db.read() as connection:
        attempts = delivery_log.list_newest(connection, 10)
    assert {attempt.response for attempt in attempts} == {webhooks.text[:1024]}
    erase = find_handler("number.erase")
    result = erase(app.context, {"number": f"+{CALLER}"}, Progress(lambda _: None, lambda: True))
    assert result["removed"]["log of outgoing webhooks"] == len(attempts)
    assert result["possibly_left"] == []
    webhooks.text = "ok"
    webhooks.deliver()
    erased = webhooks.received()[-1]
    assert (erased["type"], erased["data"]["party"]) == ("call.updated", "erased")
    assert "erased" in erased["data"]["changed"]
    with app.app_db.read() as connection:
        attempts = delivery_log.list_newest(connection, 10)
    assert {attempt.response for attempt in attempts} == {"erased", "ok"}


def test_a_request_checks_the_address_again_and_has_at_most_64_kib(app, webhooks, frozen_clock):
    webhooks.add()
    app.call(7, "2026-03-04 11:00:00", party_name="x" * 70_000)
    webhooks.announce(7)
    webhooks.deliver()
    assert webhooks.received()[0]["data"] == {"id": 7}
    app.restart(outgoing__allow_hosts="")
    webhooks.announce(8)
    webhooks.deliver()
    assert len(webhooks.requests()) == 1
    assert "127.0.0.1 is an address of this machine" in webhooks.find().error


def test_the_example_prints_verified_events_only(app, webhooks):
    with keep_port() as kept:
        url = f"http://127.0.0.1:{kept.getsockname()[1]}/"
        arguments = {"name": "example", "url": url, "kinds": ["call.ended"], "anonymous": False}
        secret = find_handler("events.add")(app.context, arguments, None)["secret"]
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / "receive_events.py")],
            env={**os.environ, "SECRET": secret, "PORT": str(kept.getsockname()[1])},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            wait_for(lambda: requests.post(url, data="{}", timeout=5).status_code == 401, "the receiver", 20)
            webhooks.announce(7)
            webhooks.deliver()
            assert webhooks.log() == [("delivery", "delivered", 204)]
            assert process.stdout.readline().split()[1:] == ["call.ended", "7", CALLER, "ended", "answered"]
        finally:
            process.kill()
            process.communicate()
