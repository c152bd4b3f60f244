"""Outcomes of calls: answered, missed, voicemail and abandoned."""

from __future__ import annotations

import pytest

from integration.mirror.calls.rules import CallRules
from integration.sqlite.transaction import Transaction
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    GROUP,
    NAMES,
    T0,
    Office,
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
    office: Office, context: str
) -> None:
    phone = inbound_leg(user=None, context=context, dst_id="4711", dst_name="Temp Worker", connected=5)
    office.tell(phone.tell("hangup", 20))
    assert office.calls("outcome", "user_name") == [("answered", "Temp Worker")]


@pytest.mark.parametrize("context", ["QUEUE", f"RG-{GROUP}", "IVR", "PARKING", "ANNOUNCEMENT", "VOICEMAIL"])
def test_a_machine_answers_nothing(office: Office, context: str) -> None:
    office.tell(inbound_leg(user=None, context=context, connected=1).tell("hangup", 40))
    assert office.calls("outcome", "answered_at") == [("missed", None)]


def test_an_unknown_context_counts_only_with_a_known_user(office: Office) -> None:
    office.tell(inbound_leg(101, user=None, context="NEW_THING", connected=5).tell("hangup", 40))
    office.tell(inbound_leg(102, BOB, context="NEW_THING", connected=5).tell("hangup", 40))
    assert office.calls("outcome", "user_id") == [("missed", None), ("answered", BOB)]


def test_people_are_matched_by_id_extension_name_or_the_cdrs_user(office: Office) -> None:
    office.tell(
        inbound_leg(101, None, context="NEW_THING", dst_id=str(BOB), connected=5).tell("hangup", 40),
        inbound_leg(102, None, context="NEW_THING", dst="1002", connected=5).tell("hangup", 40),
        inbound_leg(
            103, None, context="NEW_THING", dst_id="10002", dst_name='"Bob Sample" <1002>', connected=5
        ).tell("hangup", 40),
        inbound_leg(104, None, context="NEW_THING", dst_id="10002", connected=5).tell("hangup", 40),
        ("cdrs", cdr(9004, 104, 0, 40, 35, context="NEW_THING", user_id=BOB)),
    )
    assert office.calls("outcome", "user_id") == [("answered", BOB)] * 4


def test_a_group_phone_answers_before_anybody_is_known_but_the_groups_music_does_not(
    strangers: Office,
) -> None:
    strangers.tell(inbound_leg(101, ANN, context=f"RG-{GROUP}", root=101, connected=5).tell("connected", 5))
    strangers.tell(
        inbound_leg(
            201, None, context=f"RG-{GROUP}", dst_id=str(GROUP), root=201, connected=1, src="447700900102"
        ).tell("connected", 1)
    )
    assert strangers.calls("state") == [("talking",), ("ringing",)]


