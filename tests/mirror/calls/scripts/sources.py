"""Scripts of lost, late, repeated and contradictory facts."""

from __future__ import annotations

from dataclasses import replace

from tests.mirror.calls.scripts.facts import (
    ANN,
    BOB,
    CAT,
    OTHER,
    SUPPORT,
    Leg,
    NotFound,
    Poll,
    delay,
)
from tests.mirror.calls.scripts.script import Call, Script

_ANN = Leg(101, ANN, connected=7, root=101)
_MISSED = Leg(101, ANN, root=101)
_GROUP = [
    Leg(101, ANN, context=SUPPORT), Leg(102, BOB, context=SUPPORT, connected=7),
    Leg(103, CAT, context=SUPPORT),
]  # fmt: skip
_POLLED = Leg(101, ANN, connected=7)
_POLLED_CHILD = Leg(102, BOB, 38, connected=40)
_NEW_CONTEXT = Leg(101, ANN, connected=7, context="NEW_THING", root=101)
_NEW_END = Leg(101, None, connected=7, context="NEW_THING", root=101)
_HOLDING = Leg(101, ANN, connected=5, root=101)
_OTHER_SERVER = replace(_HOLDING, server="uk004")
_ANSWERED = Call(101, "answered", (101,), wait=7, talk=11, user="Ann Example")

