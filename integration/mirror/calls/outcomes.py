"""Compute state and outcome of a call (docs/calls.md#state-of-a-call).

`evaluate_call` computes a row of `_calls` from the legs, the reference data and the current time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integration.core.phone_numbers import is_withheld
from integration.core.timestamps import format_timestamp
from integration.mirror.calls.joins import JoinedCall
from integration.mirror.calls.leg_view import LegView, ReferenceData, get_next_leg_seconds
from integration.mirror.calls.legs import Leg
from integration.mirror.calls.parties import (
    find_account_number,
    find_group,
    find_owner,
    find_party_view,
    get_party_name,
)
from integration.mirror.calls.times import Talk, sum_hold_seconds, sum_ivr_seconds, sum_talk_seconds
from integration.mirror.page_queries.missed_calls import UNREACHABLE_CAUSES

PHONE_CAUSES = frozenset({*UNREACHABLE_CAUSES, "no user responding", "no answer", "call rejected"})
"""Causes of legs that the account's phones ended. Such a call is missed, however short."""

SOURCES = ("webhook", "poll", "cdr")


class CallRow(NamedTuple):
    """Row of `_calls` without `change_no`, in the order of its columns."""

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


class CallEnd(NamedTuple):
    """Outcome of a call.

    `due_at`: Unix seconds at which the call must be re-evaluated, or None. `is_unsure`: a CDR may still
    change the outcome.
    """

    outcome: str | None
    due_at: float | None = None
    is_unsure: bool = False


def evaluate_call(
    joined_call: JoinedCall, leg_views: Iterable[LegView], reference_data: ReferenceData, now: float
) -> CallRow:
    """Compute the call of these legs at the time `now` (Unix seconds)."""
    views = list(leg_views)
    if len(views) > 1:
        views.sort(key=lambda view: (view.leg.started is None, view.leg.started, view.leg.id))
    direction = _determine_direction(views)
    talks = _find_talks(views, direction, reference_data)
    open_views = _list_open_views(views)
    started = views[0].leg.started
    answered_at = _find_answer_time(views, talks, direction)
    ended_at: int | None = None
    if open_views:
        state, since = _get_live_state(open_views, talks, direction, started)
        is_unconfirmed, due_at = _check_confirmation(open_views, reference_data, now)
        call_end = CallEnd(None, due_at)
    else:
        ended_at = _get_end_time(views, started)
        state, since = "ended", ended_at
        call_end = _determine_outcome(views, talks, direction, started, ended_at, reference_data, now)
        is_unconfirmed = call_end.is_unsure or True in [view.leg.is_end_inferred for view in views]
    hold_total, is_incomplete = sum_hold_seconds(talks)
    talk_total = max(0, sum_talk_seconds(talks) - (hold_total or 0)) if talks and not open_views else None
    wait_end = answered_at if answered_at is not None else ended_at
    group_kind, group_id, group_name = find_group(views)
    owner_view = find_owner(views, open_views, talks, direction)
    party_leg_view = find_party_view(views, direction)
    party = (
        party_leg_view.party if party_leg_view is not None and not is_withheld(party_leg_view.party) else ""
    )
    e164 = reference_data.phone_numbers.to_e164(party)
    account_number = find_account_number(views, direction, party)
    last_leg = _find_last_leg(views, talks)
    charges = [view.leg.charge for view in views if view.leg.charge is not None]
    return CallRow(
        id=joined_call.id,
        direction=direction,
        state=state,
        unconfirmed=int(is_unconfirmed),
        provisional=int(joined_call.is_provisional),
        outcome=call_end.outcome,
        started_at=format_timestamp(started),
        answered_at=format_timestamp(answered_at),
        state_since=format_timestamp(since),
        ended_at=format_timestamp(ended_at),
        ended_by=last_leg.ended_by if state == "ended" else None,
        wait_seconds=None if wait_end is None or started is None else max(0, wait_end - started),
        ivr_seconds=sum_ivr_seconds([view.leg for view in views if view.kind == "ivr"]),
        talk_seconds=talk_total,
        hold_seconds=hold_total,
        hold_incomplete=int(is_incomplete),
        party=party or "",
        party_e164=e164,
        party_name=get_party_name(party_leg_view, party, e164, direction, reference_data),
        our_number=account_number,
        our_e164=reference_data.phone_numbers.to_e164(account_number),
        group_kind=group_kind,
        group_id=group_id,
        group_name=group_name,
        user_id=owner_view.person.id if owner_view is not None and owner_view.person is not None else None,
        user_name=(owner_view.staff_name or None) if owner_view is not None else None,
        extension=owner_view.extension if owner_view is not None else None,
        context=last_leg.context or views[0].leg.context,
        t_cause=last_leg.t_cause,
        charge=round(sum(charges), 6) if charges else None,
        legs=len(views),
        recordings=_count_distinct([view.leg.recordings for view in views]),
        voicemails=_count_distinct([view.leg.voicemails for view in views]),
        cdrs=sum([view.leg.cdrs for view in views]),
        sources=_join_sources(views),
        due_at=call_end.due_at,
    )


