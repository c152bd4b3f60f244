"""Who asks for an export over HTTP: a person with a session, or a program with a key of the facade."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request

from integration.access import browser, sessions, user_scope, visibility
from integration.access.people import Person
from integration.catalogue.shapes import Resource
from integration.context import AppContext
from integration.core.api_responses import ApiError


@dataclass(frozen=True, slots=True)
class ExportCaller:
    """`name` for the audit; `owner` names them for good, whatever they are called; `user_scope` is the
    platform user they are narrowed to; `person` is None for a program."""

    name: str
    owner: str
    user_scope: int | None
    person: Person | None


class ExportAuthenticator:
    """Authenticate export requests with the authenticator of the application."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    @property
    def has_key(self) -> bool:
        """Whether the present request shows a key, which no browser sends by itself."""
        return "Authorization" in request.headers or "X-Auth-Token" in request.headers

    def identify(self, target: Resource, right: str | None) -> ExportCaller:
        """Who asks, if they may export `target` in a format that demands `right`.

        Raises ApiError 401, 403, NotAllowed.
        """
        collection = visibility.required_collection(target)
        if self.has_key:
            caller = self._context.authenticator.identify(request)
            if not caller.can_read_mirror:
                raise ApiError(403, "Only administrators' credentials and local keys may export.")
            if caller.key is not None and not caller.key.can_access(collection):
                raise ApiError(403, f"The key {caller.key.name!r} has no right to {collection}.")
            if caller.user_scope is not None and not user_scope.is_reachable(collection):
                raise ApiError(403, "This key sees only its own user's records.")
            owner = f"key {caller.key.user_id}" if caller.key else caller.name
            return ExportCaller(caller.name, owner, caller.user_scope, None)
        token = browser.browser_token(request)
        session = sessions.find(self._context.app_db, token) if token else None
        if session is None:
            raise ApiError(401, "Log in first.")
        person = session[1]
        scope = visibility.check_export_scope(
            person, target, right, self._context.settings.dashboard.agents_see
        )
        return ExportCaller(person.email, owner_name(person), scope, person)


def owner_name(person: Person) -> str:
    """An e-mail address may become somebody else's; this doesn't."""
    return f"person {person.id}"
