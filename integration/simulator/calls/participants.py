"""Participants of calls (callers, numbers, groups, users) and their legs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

from integration.simulator.calls.legs import CallOptions, Leg
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import Group, Person

Record = dict[str, Any]
_T = TypeVar("_T")
_NO_OPTIONS = CallOptions()


class NoParticipant(LookupError):
    """The account has no user, group or number that a script requires."""


class Participants:
    """Random choice of the parties of a call.

    Parties that the options name are not drawn. `new_id` returns the next id of a live call.
    `withheld_share`: share of callers without a number.
    """

    def __init__(
        self,
        account: AccountState,
        rng: random.Random,
        new_id: Callable[[], int],
        withheld_share: float = 0.03,
    ) -> None:
        self.account = account
        self.rng = rng
        self.new_id = new_id
        self.withheld_share = withheld_share
        self._names: dict[str, str] = {
            number: f"{c['first_name']} {c['last_name']}"
            for c in account.collections["contacts"].records.values()
            for number in (c["mobile"], c["tel"])
            if number
        }
        self.contact_numbers = list(self._names)

    # -- parties and durations -------------------------------------------------------------------

    def choose_caller(self) -> str:
        """Choose an outside number: usually of a contact, sometimes withheld ('')."""
        draw = self.rng.random()
        if draw < self.withheld_share:
            return ""
        if draw < 0.65 and self.contact_numbers:
            return self.contact_numbers[int(len(self.contact_numbers) * self.rng.random() ** 1.8)]
        return numbers.choose_outside_number(self.rng)

    def choose_talk_seconds(self, options: CallOptions = _NO_OPTIONS) -> float:
        return options.talk_seconds or min(1800.0, 4.0 + self.rng.lognormvariate(4.3, 0.9))

    def choose_ring_seconds(self, options: CallOptions = _NO_OPTIONS) -> float:
        return options.ring_seconds or 2.0 + self.rng.random() * 10.0

    def choose_answer(self, options: CallOptions) -> bool:
        return options.is_answered if options.is_answered is not None else self.rng.random() < 0.8

    def choose_online_user(self) -> Person:
        return self._choose(
            [person for person in self.account.people if person.is_online], "user who is online"
        )

    def choose_colleague(self, user: Person) -> Person:
        """Choose another user who is online."""
        return self._choose([p for p in self.account.people if p.is_online and p is not user], "other user")

    def _choose(self, candidates: list[_T], description: str) -> _T:
        if not candidates:
            raise NoParticipant(f"the account has no {description}")
        return self.rng.choice(candidates)

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
        dst_id: str | None = None,
        dst_name: str | None = None,
    ) -> Leg:
        leg_id = self.new_id()
        if group is not None and group.record["cli_prefix"]:
            src_name = f"{group.name} | {caller}"
        elif not caller:
            src_name = "anonymous"
        else:
            # The platform repeats the number in another format with quotes as the name
            # (docs/platform.md#10-event-fields).
            src_name = self._names.get(caller) or f'"{caller}" <{numbers.format_national(caller)}>'
        return Leg(
            id=leg_id,
            root_id=root.id if root else leg_id,
            parent_id=parent.id if parent else None,
            user=user,
            context=context,
            destination="in",
            src=caller,
            src_id="0",
            src_name=src_name,
            clid=f'"{caller}" <{caller}>' if caller else "anonymous",
            dst=ddi["e164"],
            dst_id=dst_id or (str(user.id) if user else "0"),
            dst_name=dst_name or (user.name if user else ddi["name"]),
            src_hash=f"{self.rng.getrandbits(160):040x}" if root is None else root.src_hash,
            is_machine=user is None,
            logs_missed_calls=user.log_missed_calls if user and group else True,
        )

    def make_outbound_leg(self, user: Person, number: str, root: Leg | None = None) -> Leg:
        leg_id = self.new_id()
        called_user = next((p for p in self.account.people if p.ext == number), None)
        return Leg(
            id=leg_id,
            root_id=root.id if root else leg_id,
            parent_id=root.id if root else None,
            user=user,
            context="USER_LOCAL" if called_user else "PSTN_CALL",
            destination="out",
            src=user.ext,
            src_id=str(user.id),
            src_name=user.name,
            clid=f'"{user.cli}" <{user.cli}>' if not called_user else f'"{user.name}" <{user.ext}>',
            dst=number,
            dst_id=str(called_user.id) if called_user else "0",
            dst_name=called_user.name
            if called_user
            else self._names.get(number) or numbers.describe_destination(number),
            src_hash=f"{self.rng.getrandbits(160):040x}" if root is None else root.src_hash,
        )

    def choose_direct_call(self, options: CallOptions) -> tuple[Person, str, Record]:
        caller = options.caller if options.caller is not None else self.choose_caller()
        if options.user is not None:
            return options.user, caller, options.ddi or self.account.find_ddi(options.user)
        user_ddis = [ddi for ddi in self.account.ddis if ddi["target_type"] == Person.target_type]
        ddi = options.ddi or self._choose(user_ddis, "number of a user")
        return self.account.find_person(ddi["target_id"]) or self.choose_online_user(), caller, ddi

    def choose_group_call(
        self, options: CallOptions, kind: str, strategy: str | None
    ) -> tuple[Group, str, Record]:
        groups = [g for g in self.account.groups if g.kind == kind and strategy in (None, g.strategy)]
        group = options.group or self._choose(
            [group for group in groups if group.members], f"{kind} with strategy {strategy}"
        )
        if not group.members:
            raise NoParticipant(f"{group.name} has no members")
        caller = options.caller if options.caller is not None else self.choose_caller()
        return group, caller, options.ddi or self.account.find_ddi(group)

    def choose_reachable_number(self) -> str:
        return self.choose_caller() or numbers.choose_outside_number(self.rng)
