"""The call-back list, from calls told to a real mirror.db and deeds done in a real house.db."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from integration.sqlite.database import Database
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from integration.workspace.callback_items import CallbackAction, CallbackCall, build_episodes
from tests.support.application import make_app
from tests.support.payloads.call_facts import (
    ANN,
    CALLER,
    OTHER,
    CallMirror,
    Fact,
    Phone,
    at,
    cdr,
    set_now,
    voicemail,
)

WHO = "ann@example.com"


def prepare(connection: Any) -> None:
    connection.executescript(callbacks.TABLES)


@pytest.fixture
def app_db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A house.db that was installed just before the calls are told."""
    set_now(monkeypatch, 0)
    app_db = Database(tmp_path / "house.db", prepare=prepare, synchronous="FULL")
    yield app_db
    app_db.close()


class List:
    """The list as people work with it."""

    def __init__(self, mirror: CallMirror, app_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mirror, self.app_db, self._patch = mirror, app_db, monkeypatch
        update_from_mirror(app_db, mirror.mirror_db)

    def tell(self, *facts: Fact) -> None:
        self.mirror.apply(*facts)
        self.follow()

    def follow(self) -> int:
        return update_from_mirror(self.app_db, self.mirror.mirror_db)

    def do(self, when: float, deed: Callable[..., bool], *more: Any) -> bool:
        set_now(self._patch, when)
        return deed(self.app_db, *more)

    def items(self, *columns: str) -> list[Any]:
        with self.app_db.read() as connection:
            found = callbacks.list_items(connection, "open") + callbacks.list_items(connection, "closed")
        return [tuple(getattr(one, name) for name in columns) for one in found] if columns else found

    def open(self) -> list[str]:
        with self.app_db.read() as connection:
            return [one.party for one in callbacks.list_items(connection, "open")]


@pytest.fixture
def work(mirror: CallMirror, app_db: Database, monkeypatch: pytest.MonkeyPatch) -> List:
    return List(mirror, app_db, monkeypatch)


def missed(leg: int, when: float, **more: Any) -> Fact:
    return Phone(leg, ANN, started=when, **more).event("missed", when + 18, final=True)


def answered(leg: int, when: float, **more: Any) -> Fact:
    return Phone(leg, ANN, started=when, connected=when + 5, **more).event("hangup", when + 30)


def called_back(leg: int, when: float, talked: int) -> Fact:
    return (
        "cdrs",
        cdr(leg + 9000, leg, when, talked + 5, talked, type="O", destination="out", src="1001",
            src_id=str(ANN), dst="+447700900101", context="PSTN_CALL", user_id=ANN),
    )  # fmt: skip


def test_a_missed_call_opens_an_item_and_further_misses_add_attempts(work: List) -> None:
    work.tell(missed(101, 0))
    work.tell(missed(102, 100), missed(103, 50, src="00447700900101"))
    (item,) = work.items()
    assert (item.party, item.attempts, item.reason, item.state) == ("+447700900101", 3, "missed", "open")
    assert (item.opened_at, item.last_at, item.last_call_id) == (at(0), at(100), 102)
    assert item.our_number == "442079460002"


def test_a_message_makes_the_reason_voicemail(work: List) -> None:
    work.tell(missed(101, 0), ("voicemessages", voicemail(7001, 102, 101)))
    assert work.items("reason", "attempts") == [("voicemail", 1)]


def test_it_closes_by_itself_when_a_later_call_of_the_party_is_answered(work: List) -> None:
    work.tell(missed(101, 100), answered(102, 0))
    assert work.open() == ["+447700900101"], "that call was before the miss"
    with work.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM callback_calls").fetchone()[0] == 1, (
            "only what matters"
        )
    work.tell(answered(103, 200))
    assert work.items("state", "closed_by", "closed_call_id", "closed_at") == [
        ("closed", "auto", 103, at(200))
    ]
    work.tell(missed(104, 300))
    assert work.items("state", "attempts") == [("open", 1), ("closed", 1)]


def test_an_outbound_call_closes_it_only_if_it_talked_long_enough(work: List) -> None:
    work.tell(missed(101, 0), called_back(201, 100, 14))
    assert work.items("state") == [("open",)]
    work.tell(called_back(202, 200, 15))
    assert work.items("state", "closed_call_id") == [("closed", 202)]


