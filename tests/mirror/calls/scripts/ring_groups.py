"""Scripts of calls to ring groups and hunt groups.

Support rings a phone for 20 s.
"""

from __future__ import annotations

from dataclasses import replace

from tests.mirror.calls.scripts.facts import ANN, BOB, CAT, SUPPORT, Leg
from tests.mirror.calls.scripts.script import Call, Script

_ANN = Leg(101, ANN, context=SUPPORT, root=101)
_BOB = Leg(102, BOB, context=SUPPORT, root=101)
_CAT = Leg(103, CAT, context=SUPPORT, root=101)
_BOB_ANSWERS = replace(_BOB, connected=7)
_LOOSE = [replace(leg, root=None) for leg in (_ANN, _BOB, _CAT)]
_LOOSE_BOB_ANSWERS = replace(_BOB_ANSWERS, root=None)
_HUNT = [Leg(401, ANN, 0, context=SUPPORT), Leg(402, BOB, 20, context=SUPPORT)]
_HUNT_END = Leg(403, CAT, 41, connected=47, context=SUPPORT)
_OVERLAP = Leg(402, BOB, 20, connected=26, context=SUPPORT)
_LATE_BOB = Leg(102, BOB, 31, connected=36, context=SUPPORT)
_EARLY_BOB = replace(_BOB, connected=6)
_REDIAL = [Leg(201, ANN, 30, context=SUPPORT), Leg(202, BOB, 30, context=SUPPORT)]
_MAILBOX = Leg(104, None, 20)
_GROUP = {"group_kind": "ringgroup", "group_id": 80001, "group_name": "Support"}

