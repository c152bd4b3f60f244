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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import requests

from integration.catalogue import events, resource
from integration.catalogue.shapes import Resource
from integration.core.errors import SwitchroomError
from integration.core.json_records import Raw, column_value
from integration.mirror.records import schema_drift as drift
from integration.mirror.records import upsert
from integration.server.control_channel import Progress
from integration.simulator import embed
from integration.simulator.calls.legs import Wish
from integration.sync.plan import PLAN
from tests.harness import ROOT
from tests.trials.moved import Office, Time, office
from tests.trials.platform import Report, friday_evening

Record = dict[str, Any]
Change = Callable[[str, Record], Record]
GONE = object()
BIG = 2**70

VALUES: dict[str, object] = {
    "missing": GONE,
    "null": None,
    "an E.164 number": "+442079460123",
    "digits with zeros before": "007",
    "a text": "what <b>is</b> this",
    "an empty text": "",
    "a number": -7,
    "a fraction": 7.5,
    "a big number": BIG,
    "a boolean": True,
    "a list": [1, "two", None],
    "nested": {"a": {"b": [1, {"c": "+44"}]}},
}
SHORT = ("missing", "an E.164 number", "nested")
SPREAD = 6
"""Of so many records each has its own share of the fields changed."""
NEW = "a_new_field"
LIKE_BEFORE = {"calls"}
"""Left alone: what goes on changes by itself."""
UNKNOWN = "queue.wrapup_opened"


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
            body = self._changed(resource(name), body, listed=parts in PLAN)
        headers = [one for one in headers if one[0].lower() != "content-length"]
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _changed(self, of: Resource, body: bytes, *, listed: bool) -> bytes:
        try:
            answer = json.loads(body)
        except ValueError:
            return body
        data = answer.get("data") if isinstance(answer, dict) else None
        if PLAN[of.collection].kind == "dictionary" or not isinstance(data, list | dict):
            return body
        records = data if isinstance(data, list) else [data]
        if self.change is not None and of.collection not in LIKE_BEFORE:
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
    report, real, plain = Report("drift"), upsert.column_value, upsert._AS_IT_IS
    if options.seed_bug:
        # Digits are taken for a number.
        upsert._AS_IT_IS = frozenset()
        upsert.column_value = lambda value: (
            int(value) if isinstance(value, str) and value.lstrip("+").isdigit() else real(value)
        )
    try:
        with Time() as moved, tempfile.TemporaryDirectory(prefix="switchroom-drift-") as folder:
            simulator = embed.start(seed=options.seed, cdrs=options.cdrs, start_at=friday_evening())
            try:
                wire = Wire(simulator)
                with office(simulator, Path(folder), moved) as made:
                    about = _trial(made, simulator, wire, options, report)
            finally:
                simulator.stop()
    finally:
        upsert.column_value, upsert._AS_IT_IS = real, plain
    found = bool(report.broken)
    return report.end(about) if not options.seed_bug else int(not found)


def _trial(
    made: Office, simulator: embed.Simulator, wire: Wire, options: argparse.Namespace, report: Report
) -> str:
    with simulator.world.lock:
        plan = simulator.world.scripts.plain_answered(Wish(talk=600, hold=False))
    simulator.machine.traffic.play_at_once(plan, until="connected")
    browser = made.login()
    _sync(made, report, "as documented")
    counts = _counts(made)
    known = _departures(made)
    changed = 0
    for kind in VALUES if options.long else SHORT:
        changed += _records(made, browser, wire, kind, VALUES[kind], report)
        if options.seed_bug and report.broken:
            return ""
    changed += _records(made, browser, wire, "new", VALUES["nested"], report)
    noted = _departures(made) - known
    _shown(made, browser, noted, report)
    _keys(made, browser, wire, options, report)
    wire.change = None
    wire.sent.clear()
    _sync(made, report, "as documented again")
    _kept(made, wire, "as documented again", report)
    report.check(
        _counts(made) == counts, f"no record is lost or doubled: {_differences(counts, _counts(made))}"
    )
    told = _events(made, browser, options, report)
    return f"{changed} fields of {len(counts)} collections changed, {len(noted)} departures noted; {told}"


# --- records -------------------------------------------------------------------------------------------


