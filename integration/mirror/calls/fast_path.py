"""The leg that only one record tells of, and the call of one leg that only records tell of, which is most of
history: without what webhooks, polls and other legs would have to be weighed against.

They equal what `legs.build` and `outcomes.evaluate` make of the same: tests/calls/test_plain.py compares.
"""

from __future__ import annotations

from integration.core.phone_numbers import withheld
from integration.core.timestamps import stamp
from integration.mirror.calls.directory import group_in
from integration.mirror.calls.facts import LegFacts
from integration.mirror.calls.joins import Joined
from integration.mirror.calls.leg_view import Knowledge, View
from integration.mirror.calls.legs import ENDED, PARTY_FIELDS, Leg, direction
from integration.mirror.calls.outcomes import CallRow, destination_answered, how_ended
from integration.mirror.calls.parties import group_of, our_number, party_name, whose
from integration.mirror.calls.times import Talk, ivr_seconds, talk_seconds


def is_plain(facts: LegFacts) -> bool:
    return len(facts.cdrs) == 1 and not facts.events and facts.sighting is None


def leg_of(facts: LegFacts) -> Leg:
    """The leg of facts that are plain."""
    (cdr,) = facts.cdrs
    disposition = (cdr.disposition or "").upper() or None
    leg = Leg(
        facts.leg_id,
        root=cdr.root or None,
        parent=cdr.parent if cdr.parent and cdr.parent != facts.leg_id else None,
        direction=direction(cdr),
        state=ENDED,
        connected=cdr.billsec > 0 or disposition == "CONNECTED",
        ended=True,
        learnt=cdr.known or None,
        context=cdr.context or None,
        group=group_in(cdr.context),
        src=cdr.src or None,
        src_id=cdr.src_id or None,
        src_name=cdr.src_name or None,
        dst=cdr.dst or None,
        dst_id=cdr.dst_id or None,
        dst_name=cdr.dst_name or None,
        clid=cdr.clid or None,
        user_ids=(cdr.user_id,) if cdr.user_id else (),
        t_cause=cdr.t_cause or None,
        duration=cdr.duration,
        billsec=cdr.billsec,
        charge=None if cdr.charge is None else round(0 + cdr.charge, 6),
        disposition=disposition,
        mailbox=disposition == "VM",
        cdrs=1,
        sources=("cdr",),
    )
    leg.origins = {name: "cdr" for name in PARTY_FIELDS if getattr(leg, name)}
    leg.origins |= {"duration": "cdr", "charge": "cdr", "ended": "cdr"}
    if leg.root:
        leg.origins["root"] = "cdr"
    if leg.parent:
        leg.origins["parent"] = "cdr"
    if leg.connected:
        leg.origins["connected"] = "cdr"
    leg.state_since = (cdr.calldate or 0) + cdr.duration
    if cdr.calldate is not None:
        leg.started = cdr.calldate
        leg.origins["started"] = "cdr"
        if cdr.billsec > 0 or cdr.disposition == "CONNECTED":
            leg.connected_at = cdr.calldate + max(0, cdr.duration - cdr.billsec)
            leg.origins["connected_at"] = "cdr"
    leg.ended_at = max(leg.started, leg.state_since)
    _others(leg, facts)
    return leg


def _others(leg: Leg, facts: LegFacts) -> None:
    """Recordings and voice messages: few legs have any."""
    if facts.recordings:
        leg.recordings = frozenset(recording.id for recording in facts.recordings)
        users = sorted(recording.user_id or 0 for recording in facts.recordings)
        leg.user_ids = tuple(dict.fromkeys([*leg.user_ids, *(user for user in users if user)]))
    if facts.voicemails:
        leg.voicemails = frozenset(message.id for message in facts.voicemails)
        if leg.disposition != "CONNECTED":
            leg.mailbox = leg.mailbox or any(message.leg_id == leg.id for message in facts.voicemails)


def is_alone(joined: Joined, view: View) -> bool:
    return len(joined.legs) == 1 and view.leg.sources == ("cdr",)


def call_of(joined: Joined, view: View, knowledge: Knowledge, now: float) -> CallRow:
    """The call of a leg that is alone."""
    leg, views = view.leg, (view,)
    started, ended_at = leg.started, leg.ended_at or 0
    way = "internal" if view.side == "inner" else view.side
    if way == "out":
        answered = destination_answered(leg, alone=True)
    else:
        talked = view.taken if way == "in" else view.talks
        answered = (leg.connected_at or started) if talked else None
    talks = () if answered is None else (Talk(leg, answered),)
    ended = how_ended(views, talks, way, started, ended_at, knowledge, now)
    group_kind, group_id, group_name = group_of(views)
    owner = whose(views, talks, way)
    party = "" if withheld(view.party) else view.party or ""
    e164 = knowledge.numbers.e164(party)
    ours = our_number(views, way)
    return CallRow(
        id=joined.id,
        direction=way,
        state="ended",
        unconfirmed=int(ended.unsure),
        provisional=int(joined.provisional),
        outcome=ended.outcome,
        started_at=stamp(started),
        answered_at=stamp(answered),
        state_since=stamp(ended_at),
        ended_at=stamp(ended_at),
        ended_by=None,
        wait_seconds=max(0, (ended_at if answered is None else answered) - started),
        ivr_seconds=ivr_seconds((leg,)) if view.kind == "ivr" else None,
        talk_seconds=talk_seconds(talks) if talks else None,
        hold_seconds=None if talks else 0,
        hold_incomplete=0,
        party=party,
        party_e164=e164,
        party_name=party_name(view, party, e164, way, knowledge),
        our_number=ours,
        our_e164=knowledge.numbers.e164(ours),
        group_kind=group_kind,
        group_id=group_id,
        group_name=group_name,
        user_id=owner.person.id if owner is not None and owner.person is not None else None,
        user_name=(owner.own_name or None) if owner is not None else None,
        extension=owner.extension if owner is not None else None,
        context=leg.context,
        t_cause=leg.t_cause,
        charge=None if leg.charge is None else round(0 + leg.charge, 6),
        legs=1,
        recordings=len(leg.recordings),
        voicemails=len(leg.voicemails),
        cdrs=leg.cdrs,
        sources="cdr",
        due_at=ended.due,
    )
