from __future__ import annotations

import json
from types import SimpleNamespace

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


def come(mirror, *records, of=CDRS, at=AT):
    documents = [JsonRecord(json.dumps(record), record) for record in records]
    mirror.write(lambda tx: upsert(tx, of, documents, source="sync", requested_at=at))


def departures(mirror):
    with mirror.read() as connection:
        return {(found.field, found.kind, found.value) for found in schema_drift.list_drift(connection)}


def test_records_as_documented_depart_from_nothing(mirror):
    come(
        mirror,
        {"id": 1, "type": "O", "charge": 0.1, "rate": 1, "calldate": AT, "disposition": "CONNECTED"},
        {"id": 2, "type": "I", "charge": None, "labels": [], "is_root": True, "src": ""},
    )
    assert departures(mirror) == set()


def test_unknown_fields_other_types_and_new_codes_are_noted_once(mirror):
    come(mirror, {"id": 1, "mood": "fine", "duration": "12", "type": "X"})
    come(mirror, {"id": 2, "mood": "dull", "duration": "13", "type": "X"})
    assert departures(mirror) == {
        ("mood", "field", "string"),
        ("duration", "type", "string"),
        ("type", "code", "X"),
    }


@pytest.mark.parametrize(
    ("value", "word"),
    [("7", "string"), (7.5, "number"), (True, "boolean"), ([7], "array"), ({"a": 1}, "object")],
)
def test_every_other_type_is_told(mirror, value, word):
    come(mirror, {"id": 1, "duration": value})
    assert departures(mirror) == {("duration", "type", word)}


def test_null_is_no_departure(mirror):
    come(mirror, {"id": 1, **{field.name: None for field in CDRS.fields if field.name != "id"}})
    assert departures(mirror) == set()


def test_codes_nobody_listed_are_learnt_until_the_first_walk_is_complete(mirror):
    come(mirror, {"id": 1, "context": "RG-80001"}, {"id": 2, "context": "PSTN_CALL"})
    assert departures(mirror) == set()
    mirror.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 2, 2, AT))
    come(mirror, {"id": 3, "context": "RG-80002"})
    assert departures(mirror) == set(), "another group is no other code"
    come(mirror, {"id": 4, "context": "MOON"})
    assert departures(mirror) == {("context", "code", "MOON")}


def test_first_and_last_sight_are_kept(mirror, monkeypatch):
    come(mirror, {"id": 1, "mood": "fine"})
    with mirror.read() as connection:
        (before,) = schema_drift.list_drift(connection)
    monkeypatch.setattr(schema_drift, "LAST_SEEN_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(schema_drift.clock, "utc_text", lambda *_: "2999-01-01 00:00:00")
    come(mirror, {"id": 2, "mood": "dull"})
    with mirror.read() as connection:
        (after,) = schema_drift.list_drift(connection)
    assert after.first_seen == before.first_seen
    assert after.last_seen == "2999-01-01 00:00:00"


def test_where_a_code_is_documented_as_a_number_and_observed_as_text_neither_departs(mirror):
    queues = get_resource("queues")
    come(mirror, {"id": 1, "ring_strategy": "A"}, {"id": 2, "ring_strategy": 3}, of=queues)
    assert ("ring_strategy", "type", "string") not in departures(mirror)
    assert ("ring_strategy", "type", "integer") not in departures(mirror)


def test_looking_costs_little():
    """Records of one shape are looked at as one."""
    compared = []

    class Values(dict):
        def items(self):
            compared.append(self)
            return super().items()

    database = SimpleNamespace(hooks={})
    schema_drift.register_hooks(database, collection_state.is_complete)
    (hook,) = database.hooks[CDRS.table]
    values = {field.name: 1 if field.actual_type == "integer" else None for field in CDRS.fields}
    for _ in range(2):
        records = [JsonRecord("{}", Values(values, id=number)) for number in range(1000)]
        hook(None, SimpleNamespace(changed=records))
    assert len(compared) == 1


def test_what_was_kept_unparsed_departs_as_what_it_is(mirror):
    """A number too big to hold makes its whole page be read the exact way, nested values as text."""
    body = (
        b'{"data": [{"id": 1, "src": {"a": 12345678901234567890}, "mood": [1], "duration": {}}], "total": 1}'
    )
    documents = read_page(body).records
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", requested_at=AT))
    assert departures(mirror) == {
        ("src", "type", "object"),
        ("mood", "field", "array"),
        ("duration", "type", "object"),
    }


def test_what_webhooks_tell_departs_too_and_names_of_any_type_harm_nobody(mirror):
    bodies = [
        json.dumps({"id": "a", "event_name": "call.hangup", "call_id": 7, "mood": "fine", "duration": "12"}),
        json.dumps({"id": "b", "event_name": ["call.hangup"], "mood": "fine"}),
        json.dumps({"id": "c", "event_name": "queue.wrapup", "mood": "fine"}),
    ]
    events = [(read_envelope(body.encode()).event_name, read_record(body)) for body in bodies]
    mirror.write(lambda tx: schema_drift.EventDriftDetector().check_events(tx, events))
    with mirror.read() as connection:
        found = {(one.collection, one.field, one.kind) for one in schema_drift.list_drift(connection)}
    assert found == {("webhook call.hangup", "mood", "field"), ("webhook call.hangup", "duration", "type")}
