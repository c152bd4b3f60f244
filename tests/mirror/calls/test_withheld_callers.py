"""Callers without a number, in every spelling: a call and a call-back item each."""

from __future__ import annotations

from typing import Any

import pytest

from integration.core.phone_numbers import PhoneNumbers, is_withheld
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import TestApp
from tests.support.payloads.call_facts import (
    ANN,
    GROUP,
    CallMirror,
    Fact,
    cdr,
    inbound_leg,
    outbound_leg,
    set_now,
)

SPELLINGS = (
    "", "anonymous", "anonymous@anonymous.invalid", "sip:anonymous@anonymous.invalid",
    '"Anonymous" <sip:anonymous@10.0.0.1;user=phone>', "+anonymous", "Blocked", "Private number",
    "No Caller ID", "ID withheld", "Unknown caller", "+266696687", "00266696687", "266696687", "-",
    "0", "00", "+000", "000-000",
    "Restricted", "UNAVAILABLE", "Number withheld", "caller ID blocked",
)  # fmt: skip


@pytest.mark.parametrize("src", [*SPELLINGS, None, "  ", "alice@example.com", "Front desk"])
def test_a_party_that_is_no_number_has_no_key(src: str | None) -> None:
    assert is_withheld(src)
    assert PhoneNumbers("GB").get_party_key(src) == ""
    assert PhoneNumbers("GB").to_e164(src) is None


@pytest.mark.parametrize(
    "src",
    [
        "447700900101", "+44 7700 900101", "07700 900101", "1001", "999", "*97", "#31#07700900101",
        "sip:447700900101@carrier.example", "tel:+44-7700-900101;ext=12", "020 7946 0104 x12",
        "020 7946 0104 ext. 12", "020 7946 0104 (work)", "\u202a+447700900101\u202c", "٠٧٧٠٠٩٠٠١٠١",
    ],
)  # fmt: skip
def test_a_number_in_any_notation_is_not_withheld(src: str) -> None:
    assert not is_withheld(src)


def ring(leg: int, user: int, src: str, start: float = 0, context: str = f"RG-{GROUP}") -> Any:
    return inbound_leg(leg, user, src=src, src_name=src, started=start, context=context)


def miss(*phones: Any) -> list[Fact]:
    return [phone.event("ringing", phone.started) for phone in phones] + [
        phone.event("missed", 18 + phone.started) for phone in phones
    ]


def record(id_: int, leg: int, src: str, start: float, context: str, dst_id: str = "10001") -> Fact:
    return "cdrs", cdr(
        id_, leg, start, 18, 0, src=src, src_name=src, context=context, dst_id=dst_id, type="M"
    )


def list_open_parties(app: TestApp) -> list[str]:
    update_from_mirror(app.app_db, app.mirror_db)
    with app.app_db.read() as connection:
        return sorted(item.party for item in callbacks.list_items(connection))


@pytest.mark.parametrize("src", ["sip:447700900777@10.0.0.1", "sip:+447700900777@pbx.example;user=phone"])
def test_a_caller_with_a_uri_has_the_number_in_it(call_app: TestApp, fresh: CallMirror, src: str) -> None:
    fresh.apply(*miss(inbound_leg(101, src=src, src_name=src)))
    fresh.tick(1000)
    assert fresh.calls("party_e164") == [("+447700900777",)]
    assert list_open_parties(call_app) == ["+447700900777"]


@pytest.fixture
def fresh(call_app: TestApp, mirror: CallMirror, monkeypatch: pytest.MonkeyPatch) -> CallMirror:
    """A mirror and an empty call-back list, two minutes after the calls of the tests."""
    for table in ("callbacks", "callback_calls", "callback_deeds", "callback_deed_calls", "callback_start"):
        call_app.app_db.write(lambda tx, table=table: tx.execute(f"DELETE FROM {table}"))
    set_now(monkeypatch, 120)
    return mirror


def test_no_call_of_another_party_closes_the_item_of_a_caller_without_a_number(
    call_app: TestApp, fresh: CallMirror
) -> None:
    fresh.apply(*miss(ring(101, ANN, "Blocked", context="LOCAL_USER")))
    answered = inbound_leg(102, src="Blocked", src_name="Blocked", started=60, connected=65)
    fresh.apply(answered.event("connected", 65), answered.event("hangup", 90))
    out = outbound_leg(103, dst="Blocked", started=100, connected=105)
    fresh.apply(out.event("connected", 105), out.event("hangup", 160))
    fresh.tick(1000)
    assert list_open_parties(call_app) == ["withheld:101"]


def test_a_caller_whose_number_turns_out_to_be_withheld_stays_listed(
    call_app: TestApp, fresh: CallMirror
) -> None:
    fresh.apply(*miss(inbound_leg(101)))
    fresh.tick(1000)
    assert list_open_parties(call_app) == ["+447700900101"]
    fresh.apply(record(1, 101, "Unknown caller", 0, "LOCAL_USER"))
    assert list_open_parties(call_app) == ["withheld:101"]


def test_a_name_instead_of_a_number_is_shown_as_the_name(call_app: TestApp, fresh: CallMirror) -> None:
    fresh.apply(*miss(inbound_leg(101, src="alice@example.com", src_name=None)))
    fresh.tick(1000)
    assert fresh.calls("party", "party_name") == [("", "alice@example.com")]
    page = call_app.log_in().get("/calls?range=all").text
    assert "alice@example.com" in page
