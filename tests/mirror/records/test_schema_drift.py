from __future__ import annotations

import json

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord, read_page, read_record
from integration.inbox.interpret import read_envelope
from integration.mirror.records import schema_drift
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state

CDRS = get_resource("cdrs")
AT = "2026-11-02 09:15:00"


@pytest.fixture
def mirror(tmp_path):
    mirror = open_mirror(tmp_path / "mirror.db")
    schema_drift.register_hooks(mirror, collection_state.is_complete)
    yield mirror
    mirror.close()


def store(mirror, *records, of=CDRS, at=AT):
    documents = [JsonRecord(json.dumps(record), record) for record in records]
    mirror.write(lambda tx: upsert(tx, of, documents, source="sync", requested_at=at))


def list_drift(mirror):
    with mirror.read() as connection:
        return {(found.field, found.kind, found.value) for found in schema_drift.list_drift(connection)}


NULLS = {field.name: None for field in CDRS.fields if field.name != "id"}
OTHER_TYPES = {"string": "7", "number": 7.5, "boolean": True, "array": [7], "object": {"a": 1}}
DATES = {
    "2026-11-02T09:15:00Z": "####-##-##T##:##:##Z",
    "2026-02-30 09:15:00": "####-##-## ##:##:##",
    "0000-00-00 00:00:00": "0000-00-00 00:00:00",
    "0001-02-01 00:00:00": "0001-##-## ##:##:##",
    "": "empty",
    "on 07700 900101": "text",
}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([{"type": "O", "charge": 0.1, "rate": 1, "calldate": AT, "disposition": "CONNECTED"}], set()),
        ([{"type": "I", "charge": None, "labels": [], "is_root": True, "src": ""}], set()),
        ([NULLS], {("calldate", "type", "null")}),
        (
            [
                {"mood": "fine", "duration": "12", "type": "X"},
                {"mood": "dull", "duration": "13", "type": "X"},
            ],
            {("mood", "field", "string"), ("duration", "type", "string"), ("type", "code", "X")},
        ),
        *(([{"duration": value}], {("duration", "type", name)}) for name, value in OTHER_TYPES.items()),
        *(
            ([{"calldate": date}, {"calldate": date.replace("02", "03")}], {("calldate", "type", form)})
            for date, form in DATES.items()
        ),
    ],
)
def test_each_difference_from_the_documentation_is_recorded_once(mirror, records, expected):
    store(mirror, *({"id": number, **record} for number, record in enumerate(records)))
    assert list_drift(mirror) == expected


def test_codes_without_a_documented_list_cause_no_drift_during_the_initial_sync(mirror):
    store(mirror, {"id": 1, "context": "RG-80001"}, {"id": 2, "context": "PSTN_CALL"})
    assert list_drift(mirror) == set()
    mirror.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 2, 2, AT))
    store(mirror, {"id": 3, "context": "RG-80002"})
    assert list_drift(mirror) == set(), "the id of another group is not a new code"
    store(mirror, {"id": 4, "context": "MOON"})
    assert list_drift(mirror) == {("context", "code", "MOON")}


def test_first_and_last_seen_times_are_stored(mirror, monkeypatch):
    store(mirror, {"id": 1, "mood": "fine"})
    with mirror.read() as connection:
        (before,) = schema_drift.list_drift(connection)
    monkeypatch.setattr(schema_drift, "LAST_SEEN_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(schema_drift.clock, "utc_text", lambda *_: "2999-01-01 00:00:00")
    store(mirror, {"id": 2, "mood": "dull"})
    with mirror.read() as connection:
        (after,) = schema_drift.list_drift(connection)
    assert after.first_seen == before.first_seen
    assert after.last_seen == "2999-01-01 00:00:00"


def test_a_code_documented_as_number_and_observed_as_text_may_have_both_types(mirror):
    queues = get_resource("queues")
    store(mirror, {"id": 1, "ring_strategy": "A"}, {"id": 2, "ring_strategy": 3}, of=queues)
    assert ("ring_strategy", "type", "string") not in list_drift(mirror)
    assert ("ring_strategy", "type", "integer") not in list_drift(mirror)


def test_nested_values_stored_as_text_are_recorded_by_their_json_type(mirror):
    """Nested values stay text beside a number beyond 64 bits."""
    body = (
        b'{"data": [{"id": 1, "src": {"a": 12345678901234567890}, "mood": [1], "duration": {}}], "total": 1}'
    )
    documents = read_page(body).records
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", requested_at=AT))
    assert list_drift(mirror) == {
        ("src", "type", "object"),
        ("mood", "field", "array"),
        ("duration", "type", "object"),
    }


def test_drift_of_webhooks_is_recorded_and_invalid_event_names_are_ignored(mirror):
    bodies = [
        json.dumps({"id": "a", "event_name": "call.hangup", "call_id": 7, "mood": "fine", "duration": "12"}),
        json.dumps({"id": "b", "event_name": ["call.hangup"], "mood": "fine"}),
        json.dumps({"id": "c", "event_name": "queue.wrapup", "mood": "fine"}),
    ]
    events = [(read_envelope(body.encode()).event_name, read_record(body)) for body in bodies]
    mirror.write(lambda tx: schema_drift.EventDriftDetector().check_events(tx, events))
    with mirror.read() as connection:
        found = {(drift.collection, drift.field, drift.kind) for drift in schema_drift.list_drift(connection)}
    assert found == {("webhook call.hangup", "mood", "field"), ("webhook call.hangup", "duration", "type")}
