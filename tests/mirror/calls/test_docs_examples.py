"""Examples of docs/calls.md: their input gives the `_calls` of the page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.inbox.interpret import interpret
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import CallStore
from integration.mirror.records.upsert import upsert
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.support.payloads.call_facts import CallMirror
from tests.support.payloads.markdown import Table, read_sections

DAY = "2026-09-02"
NULL = "–"
PAGE = Path(__file__).parents[3] / "docs" / "calls.md"
SECTIONS = read_sections(PAGE.read_text("utf-8"))
EXAMPLES = {title: tables for title, tables in SECTIONS.items() if title.startswith("Example ")}
ACCOUNT, DEFAULTS = SECTIONS["Examples"]
FIELD = re.compile(r'`(\w+)=("[^"]*"|[^`]*)`')


def parse_fields(cell: str) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in FIELD.findall(cell)}


DEFAULT_FIELDS = {row["Received"].strip("`"): parse_fields(row["Values"]) for row in DEFAULTS}


@dataclass
class Reader:
    """Applies the rows of one example to a mirror, in their order."""

    mirror_db: Database
    store: CallStore
    fields_by_leg: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    events: int = 0

    def receive(self, row: dict[str, str]) -> None:
        at = f"{DAY} {row['At']}"
        received = row["Received"].strip("`")
        leg_id = None if row["Leg"] == NULL else int(row["Leg"])
        fields = parse_fields(row["Fields"])
        if received.startswith("call."):
            assert leg_id is not None
            self.mirror_db.write(lambda tx: self._add_event(tx, received, leg_id, at, fields))
        elif received == "/calls":
            records = [] if leg_id is None else [make_record({"id": leg_id, **fields})]
            self.mirror_db.write(lambda tx: self.store.apply_poll(tx, records, at))
        elif received == "404":
            assert leg_id is not None
            self.mirror_db.write(lambda tx: self.store.end_missing_legs(tx, [leg_id], at))
        else:
            record = {"live_id": leg_id, **DEFAULT_FIELDS.get(received, {}), **fields}
            self.put(received, record, at)

    def put(self, collection: str, record: dict[str, Any], at: str) -> None:
        resource = get_resource(collection)
        assert record.keys() <= {each.name for each in resource.fields}, f"{collection} has no such field"
        self.mirror_db.write(
            lambda tx: upsert(tx, resource, [make_record(record)], source="sync", requested_at=at)
        )

    def _add_event(self, tx: Transaction, name: str, leg_id: int, at: str, fields: dict[str, Any]) -> None:
        self.events += 1
        values = self.fields_by_leg.setdefault(
            ("call", leg_id), {**DEFAULT_FIELDS["call.…"], "start_time": at, "connected_at": None}
        )
        values.update({"state": None, "final": None, **fields})
        if name == "call.connected" and values["connected_at"] is None:
            values["connected_at"] = at
        event_id = f"uk003.{int(to_unix(at)):08x}{self.events:05x}1.{leg_id:08d}"
        body = {"id": event_id, "event_time": at, "event_name": name, "call_id": leg_id, **values}
        event = interpret(make_record(body), at, event_id, name)
        assert isinstance(event, CallEvent)
        self.store.add_events(tx, [event])

    def calls(self, columns: list[str]) -> list[dict[str, str]]:
        with self.mirror_db.read() as connection:
            rows = connection.execute("SELECT * FROM _calls ORDER BY id").fetchall()
        return [{name: NULL if row[name] is None else str(row[name]) for name in columns} for row in rows]


def make_record(values: dict[str, Any]) -> JsonRecord:
    return JsonRecord(json.dumps(values), values)


def to_unix(at: str) -> float:
    return datetime.strptime(at, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


@pytest.fixture
def reader(empty_mirror: CallMirror) -> Reader:
    reader = Reader(empty_mirror.mirror_db, empty_mirror.store)
    for row in ACCOUNT:
        reader.put(row["Collection"].strip("`"), parse_fields(row["Record"]), f"{DAY} 09:00:00")
    return reader


def group_by_time(rows: Table) -> dict[str, Table]:
    groups: dict[str, Table] = {}
    for row in rows:
        groups.setdefault(row["At"], []).append(row)
    return groups


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_gives_the_calls_that_its_table_shows(
    title: str, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, results = EXAMPLES[title]
    times = [row["At"] for row in received]
    assert times == sorted(times), "the rows are in the order of their arrival"
    results_by_time = group_by_time(results)
    for at in sorted({*times, *results_by_time}):
        now = to_unix(f"{DAY} {at}")
        monkeypatch.setattr(clock, "unix", lambda now=now: now)
        for row in received:
            if row["At"] == at:
                reader.receive(row)
        reader.mirror_db.write(lambda tx, now=now: reader.store.evaluate_due_calls(tx, now))
        if at in results_by_time:
            expected = [{name: row[name] for name in row if name != "At"} for row in results_by_time[at]]
            assert reader.calls(list(expected[0])) == expected, f"{title}, at {at}"


def test_the_page_has_at_least_six_examples_with_both_tables() -> None:
    assert len(EXAMPLES) >= 6
    assert all(len(tables) == 2 and all(tables) for tables in EXAMPLES.values())