def test_abandoned_internal_and_answered_calls_open_nothing(work: List) -> None:
    work.tell(
        Phone(101, ANN).event("missed", 2, final=True),
        Phone(102, ANN, src="1002", src_id="1000002", dst="1001").event("missed", 20, final=True),
        answered(103, 0),
    )
    assert work.items() == []


def test_a_miss_that_turns_out_answered_is_withdrawn(work: List) -> None:
    work.tell(missed(101, 0))
    assert work.open()
    work.tell(("cdrs", cdr(9001, 101, 0, 40, 22, user_id=ANN)))
    assert work.items() == []


def test_two_calls_that_turn_out_one_count_once(work: List) -> None:
    work.tell(missed(101, 0), missed(102, 30))
    assert work.items("attempts") == [(2,)]
    work.tell(("cdrs", cdr(9002, 102, 30, 18, 0, parent_live_id=101)))
    assert work.items("attempts", "last_call_id") == [(1, 101)]


def test_withheld_numbers_are_listed_one_by_one_and_closed_only_by_hand(work: List) -> None:
    work.tell(missed(101, 0, src=""), missed(102, 60, src="anonymous"), answered(103, 120, src=""))
    assert sorted(work.open()) == ["withheld:101", "withheld:102"]
    number = work.items("id", "party")[0][0]
    assert work.do(200, callbacks.record_action, number, WHO, "close", "rang back by chance")
    assert len(work.open()) == 1


def test_it_is_closed_by_hand_with_a_note_and_reopened(work: List) -> None:
    work.tell(missed(101, 0))
    number = work.items("id")[0][0]
    assert work.do(60, callbacks.record_action, number, WHO, "assign", WHO)
    assert work.do(90, callbacks.record_action, number, WHO, "close", "left word")
    assert work.items("id", "state", "closed_by", "closed_at", "owner", "note") == [
        (number, "closed", WHO, at(90), WHO, "left word")
    ]
    assert work.do(120, callbacks.record_action, number, WHO, "reopen")
    assert work.items("id", "state", "closed_at") == [(number, "open", None)]
    assert work.do(130, callbacks.record_action, number, WHO, "note", " ")
    assert work.items("note") == [(None,)]
    work.tell(answered(102, 200))
    assert work.items("id", "state", "closed_by") == [(number, "closed", "auto")]


def test_a_deed_counts_though_the_platforms_clock_is_ahead_of_ours(work: List) -> None:
    work.tell(missed(101, 5000))
    assert work.do(60, callbacks.record_action, work.items("id")[0][0], WHO, "close")
    assert work.items("state", "closed_by") == [("closed", WHO)]


def test_a_deed_on_what_does_not_exist_says_so(work: List) -> None:
    for action in get_args(callbacks.ItemAction):
        assert not work.do(1, callbacks.record_action, 7, WHO, action, "x")


def test_reopening_changes_nothing_while_a_newer_item_of_the_caller_is_open(work: List) -> None:
    work.tell(missed(101, 0))
    number = work.items("id")[0][0]
    work.do(60, callbacks.record_action, number, WHO, "close")
    work.tell(missed(102, 100))
    work.do(200, callbacks.record_action, number, WHO, "reopen")
    assert work.items("state", "attempts") == [("open", 1), ("closed", 1)]


def test_a_deed_outlives_the_joining_of_its_call(work: List) -> None:
    work.tell(missed(101, 0, src=""), missed(102, 30, src=""))
    work.do(
        60,
        callbacks.record_action,
        next(n for n, party in work.items("id", "party") if party == "withheld:102"),
        WHO,
        "close",
    )
    work.do(
        60,
        callbacks.record_action,
        next(n for n, party in work.items("id", "party") if party == "withheld:101"),
        WHO,
        "close",
    )
    work.tell(("cdrs", cdr(9002, 102, 30, 18, 0, parent_live_id=99, src="")))
    work.tell(("cdrs", cdr(9001, 101, 0, 18, 0, root_live_id=99, src="")))
    assert work.items("party", "state", "closed_by") == [("withheld:99", "closed", WHO)]


def test_following_again_changes_nothing(work: List) -> None:
    work.tell(missed(101, 0), answered(102, 50), missed(103, 100))
    before = work.items()
    assert work.follow() == 0
    with work.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM callback_calls").fetchone()[0] == 3
    work.app_db.write(lambda tx: tx.execute("UPDATE callback_position SET number = 0").rowcount)
    work.follow()
    assert work.items() == before