def _records(
    made: Office, browser: requests.Session, wire: Wire, kind: str, value: object, report: Report
) -> int:
    """Every field of every collection becomes `value` in some record. Returns how many fields did."""
    changed: set[tuple[str, str]] = set()
    places: dict[tuple[str, str], int] = {}

    def change(collection: str, record: Record) -> Record:
        of = resource(collection)
        # Records without a key must stay different from each other.
        name = str(record[of.key]) if of.key else json.dumps(record)
        place = places.setdefault((collection, name), len(places))
        spread = SPREAD if len(wire.sent[collection]) >= SPREAD else 1 if of.key else 2
        drifted = dict(record)
        if kind == "new":
            changed.add((collection, NEW))
            return {**record, NEW: value}
        for number, field in enumerate(record):
            if field == of.key or number % spread != place % spread:
                continue
            changed.add((collection, field))
            if value is GONE:
                del drifted[field]
            else:
                drifted[field] = value
        return drifted

    wire.change = change
    wire.sent = defaultdict(dict, {name: dict(sent) for name, sent in wire.sent.items()})
    _sync(made, report, kind)
    _kept(made, wire, kind, report)
    _well(made, browser, kind, report)
    return len(changed)


def _sync(made: Office, report: Report, what: str) -> None:
    """Read all of it, as `switchroom sync --full` does."""
    handler = made.product.commands["sync"]
    asked = {"resources": [name for name in PLAN if name != "calls"], "full": True, "files": False}
    made.moved.pass_(2)
    rows = handler(asked, Progress(lambda _facts: None, lambda: True))["rows"]
    open_ = [f"{row['collection']}: {row['error']}" for row in rows if row["error"] or not row["complete"]]
    report.check(not open_, f"{what}: everything is read, not {open_}")
    made.settle()


def _kept(made: Office, wire: Wire, what: str, report: Report) -> None:
    """Each record as it was sent: its text whole, its columns exact."""
    for collection, sent in wire.sent.items():
        of = resource(collection)
        if of.key is None or collection in LIKE_BEFORE or not of.listed:
            continue
        with made.mirror.read() as connection:
            rows = {str(row[of.key]): row for row in connection.execute(f'SELECT * FROM "{of.table}"')}
        for key, record in sent.items():
            row = rows.get(key)
            if row is None:
                report.check(False, f"{what}: /{collection} {key} is here")
                return
            wanted = {n: v for n, v in record.items() if collection != "me" or not n.startswith("sip_")}
            whole = json.loads(row["_doc"])
            if list(whole.items()) != list(wanted.items()):
                report.check(False, f"{what}: /{collection} {key} is kept as it came: {row['_doc'][:300]}")
                return
            for field in of.fields:
                if field.name == of.key:
                    continue
                value, column = wanted.get(field.name), row[field.name]
                if not _same(value, column):
                    report.check(False, f"{what}: {collection}.{field.name} {value!r} became {column!r}")
                    return


def _same(value: object, column: object) -> bool:
    """Whether a column holds `value`: nested ones as JSON text, what SQLite can't hold as its digits."""
    if isinstance(value, list | dict):
        return isinstance(column, str) and json.loads(column) == value
    if value == BIG:
        return column in (str(BIG), column_value(Raw(str(BIG))))
    return type(column) is (int if isinstance(value, bool) else type(value)) and column == value


def _well(
    made: Office, browser: requests.Session, what: str, report: Report, everything: bool = True
) -> None:
    """Every page, export and list of the facade answers, and every job goes on."""
    for path, answer in _pages(made, browser) if everything else ():
        report.check(answer.status_code < 500, f"{what}: {path} answers {answer.status_code}")
    made.product._sum()
    made.product._follow()
    made.moved.pass_(2)
    made.settle()
    checks = made.product.health.report()["checks"]
    failing = [f"{name}: {one['error']}" for name, one in checks.items() if one["state"] == "failing"]
    report.check(not failing, f"{what}: no job fails, not {failing}")


