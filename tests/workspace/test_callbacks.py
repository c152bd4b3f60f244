"""Call-back list, from calls in mirror.db and actions in house.db."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.access.visibility import UNLIMITED
from integration.mirror.derived import due
from integration.sqlite.database import Database
from integration.workspace import callback_following, callbacks
from integration.workspace.callback_following import update_and_announce, update_from_mirror
from integration.workspace.callback_items import CallbackAction, CallbackCall, build_episodes
from integration.workspace.callbacks import ItemAction
from tests.support.application import make_app
from tests.support.applications.shared_app import SharedApp
from tests.support.payloads.call_facts import (
    ANN,
    OTHER,
    CallMirror,
    Fact,
    Phone,
    at,
    cdr,
    set_now,
    voicemail,
)

USER = "ann@example.com"


def prepare(connection: Any) -> None:
    connection.executescript(callbacks.TABLES)


@pytest.fixture
def app_db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A house.db created just before the first call."""
    set_now(monkeypatch, 0)
    app_db = Database(tmp_path / "house.db", prepare=prepare, synchronous="FULL")
    yield app_db
    app_db.close()


class CallbackList:
    """Call-back list that follows a mirror."""

    def __init__(self, mirror: CallMirror, app_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mirror, self.app_db, self._patch = mirror, app_db, monkeypatch
        update_from_mirror(app_db, mirror.mirror_db)

    def apply(self, *facts: Fact) -> None:
        self.mirror.apply(*facts)
        self.follow()

    def follow(self) -> int:
        return update_from_mirror(self.app_db, self.mirror.mirror_db)

    def act(self, when: float, party: str, action: ItemAction, text: str = "") -> None:
        """Apply an action of a user to the oldest item of a caller; `party` is the end of the number."""
        set_now(self._patch, when)
        item_id = min(id_ for id_, caller in self.items("id", "party") if caller.endswith(party))
        assert callbacks.record_action(self.app_db, item_id, USER, action, text)

    def items(self, *columns: str) -> list[Any]:
        with self.app_db.read() as connection:
            found = callbacks.list_items(connection, "open") + callbacks.list_items(connection, "closed")
        return [tuple(getattr(one, name) for name in columns) for one in found] if columns else found

    def open(self) -> list[str]:
        with self.app_db.read() as connection:
            return [one.party for one in callbacks.list_items(connection, "open")]


@pytest.fixture
def mirror(shared_app: SharedApp) -> CallMirror:
    """A mirror with three platform users, a ring group and a queue."""
    mirror = CallMirror(shared_app)
    mirror.seed()
    return mirror


@pytest.fixture
def callback_list(mirror: CallMirror, app_db: Database, monkeypatch: pytest.MonkeyPatch) -> CallbackList:
    return CallbackList(mirror, app_db, monkeypatch)


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


def test_calls_before_the_list_began_compute_no_item_again(callback_list: CallbackList) -> None:
    """An initial sync stores years of them, for callers who are in the list."""
    callback_list.apply(missed(101, 0))
    days = 86_400
    callback_list.mirror.apply(called_back(90, -9 * days, 60))
    assert callback_list.follow() == 0
    callback_list.mirror.apply(called_back(91, -6 * days, 60))
    assert callback_list.follow() == 1
    assert len(callback_list.open()) == 1


def test_a_call_that_changes_while_the_list_is_updated_is_due_again(
    callback_list: CallbackList, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed update is repeated, and its calls that changed since are updated once more."""
    callback_list.mirror.apply(missed(101, 0), missed(102, 10, src=OTHER))
    monkeypatch.setattr(callback_following, "recompute_items", lambda _tx, _party: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        callback_list.follow()
    monkeypatch.undo()
    callback_list.mirror.apply(answered(103, 50))
    assert callback_list.follow() == 3
    assert callback_list.open() == ["+447700900102"]
    assert callback_list.follow() == 0


def test_each_change_of_the_list_is_announced_once(callback_list: CallbackList) -> None:
    mirror_db = callback_list.mirror.mirror_db

    def count_announcements(*facts: Fact) -> int:
        """Return the announcements of the update after `facts`."""
        callback_list.mirror.apply(*facts)
        mirror_db.write(lambda tx: tx.execute("DELETE FROM _changes WHERE topic = 'callback'").rowcount)
        update_and_announce(callback_list.app_db, mirror_db, 15)
        with mirror_db.read() as connection:
            row = connection.execute("SELECT count(*) FROM _changes WHERE topic = 'callback'").fetchone()
        return int(row[0])

    assert count_announcements(missed(101, 0)) == 1, "a new item"
    assert count_announcements(missed(102, 60)) == 1, "one more attempt"
    assert count_announcements(("cdrs", cdr(9101, 101, 0, 18, 0))) == 0, "the record of a listed call"
    assert count_announcements(called_back(91, 30, 5)) == 0, "a call to the caller that did not reach them"
    assert count_announcements(called_back(92, 90, 60)) == 1, "a closed item"
    assert count_announcements() == 0


def test_missed_call_opens_an_item_and_further_ones_add_attempts(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0))
    callback_list.apply(missed(102, 100), missed(103, 50, src="00447700900101"))
    (item,) = callback_list.items()
    assert (item.party, item.attempts, item.reason, item.state) == ("+447700900101", 3, "missed", "open")
    assert (item.opened_at, item.last_at, item.last_call_id) == (at(0), at(100), 102)
    assert item.our_number == "442079460002"


def test_voicemail_message_sets_the_reason(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0), ("voicemessages", voicemail(7001, 102, 101)))
    assert callback_list.items("reason", "attempts") == [("voicemail", 1)]


def test_item_closes_when_a_later_call_of_the_party_is_answered(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 100), answered(102, 0))
    assert callback_list.open() == ["+447700900101"], "the answered call was before the missed call"
    with callback_list.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM callback_calls").fetchone()[0] == 1, (
            "only calls of parties with an open item are stored"
        )
    callback_list.apply(answered(103, 200))
    assert callback_list.items("state", "closed_by", "closed_call_id", "closed_at") == [
        ("closed", "auto", 103, at(200))
    ]
    callback_list.apply(missed(104, 300))
    assert callback_list.items("state", "attempts") == [("open", 1), ("closed", 1)]
    callback_list.apply(answered(106, 400, src=OTHER), missed(105, 400, src=OTHER))
    assert "+447700900102" not in callback_list.open(), "reached in the same second"


def test_outbound_call_closes_the_item_only_after_enough_talk_time(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0), called_back(201, 100, 14))
    assert callback_list.items("state") == [("open",)]
    callback_list.apply(called_back(202, 200, 15))
    assert callback_list.items("state", "closed_call_id") == [("closed", 202)]


def test_abandoned_internal_and_answered_calls_open_nothing(callback_list: CallbackList) -> None:
    callback_list.apply(
        Phone(101, ANN).event("missed", 2, final=True),
        Phone(102, ANN, src="1002", src_id="1000002", dst="1001").event("missed", 20, final=True),
        answered(103, 0),
    )
    assert callback_list.items() == []


def test_item_is_withdrawn_if_the_cdr_shows_an_answered_call(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0))
    assert callback_list.open()
    callback_list.apply(("cdrs", cdr(9001, 101, 0, 40, 22, user_id=ANN)))
    assert callback_list.items() == []


def test_two_calls_joined_by_a_cdr_count_once(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0), missed(102, 30))
    assert callback_list.items("attempts") == [(2,)]
    callback_list.apply(("cdrs", cdr(9002, 102, 30, 18, 0, parent_live_id=101)))
    assert callback_list.items("attempts", "last_call_id") == [(1, 101)]


def test_withheld_numbers_have_separate_items_closed_only_manually(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0, src=""), missed(102, 60, src="anonymous"), answered(103, 120, src=""))
    assert sorted(callback_list.open()) == ["withheld:101", "withheld:102"]
    callback_list.act(200, "102", "close", "rang back by chance")
    assert len(callback_list.open()) == 1


def test_item_is_closed_manually_with_a_note_and_reopened(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0))
    [(number,)] = callback_list.items("id")
    callback_list.act(60, "101", "assign", USER)
    callback_list.act(90, "101", "close", "left word")
    assert callback_list.items("id", "state", "closed_by", "closed_at", "owner", "note") == [
        (number, "closed", USER, at(90), USER, "left word")
    ]
    callback_list.act(120, "101", "reopen")
    assert callback_list.items("id", "state", "closed_at") == [(number, "open", None)]
    callback_list.act(130, "101", "note", " ")
    assert callback_list.items("note") == [(None,)]
    callback_list.apply(answered(102, 200))
    assert callback_list.items("id", "state", "closed_by") == [(number, "closed", "auto")]


def test_action_counts_though_the_clock_of_the_platform_is_ahead(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 5000))
    callback_list.act(60, "101", "close")
    assert callback_list.items("state", "closed_by") == [("closed", USER)]


def test_reopening_is_ignored_while_a_newer_item_of_the_caller_is_open(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0))
    callback_list.act(60, "101", "close")
    callback_list.apply(missed(102, 100))
    callback_list.act(200, "101", "reopen")
    assert callback_list.items("state", "attempts") == [("open", 1), ("closed", 1)]


def test_action_is_kept_when_its_call_is_joined_with_another(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0, src=""), missed(102, 30, src=""))
    callback_list.act(60, "102", "close")
    callback_list.act(60, "101", "close")
    callback_list.apply(("cdrs", cdr(9002, 102, 30, 18, 0, parent_live_id=99, src="")))
    callback_list.apply(("cdrs", cdr(9001, 101, 0, 18, 0, root_live_id=99, src="")))
    assert callback_list.items("party", "state", "closed_by") == [("withheld:99", "closed", USER)]


def test_second_update_from_the_mirror_changes_nothing(callback_list: CallbackList) -> None:
    callback_list.apply(missed(101, 0), answered(102, 50), missed(103, 100))
    before = callback_list.items()
    assert callback_list.follow() == 0
    with callback_list.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM callback_calls").fetchone()[0] == 3
    callback_list.mirror.mirror_db.write(lambda tx: due.mark(tx, "callbacks", [(1, 1000)]))
    callback_list.follow()
    assert callback_list.items() == before


def test_items_and_actions_survive_a_rebuilt_mirror(callback_list: CallbackList, tmp_path: Path) -> None:
    callback_list.apply(missed(101, 0), missed(102, 10, src=OTHER))
    callback_list.act(60, "102", "close")
    before = callback_list.items()
    new_app = make_app(tmp_path / "new")
    new_mirror = CallMirror(new_app)
    new_mirror.seed()
    new_mirror.apply(answered(900, 5, src="447700900199"))
    callback_list.mirror = new_mirror
    callback_list.follow()
    assert callback_list.items() == before, "these calls are missing in the new mirror"
    with new_mirror.mirror_db.read() as connection:
        assert callbacks.select_visible(connection, UNLIMITED.limited_to(ANN), before) == []
    callback_list.apply(missed(101, 0), answered(103, 100))
    assert [replace(one, id=0) for one in callback_list.items()] == [
        replace(one, id=0, state="closed", closed_by="auto", closed_at=at(100), closed_call_id=103)
        if one.party.endswith("101")
        else replace(one, id=0)
        for one in sorted(before, key=lambda one: one.last_at, reverse=True)
    ]
    new_app.close()


def test_missed_calls_older_than_a_week_at_installation_open_no_item(callback_list: CallbackList) -> None:
    week = 7 * 86_400
    callback_list.apply(missed(101, -week - 60), missed(102, -week + 60, src=OTHER))
    assert callback_list.open() == ["+447700900102"]


def test_open_item_never_expires(callback_list: CallbackList, monkeypatch: pytest.MonkeyPatch) -> None:
    callback_list.apply(missed(101, 0))
    set_now(monkeypatch, 90 * 86_400)
    callback_list.apply(missed(102, 60 * 86_400, src=OTHER))
    assert sorted(callback_list.open()) == ["+447700900101", "+447700900102"]


FACTS = [
    missed(101, 0),
    missed(102, 60),
    answered(103, 120),
    ("cdrs", cdr(9001, 101, 0, 18, 0)),
    missed(104, 200),
    called_back(201, 300, 40),
    missed(105, 400),
]


@pytest.mark.parametrize("seed", range(4))
def test_items_do_not_depend_on_the_order_of_facts(callback_list: CallbackList, seed: int) -> None:
    callback_list.mirror.apply(*FACTS)
    callback_list.follow()
    expected = [replace(one, id=0) for one in callback_list.items()]
    assert [(one.state, one.attempts) for one in expected] == [("open", 1), ("closed", 1), ("closed", 2)]
    callback_list.mirror.clear()
    for table in ("callbacks", "callback_calls", "callback_start"):
        callback_list.app_db.write(lambda tx, table=table: tx.execute(f"DELETE FROM {table}").rowcount)  # type: ignore[misc]
    for fact in random.Random(seed).sample(FACTS, len(FACTS)):
        callback_list.apply(fact)
    assert [replace(one, id=0) for one in callback_list.items()] == expected


def test_items_do_not_depend_on_the_order_of_calls_and_actions() -> None:
    calls = [CallbackCall(n, "+447700900101", at(60 * n), kind, None, "") for n, kind in enumerate(
        ["missed", "reached", "missed", "voicemail", "reached", "missed"]
    )]  # fmt: skip
    actions = [
        CallbackAction(1, at(200), USER, "note", "n", frozenset({2, 3})),
        CallbackAction(2, at(330), USER, "close", None, frozenset({5})),
    ]
    expected = [one.to_item(0) for one in build_episodes(calls, actions)]
    assert [(one.attempts, one.closed_by, one.note) for one in expected] == [
        (1, "auto", None), (2, "auto", "n"), (1, USER, None),
    ]  # fmt: skip
    for order in itertools.permutations(calls):
        assert [one.to_item(0) for one in build_episodes(order, reversed(actions))] == expected
