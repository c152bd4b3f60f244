"""Facts about legs: webhooks, polls, CDRs, voicemail messages and recordings.

No fact depends on another fact. `legs.py` computes the state of a leg from the set of its facts; the order of
arrival is not stored. Times are Unix seconds, except in `CallEvent`, which contains the platform's text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

EARLIEST_SECONDS = 10**9
"""Unix seconds (2001-09-09). Earlier times of live calls and webhooks are invalid, such as 0001-01-01."""
LEG_FIELDS = {"cdrs": ("live_id",), "monitors": ("live_id",), "voicemessages": ("live_id", "parent_live_id")}
"""Fields with leg ids, by collections whose records are facts about legs."""


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One `call.*` webhook: normalized types, values as received (docs/platform.md#10-event-fields).

    `event_time` is the time in the payload. `server` and `micros` come from `event_clock`. `src_id` and
    `dst_id` are text, '0' for an outside party. `final` is None if the payload has no such field. `doc` is
    the payload as received, as compact JSON.
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
    """Webhook with the time of its first receipt (Unix seconds, local clock)."""

    event: CallEvent
    received_at: float


class Sighting(NamedTuple):
    """Leg in the newest poll of `/calls` that listed the leg.

    A poll that shows the end of the leg is not replaced by a newer one. Times of `/calls` are Unix seconds.
    `seen_at` is the time of the poll.
    """

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
    """Call detail record. `received_at` is the first receipt by the local clock."""

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
    """Voicemail message. `leg_id` and `parent_id` are its `live_id` and `parent_live_id`."""

    id: int
    leg_id: int | None
    parent_id: int | None


class Recording(NamedTuple):
    """Recording of a leg (a record of `/monitors`)."""

    id: int
    leg_id: int
    user_id: int | None


@dataclass(slots=True)
class LegFacts:
    """All facts about one leg.

    `missing_at` is the time of the newest poll that did not list the leg. `not_found_at` is the time of the
    newest 404 of the leg's own path. The order of lists has no meaning.
    """

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
        """True if no event, poll or CDR reports this leg.

        Other legs may name its id.
        """
        return not (self.events or self.sighting or self.cdrs)
