"""Registration module: sign-ups. 5 operations; response bodies and most request bodies are not shown."""

from __future__ import annotations

from integration.catalogue.shapes import Operation, Resource

RESOURCES: tuple[Resource, ...] = ()

OPERATIONS = (
    Operation(
        "registration",
        "POST",
        "/registrations",
        "unknown",
        "Starts a sign-up.",
        errors=(400, 401, 403, 404),
        body=(),
        is_public=True,
    ),
    Operation(
        "registration",
        "GET",
        "/registrations/{hash}",
        "unknown",
        "One sign-up.",
        errors=(400, 403, 404, 500),
        is_public=True,
    ),
    Operation(
        "registration",
        "PATCH",
        "/registrations/{hash}",
        "unknown",
        "Changes a sign-up.",
        errors=(400, 403, 404, 500),
        body=(),
        is_public=True,
    ),
    Operation(
        "registration",
        "POST",
        "/registrations/{hash}/resend",
        "unknown",
        "Sends the e-mail code again.",
        errors=(400, 403, 404, 500),
        is_public=True,
    ),
    Operation(
        "registration",
        "GET",
        "/registrations/{hash}/numbers/{areacode}",
        "unknown",
        "Numbers on offer in an area.",
        errors=(400, 403, 404, 500),
        is_public=True,
    ),
)
