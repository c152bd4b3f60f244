"""Events of the catalogue against the specification and docs/platform.md#9-events."""

from __future__ import annotations

import re

from integration.catalogue import events
from tests.catalogue import specification

CALL_EVENTS = specification.table(specification.section("Call events"))
SMS_EVENT = specification.table(specification.section("SMS-received event"))
OBSERVED = {"call.dtmf", "sms.received", "monitor.audio_ready"}


def parse_fields(rows):
    return [(name, specification.TYPES[type]) for name, type, _ in rows]


def documented(event):
    return [(field.name, field.type) for field in event.fields if field.documented]


def test_the_catalogue_has_each_event_name_specified_or_observed():
    (names,) = [meaning for name, _, meaning in CALL_EVENTS if name == "event_name"]
    (sms,) = [meaning for name, _, meaning in SMS_EVENT if name == "nome_do_evento"]
    declared = {event.name for event in events.EVENTS}
    specified = {*names.split(", "), *re.findall(r"`([a-z.]+)`", sms)}
    assert len(specified) == 8
    assert declared == specified | OBSERVED


def test_call_events_have_the_documented_fields_in_their_order():
    for event in events.EVENTS:
        if event.kind == "call":
            assert documented(event) == parse_fields(CALL_EVENTS), event.name


def test_the_documented_sms_event_has_the_documented_fields():
    sms = events.get_event("sms.recebido")
    assert sms is not None
    assert sorted(documented(sms)) == sorted(parse_fields(SMS_EVENT))
