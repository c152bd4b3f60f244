"""Outcomes of calls: answered, missed, voicemail and abandoned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integration.sqlite.transaction import Transaction
from tests.support.application import running_app
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    GROUP,
    NAMES,
    T0,
    CallMirror,
    cdr,
    hold_events,
    inbound_leg,
    live,
    set_now,
)

# --- answered -------------------------------------------------------------------------------------------


PHONES = ("LOCAL_USER", "USER_LOCAL", "User", "FOLLOW_ME", "NUN")
MACHINES = ("QUEUE", f"RG-{GROUP}", "IVR", "PARKING", "ANNOUNCEMENT", "VOICEMAIL")


@pytest.mark.parametrize("context", [*PHONES, *MACHINES])
def test_of_unknown_users_a_phone_or_forwarding_target_answers_and_a_machine_does_not(
    mirror: CallMirror, context: str
) -> None:
    phone = inbound_leg(user=None, context=context, dst_id="4711", dst_name="Temp Worker", connected=5)
    mirror.apply(phone.event("hangup", 20))
    expected = ("answered", "Temp Worker") if context in PHONES else ("missed",)
    assert mirror.calls("outcome", "user_name")[0][: len(expected)] == expected


def test_a_user_is_found_by_id_extension_name_or_the_user_of_the_cdr(mirror: CallMirror) -> None:
    mirror.apply(
        inbound_leg(101, None, context="NEW_THING", dst_id=str(BOB), connected=5).event("hangup", 40),
        inbound_leg(102, None, context="NEW_THING", dst="1002", connected=5).event("hangup", 40),
        inbound_leg(
            103, None, context="NEW_THING", dst_id="10002", dst_name='"Bob Sample" <1002>', connected=5
        ).event("hangup", 40),
        inbound_leg(104, None, context="NEW_THING", dst_id="10002", connected=5).event("hangup", 40),
        ("cdrs", cdr(9004, 104, 0, 40, 35, context="NEW_THING", user_id=BOB)),
    )
    assert mirror.calls("outcome", "user_id") == [("answered", BOB)] * 4


def test_before_the_initial_sync_a_group_phone_answers_and_the_music_of_the_group_does_not(
    empty_mirror: CallMirror,
) -> None:
    empty_mirror.apply(
        inbound_leg(101, ANN, context=f"RG-{GROUP}", root=101, connected=5).event("connected", 5)
    )
    empty_mirror.apply(
        inbound_leg(
            201, None, context=f"RG-{GROUP}", dst_id=str(GROUP), root=201, connected=1, src="447700900102"
        ).event("connected", 1)
    )
    assert empty_mirror.calls("state") == [("talking",), ("ringing",)]


def test_users_that_are_mirrored_later_change_the_outcome_of_earlier_calls(
    empty_mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    empty_mirror.apply(inbound_leg(101, ANN, context="NEW_THING", connected=5).event("hangup", 40))
    assert empty_mirror.calls("outcome") == [("missed",)]
    empty_mirror.seed()
    assert empty_mirror.calls("outcome", "user_name") == [("answered", NAMES[ANN])]


def test_values_that_no_column_can_store_leave_the_other_values_intact(mirror: CallMirror) -> None:
    phone = inbound_leg(src_name="Zo\ud800", context="RG-99999999999999999999999")
    mirror.apply(phone.event("ringing", 1, duration=2**70, root_call_id=2**70))
    mirror.apply(replace(inbound_leg().event("ringing", 1), leg_id=2**70))
    mirror.apply(phone.event("missed", 20, final=True))
    mirror.poll(live(101, "RINGING", src_name="Zo\ud800", start_time=2**70), when=30)
    mirror.apply(("cdrs", cdr(9001, 101, 0, 2**62, 0, charge="NaN")))
    assert mirror.calls("id", "outcome", "charge", "group_kind") == [(101, "missed", None, "ringgroup")]


# --- missed, voicemail, abandoned -----------------------------------------------------------------------


def test_a_fast_platform_clock_does_not_delay_the_outcome_missed(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, -86_400)
    mirror.apply(inbound_leg().event("missed", 18))
    assert mirror.calls("due_at") == [(T0 - 86_400 + 5,)]
    set_now(monkeypatch, 3600)
    mirror.apply(inbound_leg().event("missed", 18))
    assert mirror.calls("due_at") == [(T0 - 86_400 + 5,)], (
        "the delay counts from the first delivery of the event"
    )


def test_a_call_that_the_caller_ends_early_is_abandoned(mirror: CallMirror) -> None:
    mirror.apply(inbound_leg(101).event("missed", 5, final=True))
    mirror.apply(inbound_leg(102).event("missed", 6, final=True))
    mirror.apply(inbound_leg(103).event("missed", 0, final=True, t_cause="No user responding"))
    assert mirror.calls("outcome") == [("abandoned",), ("missed",), ("missed",)]


@pytest.mark.parametrize(
    ("short_seconds", "missed_at", "outcome"), [("8", 7, "abandoned"), ("0", 0, "missed")]
)
def test_short_seconds_sets_the_limit_of_abandoned_calls_and_0_disables_it(
    tmp_path: Path, short_seconds: str, missed_at: float, outcome: str
) -> None:
    with running_app(tmp_path, calls__short_seconds=short_seconds) as app:
        mirror = CallMirror(app)
        mirror.seed()
        mirror.apply(inbound_leg().event("missed", missed_at, final=True))
        assert mirror.calls("outcome") == [(outcome,)]


# --- recomputation --------------------------------------------------------------------------------------


def test_values_of_other_types_are_converted(mirror: CallMirror) -> None:
    drifted = {"user_id": str(ANN), "duration": "20", "billsec": "15", "charge": "0.5", "root_live_id": "101"}
    record = cdr(9001, 101, 0, 0, 0) | drifted | {"disposition": "CONNECTED"}
    mirror.put("cdrs", record | {"live_id": "101"})
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101]))
    assert mirror.calls("id", "outcome", "talk_seconds", "charge", "user_id") == [
        (101, "answered", 15, 0.5, ANN)
    ]


def test_a_relative_whose_record_moved_to_another_leg_leaves_the_call(mirror: CallMirror) -> None:
    mirror.put("cdrs", cdr(9001, 101, 0, 20, 15))
    mirror.put("cdrs", cdr(9002, 102, 0, 20, 0, root_live_id=101))
    assert [tuple(row) for row in mirror.calls("id", "legs")] == [(101, 2)]

    def move(tx: Transaction) -> None:
        tx.execute("UPDATE cdrs SET live_id = 103, root_live_id = NULL WHERE id = 9002")
        # In steps, as in a large transaction: the first finds the row of leg 102, which has no record now.
        for leg in (101, 102, 103):
            mirror.store.refresh(tx, [leg])

    mirror.mirror_db.write(move)
    assert [tuple(row) for row in mirror.calls("id", "legs")] == [(101, 1), (103, 1)]


def test_a_recomputation_of_unchanged_facts_changes_and_announces_no_row(mirror: CallMirror) -> None:
    mirror.apply(*hold_events(("hold", 10), ("unhold", 20)), ("cdrs", cdr(9001, 102, 0, 20, 15)))
    before, changes = mirror.state(), mirror.changes()
    legs = [101, 102]
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, legs))
    assert (mirror.state(), mirror.changes()) == (before, changes)
