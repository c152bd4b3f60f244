"""Whose calls a person sees, and which people see the same: for them a change is rendered once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from integration.access.people import Person

AgentsSee = Literal["all", "own"]

NOBODYS = -1
"""No user of the platform has this id: a person who is none of them sees no calls under `own`."""


def only_calls_of(person: Person, agents_see: AgentsSee) -> int | None:
    """The platform user whose calls alone this person sees and hears; None if they see everyone's.

    `dashboard.agents_see: own` holds for viewers and agents. One of whom nobody said which user of the
    platform they are (`platform_user_id`) sees none then, rather than all.
    """
    if agents_see == "all" or person.may("supervisor"):
        return None
    return NOBODYS if person.platform_user_id is None else person.platform_user_id


def visibility(person: Person, agents_see: AgentsSee) -> Hashable:
    """Two people with an equal value are shown the same, down to the buttons."""
    return (person.role, person.rights, only_calls_of(person, agents_see))