def test_people_who_become_known_later_change_what_was_answered(
    strangers: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    strangers.tell(inbound_leg(101, ANN, context="NEW_THING", connected=5).tell("hangup", 40))
    assert strangers.calls("outcome") == [("missed",)]
    strangers.seed()
    assert strangers.tick(3600) == 1
    assert strangers.calls("outcome", "user_name") == [("answered", NAMES[ANN])]
    assert strangers.tick(3601) == 0


def test_people_who_became_known_in_a_job_that_failed_change_it_all_the_same(
    strangers: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    strangers.tell(inbound_leg(101, ANN, context="NEW_THING", connected=5).tell("hangup", 40))
    strangers.seed()

    def fails(tx: Transaction) -> None:
        strangers.store.refresh(tx, [999])
        raise RuntimeError("something else went wrong")

    with pytest.raises(RuntimeError):
        strangers.mirror_db.write(fails)
    strangers.tick(3600)
    assert strangers.calls("outcome", "user_name") == [("answered", NAMES[ANN])]


def test_a_conference_answers_if_one_of_ours_is_in_it_whoever_came_first(office: Office) -> None:
    caller = inbound_leg(101, None, context="CONFERENCE", dst_id="30001", connected=5)
    alone = inbound_leg(102, None, context="CONFERENCE", dst_id="30002", connected=5)
    host = Phone(
        103, None, src="1001", src_id=str(ANN), dst="605", dst_id="30001", started=10, context="CONFERENCE",
        connected=11,
    )  # fmt: skip
    office.put("conferences", {"id": 30001, "name": "Board", "confno": 605})
    events = [
        caller.tell("connected", 5),
        alone.tell("hangup", 40),
        host.tell("hangup", 30),
        caller.tell("hangup", 40),
    ]
    office.tell(*events)
    assert office.calls("direction", "outcome") == [
        ("in", "answered"), ("in", "missed"), ("internal", "internal"),
    ]  # fmt: skip
    expected = office.state()
    office.clear()
    office.tell(*reversed(events))
    assert [row for row in office.state() if "due_at" in row] == [row for row in expected if "due_at" in row]


def test_values_that_no_column_holds_lose_nothing_else(office: Office) -> None:
    phone = inbound_leg(src_name="Zo\ud800", context="RG-99999999999999999999999")
    office.tell(phone.tell("ringing", 1, duration=2**70, root_call_id=2**70))
    office.tell(inbound_leg(2**70).tell("ringing", 1))
    office.tell(phone.tell("missed", 20, final=True))
    office.poll(live(101, "RINGING", src_name="Zo\ud800", start_time=2**70), when=30)
    office.tell(("cdrs", cdr(9001, 101, 0, 2**62, 0, charge="NaN")))
    assert office.calls("id", "outcome", "charge", "group_kind") == [(101, "missed", None, "ringgroup")]


def test_a_mailbox_that_picks_up_on_the_users_own_leg_has_not_answered(office: Office) -> None:
    office.tell(
        inbound_leg(101, connected=20).tell("hangup", 40),
        ("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM")),
    )
    assert office.calls("outcome") == [("missed",)], "after ten minutes without a message"


# --- missed, voicemail, abandoned -----------------------------------------------------------------------


def test_final_false_ends_only_its_leg(office: Office) -> None:
    one, two = inbound_leg(101, ANN, context=f"RG-{GROUP}"), inbound_leg(102, BOB, context=f"RG-{GROUP}")
    office.tell(two.tell("ringing", 0.3), one.tell("missed", 0.3, final=False))
    assert office.calls("state", "outcome") == [("ringing", None)]


def test_final_true_ends_the_call_though_a_hangup_was_lost(office: Office) -> None:
    one, two = inbound_leg(101, ANN, root=101), inbound_leg(102, BOB, root=101)
    office.tell(one.tell("ringing", 0.3), two.tell("ringing", 0.3), two.tell("missed", 18, final=True))
    assert office.calls("state", "outcome", "ended_at") == [("ended", "missed", at(18))]


def test_final_true_does_not_end_a_call_with_a_connected_leg(office: Office) -> None:
    one, two = inbound_leg(101, ANN, root=101, connected=9), inbound_leg(102, BOB, root=101)
    office.tell(one.tell("connected", 9), two.tell("missed", 18, final=True))
    assert office.calls("state", "outcome") == [("talking", None)]


def test_a_new_leg_reopens_a_missed_call_and_an_answered_one_withdraws_the_miss(office: Office) -> None:
    one, two = inbound_leg(101, ANN, root=101), inbound_leg(102, BOB, root=101, started=20, connected=25)
    office.tell(one.tell("missed", 18, final=True))
    assert office.calls("outcome") == [("missed",)]
    office.tell(two.tell("ringing", 20.5))
    assert office.calls("state", "outcome") == [("ringing", None)]
    office.tell(two.tell("connected", 25), two.tell("hangup", 40))
    assert office.calls("outcome", "user_id") == [("answered", BOB)]


def test_a_late_cdr_turns_a_miss_into_answered(office: Office) -> None:
    office.tell(inbound_leg().tell("missed", 18, final=True))
    assert office.calls("outcome") == [("missed",)]
    office.tell(("cdrs", cdr(9001, 101, 0, 40, 22, user_id=ANN)))
    assert office.calls("outcome", "talk_seconds") == [("answered", 22)]


def test_where_final_is_absent_it_waits_for_the_groups_next_phone(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 18.5)
    office.tell(inbound_leg(context=f"RG-{GROUP}").tell("missed", 18))
    assert office.calls("state", "outcome", "due_at") == [("ended", None, T0 + 18 + 22)]
    assert office.tick(39) == 0
    office.tick(40)
    assert office.calls("outcome") == [("missed",)]


def test_a_platform_clock_that_runs_ahead_delays_no_missed_call(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, -86_400)
    office.tell(inbound_leg().tell("missed", 18))
    assert office.calls("due_at") == [(T0 - 86_400 + 5,)]
    set_now(monkeypatch, 3600)
    office.tell(inbound_leg().tell("missed", 18))
    assert office.calls("due_at") == [(T0 - 86_400 + 5,)], "told again: we have known since the first time"


def test_voicemail_disposition_without_a_message_is_missed_after_ten_minutes(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 60)
    office.tell(("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM", user_id=ANN)))
    assert office.calls("outcome", "due_at", "user_id") == [("voicemail", T0 + 640, ANN)]
    office.tick(640)
    assert office.calls("outcome", "due_at") == [("missed", None)]
    office.tell(("voicemessages", voicemail(7001, 101)))
    assert office.calls("outcome") == [("voicemail",)]


