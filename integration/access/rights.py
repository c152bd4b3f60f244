"""Roles, and the registry of rights.

A right follows the role unless it is granted or denied to a dashboard user by name. To add a right, add an
entry to `RIGHTS` and check it where it is required. Settings page, command line and storage read the
registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from integration.catalogue.shapes import Audience

Role: TypeAlias = Literal[Audience, "exports"]
LADDER: tuple[Audience, ...] = get_args(Audience)
"""Roles in ascending order. Each has the access of those before it."""
EXPORTS_ONLY: Role = "exports"
"""Role beside the ladder: exports of calls, missed calls and CDRs, and Reports. It has no other role."""
ROLES: tuple[Role, ...] = (*LADDER, EXPORTS_ONLY)
ROLE_LABELS: Mapping[str, str] = {
    role: {"viewer": "Read only", EXPORTS_ONLY: "Exports only"}.get(role, role.capitalize()) for role in ROLES
}
"""Names of the roles on pages and in the audit log."""


@dataclass(frozen=True, slots=True)
class Right:
    """Named permission.

    `from_role`: the lowest role of the ladder that has it, None for a right that extends EXPORTS_ONLY by a
    grant. `label`: its name on the settings page.
    """

    name: str
    from_role: Audience | None
    label: str


RIGHTS: dict[str, Right] = {
    right.name: right
    for right in (
        Right("export", from_role="supervisor", label="Export"),
        Right("recordings", from_role="agent", label="Play recordings"),
        Right("other_exports", from_role=None, label="Export all data"),
    )
}

WORKSPACE = Right("workspace", from_role=None, label="Notes, call-backs and reports")
"""Right of keys only. Dashboard users have these by their role."""


class RightsHolder(Protocol):
    """A dashboard user: role and effective rights."""

    @property
    def role(self) -> Role: ...
    @property
    def rights(self) -> frozenset[str]: ...


def has(holder: RightsHolder, role_or_right: str) -> bool:
    """Return whether a user has a right, or at least a role. EXPORTS_ONLY is no step of the ladder.

    Raises ValueError for other names.
    """
    if role_or_right == EXPORTS_ONLY:
        return holder.role == EXPORTS_ONLY
    if role_or_right in LADDER:
        return _is_at_least(holder.role, role_or_right)
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
        if explicit.get(
            right.name,
            right.name == "export" if role == EXPORTS_ONLY else _is_at_least(role, right.from_role),
        )
    )


def list_key_rights() -> list[Right]:
    """Return the rights that a key can have."""
    return [*(right for right in RIGHTS.values() if right.from_role is not None), WORKSPACE]


def _is_at_least(role: Role, lowest: str | None) -> bool:
    return role in LADDER and lowest is not None and LADDER.index(role) >= LADDER.index(lowest)