def _pages(made: Office, browser: requests.Session) -> Iterator[tuple[str, requests.Response]]:
    rules = made.product.site.url_map.iter_rules()
    paths = sorted(
        rule.rule
        for rule in rules
        if not rule.arguments and "GET" in (rule.methods or ()) and "stream" not in rule.rule
    )
    paths += [
        "/calls?q=44&range=all",
        "/recordings?find=a",
        "/voicemail?find=a",
        "/messages?find=4",
        *(f"/contacts/{row[0]}" for row in made.rows("SELECT id FROM contacts LIMIT 3")),
    ]
    for (call,) in made.rows("SELECT id FROM _calls ORDER BY id DESC LIMIT 4"):
        paths += [f"/calls/{call}", f"/calls/{call}/beside"]
    for name, policy in PLAN.items():
        of = policy.resource
        paths += [f"/exports/{of.table}.csv", f"/account/{name}", f"/system/coverage/{name}"]
        if of.key and of.listed:
            rows = made.rows(f'SELECT "{of.key}" FROM "{of.table}" LIMIT 3')
            paths += [f"/account/{name}/{key}" for (key,) in rows]
    for path in paths:
        if not path.startswith(("/v1.1", "/v1.2")):
            yield path, browser.get(made.origin + path, timeout=60)
    settings = made.product.parts.settings.platform
    for name in PLAN:
        url = f"{made.origin}/v1.2/{name}?limit=200"
        yield url, requests.get(url, auth=(str(settings.user_id), _text(settings.api_key)), timeout=60)


def _text(secret: Any) -> str:
    return str(secret.get_secret_value() if hasattr(secret, "get_secret_value") else secret)


def _departures(made: Office) -> set[tuple[str, str, str, str]]:
    with made.mirror.read() as connection:
        found = drift.listed(connection, 100_000)
    return {(one.collection, one.field, one.what, one.value) for one in found}


def _shown(
    made: Office, browser: requests.Session, noted: set[tuple[str, str, str, str]], report: Report
) -> None:
    """Every collection's new field and nested values are noted, and System shows departures."""
    for name, policy in PLAN.items():
        of = policy.resource
        if (
            not of.listed
            or len(of.fields) <= 1
            or policy.kind in ("live", "dictionary")
            or not _has(made, of)
        ):
            continue
        report.check((name, NEW, "field", "object") in noted, f"/{name}: the new field is noted")
        typed = [field.name for field in of.fields if field.name != of.key and field.type not in ("object",)]
        nested = [one for one in typed if (name, one, "type", "object") in noted]
        report.check(bool(nested), f"/{name}: nested values are noted")
    page = browser.get(f"{made.origin}/system").text
    report.check(NEW in page and "comes as object" in page, "System shows departures")


def _has(made: Office, of: Resource) -> bool:
    return bool(made.one(f'SELECT count(*) FROM "{of.table}"'))


def _counts(made: Office) -> dict[str, int]:
    tables = [policy.resource.table for policy in PLAN.values() if policy.kind != "live"]
    tables = [name for name in tables if made.rows("SELECT 1 FROM sqlite_schema WHERE name = ?", name)]
    counts = {
        name: made.one(f'SELECT count(*) FROM "{name}" WHERE _missing_since IS NULL')
        for name in tables
        if not name.endswith("_dictionaries")
    }
    return {**counts, "_calls": made.one("SELECT count(*) FROM _calls")}


