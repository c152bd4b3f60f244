"""A call's legs as bars and its events as steps, for the call page."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

import orjson

from integration.core import clock
from integration.dashboard.site import formats
from integration.mirror.page_queries.call_detail import Whole

WIDTH = 760.0
LABEL = 176.0
ROW = 26
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Seconds between two marks of the scale."""

EVENT_WORDS = {
    "call.initial": "Begun",
    "call.ringing": "Rings",
    "call.connected": "Connected",
    "call.hold": "Put on hold",
    "call.unhold": "Taken off hold",
    "call.hangup": "Hung up",
    "call.missed": "Not answered here",
    "call.dtmf": "Key pressed",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of a leg: `kind` is ring, talk, held or wait (a machine answered); `x` and `width` in units
    of the drawing."""

    kind: str
    x: float
    width: float
    title: str


@dataclass(slots=True)
class Lane:
    """One leg."""

    leg_id: int
    label: str
    y: int
    bars: list[Bar] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Chart:
    """Legs over time. `marks` are (x, label) of the scale."""

    lanes: list[Lane]
    marks: list[tuple[float, str]]
    width: float = WIDTH
    label: float = LABEL

    @property
    def height(self) -> int:
        return len(self.lanes) * ROW + 22


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened: UTC text, seconds since the call began, what, who, whence."""

    at: str
    offset: float | None
    word: str
    detail: str
    leg_id: int
    source: str


def chart(whole: Whole) -> Chart | None:
    """None where nothing has a duration."""
    now = clock.unix()
    spans = [(leg, formats.unix(leg["started_at"]), formats.unix(leg["ended_at"])) for leg in whole.legs]
    begins = [begin for _, begin, _ in spans if begin is not None]
    if not begins:
        return None
    first = min(begins)
    last = max(float(end if end is not None else now) for _, _, end in spans)
    last = max(last, first + 1.0)
    scale = (WIDTH - LABEL) / (last - first)

    def x(moment: float) -> float:
        return round(LABEL + (min(max(moment, first), last) - first) * scale, 1)

    lanes = []
    for row, (leg, begin, end) in enumerate(spans):
        lane = Lane(leg["leg_id"], _who(leg), row * ROW)
        lanes.append(lane)
        if begin is None:
            continue
        finish = float(end if end is not None else now)
        connected = formats.unix(leg["connected_at"])
        stretches: list[tuple[str, float, float]] = []
        if connected is None:
            stretches.append(("ring", begin, finish))
        elif machine := _machine(leg):
            stretches.append((machine, begin, finish))
        else:
            stretches.append(("ring", begin, connected))
            stretches += _talked(whole.events, leg["leg_id"], connected, finish)
        for kind, start, stop in stretches:
            if stop > start:
                word = {"ring": "Rings", "talk": "Talks", "held": "On hold"}.get(kind)
                title = f"{word or kind} {formats.duration(stop - start)}"
                lane.bars.append(
                    Bar(kind if word else "wait", x(start), round(max(x(stop) - x(start), 1.5), 1), title)
                )
    return Chart(lanes, _marks(first, last, x))


def _machine(leg: sqlite3.Row) -> str | None:
    """What answered where no person did (calls.md, How a call ended); None for a person."""
    if leg["user_id"] is not None or leg["extension"]:
        return None
    if leg["disposition"] == "VM" or leg["voicemails"]:
        return "Voicemail"
    groups = {"queue": "In the queue", "ivr": "In the menu", "ringgroup": "In the group"}
    return groups.get(leg["group_kind"] or "")


def _talked(
    events: list[sqlite3.Row], leg: int, connected: float, end: float
) -> list[tuple[str, float, float]]:
    """A connected leg cut at its hold and unhold events."""
    cuts = [
        (float(formats.unix(event["at"]) or connected), event["name"])
        for event in events
        if event["leg_id"] == leg and event["name"] in ("call.hold", "call.unhold")
    ]
    stretches, kind, since = [], "talk", float(connected)
    for moment, name in cuts:
        stretches.append((kind, since, moment))
        kind, since = ("held" if name == "call.hold" else "talk"), moment
    return [*stretches, (kind, since, end)]


def _marks(first: float, last: float, x: Any) -> list[tuple[float, str]]:
    step = next((tick for tick in TICKS if (last - first) / tick <= 7), TICKS[-1])
    marks = []
    offset = 0
    while first + offset <= last:
        marks.append((x(first + offset), formats.duration(offset)))
        offset += step
    return marks


def _who(leg: sqlite3.Row) -> str:
    name = leg["user_name"] or leg["dst_name"] or leg["dst"] or f"Leg {leg['leg_id']}"
    extension = f" {leg['extension']}" if leg["extension"] and leg["user_name"] else ""
    text = f"{name}{extension}"
    return text if len(text) <= 24 else text[:23] + "…"


def steps(call: sqlite3.Row, whole: Whole) -> list[Step]:
    """What happened, in order: events from webhooks, and from each CDR what no webhook told."""
    first = clock.parse_stamp(call["started_at"])
    names = {leg["leg_id"]: _who(leg) for leg in whole.legs}
    machines = {leg["leg_id"]: _machine(leg) for leg in whole.legs}
    found = []

    def add(at: str | None, word: str, detail: str, leg: int, source: str) -> None:
        moment = clock.parse_stamp(at)
        if at is None or moment is None:
            return
        offset = (moment - first).total_seconds() if first else None
        found.append(Step(at, offset, word, detail or names.get(leg, ""), leg, source))

    for event in whole.events:
        word = EVENT_WORDS.get(event["name"], event["name"])
        detail = names.get(event["leg_id"], "")
        if event["name"] == "call.dtmf" and event["dtmf_tag"]:
            detail = f"{event['dtmf_tag']} · {detail}"
        if event["name"] == "call.connected":
            word = machines.get(event["leg_id"]) or word
        if event["name"] == "call.missed" and event["final"]:
            word = "Not answered by anyone"
        if event["name"] == "call.hangup" and event["terminated_by"]:
            word = f"Hung up by {event['terminated_by']}"
        add(event["at"], word, detail, event["leg_id"], "webhook")
    told = {(event["leg_id"], event["name"]) for event in whole.events}
    for leg in whole.legs:
        number = leg["leg_id"]
        if not any(key[0] == number for key in told):
            add(leg["started_at"], "Begun", "", number, leg["sources"])
        if leg["connected"] and (number, "call.connected") not in told:
            add(leg["connected_at"], machines[number] or "Connected", "", number, leg["sources"])
        if leg["ended_at"] and not told & {(number, "call.hangup"), (number, "call.missed")}:
            word = "Ended (concluded: no longer listed)" if leg["inferred"] else "Ended"
            add(leg["ended_at"], word, "", number, leg["sources"])
    # Stable: events of one second keep the order of their ids.
    return sorted(found, key=lambda step: step.at)


def raw(whole: Whole) -> list[tuple[str, str]]:
    """(title, indented JSON) of every record, as received."""
    found = [(f"CDR {row['id']}", row["_doc"]) for row in whole.cdrs]
    found += [(f"Recording {row['id']}", row["_doc"]) for row in whole.recordings]
    found += [(f"Voice message {row['id']}", row["_doc"]) for row in whole.voicemails]
    found += [(f"{row['name']} {row['at']}, leg {row['leg_id']}", row["doc"]) for row in whole.events]
    return [(title, pretty(doc)) for title, doc in found]


def pretty(doc: str) -> str:
    """Indented where orjson can read it; numbers beyond 64 bits and the like stay as they are."""
    try:
        return orjson.dumps(orjson.loads(doc), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return doc