def _join_sources(views: Sequence[LegView]) -> str:
    names = {name for view in views for name in view.leg.sources}
    return ",".join([name for name in SOURCES if name in names])


def _count_distinct(sets: Sequence[frozenset[int]]) -> int:
    return len(sets[0]) if len(sets) == 1 else len(frozenset().union(*sets))


def _determine_direction(views: Sequence[LegView]) -> str:
    """Return the direction of the first leg with an outside party.

    'internal' if no leg has an outside party. A call with an accepted leg and an outbound leg is outbound.
    """
    sides = [view.side for view in views]
    if "out" in sides and True in [view.leg.is_accepted for view in views]:
        return "out"
    outside_sides = [side for side in sides if side != "inner"]
    return outside_sides[0] if outside_sides else "internal"


def _find_talks(views: Sequence[LegView], direction: str, reference_data: ReferenceData) -> list[Talk]:
    """Return the talks by start; empty if no person answered."""
    if direction == "in":
        talks = [Talk(v.leg, v.leg.connected_since) for v in views if v.is_answered_by_staff]
        if talks:
            # Transfers of the answered call, to a colleague or an outside number, count as talk.
            talks += [
                Talk(v.leg, v.leg.connected_since)
                for v in views
                if not v.is_answered_by_staff and v.is_talking and v.side != "in" and not v.is_group
            ]
    elif direction == "internal":
        talks = [Talk(v.leg, v.leg.connected_since) for v in views if v.is_talking]
    else:
        talks = _find_outbound_talks(views, reference_data)
    if len(talks) > 1:
        talks.sort(key=lambda talk: (talk.since is None, talk.since, talk.leg.id))
    return talks


def _find_answer_time(views: Sequence[LegView], talks: Sequence[Talk], direction: str) -> int | None:
    """Return the first connection with a person, in Unix seconds.

    None without conversation or its time. A caller in a conference waits until a user of the account is in
    it.
    """
    if not talks:
        return None
    staffed_since = {view.leg.id: view.staffed_since or 0 for view in views if direction == "in"}
    return min(
        (max(talk.since, staffed_since.get(talk.leg.id, 0)) for talk in talks if talk.since is not None),
        default=None,
    )


def _find_outbound_talks(views: Sequence[LegView], reference_data: ReferenceData) -> list[Talk]:
    """Return the talks of an outbound call.

    The last leg to each outside party decides, because earlier legs may be the agent's own phone.
    """
    last_views: dict[str | None, LegView] = {}
    for view in views:
        if view.side == "out":
            last_views[reference_data.phone_numbers.get_party_key(view.leg.dst) or view.leg.dst] = view
    talks: list[Talk] = []
    for view in last_views.values():
        talk = _find_destination_talk(view.leg, is_single_leg=len(views) == 1)
        if talk is not None:
            talks.append(talk)
    first_talk_at = min([talk.since for talk in talks if talk.since is not None], default=None)
    if first_talk_at is not None:
        talks += [
            Talk(v.leg, v.leg.connected_at)
            for v in views
            if v.side == "inner"
            and v.is_talking
            and v.leg.connected_at is not None
            and v.leg.connected_at >= first_talk_at
        ]
    return talks


def _find_destination_talk(leg: Leg, is_single_leg: bool) -> Talk | None:
    """Return the talk with the outside party.

    None if the outside party did not answer, or if the facts show only the agent's connection.
    """
    since = leg.connected_since
    if leg.is_connected_by_cdr:
        if is_single_leg and leg.billsec and leg.ended_at is not None and since is not None:
            since = max(since, leg.ended_at - leg.billsec)
        return Talk(leg, since)
    if (leg.cdrs and is_single_leg) or not leg.is_connected:
        return None
    if is_single_leg and leg.second_pickup_at is not None:
        return Talk(leg, leg.second_pickup_at)
    return Talk(leg, since) if leg.dst_connection or not is_single_leg else None


def _list_open_views(views: Sequence[LegView]) -> list[LegView]:
    """Return the legs that have not ended.

    `final: true` ends all legs, unless an open leg is connected. Legs with a later event stay open.
    """
    open_views = [view for view in views if not view.leg.has_ended]
    if not open_views:
        return open_views
    final_at = max((view.leg.final_at for view in views if view.leg.final_at is not None), default=None)
    if final_at is None or any(view.leg.is_connected for view in open_views):
        return open_views
    return [view for view in open_views if _get_last_event_time(view.leg) > final_at]


def _get_last_event_time(leg: Leg) -> int:
    times = [timestamp for timestamp, _, _ in leg.live_states]
    return max(times if leg.started is None else [leg.started, *times], default=leg.last_signal_at)


