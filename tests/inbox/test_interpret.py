"""Interpretation of webhooks of every kind, with the observed types."""

from __future__ import annotations

import json

import pytest

from integration.catalogue.events import EVENTS
from integration.inbox.interpret import (
    RecordingReady,
    UnknownEvent,
    interpret,
    parse_body,
    read_envelope,
)
from integration.mirror.calls.facts import CallEvent
from integration.mirror.page_queries.messages import SmsReceived
from tests.support.fake_exchange import FIXTURES, read_fixture

SAMPLES = sorted(FIXTURES.glob("webhook-*.json"))


def read(payload, received_at="2026-09-02 10:00:00"):
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    envelope, record = read_envelope(body), parse_body(body)
    assert record is not None
    return interpret(record, received_at, envelope.event_id or "sha256:x", envelope.event_name)


def sample(name):
    return read_fixture(f"webhook-{name}")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_each_sample_is_interpreted_with_its_values(path):
    payload = json.loads(path.read_text())
    event = read(payload)
    assert not isinstance(event, UnknownEvent)
    assert event.event_id == payload["id"]
    assert event.event_time == payload["event_time"]
    if isinstance(event, RecordingReady):
        assert (event.monitor_id, event.leg_id) == (payload["monitor_id"], payload["call_id"])
    else:
        assert json.loads(event.doc) == payload
    if isinstance(event, CallEvent):
        assert event.leg_id == payload["call_id"]
        assert event.root_id == payload.get("root_call_id")
        assert event.final is payload.get("final")
        for name in ("state", "src", "src_id", "dst", "dst_name", "connected_at", "t_cause", "destination"):
            assert getattr(event, name) == payload.get(name), name


def test_both_variants_of_the_sms_event_give_the_same_message():
    english, translated = read(sample("sms.received")), read(sample("sms.received-translated"))
    assert isinstance(english, SmsReceived)
    assert isinstance(translated, SmsReceived)
    assert (english.sender, english.receiver, english.text) == (
        translated.sender,
        translated.receiver,
        translated.text,
    )
    assert (english.user_id, translated.user_id) == (1000002, None)


@pytest.mark.parametrize("call_id", [None, "", "abc", 1.5, True, [1], 2**70, {}])
def test_a_call_event_without_a_valid_call_id_is_rejected_with_its_name(call_id):
    with pytest.raises(ValueError, match=r"call\.ringing has no valid call_id"):
        read({"event_name": "call.ringing", "call_id": call_id})


def test_ids_and_times_have_several_forms():
    times = {"start_time": "2026-09-02T08:45:55Z", "connected_at": "2026-09-02 10:45:58.250+02:00"}
    event = read({"event_name": "call.hangup", "call_id": "7", "event_time": "2026-09-02 08:46", **times})
    assert (event.leg_id, event.event_time) == (7, "2026-09-02 08:46:00")
    assert (event.start_time, event.connected_at) == ("2026-09-02 08:45:55", "2026-09-02 08:45:58")
    event = read(
        {"event_name": "call.ringing", "call_id": 7.0, "event_time": "soon", "start_time": 1788252353}
    )
    assert (event.leg_id, event.event_time) == (7, "2026-09-02 10:00:00")
    assert event.start_time == "2026-09-01 08:45:53"


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), (1, True), ("1", True), ("false", False), (0, False), (None, None)]
)
def test_final_is_read_from_boolean_number_and_text(value, expected):
    assert read({"event_name": "call.missed", "call_id": 1, "final": value}).final is expected


def test_no_event_of_the_catalogue_is_unknown():
    for event in EVENTS:
        assert not isinstance(read({"event_name": event.name, "call_id": 1}), UnknownEvent)