def test_items_and_deeds_outlive_a_mirror_that_is_built_anew(work: List, tmp_path: Path) -> None:
    work.tell(missed(101, 0), missed(102, 10, src=OTHER))
    work.do(
        60,
        callbacks.record_action,
        next(n for n, p in work.items("id", "party") if p.endswith("102")),
        WHO,
        "close",
    )
    before = work.items()
    new_app = make_app(tmp_path / "new")
    empty = CallMirror(new_app)
    empty.seed()
    empty.apply(answered(900, 5, src="447700900199"))
    work.mirror = empty
    work.follow()
    assert work.items() == before, "the new mirror does not know these calls yet"
    work.tell(missed(101, 0), answered(103, 100))
    assert [replace(one, id=0) for one in work.items()] == [
        replace(one, id=0, state="closed", closed_by="auto", closed_at=at(100), closed_call_id=103)
        if one.party.endswith("101")
        else replace(one, id=0)
        for one in sorted(before, key=lambda one: one.last_at, reverse=True)
    ]
    new_app.close()


def test_changes_that_were_tidied_away_are_made_good(work: List) -> None:
    work.tell(missed(101, 0, src=""))
    work.mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 0, root_live_id=99, src="")))
    work.mirror.mirror_db.write(
        lambda tx: tx.execute("DELETE FROM _changes WHERE id < (SELECT max(id) FROM _changes)").rowcount
    )
    work.follow()
    assert work.items("party", "attempts") == [("withheld:99", 1)]


def test_misses_of_more_than_a_week_before_the_installation_open_nothing(work: List) -> None:
    week = 7 * 86_400
    work.tell(missed(101, -week - 60), missed(102, -week + 60, src=OTHER))
    assert work.open() == ["+447700900102"]


def test_an_item_never_disappears_with_age(work: List, monkeypatch: pytest.MonkeyPatch) -> None:
    work.tell(missed(101, 0))
    set_now(monkeypatch, 90 * 86_400)
    work.tell(missed(102, 60 * 86_400, src=OTHER))
    assert sorted(work.open()) == ["+447700900101", "+447700900102"]


FACTS = [
    missed(101, 0),
    missed(102, 60),
    answered(103, 120),
    ("cdrs", cdr(9001, 101, 0, 18, 0)),
    missed(104, 200),
    called_back(201, 300, 40),
    missed(105, 400),
]


@pytest.mark.parametrize("seed", range(8))
def test_the_list_is_the_same_whatever_the_order_of_the_facts(work: List, seed: int) -> None:
    work.mirror.apply(*FACTS)
    work.follow()
    expected = [replace(one, id=0) for one in work.items()]
    assert [(one.state, one.attempts) for one in expected] == [("open", 1), ("closed", 1), ("closed", 2)]
    work.mirror.clear()
    for table in ("callbacks", "callback_calls", "callback_position"):
        work.app_db.write(lambda tx, table=table: tx.execute(f"DELETE FROM {table}").rowcount)  # type: ignore[misc]
    for fact in random.Random(seed).sample(FACTS, len(FACTS)):
        work.tell(fact)
    assert [replace(one, id=0) for one in work.items()] == expected


def test_items_are_a_function_of_the_sets_of_calls_and_deeds() -> None:
    calls = [CallbackCall(n, "+447700900101", at(60 * n), kind, None, "") for n, kind in enumerate(
        ["missed", "reached", "missed", "voicemail", "reached", "missed"]
    )]  # fmt: skip
    deeds = [
        CallbackAction(1, at(200), WHO, "note", "n", frozenset({2, 3})),
        CallbackAction(2, at(330), WHO, "close", None, frozenset({5})),
    ]
    expected = [one.to_item(0) for one in build_episodes(calls, deeds)]
    assert [(one.attempts, one.closed_by, one.note) for one in expected] == [
        (1, "auto", None), (2, "auto", "n"), (1, WHO, None),
    ]  # fmt: skip
    for order in itertools.permutations(calls):
        assert [one.to_item(0) for one in build_episodes(order, reversed(deeds))] == expected


def test_the_open_item_of_a_caller_is_found(work: List) -> None:
    work.tell(missed(101, 0))
    with work.app_db.read() as connection:
        found = callbacks.find_open_item(connection, "+447700900101")
        assert found is not None
        assert callbacks.find_item(connection, found.id) == found
        assert callbacks.find_open_item(connection, "+447700900102") is None
        assert callbacks.count_open(connection) == 1
    assert CALLER in found.party
