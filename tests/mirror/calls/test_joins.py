"""Joins of legs to calls, and later facts that change the joins."""

from __future__ import annotations

import pytest

from integration.mirror.calls.joins import Link, join_legs
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    GROUP,
    CallMirror,
    Phone,
    cdr,
)  # fmt: skip

KEY = "+447700900101|ringgroup|80001"


def ringing(id_: int, started: int = 0, key: str | None = KEY, **more: object) -> Link:
    values = {"root_id": None, "parent_id": None, "group_id": None, "ended": None, "window": None, **more}
    return Link(id=id_, key=key, started=started, **values)  # type: ignore[arg-type]


def legs(*links: Link) -> list[tuple[int, tuple[int, ...], bool]]:
    return [(call.id, call.leg_ids, call.is_provisional) for call in join_legs(links)]


APART = [(1, (1,), False), (2, (2,), False)]
HUNT, LATE_HUNT = ringing(1, 0, ended=20, window=22), ringing(1, 0, ended=590, window=22)
ROOTED, OTHER_ROOT = ringing(1, 0, root_id=1, ended=20, window=22), ringing(5, 30, root_id=5)
BESIDE = ringing(1, 10, "|ringgroup|80001", root_id=1, phone="user 1")
PHONES = [
    ringing(id_, start, "|ringgroup|80001", phone="user 2", group_id=80001)
    for id_, start in ((2, 10), (3, 11))
]
JOINS = {
    "an unseen root gives its id": ([ringing(5, root_id=3), ringing(7, root_id=3)], [(3, (5, 7), False)]),
    "a chain of parents has the id of the first": (
        [ringing(9), ringing(5, key=None, parent_id=9), ringing(7, key=None, parent_id=5)],
        [(9, (5, 7, 9), False)],
    ),
    "a cycle of parents": ([ringing(5, parent_id=7), ringing(7, parent_id=5)], [(5, (5, 7), False)]),
    "a transferred leg is its own root": (
        [ringing(5, root_id=5), ringing(7, root_id=7, parent_id=5)], [(5, (5, 7), False)],
    ),
    "2 s": ([ringing(1, 0), ringing(2, 2)], [(1, (1, 2), True)]),
    "3 s": ([ringing(1, 0), ringing(2, 3)], APART),
    "the patience of a hunt": ([HUNT, ringing(2, 42)], [(1, (1, 2), True)]),
    "1 s more": ([HUNT, ringing(2, 43)], APART),
    "2 s before the end": ([HUNT, ringing(2, 18)], [(1, (1, 2), True)]),
    "3 s before the end": ([HUNT, ringing(2, 17)], APART),
    "no patience": ([ringing(1, 0, ended=20), ringing(2, 21)], APART),
    "10 minutes": ([LATE_HUNT, ringing(2, 600)], [(1, (1, 2), True)]),
    "more than 10 minutes": ([LATE_HUNT, ringing(2, 601)], APART),
    "another caller": ([ringing(1), ringing(2, key="+447700900102|ringgroup|80001")], APART),
    "plain calls": ([ringing(1, key=None), ringing(2, key=None)], APART),
    "another group": ([ringing(1, group_id=1), ringing(2, group_id=2)], APART),
    "calls with roots": ([ROOTED, OTHER_ROOT], [(1, (1,), False), (5, (5,), False)]),
    "the nearer call with a root": (
        [ROOTED, OTHER_ROOT, ringing(6, 31)], [(1, (1,), False), (5, (5, 6), True)],
    ),
    "another phone of the user is nearer": ([BESIDE, *PHONES], [(1, (1, 2), True), (3, (3,), False)]),
}  # fmt: skip


@pytest.mark.parametrize(("links", "expected"), JOINS.values(), ids=JOINS)
def test_legs_are_joined_by_root_parent_and_time(
    links: list[Link], expected: list[tuple[int, tuple[int, ...], bool]]
) -> None:
    assert legs(*links) == expected


def ring_all_day(block_count: int) -> list[Link]:
    """Return blocks of 9 legs that start every second.

    2 s pass between two blocks.
    """
    return [
        ringing(100 * block + n, 10 * block + n)
        for block in range(1, block_count + 1)
        for n in range(9)
    ]  # fmt: skip


def test_a_chain_of_more_than_100_legs_is_divided_at_its_pauses() -> None:
    assert [len(call.leg_ids) for call in join_legs(ring_all_day(11))] == [99]
    found = join_legs(ring_all_day(12))
    assert [len(call.leg_ids) for call in found] == [9] * 12
    assert [call.id for call in found] == [100 * block for block in range(1, 13)]


def test_a_chain_of_equal_pauses_is_divided_into_short_calls() -> None:
    lengths = [len(call.leg_ids) for call in join_legs(ringing(n, n) for n in range(1000, 3000))]
    assert sum(lengths) == 2000
    assert max(lengths) <= 54, "the legs that are read on each side of a leg of a long chain"


def group(leg: int, user: int, **more: object) -> Phone:
    return Phone(leg, user, context=f"RG-{GROUP}", **more)  # type: ignore[arg-type]


def test_a_later_parent_id_joins_two_calls_and_maps_the_old_id_to_the_joined_call(mirror: CallMirror) -> None:
    mirror.apply(Phone(101, ANN).event("ringing", 0.3), Phone(102, BOB, started=9).event("ringing", 9))
    assert mirror.calls("id") == [(101,), (102,)]
    mirror.apply(("cdrs", cdr(9002, 102, 9, 30, 20, parent_live_id=101)))
    assert mirror.calls("id", "legs") == [(101, 2)]
    assert ("call_gone", "102") in mirror.changes()
    assert mirror.present_ids(101, 102) == {101: 101, 102: 101}


def test_a_root_that_arrives_later_renames_the_call_and_maps_every_old_id_to_it(mirror: CallMirror) -> None:
    one, two = group(105, ANN), group(106, BOB)
    mirror.apply(one.event("ringing", 0.3), two.event("ringing", 0.4))
    mirror.apply(one.event("missed", 9, root_call_id=99), two.event("missed", 9, root_call_id=99))
    assert mirror.calls("id", "legs") == [(99, 2)]
    assert mirror.present_ids(99, 105, 106) == {99: 99, 105: 99, 106: 99}
    assert mirror.changes().count(("call_gone", "105")) == 1


def test_a_former_call_id_maps_to_the_call_after_every_fact_lost_it(mirror: CallMirror) -> None:
    mirror.apply(Phone(101, ANN, root=99).event("ringing", 1))
    assert mirror.calls("id") == [(99,)]
    mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 11, root_live_id=50)))
    assert mirror.calls("id") == [(50,)]
    mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 11, root_live_id=40)))
    assert mirror.present_ids(40, 50, 99, 101, 60) == {40: 40, 50: 40, 99: 40, 101: 40, 60: None}
