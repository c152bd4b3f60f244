"""Direction and party of calls: outbound, internal, withheld numbers and contact names."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    GROUP,
    CallMirror,
    Phone,
    cdr,
    inbound_leg,
    set_now,
)


def test_an_extension_that_rings_a_group_is_one_internal_call(mirror: CallMirror) -> None:
    for leg, user in ((101, BOB), (102, CAT)):
        inner = Phone(leg, user, src="1001", src_id=str(ANN), dst="601", context=f"RG-{GROUP}")
        mirror.apply(inner.event("ringing", 1), inner.event("missed", 20))
    assert mirror.calls("direction", "outcome", "legs") == [("internal", "internal", 2)]


def test_neither_the_id_of_the_source_nor_the_destination_alone_gives_the_direction(
    mirror: CallMirror,
) -> None:
    mirror.apply(("cdrs", cdr(9001, 101, 0, 20, 15, src_id=str(BOB), user_id=ANN)))
    agent_leg_of_click_to_call = Phone(201, ANN, src="1001", src_id=str(ANN), dst=CALLER, connected=4)
    mirror.apply(agent_leg_of_click_to_call.event("connected", 4))
    assert mirror.calls("direction", "state") == [("in", "ended"), ("out", "dialling")]


def test_the_outside_party_is_never_the_number_of_the_account(empty_mirror: CallMirror) -> None:
    """The leg of a transfer to a colleague carries the outside party as its source."""
    there = Phone(201, None, src="1001", src_id=str(ANN), dst=CALLER, destination="out", connected=4)
    transfer = Phone(202, None, src=CALLER, src_id=str(ANN), dst="1002", destination="out", root=201)
    empty_mirror.apply(there.event("connected", 4), transfer.event("initial", 5))
    assert empty_mirror.calls("direction", "party", "our_number") == [("out", CALLER, "1001")]


def test_a_contact_added_or_changed_later_renames_the_party_of_earlier_calls(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    mirror.apply(inbound_leg().event("missed", 18, final=True))
    assert mirror.calls("party_name") == [("",)]
    mirror.put("contacts", {"id": 5, "first_name": "Zoe", "last_name": "Caller", "mobile": "07700 900101"})
    mirror.tick(3600)
    assert mirror.calls("party_name") == [("Zoe Caller",)]
    mirror.put("contacts", {"id": 5, "first_name": "Zoe", "last_name": "Caller", "mobile": None})
    mirror.tick(3600)
    assert mirror.calls("party_name") == [("",)]
