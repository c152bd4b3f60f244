"""Legal holds protect data from the erasure of another number (S21)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.commands import Progress
from integration.core.json_records import JsonRecord
from integration.factory import Product
from integration.inbox.replay import replay
from integration.mirror.records import subresources
from integration.mirror.records.upsert import upsert
from integration.privacy import erase, holds
from integration.workspace import notes
from tests.support.applications.filled_data_dir import (
    DDI,
    LEG,
    OTHER,
    OTHER_LEG,
    THEIRS,
    FilledDataDir,
    stamp,
)

SPELLED = "07700\u2011900123"
HELD_SMS = {
    "id": 43, "created_at": stamp(40), "from": OTHER, "to": DDI, "type": "I",
    "message": f"my other mobile is {SPELLED}",
}  # fmt: skip
HELD_CONTACT = {"id": 33, "first_name": "Ann", "last_name": "Both", "mobile": f"+{THEIRS}", "work": OTHER}
HELD_EVENTS: list[dict[str, Any]] = [
    {"id": "held.1", "event_name": "sms.received", "event_time": stamp(40), "from_no": OTHER, "to_no": DDI,
     "text": f"ring {SPELLED}"},
    {"id": "held.2", "event_name": "new.kind", "event_time": stamp(40), "root_call_id": OTHER_LEG,
     "who": {"phone": f"+{THEIRS}"}},
]  # fmt: skip


def store(product: Product, collection: str, *records: dict[str, Any]) -> None:
    documents = [JsonRecord(json.dumps(record, ensure_ascii=False), record) for record in records]
    work = partial(
        upsert, resource=get_resource(collection), records=documents, source="sync",
        requested_at=clock.utc_text(),
    )  # fmt: skip
    product.context.mirror_db.write(work)


def add_held_data(product: Product) -> None:
    """Add data with THEIRS that names OTHER or belongs to its call."""
    store(product, "sms", HELD_SMS)
    store(product, "contacts", HELD_CONTACT)
    for event in HELD_EVENTS:
        product.context.inbox.receive(json.dumps(event).encode()).result(30)
    product.context.inbox.receive(f"no JSON of {OTHER} and {SPELLED}".encode("utf-16")).result(30)
    replay(product.context, {}, Progress(lambda _: None, lambda: True))
    product.context.app_db.write(lambda tx: notes.add_note(tx, OTHER_LEG, "sue", f"rang from {SPELLED}"))
    product.context.app_db.write(lambda tx: notes.add_note(tx, LEG, "sue", f"partner of {OTHER}"))
    product.context.mirror_db.write(
        lambda tx: subresources.store(
            tx, "cdrs", 3, "notes", f'[{{"text":"see {SPELLED}"}}]', clock.utc_text()
        )
    )


def read_held_data(product: Product) -> dict[str, list[tuple[object, ...]]]:
    queries = {
        "sms": "SELECT message, _doc FROM sms WHERE id = 43",
        "contacts": "SELECT id, _doc FROM contacts WHERE id = 33",
        "events": "SELECT event_id, text, doc FROM _sms_events WHERE event_id = 'held.1'",
        "notes of CDRs": "SELECT key, doc FROM _below WHERE key = 3",
    }
    with product.context.mirror_db.read() as connection:
        found = {name: [tuple(row) for row in connection.execute(sql)] for name, sql in queries.items()}
    with product.context.app_db.read() as connection:
        rows = connection.execute("SELECT leg_id, text FROM notes WHERE text LIKE '%0%' ORDER BY id")
        found["notes"] = [tuple(row) for row in rows]
    found["webhooks"] = [(bytes(row.body),) for row in product.context.inbox.list_after(10, 100)]
    return found


@pytest.fixture
def held_place(place: FilledDataDir) -> FilledDataDir:
    with place.product() as product:
        add_held_data(product)
    return place


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param((f"+{OTHER}",), id="number", marks=pytest.mark.exhaustive),
        pytest.param((f"+{OTHER}", str(OTHER_LEG)), id="and call"),
    ],
)
def test_data_under_hold_stays_unchanged_when_another_number_is_erased(
    held_place: FilledDataDir, hold: tuple[str, ...]
) -> None:
    for what in hold:
        assert held_place.hold(what, "--reason", "claim 17").exit_code == 0
    with held_place.product() as product:
        before = read_held_data(product)
    assert {name: len(rows) for name, rows in before.items()} == {
        "sms": 1, "contacts": 1, "events": 1, "notes of CDRs": 1, "notes": 2, "webhooks": 3,
    }  # fmt: skip
    shown, done = held_place.erase(f"+{THEIRS}"), held_place.erase(f"+{THEIRS}", "--yes")
    assert (done.exit_code, "erasure 1: done" in done.stdout) == (0, True)
    for result in (shown, done):
        listed = [line for line in result.stderr.splitlines() if line.startswith("kept under legal hold")]
        assert sorted(listed) == [
            "kept under legal hold: SMS 43",
            "kept under legal hold: contacts 33",
            "kept under legal hold: events of SMS held.1",
            "kept under legal hold: notes 3, 4",
            "kept under legal hold: notes or messages below cdrs 3",
            "kept under legal hold: webhooks as received 11, 12, 13",
        ]
    with held_place.product() as product:
        assert read_held_data(product) == before
        # A sync and repeated webhooks find the records still held.
        add_held_data(product)
        after = read_held_data(product)
        assert {name: after[name] for name in ("sms", "events", "webhooks", "notes of CDRs")} == {
            name: before[name] for name in ("sms", "events", "webhooks", "notes of CDRs")
        }
    assert held_place.find_texts("Ann Example", THEIRS[2:]).keys() <= {"mirror.db", "inbox.db"}
    assert held_place.find_texts("Ann Example") == {}


def test_a_hold_that_is_set_during_an_erasure_protects_what_is_left(held_place: FilledDataDir) -> None:
    with held_place.product() as product:
        # The own path of a record can name a number that the list does not.
        product.context.mirror_db.write(
            lambda tx: tx.execute(
                "UPDATE faxes SET _item = ? WHERE id = 51",
                (f'{{"id":51,"from":"+{THEIRS}","to":"+{OTHER}"}}',),
            )
        )
        before, is_set = read_held_data(product), False

        def set_hold(facts: dict[str, Any]) -> None:
            nonlocal is_set
            if facts["doing"] == "webhooks as received" and not is_set:
                is_set = True
                values = {"kind": "number", "what": f"+{OTHER}", "reason": "claim 17"}
                holds.set_hold(product.context, values, Progress(lambda _: None, lambda: True))

        done = erase.erase(product.context, {"number": f"+{THEIRS}"}, Progress(set_hold, lambda: True))
        assert (is_set, done["left"], done["held"]["faxes"]) == (True, {}, [51])
        assert read_held_data(product) == before
    assert held_place.find_texts("Ann Example") == {}


def test_data_is_erased_by_the_first_erasure_after_the_release(held_place: FilledDataDir) -> None:
    held_place.hold(f"+{OTHER}", "--reason", "claim 17")
    held_place.erase(f"+{THEIRS}", "--yes")
    held_place.hold(f"+{OTHER}", "--release")
    done = held_place.erase(f"+{THEIRS}", "--yes")
    assert (done.exit_code, "kept under" in done.stderr) == (0, False)
    assert held_place.find_texts(THEIRS, SPELLED, "\\u2011900123", "Ann Both") == {}


def test_a_hold_of_a_call_protects_its_notes_and_webhooks(held_place: FilledDataDir) -> None:
    held_place.hold(str(OTHER_LEG), "--reason", "claim 17")
    done = held_place.erase(f"+{THEIRS}", "--yes")
    assert done.exit_code == 0
    assert "kept under legal hold: webhooks as received 12" in done.stderr
    assert "kept under legal hold: notes 3" in done.stderr
    with held_place.product() as product:
        held = read_held_data(product)
    assert held["notes"] == [(OTHER_LEG, f"rang from {SPELLED}")]
    assert held["notes of CDRs"] == [(3, f'[{{"text":"see {SPELLED}"}}]')]
    assert held["contacts"] == []
    assert SPELLED not in json.dumps(held["sms"], ensure_ascii=False)
