"""What is known of a leg, fact by fact, each with where it came from. No fact depends on another.

A leg's state is computed from the set of these (`legs.py`); their order of arrival is nowhere kept.
Moments are whole Unix seconds, except in `CallEvent`, which has the platform's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from integration.core.timestamps import seconds

_EVENT_ID = re.compile(
    r"^(?P<server>[A-Za-z0-9_-]+)\.(?P<seconds>[0-9a-f]{8})(?P<micros>[0-9a-f]{5})\d?(\.\d+)?$"
)


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One `call.*` webhook (specification, Webhooks; observed.md §1.2), types made even, values as received.

    `at` is `event_time`. `server` and `micros` come from `id_clock`. Ids of people (`src_id`, `dst_id`) are
    text, '0' for an outside party. `final` is None where the payload has none. `doc` is the payload as
    received, compact JSON.
    """

    event_id: str
    name: str
    leg_id: int | None
    root_id: int | None
    at: str
    micros: int | None
    server: str | None
    state: str | None
    connected_at: str | None = None
    start_time: str | None = None
    context: str | None = None
    destination: str | None = None
    duration: int | None = None
    t_cause: str | None = None
    src: str | None = None
    src_id: str | None = None
    src_name: str | None = None
    dst: str | None = None
    dst_id: str | None = None
    dst_name: str | None = None
    final: bool | None = None
    terminated_by: str | None = None
    dtmf_tag: str | None = None
    dtmf_target: str | None = None
    doc: str = "{}"


def id_clock(event_id: str, at: str) -> tuple[str | None, int | None]:
    """(server prefix, microseconds after `at`) read from an id like 'uk003.608920d55f7ac3.77053295'.

    The first 8 hex digits are Unix seconds, the next 5 microseconds (observed.md §1.2). They count only
    where the seconds are within 1 of `at`; counted from `at` they may be negative or above a million, so
    that an id of the second before still sorts before. (None, None) for any other id.
    """
    match = _EVENT_ID.match(event_id)
    moment = seconds(at)
    if match is None or moment is None:
        return None, None
    offset = int(match["seconds"], 16) - moment
    micros = int(match["micros"], 16)
    if abs(offset) > 1 or micros > 999_999:
        return match["server"], None
    return match["server"], offset * 1_000_000 + micros


class Heard(NamedTuple):
    """A webhook and when it reached us first, by our clock."""

    event: CallEvent
    received: float


class Sighting(NamedTuple):
    """A leg as the last poll of `/calls` that listed it showed it. `/calls` gives Unix seconds for times."""

    seen: int
    state: str | None
    started: int | None
    connected: int | None
    parent: int | None
    context: str | None
    destination: str | None
    src: str | None
    src_id: str | None
    src_name: str | None
    dst: str | None
    dst_id: str | None
    dst_name: str | None
    clid: str | None
    dst_connection: bool


class Cdr(NamedTuple):
    """A call detail record. `known` is when it reached us first, by our clock."""

    id: int
    live_id: int
    parent: int | None
    root: int | None
    user_id: int | None
    type: str | None
    calldate: int | None
    clid: str | None
    src_id: str | None
    src_name: str | None
    src: str | None
    dst_id: str | None
    dst: str | None
    dst_name: str | None
    duration: int
    billsec: int
    disposition: str | None
    destination: str | None
    context: str | None
    charge: float | None
    t_cause: str | None
    known: int | None


class Voicemail(NamedTuple):
    """A voice message; `leg_id` and `parent` are its `live_id` and `parent_live_id`."""

    id: int
    leg_id: int | None
    parent: int | None


class Recording(NamedTuple):
    """A monitor of a leg."""

    id: int
    leg_id: int
    user_id: int | None


@dataclass(slots=True)
class LegFacts:
    """Everything known of one leg. `missing` and `gone`: the last poll that did not list it, the last time
    its own path answered 404. Lists are sets: their order says nothing."""

    leg_id: int
    events: list[Heard] = field(default_factory=list)
    sighting: Sighting | None = None
    missing: int | None = None
    gone: int | None = None
    cdrs: list[Cdr] = field(default_factory=list)
    voicemails: list[Voicemail] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        """True where no event, poll or record ever told of this leg itself: it is only an id others name."""
        return not (self.events or self.sighting or self.cdrs)
