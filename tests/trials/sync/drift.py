"""Promise P22: whatever becomes of the platform's records and events, they are kept, noted and shown.

    records  every field of every collection in turn missing, null, of another type, nested, big, and a new
             one: kept as received in `_doc` and in its column, noted on System, never an answer of ours that
             is a fault, no job that fails, no record lost; all as before when the platform is as before
    keys     records whose key reads otherwise are the same record; without a usable key they are kept aside
    events   the same of every field of every webhook, and events nobody knows: acknowledged, kept to the
             byte, counted, shown

The product runs in this process, its pages, facade and receiver and the simulator over real HTTP; between
them stands what changes the records.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import requests

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core.commands import Progress
from integration.core.errors import SwitchroomError
from integration.mirror.records import upsert
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.commands import sync
from integration.sync.plan import PLAN
from tests.trials.sync.drift_checks import (
    NEW_FIELD,
    REMOVED,
    SHORT_KINDS,
    UNCHANGED,
    VALUES,
    Record,
    check_drift_shown,
    check_health,
    check_records,
    count_records,
    list_differences,
    list_drift_entries,
    sync_everything,
)
from tests.trials.sync.drift_events import check_events
from tests.trials.sync.platform import Report, friday_evening
from tests.trials.tools.moved_clock import Office, Time, office

Change = Callable[[str, Record], Record]
SPREAD = 6
"""Number of records over which the changes of all fields are spread."""


class Wire:
    """Stands between the simulator and its sockets: `change` is made to every record that leaves."""

    def __init__(self, simulator: embed.Simulator) -> None:
        self._real = simulator.server.application
        self.change: Change | None = None
        self.sent: dict[str, dict[str, Record]] = defaultdict(dict)
        """Collection → key → the record as it was last listed; without keys their places stand for them."""
        simulator.server.application = self

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        parts = environ["PATH_INFO"].removeprefix("/v1.2/").strip("/")
        started: list[Any] = []
        body = b"".join(self._real(environ, lambda *told: started.extend(told[:2])))
        status, headers = started
        name = parts if parts in PLAN else parts.rpartition("/")[0]
        if status.startswith("200") and name in PLAN and environ["REQUEST_METHOD"] == "GET":
            body = self._change_body(get_resource(name), body, listed=parts in PLAN)
        headers = [one for one in headers if one[0].lower() != "content-length"]
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _change_body(self, of: Resource, body: bytes, *, listed: bool) -> bytes:
        try:
            answer = json.loads(body)
        except ValueError:
            return body
        data = answer.get("data") if isinstance(answer, dict) else None
        if PLAN[of.collection].kind == "dictionary" or not isinstance(data, list | dict):
            return body
        records = data if isinstance(data, list) else [data]
        if self.change is not None and of.collection not in UNCHANGED:
            records = [self.change(of.collection, record) for record in records]
        for place, record in enumerate(records if listed else ()):
            self.sent[of.collection][str(record.get(of.key, place) if of.key else place)] = record
        return json.dumps({**answer, "data": records if isinstance(data, list) else records[0]}).encode()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials drift")
    parser.add_argument("--cdrs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="every kind of change")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    options = parser.parse_args(arguments)
    report, real, plain = Report("drift"), upsert.to_column_value, upsert._STORABLE_TYPES
    if options.seed_bug:
        # Digits are taken for a number.
        upsert._STORABLE_TYPES = frozenset()
        upsert.to_column_value = lambda value: (
            int(value) if isinstance(value, str) and value.lstrip("+").isdigit() else real(value)
        )
    try:
        with Time() as moved, tempfile.TemporaryDirectory(prefix="switchroom-drift-") as folder:
            simulator = embed.start(seed=options.seed, cdrs=options.cdrs, start_at=friday_evening())
            try:
                wire = Wire(simulator)
                with office(simulator, Path(folder), moved) as made:
                    about = _run_trial(made, simulator, wire, options, report)
            finally:
                simulator.stop()
    finally:
        upsert.to_column_value, upsert._STORABLE_TYPES = real, plain
    found = bool(report.broken)
    return report.end(about) if not options.seed_bug else int(not found)


def _run_trial(
    made: Office, simulator: embed.Simulator, wire: Wire, options: argparse.Namespace, report: Report
) -> str:
    with simulator.world.lock:
        plan = simulator.world.scripts.plain_answered(CallOptions(talk_seconds=600, has_hold=False))
    simulator.context.traffic.play_instantly(plan, until_event="connected")
    browser = made.login()
    sync_everything(made, report, "as documented")
    counts = count_records(made)
    known = list_drift_entries(made)
    changed = 0
    for kind in VALUES if options.long else SHORT_KINDS:
        changed += _change_fields(made, browser, wire, kind, VALUES[kind], report)
        if options.seed_bug and report.broken:
            return ""
    changed += _change_fields(made, browser, wire, "new", VALUES["nested"], report)
    noted = list_drift_entries(made) - known
    check_drift_shown(made, browser, noted, report)
    _change_keys(made, browser, wire, options, report)
    wire.change = None
    wire.sent.clear()
    sync_everything(made, report, "as documented again")
    check_records(made, wire, "as documented again", report)
    report.check(
        count_records(made) == counts,
        f"no record is lost or doubled: {list_differences(counts, count_records(made))}",
    )
    summary = check_events(made, browser, options, report)
    return f"{changed} fields of {len(counts)} collections changed, {len(noted)} departures noted; {summary}"


def _change_fields(
    made: Office, browser: requests.Session, wire: Wire, kind: str, value: object, report: Report
) -> int:
    """Set every field of every collection to `value` in some record. Returns the number of changed fields."""
    changed: set[tuple[str, str]] = set()
    places: dict[tuple[str, str], int] = {}

    def change(collection: str, record: Record) -> Record:
        of = get_resource(collection)
        # Records without a key must stay different from each other.
        name = str(record[of.key]) if of.key else json.dumps(record)
        place = places.setdefault((collection, name), len(places))
        spread = SPREAD if len(wire.sent[collection]) >= SPREAD else 1 if of.key else 2
        drifted = dict(record)
        if kind == "new":
            changed.add((collection, NEW_FIELD))
            return {**record, NEW_FIELD: value}
        for number, field in enumerate(record):
            if field == of.key or number % spread != place % spread:
                continue
            changed.add((collection, field))
            if value is REMOVED:
                del drifted[field]
            else:
                drifted[field] = value
        return drifted

    wire.change = change
    wire.sent = defaultdict(dict, {name: dict(sent) for name, sent in wire.sent.items()})
    sync_everything(made, report, kind)
    check_records(made, wire, kind, report)
    check_health(made, browser, kind, report)
    return len(changed)


def _change_keys(
    made: Office, browser: requests.Session, wire: Wire, options: argparse.Namespace, report: Report
) -> None:
    numbered = [
        name
        for name, policy in PLAN.items()
        if policy.reads_by_key and policy.resource.key and policy.kind in ("grows", "settings")
    ]
    chosen = {name: min(wire.sent[name], key=int) for name in numbered if wire.sent[name]}
    for what, read, usable in (
        ("digits", str, True),
        ("a fraction", float, True),
        ("null", lambda _key: None, False),
        ("missing", lambda _key: REMOVED, False),
        ("nested", lambda key: {"is": key}, False),
        ("a word", lambda key: f"no {key}", False),
    ):

        def change(collection: str, record: Record, read: Callable[[Any], object] = read) -> Record:
            key = get_resource(collection).key
            if key is None or str(record.get(key)) != chosen.get(collection):
                return record
            value = read(record[key])
            rest = {name: one for name, one in record.items() if name != key}
            return rest if value is REMOVED else {**record, key: value}

        wire.change = change
        before = count_records(made)
        wire.sent.clear()
        _sync_changed_keys(made, report, what, usable)
        check_health(made, browser, f"key {what}", report, everything=options.long)
        after = count_records(made)
        report.check(after == before, f"key {what}: no record is lost: {list_differences(before, after)}")
        if not usable:
            flagged = {row[0] for row in made.rows("SELECT DISTINCT table_name FROM _flagged")}
            lost = [name for name in chosen if get_resource(name).table not in flagged]
            report.check(not lost, f"key {what}: what has none is kept aside, not of {lost}")
            page = browser.get(f"{made.origin}/system").text
            report.check("kept aside as received" in page, f"key {what}: System says so")


def _sync_changed_keys(made: Office, report: Report, what: str, usable: bool) -> None:
    made.moved.pass_(2)
    arguments = {"resources": [name for name in PLAN if name != "calls"], "full": True, "files": False}
    try:
        rows = sync(made.product.context, arguments, Progress(lambda _facts: None, lambda: True))["rows"]
    except SwitchroomError as error:
        report.check(False, f"key {what}: {error}")
        return
    bad = [f"{row['collection']}: {row['error']}" for row in rows if row["error"]]
    if usable:
        report.check(not bad, f"key {what}: everything is read, not {bad}")
    made.settle()
