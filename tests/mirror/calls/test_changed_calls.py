"""A program that follows changes of calls ends with exactly the calls (docs/api.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.access.keys import KeyLimits
from integration.mirror.calls.facts import CallEvent
from integration.sqlite.transaction import Transaction
from integration.workspace import app_changes, notes
from tests.support.application import TestApp
from tests.support.examples import example_count
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CAT,
    DDI,
    GROUP,
    T0,
    CallMirror,
    Phone,
    at,
    cdr,
    format_timestamp,
    make_event,
    put,
)

TIMES = st.integers(0, 25)
STATES = ["initial", "ringing", "connected", "hold", "unhold", "hangup", "missed", "dtmf", "odd"]


@st.composite
def draw_event(draw: st.DrawFn) -> CallEvent:
    """Draw an event of one of four legs.

    Root, user, final and the time of the connection may be absent.
    """
    leg = draw(st.integers(101, 104))
    name = draw(st.sampled_from(STATES))
    when = draw(TIMES)
    phone = Phone(
        leg,
        draw(st.sampled_from([ANN, BOB, CAT, None])),
        started=draw(st.sampled_from([0, 1, 20])),
        context=draw(st.sampled_from(["LOCAL_USER", f"RG-{GROUP}", "QUEUE", "IVR", "NEW_THING"])),
        src=draw(st.sampled_from(["447700900101", "", "1001"])),
        dst=draw(st.sampled_from([DDI, "1002", "447700900102"])),
        destination=draw(st.sampled_from(["in", "out"])),
        root=draw(st.sampled_from([None, None, 101, 102, 99])),
        connected=draw(st.sampled_from([None, 5])),
        server=draw(st.sampled_from(["uk003", "uk004"])),
    )
    more = {"final": draw(st.sampled_from([True, False]))} if name == "missed" and draw(st.booleans()) else {}
    call_event = phone.event(name, when, draw(st.integers(0, 999_999)), **more)
    if draw(st.booleans()):
        return call_event
    payload = {
        "event_time": format_timestamp(T0 + when),
        "event_name": f"call.{name}",
        "call_id": leg,
        "state": "RINGING",
    }
    return make_event(f"odd-{leg}-{name}-{when}", payload)


LEGS = st.integers(101, 105)
Step = Callable[[CallMirror, Transaction], object]


@st.composite
def draw_cdr(draw: st.DrawFn) -> Step:
    leg, talked = draw(LEGS), draw(st.sampled_from([0, 20]))
    record = cdr(
        leg + draw(st.sampled_from([0, 1000])),
        leg,
        draw(st.sampled_from([0, 1, 30])),
        30,
        talked,
        user_id=draw(st.sampled_from([ANN, BOB, CAT])),
        root_live_id=draw(st.sampled_from([None, None, 101, 102, 99])),
        parent_live_id=draw(st.sampled_from([None, None, 103])),
        charge=draw(st.sampled_from([0.0, 0.5])),
    )
    return lambda _, tx: put(tx, "cdrs", record)


STEPS: st.SearchStrategy[Step] = st.one_of(
    draw_event().map(lambda event: lambda mirror, tx: mirror.store.add_events(tx, [event])),
    draw_cdr(),
    LEGS.map(lambda leg: lambda _, tx: tx.execute("DELETE FROM cdrs WHERE live_id = ?", (leg,))),
    LEGS.map(
        lambda leg: lambda _, tx: tx.execute("UPDATE cdrs SET labels = '[\"Vip\"]' WHERE live_id = ?", (leg,))
    ),
    LEGS.map(lambda leg: lambda mirror, tx: mirror.store.end_missing_legs(tx, [leg], at(40))),
    st.sampled_from([10, 70, 8000]).map(
        lambda when: lambda mirror, tx: mirror.store.evaluate_due_calls(tx, T0 + when)
    ),
    st.sampled_from(["Ann", "Anna"]).map(
        lambda name: lambda _, tx: tx.execute("UPDATE users SET first_name = ? WHERE id = ?", (name, ANN))
    ),
)  # fmt: skip


class Reader:
    """Copy of the calls of a key, kept by `changed_after`."""

    def __init__(self, app: TestApp, key: dict[str, str]) -> None:
        self.app, self.key = app, key
        self.calls: dict[int, Any] = {}
        self.cursor = "0"

    def read(self) -> list[int]:
        """Read all changes; return their calls."""
        ids: list[int] = []
        while True:
            query = f"/api/calls?limit=2&changed_after={self.cursor}"
            page = self.app.client.get(query, headers=self.key).json
            for call in page["data"]:
                ids.append(call["id"])
                if "merged_into" in call:
                    self.calls.pop(call["id"], None)
                else:
                    self.calls[call["id"]] = call
            self.cursor = page["next"]
            if len(page["data"]) < 2:
                return ids


@pytest.fixture(scope="module")
def reader_keys(call_app: TestApp) -> list[dict[str, str]]:
    return [call_app.add_key(f"reader {user}", user=user, limits=KeyLimits()) for user in (None, ANN, BOB)]


@given(
    transactions=st.lists(
        st.tuples(st.lists(STEPS, min_size=1, max_size=3), st.booleans(), st.none() | LEGS),
        min_size=1,
        max_size=12,
    )
)
@example_count(60, 400)
def test_a_reader_of_changes_has_the_calls_after_any_facts(
    call_app: TestApp,
    reader_keys: list[dict[str, str]],
    transactions: list[tuple[list[Step], bool, int | None]],
) -> None:
    mirror = CallMirror(call_app)
    mirror.clear_all()
    mirror.seed()
    call_app.app_db.write(lambda tx: tx.execute("DELETE FROM labels"))
    readers = [Reader(call_app, key) for key in reader_keys]
    stored: dict[int, tuple[Any, ...]] = {}
    for steps, is_read, labelled_leg in transactions:
        newest = max((row[-1] for row in stored.values()), default=0)
        mirror.mirror_db.write(lambda tx, steps=steps: [step(mirror, tx) for step in steps])  # type: ignore[misc]
        with mirror.mirror_db.read() as connection:
            rows = connection.execute(
                "SELECT v.*, (SELECT group_concat(labels) FROM cdrs JOIN _legs ON leg_id = live_id"
                " WHERE _legs.call_id = v.id), c.change_no FROM v_calls AS v JOIN _calls AS c USING (id)"
            )
            present = {row["id"]: tuple(row) for row in rows}
        for id_, row in present.items():
            assert row == stored.get(id_) or row[-1] > newest, f"call {id_} changed without a new number"
        stored = present
        if labelled_leg is not None:
            call_app.app_db.write(
                lambda tx, leg=labelled_leg: notes.add_label(tx, leg, "ann@example.com", "Order")
            )
            app_changes.announce(call_app.app_db, call_app.mirror_db)
        if is_read:
            readers[0].read()
            readers[1].read()
    for reader in readers:
        reader.read()
    listed = call_app.client.get("/api/calls?limit=500", headers=readers[0].key).json["data"]
    calls = {call["id"]: call for call in listed}
    assert readers[0].calls == calls
    for reader, user in zip(readers[1:], (ANN, BOB), strict=True):
        assert reader.calls == {id_: call for id_, call in calls.items() if call["user_id"] == user}
    for reader in readers:
        reader.cursor = "0"
        ids = reader.read()
        assert len(set(ids)) == len(ids), "each call once"
