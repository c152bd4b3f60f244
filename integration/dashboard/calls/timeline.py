"""Chart of legs and list of steps of a call."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.core import clock
from integration.dashboard.calls.playback import Playback
from integration.dashboard.site import formats
from integration.mirror.page_queries.call_detail import CallDetail
from integration.mirror.page_queries.call_labels import STATE_LABELS

CHART_WIDTH = 760.0
LABEL_WIDTH = 176.0
ROW_HEIGHT = 26
"""Units of the SVG drawing."""
TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Possible distances between two marks of the time scale, in seconds."""

PHASE_LABELS = {
    "ring": STATE_LABELS["ringing"].text,
    "talk": STATE_LABELS["talking"].text,
    "held": STATE_LABELS["on_hold"].text,
}
"""By kind of bar. The other bars are those of a machine that answered."""
EVENT_LABELS = {
    "call.initial": "Started",
    "call.ringing": STATE_LABELS["ringing"].text,
    "call.connected": "Connected",
    "call.hold": STATE_LABELS["on_hold"].text,
    "call.unhold": "Resumed",
    "call.hangup": "Hung up",
    "call.missed": "Not answered",
    "call.dtmf": "Key pressed",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """Phase of a leg.

    `kind` is ring, talk, held or wait (a machine answered). `x` and `width` are units of the drawing.
    `player` is the key of the audio that was recorded at this time, "" without one. `at` is its second at the
    start of the bar, negative if the audio starts later. `seconds` is the length of the bar.
    """

    kind: str
    x: float
    width: float
    title: str
    player: str = ""
    at: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class Lane:
    """Row of the chart for one leg.

    `y` is its top in units of the drawing.
    """

    leg_id: int
    label: str
    y: int
    bars: list[Bar] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart of legs over time.

    `marks` are (x, label) of the time scale. `cursors` are (key, x of the start, units in a second) of audio.
    """

    lanes: list[Lane]
    marks: list[tuple[float, str]]
    cursors: list[tuple[str, float, float]] = field(default_factory=list)
    width: float = CHART_WIDTH

    @property
    def height(self) -> int:
        return len(self.lanes) * ROW_HEIGHT + 22


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """Step of a call.

    `occurred_at` is UTC text, `offset` the seconds since the start of the call.
    """

    occurred_at: str
    offset: float | None
    label: str
    detail: str
    leg_id: int
    source: str


def build_chart(details: CallDetail, playbacks: Sequence[Playback] = ()) -> Chart | None:
    """Return the chart of the legs, whose bars lead into the audio.

    Returns None if no leg has a start time.
    """
    now = clock.unix()
    spans = [(leg, formats.unix(leg["started_at"]), formats.unix(leg["ended_at"])) for leg in details.legs]
    start_times = [begin for _, begin, _ in spans if begin is not None]
    if not start_times:
        return None
    first = min(start_times)
    last = max(float(end if end is not None else now) for _, begin, end in spans if begin is not None)
    last = max(last, first + 1.0)
    scale = (CHART_WIDTH - LABEL_WIDTH) / (last - first)

    def to_x(moment: float) -> float:
        return round(LABEL_WIDTH + (min(max(moment, first), last) - first) * scale, 1)

    lanes = []
    for row, (leg, begin, end) in enumerate(spans):
        lane = Lane(leg["leg_id"], _leg_label(leg), row * ROW_HEIGHT)
        lanes.append(lane)
        if begin is None:
            continue
        finish = float(end if end is not None else now)
        connected = formats.unix(leg["connected_at"])
        segments: list[tuple[str, float, float]] = []
        if connected is None:
            segments.append(("ring", begin, finish))
        elif machine := _answering_machine_label(leg):
            segments.append((machine, begin, finish))
        else:
            segments.append(("ring", begin, connected))
            segments += _split_talk_and_hold(details.events, leg["leg_id"], connected, finish)
        for kind, start, stop in segments:
            if stop > start:
                label = PHASE_LABELS.get(kind)
                title = f"{label or kind} {formats.duration(stop - start)}"
                audio = _find_playback(playbacks, leg["leg_id"], start, stop)
                lane.bars.append(
                    Bar(
                        kind if label else "wait",
                        to_x(start),
                        round(max(to_x(stop) - to_x(start), 1.5), 1),
                        title,
                        audio.key if audio else "",
                        start - (audio.begin or 0) if audio else 0.0,
                        stop - start,
                    )
                )
    cursors = [
        (audio.key, round(LABEL_WIDTH + (audio.begin - first) * scale, 1), round(scale, 4))
        for audio in playbacks
        if audio.begin is not None
    ]
    return Chart(lanes, _scale_marks(first, last, to_x), cursors)


def _find_playback(playbacks: Sequence[Playback], leg_id: int, start: float, stop: float) -> Playback | None:
    """Return the audio of these seconds, that of the leg first."""

    def rank(audio: Playback) -> tuple[bool, float]:
        begin = float(audio.begin or 0)
        return audio.record["live_id"] == leg_id, min(stop, begin + audio.seconds) - max(start, begin)

    found = [audio for audio in playbacks if audio.begin is not None and rank(audio)[1] > 0]
    return max(found, key=rank, default=None)


def _answering_machine_label(leg: sqlite3.Row) -> str | None:
    """Return the label of the machine that answered, or None.

    See docs/calls.md#outcome.
    """
    if leg["user_id"] is not None or leg["extension"]:
        return None
    if leg["disposition"] == "VM" or leg["voicemails"]:
        return STATE_LABELS["voicemail"].text
    groups = {"queue": "In the queue", "ivr": "In the menu", "ringgroup": "In the group"}
    return groups.get(leg["group_kind"] or "")


def _split_talk_and_hold(
    events: list[sqlite3.Row], leg_id: int, connected: float, end: float
) -> list[tuple[str, float, float]]:
    """Split a connected leg into phases (kind, start, end) in Unix seconds."""
    hold_events = [
        (float(formats.unix(event["at"]) or connected), event["name"])
        for event in events
        if event["leg_id"] == leg_id and event["name"] in ("call.hold", "call.unhold")
    ]
    segments, kind, since = [], "talk", float(connected)
    for moment, name in hold_events:
        segments.append((kind, since, moment))
        kind, since = ("held" if name == "call.hold" else "talk"), moment
    return [*segments, (kind, since, end)]


def _scale_marks(first: float, last: float, to_x: Any) -> list[tuple[float, str]]:
    # Legs of one call can be years apart, if a time of the platform is wrong.
    step = next((tick for tick in TICK_SECONDS if (last - first) / tick <= 7), int(last - first) // 7 + 1)
    marks = []
    offset = 0
    while first + offset <= last:
        marks.append((to_x(first + offset), formats.duration(offset)))
        offset += step
    return marks


def _leg_label(leg: sqlite3.Row) -> str:
    name = leg["user_name"] or leg["dst_name"] or leg["dst"] or f"Leg {leg['leg_id']}"
    extension = f" {leg['extension']}" if leg["extension"] and leg["user_name"] else ""
    text = f"{name}{extension}"
    return text if len(text) <= 24 else text[:23] + "…"


def build_steps(call: sqlite3.Row, details: CallDetail) -> list[TimelineStep]:
    """Return the steps in order of time.

    Facts that no webhook reported come from the legs.
    """
    call_started = clock.parse_utc(call["started_at"])
    names = {leg["leg_id"]: _leg_label(leg) for leg in details.legs}
    machine_by_leg = {leg["leg_id"]: _answering_machine_label(leg) for leg in details.legs}
    timeline_steps = []

    def add(timestamp: str | None, label: str, detail: str, leg_id: int, source: str) -> None:
        moment = clock.parse_utc(timestamp)
        if timestamp is None or moment is None:
            return
        offset = (moment - call_started).total_seconds() if call_started else None
        timeline_steps.append(
            TimelineStep(timestamp, offset, label, detail or names.get(leg_id, ""), leg_id, source)
        )

    for event in details.events:
        label = EVENT_LABELS.get(event["name"], event["name"])
        detail = names.get(event["leg_id"], "")
        if event["name"] == "call.dtmf" and event["dtmf_tag"]:
            detail = f"{event['dtmf_tag']} · {detail}"
        if event["name"] == "call.connected":
            label = machine_by_leg.get(event["leg_id"]) or label
        if event["name"] == "call.missed" and event["final"]:
            label = "Not answered by anyone"
        if event["name"] == "call.hangup" and event["terminated_by"]:
            label = describe_hang_up(event["terminated_by"])
        add(event["at"], label, detail, event["leg_id"], "webhook")
    reported = {(event["leg_id"], event["name"]) for event in details.events}
    for leg in details.legs:
        leg_id = leg["leg_id"]
        if not any(key[0] == leg_id for key in reported):
            add(leg["started_at"], "Started", "", leg_id, leg["sources"])
        if leg["connected"] and (leg_id, "call.connected") not in reported:
            add(leg["connected_at"], machine_by_leg[leg_id] or "Connected", "", leg_id, leg["sources"])
        if leg["ended_at"] and not reported & {(leg_id, "call.hangup"), (leg_id, "call.missed")}:
            label = "Ended (no longer listed)" if leg["inferred"] else "Ended"
            add(leg["ended_at"], label, "", leg_id, leg["sources"])
    # The sort is stable: events of the same second keep their order.
    return sorted(timeline_steps, key=lambda step: step.occurred_at)


def describe_hang_up(side: str) -> str:
    """Return who ended a call or leg: 'Caller hung up'. `side` as received, such as 'caller'."""
    return f"{side[:1].upper()}{side[1:]} hung up"


def raw_records(details: CallDetail) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return records and events as received.

    The result has (heading, [(title, indented JSON)]) of each kind.
    """
    kinds = (
        ("CDRs", [(str(row["id"]), row["_doc"]) for row in details.cdrs]),
        ("Recordings", [(str(row["id"]), row["_doc"]) for row in details.recordings]),
        ("Voice messages", [(str(row["id"]), row["_doc"]) for row in details.voicemails]),
        (
            "Events",
            [(f"{row['name']} {row['at']}, leg {row['leg_id']}", row["doc"]) for row in details.events],
        ),
    )
    return [
        (heading, [(title, formats.indent_json(doc)) for title, doc in records])
        for heading, records in kinds
        if records
    ]
