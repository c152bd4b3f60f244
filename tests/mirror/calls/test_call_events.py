"""Numbers and events of calls in the change log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.core.number_variants import ERASED
from integration.mirror.calls import call_events
from integration.mirror.calls.outcomes import CallRow
from integration.mirror.records import change_log
from tests.support.payloads.call_facts import ANN, BOB, CAT, GROUP, T0, CallMirror, Phone, cdr, set_now

NEVER_SHOWN = {"provisional", "state_since", "hold_incomplete", "group_id", "context", "cdrs", "sources"}


def list_changes(mirror: CallMirror, after: int = 0) -> list[tuple[str, int, dict[str, Any]]]:
    """Return the changes of calls after a number: topic, id of the call and data."""
    with mirror.mirror_db.read() as connection:
        rows = connection.execute(
            "SELECT topic, key, data FROM _changes WHERE id > ? AND topic IN ('call', 'past_call',"
            " 'call_gone') ORDER BY id",
            (after,),
        )
        return [(topic, int(key), json.loads(data)) for topic, key, data in rows]


def list_events(mirror: CallMirror) -> list[tuple[str, int, list[str], bool]]:
    return [
        (data["event"], key, data["changed"], data.get("late", False))
        for _, key, data in list_changes(mirror)
        if "event" in data
    ]


def test_the_life_of_a_call_is_a_sequence_of_events_that_name_the_changed_columns(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Phone(101, ANN, connected=7)
    set_now(monkeypatch, 20)
    mirror.apply(phone.event("initial", 0.1), phone.event("ringing", 0.3))
    mirror.apply(phone.event("connected", 7), phone.event("hold", 9), phone.event("hangup", 18))
    set_now(monkeypatch, 20 * 3600)
    mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN, charge=0.006)))
    ringing, answered, held, ended, charged = list_events(mirror)
    assert ringing == ("call.ringing", 101, [], False)
    assert answered[0] == "call.answered"
    assert {"state", "answered_at", "wait_seconds"} <= set(answered[2])
    assert held == ("call.updated", 101, ["state"], False)
    assert ended[0] == "call.ended"
    assert {"state", "outcome", "ended_at", "talk_seconds"} <= set(ended[2])
    assert charged[0] == "call.updated"
    assert "charge" in charged[2]
    assert [topic for topic, _, _ in list_changes(mirror)][-1] == "past_call", "pages show it no more"


def test_a_call_ends_once_its_outcome_is_decided_and_is_late_after_an_outage(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 30)
    phone = Phone(101, ANN, context=f"RG-{GROUP}")
    mirror.apply(phone.event("ringing", 1), phone.event("missed", 28))
    assert "call.ended" not in [event[0] for event in list_events(mirror)], "another phone may ring"
    mirror.tick(60)
    assert list_events(mirror)[-1][0::3] == ("call.ended", False)
    set_now(monkeypatch, 3600)
    mirror.apply(("cdrs", cdr(9002, 202, 10, 40, 20, user_id=BOB)))
    assert list_events(mirror)[-1] == ("call.ended", 202, [], True)


def test_what_was_over_before_it_was_known_and_a_changed_directory_are_no_events(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 13 * 3600)
    mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN)))
    mirror.apply(("monitors", {"id": 8001, "live_id": 101, "user_id": ANN}))
    mirror.apply(("cdrs", cdr(9002, 102, 12 * 3600, 18, 11, user_id=BOB)))
    (number,) = mirror.calls("id", "change_no")[1:]
    mirror.mirror_db.write(
        lambda tx: tx.execute("UPDATE users SET first_name = 'Bobby' WHERE id = ?", (BOB,))
    )
    ((_, changed_number),) = mirror.calls("id", "change_no")[1:]
    assert changed_number > number[1]
    assert mirror.calls("user_name")[1] == ("Bobby Sample",)
    assert [event[:2] for event in list_events(mirror)] == [("call.ended", 102)]
    with mirror.mirror_db.read() as connection:
        (since,) = connection.execute("SELECT value FROM _meta WHERE key = 'events since'").fetchone()
        assert change_log.find_first_event_time(connection, T0 + 10**8) > since
    mirror.mirror_db.write(
        lambda tx: tx.execute("UPDATE _meta SET value = '2026-09-02 21:00:00' WHERE key = 'events since'")
    )
    mirror.apply(("cdrs", cdr(9003, 103, 12 * 3600, 18, 11, user_id=ANN)))
    assert [event[1] for event in list_events(mirror)] == [102], "it ended before this mirror existed"
    mirror.mirror_db.write(
        lambda tx: tx.execute("UPDATE _meta SET value = ? WHERE key = 'events since'", (since,))
    )


def test_a_merged_call_keeps_its_id_for_readers_and_begins_no_second_life(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    mirror.apply(Phone(102, ANN, connected=2).event("connected", 2))
    mirror.apply(Phone(102, ANN, connected=2, root=101).event("hold", 4))
    changes = list_changes(mirror)
    gone = next(change for change in changes if change[0] == "call_gone")
    assert gone == ("call_gone", 102, {"into": 101, "left": ANN})
    assert [event[:2] for event in list_events(mirror)] == [("call.answered", 102), ("call.updated", 101)]
    with mirror.mirror_db.read() as connection:
        merged = connection.execute("SELECT id, into_id FROM _merged_calls").fetchall()
        assert [tuple(row) for row in merged] == [(102, 101)]
        left = connection.execute("SELECT user_id, id FROM _left_calls").fetchall()
        assert [tuple(row) for row in left] == [(ANN, 102)]


def test_an_erased_number_is_an_event_of_calls_of_the_past_too(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 13 * 3600)
    mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN)))
    mirror.mirror_db.write(lambda tx: tx.execute("UPDATE cdrs SET src = ?", (ERASED,)))
    [(kind, id_, changed, _)] = list_events(mirror)
    assert (kind, id_, changed[-1]) == ("call.updated", 101, "erased")
    assert "party" in changed


def test_a_transferred_call_leaves_its_first_user(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 60)
    first = Phone(101, BOB, root=101, connected=2)
    second = Phone(102, CAT, root=101, started=20, connected=22)
    mirror.apply(first.event("connected", 2))
    mirror.apply(second.event("connected", 22), first.event("hangup", 23))
    assert list_changes(mirror)[-1][2]["left"] == BOB
    assert mirror.calls("user_id") == [(CAT,)]


def test_events_name_the_columns_of_the_view(mirror: CallMirror) -> None:
    with mirror.mirror_db.read() as connection:
        view = {row[1] for row in connection.execute("PRAGMA table_info(v_calls)")}
    values = dict.fromkeys(CallRow._fields, 1)
    row = CallRow(**values)  # type: ignore[arg-type]
    old = tuple(object() for _ in row)
    assert set(call_events.find_changed_columns(old, row)) == set(CallRow._fields[:-1]) & view
    assert set(CallRow._fields[:-1]) - view == NEVER_SHOWN | {"unconfirmed"}
