"""Every error the product raises on purpose, and the one JSON shape errors leave in.

    SwitchroomError
    ├── ConfigurationError      a setting is wrong; the command ends with exit status 2
    ├── QueryError              a filter, sort or page asked for nonsense; answered 400
    ├── StorageError            a database of ours could not do it
    │   ├── StorageBusy         somebody else holds the write lock; a repeat may help
    │   ├── StorageFull         the disk is full; a repeat helps once there is room
    │   ├── StorageBroken       the disk failed below us; the process must start afresh
    │   └── NewerDatabase       written by a newer version of the product; start that one
    └── PlatformError           the hosted platform did not do it
        ├── PlatformUnreachable no answer at all: DNS, TLS, refused, timeout
        ├── PlatformBroken      an answer nobody can use: 5xx, HTML, truncated, malformed
        ├── PlatformThrottled   429, or a reply that looks like throttling
        ├── PlatformRefused     a 4xx: the request itself is wrong or forbidden
        └── CredentialsRefused  401, or a login that was refused

Messages are one line for a person and say what to do next where that is known.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Any


class SwitchroomError(Exception):
    """Root of the tree. `str(error)` is one line for a person."""


class ConfigurationError(SwitchroomError):
    """One or more settings are wrong. `mistakes` has a line for each, naming its key."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class QueryError(SwitchroomError):
    """A filter, sort, group or page that can't be answered; the message names the part at fault."""


class StorageError(SwitchroomError):
    """A database of ours could not do what was asked."""


class StorageBusy(StorageError):
    """Another program holds the write lock; the same work may succeed in a moment."""


class StorageFull(StorageError):
    """No room on the disk; nothing was written."""


class StorageBroken(StorageError):
    """The disk failed below the database; never try again on the same handle."""


class NewerDatabase(StorageError):
    """The database was written by a newer version of the product."""


class PlatformError(SwitchroomError):
    """The platform did not do what was asked.

    `status` is its HTTP status, or None for no answer; `retryable` says whether the same request may
    succeed later; `retry_after` is the wait in seconds that it asked for.
    """

    retryable = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        errors: Sequence[Any] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.errors = list(errors)
        self.retry_after = retry_after


class PlatformUnreachable(PlatformError):
    """No answer at all: name resolution, TLS, connection refused or cut, deadline passed."""

    retryable = True


class PlatformBroken(PlatformError):
    """An answer nobody can use: a 5xx, HTML with 200, a truncated or malformed body."""

    retryable = True


class PlatformThrottled(PlatformError):
    """429, or malformed headers, which real clients have met as throttling.

    See docs/platform.md#15-rate-limits.
    """

    retryable = True


class PlatformRefused(PlatformError):
    """A 4xx other than 401 and 429: asking the same again will be refused again."""


class CredentialsRefused(PlatformError):
    """401, or a login that was refused. Never tried again blindly: every login may send an e-mail."""


def error_body(message: str, errors: Sequence[Any] = ()) -> dict[str, Any]:
    """The platform's error shape (specification, Response envelopes): `{message, errors: []}`."""
    return {"message": message, "errors": list(errors)}


def is_timeout(error: BaseException) -> bool:
    """Whether `error` or one of its causes is a timeout."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or type(cause).__name__.endswith("TimeoutError"):
            return True
        cause = cause.__cause__
    return False


def describe_failure(error: BaseException) -> str:
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


class DomainError(SwitchroomError):
    """What was asked can't be done with what house.db holds; the message says why and what to do."""
