"""State and outcome of a call, from its legs, our knowledge and the time (calls.md).

`evaluate` is the whole of it; what it answers is a row of `_calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integration.core.phone_numbers import withheld
from integration.core.timestamps import stamp
from integration.mirror.calls.joins import Joined
from integration.mirror.calls.leg_view import Knowledge, View, patience
from integration.mirror.calls.legs import Leg
from integration.mirror.calls.parties import group_of, our_number, party_name, party_view, whose
from integration.mirror.calls.times import Talk, hold_seconds, ivr_seconds, talk_seconds

OUR_CAUSES = frozenset(
    {
        "no user responding",
        "no answer",
        "user busy",
        "call rejected",
        "subscriber absent",
        "destination out of order",
        "user not registered",
        "no route destination",
    }
)
"""Causes by which our phones end a leg: such a call is missed however short it was."""

SOURCES = ("webhook", "poll", "cdr")


class CallRow(NamedTuple):
    """A row of `_calls` but its `change_no`; columns as in `store.TABLES`."""

    id: int
    direction: str
    state: str
    unconfirmed: int
    provisional: int
    outcome: str | None
    started_at: str | None
    answered_at: str | None
    state_since: str | None
    ended_at: str | None
    ended_by: str | None
    wait_seconds: int | None
    ivr_seconds: int | None
    talk_seconds: int | None
    hold_seconds: int | None
    hold_incomplete: int
    party: str
    party_e164: str | None
    party_name: str
    our_number: str | None
    our_e164: str | None
    group_kind: str | None
    group_id: int | None
    group_name: str | None
    user_id: int | None
    user_name: str | None
    extension: str | None
    context: str | None
    t_cause: str | None
    charge: float | None
    legs: int
    recordings: int
    voicemails: int
    cdrs: int
    sources: str
    due_at: float | None


class Ended(NamedTuple):
    """How a call ended. `due` is when time alone may change that; `unsure`: a CDR may still say otherwise."""

    outcome: str | None
    due: float | None = None
    unsure: bool = False


def evaluate(joined: Joined, legs: Iterable[View], knowledge: Knowledge, now: float) -> CallRow:
    """The call that `legs` make up, as known at `now` (Unix seconds)."""
    views = sorted(legs, key=lambda view: (view.leg.started, view.leg.id))
    direction = direction_of(views)
    talks = _talks(views, direction, knowledge)
    open_ = _open(views)
    started = views[0].leg.started
    answered = min((talk.since for talk in talks), default=None)
    ended_at: int | None = None
    if open_:
        state, since = _going_on(open_, talks, direction, started)
        unconfirmed, due = _unconfirmed(open_, knowledge, now)
        ended = Ended(None, due)
    else:
        ended_at = _ended_at(views, started)
        state, since = "ended", ended_at
        ended = how_ended(views, talks, direction, started, ended_at, knowledge, now)
        unconfirmed = ended.unsure or any(view.leg.inferred for view in views)
    held, incomplete = hold_seconds(talks)
    talked = max(0, talk_seconds(talks) - (held or 0)) if talks and not open_ else None
    waited = answered if answered is not None else ended_at
    group_kind, group_id, group_name = group_of(views)
    owner = whose(views, talks, direction)
    seen = party_view(views, direction)
    party = seen.party if seen is not None and not withheld(seen.party) else ""
    e164 = knowledge.numbers.e164(party)
    ours = our_number(views, direction)
    last = _last(views, talks)
    charges = [view.leg.charge for view in views if view.leg.charge is not None]
    return CallRow(
        id=joined.id,
        direction=direction,
        state=state,
        unconfirmed=int(unconfirmed),
        provisional=int(joined.provisional),
        outcome=ended.outcome,
        started_at=stamp(started),
        answered_at=stamp(answered),
        state_since=stamp(since),
        ended_at=stamp(ended_at),
        ended_by=last.ended_by if ended_at is not None else None,
        wait_seconds=None if waited is None else max(0, waited - started),
        ivr_seconds=ivr_seconds(view.leg for view in views if view.kind == "ivr"),
        talk_seconds=talked,
        hold_seconds=held,
        hold_incomplete=int(incomplete),
        party=party or "",
        party_e164=e164,
        party_name=party_name(seen, party, e164, direction, knowledge),
        our_number=ours,
        our_e164=knowledge.numbers.e164(ours),
        group_kind=group_kind,
        group_id=group_id,
        group_name=group_name,
        user_id=owner.person.id if owner is not None and owner.person is not None else None,
        user_name=(owner.own_name or None) if owner is not None else None,
        extension=owner.extension if owner is not None else None,
        context=last.context or views[0].leg.context,
        t_cause=last.t_cause,
        charge=round(sum(charges), 6) if charges else None,
        legs=len(views),
        recordings=_distinct([view.leg.recordings for view in views]),
        voicemails=_distinct([view.leg.voicemails for view in views]),
        cdrs=sum(view.leg.cdrs for view in views),
        sources=_sources(views),
        due_at=ended.due,
    )


def _sources(views: Sequence[View]) -> str:
    there = {name for view in views for name in view.leg.sources}
    return ",".join(name for name in SOURCES if name in there)


def _distinct(sets: Sequence[frozenset[int]]) -> int:
    return len(sets[0]) if len(sets) == 1 else len(frozenset().union(*sets))


def direction_of(views: Sequence[View]) -> str:
    """The first leg's; where that is between two of ours, the first leg's with an outside party."""
    sides = [view.side for view in views]
    if any(view.leg.accepted for view in views) and "out" in sides:
        return "out"
    return next((side for side in sides if side != "inner"), "internal")


def _talks(views: Sequence[View], direction: str, knowledge: Knowledge) -> list[Talk]:
    """The legs on which people talked, by when that began; none means that nobody answered."""
    if direction == "in":
        found = [Talk(v.leg, v.leg.connected_at or v.leg.started) for v in views if v.taken]
        if found:
            # Where the call went from there is talk as well: a colleague, a number outside.
            found += [
                Talk(v.leg, v.leg.connected_at or v.leg.started)
                for v in views
                if not v.taken and v.talks and v.side != "in" and not v.is_group
            ]
    elif direction == "internal":
        found = [Talk(v.leg, v.leg.connected_at or v.leg.started) for v in views if v.talks]
    else:
        found = _outbound_talks(views, knowledge)
    return sorted(found, key=lambda talk: (talk.since, talk.leg.id))


def _outbound_talks(views: Sequence[View], knowledge: Knowledge) -> list[Talk]:
    """Of the legs towards one outside party the last decides: before it comes the agent's own phone."""
    last: dict[str, View] = {}
    for view in views:
        if view.side == "out":
            last[knowledge.numbers.key(view.leg.dst)] = view
    found: list[Talk] = []
    for view in last.values():
        since = destination_answered(view.leg, alone=len(views) == 1)
        if since is not None:
            found.append(Talk(view.leg, since))
    if found:
        first = min(talk.since for talk in found)
        found += [
            Talk(v.leg, v.leg.connected_at or v.leg.started)
            for v in views
            if v.side == "inner" and v.talks and (v.leg.connected_at or 0) >= first
        ]
    return found


