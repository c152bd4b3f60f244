"""Webhooks: bodies like the samples, credentials, retries, HTTPS."""

from __future__ import annotations

import re

import pytest

from tests.support.harness import wait_for
from tests.support.simulator_client import sample

# Keys of every call event in captures. Most samples come from the documentation and lack them.
OBSERVED_KEYS = {"root_call_id"}
SAMPLES = {
    "call.initial": "webhook-call.initial",
    "call.ringing": "webhook-call.ringing",
    "call.connected": "webhook-call.connected",
    "call.hold": "webhook-call.hold",
    "call.unhold": "webhook-call.unhold",
    "call.hangup": "webhook-call.hangup",
    "call.dtmf": "webhook-call.dtmf",
    "call.missed": "webhook-call.missed-final",
    "monitor.audio_ready": "webhook-monitor.audio_ready",
}


@pytest.mark.exhaustive
def test_every_event_has_the_keys_and_types_of_its_sample(begin):
    client = begin(seed=3)
    for _ in range(30):
        for script in client.simulator.world.scripts.by_name:
            client.play(script)
    events = [delivery["event"] for delivery in client.control("GET", "/webhooks")["data"]]
    assert {event["event_name"] for event in events} == set(SAMPLES)
    for event in events:
        expected = sample(SAMPLES[event["event_name"]])
        extra = OBSERVED_KEYS if event["event_name"].startswith("call.") else set()
        assert event.keys() == expected.keys() | extra, event["event_name"]
        for key, value in expected.items():
            if value is not None and event[key] is not None:
                assert type(event[key]) is type(value), (event["event_name"], key)


def test_the_documented_form_equals_the_samples_exactly(begin):
    client = begin()
    played = client.play("ring_group_missed", documented=True)
    for event in played["events"]:
        name = event["event_name"]
        assert (
            event.keys() == sample("webhook-call.missed" if name == "call.missed" else SAMPLES[name]).keys()
        )
    assert played["events"][-1]["state"] == "MISSED"


def test_event_ids_contain_the_time_and_increase(begin):
    played = begin().play("ring_group_answered")
    ids = [event["id"] for event in played["events"]]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda text: text.split(".")[1])
    for event in played["events"]:
        match = re.fullmatch(r"uk003\.([0-9a-f]{8})([0-9a-f]{5})\d\.\d{8}", event["id"])
        assert match
        assert int(match[2], 16) < 1_000_000


def test_an_sms_event_has_the_documented_form(begin):
    client = begin()
    played = client.control("POST", "/sms", json={"message": "Hi", "user": None})
    assert played["event"].keys() == sample("webhook-sms.received").keys()
    assert played["event"]["user_id"] is None
    assert client.rows("/sms") == [played["sms"]]


def test_events_arrive_in_order_with_the_credentials_of_the_url(begin, receiver):
    client = begin(webhook=receiver.url.replace("http://", "http://hook:s3cret@"))
    played = client.play("transfer", user="1002", wait=5)
    assert receiver.wait_for(len(played["events"])) == played["events"]
    assert receiver.headers[0]["Authorization"] == "Basic aG9vazpzM2NyZXQ="
    assert receiver.headers[0]["Content-Type"] == "application/json"


def test_a_webhook_without_a_2xx_response_is_retried_until_the_last_gap(begin, receiver):
    receiver.answers[:] = [500, 404]
    client = begin(webhook=receiver.url, webhook_gaps=(0.01, 0.02))
    client.control("POST", "/sms", json={"message": "again"})
    received = receiver.wait_for(3)
    assert received[0] == received[1] == received[2]

    def list_states():
        return [delivery["state"] for delivery in client.control("GET", "/webhooks")["data"]]

    # The sender reads a response after the receiver has sent it.
    wait_for(lambda: list_states() == ["delivered"], "the end of the delivery")
    (delivery,) = client.control("GET", "/webhooks")["data"]
    assert [attempt["status"] for attempt in delivery["tries"]] == [500, 404, 200]
    receiver.answers[:] = [500] * 9
    client.control("POST", "/sms", json={})
    receiver.wait_for(6)
    wait_for(lambda: list_states() == ["delivered", "failed"], "the last attempt")


def test_a_new_webhook_url_receives_a_call_soon(begin, receiver):
    client = begin(live=True, speed=0.01)
    client.control("POST", "/webhook", json={"url": receiver.url})
    assert receiver.wait_for(1)[0]["event_name"] == "call.initial"
