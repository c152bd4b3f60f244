"""Registration module: sign-ups.

5 operations; response bodies and most request bodies are not shown.
"""

from __future__ import annotations

from integration.catalogue.rows import ModuleOperations
from integration.catalogue.shapes import Resource

RESOURCES: tuple[Resource, ...] = ()

_REGISTRATION = ModuleOperations("registration")
_ERRORS = (400, 403, 404, 500)

OPERATIONS = (
    _REGISTRATION.public("POST", "/registrations", "Starts a sign-up.", body=(), errors=(400, 401, 403, 404)),
    _REGISTRATION.public("GET", "/registrations/{hash}", "One sign-up.", errors=_ERRORS),
    _REGISTRATION.public("PATCH", "/registrations/{hash}", "Changes a sign-up.", body=(), errors=_ERRORS),
    _REGISTRATION.public("POST", "/registrations/{hash}/resend", "Resends the e-mail code.", errors=_ERRORS),
    _REGISTRATION.public(
        "GET", "/registrations/{hash}/numbers/{areacode}", "Numbers on offer in an area.", errors=_ERRORS
    ),
)