def _get_live_state(
    open_views: Sequence[LegView], talks: Sequence[Talk], direction: str, started: int | None
) -> tuple[str, int | None]:
    talking_ids = {talk.leg.id for talk in talks}
    talking_views = [view for view in open_views if view.leg.id in talking_ids]
    if not talking_views and direction == "in":
        talking_views = [view for view in open_views if view.is_talking]
    if talking_views:
        times = [_get_state_start(view.leg) for view in talking_views]
        if all(view.leg.state == "ON_HOLD" for view in talking_views):
            return "on_hold", max(times)
        start_times = [
            talk.since if view.leg.state != "CONNECTED" else max(talk.since, _get_state_start(view.leg))
            for view in talking_views
            if view.leg.state != "ON_HOLD"
            for talk in talks
            if talk.leg is view.leg and talk.since is not None
        ]
        return "talking", min(start_times, default=min(times))
    if direction == "out" and any(view.leg.is_connected for view in open_views):
        if all(view.leg.state == "ON_HOLD" for view in open_views if view.leg.is_connected):
            return "on_hold", max(_get_state_start(v.leg) for v in open_views if v.leg.is_connected)
        return "dialling", started
    return "ringing", started


def _get_state_start(leg: Leg) -> int:
    """Return the start of the state of an open leg, in Unix seconds."""
    return leg.state_since or leg.started or leg.last_signal_at


def _check_confirmation(
    open_views: Sequence[LegView], reference_data: ReferenceData, now: float
) -> tuple[bool, float | None]:
    """Return (whether the call is unconfirmed, when to check next).

    A call is unconfirmed if every open leg is missing from the newest poll or silent for `silence_seconds`.
    The second value is Unix seconds, or None.
    """
    silence_seconds = reference_data.rules.silence_seconds
    silent_flags = [
        view.leg.is_missing or now - view.leg.last_signal_at >= silence_seconds for view in open_views
    ]
    recheck_times = [
        view.leg.last_signal_at + silence_seconds
        for view, is_silent in zip(open_views, silent_flags, strict=True)
        if not is_silent
    ]
    return all(silent_flags), float(max(recheck_times)) if recheck_times else None


def _get_end_time(views: Sequence[LegView], started: int | None) -> int | None:
    ends = [view.leg.ended_at for view in views if view.leg.ended_at is not None]
    ends += [view.leg.final_at for view in views if view.leg.final_at is not None]
    ends += [] if started is None else [started]
    return max(ends, default=None)


def _determine_outcome(
    views: Sequence[LegView],
    talks: Sequence[Talk],
    direction: str,
    started: int | None,
    ended_at: int | None,
    reference_data: ReferenceData,
    now: float,
) -> CallEnd:
    if direction == "internal":
        return CallEnd("internal")
    if direction == "out":
        if talks:
            return CallEnd("answered")
        leg = views[0].leg
        if len(views) > 1 or not leg.is_connected or leg.cdrs:
            return CallEnd("not_answered")
        # The connection may be the agent's or the destination's. Only the CDR decides.
        due_at = _get_known_end(leg, ended_at) + reference_data.rules.cdr_seconds
        if now < due_at:
            return CallEnd(None, due_at, is_unsure=True)
        return CallEnd("not_answered", is_unsure=True)
    if talks:
        return CallEnd("answered")
    rules = reference_data.rules
    if any(view.leg.voicemails for view in views):
        return CallEnd("voicemail")
    ends = [(view, _get_known_end(view.leg, ended_at)) for view in views]
    if not any(view.leg.final for view in views):
        due_at = max([end + get_next_leg_seconds(view, rules) for view, end in ends])
        if now < due_at:
            return CallEnd(None, due_at)
    if "VM" in [view.leg.disposition for view in views]:
        due_at = max(end for _, end in ends) + rules.mailbox_seconds
        if now < due_at:
            return CallEnd("voicemail", due_at)
        return CallEnd("missed")
    if (
        rules.short_seconds > 0
        and _get_length(views, started, ended_at) <= rules.short_seconds
        and not _is_ended_by_phones(views)
    ):
        return CallEnd("abandoned")
    return CallEnd("missed")


def _get_length(views: Sequence[LegView], started: int | None, ended_at: int | None) -> int:
    """Return the seconds of the call; without a time those of its longest CDR."""
    if started is None or ended_at is None:
        return max(view.leg.duration or 0 for view in views)
    return ended_at - started


def _get_known_end(leg: Leg, ended_at: int | None) -> float:
    """Return the end of the leg or its receipt, whichever is earlier.

    The clocks of the platform and of this host may differ by years. An end without both is long ago.
    """
    end = leg.ended_at if leg.ended_at is not None else ended_at
    return min((time for time in (end, leg.end_received_at) if time is not None), default=-math.inf)


def _is_ended_by_phones(views: Sequence[LegView]) -> bool:
    """Return whether the account's phones ended the call (off, busy or rejecting)."""
    causes = [(view.leg.t_cause or "").casefold() for view in views if not view.is_group]
    return bool(causes) and all(cause in PHONE_CAUSES for cause in causes)


def _find_last_leg(views: Sequence[LegView], talks: Sequence[Talk]) -> Leg:
    """Return the leg whose end is the end of the call.

    This is the last talking leg, otherwise the last leg that ended.
    """
    legs = [talk.leg for talk in talks] or [view.leg for view in views]
    if len(legs) == 1:
        return legs[0]
    return max(legs, key=lambda leg: (leg.ended_at is not None, leg.ended_at, bool(leg.ended_by), leg.id))
