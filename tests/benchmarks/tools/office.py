"""Ten years of calls of one office: the data of all benchmarks.

Caches must not help more than in a real account: ring groups, queues and transfers occur as often as in the
simulator's history, every tenth call has a telephone number of its own, the others repeat 40,000 numbers
unevenly. Each record is computed from its number, so that any page is available without the pages before it.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

import orjson

from integration.core import clock
from integration.simulator.calls.history import seed_history
from integration.simulator.calls.world import World

YEARS = 10
SCRIPTS = 400
"""Calls of the simulator whose legs are repeated with other ids, times and numbers."""
LIVE = 4_278_000_000
CDRS_PER_RECORDING = 20
NUMBERS = 40_000
"""Telephone numbers of calls without a number of their own."""
CALLS_PER_OWN_NUMBER = 10
CONTACTS = 2_000
OPENING, CLOSING = 8.0, 18.0
"""Hours of a working day in which calls begin, most of them around noon."""
LEG_SECONDS = 2
"""Seconds between the first times of two legs of a call."""
WORDS = [
    first + last
    for first in ("con", "de", "in", "per", "pro", "re")
    for last in ("ceipt", "count", "form", "livery", "mise", "tract", "voice")
]
RARE_WORD = "aubergine"
RECORDINGS_PER_RARE_WORD = 500

_ID, _DATE = 1000000007, "2001-02-03 04:05:06"
_LEG, _ROOT, _PARENT = 1000000009, 1000000021, 1000000033


@dataclass(frozen=True)
class Leg:
    """Template of a CDR.

    `leg`, `root` and `parent` are numbers of legs within one repetition of all scripts; `order` is the place
    of the leg within its call.
    """

    script: int
    order: int
    leg: int
    root: int
    parent: int
    pattern: bytes


def party(call: int) -> str:
    """Return the outside number of a call."""
    own, shared = divmod(call, CALLS_PER_OWN_NUMBER)
    if shared == 0:
        return f"447700{own % 900_000:06}"
    share = (call * 2654435761 % 2**32) / 2**32
    return shared_number(int(NUMBERS * share**3))


def shared_number(place: int) -> str:
    """Return one of the numbers that call more than once.

    The lowest places are the most frequent.
    """
    return f"4477009{place:05}"


@dataclass
class Office:
    """CDRs 1 to `cdrs` and their recordings.

    The last one is of the working day before `until`.
    """

    cdrs: int
    until: date = field(default_factory=lambda: clock.now().date())

    def __post_init__(self) -> None:
        world = World(7, None)
        seed_history(world, SCRIPTS)
        self.legs, self.legs_per_cycle = _make_legs(list(world.collections["cdrs"].records.values()))
        self.scripts = self.legs[-1].script + 1
        self.static = {
            name: list(world.collections[name].records.values())
            for name in ("users", "ddis", "queues", "ringgroups")
        }
        contact = next(iter(world.collections["contacts"].records.values()))
        self.static["contacts"] = [
            {**contact, "id": 610_001 + number, "last_name": f"Sample {number}", "company": "Example Ltd",
             "mobile": shared_number(number * 7)}
            for number in range(CONTACTS)
        ]  # fmt: skip
        monitor = next(iter(world.collections["monitors"].records.values()))
        self._monitor = {**monitor, "size": 1024, "duration": 1}
        self.recordings = self.cdrs // CDRS_PER_RECORDING
        self.calls = self._locate(self.cdrs)[0] + 1
        self._first_day = (self.until - timedelta(days=366 * YEARS)).toordinal()
        self._first_day -= date.fromordinal(self._first_day).weekday()
        days = self.until.toordinal() - self._first_day
        self._workdays = days // 7 * 5 + min(days % 7, 5)

    def _locate(self, number: int) -> tuple[int, Leg, int]:
        """Return call, template and first leg number of CDR `number`."""
        cycle, offset = divmod(number - 1, len(self.legs))
        leg = self.legs[offset]
        return cycle * self.scripts + leg.script, leg, LIVE + cycle * self.legs_per_cycle

    def moment(self, number: int) -> int:
        """Return the Unix time of CDR `number`.

        It never decreases with the number.
        """
        call, leg, _ = self._locate(number)
        day, place = divmod(call * self._workdays / self.calls, 1)
        week, weekday = divmod(int(day), 5)
        side = 2 * place - 1
        share = 0.5 + (abs(side) ** 1.5 if side > 0 else -(abs(side) ** 1.5)) / 2
        hours = OPENING + (CLOSING - OPENING) * share
        midnight = (self._first_day + 7 * week + weekday - 719_163) * 86_400
        return midnight + int(hours * 3600) + leg.order * LEG_SECONDS

    def cdr(self, number: int) -> bytes:
        """Return CDR `number` as JSON."""
        call, leg, first = self._locate(number)
        return leg.pattern % {
            b"id": number,
            b"leg": first + leg.leg,
            b"root": first + leg.root,
            b"parent": first + leg.parent,
            b"at": clock.utc_text(self.moment(number)).encode(),
            b"party": party(call).encode(),
        }

    def recording(self, number: int) -> bytes:
        """Return recording `number`, with a transcript, as JSON."""
        cdr = number * CDRS_PER_RECORDING
        call, leg, first = self._locate(cdr)
        words = [WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(30)]
        if number % RECORDINGS_PER_RARE_WORD == 1:
            words[3] = RARE_WORD
        return orjson.dumps(
            {
                **self._monitor,
                "id": number,
                "live_id": first + leg.leg,
                "timestamp": clock.utc_text(self.moment(cdr)),
                "caller": party(call),
                "transcript": " ".join(words),
            }
        )

    def first_at(self, moment: float) -> int:
        """Return the number of the first CDR at or after a Unix time."""
        return 1 + bisect.bisect_left(range(1, self.cdrs + 1), moment, key=self.moment)

    def day(self, share: float) -> datetime:
        """Return midnight of a working day: 0 for the first, 1 for the last."""
        number = max(1, min(self.cdrs, int(self.cdrs * share)))
        return datetime.fromtimestamp(self.moment(number), UTC).replace(hour=0, minute=0, second=0)


def _make_legs(records: list[dict[str, Any]]) -> tuple[list[Leg], int]:
    """Return the templates of one repetition, and the number of its legs."""
    records.sort(key=lambda record: (record["root_live_id"], record["calldate"], record["live_id"]))
    legs, slots = list[Leg](), 0
    for script, (root, group) in enumerate(groupby(records, key=lambda record: record["root_live_id"])):
        numbers = {root: slots}
        for order, record in enumerate(group):
            leg = numbers.setdefault(record["live_id"], slots + len(numbers))
            parent = numbers.setdefault(record["parent_live_id"] or root, slots + len(numbers))
            legs.append(Leg(script, order, leg, slots, parent, _make_pattern(record)))
        slots += len(numbers)
    return legs, slots


def _make_pattern(record: dict[str, Any]) -> bytes:
    """Return the JSON of a CDR with `%(id)d`, `%(leg)d`, `%(at)b` and so on for values."""
    outside = record["dst"] if record["context"] == "PSTN_CALL" else record["src"]
    marked = {
        # Notes would be requested one by one, and there are none.
        **record, "nb_notes": 0, "call_id": None,
        "id": _ID, "live_id": _LEG, "root_live_id": _ROOT, "calldate": _DATE,
        "parent_live_id": record["parent_live_id"] and _PARENT,
    }  # fmt: skip
    text = orjson.dumps(marked).replace(b"%", b"%%")
    marks = [(_ID, b"%(id)d"), (_LEG, b"%(leg)d"), (_ROOT, b"%(root)d"), (_PARENT, b"%(parent)d")]
    for mark, place in [*marks, (_DATE, b"%(at)b")]:
        text = text.replace(str(mark).encode(), place)
    if outside and len(outside) > 6:
        text = text.replace(outside.encode(), b"%(party)b")
    return text
