"""What is known of a leg, fact by fact, each with where it came from. No fact depends on another.

A leg's state is computed from the set of these (`legs.py`); their order of arrival is nowhere kept.
Times are UTC text 'YYYY-MM-DD HH:MM:SS' as the platform sends them, Unix seconds where named `unix`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One `call.*` webhook (specification, Webhooks; observed.md §1.2), types made even, values as received.

    `at` is `event_time`; `micros` and `server` are read from the event id (`<server>.<8 hex seconds><5 hex
    microseconds>…`): `micros` is None unless the id's seconds are within 1 of `event_time`. Ids of people
    (`src_id`, `dst_id`) are text, '0' for an outside party. `final` is None where the payload has none.
    `doc` is the payload as received, compact JSON.
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
