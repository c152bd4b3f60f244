"""Errors from failed responses of the platform (specification, Errors; docs/platform.md#5-errors)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from integration.core.errors import (
    CredentialsRefused,
    PlatformBroken,
    PlatformError,
    PlatformRefused,
    PlatformThrottled,
)
from integration.platform_api.retry import parse_retry_after


def build_error(target: str, status: int, headers: Mapping[str, str], body: bytes) -> PlatformError:
    """Build the error for a response of `status`.

    The class decides whether to retry. The message contains the path of `target` without its query, which may
    contain search terms of users.
    """
    path = target.partition("?")[0]
    message, errors = _parse_error(body)
    text = f"{path}: {message}" if message else f"{path}: status {status}"
    if status == 429:
        return PlatformThrottled(
            text, status=status, errors=errors, retry_after=parse_retry_after(headers.get("Retry-After"))
        )
    if status == 401:
        return CredentialsRefused(text, status=status, errors=errors)
    if status >= 500 or status == 408:
        return PlatformBroken(
            text, status=status, errors=errors, retry_after=parse_retry_after(headers.get("Retry-After"))
        )
    if 300 <= status < 400:
        text = f"{path}: the platform redirects, and redirects are not followed; check platform.base_url"
    return PlatformRefused(text, status=status, errors=errors)


def _parse_error(body: bytes) -> tuple[str, list[Any]]:
    """Return the message and `errors` of an error body.

    The message has at most 300 characters. Absent parts are empty. See specification, Errors;
    docs/platform.md#5-errors.
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", []
    if not isinstance(parsed, dict):
        return "", []
    errors = parsed.get("errors")
    errors = errors if isinstance(errors, list) else []
    message = parsed.get("message")
    first_entry = errors[0] if errors else None
    reason = first_entry.get("message") if isinstance(first_entry, dict) else first_entry
    texts = [text for text in (message, reason) if isinstance(text, str) and text]
    return " – ".join(dict.fromkeys(texts))[:300], errors


def describe_cause(error: str) -> str:
    """Return the cause in a stored error as a sentence without full stop and without the advice after `;`.

    'The platform' becomes 'it': pages have named it in the sentence before. '' for ''.
    """
    cause = error.partition(";")[0].replace("the platform ", "it ", 1)
    return cause[:1].upper() + cause[1:]
