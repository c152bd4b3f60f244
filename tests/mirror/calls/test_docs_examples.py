"""Examples of docs/calls.md: their input gives the `_calls` of the page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.mirror.calls.store import CallStore
from integration.sqlite.database import Database
from tests.mirror.calls.scripts.facts import T0, Fact, NotFound, Poll, Record, Webhook, format_utc
from tests.mirror.calls.scripts.player import add_fact
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
    fields_by_leg: dict[int, dict[str, Any]] = field(default_factory=dict)
    events: int = 0

    def receive(self, row: dict[str, str]) -> None:
        at, received = to_seconds(row["At"]), row["Received"].strip("`")
        leg_id = 0 if row["Leg"] == NULL else int(row["Leg"])
        fields = parse_fields(row["Fields"])
        if received.startswith("call."):
            self.add(self._make_webhook(received, leg_id, at, fields))
        elif received == "/calls":
            self.add(Poll(at, ({"id": leg_id, **fields},) if leg_id else ()))
        elif received == "404":
            self.add(NotFound(at, leg_id))
        else:
            self.put(received, {"live_id": leg_id, **DEFAULT_FIELDS.get(received, {}), **fields}, at)

    def add(self, fact: Fact) -> None:
        self.mirror_db.write(lambda tx: add_fact(tx, self.store, fact))

    def put(self, collection: str, record: dict[str, Any], at: float) -> None:
        names = {each.name for each in get_resource(collection).fields}
        assert record.keys() <= names, f"{collection} has no such field"
        self.add(Record(at, collection, record))

    def _make_webhook(self, name: str, leg_id: int, at: float, fields: dict[str, Any]) -> Webhook:
        self.events += 1
        values = self.fields_by_leg.setdefault(
            leg_id, {**DEFAULT_FIELDS["call.…"], "start_time": format_utc(at), "connected_at": None}
        )
        values.update({"state": None, "final": None, **fields})
        if name == "call.connected" and values["connected_at"] is None:
            values["connected_at"] = format_utc(at)
        event_id = f"uk003.{int(T0 + at):08x}{self.events:05x}1.{leg_id:08d}"
        body = {"id": event_id, "event_time": format_utc(at), "event_name": name, "call_id": leg_id, **values}
        return Webhook(at, body)

    def calls(self, columns: list[str]) -> list[dict[str, str]]:
        with self.mirror_db.read() as connection:
            rows = connection.execute("SELECT * FROM _calls ORDER BY id").fetchall()
        return [{name: NULL if row[name] is None else str(row[name]) for name in columns} for row in rows]


def to_seconds(time: str) -> float:
    """Return a time of DAY in seconds after T0."""
    return datetime.fromisoformat(f"{DAY}T{time}+00:00").timestamp() - T0


@pytest.fixture
def reader(empty_mirror: CallMirror) -> Reader:
    reader = Reader(empty_mirror.mirror_db, empty_mirror.store)
    for row in ACCOUNT:
        reader.put(row["Collection"].strip("`"), parse_fields(row["Record"]), 0)
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
        now = T0 + to_seconds(at)
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
