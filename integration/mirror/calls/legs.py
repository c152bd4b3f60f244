"""Compute the state of one leg from its facts (docs/calls.md#state-of-a-leg).

The result does not depend on the order or number of arrivals, or on the current time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from integration.core.ids import parse_id
from integration.core.timestamps import parse_seconds
from integration.mirror.calls.directory import parse_group
from integration.mirror.calls.facts import CallEvent, Cdr, LegFacts, ReceivedEvent, Sighting

STATE_RANK = {"INITIAL": 0, "ACCEPTED": 1, "RINGING": 2, "CONNECTED": 3, "ON_HOLD": 4}
"""Live states of the platform, with their order."""
END_STATES = frozenset({"HANGUP", "MISSED", "FAILED"})
"""States of the platform that end a leg."""
ENDED = "ENDED"
"""State of a leg that has ended, for any reason."""

_STATE_BY_EVENT = {
    "call.initial": "INITIAL",
    "call.ringing": "RINGING",
    "call.connected": "CONNECTED",
    "call.hold": "ON_HOLD",
    "call.unhold": "CONNECTED",
    "call.hangup": "HANGUP",
    "call.missed": "HANGUP",
}

StateChange = tuple[int, str, str]
"""(Unix seconds, state, event name). `Leg.live_states` is in time order."""


@dataclass(slots=True)
class Leg:
    """Leg computed from its facts.

    Times are Unix seconds. Start and end are None if the only facts are CDRs without a readable `calldate`.
    """

    id: int
    root_id: int | None = None
    parent_id: int | None = None
    direction: str | None = None
    state: str = "INITIAL"
    state_since: int | None = None
    started: int | None = None
    is_connected: bool = False
    is_connected_by_cdr: bool = False
    """True if a CDR, and not only a poll or webhook, shows the connection."""
    connected_at: int | None = None
    has_ended: bool = False
    is_end_inferred: bool = False
    ended_at: int | None = None
    ended_by: str | None = None
    final: bool | None = None
    final_at: int | None = None
    is_missing: bool = False
    last_signal_at: int = 0
    """Time of the newest event (or its local receipt, if earlier) or poll that shows the leg."""
    end_received_at: float | None = None
    """First receipt of a fact about the end, by the local clock."""
    live_states: list[StateChange] = field(default_factory=list)
    second_pickup_at: int | None = None
    """Time of a second CONNECTED. A RINGING must separate both (click-to-call)."""
    dst_connection: bool = False
    is_accepted: bool = False
    context: str | None = None
    group: tuple[str, int | None] | None = None
    src: str | None = None
    src_id: str | None = None
    src_name: str | None = None
    dst: str | None = None
    dst_id: str | None = None
    dst_name: str | None = None
    clid: str | None = None
    user_ids: tuple[int, ...] = ()
    """User ids from CDRs, recordings and DTMF, most reliable source first."""
    t_cause: str | None = None
    duration: int | None = None
    billsec: int | None = None
    charge: float | None = None
    disposition: str | None = None
    is_mailbox: bool = False
    """True if a voicemail box answered: a message names this leg, or its CDR has disposition VM."""
    cdrs: int = 0
    recordings: frozenset[int] = frozenset()
    voicemails: frozenset[int] = frozenset()
    sources: tuple[str, ...] = ()

    @property
    def connected_since(self) -> int | None:
        """Connection of the leg, otherwise its start."""
        return self.started if self.connected_at is None else self.connected_at


def get_event_state(event: CallEvent) -> str | None:
    """Return an event's state; None for DTMF and undocumented states."""
    if event.name == "call.dtmf":
        return None
    if event.name in ("call.hangup", "call.missed"):
        return "HANGUP"
    state = (event.state or "").upper()
    if not state:
        return _STATE_BY_EVENT.get(event.name)
    return state if state in STATE_RANK or state in END_STATES else None


def sort_events(events: Iterable[CallEvent]) -> list[tuple[int, CallEvent, str]]:
    """Return (Unix seconds, event, state) of events with live states, sorted.

    Events are sorted by `event_time`. Within one second the microseconds of the event ids decide if all
    events of that second have them and come from one server. Otherwise the rank of the states decides, and
    hold and unhold alternate.
    """
    events_by_second: dict[int, list[tuple[CallEvent, str]]] = {}
    for event in events:
        state = get_event_state(event)
        if state is not None and state in STATE_RANK:
            events_by_second.setdefault(_get_event_seconds(event), []).append((event, state))
    ordered: list[tuple[int, CallEvent, str]] = []
    for timestamp in sorted(events_by_second):
        on_hold = bool(ordered) and ordered[-1][2] == "ON_HOLD"
        ordered += [
            (timestamp, event, state)
            for event, state in _sort_within_second(events_by_second[timestamp], on_hold)
        ]
    return ordered


