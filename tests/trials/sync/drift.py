"""Trial of schema drift: records and events change in every way."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import requests

from integration.catalogue import events, get_resource
from integration.catalogue.shapes import Resource
from integration.core.json_records import RawJson, to_column_value
from integration.mirror.records import schema_drift
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.plan import PLAN
from tests.support.fake_exchange import FIXTURES
from tests.trials.tools.databases import query_rows
from tests.trials.trial import Trial

Record = dict[str, Any]
Change = Callable[[str, Record], Record]
REMOVED = object()
"""In place of a value: the field is removed."""
BIG_NUMBER = 2**70
VALUES: dict[str, object] = {
    "missing": REMOVED,
    "null": None,
    "an E.164 number": "+442079460123",
    "digits with zeros before": "007",
    "a text": "what <b>is</b> this",
    "an empty text": "",
    "a number": -7,
    "a fraction": 7.5,
    "a big number": BIG_NUMBER,
    "a boolean": True,
    "a list": [1, "two", None],
    "nested": {"a": {"b": [1, {"c": "+44"}]}},
}
SHORT_KINDS = ("missing", "an E.164 number", "nested")
NEW_FIELD, NEW_VALUE = "a_new_field", {"a": {"b": [1]}}
UNCHANGED = {"calls"}
"""Collections that are not changed, because live calls change without the trial."""
SPREAD = 6
"""Number of records over which the changes of all fields are spread."""
UNKNOWN_EVENT = "queue.wrapup_opened"


class Wire:
    """WSGI application before the simulator.

    It applies `change` to every record in a response.
    """

    def __init__(self, simulator: embed.Simulator) -> None:
        self._real = simulator.server.application
        self.change: Change | None = None
        self.sent: dict[str, dict[str, Record]] = defaultdict(dict)
        """Records as last listed, by collection and key; by position without a key."""
        simulator.server.application = self

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"].removeprefix("/v1.2/").strip("/")
        started: list[Any] = []
        body = b"".join(self._real(environ, lambda *given: started.extend(given[:2])))
        status, headers = started
        name = path if path in PLAN else path.rpartition("/")[0]
        if status.startswith("200") and name in PLAN and environ["REQUEST_METHOD"] == "GET":
            body = self._change_body(get_resource(name), body, listed=path in PLAN)
        headers = [one for one in headers if one[0].lower() != "content-length"]
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _change_body(self, resource: Resource, body: bytes, *, listed: bool) -> bytes:
        try:
            payload = json.loads(body)
        except ValueError:
            return body
        data = payload.get("data") if isinstance(payload, dict) else None
        if PLAN[resource.collection].kind == "dictionary" or not isinstance(data, list | dict):
            return body
        records = data if isinstance(data, list) else [data]
        if self.change is not None and resource.collection not in UNCHANGED:
            records = [self.change(resource.collection, record) for record in records]
        for position, record in enumerate(records if listed else ()):
            key = record.get(resource.key, position) if resource.key else position
            self.sent[resource.collection][str(key)] = record
        return json.dumps({**payload, "data": records if isinstance(data, list) else records[0]}).encode()


class Drift(Trial):
    """Undocumented changes of records and events are stored, recorded and shown.

    Disturbed: every field of every collection and webhook in turn is missing, null, of another type, nested
    or big, and a new one is added; unknown events arrive.
    Checked: records are stored as received, in `_doc` and in their columns; changes are shown on System; no
    page and no list of the facade is a 5xx, no job fails, no record is lost; all is as before once the
    platform is. Webhooks are acknowledged, stored byte by byte, counted and shown.
    Detects: text of digits that is stored as a number.
    """

    name = "drift"
    size_option, size = "--cdrs", 30
    bugs, symptoms = ("store_digits_as_numbers",), ("became",)
    promises = ("P22",)
    long = ("--all-kinds",)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all-kinds", action="store_true", help="every kind of change")

    def boot(self) -> None:
        simulator = self.embed_simulator(self.options.size)
        self.product = self.cleanup.enter_context(self.run_product(simulator))
        simulator.context.webhook_sender.url = self.product.webhook_url
        self.wire = Wire(simulator)
        with simulator.world.lock:
            plan = simulator.world.scripts.plain_answered(CallOptions(talk_seconds=600, has_hold=False))
        simulator.context.traffic.play_instantly(plan, until_event="connected")
        self.browser = self.product.login()
        self.kinds = VALUES if self.options.all_kinds else SHORT_KINDS

    def load(self) -> None:
        self._sync("as documented")
        self.counts = self._count_records()

    def disturb(self) -> None:
        changed = 0
        for kind in self.kinds:
            changed += self._change_fields(kind, VALUES[kind])
            if self.is_seeded and self.failures:
                return
        self._change_fields(NEW_FIELD, NEW_VALUE)
        self._check_drift_shown()
        self.figures.append(f"{changed} fields of {len(self.counts)} collections changed")

    def check(self) -> None:
        if self.is_seeded:
            return
        self.wire.change = None
        self.wire.sent.clear()
        self._sync("afterwards, as documented")
        counts = self._count_records()
        changed = {
            name: (self.counts[name], counts[name]) for name in counts if counts[name] != self.counts[name]
        }
        self.verify(not changed, f"no record is lost or doubled: {changed}")
        self._check_events()

    def _change_fields(self, kind: str, value: object) -> int:
        """Set every field of every collection to `value` in some record.

        Returns the number of changed fields.
        """
        changed: set[tuple[str, str]] = set()
        places: dict[tuple[str, str], int] = {}

        def change(collection: str, record: Record) -> Record:
            if kind == NEW_FIELD:
                return {**record, NEW_FIELD: value}
            key = get_resource(collection).key
            # Records without a key must stay different from each other.
            name = str(record[key]) if key else json.dumps(record)
            place = places.setdefault((collection, name), len(places))
            spread = SPREAD if len(self.wire.sent[collection]) >= SPREAD else 1 if key else 2
            fields = {
                field
                for number, field in enumerate(record)
                if field != key and number % spread == place % spread
            }
            changed.update((collection, field) for field in fields)
            drifted = {field: value if field in fields else old for field, old in record.items()}
            return {field: new for field, new in drifted.items() if new is not REMOVED}

        self.wire.change = change
        self._sync(kind)
        self._check_health(kind)
        return len(changed)

    def _sync(self, what: str) -> None:
        """Run a full sync of all collections, and compare each record."""
        rows = self.product.sync_all()
        incomplete = [
            f"{row['collection']}: {row['error']}" for row in rows if row["error"] or not row["complete"]
        ]
        self.verify(not incomplete, f"{what}: every collection is complete, except {incomplete}")
        self.product.settle()
        for collection in self.wire.sent:
            if difference := self._find_difference(collection):
                self.verify(False, f"{what}: /{collection} {difference}")

    def _find_difference(self, collection: str) -> str | None:
        """Compare the records of a collection with those that were sent, in `_doc` and columns."""
        of = get_resource(collection)
        if of.key is None or collection in UNCHANGED or not of.is_listed:
            return None
        with self.product.mirror_db.read() as connection:
            rows = {str(row[of.key]): row for row in connection.execute(f'SELECT * FROM "{of.table}"')}
        for key, record in self.wire.sent[collection].items():
            if (row := rows.get(key)) is None:
                return f"{key} is missing"
            expected = {n: v for n, v in record.items() if collection != "me" or not n.startswith("sip_")}
            if list(json.loads(row["_doc"]).items()) != list(expected.items()):
                return f"{key} is stored as {row['_doc'][:300]}"
            for field in of.fields:
                value, column = expected.get(field.name), row[field.name]
                if field.name != of.key and not is_same_value(value, column):
                    return f"{field.name} {value!r} became {column!r}"
        return None

    def _check_health(self, what: str) -> None:
        """Check that no page, export, facade list or job fails."""
        for path, response in self._request_pages():
            self.verify(response.status_code < 500, f"{what}: {path} returns {response.status_code}")
        for consumer in self.product.product.consumers:
            consumer.wake()
        self.product.advance(2)
        failing = self.product.list_failing("failing")
        self.verify(not failing, f"{what}: no job fails, not {failing}")

    def _request_pages(self) -> Iterator[tuple[str, requests.Response]]:
        """Request pages, exports and facade lists. Yields path or URL, and response."""
        product = self.product
        rules = product.product.site.url_map.iter_rules()
        paths = sorted(
            rule.rule
            for rule in rules
            if not rule.arguments
            and "GET" in (rule.methods or ())
            and "stream" not in rule.rule
            and not rule.rule.startswith("/v1.")
        )
        paths += ["/calls?q=44&range=all", "/recordings?find=a", "/voicemail?find=a", "/messages?find=4"]
        paths += [f"/contacts/{row[0]}" for row in product.query("SELECT id FROM contacts LIMIT 3")]
        for (call,) in product.query("SELECT id FROM _calls ORDER BY id DESC LIMIT 4"):
            paths += [f"/calls/{call}", f"/calls/{call}/beside"]
        for name, policy in PLAN.items():
            of = policy.resource
            paths += [f"/exports/{of.table}.csv", f"/account/{name}", f"/system/coverage/{name}"]
            if of.key and of.is_listed:
                rows = product.query(f'SELECT "{of.key}" FROM "{of.table}" LIMIT 3')
                paths += [f"/account/{name}/{key}" for (key,) in rows]
        for path in paths:
            yield path, self.browser.get(product.origin + path, timeout=60)
        for name in PLAN:
            url = f"{product.origin}/v1.2/{name}?limit=200"
            yield url, requests.get(url, auth=product.credentials, timeout=60)

    def _list_drift(self) -> set[tuple[str, str, str, str]]:
        """Unexpected schema drift: collection, field, kind and value."""
        with self.product.mirror_db.read() as connection:
            found = schema_drift.list_drift(connection, 100_000)
        return {(one.collection, one.field, one.kind, one.value) for one in found}

    def _check_drift_shown(self) -> None:
        """Check that new fields and nested values are recorded and shown."""
        recorded = self._list_drift()
        for name, policy in PLAN.items():
            of, is_fixed = policy.resource, policy.kind in ("live", "dictionary")
            if is_fixed or not of.is_listed or len(of.fields) <= 1 or not self.counts.get(of.table):
                continue
            self.verify(
                (name, NEW_FIELD, "field", "object") in recorded, f"/{name}: the new field is recorded"
            )
            typed = [field.name for field in of.fields if field.name != of.key and field.type != "object"]
            nested = [one for one in typed if (name, one, "type", "object") in recorded]
            self.verify(bool(nested), f"/{name}: nested values are recorded")
        page = self.browser.get(f"{self.product.origin}/system").text
        is_shown = NEW_FIELD in page and "object instead of the documented type" in page
        self.verify(is_shown, "System shows schema drift")

    def _count_records(self) -> dict[str, int]:
        """Number of records by table, without missing records, and number of calls."""
        tables = [one.resource.table for one in PLAN.values() if one.kind not in ("live", "dictionary")]
        present = {row[0] for row in self.product.query("SELECT name FROM sqlite_schema")}
        tables = [
            one for one in tables if self.product.query("SELECT 1 FROM sqlite_schema WHERE name = ?", one)
        ]
        counts = {
            name: self.product.query_value(f'SELECT count(*) FROM "{name}" WHERE _missing_since IS NULL')
            for name in tables
            if name in present
        }
        return {**counts, "_calls": self.product.query_value("SELECT count(*) FROM _calls")}

    def _check_events(self) -> None:
        """Send changed webhooks; check that they are stored, applied and shown."""
        samples = read_samples()
        bodies = list[bytes]()
        for sample in samples.values():
            changes = [(field, VALUES[kind]) for field in sample for kind in self.kinds]
            for field, value in [*changes, (NEW_FIELD, NEW_VALUE)]:
                drifted = {**sample, "id": f"drift.{len(bodies)}", field: value}
                if value is REMOVED:
                    del drifted[field]
                bodies.append(json.dumps(drifted).encode())
        unknown = {"id": "drift.x", "event_name": UNKNOWN_EVENT, "queue_id": 7}
        bodies.append(json.dumps(unknown).encode())
        session = requests.Session()
        for body in bodies:
            status = session.post(self.product.webhook_url, data=body, timeout=30).status_code
            self.verify(status == 200, f"{body[:200]!r} is acknowledged, not {status}")
        self.product.settle()
        inbox = self.product.context.inbox.database.path
        rows = query_rows(inbox, "SELECT body, status, coalesce(error, '') FROM inbox")
        stored = {bytes(body) for body, _, _ in rows}
        self.verify(set(bodies) <= stored, "every event is stored byte by byte")
        states = {status for _, status, _ in rows}
        self.verify("new" not in states, "every event is applied")
        self.verify("unknown" in states, "unknown events are counted")
        failed = {error for _, status, error in rows if status == "failed"}
        unexpected = [error for error in failed if "has no valid call_id" not in error]
        self.verify(not unexpected, f"only events without a call fail, not {unexpected}")
        page = self.browser.get(f"{self.product.origin}/system").text
        self.verify(UNKNOWN_EVENT in page, "System shows unknown events")
        recorded = {one[0] for one in self._list_drift() if one[1:3] == (NEW_FIELD, "field")}
        missing = [name for name in samples if schema_drift.EVENT_PREFIX + name not in recorded]
        self.verify(not missing, f"new fields of events are recorded, except of {missing}")
        self.verify(f"{schema_drift.EVENT_PREFIX}call." in page, "System shows new fields of events")
        self._check_health("events")
        self.figures.append(f"{len(bodies)} events")


def is_same_value(value: object, column: object) -> bool:
    """Compare a column with `value`.

    Nested values are stored as JSON text, numbers too big for SQLite as digits.
    """
    if isinstance(value, list | dict):
        return isinstance(column, str) and json.loads(column) == value
    if value == BIG_NUMBER:
        return column in (str(BIG_NUMBER), to_column_value(RawJson(str(BIG_NUMBER))))
    return type(column) is (int if isinstance(value, bool) else type(value)) and column == value


def read_samples() -> dict[str, Record]:
    """Read a recorded webhook of each event, by its name."""
    found: dict[str, Record] = {}
    for path in sorted(FIXTURES.glob("webhook-*.json")):
        payload = json.loads(path.read_text())
        sample = payload.get("body", payload)
        name = next((sample[one] for one in events.NAME_FIELDS if one in sample), None)
        if name is not None:
            found[name] = sample
    return found
