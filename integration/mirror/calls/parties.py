"""The parties of a call: the one outside, our number, the group, our person; their names."""

from __future__ import annotations

from collections.abc import Sequence

from integration.core.phone_numbers import clean_name, clid_number, is_short, withheld
from integration.mirror.calls.directory import id_of
from integration.mirror.calls.leg_view import Knowledge, View
from integration.mirror.calls.times import Talk


def group_of(views: Sequence[View]) -> tuple[str | None, int | None, str | None]:
    for view in views:
        if view.leg.group is not None:
            kind, id_ = view.leg.group
            if view.group is None:
                return kind, id_, None
            return kind, view.group.id, view.group.name or None
    for view in views:
        if view.kind == "ivr":
            return "ivr", id_of(view.leg.dst_id) or None, clean_name(view.leg.dst_name) or None
    return None, None, None


def whose(views: Sequence[View], talks: Sequence[Talk], direction: str) -> View | None:
    """Whose call it is: who talks or first answered, else who rings; of an outbound call who placed it.
    None where several phones rang and nobody answered: then it is the group's."""
    if direction == "out":
        placed = [view for view in views if view.side == "out"]
        known = [view for view in placed if view.person is not None]
        known += [view for view in views if view.side == "inner" and view.person is not None]
        return (known or placed)[0]
    by_leg = {view.leg.id: view for view in views}
    talked = [by_leg[talk.leg.id] for talk in talks]
    talking = [view for view in talked if not view.leg.ended]
    if talked:
        return (talking or talked)[0]
    rung = [view for view in views if not view.is_group and view.kind not in ("ivr", "machine")]
    # Where no phone rang, it is whose mailbox it reached.
    rung = rung or [view for view in views if view.person is not None]
    ringing = [view for view in rung if not view.leg.ended] or rung
    names = {(view.person, view.own_name, view.extension) for view in ringing}
    return ringing[0] if len(names) == 1 else None


def party_view(views: Sequence[View], direction: str) -> View | None:
    """The first leg with the outside party that tells its number."""
    wanted = "inner" if direction == "internal" else direction
    sides = [view for view in views if view.side == wanted]
    told = [view for view in sides if not withheld(view.party)]
    return next(iter(told or sides), None)


def party_name(
    view: View | None, party: str | None, e164: str | None, direction: str, knowledge: Knowledge
) -> str:
    """Contact, else user, else what the platform calls them."""
    if e164 is not None and (name := knowledge.names.get(e164)):
        return name
    if view is None:
        return ""
    person = knowledge.directory.by_ext.get(party or "")
    if person is not None:
        return person.name
    return clean_name(view.leg.dst_name if direction == "out" else view.leg.src_name)


def our_number(views: Sequence[View], direction: str) -> str | None:
    """The number that was dialled, or that we showed."""
    if direction != "out":
        side = "in" if direction == "in" else "inner"
        return next((view.leg.dst for view in views if view.side == side and view.leg.dst), None)
    for view in views:
        if view.side == "out":
            if view.leg.src and not is_short(view.leg.src):
                return view.leg.src
            if number := clid_number(view.leg.clid):
                return number
    return next((view.leg.src for view in views if view.side == "out" and view.leg.src), None)
