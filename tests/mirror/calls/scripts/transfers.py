"""Scripts of hold, transfer, park and conference."""

from __future__ import annotations

from tests.mirror.calls.scripts.facts import ANN, BOB, DDI, Leg, internal
from tests.mirror.calls.scripts.script import Call, Script

_ANN = Leg(101, ANN, connected=5, root=101)
_CONSULTATION = internal(102, BOB, start=26, connected=30)
_BLIND_MISSED = Leg(102, BOB, 25)
_ABROAD = Leg(
    102, None, 26, connected=35, context="PSTN_CALL", src=DDI, src_id=str(ANN), src_name="Ann Example",
    dst="447700900105", destination="out",
)  # fmt: skip
_PARKED = Leg(102, None, 25, connected=25, context="PARK", root=101)
_FETCHED = Leg(103, BOB, 55, connected=56, root=101)
_ROOM = {"context": "CONFERENCE", "dst_id": "5001", "dst_name": "Team"}
_GUEST = Leg(101, None, 10, connected=12, root=101, **_ROOM)
_HOST = internal(111, BOB, connected=0, dst="700", **_ROOM)
_LATE_HOST = internal(111, BOB, start=18, connected=20, dst="700", **_ROOM)

SCRIPTS = [
    Script(
        "blind transfer, not answered",
        [
            _ANN.ringing(), _ANN.answer(), _ANN.hangup(25), _BLIND_MISSED.ringing(),
            _BLIND_MISSED.missed(45, root_call_id=101, final=True),
        ],
        [Call(101, "answered", (101, 102), wait=5, talk=20, user="Ann Example")],
    ),
    Script(
        "transfer to an outside number",
        [
            _ANN.ringing(), _ANN.answer(), _ANN.hangup(25), _ABROAD.ringing(), _ABROAD.answer(),
            _ABROAD.hangup(80), _ANN.cdr(25, 20, at=120),
            _ABROAD.cdr(54, 45, at=120, parent_live_id=101, user_id=ANN, charge=0.03),
        ],
        [Call(101, "answered", (101, 102), wait=5, talk=65, user="Ann Example", columns={"charge": 0.03})],
    ),
    Script(
        "parked and fetched by a colleague",
        [
            _ANN.ringing(), _ANN.answer(), _ANN.hangup(25), _PARKED.answer(), _PARKED.hangup(56),
            _FETCHED.ringing(), _FETCHED.answer(), _FETCHED.hangup(85),
        ],
        [Call(101, "answered", (101, 102, 103), wait=5, talk=49, user="Ann Example")],
    ),
    Script(
        "parked and not fetched",
        [_ANN.ringing(), _ANN.answer(), _ANN.hangup(25), _PARKED.answer(), _PARKED.hangup(90)],
        [Call(101, "answered", (101, 102), wait=5, talk=20, user="Ann Example")],
    ),
    Script(
        "parked at once, no person talks",
        [
            Leg(101, ANN, 0, connected=1, context="PARK", root=101).answer(),
            Leg(101, ANN, 0, connected=1, context="PARK", root=101).hangup(30),
        ],
        [Call(101, "missed", (101,), wait=30, talk=None, user="Ann Example")],
    ),
    Script(
        "conference with a user",
        [_HOST.answer(), _GUEST.answer(), _GUEST.hangup(80), _HOST.hangup(100)],
        [
            Call(101, "answered", (101,), wait=2, talk=68),
            Call(
                111, "internal", (111,), wait=0, talk=100, party="1001",
                direction="internal",
            ),
        ],
    ),
    Script(
        "conference that a user joins later",
        [_GUEST.answer(), _LATE_HOST.answer(), _GUEST.hangup(80), _LATE_HOST.hangup(81)],
        [
            Call(101, "answered", (101,), wait=10, talk=68),
            Call(
                111, "internal", (111,), wait=2, talk=61, party="1001",
                direction="internal",
            ),
        ],
    ),
    Script(
        "conference that a user leaves before the caller is connected",
        [_HOST.answer(), _HOST.hangup(11), _GUEST.answer(), _GUEST.hangup(80)],
        [
            Call(101, "missed", (101,), wait=70, talk=None),
            Call(111, "internal", (111,), wait=0, talk=11, party="1001", direction="internal"),
        ],
    ),
    Script(
        "conference without a user",
        [_GUEST.answer(), _GUEST.hangup(80)],
        [Call(101, "missed", (101,), wait=70, talk=None)],
    ),
]  # fmt: skip
