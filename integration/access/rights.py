"""Who may export what: the right “export”, and beside it the rule of the Account pages on which role sees
which collection (access/visibility.py). One rule for downloads, prepared files and schedules.
"""

from __future__ import annotations

from integration.access.people import Person
from integration.access.visibility import SECTIONS, AgentsSee, Visibility, user_scope_of
from integration.catalogue.shapes import Resource
from integration.core.errors import SwitchroomError
from integration.mirror.calls.schema import CALLS
from integration.mirror.records.masking import list_hidden_fields


class NotAllowed(SwitchroomError):
    """This person may not have this export; the message says what they lack."""


def required_collection(target: Resource) -> str:
    """The collection that somebody has to be allowed to read. Calls are made of CDRs."""
    return "cdrs" if target is CALLS else target.collection


def check_export_scope(
    person: Person, target: Resource, right: str | None, agents_see: AgentsSee
) -> int | None:
    """The platform user whose records alone they may export, None for everyone's. `right` is one that the
    format demands beside “export”. Raises NotAllowed."""
    for required in ("export", *((right,) if right else ())):
        if not person.has_permission(required):
            raise NotAllowed(f"This needs the right “{required}”. An administrator can give it to you.")
    user_scope = user_scope_of(person, agents_see)
    section = SECTIONS[required_collection(target)]
    if not person.has_permission(section.min_role):
        raise NotAllowed(f"{section.title} are shown to supervisors and administrators.")
    if not Visibility(person, user_scope).can_open(section):
        raise NotAllowed("You see only your own calls, and this holds more.")
    # Numbers, queues and people's names are everybody's to see, but nobody's own.
    return user_scope if section.is_personal else None


def hidden_fields(person: Person | None, target: Resource) -> frozenset[str]:
    """Fields that must not be learnt from a file, not even by filtering. `person` is None for keys, for the
    command line and for what administrators schedule."""
    if person is None:
        return list_hidden_fields(target)
    return list_hidden_fields(target) | Visibility(person, None).hidden_fields(
        SECTIONS[required_collection(target)]
    )


def can_see_raw(person: Person | None) -> bool:
    """Whether records as received may be in a file, with all that nobody documented."""
    return person is None or Visibility(person, None).can_see_raw
