"""Roles, and the registry of rights.

A right follows the role unless it is granted or denied to a dashboard user by name. To add a right, add an
entry to `RIGHTS` and check it where it is required. Settings page, command line and storage read the
registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, get_args

from integration.catalogue.shapes import Audience

Role: TypeAlias = Audience
ROLES: tuple[Role, ...] = get_args(Role)
"""Roles in ascending order."""


@dataclass(frozen=True, slots=True)
class Right:
    """Named permission.

    `from_role`: the lowest role that has it. `label`: its name on the settings page.
    """

    name: str
    from_role: Role
    label: str


RIGHTS: dict[str, Right] = {
    right.name: right
    for right in (
        Right("export", from_role="supervisor", label="Export"),
        Right("recordings", from_role="agent", label="Play recordings"),
    )
}


class RightsHolder(Protocol):
    """A dashboard user: role and effective rights."""

    @property
    def role(self) -> Role: ...
    @property
    def rights(self) -> frozenset[str]: ...


def has(holder: RightsHolder, role_or_right: str) -> bool:
    """Return whether a user has a right, or at least a role.

    Raises ValueError for other names.
    """
    if role_or_right in ROLES:
        return ROLES.index(holder.role) >= ROLES.index(role_or_right)
    if role_or_right in RIGHTS:
        return role_or_right in holder.rights
    raise ValueError(f"neither a role nor a right: {role_or_right!r}")


def compute_rights(role: Role, explicit: Mapping[str, bool]) -> frozenset[str]:
    """Return the effective rights of a role.

    `explicit`: rights granted (True) or denied (False) by name.
    """
    return frozenset(
        right.name
        for right in RIGHTS.values()
        if explicit.get(right.name, ROLES.index(role) >= ROLES.index(right.from_role))
    )
