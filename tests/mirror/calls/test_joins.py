"""Which legs are one call; what joins and parts them later."""

from __future__ import annotations

import pytest

from integration.mirror.calls.joins import Link, join_legs
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    GROUP,
    OTHER,
    QUEUE,
    RING_TIME,
    CallMirror,
    Phone,
    cdr,
    set_now,
)  # fmt: skip

KEY = "+447700900101|ringgroup|80001"


def ringing(id_: int, started: int = 0, key: str | None = KEY, **more: object) -> Link:
    values = {"root_id": None, "parent_id": None, "group_id": None, "ended": None, "window": None, **more}
    return Link(id=id_, key=key, started=started, **values)  # type: ignore[arg-type]


def legs(*links: Link) -> list[tuple[int, tuple[int, ...], bool]]:
    return [(call.id, call.leg_ids, call.is_provisional) for call in join_legs(links)]


def test_the_same_root_joins_and_names_the_call_even_if_the_root_was_never_seen() -> None:
    assert legs(ringing(5, root_id=3), ringing(7, root_id=3)) == [(3, (5, 7), False)]


def test_a_chain_of_parents_joins_and_its_top_names_the_call() -> None:
    assert legs(ringing(9), ringing(5, key=None, parent_id=9), ringing(7, key=None, parent_id=5)) == [
        (9, (5, 7, 9), False)
    ]


def test_a_circle_of_parents_does_not_hang() -> None:
    assert legs(ringing(5, parent_id=7), ringing(7, parent_id=5)) == [(5, (5, 7), False)]


def test_a_transferred_leg_that_is_its_own_root_still_belongs_to_its_parent() -> None:
    assert legs(ringing(5, root_id=5), ringing(7, root_id=7, parent_id=5)) == [(5, (5, 7), False)]


def test_phones_that_start_within_two_seconds_are_joined_provisionally() -> None:
    assert legs(ringing(1, 0), ringing(2, 2)) == [(1, (1, 2), True)]
    assert legs(ringing(1, 0), ringing(2, 3)) == [(1, (1,), False), (2, (2,), False)]


def test_the_next_phone_of_a_hunt_is_joined_within_the_groups_patience() -> None:
    first = ringing(1, 0, ended=20, window=22)
    assert legs(first, ringing(2, 42)) == [(1, (1, 2), True)]
    assert legs(first, ringing(2, 43)) == [(1, (1,), False), (2, (2,), False)]
    assert legs(ringing(1, 0, ended=20), ringing(2, 21)) == [(1, (1,), False), (2, (2,), False)]


def test_other_callers_other_groups_and_plain_calls_are_not_joined_by_time() -> None:
    assert len(legs(ringing(1), ringing(2, key="+447700900102|ringgroup|80001"))) == 2
    assert len(legs(ringing(1, key=None), ringing(2, key=None))) == 2
    assert len(legs(ringing(1, group_id=1), ringing(2, group_id=2))) == 2


def test_two_calls_with_roots_are_never_joined_by_time_and_a_loose_leg_goes_to_the_nearer() -> None:
    one, other = ringing(1, 0, root_id=1, ended=20, window=22), ringing(5, 30, root_id=5)
    assert legs(one, other) == [(1, (1,), False), (5, (5,), False)]
    assert legs(one, other, ringing(6, 31)) == [(1, (1,), False), (5, (5, 6), True)]


def group(leg: int, user: int, **more: object) -> Phone:
    return Phone(leg, user, context=f"RG-{GROUP}", **more)  # type: ignore[arg-type]


def test_a_root_told_later_confirms_a_provisional_call(mirror: CallMirror) -> None:
    one, two = group(101, ANN), group(102, BOB)
    mirror.tell(one.tell("ringing", 0.3), two.tell("ringing", 0.4))
    assert mirror.calls("id", "legs", "provisional") == [(101, 2, 1)]
    mirror.tell(two.tell("missed", 9, root_call_id=101, final=False))
    assert mirror.calls("id", "legs", "provisional") == [(101, 2, 0)]


def test_a_later_fact_joins_two_calls_and_the_old_id_leads_on(mirror: CallMirror) -> None:
    mirror.tell(Phone(101, ANN).tell("ringing", 0.3), Phone(102, BOB, started=9).tell("ringing", 9))
    assert mirror.calls("id") == [(101,), (102,)]
    mirror.tell(("cdrs", cdr(9002, 102, 9, 30, 20, parent_live_id=101)))
    assert mirror.calls("id", "legs") == [(101, 2)]
    assert ("call_gone", "102") in mirror.changes()
    assert {"ids": [(101, 101), (102, 101)]} in mirror.state()


