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
    Phone,
    at,
    cdr,
    hold_events,
    inbound_leg,
    live,
    set_now,
    voicemail,
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


def test_a_leg_of_an_unknown_context_answers_only_with_a_known_user(mirror: CallMirror) -> None:
    mirror.apply(inbound_leg(101, user=None, context="NEW_THING", connected=5).event("hangup", 40))
    mirror.apply(inbound_leg(102, BOB, context="NEW_THING", connected=5).event("hangup", 40))
    assert mirror.calls("outcome", "user_id") == [("missed", None), ("answered", BOB)]


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


def test_a_conference_answers_if_a_platform_user_joins_it_before_or_after_the_caller(
    mirror: CallMirror,
) -> None:
    caller = inbound_leg(101, None, context="CONFERENCE", dst_id="30001", connected=5)
    alone = inbound_leg(102, None, context="CONFERENCE", dst_id="30002", connected=5)
    host = Phone(
        103, None, src="1001", src_id=str(ANN), dst="605", dst_id="30001", started=10, context="CONFERENCE",
        connected=11,
    )  # fmt: skip
    mirror.put("conferences", {"id": 30001, "name": "Board", "confno": 605})
    events = [
        caller.event("connected", 5),
        alone.event("hangup", 40),
        host.event("hangup", 30),
        caller.event("hangup", 40),
    ]
    mirror.apply(*events)
    assert mirror.calls("direction", "outcome") == [
        ("in", "answered"), ("in", "missed"), ("internal", "internal"),
    ]  # fmt: skip
    expected = mirror.state()
    mirror.clear()
    mirror.apply(*reversed(events))
    assert [row for row in mirror.state() if "due_at" in row] == [row for row in expected if "due_at" in row]


def test_values_that_no_column_can_store_leave_the_other_values_intact(mirror: CallMirror) -> None:
    phone = inbound_leg(src_name="Zo\ud800", context="RG-99999999999999999999999")
    mirror.apply(phone.event("ringing", 1, duration=2**70, root_call_id=2**70))
    mirror.apply(replace(inbound_leg().event("ringing", 1), leg_id=2**70))
    mirror.apply(phone.event("missed", 20, final=True))
    mirror.poll(live(101, "RINGING", src_name="Zo\ud800", start_time=2**70), when=30)
    mirror.apply(("cdrs", cdr(9001, 101, 0, 2**62, 0, charge="NaN")))
    assert mirror.calls("id", "outcome", "charge", "group_kind") == [(101, "missed", None, "ringgroup")]


def test_a_mailbox_on_the_leg_of_the_user_does_not_answer_the_call(mirror: CallMirror) -> None:
    mirror.apply(
        inbound_leg(101, connected=20).event("hangup", 40),
        ("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM")),
    )
    assert mirror.calls("outcome") == [("missed",)], "no message arrived within ten minutes"


# --- missed, voicemail, abandoned -----------------------------------------------------------------------


def test_a_final_missed_event_ends_a_call_without_its_other_hangup_but_no_conversation(
    mirror: CallMirror,
) -> None:
    group = {"context": f"RG-{GROUP}", "src": "447700900102"}
    mirror.apply(inbound_leg(102, BOB, **group).event("ringing", 0.3))
    mirror.apply(inbound_leg(101, ANN, **group).event("missed", 0.3, final=False))
    for root in (201, 301):
        mirror.apply(inbound_leg(root, ANN, root=root, connected=9 if root == 301 else None).event(
            "connected" if root == 301 else "ringing", 9
        ))  # fmt: skip
        mirror.apply(inbound_leg(root + 1, BOB, root=root).event("missed", 18, final=True))
    assert mirror.calls("state", "outcome", "ended_at") == [
        ("ringing", None, None), ("ended", "missed", at(18)), ("talking", None, None),
    ]  # fmt: skip


def test_a_later_answer_and_a_late_cdr_with_talk_time_change_the_outcome_missed(
    mirror: CallMirror,
) -> None:
    one, two = inbound_leg(101, ANN, root=101), inbound_leg(102, BOB, root=101, started=20, connected=25)
    mirror.apply(one.event("missed", 18, final=True))
    assert mirror.calls("outcome") == [("missed",)]
    mirror.apply(two.event("ringing", 20.5))
    assert mirror.calls("state", "outcome") == [("ringing", None)]
    mirror.apply(two.event("connected", 25), two.event("hangup", 40))
    assert mirror.calls("outcome", "user_id") == [("answered", BOB)]
    mirror.apply(inbound_leg(201, src="447700900102").event("missed", 18, final=True))
    assert mirror.calls("outcome")[1] == ("missed",)
    mirror.apply(("cdrs", cdr(9001, 201, 0, 40, 22, user_id=ANN)))
    assert mirror.calls("outcome", "talk_seconds")[1] == ("answered", 22)


def test_without_final_the_outcome_waits_for_the_next_phone_of_the_group(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 18.5)
    mirror.apply(inbound_leg(context=f"RG-{GROUP}").event("missed", 18))
    assert mirror.calls("state", "outcome", "due_at") == [("ended", None, T0 + 18 + 22)]
    assert mirror.tick(39) == 0
    mirror.tick(40)
    assert mirror.calls("outcome") == [("missed",)]


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


def test_a_voicemail_disposition_without_a_message_becomes_missed_after_ten_minutes(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 60)
    mirror.apply(("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM", user_id=ANN)))
    assert mirror.calls("outcome", "due_at", "user_id") == [("voicemail", T0 + 640, ANN)]
    mirror.tick(640)
    assert mirror.calls("outcome", "due_at") == [("missed", None)]
    mirror.apply(("voicemessages", voicemail(7001, 101)))
    assert mirror.calls("outcome") == [("voicemail",)]


def test_an_answered_call_with_a_voicemail_message_stays_answered(mirror: CallMirror) -> None:
    mirror.apply(
        inbound_leg(connected=5).event("hangup", 20),
        ("cdrs", cdr(9001, 101, 0, 20, 15, user_id=ANN)),
        ("voicemessages", voicemail(7001, 102, 101)),
    )
    assert mirror.calls("outcome", "voicemails") == [("answered", 1)]


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
