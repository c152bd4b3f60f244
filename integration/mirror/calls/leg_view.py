"""A leg among people: which way it goes, who is at its far end, and whether a person of ours took it."""

from __future__ import annotations

from dataclasses import dataclass, field

from integration.core.phone_numbers import Numbers, clean_name, is_short
from integration.mirror.calls.directory import Directory, Group, Person
from integration.mirror.calls.joins import Link
from integration.mirror.calls.legs import Leg, kind
from integration.mirror.calls.rules import Rules


@dataclass(frozen=True)
class Knowledge:
    """What is not a fact about a leg: our people and groups, how numbers read, whose number is whose
    (`names`: E.164 → contact's name), the thresholds."""

    directory: Directory = field(default_factory=Directory)
    numbers: Numbers = field(default_factory=Numbers)
    names: dict[str, str] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)


class View:
    """One leg seen with `knowledge`. `side`: 'in' from outside, 'out' to outside, 'inner' between ours."""

    __slots__ = ("_rung_blindly", "company", "group", "is_group", "kind", "leg", "person", "side")

    def __init__(self, leg: Leg, knowledge: Knowledge) -> None:
        directory = knowledge.directory
        self.leg = leg
        self.company = False
        """Of a conference leg: one of ours was in that conference meanwhile. The store knows (`rooms.py`)."""
        self.kind = kind(leg)
        self.side = _side(leg, knowledge)
        self.group = _group(leg, directory)
        self.is_group = leg.group is not None and _goes_to_group(leg, self.group)
        self.person = None if self.is_group else _person(leg, self.side, directory)
        # Before the first sync nobody is known; a group's leg to something else than the group is a phone.
        self._rung_blindly = (
            not directory.people
            and leg.group is not None
            and leg.group[1] is not None
            and (leg.dst_id or "0") != "0"
        )

    @property
    def taken(self) -> bool:
        """Inbound: connected with a person of ours, not with a machine (calls.md, How a call ended)."""
        if not self.leg.connected or self.is_group:
            return False
        if self.kind in ("phone", "forward"):
            return True
        if self.kind in ("ivr", "machine"):
            return False
        if self.kind == "conference" and self.company:
            return True
        return self.person is not None or self._rung_blindly

    @property
    def talks(self) -> bool:
        """Connected, and as far as known not with a machine. Weaker than `taken`: for what is going on."""
        return self.leg.connected and (self.taken or self.kind in ("unknown", "outside", "conference"))

    @property
    def party(self) -> str | None:
        """The number at the end that isn't ours; of an inner leg the caller's extension."""
        return self.leg.dst if self.side == "out" else self.leg.src

    @property
    def room(self) -> str | None:
        """The conference a leg leads into; callers from outside dial another number for it than ours do."""
        if self.kind != "conference":
            return None
        return self.leg.dst_id if (self.leg.dst_id or "0") != "0" else self.leg.dst

    @property
    def extension(self) -> str | None:
        if self.person is not None and self.person.ext:
            return self.person.ext
        own = self.leg.src if self.side == "out" else self.leg.dst
        return own if is_short(own) and not self.is_group else None

    @property
    def own_name(self) -> str:
        """Name of our person at the leg, as the platform writes it where we don't know them."""
        if self.person is not None and self.person.name:
            return self.person.name
        if self.is_group or self.kind in ("ivr", "machine"):
            return ""
        return clean_name(self.leg.src_name if self.side == "out" else self.leg.dst_name)


def link(view: View, knowledge: Knowledge) -> Link:
    """What of the leg decides to which call it belongs."""
    leg = view.leg
    key = group_id = window = None
    if leg.group is not None:
        kind_, group_id = leg.group
        group_id = view.group.id if group_id is None and view.group is not None else group_id
        # Legs of one queue may or may not name it, so that its id is compared and not part of the key.
        name = f"{kind_}|{group_id or ''}" if kind_ == "ringgroup" else kind_
        key = f"{knowledge.numbers.key(view.party)}|{name}"
        if leg.ended and not leg.connected and not leg.final:
            window = patience(view, knowledge.rules)
    return Link(leg.id, leg.root, leg.parent, key, group_id, leg.started, leg.ended_at, window)


def patience(view: View, rules: Rules) -> int:
    """Seconds after the leg's end in which its group may still ring another phone."""
    if view.group is None or view.group.patience is None:
        return rules.patience
    return view.group.patience + rules.slack


def _side(leg: Leg, knowledge: Knowledge) -> str:
    directory = knowledge.directory
    src_ours = directory.is_ours(leg.src, leg.src_id)
    dst_ours = directory.is_ours(leg.dst, leg.dst_id)
    if leg.direction == "out":
        return "inner" if dst_ours else "out"
    if not src_ours:
        return "in"
    # From one of ours: the agent's leg of a click-to-call is told as incoming to the agent, with the
    # destination's number.
    outside = not dst_ours and not is_short(leg.dst) and knowledge.numbers.e164(leg.dst)
    return "out" if outside and outside not in directory.ddis else "inner"


def _group(leg: Leg, directory: Directory) -> Group | None:
    if leg.group is None:
        return None
    return directory.group(leg.group[0], leg.group[1], leg.dst_id, leg.dst)


def _goes_to_group(leg: Leg, group: Group | None) -> bool:
    """True for the leg on which the caller hears the group's music, not one that rings a phone."""
    named = group.id if group is not None else leg.group[1] if leg.group else None
    if named is not None and leg.dst_id == str(named):
        return True
    if group is None:
        return False
    if group.number and leg.dst == group.number:
        return True
    return bool(group.name) and clean_name(leg.dst_name).casefold() == group.name.casefold()


def _person(leg: Leg, side: str, directory: Directory) -> Person | None:
    caller = directory.person(leg.src_id, leg.src, leg.src_name) if side != "in" else None
    if side == "out":
        found, other = caller, None
    else:
        found, other = directory.person(leg.dst_id, leg.dst, leg.dst_name), caller
    if found is not None:
        return found
    # A CDR names the user who made the call (specification, CDR `user_id`): of an inner leg, the caller.
    users = (directory.people.get(user) for user in leg.user_ids)
    return next((user for user in users if user is not None and user != other), None)
