"""Scripts of calls to one phone, without groups."""

from __future__ import annotations

from tests.mirror.calls.scripts.facts import ANN, BOB, CAT, OTHER, Leg, internal
from tests.mirror.calls.scripts.script import Call, Item, Script

_ANN = Leg(101, ANN, root=101)
_ANSWERED = Leg(101, ANN, connected=7, root=101)
_DOCUMENTED = Leg(101, ANN)
_BOB = internal(111, BOB, connected=4)
_CAT = internal(111, CAT)
_LONG = Leg(101, ANN, connected=5, root=101)
_SECOND_MISSED = Leg(102, ANN, start=20, src=OTHER, root=102)
_SECOND_ANSWERED = Leg(102, ANN, start=15, connected=20, src=OTHER, root=102)
_REDIAL = Leg(102, ANN, start=12, connected=16, root=102)

SCRIPTS = [
    Script(
        "inbound, answered, hung up by the caller",
        [
            _ANSWERED.webhook("initial", 0.1),
            _ANSWERED.ringing(),
            _ANSWERED.answer(),
            _ANSWERED.hangup(18),
            _ANSWERED.cdr(18, 11, at=60, charge=0.006),
            _ANSWERED.recording(65),
        ],
        [
            Call(
                101, "answered", (101,), wait=7, talk=11, user="Ann Example",
                columns={
                    "started_at": "2026-09-02 08:45:55", "answered_at": "2026-09-02 08:46:02",
                    "ended_at": "2026-09-02 08:46:13", "ended_by": "caller", "charge": 0.006,
                    "recordings": 1, "cdrs": 1, "unconfirmed": 0, "our_e164": "+442079460002",
                    "sources": "webhook,cdr", "extension": "1001",
                },
            )
        ],
        during={5: [{"state": "ringing", "outcome": None}], 10: [{"state": "talking", "outcome": None}]},
    ),
    Script(
        "inbound, missed, final",
        [_ANN.ringing(), _ANN.missed(18, final=True)],
        [Call(101, "missed", (101,), wait=18, talk=None, user="Ann Example")],
        [Item("+447700900101")],
        during={18: [{"state": "ended", "outcome": "missed"}]},
    ),
    Script(
        "inbound, missed, in the documented form",
        [_DOCUMENTED.ringing(), _DOCUMENTED.missed(18, state="MISSED", t_cause="No Answer")],
        [
            Call(
                101, "missed", (101,), wait=18, talk=None, user="Ann Example",
                columns={"t_cause": "No Answer"},
            )
        ],
        [Item("+447700900101")],
        during={22: [{"state": "ended", "outcome": None}], 23: [{"state": "ended", "outcome": "missed"}]},
    ),
    Script(
        "inbound, given up within the short time",
        [_ANN.ringing(), _ANN.missed(3, final=True)],
        [Call(101, "abandoned", (101,), wait=3, talk=None, user="Ann Example")],
    ),
    Script(
        "inbound, refused by a busy phone at once",
        [_ANN.ringing(), _ANN.missed(1, final=True, t_cause="User busy", terminated_by=None)],
        [
            Call(
                101, "missed", (101,), wait=1, talk=None, user="Ann Example",
                columns={"t_cause": "User busy", "ended_by": None},
            )
        ],
        [Item("+447700900101")],
    ),
    Script(
        "internal, answered",
        [
            _BOB.webhook("initial", 0.1),
            _BOB.ringing(),
            _BOB.answer(),
            _BOB.hangup(24),
            _BOB.cdr(24, 20, at=50, user_id=ANN),
        ],
        [
            Call(
                111, "internal", (111,), wait=4, talk=20, user="Bob Sample", party="1001",
                direction="internal", columns={"party_name": "Ann Example"},
            )
        ],
        during={10: [{"state": "talking", "direction": "internal"}]},
    ),
    Script(
        "internal, not answered",
        [_CAT.ringing(), _CAT.missed(15, final=True)],
        [
            Call(
                111, "internal", (111,), wait=15, talk=None, user="Cat Specimen", party="1001",
                direction="internal",
            )
        ],
    ),
    Script(
        "a second caller rings the phone of a user who talks",
        [
            _LONG.ringing(),
            _LONG.answer(),
            _SECOND_MISSED.ringing(),
            _SECOND_MISSED.missed(40, final=True),
            _LONG.hangup(60),
        ],
        [
            Call(101, "answered", (101,), wait=5, talk=55, user="Ann Example"),
            Call(102, "missed", (102,), wait=20, talk=None, user="Ann Example", party="+447700900102"),
        ],
        [Item("+447700900102")],
        during={30: [{"state": "talking"}, {"state": "ringing"}]},
    ),
    Script(
        "a user holds one caller and answers another",
        [
            _LONG.ringing(),
            _LONG.answer(),
            _SECOND_ANSWERED.ringing(),
            _LONG.webhook("hold", 20),
            _SECOND_ANSWERED.answer(),
            _SECOND_ANSWERED.hangup(35),
            _LONG.webhook("unhold", 36),
            _LONG.hangup(60),
        ],
        [
            Call(
                101, "answered", (101,), wait=5, talk=39, hold=16, user="Ann Example",
                columns={"hold_incomplete": 0},
            ),
            Call(102, "answered", (102,), wait=5, talk=15, user="Ann Example", party="+447700900102"),
        ],
        during={30: [{"state": "on_hold"}, {"state": "talking"}]},
    ),
    Script(
        "a missed caller calls again and is answered",
        [
            _ANN.ringing(),
            _ANN.missed(10, final=True),
            _REDIAL.ringing(),
            _REDIAL.answer(),
            _REDIAL.hangup(30),
        ],
        [
            Call(101, "missed", (101,), wait=10, talk=None, user="Ann Example"),
            Call(102, "answered", (102,), wait=4, talk=14, user="Ann Example"),
        ],
        [Item("+447700900101", state="closed")],
    ),
    Script(
        "a missed caller is missed twice",
        [
            _ANN.ringing(),
            _ANN.missed(18, final=True),
            Leg(102, BOB, start=100, root=102).ringing(),
            Leg(102, BOB, start=100, root=102).missed(130, final=True),
        ],
        [
            Call(101, "missed", (101,), wait=18, talk=None, user="Ann Example"),
            Call(102, "missed", (102,), wait=30, talk=None, user="Bob Sample"),
        ],
        [Item("+447700900101", attempts=2)],
    ),
]  # fmt: skip