def destination_answered(leg: Leg, alone: bool) -> int | None:
    """When the outside party picked up; None where it did not, or only the agent is known to have."""
    if leg.origins.get("connected") == "cdr":
        if alone and leg.billsec and leg.ended_at is not None:
            return max(leg.connected_at or leg.started, leg.ended_at - leg.billsec)
        return leg.connected_at or leg.started
    if leg.cdrs and alone:
        return None
    if not leg.connected:
        return None
    if not alone:
        return leg.connected_at or leg.started
    if leg.picked_up_twice is not None:
        return leg.picked_up_twice
    return (leg.connected_at or leg.started) if leg.dst_connection else None


def _open(views: Sequence[View]) -> list[View]:
    """Legs that go on. `final: true` ends the call unless a leg of it is connected or came after it."""
    open_ = [view for view in views if not view.leg.ended]
    over = max((view.leg.final_at for view in views if view.leg.final_at is not None), default=None)
    if over is None or any(view.leg.connected for view in open_):
        return open_
    return [view for view in open_ if _last_told(view.leg) > over]


def _last_told(leg: Leg) -> int:
    return max([leg.started, *(at for at, _, _ in leg.live_moments)])


def _going_on(
    open_: Sequence[View], talks: Sequence[Talk], direction: str, started: int
) -> tuple[str, int | None]:
    talking = {talk.leg.id for talk in talks}
    now_talking = [view for view in open_ if view.leg.id in talking]
    if not now_talking and direction == "in":
        now_talking = [view for view in open_ if view.talks]
    if now_talking:
        moments = [view.leg.state_since or view.leg.started for view in now_talking]
        if all(view.leg.state == "ON_HOLD" for view in now_talking):
            return "on_hold", max(moments)
        since = [
            talk.since if view.leg.state != "CONNECTED" else max(talk.since, view.leg.state_since or 0)
            for view in now_talking
            if view.leg.state != "ON_HOLD"
            for talk in talks
            if talk.leg is view.leg
        ]
        return "talking", min(since, default=min(moments))
    if direction == "out" and any(view.leg.connected for view in open_):
        if all(view.leg.state == "ON_HOLD" for view in open_ if view.leg.connected):
            return "on_hold", max(v.leg.state_since or v.leg.started for v in open_ if v.leg.connected)
        return "dialling", started
    return "ringing", started


