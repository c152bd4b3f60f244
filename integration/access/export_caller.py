"""Who asks for an export over HTTP: a person with a session, or a program with a key of the facade."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request

from integration.access import browser as security
from integration.access import rights, sessions
from integration.access import user_scope as narrowing
from integration.access.authenticator import Gatekeeper
from integration.access.people import Person
from integration.catalogue.shapes import Resource
from integration.context import House
from integration.core.api_responses import Stop


@dataclass(frozen=True, slots=True)
class Caller:
    """`who` for the audit; `owner` names them for good, whatever they are called; `only` is the platform user
    they are narrowed to; `person` is None for a program."""

    who: str
    owner: str
    only: int | None
    person: Person | None


class Door:
    """Identifies callers. One per application."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._gatekeeper = Gatekeeper(house)

    @property
    def with_key(self) -> bool:
        """Whether the present request shows a key, which no browser sends by itself."""
        return "Authorization" in request.headers or "X-Auth-Token" in request.headers

    def identify(self, chosen: Resource, form: str) -> Caller:
        """Who asks, if they may export `chosen`. Raises Stop 401, 403, NotAllowed."""
        needed = rights.rights_of(chosen)
        if self.with_key:
            caller = self._gatekeeper.identify(request)
            if not caller.from_mirror:
                raise Stop(403, "Only administrators' credentials and local keys may export.")
            if caller.key is not None and not caller.key.may_touch(needed):
                raise Stop(403, f"The key {caller.key.name!r} has no right to {needed}.")
            if caller.narrowed is not None and not narrowing.reachable(needed):
                raise Stop(403, "This key sees only its own user's records.")
            owner = f"key {caller.key.user_id}" if caller.key else caller.who
            return Caller(caller.who, owner, caller.narrowed, None)
        token = security.browser_token(request)
        found = sessions.find(self._house.house, token) if token else None
        if found is None:
            raise Stop(401, "Log in first.")
        person = found[1]
        only = rights.only_of(person, chosen, form, self._house.settings.dashboard.agents_see)
        return Caller(person.email, owner_name(person), only, person)


def owner_name(person: Person) -> str:
    """An e-mail address may become somebody else's; this doesn't."""
    return f"person {person.id}"
