"""Scripts of Follow-Me, network-unavailable targets and voicemail."""

from __future__ import annotations

from dataclasses import replace

from tests.mirror.calls.scripts.facts import ANN, DDI, Leg
from tests.mirror.calls.scripts.script import Call, Script

_ANN = Leg(101, ANN, root=101)
_MOBILE = "447700900199"
_FORWARDED = Leg(102, None, 20, connected=28, context="FOLLOW_ME", root=101, dst=_MOBILE)
_FORWARDED_OUT = Leg(
    102, None, 20, connected=28, context="FOLLOW_ME", root=101, dst=_MOBILE, src=DDI, src_id=str(ANN),
    src_name="Ann Example", destination="out",
)  # fmt: skip
_FORWARDED_CALLER = replace(_FORWARDED, src_name="Carol Customer", destination="out")
_FORWARDED_MISSED = Leg(102, None, 20, context="FOLLOW_ME", root=101, dst=_MOBILE)
_UNAVAILABLE = Leg(101, None, 0, connected=6, context="NETWORK_UNAVAILABLE", root=101, dst=_MOBILE)
_MAILBOX = Leg(102, None, 20, connected=20, context="VOICEMAIL", root=101)
_VM = Leg(101, ANN, connected=20, root=101)

SCRIPTS = [
    Script(
        "Follow-Me, answered outside, reported as inbound",
        [
            _ANN.ringing(), _ANN.missed(20, final=False), _FORWARDED.ringing(), _FORWARDED.answer(),
            _FORWARDED.hangup(58), _FORWARDED.cdr(38, 30, at=90, user_id=ANN, charge=0.02),
        ],
        [
            Call(
                101, "answered", (101, 102), wait=28, talk=30, user="Ann Example", columns={"charge": 0.02}
            )
        ],
    ),
    Script(
        "Follow-Me, answered outside, reported as outbound",
        [
            _ANN.ringing(), _ANN.missed(20, final=False), _FORWARDED_OUT.ringing(), _FORWARDED_OUT.answer(),
            _FORWARDED_OUT.hangup(58), _FORWARDED_OUT.cdr(38, 30, at=90, user_id=ANN),
        ],
        [Call(101, "answered", (101, 102), wait=28, talk=30, user="Ann Example")],
    ),
    Script(
        "Follow-Me, reported as outbound of a caller with a name",
        [
            _ANN.ringing(), _ANN.missed(20, final=False), _FORWARDED_CALLER.ringing(),
            _FORWARDED_CALLER.answer(), _FORWARDED_CALLER.hangup(58),
        ],
        [Call(101, "answered", (101, 102), wait=28, talk=30)],
    ),
    Script(
        "Follow-Me, not answered",
        [
            _ANN.ringing(), _ANN.missed(20, final=False), _FORWARDED_MISSED.ringing(),
            _FORWARDED_MISSED.missed(40, final=True),
        ],
        [Call(101, "missed", (101, 102), wait=40, talk=None)],
    ),
    Script(
        "network-unavailable target, answered",
        [_UNAVAILABLE.ringing(), _UNAVAILABLE.answer(), _UNAVAILABLE.hangup(26)],
        [Call(101, "answered", (101,), wait=6, talk=20)],
    ),
    Script(
        "voicemail message of a mailbox leg",
        [
            _ANN.ringing(), _ANN.missed(20, final=False), _MAILBOX.answer(), _MAILBOX.hangup(45),
            _MAILBOX.cdr(25, 25, at=60, disposition="VM"), _MAILBOX.voicemail(62, parent_live_id=101),
        ],
        [
            Call(
                101, "voicemail", (101, 102), wait=45, talk=None, user="Ann Example",
                columns={"voicemails": 1},
            )
        ],
    ),
    Script(
        "voicemail message that names only the parent leg",
        [_ANN.ringing(), _ANN.missed(20, final=True), _ANN.voicemail(62, live_id=199, parent_live_id=101)],
        [
            Call(
                101, "voicemail", (101,), wait=20, talk=None, user="Ann Example", columns={"voicemails": 1}
            )
        ],
    ),
    Script(
        "mailbox answers, no message is left",
        [
            _VM.ringing(), _VM.answer(), _VM.hangup(45),
            _VM.cdr(45, 25, at=60, disposition="VM"),
        ],
        [Call(101, "missed", (101,), wait=45, talk=None, user="Ann Example")],
        during={600: [{"outcome": "voicemail"}], 650: [{"outcome": "missed"}]},
    ),
    Script(
        "a message is left although a person answered",
        [_VM.ringing(), _VM.answer(), _VM.hangup(45), _VM.cdr(45, 25, at=60), _VM.voicemail(62)],
        [
            Call(
                101, "answered", (101,), wait=20, talk=25, user="Ann Example", columns={"voicemails": 1}
            )
        ],
    ),
]  # fmt: skip
