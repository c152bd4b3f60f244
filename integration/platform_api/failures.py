"""What the platform's refusals and failures mean (specification, Errors; observed.md §5)."""

from __future__ import annotations

import socket
import ssl
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
from integration.platform_api.retry import retry_after


def failure(target: str, status: int, headers: Mapping[str, str], body: bytes) -> PlatformError:
    """What an answer with this status means, to be raised: the class says whether to ask again. `target` is
    the path; its query is not told, since it may hold what people searched for."""
    path = target.partition("?")[0]
    message, errors = _said(body)
    about = f"{path}: {message}" if message else f"{path}: status {status}"
    if status == 429:
        return PlatformThrottled(
            about, status=status, errors=errors, retry_after=retry_after(headers.get("Retry-After"))
        )
    if status == 401:
        return CredentialsRefused(about, status=status, errors=errors)
    if status >= 500 or status == 408:
        return PlatformBroken(
            about, status=status, errors=errors, retry_after=retry_after(headers.get("Retry-After"))
        )
    if 300 <= status < 400:
        about = f"{path}: the platform redirects elsewhere, which is not followed; check platform.base_url"
    return PlatformRefused(about, status=status, errors=errors)


def _said(body: bytes) -> tuple[str, list[Any]]:
    """`message` and `errors` of an error body (specification, Errors; observed.md §5), where it has them."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", []
    if not isinstance(parsed, dict):
        return "", []
    errors = parsed.get("errors")
    errors = errors if isinstance(errors, list) else []
    message = parsed.get("message")
    first = errors[0].get("message") if errors and isinstance(errors[0], dict) else None
    parts = [part for part in (message, first) if isinstance(part, str) and part]
    return " – ".join(dict.fromkeys(parts))[:300], errors


def reason(error: BaseException) -> str:
    """Why an exchange failed that was not with the platform, of which the error's own message speaks."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS there ({cause.reason or cause})"
        if isinstance(cause, socket.gaierror):
            return "its name can't be resolved"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there"
        if isinstance(cause, TimeoutError):
            return "it did not answer in time"
        cause = cause.__cause__ or cause.__context__
    return "the connection broke"
