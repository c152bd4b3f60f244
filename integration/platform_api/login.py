"""Whose name we ask in: an API key, or a login whose token is renewed once, however many threads need it."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import orjson

from integration.core.backoff import Backoff
from integration.core.errors import CredentialsRefused, PlatformBroken, PlatformError, PlatformRefused
from integration.outbound.exchange import PlatformResponse

log = logging.getLogger(__name__)

MAX_REFUSED_LOGINS = 3
"""Refused logins until we stop: more could lock the account, and the password won't become right."""

LOGIN_DELAYS = (2.0, 30.0, 300.0)
"""Seconds between logins that failed."""

KEY_DELAYS = (5.0, 60.0, 300.0)
"""Seconds for which a refused API key is not shown to the platform again."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request proves itself with. `kind` says in which header: both, as our own requests do, or only
    the one that a caller of the facade used."""

    user: str
    secret: str
    kind: Literal["both", "basic", "token"] = "both"

    def headers(self) -> dict[str, str]:
        """Basic as specified, and X-Auth-Token, the real platform's main way (docs/platform.md#2-sign-in)."""
        result = {}
        if self.kind != "token":
            pair = f"{self.user}:{self.secret}".encode()
            result["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        if self.kind != "basic":
            result["X-Auth-Token"] = self.secret
        return result

    def __repr__(self) -> str:
        return f"Secret(user={self.user!r})"


class CredentialSource(Protocol):
    """Where our own requests get their credentials."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the credentials, for people; None while they are good."""

    def current(self) -> Credentials:
        """Credentials to send now. Raises PlatformError while there are none to be had."""

    def renew(self, refused: Credentials) -> Credentials:
        """Other credentials than `refused`, which got a 401. Raises PlatformError where there are none."""

    def mark_accepted(self) -> None:
        """The platform took the credentials."""


class ApiKey:
    """An API key: nothing to renew. A refused one rests, so that a bad key is not tried every second."""

    def __init__(self, user: str, key: str) -> None:
        self._credentials = Credentials(user, key)
        self._lock = threading.Lock()
        self._backoff = Backoff(KEY_DELAYS)

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

    def renew(self, refused: Credentials) -> Credentials:  # noqa: ARG002 – there is but one key
        with self._lock:
            self._backoff.failed()
        raise CredentialsRefused(self.problem or "", status=401)

    def mark_accepted(self) -> None:
        if self._backoff.failures:
            with self._lock:
                self._backoff.succeeded()


class Login:
    """E-mail and password. `post(path, body)` sends one POST without credentials and returns its Answer.

    One login at a time: whoever meets a 401 while a login is under way waits for it and takes its token.
    Every login may send somebody an e-mail, so none is repeated blindly: after `MAX_REFUSED_LOGINS` refusals,
    or where a second factor is demanded, `problem` says so and no more is asked until the next start.
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
        self._backoff = Backoff(LOGIN_DELAYS)
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
                    # Else every request would log in, for ever.
                    raise PlatformBroken("the platform refuses the token it has just given out", status=401)
                self._credentials = self._request_token()
            except PlatformError as error:
                counted_error = self._count_failure(error)
                if counted_error is error:
                    # An error that is its own cause sends whoever follows causes round for ever.
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
                "the platform demands a second factor for this login; make an API key in its panel and set "
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
            raise PlatformBroken("the platform's login answer has no user_token and user_id")
        log.info("logged in to the platform as user %s", user)
        return Credentials(str(user), token)

    def _count_failure(self, error: PlatformError) -> PlatformError:
        """Count a failed login; returns the error to raise, here and for those who ask before the next."""
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
                    "logins are paused: set "
                    "platform.email and platform.password right and start Switchroom again"
                )
        return self._last_error


def _parse_fields(response: PlatformResponse) -> dict[str, object]:
    """The login answer's fields; flat, or wrapped in `data` like other answers.

    See docs/platform.md#2-sign-in.
    """
    try:
        parsed = orjson.loads(response.body)
    except orjson.JSONDecodeError as error:
        raise PlatformBroken("the platform's login answer is not JSON", status=response.status) from error
    if isinstance(parsed, dict) and isinstance(parsed.get("data"), dict):
        parsed = parsed["data"]
    if not isinstance(parsed, dict):
        raise PlatformBroken("the platform's login answer is not an object", status=response.status)
    return parsed
