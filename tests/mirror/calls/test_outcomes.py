"""How a call ended, what it reads while it goes on, and the times of it."""

from __future__ import annotations

import pytest

from integration.mirror.calls.rules import Rules
from integration.sqlite.transaction import Transaction
from tests.calls.telling import (
    ANN,
    BOB,
    CALLER,
    CAT,
    GROUP,
    NAMES,
    T0,
    Office,
    Phone,
    at,
    cdr,
    live,
    set_now,
    voicemail,
)  # fmt: skip


def rung(leg: int = 101, user: int | None = ANN, **more: object) -> Phone:
    return Phone(leg, user, **more)  # type: ignore[arg-type]


# --- answered -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", ["LOCAL_USER", "USER_LOCAL", "User", "FOLLOW_ME", "NUN"])
def test_a_phone_or_a_forwarding_target_answers_even_if_its_user_is_unknown(
    office: Office, context: str
) -> None:
    phone = rung(user=None, context=context, dst_id="4711", dst_name="Temp Worker", connected=5)
    office.tell(phone.tell("hangup", 20))
    assert office.calls("outcome", "user_name") == [("answered", "Temp Worker")]


@pytest.mark.parametrize("context", ["QUEUE", f"RG-{GROUP}", "IVR", "PARKING", "ANNOUNCEMENT", "VOICEMAIL"])
def test_a_machine_answers_nothing(office: Office, context: str) -> None:
    office.tell(rung(user=None, context=context, connected=1).tell("hangup", 40))
    assert office.calls("outcome", "answered_at") == [("missed", None)]


def test_an_unknown_context_counts_only_with_a_known_user(office: Office) -> None:
    office.tell(rung(101, user=None, context="NEW_THING", connected=5).tell("hangup", 40))
    office.tell(rung(102, BOB, context="NEW_THING", connected=5).tell("hangup", 40))
    assert office.calls("outcome", "user_id") == [("missed", None), ("answered", BOB)]


def test_people_are_matched_by_id_extension_name_or_the_cdrs_user(office: Office) -> None:
    office.tell(
        rung(101, None, context="NEW_THING", dst_id=str(BOB), connected=5).tell("hangup", 40),
        rung(102, None, context="NEW_THING", dst="1002", connected=5).tell("hangup", 40),
        rung(
            103, None, context="NEW_THING", dst_id="10002", dst_name='"Bob Sample" <1002>', connected=5
        ).tell("hangup", 40),
        rung(104, None, context="NEW_THING", dst_id="10002", connected=5).tell("hangup", 40),
        ("cdrs", cdr(9004, 104, 0, 40, 35, context="NEW_THING", user_id=BOB)),
    )
    assert office.calls("outcome", "user_id") == [("answered", BOB)] * 4


def test_a_group_phone_answers_before_anybody_is_known_but_the_groups_music_does_not(
    strangers: Office,
) -> None:
    strangers.tell(rung(101, ANN, context=f"RG-{GROUP}", root=101, connected=5).tell("connected", 5))
    strangers.tell(
        rung(
            201, None, context=f"RG-{GROUP}", dst_id=str(GROUP), root=201, connected=1, src="447700900102"
        ).tell("connected", 1)
    )
    assert strangers.calls("state") == [("talking",), ("ringing",)]


