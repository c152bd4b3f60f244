"""Scripts of calls to a queue.

Sales rings a phone for 15 s and the next one after 5 s.
"""

from __future__ import annotations

from tests.mirror.calls.scripts.facts import ANN, BOB, CAT, SALES, Leg, music
from tests.mirror.calls.scripts.script import Call, Script

_MUSIC = music(301, connected=1, root=301)
_LOOSE_MUSIC = music(301, connected=1)
_ANN = Leg(302, ANN, 2, context=SALES, root=301)
_BOB = Leg(303, BOB, 2, context=SALES, root=301)
_CAT = Leg(304, CAT, 2, context=SALES, root=301)
_ANN_ANSWERS = Leg(302, ANN, 2, connected=8, context=SALES, root=301)
_REPEATED = [Leg(302, ANN, 2, context=SALES), Leg(303, ANN, 22, context=SALES)]
_ANSWERED_LATER = Leg(304, ANN, 42, connected=45, context=SALES)
_MENU = Leg(
    300, None, 0, connected=0, context="IVR", root=300, dst_id="90001", dst_name="Menu"
)  # fmt: skip
_MENU_MUSIC = music(301, connected=12, start=12, root=300)
_MENU_ANN = Leg(302, ANN, 14, connected=20, context=SALES, root=300)
_MAILBOX = Leg(305, None, 40, connected=40, context="VOICEMAIL", root=301)
_GROUP = {"group_kind": "queue", "group_id": 70001, "group_name": "Sales"}

SCRIPTS = [
    Script(
        "queue, an agent answers",
        [
            _MUSIC.webhook("initial", 0.1), _MUSIC.answer(),
            _ANN_ANSWERS.ringing(), _BOB.ringing(), _ANN_ANSWERS.answer(), _BOB.missed(8.1, final=False),
            _ANN_ANSWERS.hangup(38), _MUSIC.hangup(38.1),
            _MUSIC.cdr(38, 37, at=90, charge=0.01), _ANN_ANSWERS.cdr(36, 30, at=90),
        ],
        [
            Call(
                301, "answered", (301, 302, 303), wait=8, talk=30, user="Ann Example",
                columns={"charge": 0.01, **_GROUP},
            )
        ],
        during={5: [{"state": "ringing", "answered_at": None}], 10: [{"state": "talking"}]},
    ),
    Script(
        "queue that rings one agent three times, without roots",
        [
            _LOOSE_MUSIC.answer(), _REPEATED[0].ringing(), _REPEATED[0].missed(17),
            _REPEATED[1].ringing(), _REPEATED[1].missed(37),
            _ANSWERED_LATER.ringing(), _ANSWERED_LATER.answer(),
            _ANSWERED_LATER.hangup(70), _LOOSE_MUSIC.hangup(70),
        ],
        [
            Call(
                301, "answered", (301, 302, 303, 304), wait=45, talk=25, user="Ann Example",
                columns={"provisional": 1, **_GROUP},
            )
        ],
    ),
    Script(
        "a menu leads to a queue, an agent answers",
        [
            _MENU.answer(), _MENU.hangup(12), _MENU_MUSIC.answer(), _MENU_ANN.ringing(), _MENU_ANN.answer(),
            _MENU_ANN.hangup(50), _MENU_MUSIC.hangup(50),
        ],
        [
            Call(
                300, "answered", (300, 301, 302), wait=20, talk=30, user="Ann Example",
                columns={"ivr_seconds": 12, **_GROUP},
            )
        ],
    ),
    Script(
        "a menu, the caller leaves",
        [_MENU.answer(), _MENU.hangup(30)],
        [
            Call(
                300, "missed", (300,), wait=30, talk=None,
                columns={"ivr_seconds": 30, "group_kind": "ivr", "group_name": "Menu"},
            )
        ],
    ),
    Script(
        "queue, the caller leaves within the short time",
        [_MUSIC.answer(), _MUSIC.hangup(3)],
        [Call(301, "abandoned", (301,), wait=3, talk=None, columns=_GROUP)],
    ),
    Script(
        "queue, the caller leaves a message",
        [
            _MUSIC.answer(), _ANN.ringing(), _ANN.missed(17, final=False), _MUSIC.hangup(40),
            _MAILBOX.answer(), _MAILBOX.hangup(60), _MAILBOX.voicemail(61, parent_live_id=301),
        ],
        [
            Call(
                301, "voicemail", (301, 302, 305), wait=60, talk=None, user="Ann Example",
                columns={"voicemails": 1, **_GROUP},
            )
        ],
    ),
]  # fmt: skip
