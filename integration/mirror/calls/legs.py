"""The state of one leg, computed from the set of its facts (calls.md, State of a leg).

Nothing here knows in which order facts arrived, how often, or what time it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from integration.core.timestamps import seconds
from integration.mirror.calls.directory import answering, group_in, id_of
from integration.mirror.calls.facts import CallEvent, Cdr, Heard, LegFacts, Sighting

RANK = {"INITIAL": 0, "ACCEPTED": 1, "RINGING": 2, "CONNECTED": 3, "ON_HOLD": 4}
ENDS = frozenset({"HANGUP", "MISSED", "FAILED"})
ENDED = "ENDED"

_BY_NAME = {
    "call.initial": "INITIAL",
    "call.ringing": "RINGING",
    "call.connected": "CONNECTED",
    "call.hold": "ON_HOLD",
    "call.unhold": "CONNECTED",
    "call.hangup": "HANGUP",
    "call.missed": "HANGUP",
}

Moment = tuple[int, str, str]
"""(Unix seconds, state, event name), in the order of the leg's life."""


@dataclass(slots=True)
class Leg:
    """One leg as its facts tell it. Moments are Unix seconds; `origins` says whence each fact is."""

    id: int
    root: int | None = None
    parent: int | None = None
    direction: str | None = None
    state: str = "INITIAL"
    state_since: int | None = None
    started: int = 0
    connected: bool = False
    connected_at: int | None = None
    ended: bool = False
    inferred: bool = False
    ended_at: int | None = None
    ended_by: str | None = None
    final: bool | None = None
    final_at: int | None = None
    missing: bool = False
    heard: int = 0
    """Its last sign of life by our clock: an event, or a poll that listed it."""
    learnt: float | None = None
    """When we first knew of its end, by our clock."""
    live_moments: list[Moment] = field(default_factory=list)
    picked_up_twice: int | None = None
    """When it connected again after a RINGING that followed a first CONNECTED (click-to-call)."""
    dst_connection: bool = False
    accepted: bool = False
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
    """User ids that CDRs, recordings and DTMF name for this leg, surest first."""
    t_cause: str | None = None
    duration: int | None = None
    billsec: int | None = None
    charge: float | None = None
    disposition: str | None = None
    mailbox: bool = False
    """A voice message names this very leg, or its record says VM: what picked up was a voicemail box."""
    cdrs: int = 0
    recordings: frozenset[int] = frozenset()
    voicemails: frozenset[int] = frozenset()
    sources: tuple[str, ...] = ()
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def told_live(self) -> bool:
        """True where webhooks told of its life, so that its holds are known."""
        return "webhook" in self.sources


def state_of(event: CallEvent) -> str | None:
    """The state an event sets; None for DTMF and for states nobody documented, which set none."""
    if event.name == "call.dtmf":
        return None
    if event.name in ("call.hangup", "call.missed"):
        return "HANGUP"
    state = (event.state or "").upper()
    if not state:
        return _BY_NAME.get(event.name)
    return state if state in RANK or state in ENDS else None


def in_order(events: Iterable[CallEvent]) -> list[tuple[int, CallEvent, str]]:
    """Events that set a live state, as (Unix seconds, event, state), in the order they happened.

    By `event_time`; within a second by the microseconds of the ids where all of that second are of one
    server, else by rank, with hold and unhold taking turns.
    """
    seconds_: dict[int, list[tuple[CallEvent, str]]] = {}
    for event in events:
        state = state_of(event)
        if state is not None and state in RANK:
            seconds_.setdefault(_moment(event), []).append((event, state))
    ordered: list[tuple[int, CallEvent, str]] = []
    for at in sorted(seconds_):
        on_hold = bool(ordered) and ordered[-1][2] == "ON_HOLD"
        ordered += [(at, event, state) for event, state in _within_a_second(seconds_[at], on_hold)]
    return ordered


def _moment(event: CallEvent) -> int:
    moment = seconds(event.at)
    return moment if moment is not None else seconds(event.start_time) or 0