def test_people_who_become_known_later_change_what_was_answered(
    strangers: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    strangers.tell(rung(101, ANN, context="NEW_THING", connected=5).tell("hangup", 40))
    assert strangers.calls("outcome") == [("missed",)]
    strangers.seed()
    assert strangers.tick(3600) == 1
    assert strangers.calls("outcome", "user_name") == [("answered", NAMES[ANN])]
    assert strangers.tick(3601) == 0


def test_people_who_became_known_in_a_job_that_failed_change_it_all_the_same(
    strangers: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    strangers.tell(rung(101, ANN, context="NEW_THING", connected=5).tell("hangup", 40))
    strangers.seed()

    def fails(tx: Transaction) -> None:
        strangers.store.refresh(tx, [999])
        raise RuntimeError("something else went wrong")

    with pytest.raises(RuntimeError):
        strangers.mirror.write(fails)
    strangers.tick(3600)
    assert strangers.calls("outcome", "user_name") == [("answered", NAMES[ANN])]


def test_a_conference_answers_if_one_of_ours_is_in_it_whoever_came_first(office: Office) -> None:
    caller = rung(101, None, context="CONFERENCE", dst_id="30001", connected=5)
    alone = rung(102, None, context="CONFERENCE", dst_id="30002", connected=5)
    host = Phone(
        103, None, src="1001", src_id=str(ANN), dst="605", dst_id="30001", started=10, context="CONFERENCE",
        connected=11,
    )  # fmt: skip
    office.put("conferences", {"id": 30001, "name": "Board", "confno": 605})
    told = [
        caller.tell("connected", 5),
        alone.tell("hangup", 40),
        host.tell("hangup", 30),
        caller.tell("hangup", 40),
    ]
    office.tell(*told)
    assert office.calls("direction", "outcome") == [
        ("in", "answered"), ("in", "missed"), ("internal", "internal"),
    ]  # fmt: skip
    expected = office.state()
    office.clear()
    office.tell(*reversed(told))
    assert [row for row in office.state() if "due_at" in row] == [row for row in expected if "due_at" in row]


def test_values_that_no_column_holds_lose_nothing_else(office: Office) -> None:
    phone = rung(src_name="Zo\ud800", context="RG-99999999999999999999999")
    office.tell(phone.tell("ringing", 1, duration=2**70, root_call_id=2**70))
    office.tell(rung(2**70).tell("ringing", 1))
    office.tell(phone.tell("missed", 20, final=True))
    office.poll(live(101, "RINGING", src_name="Zo\ud800", start_time=2**70), when=30)
    office.tell(("cdrs", cdr(9001, 101, 0, 2**62, 0, charge="NaN")))
    assert office.calls("id", "outcome", "charge", "group_kind") == [(101, "missed", None, "ringgroup")]


def test_a_mailbox_that_picks_up_on_the_users_own_leg_has_not_answered(office: Office) -> None:
    office.tell(
        rung(101, connected=20).tell("hangup", 40), ("cdrs", cdr(9001, 101, 0, 40, 20, disposition="VM"))
    )
    assert office.calls("outcome") == [("missed",)], "after ten minutes without a message"


# --- missed, voicemail, abandoned -----------------------------------------------------------------------


def test_final_false_ends_only_its_leg(office: Office) -> None:
    one, two = rung(101, ANN, context=f"RG-{GROUP}"), rung(102, BOB, context=f"RG-{GROUP}")
    office.tell(two.tell("ringing", 0.3), one.tell("missed", 0.3, final=False))
    assert office.calls("state", "outcome") == [("ringing", None)]


def test_final_true_ends_the_call_though_a_hangup_was_lost(office: Office) -> None:
    one, two = rung(101, ANN, root=101), rung(102, BOB, root=101)
    office.tell(one.tell("ringing", 0.3), two.tell("ringing", 0.3), two.tell("missed", 18, final=True))
    assert office.calls("state", "outcome", "ended_at") == [("ended", "missed", at(18))]


def test_final_true_does_not_end_a_call_with_a_connected_leg(office: Office) -> None:
    one, two = rung(101, ANN, root=101, connected=9), rung(102, BOB, root=101)
    office.tell(one.tell("connected", 9), two.tell("missed", 18, final=True))
    assert office.calls("state", "outcome") == [("talking", None)]


def test_a_new_leg_reopens_a_missed_call_and_an_answered_one_withdraws_the_miss(office: Office) -> None:
    one, two = rung(101, ANN, root=101), rung(102, BOB, root=101, started=20, connected=25)
    office.tell(one.tell("missed", 18, final=True))
    assert office.calls("outcome") == [("missed",)]
    office.tell(two.tell("ringing", 20.5))
    assert office.calls("state", "outcome") == [("ringing", None)]
    office.tell(two.tell("connected", 25), two.tell("hangup", 40))
    assert office.calls("outcome", "user_id") == [("answered", BOB)]


def test_a_late_cdr_turns_a_miss_into_answered(office: Office) -> None:
    office.tell(rung().tell("missed", 18, final=True))
    assert office.calls("outcome") == [("missed",)]
    office.tell(("cdrs", cdr(9001, 101, 0, 40, 22, user_id=ANN)))
    assert office.calls("outcome", "talk_seconds") == [("answered", 22)]


def test_where_final_is_absent_it_waits_for_the_groups_next_phone(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 18.5)
    office.tell(rung(context=f"RG-{GROUP}").tell("missed", 18))
    assert office.calls("state", "outcome", "due_at") == [("ended", None, T0 + 18 + 22)]
    assert office.tick(39) == 0
    office.tick(40)
    assert office.calls("outcome") == [("missed",)]


def test_a_platform_clock_that_runs_ahead_delays_no_missed_call(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, -86_400)
    office.tell(rung().tell("missed", 18))
    assert office.calls("due_at") == [(T0 - 86_400 + 5,)]
    set_now(monkeypatch, 3600)
    office.tell(rung().tell("missed", 18))
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
        rung(connected=5).tell("hangup", 20),
        ("cdrs", cdr(9001, 101, 0, 20, 15, user_id=ANN)),
        ("voicemessages", voicemail(7001, 102, 101)),
    )
    assert office.calls("outcome", "voicemails") == [("answered", 1)]


def test_a_caller_who_hangs_up_early_is_abandoned_not_missed(office: Office) -> None:
    office.tell(rung(101).tell("missed", 5, final=True))
    office.tell(rung(102).tell("missed", 6, final=True))
    office.tell(rung(103).tell("missed", 0, final=True, t_cause="No user responding"))
    assert office.calls("outcome") == [("abandoned",), ("missed",), ("missed",)]


def test_the_threshold_of_abandoned_calls_can_be_set_and_switched_off(office: Office) -> None:
    for short, outcome in ((8, "abandoned"), (0, "missed")):
        office.rules = Rules(short=short)
        office.__post_init__()
        office.clear()
        office.tell(rung().tell("missed", 0 if short == 0 else 7, final=True))
        assert office.calls("outcome") == [(outcome,)]


# --- outbound, internal ---------------------------------------------------------------------------------


def dialled(leg: int = 201, **more: object) -> Phone:
    values = {
        "src": "1001", "src_id": str(ANN), "src_name": NAMES[ANN], "dst": CALLER, "context": "PSTN_CALL",
        "destination": "out", **more,
    }  # fmt: skip
    return Phone(leg, None, **values)  # type: ignore[arg-type]


def test_an_outbound_call_that_never_connects_is_not_answered(office: Office) -> None:
    office.tell(dialled().tell("ringing", 1), dialled().tell("hangup", 20, t_cause="User busy"))
    assert office.calls("direction", "outcome", "t_cause", "user_id", "party_e164", "unconfirmed") == [
        ("out", "not_answered", "User busy", ANN, "+447700900101", 0)
    ]


def test_a_call_between_extensions_is_internal_and_has_no_e164(office: Office) -> None:
    inner = Phone(
        101, BOB, src="1001", src_id=str(ANN), src_name=NAMES[ANN], dst="1002", connected=4, destination="in"
    )
    office.tell(inner.tell("ringing", 1))
    assert office.calls("direction", "state") == [("internal", "ringing")]
    office.tell(inner.tell("connected", 4), inner.tell("hangup", 30))
    assert office.calls("outcome", "party", "party_e164", "party_name", "user_id", "talk_seconds") == [
        ("internal", "1001", None, NAMES[ANN], BOB, 26)
    ]


def test_an_extension_that_rings_a_group_is_one_internal_call(office: Office) -> None:
    for leg, user in ((101, BOB), (102, CAT)):
        inner = Phone(leg, user, src="1001", src_id=str(ANN), dst="601", context=f"RG-{GROUP}")
        office.tell(inner.tell("ringing", 1), inner.tell("missed", 20))
    assert office.calls("direction", "outcome", "legs") == [("internal", "internal", 2)]


def test_a_contact_whose_id_is_a_users_is_still_outside(office: Office) -> None:
    office.tell(("cdrs", cdr(9001, 101, 0, 20, 15, src_id=str(BOB), user_id=ANN)))
    assert office.calls("direction", "outcome") == [("in", "answered")]


def test_the_agents_leg_of_a_click_to_call_is_outbound_though_told_as_incoming(office: Office) -> None:
    agent = Phone(201, ANN, src="1001", src_id=str(ANN), dst=CALLER, connected=4)
    office.tell(agent.tell("connected", 4))
    assert office.calls("direction", "state") == [("out", "dialling")]


def test_a_withheld_number_is_empty_and_two_withheld_callers_keep_their_own_calls(office: Office) -> None:
    office.tell(rung(101, src="").tell("ringing", 1), rung(102, src="anonymous").tell("ringing", 1))
    assert office.calls("party", "party_e164", "party_name") == [("", None, ""), ("", None, "")]


# --- going on -------------------------------------------------------------------------------------------


def test_it_is_on_hold_only_if_every_connected_leg_is(office: Office) -> None:
    ann, bob = rung(101, ANN, root=101, connected=5), rung(102, BOB, root=101, started=20, connected=25)
    office.tell(ann.tell("connected", 5), ann.tell("hold", 15))
    assert office.calls("state", "state_since") == [("on_hold", at(15))]
    office.tell(bob.tell("connected", 25))
    assert office.calls("state", "state_since", "user_id") == [("talking", at(25), ANN)]
    office.tell(ann.tell("hangup", 26))
    assert office.calls("state", "user_id") == [("talking", BOB)]


def test_it_is_unconfirmed_when_nobody_told_of_it_for_too_long(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 1)
    office.tell(rung().tell("ringing", 1))
    assert office.calls("unconfirmed", "due_at") == [(0, T0 + 61)]
    office.tick(61)
    assert office.calls("state", "unconfirmed", "due_at") == [("ringing", 1, None)]
    office.poll(live(101, "RINGING"), when=65)
    assert office.calls("unconfirmed") == [(0,)]


def test_a_poll_that_misses_one_leg_leaves_a_call_with_another_confirmed(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    office.tell(rung(101, ANN, root=101).tell("ringing", 1), rung(102, BOB, root=101).tell("ringing", 1))
    office.poll(live(102, "RINGING"), when=10)
    assert office.calls("state", "unconfirmed", "legs") == [("ringing", 0, 2)]
    office.gone(101, when=11)
    assert office.calls("state", "unconfirmed") == [("ringing", 0)]


def test_a_clock_that_was_ahead_and_is_set_back_leaves_no_ghost(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400
    set_now(monkeypatch, 10)
    office.tell(rung().tell("ringing", 1))
    office.poll(live(101, "RINGING"), when=day)
    set_now(monkeypatch, 30)
    office.poll(live(101, "RINGING"), when=30)
    office.poll(when=45)
    assert office.calls("state", "unconfirmed") == [("ringing", 1)]
    office.gone(101, when=46)
    assert office.calls("state") == [("ended",)]


def test_a_poll_that_comes_late_does_not_undo_a_newer_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    office.poll(live(101, "CONNECTED", connected_at=int(T0) + 4), when=10)
    office.poll(live(101, "RINGING"), when=8)
    assert office.calls("state", "answered_at") == [("talking", at(4))]


def test_a_call_only_polls_tell_of_is_known_too(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    set_now(monkeypatch, 10)
    office.poll(live(101, "CONNECTED", connected_at=T0 + 4, dst_id=str(ANN), dst_name=NAMES[ANN]), when=10)
    assert office.calls("state", "answered_at", "user_id", "sources") == [("talking", at(4), ANN, "poll")]


def test_nothing_is_announced_that_did_not_change(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    set_now(monkeypatch, 10)
    ringing = rung().tell("ringing", 1)
    office.tell(ringing, ringing)
    before = office.calls("change_no")
    office.poll(live(101, "RINGING"), when=10)
    office.poll(live(101, "RINGING"), when=25)
    changes = office.changes()
    assert office.calls("change_no") != before, "the poll is a new source"
    office.poll(live(101, "RINGING"), when=40)
    assert office.changes() == changes
    assert len(changes) == 2
    assert office.calls("due_at") == [(T0 + 40 + 60,)]


# --- times and sums -------------------------------------------------------------------------------------


def test_several_cdrs_of_one_leg_add_up(office: Office) -> None:
    office.tell(
        ("cdrs", cdr(9002, 101, 30, 30, 25, user_id=ANN, charge=0.02)),
        ("cdrs", cdr(9001, 101, 0, 20, 15, user_id=ANN, charge=0.01)),
    )
    call = office.call()
    assert (call["cdrs"], call["charge"], call["talk_seconds"]) == (2, 0.03, 40)
    assert (call["started_at"], call["ended_at"], call["answered_at"]) == (at(0), at(60), at(5))


def held(*told: tuple[str, float]) -> list:
    phone = rung(connected=5)
    return [
        phone.tell("connected", 5),
        *(phone.tell(what, when) for what, when in told),
        phone.tell("hangup", 60),
    ]


@pytest.mark.parametrize(
    ("told", "seconds", "incomplete"),
    [
        ([("hold", 10), ("unhold", 20), ("hold", 30), ("unhold", 35)], 15, 0),
        ([("hold", 10), ("hold", 30), ("unhold", 35)], 5, 1),
        ([("unhold", 20), ("hold", 30), ("unhold", 35)], 5, 1),
        ([("hold", 50)], 10, 1),
        ([("hold", 10), ("hold", 10.1), ("unhold", 20), ("unhold", 20.1)], 10, 0),
    ],
)  # fmt: skip
def test_hold_is_counted_from_its_pairs_and_marked_where_one_is_missing(
    office: Office, told: list[tuple[str, float]], seconds: int, incomplete: int
) -> None:
    office.tell(*held(*told))
    assert office.calls("hold_seconds", "hold_incomplete", "talk_seconds") == [
        (seconds, incomplete, 55 - seconds)
    ]


def test_time_in_a_menu_is_shown_apart(office: Office) -> None:
    menu = rung(101, None, context="IVR", dst_id="50001", dst_name="Main menu", connected=1, root=101)
    desk = rung(102, ANN, started=21, root=101, connected=30)
    office.tell(menu.tell("connected", 1))
    assert office.calls("state", "group_kind", "group_name") == [("ringing", "ivr", "Main menu")]
    office.tell(
        menu.tell("hangup", 21), desk.tell("ringing", 21), desk.tell("connected", 30), desk.tell("hangup", 50)
    )
    assert office.calls("ivr_seconds", "wait_seconds", "talk_seconds", "outcome") == [
        (20, 30, 20, "answered")
    ]


def test_talk_of_two_legs_at_once_counts_once(office: Office) -> None:
    ann, bob = rung(101, ANN, root=101, connected=5), rung(102, BOB, root=101, started=20, connected=25)
    office.tell(
        ann.tell("connected", 5), bob.tell("connected", 25), ann.tell("hangup", 45), bob.tell("hangup", 65)
    )
    assert office.calls("talk_seconds") == [(60,)]


# --- names ----------------------------------------------------------------------------------------------


def test_a_contact_gives_its_name_also_to_calls_before_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    office.tell(rung().tell("missed", 18, final=True))
    assert office.calls("party_name") == [("",)]
    office.put("contacts", {"id": 5, "first_name": "Zoe", "last_name": "Caller", "mobile": "07700 900101"})
    office.mirror.write(lambda tx: office.store.contacts_changed(tx, [5]))
    office.tick(3600)
    assert office.calls("party_name") == [("Zoe Caller",)]
    office.put("contacts", {"id": 5, "first_name": "Zoe", "last_name": "Caller", "mobile": None})
    office.mirror.write(lambda tx: office.store.contacts_changed(tx, [5]))
    office.tick(3600)
    assert office.calls("party_name") == [("",)]


def test_drifted_values_are_read_for_what_they_mean(office: Office) -> None:
    drifted = {"user_id": str(ANN), "duration": "20", "billsec": "15", "charge": "0.5", "root_live_id": "101"}
    record = cdr(9001, 101, 0, 0, 0) | drifted | {"disposition": "CONNECTED"}
    office.put("cdrs", record | {"live_id": "101"})
    office.mirror.write(lambda tx: office.store.refresh(tx, [101]))
    assert office.calls("id", "outcome", "talk_seconds", "charge", "user_id") == [
        (101, "answered", 15, 0.5, ANN)
    ]


def test_rebuilding_everything_changes_nothing(office: Office) -> None:
    office.tell(*held(("hold", 10), ("unhold", 20)), ("cdrs", cdr(9001, 102, 0, 20, 15)))
    before, changes = office.state(), office.changes()
    assert office.store.rebuild_all(office.mirror) == 2
    assert (office.state(), office.changes()) == (before, changes)
