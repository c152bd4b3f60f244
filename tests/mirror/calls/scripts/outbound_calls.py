"""Scripts of outbound calls: dialled, click-to-call in both forms, call-backs."""

from __future__ import annotations

from dataclasses import replace

from tests.mirror.calls.scripts.facts import T0, Poll, Webhook, outbound
from tests.mirror.calls.scripts.script import Call, Script

_DIALLED = outbound(connected=8)
_BUSY = outbound()
_CLICK = outbound(connected=4)
_CLICKED: list[Webhook] = [
    _CLICK.webhook("initial", 0.1, state="ACCEPTED"),
    _CLICK.ringing(0.5),
    _CLICK.answer(),
]
_AGENT = outbound(connected=4, context="LOCAL_USER", dst_id="10001", dst_name="Ann Example")
_DESTINATION = outbound(202, start=4, connected=12, root=201)
_REFUSING = outbound(202, start=4, root=201)


def _call(
    outcome: str, wait: int, talk: int | None, legs: tuple[int, ...] = (201,), **columns: object
) -> Call:
    return Call(
        201, outcome, legs, wait=wait, talk=talk, user="Ann Example", direction="out", columns=columns
    )


SCRIPTS = [
    Script(
        "outbound, answered",
        [
            _DIALLED.webhook("initial", 0.1), _DIALLED.ringing(), _DIALLED.answer(), _DIALLED.hangup(38),
            _DIALLED.cdr(38, 30, at=60, charge=0.02, clid='"442079460002" <442079460002>'),
        ],
        [_call("answered", wait=8, talk=30, charge=0.02, our_e164="+442079460002", unconfirmed=0)],
        during={
            5: [{"state": "ringing"}],
            20: [{"state": "dialling", "answered_at": None}],
            45: [{"state": "ended", "outcome": None, "unconfirmed": 1}],
            61: [{"state": "ended", "outcome": "answered", "unconfirmed": 0}],
        },
    ),
    Script(
        "outbound, busy",
        [
            _BUSY.webhook("initial", 0.1), _BUSY.ringing(), _BUSY.hangup(6, t_cause="User busy"),
            _BUSY.cdr(6, 0, at=60, disposition="BUSY", t_cause="User busy"),
        ],
        [_call("not_answered", wait=6, talk=None, t_cause="User busy")],
        during={7: [{"state": "ended", "outcome": "not_answered"}]},
    ),
    Script(
        "click-to-call with one id, the destination answers",
        [*_CLICKED, _CLICK.ringing(4.5), _CLICK.webhook("connected", 12), _CLICK.hangup(30)],
        [_call("answered", wait=12, talk=18, party_name="United Kingdom Mobile")],
        during={
            2: [{"state": "ringing"}],
            4: [{"state": "dialling"}],
            10: [{"state": "dialling"}],
            15: [{"state": "talking"}],
        },
    ),
    Script(
        "click-to-call with one id, the CDR shows no answer",
        [*_CLICKED, _CLICK.hangup(30), _CLICK.cdr(30, 0, at=60)],
        [_call("not_answered", wait=30, talk=None, unconfirmed=0)],
    ),
    Script(
        "click-to-call with one id, the CDR is missing",
        [*_CLICKED, _CLICK.hangup(30)],
        [_call("not_answered", wait=30, talk=None, unconfirmed=1)],
        during={629: [{"outcome": None}], 630: [{"outcome": "not_answered"}]},
    ),
    Script(
        "click-to-call with one id, a poll shows the connection of the destination",
        [
            *_CLICKED, Poll(8, (_CLICK.live("CONNECTED", dst_connection=0.01),)),
            Poll(14, (_CLICK.live("CONNECTED", dst_connection=T0 + 12),)), _CLICK.hangup(30),
        ],
        [_call("answered", wait=4, talk=26, unconfirmed=0)],
        during={9: [{"state": "dialling"}], 15: [{"state": "talking"}]},
    ),
    Script(
        "click-to-call, the agent does not pick up",
        [_BUSY.webhook("initial", 0.1, state="ACCEPTED"), _BUSY.ringing(0.5), _BUSY.hangup(20)],
        [_call("not_answered", wait=20, talk=None, unconfirmed=0)],
    ),
    Script(
        "click-to-call with two legs, the destination answers",
        [
            _AGENT.webhook("initial", 0.1, state="ACCEPTED"), _AGENT.ringing(0.5), _AGENT.answer(),
            _DESTINATION.ringing(4.5), _DESTINATION.answer(), _DESTINATION.hangup(30), _AGENT.hangup(30.1),
        ],
        [_call("answered", wait=12, talk=18, legs=(201, 202))],
        during={5: [{"state": "dialling", "answered_at": None, "legs": 2}], 15: [{"state": "talking"}]},
    ),
    Script(
        "click-to-call with two legs, the destination does not answer",
        [
            _AGENT.webhook("initial", 0.1, state="ACCEPTED"), _AGENT.ringing(0.5), _AGENT.answer(),
            _REFUSING.ringing(4.5), _REFUSING.hangup(25, t_cause="User busy"), _AGENT.hangup(26),
        ],
        [_call("not_answered", wait=26, talk=None, legs=(201, 202), unconfirmed=0)],
    ),
    Script(
        "web call, only the CDR",
        [outbound().cdr(25, 20, at=60, destination="webcall")],
        [replace(_call("answered", wait=5, talk=20, sources="cdr"), hold=None)],
    ),
]  # fmt: skip