def _unconfirmed(open_: Sequence[View], knowledge: Knowledge, now: float) -> tuple[bool, float | None]:
    """Nobody has shown any of the legs lately; and when that would become so."""
    silence = knowledge.rules.silence
    doubts = [view.leg.missing or now - view.leg.heard >= silence for view in open_]
    later = [view.leg.heard + silence for view, doubt in zip(open_, doubts, strict=True) if not doubt]
    return all(doubts), float(max(later)) if later else None


def _ended_at(views: Sequence[View], started: int) -> int:
    ends = [view.leg.ended_at for view in views if view.leg.ended_at is not None]
    ends += [view.leg.final_at for view in views if view.leg.final_at is not None]
    return max([started, *ends])


def how_ended(
    views: Sequence[View],
    talks: Sequence[Talk],
    direction: str,
    started: int,
    ended_at: int,
    knowledge: Knowledge,
    now: float,
) -> Ended:
    if direction == "internal":
        return Ended("internal")
    if direction == "out":
        if talks:
            return Ended("answered")
        leg = views[0].leg
        if len(views) > 1 or not leg.connected or leg.cdrs:
            return Ended("not_answered")
        # What connected may have been the agent or the destination: the CDR will say.
        due = _settled(leg, ended_at) + knowledge.rules.record
        if now < due:
            return Ended(None, due, unsure=True)
        return Ended("not_answered", unsure=True)
    if talks:
        return Ended("answered")
    rules = knowledge.rules
    if any(view.leg.voicemails for view in views):
        return Ended("voicemail")
    ends = [(view, _settled(view.leg, ended_at)) for view in views]
    if not any(view.leg.final for view in views):
        due = max(end + patience(view, rules) for view, end in ends)
        if now < due:
            return Ended(None, due)
    if any(view.leg.disposition == "VM" for view in views):
        due = max(end for _, end in ends) + rules.mailbox
        if now < due:
            return Ended("voicemail", due)
        return Ended("missed")
    if rules.short > 0 and ended_at - started <= rules.short and not _we_ended(views):
        return Ended("abandoned")
    return Ended("missed")


def _settled(leg: Leg, ended_at: int) -> float:
    """When the leg ended, or when we first knew of it if that was sooner: clocks may differ by years."""
    end = leg.ended_at if leg.ended_at is not None else ended_at
    return end if leg.learnt is None else min(end, leg.learnt)


def _we_ended(views: Sequence[View]) -> bool:
    """True where our phones, not the caller, ended it: off, busy, refusing."""
    causes = [(view.leg.t_cause or "").casefold() for view in views if not view.is_group]
    return bool(causes) and all(cause in OUR_CAUSES for cause in causes)


def _last(views: Sequence[View], talks: Sequence[Talk]) -> Leg:
    """The leg whose end is the call's: the last that talked, else the last that ended."""
    legs = [talk.leg for talk in talks] or [view.leg for view in views]
    return max(legs, key=lambda leg: (leg.ended_at or 0, bool(leg.ended_by), leg.id))
