"""Fast path for legs with one record; recomputation of many legs.

Both give the same rows as the complete computation of each leg.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.dashboard.calls import live
from integration.mirror.calls import backlog, writing
from integration.mirror.calls.facts import Cdr, LegFacts, Recording, Voicemail
from integration.mirror.calls.legs import build_leg
from integration.mirror.calls.plain.legs import build_single_record_leg, is_single_record
from tests.support.examples import example_count
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    DDI,
    EXTENSIONS,
    GROUP,
    OTHER,
    T0,
    CallMirror,
    Phone,
    at,
    cdr,
    set_now,
    voicemail,
)

LEG = 101
NAMES = st.sampled_from([None, "Ann Example", '"442079460001" <2079460001>', "Support | 442079460001"])
NUMBERS = st.sampled_from([None, CALLER, DDI, *EXTENSIONS.values(), "601", "anonymous", "No Caller ID"])
IDS = st.sampled_from([None, "0", str(ANN), str(GROUP), "10002"])
FAMILY = st.sampled_from([None, None, LEG, 102, 99])
DERIVED = ("_legs", "_calls", "_call_ids", "_changes")
CONTEXTS = (None, "LOCAL_USER", "PSTN_CALL", f"RG-{GROUP}", "Queue", "IVR", "VM", "CONF", "NEW_THING")

CDRS = st.builds(
    Cdr,
    id=st.integers(1, 9),
    live_id=st.just(LEG),
    parent_id=FAMILY,
    root_id=FAMILY,
    user_id=st.sampled_from([None, ANN, BOB]),
    type=st.sampled_from([None, "I", "O", "M", "x"]),
    calldate=st.none() | st.integers(T0, T0 + 40) | st.just(-1000),
    clid=st.sampled_from([None, f'"Ann" <{DDI}>']),
    src_id=IDS,
    src_name=NAMES,
    src=NUMBERS,
    dst_id=IDS,
    dst=NUMBERS,
    dst_name=NAMES,
    duration=st.integers(0, 90),
    billsec=st.integers(0, 99) | st.just(0),
    disposition=st.sampled_from([None, "CONNECTED", "connected", "VM", "vm", "NO ANSWER"]),
    destination=st.sampled_from([None, "in", "out", "Webcall", "odd"]),
    context=st.sampled_from(CONTEXTS),
    charge=st.sampled_from([None, 0.0, -0.0, 0.1234567, 2]),
    t_cause=st.sampled_from([None, "No Answer", "Normal Clearing"]),
    received_at=st.none() | st.integers(T0, T0 + 90) | st.just(0),
)
RECORDINGS = st.lists(
    st.builds(Recording, st.integers(1, 9), st.just(LEG), st.sampled_from([None, ANN, CAT])), max_size=3
)
MESSAGES = st.lists(
    st.builds(Voicemail, st.integers(1, 9), st.sampled_from([None, LEG, 99]), st.sampled_from([None, LEG])),
    max_size=2,
)
ABSENCE_TIMES = st.none() | st.integers(T0, T0 + 90)


@example_count(40, exhaustive=100)
@given(CDRS, RECORDINGS, MESSAGES, ABSENCE_TIMES, ABSENCE_TIMES)
def test_the_fast_path_gives_the_same_leg_as_the_full_computation(
    cdr, recordings, messages, missing_at, not_found_at
):
    facts = LegFacts(LEG, [], None, missing_at, not_found_at, [cdr], messages, recordings)
    assert is_single_record(facts)
    assert build_single_record_leg(facts) == build_leg(facts)
    assert repr(build_single_record_leg(facts).charge) == repr(build_leg(facts).charge)


def store_random_facts(mirror: CallMirror, generator: random.Random) -> list[int]:
    """Store facts of 12 legs and return the ids of the legs.

    Some legs are joined by root, parent or group, and some have webhooks.
    """
    legs = list(range(LEG, LEG + 12))
    for number, leg in enumerate(legs):
        when, talked = generator.choice((0, 1, 21, 400)) + number // 4 * 1000, generator.choice((0, 0, 9))
        more = {
            "src": generator.choice((CALLER, OTHER, "1001", "", "Blocked", "alice@example.com")),
            "dst": generator.choice((DDI, DDI, "1002", OTHER)),
            "context": generator.choice(CONTEXTS),
            "destination": generator.choice(("in", "in", "out")),
            "root_live_id": generator.choice((None, None, leg, leg, leg - 1, 99)),
            "parent_live_id": generator.choice((None, None, None, leg - 1)),
            "disposition": generator.choice(("CONNECTED", "VM")) if talked else "NO ANSWER",
            "user_id": generator.choice((None, ANN, BOB)),
            "calldate": generator.choice((at(when), at(when), at(when), None, "0000-00-00 00:00:00")),
        }
        for number_of_record in range(generator.choice((1, 1, 1, 1, 2))):
            mirror.put(
                "cdrs",
                cdr(10 * leg + number_of_record, leg, when, 20 + talked, talked, **more),
                defer_calls=True,
            )
        if generator.random() < 0.2:
            mirror.put("monitors", {"id": leg, "live_id": leg, "user_id": CAT}, defer_calls=True)
        if generator.random() < 0.1:
            mirror.put(
                "voicemessages", voicemail(leg, leg, generator.choice((None, leg + 1, 99))), defer_calls=True
            )
        if generator.random() < 0.2:
            phone = Phone(leg, generator.choice((ANN, None)), started=when)
            call_event = phone.event(generator.choice(("ringing", "missed")), when + 1)
            mirror.mirror_db.write(
                lambda tx, call_event=call_event: mirror.store.add_events(tx, [call_event])
            )
    # The events already computed some rows. Tests compute all rows from the stored facts.
    mirror.mirror_db.write(lambda tx: [tx.execute(f"DELETE FROM {name}") for name in DERIVED])
    return legs


@pytest.mark.parametrize("seed", range(6))
def test_many_legs_computed_at_once_give_the_same_rows_as_one_after_the_other(
    mirror: CallMirror, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100 * 3600)
    generator = random.Random(seed)
    legs = store_random_facts(mirror, generator)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, legs))
    at_once = mirror.state()
    assert len(at_once) > 12
    mirror.mirror_db.write(lambda tx: [tx.execute(f"DELETE FROM {name}") for name in DERIVED])
    for leg in generator.sample(legs, len(legs)):
        mirror.mirror_db.write(lambda tx, leg=leg: mirror.store.refresh(tx, [leg]))
    assert mirror.state() == at_once


@example_count(12, exhaustive=150)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_the_backlog_gives_the_same_rows_as_the_full_computation(
    mirror: CallMirror, seed: int, batch_size: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_now(monkeypatch, 100 * 3600)
        mirror.clear()
        legs = store_random_facts(mirror, random.Random(seed))
        mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, legs))
        expected = mirror.state()
        mirror.mirror_db.write(lambda tx: [tx.execute(f"DELETE FROM {name}") for name in DERIVED])
        mirror.mirror_db.write(lambda tx: backlog.add(tx, legs))
        while mirror.mirror_db.write(lambda tx: mirror.store.assemble_backlog(tx, batch_size)):
            pass
        assert mirror.state() == expected


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_the_backlog_joins_legs_that_ring_a_group_one_after_the_other(
    mirror: CallMirror, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100 * 3600)
    for leg, when in ((101, 0), (102, 21), (103, 5000)):
        more = {"src": CALLER, "context": f"RG-{GROUP}", "disposition": "NO ANSWER", "destination": "in"}
        mirror.put("cdrs", cdr(leg, leg, when, 20, 0, **more), defer_calls=True)
    while mirror.mirror_db.write(lambda tx: mirror.store.assemble_backlog(tx, batch_size)):
        pass
    assert [tuple(row) for row in mirror.calls("id", "legs")] == [(101, 2), (103, 1)]


@pytest.mark.parametrize("batch_size", [1, 9])
def test_the_backlog_joins_a_leg_with_the_leg_that_names_it_as_root(
    mirror: CallMirror, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100 * 3600)
    mirror.put("cdrs", cdr(101, 101, 0, 20, 9), defer_calls=True)
    mirror.put("cdrs", cdr(102, 102, 30, 20, 9, root_live_id=101), defer_calls=True)
    while mirror.mirror_db.write(lambda tx: mirror.store.assemble_backlog(tx, batch_size)):
        pass
    assert [tuple(row) for row in mirror.calls("id", "legs")] == [(101, 2)]


def test_new_calls_of_the_past_are_announced_as_one_change_and_have_different_change_numbers(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert live.RECENT_PERIOD.total_seconds() <= writing.HISTORY_AGE_SECONDS, (
        "each call that the live page can show is announced on its own"
    )
    set_now(monkeypatch, 100 * 3600)
    for leg, when in ((101, 0), (102, 500), (103, 99 * 3600)):
        mirror.put("cdrs", cdr(leg, leg, when, 20, 9), defer_calls=True)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101, 102, 103]))
    assert mirror.changes() == [("call", "103"), ("history", "2")]
    numbers = dict(mirror.calls("id", "change_no"))
    with mirror.mirror_db.read() as connection:
        assert max(numbers.values()) == connection.execute("SELECT max(id) FROM _changes").fetchone()[0]
    assert len(set(numbers.values())) == 3
    for leg, when in ((101, 0), (102, 500), (103, 99 * 3600)):
        mirror.put("cdrs", cdr(100 + leg, leg, when, 90, 80), defer_calls=True)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101, 102, 103]))
    assert sorted(mirror.changes()[2:]) == [("call", "103"), ("history", "2")], (
        "changes of stored calls of the past, as by a sync of recordings, are one change too"
    )
    changed_numbers = dict(mirror.calls("id", "change_no"))
    assert min(changed_numbers.values()) > max(numbers.values())
    assert len(set(changed_numbers.values())) == 3


def test_a_call_that_ends_in_the_past_is_announced_on_its_own(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live page may show it as talking until its record arrives."""
    set_now(monkeypatch, 0)
    mirror.put("cdrs", cdr(101, 101, 0, 20, 9), defer_calls=True)
    mirror.mirror_db.write(lambda tx: tx.execute("DELETE FROM _changes"))
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101]))
    mirror.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET state = 'talking', ended_at = NULL"))
    set_now(monkeypatch, 100 * 3600)
    mirror.put("cdrs", cdr(201, 101, 0, 90, 80), defer_calls=True)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101]))
    assert mirror.changes()[-1] == ("call", "101")
