"""Calls of every kind, computed in a mirror.db."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    GROUP,
    QUEUE,
    T0,
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
        phone.event("initial", 0.1),
        phone.event("ringing", 0.3),
        phone.event("connected", 7),
        phone.event("hangup", 18),
        ("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN, charge=0.006)),
        ("monitors", {"id": 8001, "live_id": 101, "user_id": ANN, "timestamp": at(0)}),
    ]


def test_1_a_plain_inbound_call_is_answered_and_hung_up_by_the_caller(mirror: CallMirror) -> None:
    mirror.apply(*plain())
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
        first.event("initial", 0.1),
        second.event("initial", 0.11),
        third.event("initial", 0.12),
        third.event("missed", 0.2, final=False),
        first.event("ringing", 0.3),
        second.event("ringing", 0.31),
        third.event("ringing", 0.32),
        second.event("connected", 7),
        first.event("missed", 7.1, final=False),
        second.event("hangup", 18),
    ]


def test_2_a_ring_group_whose_second_phone_answers_is_one_answered_call(mirror: CallMirror) -> None:
    mirror.apply(*ring_group_answered())
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
        facts += [phone.event("ringing", 0.3 + leg / 1000), phone.event("missed", 18 + leg / 1000, **more)]
    return facts


def test_3_a_ring_group_without_an_answer_is_one_missed_call(mirror: CallMirror) -> None:
    mirror.apply(*ring_group_missed())
    call = mirror.call()
    assert (call["legs"], call["state"], call["outcome"], call["due_at"]) == (3, "ended", "missed", None)
    assert call["user_id"] is None, "three phones rang, so the call belongs to no user"
    assert call["wait_seconds"] == 18


def test_4_without_final_and_root_a_group_call_becomes_missed_after_five_seconds(
    empty_mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 18.5)
    empty_mirror.apply(*ring_group_missed(documented=True))
    call = empty_mirror.call()
    assert (call["legs"], call["provisional"], call["state"], call["outcome"]) == (3, 1, "ended", None)
    assert empty_mirror.tick(22.9) == 0
    assert empty_mirror.tick(23.1) == 1
    assert empty_mirror.call()["outcome"] == "missed"
    assert empty_mirror.call()["due_at"] is None


def test_5_without_a_hangup_the_poll_ends_the_call_unconfirmed_and_the_cdr_confirms_it(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 8)
    phone = Phone(101, ANN, connected=7)
    mirror.apply(phone.event("ringing", 0.3), phone.event("connected", 7))
    set_now(monkeypatch, 20)
    mirror.poll(live(101, "CONNECTED", connected_at=None), when=20)
    assert mirror.calls("state", "unconfirmed") == [("talking", 0)]
    set_now(monkeypatch, 35)
    mirror.poll(when=35)
    assert mirror.calls("state", "unconfirmed") == [("talking", 1)]
    mirror.end_missing(101, when=36)
    assert mirror.calls("state", "unconfirmed", "outcome") == [("ended", 1, "answered")]
    mirror.apply(("cdrs", cdr(9001, 101, 0, 25, 18, user_id=ANN)))
    call = mirror.call()
    assert (call["state"], call["unconfirmed"], call["outcome"]) == ("ended", 0, "answered")
    assert (call["ended_at"], call["talk_seconds"]) == (at(25), 18)
    assert call["sources"] == "webhook,poll,cdr"


def test_6_the_records_alone_give_the_same_call(mirror: CallMirror) -> None:
    mirror.apply(*plain())
    from_all_facts = mirror.call()
    mirror.clear()
    mirror.apply(*plain()[4:])
    found = mirror.call()
    for name in from_all_facts.keys() - {"change_no", "sources", "hold_seconds", "ended_by", "context"}:
        assert found[name] == from_all_facts[name], name
    assert found["hold_seconds"] is None, "only webhooks contain holds"


def transfer() -> list:
    ann = Phone(101, ANN, connected=5)
    bob = Phone(102, BOB, started=31, connected=35)
    return [
        ann.event("ringing", 0.3),
        ann.event("connected", 5),
        ann.event("hold", 25),
        bob.event("ringing", 31.2),
        bob.event("connected", 35),
        ann.event("hangup", 35.2),
        bob.event("hangup", 65),
        ("cdrs", cdr(9001, 101, 0, 35, 30, user_id=ANN)),
        ("cdrs", cdr(9002, 102, 31, 34, 30, user_id=BOB, parent_live_id=101)),
    ]


def test_7_a_transfer_is_one_answered_call_of_two_talking_legs_with_its_hold_counted(
    mirror: CallMirror,
) -> None:
    mirror.apply(*transfer())
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
        agent.event("initial", 0.1, state="ACCEPTED"),
        agent.event("ringing", 0.5),
        agent.event("connected", 4),
        there.event("ringing", 4.5),
        there.event("connected", 12),
        there.event("hangup", 30),
        agent.event("hangup", 30.1),
    ]


def test_8_click_to_call_with_two_legs_is_answered_by_the_destination_alone(mirror: CallMirror) -> None:
    events = click_two_legs()
    mirror.apply(*events[:3])
    assert mirror.calls("direction", "state", "answered_at") == [("out", "dialling", None)]
    mirror.apply(events[3])
    assert mirror.calls("state", "legs") == [("dialling", 2)]
    mirror.apply(events[4])
    assert mirror.calls("state", "answered_at") == [("talking", at(12))]
    mirror.apply(*events[5:])
    call = mirror.call()
    assert (call["outcome"], call["wait_seconds"], call["talk_seconds"]) == ("answered", 12, 18)
    assert (call["user_id"], call["party_e164"]) == (ANN, "+447700900101")


def test_8_with_two_legs_an_unanswered_click_to_call_needs_no_cdr(
    mirror: CallMirror,
) -> None:
    agent = Phone(201, ANN, src="1001", src_id=str(ANN), dst="1001", destination="out", connected=4)
    there = Phone(202, None, started=4, src="1001", src_id=str(ANN), dst=CALLER, destination="out", root=201)
    mirror.apply(
        agent.event("connected", 4),
        there.event("ringing", 5),
        there.event("hangup", 25),
        agent.event("hangup", 26),
    )
    assert mirror.calls("direction", "outcome", "unconfirmed", "due_at") == [("out", "not_answered", 0, None)]


def one_id(*, rings_twice: bool) -> list:
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
    facts = [phone.event("initial", 0.1), phone.event("ringing", 0.5), phone.event("connected", 4)]
    if rings_twice:
        facts += [phone.event("ringing", 4.5), phone.event("connected", 12)]
    return [*facts, phone.event("hangup", 30)]


def test_8_click_to_call_with_one_id_is_dialling_until_the_destination_answers(
    mirror: CallMirror,
) -> None:
    events = one_id(rings_twice=True)
    mirror.apply(*events[:2])
    assert mirror.calls("state") == [("ringing",)]
    mirror.apply(events[2])
    assert mirror.calls("state") == [("dialling",)]
    mirror.apply(events[3])
    assert mirror.calls("state") == [("dialling",)]
    mirror.apply(events[4])
    assert mirror.calls("state", "answered_at") == [("talking", at(12))]
    mirror.apply(events[5])
    assert mirror.calls("outcome", "talk_seconds") == [("answered", 18)]


@pytest.mark.parametrize(("billsec", "outcome"), [(0, "not_answered"), (18, "answered")])
def test_8_the_cdr_decides_the_outcome_of_a_click_to_call_with_one_id(
    mirror: CallMirror, billsec: int, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 31)
    mirror.apply(*one_id(rings_twice=False))
    assert mirror.calls("state", "outcome", "unconfirmed") == [("ended", None, 1)]
    mirror.tick(631)
    assert mirror.calls("outcome", "unconfirmed", "due_at") == [("not_answered", 1, None)]
    mirror.apply(
        ("cdrs", cdr(9001, 201, 0, 30, billsec, type="O", destination="out", src="1001", src_id=str(ANN),
                     dst=CALLER, context="PSTN_CALL", user_id=ANN)),
    )  # fmt: skip
    call = mirror.call()
    assert (call["outcome"], call["unconfirmed"], call["user_id"]) == (outcome, 0, ANN)
    if billsec:
        assert (call["answered_at"], call["talk_seconds"]) == (at(12), 18)


@pytest.mark.parametrize(
    ("dst_connection", "state"),
    [(T0 + 12, "talking"), (None, "dialling"), (0, "dialling"), (0.01, "dialling")],
)
def test_8_a_poll_with_the_connection_of_the_destination_changes_dialling_to_talking(
    mirror: CallMirror, dst_connection: float | None, state: str
) -> None:
    mirror.apply(*one_id(rings_twice=False)[:3])
    fields = {"src": "1001", "src_id": str(ANN), "dst": CALLER, "destination": "out"}
    mirror.poll(live(201, "CONNECTED", **fields, dst_connection=dst_connection), when=14)
    assert mirror.calls("state") == [(state,)]


def queue_left() -> list:
    music = Phone(301, None, context="QUEUE", dst_id=str(QUEUE), dst_name="Sales", connected=1, root=301)
    facts = [music.event("initial", 0.1), music.event("connected", 1)]
    for leg, user in ((302, ANN), (303, BOB), (304, CAT)):
        phone = Phone(leg, user, started=2, context="QUEUE", root=301)
        facts += [
            phone.event("ringing", 2.5 + leg / 10000),
            phone.event("missed", 17 + leg / 10000, final=False),
        ]
    return [
        *facts,
        music.event("hangup", 40),
        (
            "cdrs",
            cdr(9001, 301, 0, 40, 39, context="QUEUE", dst_id=str(QUEUE), dst_name="Sales", user_id=ANN),
        ),
    ]


def test_8a_a_queue_without_an_agent_who_answers_is_one_missed_call(mirror: CallMirror) -> None:
    facts = queue_left()
    mirror.apply(*facts[:4])
    assert mirror.calls("state", "answered_at") == [("ringing", None)]
    mirror.apply(*facts[4:])
    call = mirror.call()
    assert (call["legs"], call["outcome"], call["answered_at"]) == (4, "missed", None)
    assert (call["group_kind"], call["group_id"], call["group_name"]) == ("queue", QUEUE, "Sales")
    assert call["wait_seconds"] == 40


def hunt() -> list:
    facts = []
    for n, (leg, user) in enumerate(((401, ANN), (402, BOB))):
        phone = Phone(leg, user, started=20 * n, context=f"RG-{GROUP}")
        facts += [phone.event("ringing", 20 * n + 0.2), phone.event("missed", 20 * n + 20)]
    third = Phone(403, CAT, started=41, context=f"RG-{GROUP}", connected=47)
    return [*facts, third.event("ringing", 41.2), third.event("connected", 47), third.event("hangup", 60)]


def test_8b_a_hunt_group_whose_third_phone_answers_is_one_answered_call(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = hunt()
    set_now(monkeypatch, 40.5)
    mirror.apply(*events[:4])
    assert mirror.calls("state", "outcome", "legs") == [("ended", None, 2)]
    mirror.tick(63)
    assert mirror.calls("outcome") == [("missed",)], "the third phone's webhooks are late"
    mirror.apply(events[4])
    assert mirror.calls("state", "outcome") == [("ringing", None)]
    mirror.apply(*events[5:])
    call = mirror.call()
    assert (call["id"], call["legs"], call["outcome"], call["user_id"]) == (401, 3, "answered", CAT)
    assert call["wait_seconds"] == 47


def left_a_message() -> list:
    return [*ring_group_missed(), ("voicemessages", voicemail(7001, 104, 101))]


def test_9_a_missed_group_call_with_a_voicemail_message_has_the_outcome_voicemail(mirror: CallMirror) -> None:
    mirror.apply(*left_a_message())
    assert mirror.calls("outcome", "voicemails") == [("voicemail", 1)]
