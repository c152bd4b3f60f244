"""What is known of a leg, fact by fact, each with where it came from. No fact depends on another.

A leg's state is computed from the set of these (`legs.py`); their order of arrival is nowhere kept.
Moments are whole Unix seconds, except in `CallEvent`, which has the platform's text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

LEG_FIELDS = {"cdrs": ("live_id",), "monitors": ("live_id",), "voicemessages": ("live_id", "parent_live_id")}
"""Collections whose records are facts about legs, and the fields that name those legs."""


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One `call.*` webhook (docs/platform.md#10-event-fields), types made even, values as received.

    `event_time` is the payload's. `server` and `micros` come from `event_clock`. Ids of people (`src_id`,
    `dst_id`) are text, '0' for an outside party. `final` is None where the payload has none. `doc` is the
    payload as received, compact JSON.
    """

    event_id: str
    name: str
    leg_id: int | None
    root_id: int | None
    event_time: str
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


class ReceivedEvent(NamedTuple):
    """A webhook and when it reached us first, by our clock."""

    event: CallEvent
    received_at: float


class Sighting(NamedTuple):
    """A leg as the last poll of `/calls` that listed it showed it. `/calls` gives Unix seconds for times."""

    seen_at: int
    state: str | None
    started: int | None
    connected_at: int | None
    parent_id: int | None
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
    """A call detail record. `received_at` is when it reached us first, by our clock."""

    id: int
    live_id: int
    parent_id: int | None
    root_id: int | None
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
    received_at: int | None


class Voicemail(NamedTuple):
    """A voice message; `leg_id` and `parent_id` are its `live_id` and `parent_live_id`."""

    id: int
    leg_id: int | None
    parent_id: int | None


class Recording(NamedTuple):
    """A monitor of a leg."""

    id: int
    leg_id: int
    user_id: int | None


@dataclass(slots=True)
class LegFacts:
    """Everything known of one leg. `missing_at` and `not_found_at`: the last poll that did not list it, the
    last time its own path answered 404. Lists are sets: their order says nothing."""

    leg_id: int
    events: list[ReceivedEvent] = field(default_factory=list)
    sighting: Sighting | None = None
    missing_at: int | None = None
    not_found_at: int | None = None
    cdrs: list[Cdr] = field(default_factory=list)
    voicemails: list[Voicemail] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True where no event, poll or record ever told of this leg itself: it is only an id others name."""
        return not (self.events or self.sighting or self.cdrs)