def _differences(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return [f"{name}: {before[name]} → {after[name]}" for name in before if before[name] != after[name]]


# --- keys ----------------------------------------------------------------------------------------------


def _keys(
    made: Office, browser: requests.Session, wire: Wire, options: argparse.Namespace, report: Report
) -> None:
    numbered = [
        name
        for name, policy in PLAN.items()
        if policy.by_key and policy.resource.key and policy.kind in ("grows", "settings")
    ]
    chosen = {name: min(wire.sent[name], key=int) for name in numbered if wire.sent[name]}
    for what, read, usable in (
        ("digits", str, True),
        ("a fraction", float, True),
        ("null", lambda _key: None, False),
        ("missing", lambda _key: GONE, False),
        ("nested", lambda key: {"is": key}, False),
        ("a word", lambda key: f"no {key}", False),
    ):

        def change(collection: str, record: Record, read: Callable[[Any], object] = read) -> Record:
            key = resource(collection).key
            if key is None or str(record.get(key)) != chosen.get(collection):
                return record
            value = read(record[key])
            rest = {name: one for name, one in record.items() if name != key}
            return rest if value is GONE else {**record, key: value}

        wire.change = change
        before = _counts(made)
        wire.sent.clear()
        _read_keys(made, report, what, usable)
        _well(made, browser, f"key {what}", report, everything=options.long)
        after = _counts(made)
        report.check(after == before, f"key {what}: no record is lost: {_differences(before, after)}")
        if not usable:
            flagged = {row[0] for row in made.rows("SELECT DISTINCT table_name FROM _flagged")}
            lost = [name for name in chosen if resource(name).table not in flagged]
            report.check(not lost, f"key {what}: what has none is kept aside, not of {lost}")
            page = browser.get(f"{made.origin}/system").text
            report.check("kept aside as received" in page, f"key {what}: System says so")


def _read_keys(made: Office, report: Report, what: str, usable: bool) -> None:
    handler = made.product.commands["sync"]
    made.moved.pass_(2)
    asked = {"resources": [name for name in PLAN if name != "calls"], "full": True, "files": False}
    try:
        rows = handler(asked, Progress(lambda _facts: None, lambda: True))["rows"]
    except SwitchroomError as error:
        report.check(False, f"key {what}: {error}")
        return
    bad = [f"{row['collection']}: {row['error']}" for row in rows if row["error"]]
    if usable:
        report.check(not bad, f"key {what}: everything is read, not {bad}")
    made.settle()


# --- events --------------------------------------------------------------------------------------------


def _events(made: Office, browser: requests.Session, options: argparse.Namespace, report: Report) -> str:
    samples = _samples()
    bodies: list[tuple[bytes, str]] = []
    for name, sample in samples.items():
        for field in sample:
            for kind in VALUES if options.long else SHORT:
                drifted = {**sample, "id": f"drift.{len(bodies)}", field: VALUES[kind]}
                if VALUES[kind] is GONE:
                    del drifted[field]
                bodies.append((json.dumps(drifted).encode(), name))
        new = {**sample, "id": f"drift.{len(bodies)}", NEW: VALUES["nested"]}
        bodies.append((json.dumps(new).encode(), name))
    bodies.append((json.dumps({"id": "drift.x", "event_name": UNKNOWN, "queue_id": 7}).encode(), UNKNOWN))
    post = requests.Session()
    for body, name in bodies:
        answer = post.post(made.webhooks, data=body, timeout=30)
        report.check(
            answer.status_code == 200, f"{name} {body[:200]!r} is acknowledged, not {answer.status_code}"
        )
    made.settle()
    made.product._tick()
    with made.product.parts.inbox.database.read() as connection:
        rows = connection.execute("SELECT body, status, event_name, error FROM inbox").fetchall()
    kept = {bytes(row["body"]) for row in rows}
    report.check({body for body, _ in bodies} <= kept, "every event is kept to the byte")
    waiting = [row["event_name"] for row in rows if row["status"] == "new"]
    report.check(not waiting, f"every event is applied, not {waiting}")
    failed = {row["error"] for row in rows if row["status"] == "failed"}
    odd = [error for error in failed if "without a usable call_id" not in (error or "")]
    report.check(not odd, f"only what has no call fails, not {odd}")
    report.check(any(row["status"] == "unknown" for row in rows), "what nobody knows is counted")
    page = browser.get(f"{made.origin}/system").text
    report.check(UNKNOWN in page, "System shows events nobody knows")
    known = {sample.partition(" ")[0] for sample in samples}
    noted = {one[0].removeprefix(drift.EVENT) for one in _departures(made) if one[1:3] == (NEW, "field")}
    report.check(known <= noted, f"new fields of events are noted, not of {known - noted}")
    report.check(f"{drift.EVENT}call." in page, "System shows new fields of events")
    _well(made, browser, "events", report)
    return f"{len(bodies)} events, {sum(row['status'] == 'failed' for row in rows)} about no call"


def _samples() -> dict[str, Record]:
    found: dict[str, Record] = {}
    for path in sorted((ROOT / "tests" / "fixtures" / "platform").glob("webhook-*.json")):
        payload = json.loads(path.read_text())
        sample = payload.get("body", payload)
        name = next((sample[one] for one in events.NAME_FIELDS if one in sample), None)
        if name is not None:
            found[f"{name} ({path.stem})"] = sample
    return found