def test_an_answered_call_stays_answered_though_a_message_names_it(office: Office) -> None:
    office.tell(
        inbound_leg(connected=5).tell("hangup", 20),
        ("cdrs", cdr(9001, 101, 0, 20, 15, user_id=ANN)),
        ("voicemessages", voicemail(7001, 102, 101)),
    )
    assert office.calls("outcome", "voicemails") == [("answered", 1)]


def test_a_caller_who_hangs_up_early_is_abandoned_not_missed(office: Office) -> None:
    office.tell(inbound_leg(101).tell("missed", 5, final=True))
    office.tell(inbound_leg(102).tell("missed", 6, final=True))
    office.tell(inbound_leg(103).tell("missed", 0, final=True, t_cause="No user responding"))
    assert office.calls("outcome") == [("abandoned",), ("missed",), ("missed",)]


def test_the_threshold_of_abandoned_calls_can_be_set_and_switched_off(office: Office) -> None:
    for short, outcome in ((8, "abandoned"), (0, "missed")):
        office.rules = CallRules(short_seconds=short)
        office.__post_init__()
        office.clear()
        office.tell(inbound_leg().tell("missed", 0 if short == 0 else 7, final=True))
        assert office.calls("outcome") == [(outcome,)]


# --- recomputation --------------------------------------------------------------------------------------


def test_drifted_values_are_read_for_what_they_mean(office: Office) -> None:
    drifted = {"user_id": str(ANN), "duration": "20", "billsec": "15", "charge": "0.5", "root_live_id": "101"}
    record = cdr(9001, 101, 0, 0, 0) | drifted | {"disposition": "CONNECTED"}
    office.put("cdrs", record | {"live_id": "101"})
    office.mirror_db.write(lambda tx: office.store.refresh(tx, [101]))
    assert office.calls("id", "outcome", "talk_seconds", "charge", "user_id") == [
        (101, "answered", 15, 0.5, ANN)
    ]


def test_rebuilding_everything_changes_nothing(office: Office) -> None:
    office.tell(*hold_events(("hold", 10), ("unhold", 20)), ("cdrs", cdr(9001, 102, 0, 20, 15)))
    before, changes = office.state(), office.changes()
    legs = [101, 102]
    office.mirror_db.write(lambda tx: office.store.refresh(tx, legs))
    assert (office.state(), office.changes()) == (before, changes)
