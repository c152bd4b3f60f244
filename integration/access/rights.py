"""Who may export what: the right “export”, and beside it the rule of the Account pages on which role sees
which collection (dashboard/account_shelves.py). One rule for downloads, prepared files and schedules.
"""

from __future__ import annotations

from integration.access.people import Person
from integration.access.visibility import AgentsSee, only_calls_of
from integration.catalogue.shapes import Resource
from integration.core.errors import SwitchroomError
from integration.dashboard.account.sections import SHELVES, Sight
from integration.exports.presets import CALLS
from integration.mirror.records.masking import hidden_of


class NotAllowed(SwitchroomError):
    """This person may not have this export; the message says what they lack."""


def rights_of(chosen: Resource) -> str:
    """The collection that somebody has to be allowed to read. Calls are made of CDRs."""
    return "cdrs" if chosen is CALLS else chosen.collection


def only_of(person: Person, chosen: Resource, form: str, agents_see: AgentsSee) -> int | None:
    """The platform user whose records alone they may export, None for everyone's. Raises NotAllowed."""
    for right in ("export", *(("recordings",) if form == "zip" else ())):
        if not person.may(right):
            raise NotAllowed(f"This needs the right “{right}”. An administrator can give it to you.")
    only = only_calls_of(person, agents_see)
    shelf = SHELVES[rights_of(chosen)]
    if not person.may(shelf.role):
        raise NotAllowed(f"{shelf.title} are shown to supervisors and administrators.")
    if not Sight(person, only).reaches(shelf):
        raise NotAllowed("You see only your own calls, and this holds more.")
    # Numbers, queues and people's names are everybody's to see, but nobody's own.
    return only if shelf.personal else None


def hidden(person: Person | None, chosen: Resource) -> frozenset[str]:
    """Fields that must not be learnt from a file, not even by filtering. `person` is None for keys, for the
    command line and for what administrators schedule."""
    if person is None:
        return hidden_of(chosen)
    return hidden_of(chosen) | Sight(person, None).hidden(SHELVES[rights_of(chosen)])


def sees_raw(person: Person | None) -> bool:
    """Whether records as received may be in a file, with all that nobody documented."""
    return person is None or Sight(person, None).whole
