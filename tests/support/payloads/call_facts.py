"""Webhooks, polls and records of calls, with the platform's field types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from integration.catalogue import get_resource
from integration.catalogue.events import get_event
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.core.phone_numbers import PhoneNumbers
from integration.core.timestamps import format_timestamp, parse_seconds
from integration.inbox.interpret import interpret
from integration.mirror.calls.directory import Directory, Group, Person
from integration.mirror.calls.facts import CallEvent, Cdr, LegFacts, ReceivedEvent, Recording, Voicemail
from integration.mirror.calls.joins import join_legs
from integration.mirror.calls.leg_view import LegView, ReferenceData, make_link
from integration.mirror.calls.legs import build_leg
from integration.mirror.calls.outcomes import evaluate_call
from integration.mirror.calls.store import CallStore
from integration.mirror.derived import due, rebuild
from integration.mirror.derived.calls import CALLS
from integration.mirror.page_queries import history
from integration.mirror.records.upsert import upsert
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.support.application import TestApp
from tests.support.people import CALLER

T0 = 1788338755  # 2026-09-02 08:45:55 UTC
OTHER = "447700900102"
DDI = "442079460002"
GROUP = 80001
QUEUE = 70001
ANN, BOB, CAT = 1000001, 1000002, 1000003
NAMES = {ANN: "Ann Example", BOB: "Bob Sample", CAT: "Cat Specimen"}
EXTENSIONS = {ANN: "1001", BOB: "1002", CAT: "1003"}
EXTENSION_IDS = {ANN: "10001", BOB: "10002", CAT: "10003"}
RING_TIME = 20

_STATES = {
    "initial": "INITIAL",
    "ringing": "RINGING",
    "connected": "CONNECTED",
    "hold": "ON_HOLD",
    "unhold": "CONNECTED",
    "hangup": "HANGUP",
    "missed": "HANGUP",
}


def at(offset: float) -> str:
    return format_timestamp(T0 + offset) or ""


@dataclass
class Phone:
    """One leg, as a source of webhooks.

    `to`: platform user whose phone rings. `started` and `connected`: seconds after T0.
    """

    leg: int
    to: int | None = ANN
    started: float = 0
    context: str = "LOCAL_USER"
    src: str | None = CALLER
    dst: str | None = DDI
    src_id: str | None = "0"
    dst_id: str | None = None
    src_name: str | None = '"442079460001" <2079460001>'
    dst_name: str | None = None
    destination: str = "in"
    root: int | None = None
    connected: float | None = None
    server: str = "uk003"

    def event(self, what: str, when: float, micros: int | None = None, **more: Any) -> CallEvent:
        """Return the webhook `call.<what>` at `when` seconds after T0.

        Its id contains `micros`, by default the microseconds of `when`.
        """
        moment = T0 + when
        if micros is None:
            micros = round((moment - int(moment)) * 1_000_000)
        payload: dict[str, Any] = {
            "event_time": format_timestamp(moment),
            "event_name": f"call.{what}",
            "call_id": self.leg,
            "state": _STATES.get(what),
            "connected_at": at(self.connected)
            if self.connected is not None and when >= self.connected
            else None,
            "start_time": at(self.started),
            "context": self.context,
            "destination": self.destination,
            "duration": max(0, int(when - (self.connected or when))),
            "t_cause": "Normal Clearing" if what in ("hangup", "missed") else None,
            "src": self.src,
            "src_id": self.src_id,
            "src_name": self.src_name,
            "dst": self.dst,
            "dst_id": self.dst_id or (EXTENSION_IDS.get(self.to) if self.to else "0"),
            "dst_name": self.dst_name or (NAMES.get(self.to) if self.to else None),
            "terminated_by": "caller" if what in ("hangup", "missed") else None,
        }
        if self.root is not None:
            payload["root_call_id"] = self.root
        payload.update(more)
        suffix = f"{self.leg % 100000000:08d}"
        event_id = f"{self.server}.{int(moment):08x}{micros:05x}{len(what) % 10}.{suffix}"
        return make_event(event_id, payload)


def inbound_leg(leg: int = 101, user: int | None = ANN, **more: Any) -> Phone:
    """Return a leg of an external caller that rings `user`."""
    return Phone(leg, user, **more)


def outbound_leg(leg: int = 201, **more: Any) -> Phone:
    """Return a leg of ANN to the external number CALLER."""
    values = {
        "src": "1001", "src_id": str(ANN), "src_name": NAMES[ANN], "dst": CALLER, "context": "PSTN_CALL",
        "destination": "out", **more,
    }  # fmt: skip
    return Phone(leg, None, **values)


def hold_events(*actions: tuple[str, float]) -> list[CallEvent]:
    """Return webhooks of a call from 5 s to 60 s.

    `actions` are the webhooks between: ("hold" or "unhold", seconds after T0).
    """
    phone = inbound_leg(connected=5)
    return [
        phone.event("connected", 5),
        *(phone.event(name, when) for name, when in actions),
        phone.event("hangup", 60),
    ]


def make_event(event_id: str, payload: dict[str, Any]) -> CallEvent:
    """Interpret a webhook as the inbox does.

    The computation of calls accepts names that are not in the catalogue. Such events are interpreted as
    `call.ringing` and renamed.
    """
    values = {"id": event_id, **payload}
    record = JsonRecord(json.dumps(values, separators=(",", ":")), values)
    name = payload["event_name"] if get_event(payload["event_name"]) else "call.ringing"
    interpreted = interpret(record, payload["event_time"], event_id, name)
    assert isinstance(interpreted, CallEvent)
    return replace(interpreted, name=payload["event_name"])


def cdr(id_: int, leg: int, when: float, duration: int, billsec: int, **more: Any) -> dict[str, Any]:
    """Return a CDR dated `when` seconds after T0.

    `duration` and `billsec` are seconds.
    """
    record: dict[str, Any] = {
        "id": id_, "live_id": leg, "parent_live_id": None, "root_live_id": None, "user_id": None,
        "type": "I", "calldate": at(when), "clid": None, "src_id": "0", "src_name": None, "src": CALLER,
        "dst_id": None, "dst": DDI, "dst_name": None, "duration": duration, "billsec": billsec,
        "disposition": "CONNECTED" if billsec else "NO ANSWER", "destination": "in", "context": "USER_LOCAL",
        "rate": 0.0, "charge": 0.0, "t_cause": "Normal Clearing",
    }  # fmt: skip
    record.update(more)
    return record


def voicemail(id_: int, leg: int | None, parent: int | None = None) -> dict[str, Any]:
    return {"id": id_, "live_id": leg, "parent_live_id": parent, "origtime": at(40), "caller": CALLER}


def live(leg: int, state: str, started: float = 0, **more: Any) -> JsonRecord:
    """Return an entry of `/calls`, begun `started` seconds after T0."""
    record: dict[str, Any] = {
        "id": leg, "state": state, "start_time": int(T0 + started), "connected_at": None, "src": CALLER,
        "src_id": "0", "dst": DDI, "context": "LOCAL_USER", "destination": "in", **more,
    }  # fmt: skip
    return JsonRecord(json.dumps(record, separators=(",", ":")), record)


Fact = CallEvent | tuple[str, dict[str, Any]]
"""A webhook, or (table, record)."""


FACT_TABLES = (
    "_leg_events", "_leg_live", "_legs", "_calls", "_merged_calls", "_left_calls", "_changes",
    "cdrs", "voicemessages", "monitors", "_due",
)  # fmt: skip
TIMERS = "SELECT low, at FROM _due WHERE derived = 'legs, later'"
REFERENCE_TABLES = (
    "users", "ringgroups", "queues", "conferences", "contacts", "_contact_numbers",
)  # fmt: skip


@dataclass
class CallMirror:
    """The mirror of `app`, for tests of computed calls."""

    app: TestApp

    @property
    def mirror_db(self) -> Database:
        return self.app.mirror_db

    @property
    def store(self) -> CallStore:
        return self.app.context.call_store

    def seed(self) -> None:
        """Mirror three platform users, a ring group and a queue."""
        for id_, name in NAMES.items():
            first, last = name.split()
            self.put("users", {"id": id_, "ext": EXTENSIONS[id_], "first_name": first, "last_name": last})
        self.put("ringgroups", {"id": GROUP, "name": "Support", "number": 601, "ring_time": RING_TIME})
        self.put("queues", {"id": QUEUE, "name": "Sales", "number": 602, "ring_time": 15, "retry": 5})

    def put(self, table: str, record: dict[str, Any], *, defer_calls: bool = False) -> None:
        """Mirror a record of the collection `table`.

        Its calls are computed, unless `defer_calls`.
        """
        self.mirror_db.write(lambda tx: put(tx, table, record, defer_calls=defer_calls))

    def clear(self) -> None:
        """Delete all calls and facts; platform users and groups stay."""
        self._clear_tables(FACT_TABLES)

    def clear_all(self) -> None:
        """Delete all calls, facts, platform users, groups, conferences and contacts."""
        self._clear_tables(FACT_TABLES + REFERENCE_TABLES)

    def _clear_tables(self, tables: Sequence[str]) -> None:
        self.mirror_db.write(lambda tx: [tx.execute(f"DELETE FROM {table}") for table in tables])

    def apply(self, *facts: Fact, in_one_transaction: bool = False) -> None:
        """Apply facts, in one transaction each, or in one for all."""
        if in_one_transaction:
            self.mirror_db.write(lambda tx: [self._apply(tx, fact) for fact in facts])
            return
        for fact in facts:
            self.mirror_db.write(lambda tx, fact=fact: self._apply(tx, fact))  # type: ignore[misc]

    def _apply(self, tx: Transaction, fact: Fact) -> None:
        if isinstance(fact, CallEvent):
            self.store.add_events(tx, [fact])
            return
        put(tx, *fact)

    def poll(self, *documents: JsonRecord, when: float) -> None:
        """Apply a live poll `when` seconds after T0."""
        self.mirror_db.write(lambda tx: self.store.apply_poll(tx, documents, at(when)))

    def end_missing(self, *legs: int, when: float) -> None:
        """End legs that the platform no longer lists, `when` seconds after T0."""
        self.mirror_db.write(lambda tx: self.store.end_missing_legs(tx, legs, at(when)))

    def tick(self, when: float) -> int:
        """Evaluate the calls whose timers are due `when` seconds after T0."""
        return self.mirror_db.write(lambda tx: self.store.evaluate_due_calls(tx, T0 + when))

    def recompute(self) -> None:
        """Compute all calls again."""
        self.mirror_db.write(lambda tx: due.mark_all(tx, CALLS))
        rebuild.rebuild_due(self.mirror_db, self.store.rules)

    def calls(self, *columns: str) -> list[Any]:
        """Rows of `_calls` by id, as dictionaries, or tuples of `columns`."""
        with self.mirror_db.read() as connection:
            timers = dict(connection.execute(TIMERS).fetchall())
            rows = [
                {**row, "due_at": timers.get(row["id"])}
                for row in map(dict, connection.execute("SELECT * FROM _calls ORDER BY id"))
            ]
        for row in rows:
            # The last column, which comparisons leave out.
            row["change_no"] = row.pop("change_no")
            del row["is_past"]
        return [tuple(row[name] for name in columns) for row in rows] if columns else rows

    def call(self) -> dict[str, Any]:
        """Row of the only call."""
        (row,) = self.calls()
        return dict(row)

    def state(self) -> list[dict[str, Any]]:
        """Computed calls and legs, without `change_no`."""
        with self.mirror_db.read() as connection:
            calls = self.calls()
            legs = [dict(row) for row in connection.execute("SELECT * FROM _legs ORDER BY leg_id")]
        for row in calls:
            del row["change_no"]
        return [*calls, *legs]

    def present_ids(self, *ids: int) -> dict[int, int | None]:
        """Present call of each id that a leg, a root or a call has or had."""
        with self.mirror_db.read() as connection:
            calls = {id_: history.find(connection, id_) for id_ in ids}
        return {id_: None if call is None else call["id"] for id_, call in calls.items()}

    def changes(self) -> list[tuple[str, str]]:
        with self.mirror_db.read() as connection:
            return [tuple(row) for row in connection.execute("SELECT topic, key FROM _changes ORDER BY id")]


def put(tx: Transaction, table: str, record: dict[str, Any], *, defer_calls: bool = False) -> None:
    document = JsonRecord(json.dumps(record), record)
    upsert(tx, get_resource(table), [document], source="sync", requested_at=clock.utc_text())
    if defer_calls:
        due.postpone(tx)


def set_now(monkeypatch: Any, when: float) -> None:
    """Stop the wall clock `when` seconds after T0."""
    monkeypatch.setattr(clock, "unix", lambda: float(T0 + when))


PEOPLE = Directory.build(
    [Person(id_, EXTENSIONS[id_], name) for id_, name in NAMES.items()],
    [Group("ringgroup", GROUP, "601", "Support", RING_TIME), Group("queue", QUEUE, "602", "Sales", 5)],
)


def compute(
    facts: Iterable[Fact], knowledge: ReferenceData | None = None, now: float = T0 + 3600.0
) -> list[Any]:
    """Compute the calls of `facts`, in their order, without a database."""
    knowledge = knowledge or ReferenceData(PEOPLE, PhoneNumbers("GB"))
    legs: dict[int, LegFacts] = {}

    def find_facts(id_: int) -> LegFacts:
        return legs.setdefault(id_, LegFacts(id_))

    for fact in facts:
        if isinstance(fact, CallEvent):
            find_facts(fact.leg_id or 0).events.append(ReceivedEvent(fact, now))
            continue
        table, record = fact
        if table == "cdrs":
            values = {name: record.get(name) for name in Cdr._fields}
            values |= {"parent_id": record["parent_live_id"], "root_id": record["root_live_id"]}
            values |= {"calldate": parse_seconds(record["calldate"]), "received_at": int(now)}
            find_facts(record["live_id"]).cdrs.append(Cdr(**values))
        elif table == "monitors":
            find_facts(record["live_id"]).recordings.append(
                Recording(record["id"], record["live_id"], record.get("user_id"))
            )
        else:
            message = Voicemail(record["id"], record.get("live_id"), record.get("parent_live_id"))
            for id_ in {message.leg_id, message.parent_id} - {None}:
                find_facts(id_).voicemails.append(message)
    views = {
        id_: LegView(build_leg(leg_facts), knowledge)
        for id_, leg_facts in legs.items()
        if not leg_facts.is_empty
    }
    calls = join_legs(make_link(view, knowledge) for view in views.values())
    return [evaluate_call(call, [views[id_] for id_ in call.leg_ids], knowledge, now) for call in calls]