def _get_event_seconds(event: CallEvent) -> int:
    event_seconds = parse_seconds(event.event_time)
    # An event without a valid time has that of its receipt (`inbox/interpret`).
    return event_seconds if event_seconds is not None else parse_seconds(event.start_time) or 0


def _sort_within_second(group: list[tuple[CallEvent, str]], on_hold: bool) -> list[tuple[CallEvent, str]]:
    if len(group) == 1:
        return group
    if len({event.server for event, _ in group}) == 1 and all(event.micros is not None for event, _ in group):
        return sorted(
            group,
            key=lambda entry: (entry[0].micros or 0, STATE_RANK[entry[1]], entry[0].event_id, entry[0].doc),
        )
    group = sorted(group, key=lambda entry: (STATE_RANK[entry[1]], entry[0].event_id, entry[0].doc))
    holds = [entry for entry in group if entry[1] == "ON_HOLD"]
    unholds = [entry for entry in group if entry[0].name == "call.unhold" and entry[1] == "CONNECTED"]
    if not holds or not unholds:
        return group
    # The rank cannot order a hold and an unhold of one second: each unhold ends the hold before it.
    ordered = [entry for entry in group if entry not in holds and entry not in unholds]
    while holds or unholds:
        queue = (unholds or holds) if on_hold else (holds or unholds)
        ordered.append(queue.pop(0))
        on_hold = ordered[-1][1] == "ON_HOLD"
    return ordered


def build_leg(facts: LegFacts) -> Leg:
    """Compute the leg from its facts."""
    leg, cdrs = Leg(facts.leg_id), facts.cdrs
    if len(cdrs) > 1:
        cdrs = sorted(cdrs, key=lambda cdr: (cdr.calldate is None, cdr.calldate, cdr.id))
    events = [received.event for received in facts.events]
    newest_events = sorted(events, key=_get_recency_key, reverse=True) if events else events
    _set_links(leg, newest_events, facts.sighting, cdrs)
    _set_parties(leg, newest_events, facts.sighting, cdrs)
    _set_records(leg, facts, cdrs)
    if events or facts.sighting is not None:
        _set_live_state(leg, facts, sort_events(events))
    leg.is_missing = facts.missing_at is not None and facts.missing_at > leg.last_signal_at
    _set_connection(leg, facts)
    _set_end(leg, facts, cdrs)
    _set_times(leg, events, facts.sighting, cdrs)
    return leg


def _get_first(records: Iterable[object], name: str) -> Any:
    """Return the first value of an attribute that is neither None nor empty, else None."""
    for record in records:
        if value := getattr(record, name):
            return value
    return None


def _get_recency_key(event: CallEvent) -> tuple[int, int, str, str]:
    return _get_event_seconds(event), event.micros or 0, event.event_id, event.doc


def _set_links(
    leg: Leg, newest_events: Sequence[CallEvent], sighting: Sighting | None, cdrs: Sequence[Cdr]
) -> None:
    sources = [("webhook", newest_events), ("poll", sighting), ("cdr", cdrs)]
    leg.sources = tuple([name for name, facts_of_source in sources if facts_of_source])
    leg.root_id = _get_first(cdrs, "root_id") or _get_first(newest_events, "root_id")
    leg.parent_id = _get_first(cdrs, "parent_id") or (sighting.parent_id if sighting else None)
    if leg.parent_id == leg.id:
        leg.parent_id = None


_PARTY_FIELDS = ("src", "src_id", "src_name", "dst", "dst_id", "dst_name", "context")


def _set_parties(
    leg: Leg, newest_events: Sequence[CallEvent], sighting: Sighting | None, cdrs: Sequence[Cdr]
) -> None:
    """Set each field from CDR, else poll, else newest webhook."""
    sources: list[Cdr | Sighting | CallEvent] = [*cdrs, *([sighting] if sighting else []), *newest_events]
    for name in _PARTY_FIELDS:
        setattr(leg, name, _get_first(sources, name))
    groups = set()
    for record in sources:
        cdr_type = record.type if isinstance(record, Cdr) else None
        leg.direction = leg.direction or _parse_direction(record.destination, cdr_type)
        if (group := parse_group(record.context)) is not None:
            groups.add(group)
    leg.clid = _get_first(cdrs, "clid") or (sighting.clid if sighting else None)
    if groups:
        leg.group = min(groups, key=lambda group: (group[1] is None, group[0], group[1] or 0))
    leg.is_accepted = "ACCEPTED" in [(event.state or "").upper() for event in newest_events]
    leg.dst_connection = bool(sighting and sighting.dst_connection)


