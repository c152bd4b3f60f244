"""A small account with calls near midnights and clock changes."""

from __future__ import annotations

from typing import Any

from tests.support.application import TestApp

DORA, DAN, EVE, FINN = "447700900101", "447700900102", "447700900103", "447700900104"
SECOND_NUMBER = "442079460003"
ANN, BOB, CAT, LEAVER = 100, 101, 102, 103
_NAMES = {ANN: "Ann Example", BOB: "Bob Sample"}
_LOST: dict[str, Any] = {"talk_seconds": None}


def fill(app: TestApp) -> None:
    """Store calls of October 2026 with their legs, recordings and messages."""
    app.put(
        "users",
        {"id": ANN, "first_name": "Ann", "last_name": "Example", "ext": "1001", "active": True},
        {"id": BOB, "first_name": "Bob", "last_name": "Sample", "ext": "1002", "active": True},
        {"id": CAT, "first_name": "Cat", "last_name": None, "ext": "1003", "active": False},
        {"id": LEAVER, "first_name": "Lea", "last_name": "Ver", "ext": "1004", "active": True},
    )
    app.mirror_db.write(
        lambda tx: tx.execute(
            "UPDATE users SET _missing_since = '2026-10-01 00:00:00' WHERE id = ?", [LEAVER]
        )
    )
    app.put("contacts", {"id": 1, "first_name": "Dora", "last_name": "Example", "tel": f"+{DORA}"})
    app.put("me", {"id": ANN, "currency_iso": "GBP"})
    for number, moment, transcript in (
        (7001, "2026-10-05 08:30:07", "I would like a Refund."),
        (7002, "2026-10-05 08:31:00", "Thank you."),
    ):
        app.insert(
            "monitors",
            id=number,
            live_id=1,
            timestamp=moment,
            duration=53,
            user_id=ANN,
            transcript=transcript,
        )
    _add_calls(app)
    for leg, call, user, started_at, billsec in (
        (1, 1, ANN, "2026-10-05 08:30:00", 60),
        (501, 5, ANN, "2026-10-25 00:30:00", 50),
        (502, 5, BOB, "2026-10-25 00:30:55", 40),
        (503, 5, None, "2026-10-25 00:30:00", 99),
    ):
        app.leg(
            leg,
            call_id=call,
            user_id=user,
            user_name=_NAMES.get(user or 0),
            started_at=started_at,
            billsec=billsec,
        )
    path = "recordings/2026/10/05/7001.mp3"
    app.insert(
        "media", kind="recording", record_id=7001, path=path, state="have", updated_at="2026-10-05 09:00:00"
    )
    app.put(
        "sms",
        make_sms(1, "2026-10-05 10:00:00", type="I", **{"from": DORA, "to": "442079460002"}),
        make_sms(2, "2026-10-05 10:05:00", type="O", user_id=ANN, **{"from": "442079460002", "to": DORA}),
        make_sms(
            3,
            "2026-10-06 10:00:00",
            type="I",
            from_name="Finn Sample",
            **{"from": FINN, "to": "442079460002"},
        ),
    )


def make_sms(number: int, created_at: str, **values: Any) -> dict[str, Any]:
    return {"id": number, "created_at": created_at, "message": f"Message {number}", **values}


def _add_calls(app: TestApp) -> None:
    def call(number: int, started_at: str, caller: str, user: int | None = None, **values: Any) -> None:
        name = "Dora Example" if caller == DORA else ""
        app.call(
            number, started_at, party=caller, party_e164=f"+{caller}", party_name=name,
            user_id=user, user_name=_NAMES.get(user or 0), **values,
        )  # fmt: skip

    call(10, "2026-10-03 13:15:00", FINN, BOB, wait_seconds=20, talk_seconds=9)
    call(1, "2026-10-05 08:30:00", DORA, ANN, wait_seconds=7, talk_seconds=60, recordings=2)
    call(2, "2026-10-05 23:30:00", DAN, outcome="missed", wait_seconds=25, **_LOST)
    call(3, "2026-10-06 10:00:00", DAN, BOB, direction="out", wait_seconds=10, talk_seconds=120, charge=0.25)
    app.call(
        9, "2026-10-20 09:00:00", direction="internal", outcome="internal", party="1002", party_e164=None,
        user_id=ANN, talk_seconds=15,
    )  # fmt: skip
    call(4, "2026-10-24 23:15:00", EVE, outcome="voicemail", wait_seconds=30, voicemails=1, **_LOST)
    call(5, "2026-10-25 00:30:00", DORA, BOB, wait_seconds=40, talk_seconds=90, legs=3)
    call(6, "2026-10-25 01:30:00", DORA, outcome="missed", wait_seconds=15, **_LOST)
    call(
        7, "2026-10-31 23:45:00", DORA, ANN, wait_seconds=5, talk_seconds=30, charge=0.5,
        our_number=SECOND_NUMBER, our_e164=f"+{SECOND_NUMBER}",
    )  # fmt: skip
    call(8, "2026-11-01 00:10:00", EVE, ANN, direction="out", outcome="not_answered", charge=0.0, **_LOST)
    call(12, "2026-11-02 09:00:00", DAN, BOB, direction="out", wait_seconds=4, talk_seconds=10, charge=0.1)
