"""Authentication: passwords, second factor, tokens with idle expiry, API keys.

See docs/platform.md#2-sign-in.
"""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from integration.core import clock
from integration.simulator.http.responses import ErrorResponse
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import Person, make_secret

TOKEN_IDLE_SECONDS = 900.0
"""Idle seconds (without a request) after which a session token expires."""
API_KEY_IDLE_SECONDS = 7 * 86400.0
"""Idle seconds after which the initial API keys expire."""


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

    Times are monotonic, so that clock changes expire no token. `codes`: last code or reset token by e-mail
    address, which the platform would send there; it is printed on standard error.
    """

    def __init__(
        self, account: AccountState, seed: int, token_idle_seconds: float = TOKEN_IDLE_SECONDS
    ) -> None:
        self.account = account
        self.token_idle_seconds = token_idle_seconds
        self.codes: dict[str, str] = {}
        self._rng = random.Random(f"tokens {seed}")
        self._tokens: dict[str, Token] = {}
        self._pending_logins: dict[str, tuple[Person, str]] = {}
        self._resets: dict[str, Person] = {}
        self._is_closed = False
        for person in account.people:
            self._add_token(person, "api", API_KEY_IDLE_SECONDS, person.api_key)

    def make_secret(self) -> str:
        return make_secret(self._rng)

    def _add_token(
        self, person: Person, name: str | None, idle_seconds: float, secret: str | None = None
    ) -> Token:
        secret = secret or self.make_secret()
        token = Token(secret, person, name, idle_seconds, clock.monotonic(), clock.utc_text())
        self._tokens[secret] = token
        return token

    def _add_session(self, person: Person) -> Token:
        return self._add_token(person, None, self.token_idle_seconds)

    def log_in(self, email: object, password: object) -> tuple[Token | None, str | None]:
        """Log in; return a token, or a nonce for the second factor.

        The result is (token, None), or (None, nonce) if a second factor is required. Raises ErrorResponse.
        """
        person = self.find_person(email)
        if person is None or person.password != password or self._is_closed:
            raise ErrorResponse(400, "Invalid email and/or password.")
        if not person.has_two_factor:
            return self._add_session(person), None
        nonce, code = self.make_secret(), f"{self._rng.randrange(10**6):06d}"
        self._pending_logins[nonce] = (person, code)
        self.codes[person.email] = code
        print_mail(f"code for {person.email} is {code}")
        return None, nonce

    def verify_second_factor(self, nonce: object, code: object) -> Token:
        """Complete a login with the code of the second factor. Raises ErrorResponse."""
        person, expected = self._pending_logins.get(str(nonce), (None, ""))
        if person is None or str(code) != expected:
            raise ErrorResponse(400, "Invalid code.")
        del self._pending_logins[str(nonce)]
        return self._add_session(person)

    def find_person(self, email: object) -> Person | None:
        return next((person for person in self.account.people if person.email == email), None)

    def begin_reset(self, person: Person) -> None:
        token = self.make_secret()
        self._resets[token] = person
        self.codes[person.email] = token
        print_mail(f"reset token for {person.email} is {token}")

    def reset_password(self, token: str, password: str) -> bool:
        """Set a new password with a one-time token.

        All sessions of the person end. Returns False for an unknown or used token.
        """
        person = self._resets.pop(token, None)
        if person is None:
            return False
        person.password = password
        self._remove_tokens(lambda token: token.person is person and token.name is None)
        return True

    def revoke_all(self, person: Person) -> None:
        """Revoke all session tokens and API keys of a deleted user."""
        self._remove_tokens(lambda token: token.person is person)

    def close_account(self) -> None:
        """Revoke all tokens and refuse all logins of the deleted account."""
        self._is_closed = True
        self._tokens.clear()

    def authenticate(self, token_header: str | None, authorization: str | None) -> Token:
        """Return the token of a request, from X-Auth-Token or Basic.

        The idle time of the token restarts. Raises ErrorResponse.
        """
        token = self._find_token(token_header.strip(), None) if token_header else None
        if token is None and authorization:
            user, value = _parse_basic_header(authorization)
            token = self._find_token(value, user)
        if token is None:
            raise ErrorResponse(401, "Unauthorized")
        return token

    def _find_token(self, secret: str, user: str | None) -> Token | None:
        now, token = clock.monotonic(), self._tokens.get(secret)
        if token is not None and now - token.last_used_at > token.idle_seconds:
            self.revoke(secret)
            return None
        if token is None or user not in (None, str(token.person.id), token.person.email):
            return None
        token.last_used_at = now
        return token

    def create_api_key(self, person: Person, name: str, idle_seconds: float) -> Token | None:
        """Create an API key.

        Returns None if the person already has a key of that name.
        """
        if any(token.name == name for token in self.list_api_keys(person)):
            return None
        return self._add_token(person, name, idle_seconds)

    def list_api_keys(self, person: Person) -> list[Token]:
        tokens = list(self._tokens.values())
        return [token for token in tokens if token.name is not None and token.person is person]

    def revoke(self, secret: str) -> bool:
        return self._tokens.pop(secret, None) is not None

    def _remove_tokens(self, condition: Callable[[Token], bool]) -> None:
        for token in list(self._tokens.values()):
            if condition(token):
                self.revoke(token.secret)


def print_mail(text: str) -> None:
    """Print on standard error the text that the platform would send by e-mail."""
    print(f"Simulator: {text}", file=sys.stderr, flush=True)


def _parse_basic_header(authorization: str) -> tuple[str, str]:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise ErrorResponse(401, "Unauthorized")
    try:
        user, value = base64.b64decode(credentials.strip(), validate=True).decode().split(":", 1)
    except ValueError as error:
        raise ErrorResponse(400, "Failed to parse Authorization header credentials") from error
    return user, value