@lru_cache(maxsize=1024)
def _parse_direction(destination: str | None, cdr_type: str | None) -> str | None:
    """Return 'in', 'out' or None; webcalls and callmeback calls are outbound."""
    destination = (destination or "").strip().lower()
    if destination in ("in", "out"):
        return destination
    if destination in ("webcall", "callmeback"):
        return "out"
    return {"O": "out", "I": "in", "M": "in"}.get((cdr_type or "").upper())


def _set_records(leg: Leg, facts: LegFacts, cdrs: Sequence[Cdr]) -> None:
    leg.cdrs = len(cdrs)
    user_ids = [cdr.user_id for cdr in cdrs]
    if facts.recordings:
        leg.recordings = frozenset(recording.id for recording in facts.recordings)
        user_ids += sorted(recording.user_id or 0 for recording in facts.recordings)
    if facts.voicemails:
        leg.voicemails = frozenset(message.id for message in facts.voicemails)
    if facts.events:
        targets = sorted(received.event.dtmf_target or "" for received in facts.events)
        user_ids += [parse_id(target[2:]) for target in targets if target.startswith("U:")]
    leg.user_ids = tuple(dict.fromkeys([user for user in user_ids if user]))
    if cdrs:
        leg.billsec = leg.duration = 0
        for cdr in cdrs:
            leg.billsec += cdr.billsec
            leg.duration += cdr.duration
        charges = [cdr.charge for cdr in cdrs if cdr.charge is not None]
        leg.charge = round(sum(charges), 6) if charges else None
        leg.t_cause = _get_first(reversed(cdrs), "t_cause")
        dispositions = [(cdr.disposition or "").upper() for cdr in cdrs]
        best_first = [name for name in ("CONNECTED", "VM") if name in dispositions]
        leg.disposition = best_first[0] if best_first else dispositions[-1] or None
    leg.is_mailbox = leg.disposition == "VM" or (
        leg.disposition != "CONNECTED" and leg.id in [message.leg_id for message in facts.voicemails]
    )


def _set_live_state(leg: Leg, facts: LegFacts, ordered: Sequence[tuple[int, CallEvent, str]]) -> None:
    leg.live_states = [(timestamp, state, event.name) for timestamp, event, state in ordered]
    state, since = ("INITIAL", None) if not ordered else (ordered[-1][2], ordered[-1][0])
    for timestamp, _, previous_state in reversed(ordered):
        if previous_state != state:
            break
        since = timestamp
    is_ringing_after_pickup = False
    is_picked_up = False
    for timestamp, _, event_state in ordered:
        if event_state == "CONNECTED" and is_ringing_after_pickup and leg.second_pickup_at is None:
            leg.second_pickup_at = timestamp
        is_ringing_after_pickup |= event_state == "RINGING" and is_picked_up
        is_picked_up |= event_state == "CONNECTED"
    sighting = facts.sighting
    sighting_state = (sighting.state or "").upper() if sighting else ""
    if sighting is not None and sighting_state in STATE_RANK:
        connected_rank = STATE_RANK["CONNECTED"]
        are_both_connected = min(STATE_RANK[sighting_state], STATE_RANK[state]) >= connected_rank
        # Polls are timed by the local clock, events by the platform's. The times are compared only if the
        # ranks do not decide.
        if not ordered or (
            sighting.seen_at > ordered[-1][0]
            if are_both_connected
            else STATE_RANK[sighting_state] > STATE_RANK[state]
        ):
            if sighting_state != state or since is None:
                since = (sighting.connected_at if sighting_state == "CONNECTED" else None) or (
                    sighting.started if STATE_RANK[sighting_state] < connected_rank else None
                )
                since = since or sighting.seen_at
            state = sighting_state
    leg.state, leg.state_since = state, since
    signal_times = [
        min(_get_event_seconds(received.event), int(received.received_at)) for received in facts.events
    ]
    leg.last_signal_at = max([*signal_times, sighting.seen_at if sighting else 0])