SCRIPTS = [
    Script(
        "all webhooks of a ring group are lost",
        [
            _GROUP[0].cdr(7, 0, at=60, root_live_id=101), _GROUP[1].cdr(18, 11, at=60, root_live_id=101),
            _GROUP[2].cdr(7, 0, at=60, root_live_id=101),
        ],
        [
            Call(
                101, "answered", (101, 102, 103), wait=7, talk=11, hold=None, user="Bob Sample",
                columns={"group_name": "Support", "provisional": 0, "cdrs": 3},
            )
        ],
    ),
    Script(
        "a poll ends the call whose hang-up and CDR are lost",
        [_ANN.ringing(), _ANN.answer(), Poll(35), NotFound(36, 101)],
        [Call(101, "answered", (101,), wait=7, talk=29, user="Ann Example", columns={"unconfirmed": 1})],
    ),
    Script(
        "a webhook after the inferred end opens the call",
        [_ANN.ringing(), _ANN.answer(), Poll(35), NotFound(36, 101), _ANN.webhook("hold", 40)],
        [
            Call(
                101, None, (101,), wait=7, talk=None, user="Ann Example", state="on_hold",
                columns={"unconfirmed": 1, "ended_at": None},
            )
        ],
        during={37: [{"state": "ended"}], 41: [{"state": "on_hold", "unconfirmed": 0}]},
    ),
    Script(
        "the CDR arrives before the webhooks",
        [
            _ANN.cdr(18, 11, at=19), delay(_ANN.ringing(), 20), delay(_ANN.answer(), 14),
            delay(_ANN.hangup(18), 4),
        ],
        [_ANSWERED],
        during={20: [{"state": "ended", "outcome": "answered"}], 21.5: [{"state": "ended"}]},
    ),
    Script(
        "webhooks show a connection, the CDR bills none",
        [_ANN.ringing(), _ANN.answer(), _ANN.hangup(18), _ANN.cdr(18, 0, at=60)],
        [Call(101, "answered", (101,), wait=7, talk=0, user="Ann Example")],
    ),
    Script(
        "webhooks show a missed call, the CDR bills a conversation",
        [_MISSED.ringing(), _MISSED.missed(25, final=True), _MISSED.cdr(25, 20, at=60)],
        [Call(101, "answered", (101,), wait=5, talk=20, user="Ann Example")],
        during={30: [{"outcome": "missed"}]},
    ),
    Script(
        "the CDR names another caller and cause than the webhooks",
        [
            _MISSED.ringing(), _MISSED.missed(18, final=True),
            _MISSED.cdr(18, 0, at=60, src=OTHER, t_cause="No user responding"),
        ],
        [
            Call(
                101, "missed", (101,), wait=18, talk=None, user="Ann Example", party="+447700900102",
                columns={"t_cause": "No user responding"},
            )
        ],
    ),
    Script(
        "the CDR names the caller that the webhooks withhold",
        [
            replace(_MISSED, src="").ringing(), replace(_MISSED, src="").missed(18, final=True),
            _MISSED.cdr(18, 0, at=60),
        ],
        [Call(101, "missed", (101,), wait=18, talk=None, user="Ann Example")],
    ),
    Script(
        "two CDRs of one leg",
        [
            _ANN.cdr(18, 11, at=60, charge=0.006),
            _ANN.cdr(12, 10, at=60, id=700000901, calldate="2026-09-02 08:46:13", charge=0.004),
        ],
        [
            Call(
                101, "answered", (101,), wait=7, talk=21, hold=None, user="Ann Example",
                columns={"charge": 0.01, "cdrs": 2, "ended_at": "2026-09-02 08:46:25"},
            )
        ],
    ),
    Script(
        "only polls report the call",
        [
            Poll(5, (_POLLED.live("RINGING"),)), Poll(20, (_POLLED.live("CONNECTED"),)), Poll(35),
            NotFound(36, 101),
        ],
        [
            Call(
                101, "answered", (101,), wait=7, talk=29, hold=None, user="Ann Example",
                columns={"sources": "poll", "unconfirmed": 1},
            )
        ],
        during={6: [{"state": "ringing"}], 21: [{"state": "talking"}]},
    ),
    Script(
        "only polls report the transferred call",
        [
            Poll(20, (_POLLED.live("CONNECTED"),)),
            Poll(35, (_POLLED.live("ON_HOLD"),)),
            Poll(50, (_POLLED_CHILD.live("CONNECTED", parent_id=101),)),
            NotFound(51, 101),
            Poll(65),
            NotFound(66, 102),
        ],
        [
            Call(
                101, "answered", (101, 102), wait=7, talk=59, hold=None, user="Ann Example",
                columns={"sources": "poll", "unconfirmed": 1},
            )
        ],
    ),
    Script(
        "unknown context and state, known user",
        [
            _NEW_CONTEXT.ringing(), _NEW_CONTEXT.webhook("connected", 7, state="BRIDGED"),
            _NEW_CONTEXT.hangup(18),
        ],
        [replace(_ANSWERED, columns={"context": "NEW_THING"})],
    ),
    Script(
        "unknown context without a user",
        [_NEW_END.answer(), _NEW_END.hangup(18)],
        [Call(101, "missed", (101,), wait=18, talk=None, columns={"context": "NEW_THING"})],
    ),
    Script(
        "only DTMF shows the connection",
        [
            _ANN.ringing(), _ANN.webhook("dtmf", 9, dtmf_tag="*", dtmf_target="U:1000001"), _ANN.hangup(18),
        ],
        [_ANSWERED],
        during={10: [{"state": "talking"}]},
    ),
    Script(
        "DTMF on hold does not end the hold",
        [
            _HOLDING.ringing(), _HOLDING.answer(), _HOLDING.webhook("hold", 10),
            _HOLDING.webhook("dtmf", 12, state="CONNECTED", dtmf_tag="#"), _HOLDING.webhook("unhold", 20),
            _HOLDING.hangup(30),
        ],
        [
            Call(
                101, "answered", (101,), wait=5, talk=15, hold=10, user="Ann Example",
                columns={"hold_incomplete": 0},
            )
        ],
        during={15: [{"state": "on_hold"}]},
    ),
    Script(
        "a hang-up and a later miss of one leg",
        [_MISSED.ringing(), _MISSED.hangup(18), _MISSED.missed(20)],
        [Call(101, "missed", (101,), wait=18, talk=None, user="Ann Example")],
    ),
    Script(
        "one caller in several spellings",
        [
            *(
                replace(leg, src=src, connected=None).ringing()
                for leg, src in zip(
                    _GROUP, ("447700900101", "+44 7700 900101", "00447700900101"), strict=True
                )
            ),
            *(
                replace(leg, src=src, connected=None).missed(18)
                for leg, src in zip(_GROUP, ("447700900101", "+44 7700 900101", "07700900101"), strict=True)
            ),
        ],
        [Call(101, "missed", (101, 102, 103), wait=18, talk=None)],
    ),
    Script(
        "hold and unhold in one second, by different servers",
        [
            _HOLDING.ringing(), _HOLDING.answer(), _HOLDING.webhook("hold", 10.7),
            _OTHER_SERVER.webhook("unhold", 10.1), _HOLDING.hangup(30),
        ],
        [
            Call(
                101, "answered", (101,), wait=5, talk=25, user="Ann Example",
                columns={"hold_incomplete": 0},
            )
        ],
        during={15: [{"state": "talking"}]},
    ),
    Script(
        "two subscriptions report each event",
        [
            *(leg.ringing() for leg in (_HOLDING, _OTHER_SERVER)),
            *(leg.answer() for leg in (_HOLDING, _OTHER_SERVER)),
            *(leg.webhook("hold", 10) for leg in (_HOLDING, _OTHER_SERVER)),
            *(leg.webhook("unhold", 20) for leg in (_HOLDING, _OTHER_SERVER)),
            *(leg.hangup(30) for leg in (_HOLDING, _OTHER_SERVER)),
        ],
        [
            Call(
                101, "answered", (101,), wait=5, talk=15, hold=10, user="Ann Example",
                columns={"hold_incomplete": 0, "legs": 1},
            )
        ],
    ),
]  # fmt: skip