def _within_a_second(group: list[tuple[CallEvent, str]], on_hold: bool) -> list[tuple[CallEvent, str]]:
    if len(group) == 1:
        return group
    if len({event.server for event, _ in group}) == 1 and all(event.micros is not None for event, _ in group):
        return sorted(group, key=lambda one: (one[0].micros or 0, RANK[one[1]], one[0].event_id, one[0].doc))
    group = sorted(group, key=lambda one: (RANK[one[1]], one[0].event_id, one[0].doc))
    holds = [one for one in group if one[1] == "ON_HOLD"]
    unholds = [one for one in group if one[0].name == "call.unhold" and one[1] == "CONNECTED"]
    if not holds or not unholds:
        return group
    # With a hold in the same second an unhold can't be ranked: it takes back the hold before it.
    turns = [one for one in group if one not in holds and one not in unholds]
    while holds or unholds:
        source = (unholds or holds) if on_hold else (holds or unholds)
        turns.append(source.pop(0))
        on_hold = turns[-1][1] == "ON_HOLD"
    return turns


def build(facts: LegFacts) -> Leg:
    """The leg that `facts` tell of."""
    leg = Leg(facts.leg_id)
    events = [heard.event for heard in facts.events]
    leg.sources = tuple(
        name for name, there in (("webhook", events), ("poll", facts.sighting), ("cdr", facts.cdrs)) if there
    )
    cdrs = sorted(facts.cdrs, key=lambda cdr: (cdr.calldate or 0, cdr.id))
    newest = sorted(events, key=_recency, reverse=True)
    _family(leg, newest, facts.sighting, cdrs)
    _parties(leg, newest, facts.sighting, cdrs)
    _records(leg, facts, cdrs)
    _live(leg, facts, in_order(events))
    _end(leg, facts, cdrs)
    _clock(leg, events, facts.sighting, cdrs)
    return leg


def _recency(event: CallEvent) -> tuple[int, int, str, str]:
    return _moment(event), event.micros or 0, event.event_id, event.doc


def _family(leg: Leg, newest: Sequence[CallEvent], sighting: Sighting | None, cdrs: Sequence[Cdr]) -> None:
    root = next((cdr.root for cdr in cdrs if cdr.root), None)
    leg.root = root or next((event.root_id for event in newest if event.root_id), None)
    if leg.root:
        leg.origins["root"] = "cdr" if root else "webhook"
    parent = next((cdr.parent for cdr in cdrs if cdr.parent), None)
    leg.parent = parent or (sighting.parent if sighting and sighting.parent else None)
    if leg.parent == leg.id:
        leg.parent = None
    if leg.parent:
        leg.origins["parent"] = "cdr" if parent else "poll"


PARTY_FIELDS = ("src", "src_id", "src_name", "dst", "dst_id", "dst_name", "context")


def _parties(leg: Leg, newest: Sequence[CallEvent], sighting: Sighting | None, cdrs: Sequence[Cdr]) -> None:
    """Each from the surest source that has it: CDR, then poll, then the newest webhook."""
    sources: list[tuple[str, Cdr | Sighting | CallEvent]] = [("cdr", cdr) for cdr in cdrs]
    if sighting is not None:
        sources.append(("poll", sighting))
    sources += [("webhook", event) for event in newest]
    for name in PARTY_FIELDS:
        for origin, record in sources:
            value = getattr(record, name)
            if value:
                setattr(leg, name, value)
                leg.origins[name] = origin
                break
    for _, record in sources:
        leg.direction = direction(record)
        if leg.direction:
            break
    leg.clid = next((cdr.clid for cdr in cdrs if cdr.clid), None) or (sighting.clid if sighting else None)
    groups = {group for _, record in sources if (group := group_in(record.context)) is not None}
    if groups:
        leg.group = min(groups, key=lambda group: (group[1] is None, group[0], group[1] or 0))
    leg.accepted = any((event.state or "").upper() == "ACCEPTED" for event in newest)
    leg.dst_connection = bool(sighting and sighting.dst_connection)