SCRIPTS = [
    Script(
        "ring group of three, the second phone answers",
        [
            _ANN.webhook("initial", 0.1),
            _BOB_ANSWERS.webhook("initial", 0.11),
            _CAT.webhook("initial", 0.12),
            _CAT.missed(0.2, final=False, t_cause="No user responding"),
            _ANN.ringing(0.3),
            _BOB_ANSWERS.ringing(0.31),
            _CAT.ringing(0.32),
            _BOB_ANSWERS.answer(),
            _ANN.missed(7.1, final=False),
            _BOB_ANSWERS.hangup(18),
        ],
        [
            Call(
                101, "answered", (101, 102, 103), wait=7, talk=11, user="Bob Sample",
                columns={"provisional": 0, **_GROUP},
            )
        ],
        during={5: [{"state": "ringing", "legs": 3}], 10: [{"state": "talking", "user_name": "Bob Sample"}]},
    ),
    Script(
        "ring group of three, only missed legs name the root",
        [
            *(leg.ringing() for leg in _LOOSE),
            _LOOSE[2].missed(0.5, final=False, root_call_id=101),
            _LOOSE_BOB_ANSWERS.answer(),
            _LOOSE[0].missed(7.1, final=False, root_call_id=101),
            _LOOSE_BOB_ANSWERS.hangup(18),
        ],
        [
            Call(
                101, "answered", (101, 102, 103), wait=7, talk=11, user="Bob Sample",
                columns={"provisional": 1, **_GROUP},
            )
        ],
        during={0.6: [{"state": "ringing", "legs": 3}], 9: [{"state": "talking", "legs": 3}]},
    ),
    Script(
        "hunt group, the third phone answers",
        [
            _HUNT[0].ringing(), _HUNT[0].missed(20), _HUNT[1].ringing(), _HUNT[1].missed(40),
            _HUNT_END.ringing(), _HUNT_END.answer(), _HUNT_END.hangup(60),
        ],
        [
            Call(
                401, "answered", (401, 402, 403), wait=47, talk=13, user="Cat Specimen",
                columns={"provisional": 1, **_GROUP},
            )
        ],
        during={
            40.5: [{"state": "ended", "outcome": None, "legs": 2}],
            42: [{"state": "ringing", "legs": 3}],
        },
    ),
    Script(
        "hunt group, the second phone starts a second before the end of the first",
        [
            _HUNT[0].ringing(), _OVERLAP.ringing(), _HUNT[0].missed(21), _OVERLAP.answer(),
            _OVERLAP.hangup(60),
        ],
        [Call(401, "answered", (401, 402), wait=26, talk=34, user="Bob Sample", columns={"provisional": 1})],
        during={21: [{"state": "ringing", "legs": 2}]},
    ),
    Script(
        "hunt group, CDRs that overlap by a second",
        [_HUNT[0].cdr(21, 0, at=90), _OVERLAP.cdr(40, 34, at=90)],
        [
            Call(
                401, "answered", (401, 402), wait=26, talk=34, hold=None, user="Bob Sample",
                columns={"provisional": 1},
            )
        ],
    ),
    Script(
        "hunt group, a phone that overlaps the first joins the call that names its root",
        [
            _HUNT[0].ringing(), _HUNT[0].missed(21, final=False, root_call_id=401), _OVERLAP.ringing(),
            _OVERLAP.answer(), _OVERLAP.hangup(60),
        ],
        [Call(401, "answered", (401, 402), wait=26, talk=34, user="Bob Sample", columns={"provisional": 1})],
    ),
    Script(
        "ring group, a message names the root, which has no facts",
        [
            *(leg.ringing() for leg in (_BOB, _CAT)),
            _BOB.missed(18, final=False), _CAT.missed(18.1, final=True),
            _MAILBOX.voicemail(60, parent_live_id=101),
        ],
        [Call(101, "voicemail", (102, 103), wait=18, talk=None, columns={"voicemails": 1})],
        during={59: [{"outcome": "missed"}]},
    ),
    Script(
        "ring group, a final miss while another phone talks",
        [
            _ANN.ringing(), _EARLY_BOB.ringing(), _EARLY_BOB.answer(),
            _ANN.missed(7, final=True), _EARLY_BOB.hangup(30),
        ],
        [Call(101, "answered", (101, 102), wait=6, talk=24, user="Bob Sample")],
        during={10: [{"state": "talking", "outcome": None}]},
    ),
    Script(
        "ring group, a final miss ends the leg whose own miss is lost",
        [_ANN.ringing(), _BOB.ringing(), _ANN.missed(18, final=True)],
        [Call(101, "missed", (101, 102), wait=18, talk=None)],
    ),
    *(
        Script(
            f"the caller dials again after a final miss, {title}",
            [
                _LOOSE[0].ringing(), _LOOSE[1].ringing(),
                _LOOSE[0].missed(18, final=False, **root), _LOOSE[1].missed(18.1, final=True, **root),
                _REDIAL[0].ringing(), _REDIAL[1].ringing(),
                _REDIAL[0].missed(40, final=False), _REDIAL[1].missed(40.1, final=True),
            ],
            [
                Call(101, "missed", (101, 102), wait=18, talk=None),
                Call(201, "missed", (201, 202), wait=10, talk=None),
            ],
            during={
                29: [{"state": "ended", "outcome": "missed"}],
                31: [{"state": "ended", "outcome": "missed"}, {"state": "ringing", "legs": 2}],
            },
        )
        for title, root in (("with roots", {"root_call_id": 101}), ("without roots", {}))
    ),
    Script(
        "a leg that is reported late withdraws the missed call",
        [
            _LOOSE[0].ringing(), _LOOSE[0].missed(10),
            _LATE_BOB.ringing(34), _LATE_BOB.answer(), _LATE_BOB.hangup(50),
        ],
        [Call(101, "answered", (101, 102), wait=36, talk=14, user="Bob Sample")],
        during={
            33: [{"state": "ended", "outcome": "missed"}],
            35: [{"state": "ringing", "outcome": None}],
            40: [{"state": "talking", "outcome": None}],
        },
    ),
]  # fmt: skip
