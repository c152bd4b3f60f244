"""The catalogue's webhooks against the text of the specification and docs/platform.md#9-events."""

from __future__ import annotations

import re

from integration.catalogue import events
from tests.catalogue import specification

CALL_EVENTS = specification.table(specification.section("Call events"))
SMS_EVENT = specification.table(specification.section("SMS-received event"))
OBSERVED = {"call.dtmf", "sms.received", "monitor.audio_ready"}


def told(rows):
    return [(name, specification.TYPES[type]) for name, type, _ in rows]


def documented(event):
    return [(field.name, field.type) for field in event.fields if field.documented]


def test_every_event_name_of_the_specification_and_of_observed_md_is_known():
    (names,) = [meaning for name, _, meaning in CALL_EVENTS if name == "event_name"]
    (sms,) = [meaning for name, _, meaning in SMS_EVENT if name == "nome_do_evento"]
    known = {event.name for event in events.EVENTS}
    specified = {*names.split(", "), *re.findall(r"`([a-z.]+)`", sms)}
    assert len(specified) == 8
    assert known == specified | OBSERVED
    assert {event.name for event in events.EVENTS if not event.documented} == OBSERVED


def test_call_events_have_the_documented_fields_in_their_order():
    for event in events.EVENTS:
        if event.kind == "call":
            assert documented(event) == told(CALL_EVENTS), event.name


def test_the_documented_sms_event_has_the_documented_fields():
    sms = events.get_event("sms.recebido")
    assert sms is not None
    assert sorted(documented(sms)) == sorted(told(SMS_EVENT))
    assert sms.name_field == "nome_do_evento"


def test_both_dialects_of_the_sms_event_differ_in_name_and_text_alone():
    english, translated = events.get_event("sms.received"), events.get_event("sms.recebido")
    assert english is not None
    assert translated is not None
    ours = {field.name for field in english.fields}
    theirs = {field.name for field in translated.fields}
    assert ours - theirs == {"event_name", "text"}
    assert theirs - ours == {"nome_do_evento", "texto"}


def test_each_event_has_the_extra_fields_observed():
    extra = {
        event.name: {field.name for field in event.fields if not field.documented} for event in events.EVENTS
    }
    every_call = {"src_hash", "terminated_by", "root_call_id"}
    assert extra["call.hangup"] == every_call
    assert extra["call.missed"] == every_call | {"final"}
    assert extra["call.dtmf"] == every_call | {"dtmf_tag", "dtmf_target"}
    assert {"monitor_id", "call_id", "customer_id", "user_id", "duration", "size"} < extra[
        "monitor.audio_ready"
    ]


def test_states_are_those_of_the_table_in_its_order():
    rows = specification.table(
        specification.section("Call states").split("correspond to SIP signalling as follows:", 1)[1]
    )
    assert tuple(state for state, _ in rows) == events.CALL_STATES


def test_an_unknown_name_is_none():
    assert events.get_event("queue.wrapup") is None
    assert events.get_event("CALL.MISSED") is None