def direction(record: Cdr | Sighting | CallEvent) -> str | None:
    """'in' or 'out' of a record. A call that the platform places on somebody's behalf (webcall,
    callmeback) goes out."""
    told = (record.destination or "").strip().lower()
    if told in ("in", "out"):
        return told
    if told in ("webcall", "callmeback"):
        return "out"
    if isinstance(record, Cdr):
        return {"O": "out", "I": "in", "M": "in"}.get((record.type or "").upper())
    return None


def _records(leg: Leg, facts: LegFacts, cdrs: Sequence[Cdr]) -> None:
    leg.cdrs = len(cdrs)
    leg.recordings = frozenset(recording.id for recording in facts.recordings)
    leg.voicemails = frozenset(message.id for message in facts.voicemails)
    users = [cdr.user_id for cdr in cdrs] + sorted(r.user_id or 0 for r in facts.recordings)
    targets = sorted(h.event.dtmf_target or "" for h in facts.events)
    users += [id_of(target[2:]) for target in targets if target.startswith("U:")]
    leg.user_ids = tuple(dict.fromkeys(user for user in users if user))
    if cdrs:
        leg.billsec = sum(cdr.billsec for cdr in cdrs)
        leg.duration = sum(cdr.duration for cdr in cdrs)
        charges = [cdr.charge for cdr in cdrs if cdr.charge is not None]
        leg.charge = round(sum(charges), 6) if charges else None
        leg.t_cause = next((cdr.t_cause for cdr in reversed(cdrs) if cdr.t_cause), None)
        dispositions = [(cdr.disposition or "").upper() for cdr in cdrs]
        leg.disposition = next(
            (d for d in ("CONNECTED", "VM") if d in dispositions), dispositions[-1] or None
        )
        leg.origins.update(duration="cdr", charge="cdr")
    leg.mailbox = leg.disposition == "VM" or (
        leg.disposition != "CONNECTED" and any(message.leg_id == leg.id for message in facts.voicemails)
    )


def _live(leg: Leg, facts: LegFacts, ordered: Sequence[tuple[int, CallEvent, str]]) -> None:
    leg.live_moments = [(at, state, event.name) for at, event, state in ordered]
    state, since = ("INITIAL", None) if not ordered else (ordered[-1][2], ordered[-1][0])
    for at, _, earlier in reversed(ordered):
        if earlier != state:
            break
        since = at
    ringing_again = False
    picked_up = False
    for at, _, told in ordered:
        if told == "CONNECTED" and ringing_again and leg.picked_up_twice is None:
            leg.picked_up_twice = at
        ringing_again |= told == "RINGING" and picked_up
        picked_up |= told == "CONNECTED"
    seen = facts.sighting
    seen_state = (seen.state or "").upper() if seen else ""
    if seen is not None and seen_state in RANK:
        talking = RANK["CONNECTED"]
        both_talk = min(RANK[seen_state], RANK[state]) >= talking
        # A poll's clock is ours, an event's the platform's: they are compared only where rank can't tell.
        if not ordered or (seen.seen > ordered[-1][0] if both_talk else RANK[seen_state] > RANK[state]):
            if seen_state != state or since is None:
                since = (seen.connected if seen_state == "CONNECTED" else None) or (
                    seen.started if RANK[seen_state] < talking else None
                )
                since = since or seen.seen
            state = seen_state
    leg.state, leg.state_since = state, since
    cdr_connected = any(
        cdr.billsec > 0 or (cdr.disposition or "").upper() == "CONNECTED" for cdr in facts.cdrs
    )
    told_connected = any(RANK[told] >= RANK["CONNECTED"] for _, _, told in ordered) or any(
        heard.event.connected_at for heard in facts.events
    )
    poll_connected = bool(seen and (seen.connected or seen_state in ("CONNECTED", "ON_HOLD")))
    leg.connected = cdr_connected or told_connected or poll_connected
    if leg.connected:
        leg.origins["connected"] = "cdr" if cdr_connected else "poll" if poll_connected else "webhook"
    signs = [min(_moment(heard.event), int(heard.received)) for heard in facts.events]
    leg.heard = max([*signs, seen.seen if seen else 0])
    leg.missing = facts.missing is not None and facts.missing > leg.heard