def test_a_root_that_becomes_known_renames_the_call_and_every_id_leads_to_it(mirror: CallMirror) -> None:
    one, two = group(105, ANN), group(106, BOB)
    mirror.tell(one.tell("ringing", 0.3), two.tell("ringing", 0.4))
    mirror.tell(one.tell("missed", 9, root_call_id=99), two.tell("missed", 9, root_call_id=99))
    assert mirror.calls("id", "legs") == [(99, 2)]
    assert {"ids": [(99, 99), (105, 99), (106, 99)]} in mirror.state()
    assert mirror.changes().count(("call_gone", "105")) == 1


def test_a_later_fact_parts_a_provisional_call(mirror: CallMirror) -> None:
    """One caller with two lines: two calls to one group in one second."""
    one, two = group(101, ANN), group(102, BOB)
    mirror.tell(one.tell("ringing", 0.3), two.tell("ringing", 0.4))
    assert mirror.calls("id") == [(101,)]
    mirror.tell(one.tell("missed", 9, root_call_id=101), two.tell("missed", 9, root_call_id=102))
    assert mirror.calls("id", "provisional") == [(101, 0), (102, 0)]


def test_legs_of_one_queue_are_joined_whether_or_not_they_name_it(mirror: CallMirror) -> None:
    music = Phone(301, None, context="QUEUE", dst_id=str(QUEUE), dst_name="Sales", connected=1)
    mirror.tell(music.tell("connected", 1), Phone(302, ANN, started=1, context="Queue").tell("ringing", 1.5))
    assert mirror.calls("id", "legs") == [(301, 2)]


def test_two_callers_at_one_group_are_two_calls(mirror: CallMirror) -> None:
    mirror.tell(group(101, ANN).tell("ringing", 0.3), group(102, BOB, src=OTHER).tell("ringing", 0.4))
    assert mirror.calls("party", "legs") == [(CALLER, 1), (OTHER, 1)]


def test_a_redial_after_a_final_miss_is_another_call(mirror: CallMirror) -> None:
    first, second = group(101, ANN), group(102, ANN, started=12)
    mirror.tell(first.tell("missed", 9, final=True), second.tell("ringing", 12))
    assert len(mirror.calls()) == 2


def test_a_redial_after_the_groups_patience_is_another_call(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100)
    late = 20 + RING_TIME + 3
    mirror.tell(group(101, ANN).tell("missed", 20), group(102, CAT, started=late).tell("ringing", late))
    assert len(mirror.calls()) == 2


def test_a_parent_that_becomes_known_after_its_children_takes_them_in(mirror: CallMirror) -> None:
    mirror.tell(("cdrs", cdr(9002, 102, 9, 30, 20, parent_live_id=101)))
    mirror.tell(("cdrs", cdr(9003, 103, 39, 30, 20, parent_live_id=101)))
    assert mirror.calls("id", "legs") == [(101, 2)]
    mirror.tell(Phone(101, ANN).tell("hangup", 9))
    assert mirror.calls("id", "legs") == [(101, 3)]


def test_what_is_left_of_a_call_is_computed_anew_when_a_leg_turns_out_to_be_another_callers(
    mirror: CallMirror,
) -> None:
    mirror.tell(group(101, ANN).tell("ringing", 0.3), group(102, BOB).tell("ringing", 0.4))
    assert mirror.calls("id", "legs") == [(101, 2)]
    mirror.tell(("cdrs", cdr(9002, 102, 0, 18, 0, src=OTHER, context=f"RG-{GROUP}")))
    assert mirror.calls("id", "party", "legs", "provisional") == [
        (101, CALLER, 1, 0),
        (102, OTHER, 1, 0),
    ]


def test_an_id_that_no_fact_names_any_more_still_leads_to_its_call(mirror: CallMirror) -> None:
    mirror.tell(Phone(101, ANN, root=99).tell("ringing", 1))
    assert mirror.calls("id") == [(99,)]
    mirror.tell(("cdrs", cdr(9001, 101, 0, 18, 11, root_live_id=50)))
    assert mirror.calls("id") == [(50,)]
    assert {"ids": [(50, 50), (99, 50), (101, 50)]} in mirror.state()