def _set_connection(leg: Leg, facts: LegFacts) -> None:
    """Set whether a CDR, poll or webhook shows a connection."""
    sighting = facts.sighting
    leg.is_connected_by_cdr = bool(leg.billsec) or leg.disposition == "CONNECTED"
    leg.is_connected = (
        leg.is_connected_by_cdr
        or (
            sighting is not None
            and bool(sighting.connected_at or (sighting.state or "").upper() in ("CONNECTED", "ON_HOLD"))
        )
        or any(STATE_RANK[state] >= STATE_RANK["CONNECTED"] for _, state, _ in leg.live_states)
        or any(received.event.connected_at for received in facts.events)
    )


def _set_end(leg: Leg, facts: LegFacts, cdrs: Sequence[Cdr]) -> None:
    hangups: list[tuple[int, ReceivedEvent]] = []
    other_ends: list[tuple[int, ReceivedEvent]] = []
    for received in facts.events:
        event = received.event
        if event.name == "call.missed" or get_event_state(event) in ("MISSED", "FAILED"):
            other_ends.append((_get_event_seconds(event), received))
        elif get_event_state(event) == "HANGUP":
            hangups.append((_get_event_seconds(event), received))
        if event.name == "call.missed" and event.final is not None:
            leg.final = bool(leg.final or event.final)
            if event.final:
                leg.final_at = max(leg.final_at or 0, _get_event_seconds(event))
    end_events = hangups or other_ends
    received_times = [received.received_at for _, received in hangups + other_ends] + [
        cdr.received_at for cdr in cdrs if cdr.received_at
    ]
    if end_events:
        leg.ended_at = max(timestamp for timestamp, _ in end_events)
    elif cdrs:
        leg.ended_at = _get_cdr_end(cdrs)
    elif facts.sighting is not None and (facts.sighting.state or "").upper() in END_STATES:
        leg.ended_at = facts.sighting.seen_at
        received_times = [facts.sighting.seen_at]
    elif facts.not_found_at is not None and facts.not_found_at > leg.last_signal_at:
        # Weaker than a CDR or webhook: a later event or poll that shows the leg reopens it.
        leg.is_end_inferred = True
        leg.ended_at = facts.not_found_at
        received_times = [facts.not_found_at]
    else:
        return
    leg.has_ended = True
    leg.end_received_at = min(received_times, default=None)
    leg.is_missing = False
    if end_events:
        newest_ends = sorted(
            (received.event for _, received in hangups + other_ends), key=_get_recency_key, reverse=True
        )
        leg.ended_by = _get_first(newest_ends, "terminated_by")
        leg.t_cause = leg.t_cause or _get_first(newest_ends, "t_cause")
    leg.state_since = leg.ended_at
    leg.state = ENDED


def _get_cdr_end(cdrs: Iterable[Cdr]) -> int | None:
    """Return the latest end of CDRs in Unix seconds; None without a readable `calldate`."""
    return max([cdr.calldate + cdr.duration for cdr in cdrs if cdr.calldate is not None], default=None)


def _set_times(leg: Leg, events: Sequence[CallEvent], sighting: Sighting | None, cdrs: Sequence[Cdr]) -> None:
    start_times = [
        timestamp for event in events if (timestamp := parse_seconds(event.start_time)) is not None
    ]
    calldates = [cdr.calldate for cdr in cdrs if cdr.calldate is not None]
    event_times = [_get_event_seconds(event) for event in events if _get_event_seconds(event)]
    for times in (
        start_times,
        [sighting.started] if sighting and sighting.started else [],
        calldates,
        event_times,
        [sighting.seen_at] if sighting else [],
    ):
        if times:
            leg.started = min(times)
            break
    if leg.started is None:
        return
    if leg.ended_at is not None:
        leg.ended_at = max(leg.ended_at, leg.started)
    if not leg.is_connected:
        return
    connect_times = [
        timestamp for event in events if (timestamp := parse_seconds(event.connected_at)) is not None
    ]
    talk_times = [
        timestamp for timestamp, state, _ in leg.live_states if STATE_RANK[state] >= STATE_RANK["CONNECTED"]
    ]
    billed_times = [
        cdr.calldate + max(0, cdr.duration - cdr.billsec)
        for cdr in cdrs
        if cdr.calldate is not None and (cdr.billsec > 0 or cdr.disposition == "CONNECTED")
    ]
    for times in (
        connect_times,
        [sighting.connected_at] if sighting and sighting.connected_at else [],
        talk_times,
        billed_times,
        [sighting.seen_at] if sighting else [],
    ):
        if times:
            leg.connected_at = max(leg.started, min(times))
            return
