"""Whose name we ask in: an API key, or a login whose token is renewed once, however many threads need it."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import orjson

from integration.core import clock
from integration.core.errors import CredentialsRefused, PlatformBroken, PlatformError, PlatformRefused
from integration.outbound.exchange import Answer

log = logging.getLogger(__name__)

TRIES = 3
"""Refused logins until we stop: more could lock the account, and the password won't become right."""

GAPS = (2.0, 30.0, 300.0)
"""Seconds between logins that failed."""

KEY_GAPS = (5.0, 60.0, 300.0)
"""Seconds for which a refused API key is not shown to the platform again."""


@dataclass(frozen=True, slots=True)
class Secret:
    """What a request proves itself with. `kind` says in which header: both, as our own requests do, or only
    the one that a caller of the facade used."""

    user: str
    secret: str
    kind: Literal["both", "basic", "token"] = "both"

    def headers(self) -> dict[str, str]:
        """Basic as specified, and X-Auth-Token, the real platform's main way (observed.md §2)."""
        found = {}
        if self.kind != "token":
            pair = f"{self.user}:{self.secret}".encode()
            found["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        if self.kind != "basic":
            found["X-Auth-Token"] = self.secret
        return found

    def __repr__(self) -> str:
        return f"Secret(user={self.user!r})"


class Account(Protocol):
    """Where our own requests get their credentials."""

    @property
    def trouble(self) -> str | None:
        """What is wrong with the credentials, for people; None while they are good."""

    def current(self) -> Secret:
        """Credentials to send now. Raises PlatformError while there are none to be had."""

    def renew(self, refused: Secret) -> Secret:
        """Other credentials than `refused`, which got a 401. Raises PlatformError where there are none."""

    def accepted(self) -> None:
        """The platform took the credentials."""


class ApiKey:
    """An API key: nothing to renew. A refused one rests, so that a bad key is not tried every second."""

    def __init__(self, user: str, key: str) -> None:
        self._secret = Secret(user, key)
        self._lock = threading.Lock()
        self._refusals = 0
        self._rest_until = 0.0

    @property
    def trouble(self) -> str | None:
        return (
            "the platform refuses the API key; check platform.user_id and platform.api_key"
            if self._refusals
            else None
        )

    def current(self) -> Secret:
        with self._lock:
            if self._refusals and clock.monotonic() < self._rest_until:
                raise CredentialsRefused(self.trouble or "", status=401)
        return self._secret

    def renew(self, refused: Secret) -> Secret:  # noqa: ARG002 – there is but one key
        with self._lock:
            self._rest_until = clock.monotonic() + KEY_GAPS[min(self._refusals, len(KEY_GAPS) - 1)]
            self._refusals += 1
        raise CredentialsRefused(self.trouble or "", status=401)

    def accepted(self) -> None:
        if self._refusals:
            with self._lock:
                self._refusals = 0


class Login:
    """E-mail and password. `post(path, body)` sends one POST without credentials and returns its Answer.

    One login at a time: whoever meets a 401 while a login is under way waits for it and takes its token.
    Every login may send somebody an e-mail, so none is repeated blindly: after `TRIES` refusals, or where
    a second factor is demanded, `trouble` says so and no more is asked until the next start.
    """

    def __init__(self, email: str, password: str, post: Callable[[str, Mapping[str, str]], Answer]) -> None:
        self._email = email
        self._password = password
        self._post = post
        self._lock = threading.Lock()
        self._secret: Secret | None = None
        self._proved = False
        self._refusals = 0
        self._failures = 0
        self._not_before = 0.0
        self._last_error: PlatformError | None = None
        self._paused: str | None = None

    @property
    def trouble(self) -> str | None:
        if self._paused:
            return self._paused
        return str(self._last_error) if self._last_error else None

    def current(self) -> Secret:
        secret = self._secret
        return secret if secret is not None else self._log_in(None)

    def renew(self, refused: Secret) -> Secret:
        return self._log_in(refused)

    def accepted(self) -> None:
        self._proved = True

    def _log_in(self, refused: Secret | None) -> Secret:
        with self._lock:
            if self._secret is not None and self._secret is not refused:
                return self._secret
            fresh = self._secret is not None and not self._proved
            self._secret = None
            if self._paused:
                raise CredentialsRefused(self._paused, status=401)
            if self._last_error is not None and clock.monotonic() < self._not_before:
                raise self._last_error
            try:
                if fresh:
                    # Else every request would log in, for ever.
                    raise PlatformBroken("the platform refuses the token it has just given out", status=401)
                self._secret = self._ask()
            except PlatformError as error:
                noted = self._note(error)
                if noted is error:
                    # An error that is its own cause sends whoever follows causes round for ever.
                    raise
                raise noted from error
            self._proved = False
            self._refusals = self._failures = 0
            self._last_error = None
            return self._secret

    def _ask(self) -> Secret:
        answer = self._post("/login", {"email": self._email, "password": self._password})
        body = _object(answer)
        if answer.status == 202 or ("nonce" in body and "user_token" not in body):
            self._paused = (
                "the platform demands a second factor for this login; make an API key in its panel and set "
                "platform.user_id and platform.api_key"
            )
            raise CredentialsRefused(self._paused, status=answer.status)
        token, user = body.get("user_token"), body.get("user_id")
        if (
            not isinstance(token, str)
            or not token
            or isinstance(user, bool)
            or not isinstance(user, int | str)
        ):
            raise PlatformBroken("the platform's login answer has no user_token and user_id")
        log.info("logged in to the platform as user %s", user)
        return Secret(str(user), token)

    def _note(self, error: PlatformError) -> PlatformError:
        """Count a failed login; returns the error to raise, here and for those who ask before the next."""
        self._failures += 1
        wait = GAPS[min(self._failures, len(GAPS)) - 1]
        self._not_before = clock.monotonic() + max(wait, error.retry_after or 0.0)
        self._last_error = error
        if isinstance(error, PlatformRefused | CredentialsRefused) and not self._paused:
            self._refusals += 1
            said = str(error)
            self._last_error = CredentialsRefused(
                f"the platform refuses the login ({said}); check platform.email and platform.password",
                status=error.status,
                errors=error.errors,
            )
            if self._refusals >= TRIES:
                self._paused = (
                    f"the platform refused the login {TRIES} times ({said}); logins are paused: set "
                    "platform.email and platform.password right and start Switchroom again"
                )
        return self._last_error


def _object(answer: Answer) -> dict[str, object]:
    """The login answer's fields; flat (observed.md §2), or wrapped in `data` like other answers."""
    try:
        parsed = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise PlatformBroken("the platform's login answer is not JSON", status=answer.status) from error
    if isinstance(parsed, dict) and isinstance(parsed.get("data"), dict):
        parsed = parsed["data"]
    if not isinstance(parsed, dict):
        raise PlatformBroken("the platform's login answer is not an object", status=answer.status)
    return parsed
