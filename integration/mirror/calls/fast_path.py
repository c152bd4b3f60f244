"""Single-record calls: the leg that one record describes, and the call of one such leg.

Most of history is of this kind, and no webhook, poll or other leg has to be weighed. The results equal those
of `legs.build` and `outcomes.evaluate`; tests/mirror/calls/test_fast_path.py compares them.
"""

from __future__ import annotations

from integration.core.phone_numbers import is_withheld
from integration.core.timestamps import format_timestamp
from integration.mirror.calls.directory import parse_group
from integration.mirror.calls.facts import LegFacts
from integration.mirror.calls.joins import JoinedCall
from integration.mirror.calls.leg_view import LegView, ReferenceData
from integration.mirror.calls.legs import ENDED, PARTY_FIELDS, Leg, parse_direction
from integration.mirror.calls.outcomes import CallRow, determine_outcome, get_destination_answer_time
from integration.mirror.calls.parties import find_account_number, find_group, find_owner, get_party_name
from integration.mirror.calls.times import Talk, sum_ivr_seconds, sum_talk_seconds


def is_single_record(facts: LegFacts) -> bool:
    return len(facts.cdrs) == 1 and not facts.events and facts.sighting is None


def build_single_record_leg(facts: LegFacts) -> Leg:
    """The leg of facts that are plain."""
    (cdr,) = facts.cdrs
    disposition = (cdr.disposition or "").upper() or None
    leg = Leg(
        facts.leg_id,
        root_id=cdr.root_id or None,
        parent_id=cdr.parent_id if cdr.parent_id and cdr.parent_id != facts.leg_id else None,
        direction=parse_direction(cdr),
        state=ENDED,
        is_connected=cdr.billsec > 0 or disposition == "CONNECTED",
        has_ended=True,
        end_received_at=cdr.received_at or None,
        context=cdr.context or None,
        group=parse_group(cdr.context),
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
        is_mailbox=disposition == "VM",
        cdrs=1,
        sources=("cdr",),
    )
    leg.origins = {name: "cdr" for name in PARTY_FIELDS if getattr(leg, name)}
    leg.origins |= {"duration": "cdr", "charge": "cdr", "ended": "cdr"}
    if leg.root_id:
        leg.origins["root"] = "cdr"
    if leg.parent_id:
        leg.origins["parent"] = "cdr"
    if leg.is_connected:
        leg.origins["connected"] = "cdr"
    leg.state_since = (cdr.calldate or 0) + cdr.duration
    if cdr.calldate is not None:
        leg.started = cdr.calldate
        leg.origins["started"] = "cdr"
        if cdr.billsec > 0 or cdr.disposition == "CONNECTED":
            leg.connected_at = cdr.calldate + max(0, cdr.duration - cdr.billsec)
            leg.origins["connected_at"] = "cdr"
    leg.ended_at = max(leg.started, leg.state_since)
    _add_media(leg, facts)
    return leg


def _add_media(leg: Leg, facts: LegFacts) -> None:
    """Recordings and voice messages: few legs have any."""
    if facts.recordings:
        leg.recordings = frozenset(recording.id for recording in facts.recordings)
        user_ids = sorted(recording.user_id or 0 for recording in facts.recordings)
        leg.user_ids = tuple(dict.fromkeys([*leg.user_ids, *(user for user in user_ids if user)]))
    if facts.voicemails:
        leg.voicemails = frozenset(message.id for message in facts.voicemails)
        if leg.disposition != "CONNECTED":
            leg.is_mailbox = leg.is_mailbox or any(message.leg_id == leg.id for message in facts.voicemails)


def is_single_leg_call(joined_call: JoinedCall, view: LegView) -> bool:
    return len(joined_call.leg_ids) == 1 and view.leg.sources == ("cdr",)


def build_single_leg_call(
    joined_call: JoinedCall, view: LegView, reference_data: ReferenceData, now: float
) -> CallRow:
    """The call of a leg that is alone."""
    leg, views = view.leg, (view,)
    started, ended_at = leg.started, leg.ended_at or 0
    direction = "internal" if view.side == "inner" else view.side
    if direction == "out":
        answered_at = get_destination_answer_time(leg, is_single_leg=True)
    else:
        is_talked = view.is_answered_by_staff if direction == "in" else view.is_talking
        answered_at = (leg.connected_at or started) if is_talked else None
    talks = () if answered_at is None else (Talk(leg, answered_at),)
    call_end = determine_outcome(views, talks, direction, started, ended_at, reference_data, now)
    group_kind, group_id, group_name = find_group(views)
    owner_view = find_owner(views, talks, direction)
    party = "" if is_withheld(view.party) else view.party or ""
    e164 = reference_data.phone_numbers.to_e164(party)
    account_number = find_account_number(views, direction)
    return CallRow(
        id=joined_call.id,
        direction=direction,
        state="ended",
        unconfirmed=int(call_end.is_unsure),
        provisional=int(joined_call.is_provisional),
        outcome=call_end.outcome,
        started_at=format_timestamp(started),
        answered_at=format_timestamp(answered_at),
        state_since=format_timestamp(ended_at),
        ended_at=format_timestamp(ended_at),
        ended_by=None,
        wait_seconds=max(0, (ended_at if answered_at is None else answered_at) - started),
        ivr_seconds=sum_ivr_seconds((leg,)) if view.kind == "ivr" else None,
        talk_seconds=sum_talk_seconds(talks) if talks else None,
        hold_seconds=None if talks else 0,
        hold_incomplete=0,
        party=party,
        party_e164=e164,
        party_name=get_party_name(view, party, e164, direction, reference_data),
        our_number=account_number,
        our_e164=reference_data.phone_numbers.to_e164(account_number),
        group_kind=group_kind,
        group_id=group_id,
        group_name=group_name,
        user_id=owner_view.person.id if owner_view is not None and owner_view.person is not None else None,
        user_name=(owner_view.staff_name or None) if owner_view is not None else None,
        extension=owner_view.extension if owner_view is not None else None,
        context=leg.context,
        t_cause=leg.t_cause,
        charge=None if leg.charge is None else round(0 + leg.charge, 6),
        legs=1,
        recordings=len(leg.recordings),
        voicemails=len(leg.voicemails),
        cdrs=leg.cdrs,
        sources="cdr",
        due_at=call_end.due_at,
    )
