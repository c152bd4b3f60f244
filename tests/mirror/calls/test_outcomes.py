"""Outcomes of calls: answered, missed, voicemail and abandoned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integration.sqlite.transaction import Transaction
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


@pytest.mark.parametrize("context", ["LOCAL_USER", "USER_LOCAL", "User", "FOLLOW_ME", "NUN"])
def test_a_phone_or_a_forwarding_target_answers_even_if_its_user_is_unknown(
    mirror: CallMirror, context: str
) -> None:
    phone = inbound_leg(user=None, context=context, dst_id="4711", dst_name="Temp Worker", connected=5)
    mirror.tell(phone.tell("hangup", 20))
    assert mirror.calls("outcome", "user_name") == [("answered", "Temp Worker")]


@pytest.mark.parametrize("context", ["QUEUE", f"RG-{GROUP}", "IVR", "PARKING", "ANNOUNCEMENT", "VOICEMAIL"])
def test_a_machine_answers_nothing(mirror: CallMirror, context: str) -> None:
    mirror.tell(inbound_leg(user=None, context=context, connected=1).tell("hangup", 40))
    assert mirror.calls("outcome", "answered_at") == [("missed", None)]


def test_an_unknown_context_counts_only_with_a_known_user(mirror: CallMirror) -> None:
    mirror.tell(inbound_leg(101, user=None, context="NEW_THING", connected=5).tell("hangup", 40))
    mirror.tell(inbound_leg(102, BOB, context="NEW_THING", connected=5).tell("hangup", 40))
    assert mirror.calls("outcome", "user_id") == [("missed", None), ("answered", BOB)]


def test_people_are_matched_by_id_extension_name_or_the_cdrs_user(mirror: CallMirror) -> None:
    mirror.tell(
        inbound_leg(101, None, context="NEW_THING", dst_id=str(BOB), connected=5).tell("hangup", 40),
        inbound_leg(102, None, context="NEW_THING", dst="1002", connected=5).tell("hangup", 40),
        inbound_leg(
            103, None, context="NEW_THING", dst_id="10002", dst_name='"Bob Sample" <1002>', connected=5
        ).tell("hangup", 40),
        inbound_leg(104, None, context="NEW_THING", dst_id="10002", connected=5).tell("hangup", 40),
        ("cdrs", cdr(9004, 104, 0, 40, 35, context="NEW_THING", user_id=BOB)),
    )
    assert mirror.calls("outcome", "user_id") == [("answered", BOB)] * 4


def test_a_group_phone_answers_before_anybody_is_known_but_the_groups_music_does_not(
    empty_mirror: CallMirror,
) -> None:
    empty_mirror.tell(
        inbound_leg(101, ANN, context=f"RG-{GROUP}", root=101, connected=5).tell("connected", 5)
    )
    empty_mirror.tell(
        inbound_leg(
            201, None, context=f"RG-{GROUP}", dst_id=str(GROUP), root=201, connected=1, src="447700900102"
        ).tell("connected", 1)
    )
    assert empty_mirror.calls("state") == [("talking",), ("ringing",)]


def test_people_who_become_known_later_change_what_was_answered(
    empty_mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    empty_mirror.tell(inbound_leg(101, ANN, context="NEW_THING", connected=5).tell("hangup", 40))
    assert empty_mirror.calls("outcome") == [("missed",)]
    empty_mirror.seed()
    assert empty_mirror.tick(3600) == 1
    assert empty_mirror.calls("outcome", "user_name") == [("answered", NAMES[ANN])]
    assert empty_mirror.tick(3601) == 0


def test_people_who_became_known_in_a_job_that_failed_change_it_all_the_same(
    empty_mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    empty_mirror.tell(inbound_leg(101, ANN, context="NEW_THING", connected=5).tell("hangup", 40))
    empty_mirror.seed()

    def fails(tx: Transaction) -> None:
        empty_mirror.store.refresh(tx, [999])
        raise RuntimeError("something else went wrong")

    with pytest.raises(RuntimeError):
        empty_mirror.mirror_db.write(fails)
    empty_mirror.tick(3600)
    assert empty_mirror.calls("outcome", "user_name") == [("answered", NAMES[ANN])]


def test_a_conference_answers_if_one_of_ours_is_in_it_whoever_came_first(mirror: CallMirror) -> None:
    caller = inbound_leg(101, None, context="CONFERENCE", dst_id="30001", connected=5)
    alone = inbound_leg(102, None, context="CONFERENCE", dst_id="30002", connected=5)
    host = Phone(
        103, None, src="1001", src_id=str(ANN), dst="605", dst_id="30001", started=10, context="CONFERENCE",
        connected=11,
    )  # fmt: skip
    mirror.put("conferences", {"id": 30001, "name": "Board", "confno": 605})
    events = [
        caller.tell("connected", 5),
        alone.tell("hangup", 40),
        host.tell("hangup", 30),
        caller.tell("hangup", 40),
    ]
    mirror.tell(*events)
    assert mirror.calls("direction", "outcome") == [
        ("in", "answered"), ("in", "missed"), ("internal", "internal"),
    ]  # fmt: skip
    expected = mirror.state()
    mirror.clear()
    mirror.tell(*reversed(events))
    assert [row for row in mirror.state() if "due_at" in row] == [row for row in expected if "due_at" in row]


def test_values_that_no_column_holds_lose_nothing_else(mirror: CallMirror) -> None:
    phone = inbound_leg(src_name="Zo\ud800", context="RG-99999999999999999999999")
    mirror.tell(phone.tell("ringing", 1, duration=2**70, root_call_id=2**70))
    mirror.tell(replace(inbound_leg().tell("ringing", 1), leg_id=2**70))
    mirror.tell(phone.tell("missed", 20, final=True))
    mirror.poll(live(101, "RINGING", src_name="Zo\ud800", start_time=2**70), when=30)
    mirror.tell(("cdrs", cdr(9001, 101, 0, 2**62, 0, charge="NaN")))
    assert mirror.calls("id", "outcome", "charge", "group_kind") == [(101, "missed", None, "ringgroup")]


def test_a_mailbox_that_picks_up_on_the_users_own_leg_has_not_answered(mirror: CallMirror) -> None:
    mirror.tell(
        inbound_leg(101, connected=20).tell("hangup", 40),
        ("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM")),
    )
    assert mirror.calls("outcome") == [("missed",)], "after ten minutes without a message"


# --- missed, voicemail, abandoned -----------------------------------------------------------------------


def test_final_false_ends_only_its_leg(mirror: CallMirror) -> None:
    one, two = inbound_leg(101, ANN, context=f"RG-{GROUP}"), inbound_leg(102, BOB, context=f"RG-{GROUP}")
    mirror.tell(two.tell("ringing", 0.3), one.tell("missed", 0.3, final=False))
    assert mirror.calls("state", "outcome") == [("ringing", None)]


def test_final_true_ends_the_call_though_a_hangup_was_lost(mirror: CallMirror) -> None:
    one, two = inbound_leg(101, ANN, root=101), inbound_leg(102, BOB, root=101)
    mirror.tell(one.tell("ringing", 0.3), two.tell("ringing", 0.3), two.tell("missed", 18, final=True))
    assert mirror.calls("state", "outcome", "ended_at") == [("ended", "missed", at(18))]


def test_final_true_does_not_end_a_call_with_a_connected_leg(mirror: CallMirror) -> None:
    one, two = inbound_leg(101, ANN, root=101, connected=9), inbound_leg(102, BOB, root=101)
    mirror.tell(one.tell("connected", 9), two.tell("missed", 18, final=True))
    assert mirror.calls("state", "outcome") == [("talking", None)]


def test_a_new_leg_reopens_a_missed_call_and_an_answered_one_withdraws_the_miss(
    mirror: CallMirror,
) -> None:
    one, two = inbound_leg(101, ANN, root=101), inbound_leg(102, BOB, root=101, started=20, connected=25)
    mirror.tell(one.tell("missed", 18, final=True))
    assert mirror.calls("outcome") == [("missed",)]
    mirror.tell(two.tell("ringing", 20.5))
    assert mirror.calls("state", "outcome") == [("ringing", None)]
    mirror.tell(two.tell("connected", 25), two.tell("hangup", 40))
    assert mirror.calls("outcome", "user_id") == [("answered", BOB)]


def test_a_late_cdr_turns_a_miss_into_answered(mirror: CallMirror) -> None:
    mirror.tell(inbound_leg().tell("missed", 18, final=True))
    assert mirror.calls("outcome") == [("missed",)]
    mirror.tell(("cdrs", cdr(9001, 101, 0, 40, 22, user_id=ANN)))
    assert mirror.calls("outcome", "talk_seconds") == [("answered", 22)]


def test_where_final_is_absent_it_waits_for_the_groups_next_phone(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 18.5)
    mirror.tell(inbound_leg(context=f"RG-{GROUP}").tell("missed", 18))
    assert mirror.calls("state", "outcome", "due_at") == [("ended", None, T0 + 18 + 22)]
    assert mirror.tick(39) == 0
    mirror.tick(40)
    assert mirror.calls("outcome") == [("missed",)]


def test_a_platform_clock_that_runs_ahead_delays_no_missed_call(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, -86_400)
    mirror.tell(inbound_leg().tell("missed", 18))
    assert mirror.calls("due_at") == [(T0 - 86_400 + 5,)]
    set_now(monkeypatch, 3600)
    mirror.tell(inbound_leg().tell("missed", 18))
    assert mirror.calls("due_at") == [(T0 - 86_400 + 5,)], "told again: we have known since the first time"


def test_voicemail_disposition_without_a_message_is_missed_after_ten_minutes(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 60)
    mirror.tell(("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM", user_id=ANN)))
    assert mirror.calls("outcome", "due_at", "user_id") == [("voicemail", T0 + 640, ANN)]
    mirror.tick(640)
    assert mirror.calls("outcome", "due_at") == [("missed", None)]
    mirror.tell(("voicemessages", voicemail(7001, 101)))
    assert mirror.calls("outcome") == [("voicemail",)]


def test_an_answered_call_stays_answered_though_a_message_names_it(mirror: CallMirror) -> None:
    mirror.tell(
        inbound_leg(connected=5).tell("hangup", 20),
        ("cdrs", cdr(9001, 101, 0, 20, 15, user_id=ANN)),
        ("voicemessages", voicemail(7001, 102, 101)),
    )
    assert mirror.calls("outcome", "voicemails") == [("answered", 1)]


def test_a_caller_who_hangs_up_early_is_abandoned_not_missed(mirror: CallMirror) -> None:
    mirror.tell(inbound_leg(101).tell("missed", 5, final=True))
    mirror.tell(inbound_leg(102).tell("missed", 6, final=True))
    mirror.tell(inbound_leg(103).tell("missed", 0, final=True, t_cause="No user responding"))
    assert mirror.calls("outcome") == [("abandoned",), ("missed",), ("missed",)]


def test_the_threshold_of_abandoned_calls_can_be_set_and_switched_off(mirror: CallMirror) -> None:
    for short, outcome in ((8, "abandoned"), (0, "missed")):
        mirror.app.restart(calls__short_seconds=str(short))
        mirror.clear()
        mirror.tell(inbound_leg().tell("missed", 0 if short == 0 else 7, final=True))
        assert mirror.calls("outcome") == [(outcome,)]


# --- recomputation --------------------------------------------------------------------------------------


def test_drifted_values_are_read_for_what_they_mean(mirror: CallMirror) -> None:
    drifted = {"user_id": str(ANN), "duration": "20", "billsec": "15", "charge": "0.5", "root_live_id": "101"}
    record = cdr(9001, 101, 0, 0, 0) | drifted | {"disposition": "CONNECTED"}
    mirror.put("cdrs", record | {"live_id": "101"})
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101]))
    assert mirror.calls("id", "outcome", "talk_seconds", "charge", "user_id") == [
        (101, "answered", 15, 0.5, ANN)
    ]


def test_rebuilding_everything_changes_nothing(mirror: CallMirror) -> None:
    mirror.tell(*hold_events(("hold", 10), ("unhold", 20)), ("cdrs", cdr(9001, 102, 0, 20, 15)))
    before, changes = mirror.state(), mirror.changes()
    legs = [101, 102]
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, legs))
    assert (mirror.state(), mirror.changes()) == (before, changes)
