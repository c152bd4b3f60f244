"""Calls of every kind, told through a real mirror.db."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    GROUP,
    QUEUE,
    CallMirror,
    Phone,
    at,
    cdr,
    live,
    set_now,
    voicemail,
)  # fmt: skip


def plain() -> list:
    phone = Phone(101, ANN, connected=7)
    return [
        phone.tell("initial", 0.1),
        phone.tell("ringing", 0.3),
        phone.tell("connected", 7),
        phone.tell("hangup", 18),
        ("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN, charge=0.006)),
        ("monitors", {"id": 8001, "live_id": 101, "user_id": ANN, "timestamp": at(0)}),
    ]


def test_1_a_plain_inbound_call_is_answered_and_hung_up_by_the_caller(mirror: CallMirror) -> None:
    mirror.tell(*plain())
    call = mirror.call()
    assert call["id"] == 101
    assert (call["direction"], call["state"], call["outcome"]) == ("in", "ended", "answered")
    assert (call["started_at"], call["answered_at"], call["ended_at"]) == (at(0), at(7), at(18))
    assert (call["wait_seconds"], call["talk_seconds"], call["hold_seconds"]) == (7, 11, 0)
    assert (call["user_id"], call["user_name"], call["extension"]) == (ANN, "Ann Example", "1001")
    assert (call["party"], call["party_e164"], call["our_e164"]) == (CALLER, "+447700900101", "+442079460002")
    assert (call["ended_by"], call["charge"], call["recordings"], call["cdrs"]) == ("caller", 0.006, 1, 1)
    assert call["sources"] == "webhook,cdr"
    assert not call["unconfirmed"]


def ring_group_answered() -> list:
    first = Phone(101, ANN, context=f"RG-{GROUP}", root=101)
    second = Phone(102, BOB, context=f"RG-{GROUP}", root=101, connected=7)
    third = Phone(103, CAT, context=f"RG-{GROUP}", root=101)
    return [
        first.tell("initial", 0.1),
        second.tell("initial", 0.11),
        third.tell("initial", 0.12),
        third.tell("missed", 0.2, final=False),
        first.tell("ringing", 0.3),
        second.tell("ringing", 0.31),
        third.tell("ringing", 0.32),
        second.tell("connected", 7),
        first.tell("missed", 7.1, final=False),
        second.tell("hangup", 18),
    ]


def test_2_a_ring_group_whose_second_phone_answers_is_one_answered_call(mirror: CallMirror) -> None:
    mirror.tell(*ring_group_answered())
    call = mirror.call()
    assert (call["id"], call["legs"], call["outcome"]) == (101, 3, "answered")
    assert (call["user_id"], call["wait_seconds"], call["talk_seconds"]) == (BOB, 7, 11)
    assert (call["group_kind"], call["group_id"], call["group_name"]) == ("ringgroup", GROUP, "Support")
    assert not call["provisional"]


def ring_group_missed(*, documented: bool = False) -> list:
    facts = []
    for leg, user in ((101, ANN), (102, BOB), (103, CAT)):
        phone = Phone(leg, user, context=f"RG-{GROUP}", root=None if documented else 101)
        more = {} if documented else {"final": leg == 103}
        facts += [phone.tell("ringing", 0.3 + leg / 1000), phone.tell("missed", 18 + leg / 1000, **more)]
    return facts


def test_3_a_ring_group_that_the_caller_gives_up_on_is_one_missed_call(mirror: CallMirror) -> None:
    mirror.tell(*ring_group_missed())
    call = mirror.call()
    assert (call["legs"], call["state"], call["outcome"], call["due_at"]) == (3, "ended", "missed", None)
    assert call["user_id"] is None, "three phones rang: it is the group's"
    assert call["wait_seconds"] == 18


def test_4_without_final_and_root_it_is_one_missed_call_after_five_seconds(
    empty_mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 18.5)
    empty_mirror.tell(*ring_group_missed(documented=True))
    call = empty_mirror.call()
    assert (call["legs"], call["provisional"], call["state"], call["outcome"]) == (3, 1, "ended", None)
    assert empty_mirror.tick(22.9) == 0
    assert empty_mirror.tick(23.1) == 1
    assert empty_mirror.call()["outcome"] == "missed"
    assert empty_mirror.call()["due_at"] is None


def test_5_a_lost_hangup_is_unconfirmed_then_closed_by_the_poll_then_finished_by_the_cdr(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 8)
    phone = Phone(101, ANN, connected=7)
    mirror.tell(phone.tell("ringing", 0.3), phone.tell("connected", 7))
    set_now(monkeypatch, 20)
    mirror.poll(live(101, "CONNECTED", connected_at=None), when=20)
    assert mirror.calls("state", "unconfirmed") == [("talking", 0)]
    set_now(monkeypatch, 35)
    mirror.poll(when=35)
    assert mirror.calls("state", "unconfirmed") == [("talking", 1)]
    mirror.gone(101, when=36)
    assert mirror.calls("state", "unconfirmed", "outcome") == [("ended", 1, "answered")]
    mirror.tell(("cdrs", cdr(9001, 101, 0, 25, 18, user_id=ANN)))
    call = mirror.call()
    assert (call["state"], call["unconfirmed"], call["outcome"]) == ("ended", 0, "answered")
    assert (call["ended_at"], call["talk_seconds"]) == (at(25), 18)
    assert call["sources"] == "webhook,poll,cdr"


def test_6_the_cdrs_alone_give_the_same_call(mirror: CallMirror) -> None:
    mirror.tell(*plain())
    told = mirror.call()
    mirror.clear()
    mirror.tell(*plain()[4:])
    found = mirror.call()
    for name in told.keys() - {"change_no", "sources", "hold_seconds", "ended_by", "context"}:
        assert found[name] == told[name], name
    assert found["hold_seconds"] is None, "no webhook told of holds"


def transfer() -> list:
    ann = Phone(101, ANN, connected=5)
    bob = Phone(102, BOB, started=31, connected=35)
    return [
        ann.tell("ringing", 0.3),
        ann.tell("connected", 5),
        ann.tell("hold", 25),
        bob.tell("ringing", 31.2),
        bob.tell("connected", 35),
        ann.tell("hangup", 35.2),
        bob.tell("hangup", 65),
        ("cdrs", cdr(9001, 101, 0, 35, 30, user_id=ANN)),
        ("cdrs", cdr(9002, 102, 31, 34, 30, user_id=BOB, parent_live_id=101)),
    ]


def test_7_a_transfer_is_one_answered_call_of_two_talking_legs_with_its_hold_counted(
    mirror: CallMirror,
) -> None:
    mirror.tell(*transfer())
    call = mirror.call()
    assert (call["id"], call["legs"], call["outcome"]) == (101, 2, "answered")
    assert (call["wait_seconds"], call["hold_seconds"], call["hold_incomplete"]) == (5, 10, 0)
    assert call["talk_seconds"] == 30 + 30 - 10
    assert (call["user_id"], call["ended_at"]) == (ANN, at(65))


def click_two_legs() -> list:
    agent = Phone(
        201,
        ANN,
        src="1001",
        src_id=str(ANN),
        dst=CALLER,
        context="LOCAL_USER",
        destination="out",
        connected=4,
    )
    there = Phone(
        202, None, started=4, src="1001", src_id=str(ANN), dst=CALLER, dst_name="United Kingdom Mobile",
        context="PSTN_CALL", destination="out", root=201, connected=12,
    )  # fmt: skip
    return [
        agent.tell("initial", 0.1, state="ACCEPTED"),
        agent.tell("ringing", 0.5),
        agent.tell("connected", 4),
        there.tell("ringing", 4.5),
        there.tell("connected", 12),
        there.tell("hangup", 30),
        agent.tell("hangup", 30.1),
    ]


def test_8_click_to_call_with_two_legs_is_answered_by_the_destination_alone(mirror: CallMirror) -> None:
    told = click_two_legs()
    mirror.tell(*told[:3])
    assert mirror.calls("direction", "state", "answered_at") == [("out", "dialling", None)]
    mirror.tell(told[3])
    assert mirror.calls("state", "legs") == [("dialling", 2)]
    mirror.tell(told[4])
    assert mirror.calls("state", "answered_at") == [("talking", at(12))]
    mirror.tell(*told[5:])
    call = mirror.call()
    assert (call["outcome"], call["wait_seconds"], call["talk_seconds"]) == ("answered", 12, 18)
    assert (call["user_id"], call["party_e164"]) == (ANN, "+447700900101")


def test_8_with_two_legs_nobody_waits_for_a_cdr_to_say_that_the_destination_did_not_answer(
    mirror: CallMirror,
) -> None:
    agent = Phone(201, ANN, src="1001", src_id=str(ANN), dst="1001", destination="out", connected=4)
    there = Phone(202, None, started=4, src="1001", src_id=str(ANN), dst=CALLER, destination="out", root=201)
    mirror.tell(
        agent.tell("connected", 4),
        there.tell("ringing", 5),
        there.tell("hangup", 25),
        agent.tell("hangup", 26),
    )
    assert mirror.calls("direction", "outcome", "unconfirmed", "due_at") == [("out", "not_answered", 0, None)]


def one_id(*, again: bool) -> list:
    phone = Phone(
        201,
        None,
        src="1001",
        src_id=str(ANN),
        dst=CALLER,
        context="PSTN_CALL",
        destination="out",
        connected=4,
    )
    facts = [phone.tell("initial", 0.1), phone.tell("ringing", 0.5), phone.tell("connected", 4)]
    if again:
        facts += [phone.tell("ringing", 4.5), phone.tell("connected", 12)]
    return [*facts, phone.tell("hangup", 30)]


def test_8_click_to_call_with_one_id_reads_dialling_until_the_destination_rings_and_answers(
    mirror: CallMirror,
) -> None:
    told = one_id(again=True)
    mirror.tell(*told[:2])
    assert mirror.calls("state") == [("ringing",)]
    mirror.tell(told[2])
    assert mirror.calls("state") == [("dialling",)]
    mirror.tell(told[3])
    assert mirror.calls("state") == [("dialling",)]
    mirror.tell(told[4])
    assert mirror.calls("state", "answered_at") == [("talking", at(12))]
    mirror.tell(told[5])
    assert mirror.calls("outcome", "talk_seconds") == [("answered", 18)]


@pytest.mark.parametrize(("billsec", "outcome"), [(0, "not_answered"), (18, "answered")])
def test_8_click_to_call_with_one_id_is_decided_by_the_cdr(
    mirror: CallMirror, billsec: int, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 31)
    mirror.tell(*one_id(again=False))
    assert mirror.calls("state", "outcome", "unconfirmed") == [("ended", None, 1)]
    mirror.tick(631)
    assert mirror.calls("outcome", "unconfirmed", "due_at") == [("not_answered", 1, None)]
    mirror.tell(
        ("cdrs", cdr(9001, 201, 0, 30, billsec, type="O", destination="out", src="1001", src_id=str(ANN),
                     dst=CALLER, context="PSTN_CALL", user_id=ANN)),
    )  # fmt: skip
    call = mirror.call()
    assert (call["outcome"], call["unconfirmed"], call["user_id"]) == (outcome, 0, ANN)
    if billsec:
        assert (call["answered_at"], call["talk_seconds"]) == (at(12), 18)


def test_8_a_poll_that_shows_the_destinations_connection_ends_the_dialling(mirror: CallMirror) -> None:
    mirror.tell(*one_id(again=False)[:3])
    mirror.poll(
        live(
            201, "CONNECTED", src="1001", src_id=str(ANN), dst=CALLER, destination="out", dst_connection=0.01
        ),
        when=14,
    )
    assert mirror.calls("state") == [("talking",)]


def queue_left() -> list:
    music = Phone(301, None, context="QUEUE", dst_id=str(QUEUE), dst_name="Sales", connected=1, root=301)
    facts = [music.tell("initial", 0.1), music.tell("connected", 1)]
    for leg, user in ((302, ANN), (303, BOB), (304, CAT)):
        phone = Phone(leg, user, started=2, context="QUEUE", root=301)
        facts += [
            phone.tell("ringing", 2.5 + leg / 10000),
            phone.tell("missed", 17 + leg / 10000, final=False),
        ]
    return [
        *facts,
        music.tell("hangup", 40),
        (
            "cdrs",
            cdr(9001, 301, 0, 40, 39, context="QUEUE", dst_id=str(QUEUE), dst_name="Sales", user_id=ANN),
        ),
    ]


def test_8a_a_queue_whose_caller_hears_only_music_is_one_missed_call(mirror: CallMirror) -> None:
    told = queue_left()
    mirror.tell(*told[:4])
    assert mirror.calls("state", "answered_at") == [("ringing", None)]
    mirror.tell(*told[4:])
    call = mirror.call()
    assert (call["legs"], call["outcome"], call["answered_at"]) == (4, "missed", None)
    assert (call["group_kind"], call["group_id"], call["group_name"]) == ("queue", QUEUE, "Sales")
    assert call["wait_seconds"] == 40


def hunt() -> list:
    facts = []
    for n, (leg, user) in enumerate(((401, ANN), (402, BOB))):
        phone = Phone(leg, user, started=20 * n, context=f"RG-{GROUP}")
        facts += [phone.tell("ringing", 20 * n + 0.2), phone.tell("missed", 20 * n + 20)]
    third = Phone(403, CAT, started=41, context=f"RG-{GROUP}", connected=47)
    return [*facts, third.tell("ringing", 41.2), third.tell("connected", 47), third.tell("hangup", 60)]


def test_8b_a_hunt_group_whose_third_phone_answers_leaves_no_missed_notice(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = hunt()
    set_now(monkeypatch, 40.5)
    mirror.tell(*told[:4])
    assert mirror.calls("state", "outcome", "legs") == [("ended", None, 2)]
    mirror.tick(63)
    assert mirror.calls("outcome") == [("missed",)], "the third phone's webhooks are late"
    mirror.tell(told[4])
    assert mirror.calls("state", "outcome") == [("ringing", None)]
    mirror.tell(*told[5:])
    call = mirror.call()
    assert (call["id"], call["legs"], call["outcome"], call["user_id"]) == (401, 3, "answered", CAT)
    assert call["wait_seconds"] == 47


def left_a_message() -> list:
    return [*ring_group_missed(), ("voicemessages", voicemail(7001, 104, 101))]


def test_9_a_call_missed_by_all_with_a_message_left_is_voicemail(mirror: CallMirror) -> None:
    mirror.tell(*left_a_message())
    assert mirror.calls("outcome", "voicemails") == [("voicemail", 1)]
