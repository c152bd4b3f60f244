"""Samples of the platform against the catalogue."""

from __future__ import annotations

import json

import pytest

from integration import catalogue
from integration.catalogue import events
from integration.catalogue.shapes import Field
from tests.catalogue import specification

RECORDS = {
    "response-callmeback-settings-200.json": "callmeback_setting",
    "response-calls-post-201.json": "call",
    "response-cdrs-list-200.json": "cdr",
    "response-faxes-list-200.json": "fax",
    "response-me-200.json": "me",
    "response-monitors-list-200.json": "monitor",
    "response-queue-200.json": "queue",
    "response-queue-patch-200.json": "queue",
    "response-queues-include-users-200.json": "queue",
    "response-sms-list-200.json": "sms",
    "response-users-list-200.json": "user",
    "response-voicemessages-list-200.json": "voicemessage",
}
REQUESTS = {"request-reportschedules-post.json": "POST /reportschedules"}
WEBHOOKS = sorted(path.name for path in specification.PLATFORM.glob("webhook-*.json"))

PYTHON = {
    "integer": int,
    "number": (int, float),
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
    "timestamp": str,
    "any": object,
}


def sample(name: str):
    return json.loads((specification.PLATFORM / name).read_text(encoding="utf-8"))


def check(fields: tuple[Field, ...], record: dict) -> None:
    fields_by_name = {field.name: field for field in fields}
    assert set(record) <= set(fields_by_name)
    for name, value in record.items():
        if value is not None:
            type = fields_by_name[name].actual_type
            assert isinstance(value, PYTHON[type]), (name, value, type)
            assert type == "boolean" or not isinstance(value, bool), name


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_each_key_of_a_record_is_a_field_of_the_catalogue_with_its_type(name):
    data = sample(name)["data"]
    for record in data if isinstance(data, list) else [data]:
        check(catalogue.get_resource(RECORDS[name]).fields, record)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_each_key_of_a_request_is_a_field_of_the_body(name):
    method, path = REQUESTS[name].split()
    match = catalogue.match(method, path)
    assert match is not None
    assert match[0].body is not None
    check(match[0].body, sample(name))


@pytest.mark.parametrize("name", sorted(WEBHOOKS))
def test_each_key_of_a_webhook_is_a_field_of_its_event(name):
    payload = sample(name)
    (name_field,) = [field for field in events.NAME_FIELDS if field in payload]
    event = events.get_event(payload[name_field])
    assert event is not None
    check(event.fields, payload)
