"""Error classes of the product, and the JSON body of errors.

    SwitchroomError
    ├── ConfigurationError      a setting is invalid; the command ends with exit status 2
    ├── QueryError              a sort, group or page is invalid; the response is 400
    │   └── FilterError         a filter is invalid
    ├── DomainError             the application database does not allow the operation
    ├── StorageError            a local database could not complete the operation
    │   ├── StorageBusy         another process holds the write lock; a retry may succeed
    │   ├── StorageFull         the disk is full; a retry succeeds once there is space
    │   ├── StorageBroken       the disk failed; the process must restart
    │   ├── StorageDamaged      the file contains invalid pages; a restart alone does not help
    │   ├── RepairNeeded        a user must replace the file; no restart helps
    │   └── NewerDatabase       written by a newer version of the product; start that version
    └── PlatformError           the hosted platform did not complete the request
        ├── PlatformUnreachable no response: DNS, TLS, refused, timeout
        ├── PlatformBroken      an unusable response: 5xx, HTML, truncated, malformed
        │   ├── UnusableBody    a successful status with such a body; the request is repeated
        │   └── UnreadableRecords  single records of a list that was read
        ├── PlatformThrottled   429, or a response that indicates throttling
        ├── PlatformRefused     a 4xx: the request itself is invalid or forbidden
        │   └── RecordTooLarge  the record is larger than the limit, and not read
        └── CredentialsRefused  401, or a login that was refused

A message is one line. It names the next step where one is available.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class SwitchroomError(Exception):
    """Base class of all errors of the product.

    `str(error)` is one line for users.
    """


class ConfigurationError(SwitchroomError):
    """Invalid settings. `mistakes` has one line for each, which names its key."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class QueryError(SwitchroomError):
    """Invalid filter, sort, group or page. The message names the invalid part."""

    field = ""
    """Query parameter of an error of the facade, if it is always the same one."""


class FilterError(QueryError):
    """Invalid `filter`."""

    field = "filter"


class StorageError(SwitchroomError):
    """A local database could not complete the operation."""


class StorageBusy(StorageError):
    """Another process holds the write lock. A retry may succeed."""


class StorageFull(StorageError):
    """The disk is full. Nothing was written."""


class StorageBroken(StorageError):
    """The disk of the database failed.

    The connection must not be used any more.
    """


class StorageDamaged(StorageError):
    """The file of the database contains invalid pages.

    A restart alone does not help. Other pages can be read and written.
    """


class RepairNeeded(StorageError):
    """A user must replace the file of the database.

    Its data exists nowhere else, and no restart helps. The message states what to do.
    """


class NewerDatabase(StorageError):
    """The database was written by a newer version of the product."""


class PlatformError(SwitchroomError):
    """The platform did not complete a request.

    `status`: HTTP status, None without a response. `retryable`: whether the same request may succeed later.
    `retry_after`: seconds to wait as requested by the platform, None if it requested no wait.
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
    """No response: name resolution, TLS, connection refused or reset, timeout."""

    retryable = True


class PlatformBroken(PlatformError):
    """Unusable response: a 5xx, HTML with 200, a truncated or malformed body."""

    retryable = True


class UnusableBody(PlatformBroken):
    """Truncated, malformed or HTML body of a successful response.

    The platform is reachable, so a client repeats the request more often than after other failures.
    """


class UnreadableRecords(PlatformBroken):
    """Records of a list are malformed or too large. The platform is reachable.

    The message names the first of them.
    """


class PlatformThrottled(PlatformError):
    """Throttling: 429, or malformed headers, which real clients have received instead.

    See docs/platform.md#15-rate-limits.
    """

    retryable = True


class PlatformRefused(PlatformError):
    """A 4xx other than 401 and 429.

    A retry would be refused as well.
    """


class RecordTooLarge(PlatformRefused):
    """The record is larger than the limit of one record, so it is not read."""


class CredentialsRefused(PlatformError):
    """401, or a refused login.

    Not retried automatically, because each login may send an e-mail.
    """


def error_body(message: str, errors: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the platform's error body: `{message, errors: []}` (specification, Response envelopes)."""
    return {"message": message, "errors": list(errors)}


def is_timeout(error: BaseException) -> bool:
    """Return whether `error` or one of its causes is a timeout."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or type(cause).__name__.endswith("TimeoutError"):
            return True
        cause = cause.__cause__
    return False


class DomainError(SwitchroomError):
    """The data of the application database does not allow an operation.

    The message has the reason and the next step.
    """
