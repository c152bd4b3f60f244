"""Platform authentication by API key or login.

Concurrent threads share one token renewal.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import orjson

from integration.core import retry_delays
from integration.core.backoff import Backoff
from integration.core.errors import CredentialsRefused, PlatformBroken, PlatformError, PlatformRefused
from integration.outbound.exchange import PlatformResponse

log = logging.getLogger(__name__)

MAX_REFUSED_LOGINS = 3
"""Refused logins before logins are paused.

More attempts could lock the account and cannot succeed.
"""


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and secret of a request. `kind` selects the headers.

    Requests of the configured account send both headers; requests for a client of the facade send only the
    header that the client used.
    """

    user: str
    secret: str
    kind: Literal["both", "basic", "token", "none"] = "both"

    def headers(self) -> dict[str, str]:
        """Return `Authorization` (Basic, as specified), `X-Auth-Token`, both or none.

        The real platform mainly uses X-Auth-Token (docs/platform.md#2-sign-in).
        """
        result = {}
        if self.kind in ("both", "basic"):
            pair = f"{self.user}:{self.secret}".encode()
            result["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        if self.kind in ("both", "token"):
            result["X-Auth-Token"] = self.secret
        return result

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


class CredentialSource(Protocol):
    """Source of the credentials of the configured account."""

    @property
    def problem(self) -> str | None:
        """Message about the problem with the credentials; None while they are accepted."""

    def current(self) -> Credentials:
        """Return credentials to send now. Raises PlatformError if there are none."""

    def renew(self, refused: Credentials) -> Credentials:
        """Return other credentials than `refused`, which got a 401.

        Raises PlatformError without any.
        """

    def mark_accepted(self) -> None:
        """Record that the platform accepted the credentials."""


class NoCredentials:
    """Missing credentials: every request is refused.

    Commands for local data run without them.
    """

    problem = (
        "no credentials; set platform.user_id and platform.api_key, or platform.email and platform.password"
    )

    def current(self) -> Credentials:
        raise CredentialsRefused(self.problem)

    def renew(self, refused: Credentials) -> Credentials:  # noqa: ARG002 – there are none
        raise CredentialsRefused(self.problem)

    def mark_accepted(self) -> None:
        """Do nothing: no request can be accepted."""


class ApiKey:
    """API key, which cannot be renewed.

    A refused key is paused for retry_delays.KEYS, so that a wrong key is not sent every second.
    """

    def __init__(self, user: str, key: str) -> None:
        self._credentials = Credentials(user, key)
        self._lock = threading.Lock()
        self._backoff = Backoff(retry_delays.KEYS)

    @property
    def problem(self) -> str | None:
        return (
            "the platform refuses the API key; check platform.user_id and platform.api_key"
            if self._backoff.failures
            else None
        )

    def current(self) -> Credentials:
        with self._lock:
            if self._backoff.seconds_left:
                raise CredentialsRefused(self.problem or "", status=401)
        return self._credentials

    def renew(self, refused: Credentials) -> Credentials:  # noqa: ARG002 – there is only one key
        with self._lock:
            self._backoff.failed()
        raise CredentialsRefused(self.problem or "", status=401)

    def mark_accepted(self) -> None:
        if self._backoff.failures:
            with self._lock:
                self._backoff.succeeded()


class Login:
    """Login with e-mail and password. `post(path, body)` sends one POST without credentials.

    Logins do not run concurrently: a thread that gets a 401 during a login waits for it and uses its token.
    Each login may send an e-mail to the user, so logins are paused until the next start after
    MAX_REFUSED_LOGINS refusals, or if the platform requires a second factor. `problem` then has the reason.
    """

    def __init__(
        self, email: str, password: str, post: Callable[[str, Mapping[str, str]], PlatformResponse]
    ) -> None:
        self._email = email
        self._password = password
        self._post = post
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._is_verified = False
        self._refusals = 0
        self._backoff = Backoff(retry_delays.LOGINS)
        self._last_error: PlatformError | None = None
        self._pause_reason: str | None = None

    @property
    def problem(self) -> str | None:
        if self._pause_reason:
            return self._pause_reason
        return str(self._last_error) if self._last_error else None

    def current(self) -> Credentials:
        credentials = self._credentials
        return credentials if credentials is not None else self._log_in(None)

    def renew(self, refused: Credentials) -> Credentials:
        return self._log_in(refused)

    def mark_accepted(self) -> None:
        self._is_verified = True

    def _log_in(self, refused: Credentials | None) -> Credentials:
        with self._lock:
            if self._credentials is not None and self._credentials is not refused:
                return self._credentials
            is_unverified = self._credentials is not None and not self._is_verified
            self._credentials = None
            if self._pause_reason:
                raise CredentialsRefused(self._pause_reason, status=401)
            if self._last_error is not None and self._backoff.seconds_left:
                raise self._last_error
            try:
                if is_unverified:
                    # Without this error every request would cause a login.
                    raise PlatformBroken(
                        "the platform refuses the token that its last login returned", status=401
                    )
                self._credentials = self._request_token()
            except PlatformError as error:
                counted_error = self._count_failure(error)
                if counted_error is error:
                    # `raise error from error` would make code that follows `__cause__` loop for ever.
                    raise
                raise counted_error from error
            self._is_verified = False
            self._refusals = 0
            self._backoff.succeeded()
            self._last_error = None
            return self._credentials

    def _request_token(self) -> Credentials:
        response = self._post("/login", {"email": self._email, "password": self._password})
        body = _parse_fields(response)
        if response.status == 202 or ("nonce" in body and "user_token" not in body):
            self._pause_reason = (
                "the platform requires a second factor for this login; make an API key in its panel and set "
                "platform.user_id and platform.api_key"
            )
            raise CredentialsRefused(self._pause_reason, status=response.status)
        token, user = body.get("user_token"), body.get("user_id")
        if (
            not isinstance(token, str)
            or not token
            or isinstance(user, bool)
            or not isinstance(user, int | str)
        ):
            raise PlatformBroken("the login response of the platform has no valid user_token and user_id")
        log.info("logged in to the platform as user %s", user)
        return Credentials(str(user), token)

    def _count_failure(self, error: PlatformError) -> PlatformError:
        """Count a failed login.

        Returns the error to raise until the next attempt.
        """
        self._backoff.failed(at_least=error.retry_after or 0.0)
        self._last_error = error
        if isinstance(error, PlatformRefused | CredentialsRefused) and not self._pause_reason:
            self._refusals += 1
            refusal = str(error)
            self._last_error = CredentialsRefused(
                f"the platform refuses the login ({refusal}); check platform.email and platform.password",
                status=error.status,
                errors=error.errors,
            )
            if self._refusals >= MAX_REFUSED_LOGINS:
                self._pause_reason = (
                    f"the platform refused the login {MAX_REFUSED_LOGINS} times ({refusal}); "
                    "logins are paused: correct "
                    "platform.email and platform.password and restart Switchroom"
                )
        return self._last_error


def _parse_fields(response: PlatformResponse) -> dict[str, object]:
    """Parse the fields of a login response.

    They are flat or inside `data`. See docs/platform.md#2-sign-in. Raises PlatformBroken for a body that is
    not a JSON object.
    """
    try:
        parsed = orjson.loads(response.body)
    except orjson.JSONDecodeError as error:
        raise PlatformBroken(
            "the login response of the platform is not JSON", status=response.status
        ) from error
    if isinstance(parsed, dict) and isinstance(parsed.get("data"), dict):
        parsed = parsed["data"]
    if not isinstance(parsed, dict):
        raise PlatformBroken("the login response of the platform is not an object", status=response.status)
    return parsed
