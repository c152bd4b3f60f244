"""Roles, and the registry of rights.

A right follows the role unless a person was given or denied it by name. A new right is one entry of `RIGHTS`
and the place that demands it: settings page, command line and storage read the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, get_args

from integration.catalogue.shapes import Audience

Role: TypeAlias = Audience
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most."""


@dataclass(frozen=True, slots=True)
class Right:
    """A named permission that roles have from `from_role` on. `label` is its name on the settings page."""

    name: str
    from_role: Role
    label: str


RIGHTS: dict[str, Right] = {
    right.name: right
    for right in (
        Right("export", from_role="supervisor", label="Export"),
        Right("recordings", from_role="agent", label="Hear recordings"),
    )
}


class RightsHolder(Protocol):
    """A dashboard user: role and effective rights."""

    @property
    def role(self) -> Role: ...
    @property
    def rights(self) -> frozenset[str]: ...


def has(holder: RightsHolder, role_or_right: str) -> bool:
    """Whether the role is at least this one, or the right is theirs. Raises ValueError for neither."""
    if role_or_right in ROLES:
        return ROLES.index(holder.role) >= ROLES.index(role_or_right)
    if role_or_right in RIGHTS:
        return role_or_right in holder.rights
    raise ValueError(f"neither a role nor a right: {role_or_right!r}")


def compute_rights(role: Role, explicit: Mapping[str, bool]) -> frozenset[str]:
    """The effective rights of a role. `explicit` has those that were given or denied by name."""
    return frozenset(
        right.name
        for right in RIGHTS.values()
        if explicit.get(right.name, ROLES.index(role) >= ROLES.index(right.from_role))
    )
