"""Scripts of calls to one phone, without groups."""

from __future__ import annotations

from tests.mirror.calls.scripts.facts import ANN, BOB, Leg, internal
from tests.mirror.calls.scripts.script import Call, Script

_ANN = Leg(101, ANN, root=101)
_ANSWERED = Leg(101, ANN, connected=7, root=101)
_DOCUMENTED = Leg(101, ANN)
_BOB = internal(111, BOB, connected=4)

SCRIPTS = [
    Script(
        "inbound, missed, final",
        [_ANN.ringing(), _ANN.missed(18, final=True)],
        [Call(101, "missed", (101,), wait=18, talk=None, user="Ann Example")],
        during={18: [{"state": "ended", "outcome": "missed"}]},
    ),
    Script(
        "inbound, hangups with different times: the call ends at the latest",
        [_ANSWERED.ringing(), _ANSWERED.answer(), _ANSWERED.hangup(18), _ANSWERED.hangup(20)],
        [Call(101, "answered", (101,), wait=7, talk=13, user="Ann Example")],
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
]  # fmt: skip
