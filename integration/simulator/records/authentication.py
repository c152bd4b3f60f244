"""Authentication: passwords, second factor, tokens with idle expiry, API keys.

See docs/platform.md#2-sign-in.
"""

from __future__ import annotations

import base64
import binascii
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from integration.core import clock
from integration.simulator.records.people import Account, Person, make_secret

TOKEN_IDLE_SECONDS = 900.0
"""Idle seconds (without a request) after which a session token expires."""
API_KEY_IDLE_SECONDS = 7 * 86400.0
"""Idle seconds after which the initial API keys expire."""
REMEMBER_ME_IDLE_SECONDS = 30 * 86400.0
"""Idle seconds after which a token of a login with remember_me expires."""


class LoginDenied(Exception):
    """Refused credentials. `status` and message are as on the platform."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Token:
    """Session token (`name` is None) or API key.

    Expires after `idle_seconds` without a request.
    """

    secret: str
    person: Person
    name: str | None
    idle_seconds: float
    last_used_at: float
    created_at: str

    def as_record(self) -> dict[str, Any]:
        return {
            "token": self.secret,
            "name": self.name,
            "user_id": self.person.id,
            "expiry": int(self.idle_seconds),
            "created_at": self.created_at,
        }


class LoginService:
    """All tokens of the account.

    Times are monotonic, so that clock changes expire no token.
    """

    def __init__(self, account: Account, seed: int, token_idle_seconds: float = TOKEN_IDLE_SECONDS) -> None:
        self.account = account
        self.token_idle_seconds = token_idle_seconds
        self._rng = random.Random(f"tokens {seed}")
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._pending_logins: dict[str, tuple[Person, str, str | None]] = {}
        self._trusted_devices: set[tuple[int, str]] = set()
        self._resets: dict[str, Person] = {}
        self._is_closed = False
        self.codes: dict[str, str] = {}
        for person in account.people:
            self._add_token(person, "api", API_KEY_IDLE_SECONDS, person.api_key)

    def _add_token(
        self, person: Person, name: str | None, idle_seconds: float, value: str | None = None
    ) -> Token:
        token = Token(
            value or make_secret(self._rng), person, name, idle_seconds, clock.monotonic(), clock.utc_text()
        )
        self._tokens[token.secret] = token
        return token

    def log_in(
        self, email: object, password: object, *, device: object = None, is_remembered: bool = False
    ) -> tuple[Token | None, str | None]:
        """Log in; return a token, or a nonce for the second factor.

        The result is (token, None), or (None, nonce) if a second factor is required. The code of the second
        factor is printed on stderr. A `device` that was added with a code requires no code. `is_remembered`
        selects REMEMBER_ME_IDLE_SECONDS. Raises LoginDenied.
        """
        person = self._find_person(email)
        if person is None or person.password != password or self._is_closed:
            raise LoginDenied(400, "Invalid email and/or password.")
        fingerprint = device if isinstance(device, str) and device else None
        with self._lock:
            if not person.has_two_factor or (person.id, fingerprint) in self._trusted_devices:
                return self._add_token(person, None, self._get_idle_seconds(is_remembered)), None
            nonce, code = make_secret(self._rng), f"{self._rng.randrange(10**6):06d}"
            self._pending_logins[nonce] = (person, code, fingerprint)
            self.codes[person.email] = code
        _print_mail(f"code for {person.email} is {code}")
        return None, nonce

    def verify_second_factor(
        self, nonce: object, code: object, *, add_device: bool = False, is_remembered: bool = False
    ) -> Token:
        """Complete a login with the code of the second factor. Raises LoginDenied."""
        with self._lock:
            person, expected, fingerprint = self._pending_logins.get(str(nonce), (None, "", None))
            if person is None or str(code) != expected:
                raise LoginDenied(400, "Invalid code.")
            del self._pending_logins[str(nonce)]
            if add_device and fingerprint is not None:
                self._trusted_devices.add((person.id, fingerprint))
            return self._add_token(person, None, self._get_idle_seconds(is_remembered))

    def _find_person(self, email: object) -> Person | None:
        return next((p for p in self.account.people if p.email == email), None)

    def _get_idle_seconds(self, is_remembered: bool) -> float:
        return REMEMBER_ME_IDLE_SECONDS if is_remembered else self.token_idle_seconds

    def resend_confirmation(self, email: str) -> bool:
        """Print the confirmation of an address; return False for an unknown address."""
        if self._find_person(email) is None:
            return False
        _print_mail(f"{email} is confirmed already")
        return True

    def begin_reset(self, email: str) -> bool:
        """Print a password reset token; return False for an unknown address."""
        person = self._find_person(email)
        if person is None:
            return False
        with self._lock:
            token = make_secret(self._rng)
            self._resets[token] = person
            self.codes[person.email] = token
        _print_mail(f"reset token for {email} is {token}")
        return True

    def reset_password(self, token: str, password: str) -> bool:
        """Set a new password with a one-time token.

        All sessions of the person end. Returns False for an unknown or used token.
        """
        with self._lock:
            person = self._resets.pop(token, None)
            if person is None:
                return False
            person.password = password
            self._remove_tokens(lambda token: token.person is person and token.name is None)
            return True

    def revoke_all(self, person: Person) -> None:
        """Revoke all session tokens and API keys of a deleted user."""
        with self._lock:
            self._remove_tokens(lambda token: token.person is person)

    def close_account(self) -> None:
        """Revoke all tokens and refuse all logins of the deleted account."""
        with self._lock:
            self._is_closed = True
            self._tokens.clear()

    def authenticate(self, token_header: str | None, authorization: str | None) -> Token:
        """Return the token of a request, from X-Auth-Token or Basic.

        The idle time of the token restarts. Raises LoginDenied.
        """
        token = self._find_token(token_header.strip(), None) if token_header else None
        if token is None and authorization:
            user, value = _parse_basic_header(authorization)
            token = self._find_token(value, user)
        if token is None:
            raise LoginDenied(401, "Unauthorized")
        return token

    def _find_token(self, value: str, user: str | None) -> Token | None:
        now = clock.monotonic()
        with self._lock:
            token = self._tokens.get(value)
            if token is None:
                return None
            if now - token.last_used_at > token.idle_seconds:
                del self._tokens[value]
                return None
            if user is not None and user not in (str(token.person.id), token.person.email):
                return None
            token.last_used_at = now
            return token

    def create_api_key(self, person: Person, name: str, idle_seconds: float) -> Token | None:
        """Create an API key.

        Returns None if the person already has a key of that name.
        """
        with self._lock:
            if any(t.person is person and t.name == name for t in self._tokens.values()):
                return None
            return self._add_token(person, name, idle_seconds)

    def list_api_keys(self, person: Person) -> list[Token]:
        with self._lock:
            return [t for t in self._tokens.values() if t.name is not None and t.person is person]

    def revoke(self, value: str) -> bool:
        with self._lock:
            return self._tokens.pop(value, None) is not None

    def expire_all(self) -> int:
        """Revoke all session tokens, but no API keys; return their number."""
        with self._lock:
            return self._remove_tokens(lambda token: token.name is None)

    def _remove_tokens(self, condition: Callable[[Token], bool]) -> int:
        removed = [value for value, token in self._tokens.items() if condition(token)]
        for value in removed:
            del self._tokens[value]
        return len(removed)


def _print_mail(text: str) -> None:
    """Print on stderr the text that the platform would send by e-mail."""
    print(f"Simulator: {text}", file=sys.stderr, flush=True)


def _parse_basic_header(authorization: str) -> tuple[str, str]:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise LoginDenied(401, "Unauthorized")
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise LoginDenied(400, "Failed to parse Authorization header credentials") from error
    user, colon, value = text.partition(":")
    if not colon:
        raise LoginDenied(400, "Failed to parse Authorization header credentials")
    return user, value
