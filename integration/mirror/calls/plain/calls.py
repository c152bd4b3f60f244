"""Calls of one leg with one CDR, written in bulk.

Most calls of an initial sync are of this kind. `assemble` selects those legs of the backlog whose calls
cannot depend on another leg, and writes their rows without joining and comparing. The rows equal those of
`CallStore.refresh`; a test compares both. All other legs are left to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import orjson

from integration.core.ids import id_list
from integration.core.phone_numbers import is_withheld
from integration.core.timestamps import format_timestamp
from integration.mirror.calls import contact_numbers, reading
from integration.mirror.calls.affected_legs import insert_legs, make_leg_row
from integration.mirror.calls.facts import Cdr, LegFacts, Recording
from integration.mirror.calls.joins import MAX_JOIN_SECONDS, Link
from integration.mirror.calls.leg_view import LegView, ReferenceData, make_link
from integration.mirror.calls.outcomes import CallRow, determine_outcome, find_destination_talk
from integration.mirror.calls.parties import find_account_number, find_group, get_party_name
from integration.mirror.calls.plain.legs import build_single_record_leg
from integration.mirror.calls.times import Talk, sum_ivr_seconds, sum_talk_seconds
from integration.mirror.calls.writing import insert_history, is_history
from integration.sqlite.transaction import Transaction

_OTHER_FACTS = " UNION ALL ".join(
    f"SELECT {column} FROM {table} WHERE {column} IN (SELECT value FROM json_each({ids}))"
    for table, column, ids in (
        ("_leg_events", "leg_id", "?1"),
        ("_leg_live", "leg_id", "?1"),
        ("_legs", "leg_id", "?1"),
        ("_legs", "root_id", "?1"),
        ("_legs", "parent_id", "?1"),
        ("_call_ids", "id", "?1"),
        ("_calls", "id", "?1"),
        ("voicemessages", "live_id", "?2"),
        ("voicemessages", "parent_live_id", "?2"),
    )
)
"""SQL of legs that have other facts, rows, or a call. `?2` has each id as number and as text."""


_STORED_NEAR = (
    "SELECT k.value ->> 2 FROM json_each(?1) AS k WHERE EXISTS (SELECT 1 FROM _legs"
    " WHERE join_key = k.value ->> 0 AND started BETWEEN (k.value ->> 1) - ?2 AND (k.value ->> 1) + ?2)"
)
"""SQL of legs close to a stored leg. Parameters: JSON list of (key, start, id), and seconds."""


def assemble(
    tx: Transaction,
    leg_ids: Sequence[int],
    reference_data: ReferenceData,
    now: float,
    on_ended: Callable[[Transaction, list[int]], None] | None,
) -> set[int]:
    """Write the plain calls of the past; return their legs.

    `reference_data` has no names of contacts; `now` is Unix seconds.
    """
    views = list(_load_views(tx, leg_ids, reference_data))
    links = {view.leg.id: make_link(view, reference_data) for view in views}
    joinable_ids = _find_joinable(tx, links.values())
    views = [view for view in views if view.leg.id not in joinable_ids]
    e164 = reference_data.phone_numbers.to_e164
    party_numbers = {number for view in views if (number := e164(view.party)) is not None}
    reference_data = replace(reference_data, contact_names=contact_numbers.find_names(tx, party_numbers))
    leg_rows, call_rows = [], []
    for view in views:
        call_row = evaluate_plain_call(view, reference_data, now)
        if is_history(call_row, now):
            leg_rows.append(make_leg_row(view, links[view.leg.id], view.leg.id))
            call_rows.append(call_row)
    if not call_rows:
        return set()
    ids = [row.id for row in call_rows]
    insert_legs(tx, leg_rows)
    if on_ended is not None:
        on_ended(tx, sorted(ids))
    tx.executemany("INSERT INTO _call_ids VALUES (?, ?)", [(id_, id_) for id_ in ids])
    insert_history(tx, call_rows)
    return set(ids)


def _load_views(tx: Transaction, leg_ids: Sequence[int], reference_data: ReferenceData) -> Iterator[LegView]:
    """Yield legs with one CDR that name no other leg or conference."""
    mixed_ids = reading.to_mixed_id_list(leg_ids)
    cdrs = reading.load_cdrs(tx.connection, mixed_ids)
    cdr_counts = Counter(cdr.live_id for cdr in cdrs)
    excluded_ids = {
        reading.parse_int(row[0]) for row in tx.execute(_OTHER_FACTS, (id_list(leg_ids), mixed_ids))
    }
    for cdr in cdrs:
        excluded_ids.update(id_ for id_ in (cdr.root_id, cdr.parent_id) if id_ != cdr.live_id)
    recordings: dict[int, list[Recording]] = {}
    for recording in reading.load_recordings(tx.connection, mixed_ids):
        recordings.setdefault(recording.leg_id, []).append(recording)
    for cdr in cdrs:
        leg_id = cdr.live_id
        if cdr_counts[leg_id] > 1 or leg_id in excluded_ids or _names_other_leg(cdr):
            continue
        leg = build_single_record_leg(LegFacts(leg_id, cdrs=[cdr], recordings=recordings.get(leg_id, [])))
        view = LegView(leg, reference_data)
        if view.conference is None:
            yield view


def _find_joinable(tx: Transaction, links: Iterable[Link]) -> set[int]:
    """Return the legs that may join another leg by time.

    Such legs have the same party and group and begin within MAX_JOIN_SECONDS (rule 3 of
    docs/calls.md#joining-legs).
    """
    keyed_links = sorted(
        (leg_link.key, leg_link.started, leg_link.id) for leg_link in links if leg_link.key is not None
    )
    rows = tx.execute(_STORED_NEAR, (orjson.dumps(keyed_links).decode(), MAX_JOIN_SECONDS))
    joinable_ids = {row[0] for row in rows}
    for (key, started, leg_id), (next_key, next_started, next_id) in pairwise(keyed_links):
        if key == next_key and next_started - started <= MAX_JOIN_SECONDS:
            joinable_ids |= {leg_id, next_id}
    return joinable_ids


def _names_other_leg(cdr: Cdr) -> bool:
    return cdr.root_id not in (None, cdr.live_id) or cdr.parent_id not in (None, cdr.live_id)


def evaluate_plain_call(view: LegView, reference_data: ReferenceData, now: float) -> CallRow:
    """Compute the call of one leg with one CDR.

    The result is that of `outcomes.evaluate_call`. `now` is Unix seconds.
    """
    leg = view.leg
    direction = "internal" if view.side == "inner" else view.side
    started, ended_at = leg.started, leg.ended_at
    talk = _find_talk(view)
    talks = [] if talk is None else [talk]
    call_end = determine_outcome([view], talks, direction, started, ended_at, reference_data, now)
    answered_at = None if talk is None or talk.since is None else max(talk.since, 0)
    talk_seconds = sum_talk_seconds(talks) if talks else None
    wait_end = ended_at if answered_at is None else answered_at
    ended_text = format_timestamp(ended_at)
    number = view.party
    party = "" if number is None or is_withheld(number) else number
    to_e164 = reference_data.phone_numbers.to_e164
    e164 = to_e164(party)
    account_number = find_account_number([view], direction, party)
    group_kind, group_id, group_name = find_group([view])
    has_phone = not view.is_group and view.kind not in ("ivr", "machine")
    has_owner = direction == "out" or bool(talks) or has_phone or view.person is not None
    is_ivr = view.kind == "ivr"
    return CallRow(
        leg.id,
        direction,
        "ended",
        int(call_end.is_unsure),
        0,
        call_end.outcome,
        format_timestamp(started),
        format_timestamp(answered_at),
        ended_text,
        ended_text,
        None,
        None if wait_end is None or started is None else max(0, wait_end - started),
        sum_ivr_seconds([leg]) if is_ivr else None,
        talk_seconds,
        None if talks else 0,
        0,
        party,
        e164,
        get_party_name(view, party, e164, direction, reference_data),
        account_number,
        to_e164(account_number),
        group_kind,
        group_id,
        group_name,
        view.person.id if has_owner and view.person is not None else None,
        (view.staff_name or None) if has_owner else None,
        view.extension if has_owner else None,
        leg.context,
        leg.t_cause,
        leg.charge,
        1,
        len(leg.recordings),
        0,
        1,
        "cdr",
        call_end.due_at,
    )


def _find_talk(view: LegView) -> Talk | None:
    if view.side == "out":
        return find_destination_talk(view.leg, is_single_leg=True)
    is_talk = view.is_answered_by_staff if view.side == "in" else view.is_talking
    return Talk(view.leg, view.leg.connected_since) if is_talk else None
