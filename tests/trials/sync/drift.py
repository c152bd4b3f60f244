"""Trial of schema drift: records and events change in every way."""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core.errors import SwitchroomError
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.plan import PLAN
from tests.trials.long_form import LongForm
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
from tests.trials.trial import Trial

Change = Callable[[str, Record], Record]
SPREAD = 6
"""Number of records over which the changes of all fields are spread."""


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
    or big, and a new one is added; keys change or are missing; unknown events arrive.
    Checked: records are stored as received, in `_doc` and in their columns; changes are shown on System; no
    page and no list of the facade is a 5xx, no job fails, no record is lost; all is as before once the
    platform is. Webhooks are acknowledged, stored byte by byte, counted and shown.
    Detects: text of digits that is stored as a number.
    """

    name = "drift"
    size_option, size = "--cdrs", 30
    bugs, symptoms = ("store_digits_as_numbers",), ("became",)
    long = LongForm(
        promises=("P22",),
        rounds=("--all-kinds",),
        minutes=10,
        remains="",
        expectation="what the trial sent; webhooks: recorded samples of `tests/fixtures/platform`",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all-kinds", action="store_true", help="every kind of change")

    def boot(self) -> None:
        self.product, simulator = self.cleanup.enter_context(self.run_simulated_product(self.options.size))
        self.wire = Wire(simulator)
        with simulator.world.lock:
            plan = simulator.world.scripts.plain_answered(CallOptions(talk_seconds=600, has_hold=False))
        simulator.context.traffic.play_instantly(plan, until_event="connected")
        self.browser = self.product.login()

    def load(self) -> None:
        sync_everything(self.product, self, "as documented")
        self.counts = count_records(self.product)
        self.documented = list_drift_entries(self.product)

    def disturb(self) -> None:
        changed = 0
        for kind in VALUES if self.options.all_kinds else SHORT_KINDS:
            changed += self._change_fields(kind, VALUES[kind])
            if self.is_seeded and self.failures:
                return
        changed += self._change_fields("new", VALUES["nested"])
        recorded = list_drift_entries(self.product) - self.documented
        check_drift_shown(self.product, self.browser, recorded, self)
        self._change_keys()
        self.figures.append(
            f"{changed} fields of {len(self.counts)} collections changed, {len(recorded)} recorded"
        )

    def check(self) -> None:
        if self.is_seeded:
            return
        self.wire.change = None
        self.wire.sent.clear()
        sync_everything(self.product, self, "afterwards, as documented")
        check_records(self.product, self.wire, "afterwards, as documented", self)
        counts = count_records(self.product)
        differences = list_differences(self.counts, counts)
        self.verify(counts == self.counts, f"no record is lost or doubled: {differences}")
        self.figures.append(check_events(self.product, self.browser, self))

    def _change_fields(self, kind: str, value: object) -> int:
        """Set every field of every collection to `value` in some record.

        Returns the number of changed fields.
        """
        changed: set[tuple[str, str]] = set()
        places: dict[tuple[str, str], int] = {}

        def change(collection: str, record: Record) -> Record:
            of = get_resource(collection)
            # Records without a key must stay different from each other.
            name = str(record[of.key]) if of.key else json.dumps(record)
            place = places.setdefault((collection, name), len(places))
            spread = SPREAD if len(self.wire.sent[collection]) >= SPREAD else 1 if of.key else 2
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

        self.wire.change = change
        self.wire.sent = defaultdict(dict, {name: dict(sent) for name, sent in self.wire.sent.items()})
        sync_everything(self.product, self, kind)
        check_records(self.product, self.wire, kind, self)
        check_health(self.product, self.browser, kind, self)
        return len(changed)

    def _change_keys(self) -> None:
        """Change the key of one record of each collection."""
        numbered = [
            name
            for name, policy in PLAN.items()
            if policy.reads_by_key and policy.resource.key and policy.kind in ("grows", "settings")
        ]
        chosen = {name: min(self.wire.sent[name], key=int) for name in numbered if self.wire.sent[name]}
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

            self.wire.change = change
            before, flagged_before = count_records(self.product), self._count_flagged()
            self.wire.sent.clear()
            self._sync_changed_keys(what, usable)
            check_health(self.product, self.browser, f"key {what}", self, everything=self.options.all_kinds)
            after = count_records(self.product)
            self.verify(after == before, f"key {what}: no record is lost: {list_differences(before, after)}")
            if not usable:
                # The records of the kinds before stay flagged.
                flagged = self._count_flagged() - flagged_before
                lost = [name for name in chosen if not flagged[get_resource(name).table]]
                self.verify(
                    not lost, f"key {what}: records without a usable key are kept aside, except of {lost}"
                )
                page = self.browser.get(f"{self.product.origin}/system").text
                self.verify(
                    "stored as received, but in no list" in page, f"key {what}: System shows these records"
                )

    def _count_flagged(self) -> Counter[str]:
        """Number of flagged records by table."""
        sql = "SELECT table_name, count(*) FROM _flagged GROUP BY table_name"
        return Counter(dict(self.product.query(sql)))

    def _sync_changed_keys(self, what: str, usable: bool) -> None:
        try:
            rows = self.product.sync_all()
        except SwitchroomError as error:
            self.verify(False, f"key {what}: {error}")
            return
        failed = [f"{row['collection']}: {row['error']}" for row in rows if row["error"]]
        if usable:
            self.verify(not failed, f"key {what}: every collection is read, except {failed}")
        self.product.settle()
