"""Authenticate export requests by dashboard session or facade key."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request

from integration.access import browser, sessions, visibility
from integration.access.authenticator import check_collection, check_right
from integration.access.people import Person
from integration.access.visibility import Visibility
from integration.catalogue.shapes import Resource
from integration.context import AppContext
from integration.core.api_responses import ApiError


@dataclass(frozen=True, slots=True)
class ExportCaller:
    """Client that may export.

    `name` is for the audit log. `owner` never changes. `person` is None for a program.
    """

    name: str
    owner: str
    visibility: Visibility
    person: Person | None


def has_key() -> bool:
    """Return whether the current request has a key, which browsers never send automatically."""
    return "Authorization" in request.headers or "X-Auth-Token" in request.headers


def identify(context: AppContext, target: Resource, right: str | None) -> ExportCaller:
    """Return the client of the current request if it may export `target`.

    `right`: a right that the format requires, None if it requires none. Raises ApiError 401 or 403, or
    another error of `Authenticator.identify`, and NotAllowed for a person.
    """
    resource = visibility.required_resource(target)
    if has_key():
        caller = context.authenticator.identify(request)
        if not caller.can_read_mirror:
            raise ApiError(
                403,
                "Exports require a local key (`switchroom key add`) or an administrator's credentials.",
            )
        if caller.key is not None:
            check_collection(caller.key, resource.collection)
        if not caller.visibility.can_open(resource):
            raise ApiError(403, "This key sees only its own user's records.")
        if caller.key is not None:
            for required in ("export", *((right,) if right else ())):
                check_right(caller.key, required)
        owner = f"key {caller.key.user_id}" if caller.key else caller.name
        return ExportCaller(caller.name, owner, caller.visibility, None)
    token = browser.browser_token(request)
    roles = context.settings.dashboard.second_factor
    session = sessions.find(context.app_db, token, second_factor_roles=roles) if token else None
    if session is None:
        raise ApiError(401, "Exports require a dashboard login or a key. Log in first.")
    person = session[1]
    viewer = visibility.of(person, context.settings.dashboard.agents_see)
    viewer.check_export(target, right)
    return ExportCaller(person.email, owner_name(person), viewer, person)


def owner_name(person: Person) -> str:
    """Return the owner of a person's exports.

    An e-mail address can pass to another person, an id cannot.
    """
    return f"person {person.id}"
