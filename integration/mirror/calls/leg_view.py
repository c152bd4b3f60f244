"""Interpret a leg with the account's users and groups.

A LegView has the side, far end, group and user of the leg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.core.phone_numbers import PhoneNumbers, clean_name, is_short
from integration.mirror.calls.directory import Directory, Group, Person, classify_context
from integration.mirror.calls.joins import MUSIC, Link
from integration.mirror.calls.legs import Leg
from integration.mirror.calls.rules import CallRules


@dataclass(frozen=True)
class ReferenceData:
    """Data besides the facts of legs: directory, number format, contacts, thresholds.

    `contact_names` maps E.164 numbers to names of contacts.
    """

    directory: Directory = field(default_factory=Directory)
    phone_numbers: PhoneNumbers = field(default_factory=PhoneNumbers)
    contact_names: dict[str, str] = field(default_factory=dict)
    rules: CallRules = field(default_factory=CallRules)


class LegView:
    """Leg with values derived from `reference_data`.

    `side` is 'in' (from an outside party), 'out' (to an outside party) or 'inner' (both ends belong to the
    account).
    """

    __slots__ = (
        "_is_unknown_phone", "group", "is_group", "kind", "leg", "party", "person", "side", "staffed_since",
    )  # fmt: skip

    def __init__(self, leg: Leg, reference_data: ReferenceData) -> None:
        directory = reference_data.directory
        self.leg = leg
        self.staffed_since: int | None = None
        """When a user of the account was first in the conference at the same time (Unix seconds).

        None if no user was. Set by `conferences.mark_staffed_conferences`.
        """
        # Of several contexts the CDR's decides.
        self.kind = "machine" if leg.is_mailbox else classify_context(leg.context)
        self.side = _determine_side(leg, reference_data)
        self.party = leg.dst if self.side == "out" else leg.src
        """Number of the outside party; on inner legs, the caller's extension."""
        self.group = None if leg.group is None else directory.find_group(*leg.group, leg.dst_id, leg.dst)
        self.is_group = leg.group is not None and _goes_to_group(leg, self.group)
        self.person = None if self.is_group else _find_person(leg, self.side, directory)
        # Before the initial sync the directory is empty. A group's leg to another id than the group's is then
        # treated as a leg to a phone.
        self._is_unknown_phone = (
            not directory.people
            and leg.group is not None
            and leg.group[1] is not None
            and (leg.dst_id or "0") != "0"
        )

    @property
    def is_answered_by_staff(self) -> bool:
        """True if an inbound leg connected with a person of the account.

        Machines do not count (docs/calls.md#outcome).
        """
        if not self.leg.is_connected or self.is_group:
            return False
        if self.kind in ("phone", "forward"):
            return True
        if self.kind in ("ivr", "machine"):
            return False
        if self.kind == "conference" and self.staffed_since is not None:
            return True
        return self.person is not None or self._is_unknown_phone

    @property
    def is_talking(self) -> bool:
        """True if the leg is connected, but not with a known machine.

        Weaker than `is_answered_by_staff`. Decides the state of live calls.
        """
        return self.leg.is_connected and (
            self.is_answered_by_staff or self.kind in ("unknown", "outside", "conference")
        )

    @property
    def conference(self) -> str | None:
        """Id of the conference that the leg leads to, otherwise its number.

        The id is preferred, because outside callers dial a different number than users of the account.
        """
        if self.kind != "conference":
            return None
        return self.leg.dst_id if (self.leg.dst_id or "0") != "0" else self.leg.dst

    @property
    def extension(self) -> str | None:
        """Extension of the account's user at the leg, or None."""
        if self.person is not None and self.person.ext:
            return self.person.ext
        own_number = self.leg.src if self.side == "out" else self.leg.dst
        return own_number if is_short(own_number) and not self.is_group else None

    @property
    def staff_name(self) -> str:
        """Name of the user at the leg.

        It comes from the directory, otherwise from the leg. '' for groups, conferences and machines that are
        not identified as a user.
        """
        if self.person is not None and self.person.name:
            return self.person.name
        if self.is_group or self.kind in ("ivr", "machine", "conference"):
            return ""
        if self.kind == "forward" and self.side == "out":
            # A forwarded caller is the source of the outbound leg.
            return ""
        return clean_name(self.leg.src_name if self.side == "out" else self.leg.dst_name)


