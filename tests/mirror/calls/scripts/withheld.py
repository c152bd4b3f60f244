"""Scripts of callers who withhold their number, at a ring group and at a queue."""

from __future__ import annotations

from dataclasses import replace

from tests.mirror.calls.scripts.facts import ANN, BOB, CAT, SALES, SUPPORT, Leg, music
from tests.mirror.calls.scripts.script import Call, Script


def _ring(leg_id: int, user: int, start: float = 0, **fields: object) -> Leg:
    leg = Leg(leg_id, user, start, context=SUPPORT, src="", src_name=None)
    return replace(leg, **fields)  # type: ignore[arg-type]


_FIRST = [_ring(101, ANN), _ring(102, BOB), _ring(103, CAT)]
_SECOND = [_ring(104, ANN, 1), _ring(105, BOB, 1), _ring(106, CAT, 1)]
_LATER = [_ring(104, ANN, 30), _ring(105, BOB, 30)]
_ROOTED = [_ring(101, ANN, root=101), _ring(102, BOB, root=101)]
_MUSIC = music(301, connected=1, src="", src_name=None)
_OTHER_MUSIC = music(302, connected=2, start=1, src="", src_name=None)
_LATER_MUSIC = music(303, connected=22, start=21, src="", src_name=None)
_REPEATED = [
    Leg(302, ANN, 2, context=SALES, src="", src_name=None),
    Leg(304, ANN, 22, context=SALES, src="", src_name=None),
]
_QUEUED = [
    Leg(302, ANN, 0, context=SALES, src="", src_name=None),
    Leg(303, ANN, 1, context=SALES, src="", src_name=None),
]


def _missed(call_id: int, legs: tuple[int, ...], wait: int = 18, **fields: object) -> Call:
    call = Call(call_id, "missed", legs, wait=wait, talk=None, party="")
    return replace(call, **fields)  # type: ignore[arg-type]


SCRIPTS = [
    Script(
        "a withheld caller at a ring group of three",
        [*(leg.ringing() for leg in _FIRST), *(leg.missed(18) for leg in _FIRST)],
        [_missed(101, (101, 102, 103), columns={"provisional": 1})],
    ),
    Script(
        "a withheld caller in two spellings at a ring group",
        [
            _FIRST[0].ringing(), replace(_FIRST[1], src="anonymous").ringing(), _FIRST[0].missed(18),
            replace(_FIRST[1], src="anonymous").missed(18),
        ],
        [_missed(101, (101, 102), columns={"provisional": 1})],
    ),
    Script(
        "two withheld callers ring one phone at the same time",
        [_FIRST[0].ringing(), _SECOND[0].ringing(), _FIRST[0].missed(18), _SECOND[0].missed(19)],
        [
            _missed(101, (101,), user="Ann Example", columns={"provisional": 0}),
            _missed(104, (104,), user="Ann Example", columns={"provisional": 0}),
        ],
        during={5: [{"state": "ringing"}, {"state": "ringing"}]},
    ),
    Script(
        "two withheld callers ring a group of three at the same time",
        [
            *(leg.ringing() for leg in (*_FIRST, *_SECOND)),
            *(leg.missed(18) for leg in _FIRST), *(leg.missed(19) for leg in _SECOND),
        ],
        [_missed(101, (101, 102, 103)), _missed(104, (104, 105, 106))],
    ),
    Script(
        "a withheld caller with known root and one without",
        [
            *(leg.ringing() for leg in _ROOTED), _SECOND[0].ringing(),
            _ROOTED[0].missed(18, final=False), _ROOTED[1].missed(18, final=True), _SECOND[0].missed(19),
        ],
        [_missed(101, (101, 102)), _missed(104, (104,), user="Ann Example")],
    ),
    Script(
        "a withheld caller, only missed legs name the root",
        [
            *(leg.ringing() for leg in _FIRST), _FIRST[2].missed(0.5, final=False, root_call_id=101),
            replace(_FIRST[1], connected=6).answer(), replace(_FIRST[1], connected=6).hangup(26),
            _FIRST[0].missed(6, final=False, root_call_id=101),
        ],
        [Call(101, "answered", (101, 102, 103), wait=6, talk=20, user="Bob Sample", party="")],
    ),
    Script(
        "a withheld caller calls the ring group again",
        [
            *(leg.ringing() for leg in _FIRST[:2]), *(leg.missed(18) for leg in _FIRST[:2]),
            *(leg.ringing() for leg in _LATER), *(leg.missed(45) for leg in _LATER),
        ],
        [_missed(101, (101, 102)), _missed(104, (104, 105), wait=15)],
    ),
    Script(
        "a queue rings one phone twice for a withheld caller",
        [
            _MUSIC.answer(), _REPEATED[0].ringing(), _REPEATED[0].missed(17), _REPEATED[1].ringing(),
            _REPEATED[1].missed(37), _MUSIC.hangup(60),
        ],
        [_missed(301, (301, 302, 304), wait=60, user="Ann Example", columns={"provisional": 1})],
    ),
    Script(
        "a withheld caller enters a queue that rings a phone for another",
        [
            _MUSIC.answer(), _REPEATED[0].ringing(), _REPEATED[0].missed(17), _LATER_MUSIC.answer(),
            _REPEATED[1].ringing(), _REPEATED[1].missed(37), _MUSIC.hangup(50), _LATER_MUSIC.hangup(60),
        ],
        [
            _missed(301, (301, 302), wait=50, user="Ann Example"),
            _missed(303, (303, 304), wait=39, user="Ann Example"),
        ],
    ),
    Script(
        "two withheld callers enter a queue at the same time",
        [_MUSIC.answer(), _OTHER_MUSIC.answer(), _MUSIC.hangup(30), _OTHER_MUSIC.hangup(40)],
        [_missed(301, (301,), wait=30), _missed(302, (302,), wait=39)],
    ),
    Script(
        "a queue rings one phone for two withheld callers at the same time",
        [_QUEUED[0].ringing(), _QUEUED[1].ringing(), _QUEUED[0].missed(18), _QUEUED[1].missed(19)],
        [_missed(302, (302,), user="Ann Example"), _missed(303, (303,), user="Ann Example")],
    ),
]  # fmt: skip
