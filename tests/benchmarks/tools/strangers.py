"""CDRs of an account without repetition: the second mix of the benchmark full_sync.

No cache helps: every call has a number of its own, in one of the notations that platforms use, and names in
several scripts. A tenth of the CDRs name the CDR before as parent, and one in twenty has notes.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import orjson

from integration.core import clock

LIVE = 5_000_000_000
SECONDS_PER_CDR = 37
NAMES = (
    "Ångström Søn",
    "山田太郎",
    "Михаил Образцов",
    "شركة المثال",
    "🦊 Fox & Co",
    "Δοκιμή Α.Ε.",
    "ตัวอย่าง",
    "Zoë Ünal",
    "예시 주식회사",
    "",
)
FIRST_IDEOGRAPH, IDEOGRAPHS = 0x4E00, 20_000
"""Code points of the last character of names, which makes them differ."""
DESTINATIONS = (
    ("in", "LOCAL_USER", "I"),
    ("out", "PSTN_CALL", "O"),
    ("in", "RG-80001", "I"),
    ("in", "Queue", "I"),
    ("in", "IVR", "I"),
    ("out", "PSTN_CALL", "O"),
    ("in", "VM", "M"),
)
DISPOSITIONS = ("CONNECTED", "NO ANSWER", "CONNECTED", "BUSY", "CONNECTED")
PARENT_EVERY, NOTES_EVERY = 10, 20


@dataclass
class Strangers:
    """CDRs 1 to `cdrs`, in the form of tools/office.py.

    The last one is of the day before `until`.
    """

    cdrs: int
    until: date = field(default_factory=lambda: clock.now().date())
    static: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def moment(self, number: int) -> int:
        """Return the Unix time of CDR `number`."""
        midnight = (self.until.toordinal() - 719_163) * 86_400
        return midnight - SECONDS_PER_CDR * (self.cdrs + 1 - number)

    def cdr(self, number: int) -> bytes:
        """Return CDR `number` as JSON."""
        destination, context, kind = DESTINATIONS[number % len(DESTINATIONS)]
        disposition = DISPOSITIONS[number % len(DISPOSITIONS)]
        outside, inside = _write_number(number), f"442079{number % 1000:06}"
        name = f"{NAMES[number % len(NAMES)]} {chr(FIRST_IDEOGRAPH + number % IDEOGRAPHS)}".strip()
        src, dst = (outside, inside) if destination == "in" else (inside, outside)
        duration = number * 7919 % 600
        return orjson.dumps(
            {
                "id": number,
                "call_id": None,
                "live_id": LIVE + number,
                "parent_live_id": LIVE + number - 1 if number % PARENT_EVERY == 1 and number > 1 else None,
                "root_live_id": None,
                "is_root": None,
                "user_id": 3_000_000 + number % 97,
                "sip_endpoint_id": None,
                "server_id": 12,
                "type": kind,
                "calldate": clock.utc_text(self.moment(number)),
                "clid": f'"{name}" <{src}>',
                "src_id": None,
                "src_name": name,
                "src": src,
                "src_ua": None,
                "src_codec": "opus",
                "dst_id": str(3_000_000 + number % 97),
                "dst": dst,
                "dst_name": name[::-1],
                "dst_ua": None,
                "dst_codec": "PCMA",
                "duration": duration,
                "billsec": duration * 3 // 4 if disposition == "CONNECTED" else 0,
                "disposition": disposition,
                "destination": destination,
                "context": context,
                "rate": 0.035,
                "charge": number % 1000 / 1000,
                "t_cause": "Normal Clearing",
                "info": None,
                "labels": [],
                "metadata": None,
                "nb_notes": int(number % NOTES_EVERY == 0),
            }
        )

    def first_at(self, moment: float) -> int:
        """Return the number of the first CDR at or after a Unix time."""
        return 1 + bisect.bisect_left(range(1, self.cdrs + 1), moment, key=self.moment)


def _write_number(number: int) -> str:
    """Return a number in one of six notations; that of an extension has four to seven digits."""
    digits = f"447{number:09}"
    return (f"+{digits}", digits, f"00{digits}", f"{1000 + number}", "", "anonymous")[number % 6]