def make_link(view: LegView, reference_data: ReferenceData) -> Link:
    """Return the fields that decide to which call the leg belongs.

    A leg without a start has no key, because rule 3 compares times; its link starts at 0.
    """
    leg = view.leg
    key = group_id = window = None
    if leg.group is not None and leg.started is not None:
        group_kind, group_id = leg.group
        group_id = view.group.id if group_id is None and view.group is not None else group_id
        # Only some legs of a queue name its id. The id is therefore compared and not part of the key.
        name = f"{group_kind}|{group_id or ''}" if group_kind == "ringgroup" else group_kind
        key = f"{reference_data.phone_numbers.get_party_key(view.party)}|{name}"
        if leg.has_ended and not leg.is_connected and not leg.final:
            window = get_next_leg_seconds(view, reference_data.rules)
    user_id = view.person.id if view.person else None
    phone = identify_phone(view.is_group, user_id, leg.dst_id) if key is not None else None
    return Link(
        leg.id, leg.root_id, leg.parent_id, key, group_id, 0 if leg.started is None else leg.started,
        leg.ended_at, window, phone, bool(leg.final),
    )  # fmt: skip


def make_stored_link(row: Sequence[Any], directory: Directory) -> Link:
    """Return the link of a row of `_legs`, as `make_link` does.

    `row` is (leg, call, root, parent, key, start, end, window, final, kind and id of the group, user, number,
    id and name of the destination).
    """
    id_, _, root_id, parent_id, key, started, ended, window, final, *others = row
    if key is None:
        return Link(id_, root_id, parent_id, None, None, started, ended, window, None, bool(final))
    kind, group_id, user_id, dst, dst_id, dst_name = others
    group = directory.find_group(kind, group_id, dst_id, dst)
    phone = identify_phone(is_music(group, group_id, dst_id, dst, dst_name), user_id, dst_id)
    return Link(id_, root_id, parent_id, key, group_id, started, ended, window, phone, bool(final))


def identify_phone(is_group: bool, user_id: int | None, dst_id: str | None) -> str | None:
    """Return what identifies the phone that a leg rings.

    None if no fact names it.
    """
    if is_group:
        return MUSIC
    if user_id is not None:
        return f"user {user_id}"
    return dst_id if (dst_id or "0") != "0" else None


def get_longest_window(reference_data: ReferenceData) -> int:
    """Return the seconds in which the group may ring another phone."""
    rules = reference_data.rules
    patience = [group.patience or 0 for group in reference_data.directory.groups.values()]
    return max(rules.next_leg_seconds, max(patience, default=0) + rules.slack_seconds)


def get_next_leg_seconds(view: LegView, rules: CallRules) -> int:
    """Return the seconds within which the group may ring another phone.

    The seconds count from the end of the leg. A new leg within this time joins the same call. `patience` is
    the ring or retry time of the group.
    """
    if view.group is None or view.group.patience is None:
        return rules.next_leg_seconds
    return view.group.patience + rules.slack_seconds


def _determine_side(leg: Leg, reference_data: ReferenceData) -> str:
    directory = reference_data.directory
    is_src_own = directory.is_own(leg.src, leg.src_id)
    is_dst_own = directory.is_own(leg.dst, leg.dst_id)
    if leg.direction == "out":
        return "inner" if is_dst_own else "out"
    if not is_src_own:
        return "in"
    # The caller belongs to the account. The platform reports the agent's leg of a click-to-call as inbound to
    # the agent, with the number of the destination.
    outside_number = (
        not is_dst_own and not is_short(leg.dst) and reference_data.phone_numbers.to_e164(leg.dst)
    )
    return "out" if outside_number and outside_number not in directory.ddis else "inner"


def _goes_to_group(leg: Leg, group: Group | None) -> bool:
    """Return whether the leg leads to the group's music."""
    group_id = group.id if group is not None else leg.group[1] if leg.group else None
    return is_music(group, group_id, leg.dst_id, leg.dst, leg.dst_name)


def is_music(
    group: Group | None, group_id: int | None, dst_id: str | None, dst: str | None, dst_name: str | None
) -> bool:
    """Return whether a destination is the music of its group."""
    if group_id is not None and dst_id == str(group_id):
        return True
    if group is None:
        return False
    if group.number and dst == group.number:
        return True
    return bool(group.name) and clean_name(dst_name).casefold() == group.name.casefold()


def _find_person(leg: Leg, side: str, directory: Directory) -> Person | None:
    caller = directory.find_person(leg.src_id, leg.src, leg.src_name) if side != "in" else None
    if side == "out":
        person, excluded = caller, None
    else:
        person, excluded = directory.find_person(leg.dst_id, leg.dst, leg.dst_name), caller
    if person is not None:
        return person
    # A CDR names the user who made the call (specification, CDR `user_id`). On an inner leg this is the
    # caller.
    for user_id in leg.user_ids:
        user = directory.people.get(user_id)
        if user is not None and user != excluded:
            return user
    return None
