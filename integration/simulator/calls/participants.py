"""Participants of calls (callers, numbers, groups, users) and their legs."""

from __future__ import annotations

import random
from typing import TypeVar

from integration.simulator.calls.legs import CallOptions, Leg
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import Group, Person, make_secret
from integration.simulator.records.record_fields import Record

_T = TypeVar("_T")
_NO_OPTIONS = CallOptions()


class NoParticipant(LookupError):
    """The account has no user, group or number that a script requires."""


class Participants:
    """Random choice of the parties of a call, and their legs.

    Parties that the options name are not drawn. `withheld_share`: share of callers without a number.
    `names`: names of contacts by number.
    """

    def __init__(self, account: AccountState, rng: random.Random, withheld_share: float) -> None:
        self.account = account
        self.rng = rng
        self.withheld_share = withheld_share
        self.names: dict[str, str] = {
            number: f"{contact['first_name']} {contact['last_name']}"
            for contact in account.collections["contacts"].records.values()
            for number in (contact["mobile"], contact["tel"])
            if number
        }
        self._contact_numbers = list(self.names)

    # -- parties and durations -------------------------------------------------------------------

    def choose_caller(self) -> str:
        """Choose an outside number: usually of a contact, sometimes withheld ('')."""
        draw = self.rng.random()
        if draw < self.withheld_share:
            return ""
        if draw < 0.65 and self._contact_numbers:
            return self._contact_numbers[int(len(self._contact_numbers) * self.rng.random() ** 1.8)]
        return self._choose_outside_number()

    def _choose_outside_number(self) -> str:
        return self.account.assign_mobile(numbers.choose_outside_number(self.rng))

    def choose_talk_seconds(self, options: CallOptions = _NO_OPTIONS) -> float:
        return options.talk_seconds or min(1800.0, 4.0 + self.rng.lognormvariate(4.3, 0.9))

    def choose_ring_seconds(self, options: CallOptions = _NO_OPTIONS) -> float:
        return options.ring_seconds or 2.0 + self.rng.random() * 10.0

    def choose_answer(self, options: CallOptions) -> bool:
        return options.is_answered if options.is_answered is not None else self.rng.random() < 0.8

    def choose_online_user(self, besides: Person | None = None) -> Person:
        users = [person for person in self.account.online_people if person is not besides]
        return self._choose(users, "other user" if besides else "user who is online")

    def _choose(self, candidates: list[_T], description: str) -> _T:
        if not candidates:
            raise NoParticipant(f"the account has no {description}")
        return self.rng.choice(candidates)

    def choose_reachable_number(self) -> str:
        return self.choose_caller() or self._choose_outside_number()

    def choose_direct_call(self, options: CallOptions) -> tuple[Person, str, Record]:
        """Return user, caller and number of a call to one user."""
        caller = options.caller if options.caller is not None else self.choose_caller()
        if options.user is not None:
            return options.user, caller, options.ddi or self.account.find_ddi(options.user)
        user_ddis = [ddi for ddi in self.account.ddis if ddi["target_type"] == Person.target_type]
        ddi = options.ddi or self._choose(user_ddis, "number of a user")
        return self.account.find_person(ddi["target_id"]) or self.choose_online_user(), caller, ddi

    def choose_group_call(
        self, options: CallOptions, kind: str, strategy: str | None = None
    ) -> tuple[Group, str, Record]:
        """Return group, caller and number of a call to a group."""
        groups = [
            group
            for group in self.account.groups
            if group.kind == kind and strategy in (None, group.strategy) and group.members
        ]
        group = options.group or self._choose(groups, f"{kind} with strategy {strategy}")
        if not group.members:
            raise NoParticipant(f"{group.name} has no members")
        caller = options.caller if options.caller is not None else self.choose_caller()
        return group, caller, options.ddi or self.account.find_ddi(group)

    # -- legs ------------------------------------------------------------------------------------

    def make_inbound_leg(
        self,
        caller: str,
        ddi: Record,
        user: Person | None,
        *,
        context: str = "LOCAL_USER",
        group: Group | None = None,
        root: Leg | None = None,
        parent: Leg | None = None,
    ) -> Leg:
        leg_id = self.account.new_id("calls")
        if group is not None and group.record["cli_prefix"]:
            src_name = f"{group.name} | {caller}"
        else:
            # The platform repeats the number in another format with quotes as the name
            # (docs/platform.md#10-event-fields).
            unnamed = f'"{caller}" <{numbers.format_national(caller)}>' if caller else "anonymous"
            src_name = self.names.get(caller) or unnamed
        return Leg(
            id=leg_id,
            root_id=root.root_id if root else leg_id,
            parent_id=parent.id if parent else None,
            user=user,
            context=context,
            destination="in",
            src=caller,
            src_id="0",
            src_name=src_name,
            clid=f'"{caller}" <{caller}>' if caller else "anonymous",
            dst=ddi["e164"],
            dst_id=str(user.id) if user else "0",
            dst_name=user.name if user else ddi["name"],
            src_hash=root.src_hash if root else make_secret(self.rng),
            is_machine=user is None,
            logs_missed_calls=user.log_missed_calls if user and group else True,
        )

    def make_transferred_leg(self, first: Leg, user: Person) -> Leg:
        """Make the leg of `user`, to whom the connected `first` is transferred."""
        leg = self.make_inbound_leg(first.src, self.account.ddis[0], user, root=first, parent=first)
        leg.dst = user.ext
        return leg

    def make_outbound_leg(self, user: Person, number: str, root: Leg | None = None) -> Leg:
        leg_id = self.account.new_id("calls")
        called_user = next((person for person in self.account.people if person.ext == number), None)
        dst_name = self.names.get(number) or numbers.describe_destination(number)
        return Leg(
            id=leg_id,
            root_id=root.root_id if root else leg_id,
            parent_id=root.id if root else None,
            user=user,
            context="USER_LOCAL" if called_user else "PSTN_CALL",
            destination="out",
            src=user.ext,
            src_id=str(user.id),
            src_name=user.name,
            clid=f'"{user.name}" <{user.ext}>' if called_user else f'"{user.cli}" <{user.cli}>',
            dst=number,
            dst_id=str(called_user.id) if called_user else "0",
            dst_name=called_user.name if called_user else dst_name,
            src_hash=root.src_hash if root else make_secret(self.rng),
        )