def _end(leg: Leg, facts: LegFacts, cdrs: Sequence[Cdr]) -> None:
    hangups: list[tuple[int, Heard]] = []
    others: list[tuple[int, Heard]] = []
    for heard in facts.events:
        event = heard.event
        if event.name == "call.missed" or state_of(event) in ("MISSED", "FAILED"):
            others.append((_moment(event), heard))
        elif state_of(event) == "HANGUP":
            hangups.append((_moment(event), heard))
        if event.name == "call.missed" and event.final is not None:
            leg.final = bool(leg.final or event.final)
            if event.final:
                leg.final_at = max(leg.final_at or 0, _moment(event))
    told = hangups or others
    known = [heard.received for _, heard in hangups + others] + [cdr.known for cdr in cdrs if cdr.known]
    if told:
        leg.ended_at = max(at for at, _ in told)
        leg.origins["ended"] = "webhook"
    elif cdrs:
        leg.ended_at = max((cdr.calldate or 0) + cdr.duration for cdr in cdrs)
        leg.origins["ended"] = "cdr"
    elif facts.gone is not None and facts.gone > leg.heard:
        # Weaker than any record: a later event or poll that shows the leg takes it back.
        leg.inferred = True
        leg.ended_at = facts.gone
        known = [facts.gone]
        leg.origins["ended"] = "poll"
    if leg.ended_at is None:
        return
    leg.ended = True
    leg.learnt = min(known, default=None)
    leg.missing = False
    endings = sorted((heard.event for _, heard in hangups + others), key=_recency, reverse=True)
    leg.ended_by = next((event.terminated_by for event in endings if event.terminated_by), None)
    if not leg.t_cause:
        leg.t_cause = next((event.t_cause for event in endings if event.t_cause), None)
    leg.state_since = leg.ended_at
    leg.state = ENDED


def _clock(leg: Leg, events: Sequence[CallEvent], seen: Sighting | None, cdrs: Sequence[Cdr]) -> None:
    starts = [at for event in events if (at := seconds(event.start_time)) is not None]
    calldates = [cdr.calldate for cdr in cdrs if cdr.calldate is not None]
    firsts = [_moment(event) for event in events if _moment(event)]
    for origin, moments in (
        ("webhook", starts),
        ("poll", [seen.started] if seen and seen.started else []),
        ("cdr", calldates),
        ("webhook", firsts),
        ("poll", [seen.seen] if seen else []),
    ):
        if moments:
            leg.started = min(moments)
            leg.origins["started"] = origin
            break
    if leg.ended_at is not None and leg.ended_at < leg.started:
        leg.ended_at = leg.started
    if not leg.connected:
        return
    connects = [at for event in events if (at := seconds(event.connected_at)) is not None]
    talks = [at for at, state, _ in leg.live_moments if RANK[state] >= RANK["CONNECTED"]]
    billed = [
        cdr.calldate + max(0, cdr.duration - cdr.billsec)
        for cdr in cdrs
        if cdr.calldate is not None and (cdr.billsec > 0 or cdr.disposition == "CONNECTED")
    ]
    for origin, moments in (
        ("webhook", connects),
        ("poll", [seen.connected] if seen and seen.connected else []),
        ("webhook", talks),
        ("cdr", billed),
        ("poll", [seen.seen] if seen else []),
    ):
        if moments:
            leg.connected_at = max(leg.started, min(moments))
            leg.origins["connected_at"] = origin
            return


def kind(leg: Leg) -> str:
    """What answers at the leg's far end. A CDR's context is the last word on a leg that passed several."""
    if leg.mailbox:
        return "machine"
    return answering(leg.context)
