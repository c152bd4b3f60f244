"""Parties of a call: outside party, account number, group, user, names."""

from __future__ import annotations

from collections.abc import Sequence

from integration.core.ids import parse_id
from integration.core.phone_numbers import clean_name, is_short, is_withheld, parse_clid_number
from integration.mirror.calls.leg_view import LegView, ReferenceData
from integration.mirror.calls.times import Talk


def find_group(views: Sequence[LegView]) -> tuple[str | None, int | None, str | None]:
    """Return kind, id and name of the first group or IVR.

    A group takes precedence over an IVR.
    """
    for view in views:
        if view.leg.group is not None:
            kind, id_ = view.leg.group
            if view.group is None:
                return kind, id_, None
            return kind, view.group.id, view.group.name or None
    for view in views:
        if view.kind == "ivr":
            return "ivr", parse_id(view.leg.dst_id) or None, clean_name(view.leg.dst_name) or None
    return None, None, None


def find_owner(
    views: Sequence[LegView], open_views: Sequence[LegView], talks: Sequence[Talk], direction: str
) -> LegView | None:
    """Return the leg of the user to whom the call belongs.

    Outbound: the user who placed the call. Otherwise the user who talks or who answered first, otherwise the
    user whose phone rings. None if several phones rang and no user answered; the call then belongs to the
    group. `open_views` are the legs that the call has not ended.
    """
    if direction == "out":
        outbound_views = [view for view in views if view.side == "out"]
        user_views = [view for view in outbound_views if view.person is not None]
        user_views += [view for view in views if view.side == "inner" and view.person is not None]
        return (user_views or outbound_views)[0]
    by_leg = {view.leg.id: view for view in views}
    talk_views = [by_leg[talk.leg.id] for talk in talks]
    live_talk_views = [view for view in talk_views if view in open_views]
    if talk_views:
        return (live_talk_views or talk_views)[0]
    phone_views = [view for view in views if not view.is_group and view.kind not in ("ivr", "machine")]
    # If no phone rang, the call belongs to the user of the mailbox.
    phone_views = phone_views or [view for view in views if view.person is not None]
    ringing_views = [view for view in phone_views if view in open_views] or phone_views
    names = {(view.person, view.staff_name, view.extension) for view in ringing_views}
    return ringing_views[0] if len(names) == 1 else None


def find_party_view(views: Sequence[LegView], direction: str) -> LegView | None:
    """Return the first leg with the outside party.

    Legs with a number take precedence over withheld numbers.
    """
    party_side = "inner" if direction == "internal" else direction
    matching_views = [view for view in views if view.side == party_side]
    views_with_number = [view for view in matching_views if not is_withheld(view.party)]
    best_views = views_with_number or matching_views
    return best_views[0] if best_views else None


def get_party_name(
    view: LegView | None, party: str | None, e164: str | None, direction: str, reference_data: ReferenceData
) -> str:
    """Return the name of the party: contact, user, or as received, also instead of a number."""
    if e164 is not None and (name := reference_data.contact_names.get(e164)):
        return name
    if view is None:
        return ""
    person = reference_data.directory.people_by_extension.get(party or "")
    if person is not None:
        return person.name
    name = clean_name(view.leg.dst_name if direction == "out" else view.leg.src_name)
    return name or (clean_name(view.party) if is_withheld(view.party) else "")


def find_account_number(views: Sequence[LegView], direction: str, party: str | None) -> str | None:
    """Return the account's number in a call.

    Inbound and internal calls: the dialled number. Outbound calls: the number shown to the party; never
    `party` itself, which the leg of a transfer to a colleague has as its source.
    """
    if direction != "out":
        side = "in" if direction == "in" else "inner"
        return next((view.leg.dst for view in views if view.side == side and view.leg.dst), None)
    for view in views:
        if view.side == "out":
            if view.leg.src and not is_short(view.leg.src) and view.leg.src != party:
                return view.leg.src
            if (number := parse_clid_number(view.leg.clid)) and number != party:
                return number
    sources = [view.leg.src for view in views if view.side == "out" and view.leg.src]
    return next((source for source in sources if source != party), None)
