"""Who takes part in a call, and the legs they make: callers, lines, groups, our people."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from integration.simulator.calls.legs import Leg, Wish
from integration.simulator.records import numbers
from integration.simulator.records.people import Account, Group, Line, Person

_T = TypeVar("_T")


class NobodyThere(LookupError):
    """The account has nobody (or nothing) left that a script needs."""


class Casting:
    """Draws parties of one account at random, unless a wish names them. `new_id` hands out live call ids."""

    def __init__(self, account: Account, rng: random.Random, new_id: Callable[[], int]) -> None:
        self.account = account
        self.rng = rng
        self.new_id = new_id
        self._names: dict[str, str] = {
            number: f"{c['first_name']} {c['last_name']}"
            for c in account.contacts
            for number in (c["mobile"], c["tel"])
            if number
        }
        self.known = list(self._names)

    # -- who and how long ------------------------------------------------------------------------

    def caller(self) -> str:
        """Somebody outside: more often a contact than a stranger, now and then withheld."""
        draw = self.rng.random()
        if draw < 0.03:
            return ""
        if draw < 0.65 and self.known:
            return self.known[int(len(self.known) * self.rng.random() ** 1.8)]
        return numbers.outsider(self.rng)

    def talk(self) -> float:
        return min(1800.0, 4.0 + self.rng.lognormvariate(4.3, 0.9))

    def ringing(self) -> float:
        return 2.0 + self.rng.random() * 10.0

    def someone(self) -> Person:
        return self._one([person for person in self.account.people if person.online], "user on line")

    def colleague(self, user: Person) -> Person:
        """Somebody else on line."""
        return self._one([p for p in self.account.people if p.online and p is not user], "other user")

    def group(self, kind: str, strategy: str | None = None) -> Group:
        groups = [g for g in self.account.groups if g.kind == kind and strategy in (None, g.strategy)]
        return self._one([group for group in groups if group.members], f"{kind} with strategy {strategy}")

    def _one(self, among: list[_T], what: str) -> _T:
        if not among:
            raise NobodyThere(f"the account has no {what}")
        return self.rng.choice(among)

    # -- legs ------------------------------------------------------------------------------------

    def inbound(
        self,
        caller: str,
        line: Line,
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
        if group is not None and group.cli_prefix:
            src_name = f"{group.name} | {caller}"
        elif not caller:
            src_name = "anonymous"
        else:
            # The name is the number once more, in another format, with quotes inside (observed.md §1.2).
            src_name = self._names.get(caller) or f'"{caller}" <{numbers.national(caller)}>'
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
            dst=line.e164,
            dst_id=dst_id or (str(user.id) if user else "0"),
            dst_name=dst_name or (user.name if user else line.name),
            src_hash=f"{self.rng.getrandbits(160):040x}" if root is None else root.src_hash,
            machine=user is None,
            log_missed=user.log_missed_calls if user and group else True,
        )

    def outgoing(self, user: Person, to: str, root: Leg | None = None) -> Leg:
        leg_id = self.new_id()
        inside = next((p for p in self.account.people if p.ext == to), None)
        return Leg(
            id=leg_id,
            root_id=root.id if root else leg_id,
            parent_id=root.id if root else None,
            user=user,
            context="USER_LOCAL" if inside else "PSTN_CALL",
            destination="out",
            src=user.ext,
            src_id=str(user.id),
            src_name=user.name,
            clid=f'"{user.cli}" <{user.cli}>' if not inside else f'"{user.name}" <{user.ext}>',
            dst=to,
            dst_id=str(inside.id) if inside else "0",
            dst_name=inside.name if inside else self._names.get(to) or numbers.place(to),
            src_hash=f"{self.rng.getrandbits(160):040x}" if root is None else root.src_hash,
        )

    def direct(self, wish: Wish) -> tuple[Person, str, Line]:
        caller = wish.caller if wish.caller is not None else self.caller()
        if wish.user is not None:
            return wish.user, caller, wish.line or self.account.line_of(wish.user)
        direct = [line for line in self.account.lines if isinstance(line.target, Person)]
        line = wish.line or self._one(direct, "number of a user")
        return (line.target if isinstance(line.target, Person) else self.someone()), caller, line

    def to_group(self, wish: Wish, kind: str, strategy: str | None) -> tuple[Group, str, Line]:
        group = wish.group or self.group(kind, strategy)
        if not group.members:
            raise NobodyThere(f"nobody is in {group.name}")
        caller = wish.caller if wish.caller is not None else self.caller()
        return group, caller, wish.line or self.account.line_of(group)

    def reachable(self) -> str:
        return self.caller() or numbers.outsider(self.rng)
