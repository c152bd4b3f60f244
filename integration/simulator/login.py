"""Who asks: passwords, second factor, tokens that expire when idle, API keys (observed.md §2)."""

from __future__ import annotations

import base64
import binascii
import random
import sys
import threading
from dataclasses import dataclass
from typing import Any

from integration import clock
from integration.simulator.people import Account, Person, secret

TOKEN_IDLE = 900.0
KEY_IDLE = 7 * 86400.0


class Denied(Exception):
    """Credentials that don't do; `status` and message are the platform's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Token:
    """A session's token or an API key. `idle`: seconds without a request after which it is void."""

    secret: str
    person: Person
    name: str | None
    idle: float
    used: float
    created_at: str

    def record(self) -> dict[str, Any]:
        return {
            "token": self.secret,
            "name": self.name,
            "user_id": self.person.id,
            "expiry": int(self.idle),
            "created_at": self.created_at,
        }


class Doorman:
    """All tokens of the account. Times are monotonic: a jump of the clock expires nothing."""

    def __init__(self, account: Account, seed: int, token_idle: float = TOKEN_IDLE) -> None:
        self.account = account
        self.token_idle = token_idle
        self._rng = random.Random(f"tokens {seed}")
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._nonces: dict[str, tuple[Person, str]] = {}
        self.codes: dict[str, str] = {}
        for person in account.people:
            self._keep(person, "api", KEY_IDLE, person.api_key)

    def _keep(self, person: Person, name: str | None, idle: float, value: str | None = None) -> Token:
        token = Token(value or secret(self._rng), person, name, idle, clock.monotonic(), clock.stamp())
        self._tokens[token.secret] = token
        return token

    def log_in(self, email: object, password: object) -> tuple[Token | None, str | None]:
        """(token, None), or (None, nonce) if a code is needed; that is printed on stderr. Raises Denied."""
        person = next((p for p in self.account.people if p.email == email), None)
        if person is None or person.password != password:
            raise Denied(400, "Invalid email and/or password.")
        with self._lock:
            if not person.two_factor:
                return self._keep(person, None, self.token_idle), None
            nonce, code = secret(self._rng), f"{self._rng.randrange(10**6):06d}"
            self._nonces[nonce] = (person, code)
            self.codes[person.email] = code
        print(f"Simulator: code for {person.email} is {code}", file=sys.stderr, flush=True)
        return None, nonce

    def second_factor(self, nonce: object, code: object) -> Token:
        """Raises Denied."""
        with self._lock:
            person, expected = self._nonces.get(str(nonce), (None, ""))
            if person is None or str(code) != expected:
                raise Denied(400, "Invalid code.")
            del self._nonces[str(nonce)]
            return self._keep(person, None, self.token_idle)

    def check(self, token_header: str | None, authorization: str | None) -> Token:
        """The token a request shows, by X-Auth-Token or Basic; its idle time starts again. Raises Denied."""
        found = self._find(token_header.strip(), None) if token_header else None
        if found is None and authorization:
            user, value = _basic(authorization)
            found = self._find(value, user)
        if found is None:
            raise Denied(401, "Unauthorized")
        return found

    def _find(self, value: str, user: str | None) -> Token | None:
        now = clock.monotonic()
        with self._lock:
            token = self._tokens.get(value)
            if token is None:
                return None
            if now - token.used > token.idle:
                del self._tokens[value]
                return None
            if user is not None and user not in (str(token.person.id), token.person.email):
                return None
            token.used = now
            return token

    def make_key(self, person: Person, name: str, idle: float) -> Token | None:
        """A new API token; None where this person has one of that name already."""
        with self._lock:
            if any(t.person is person and t.name == name for t in self._tokens.values()):
                return None
            return self._keep(person, name, idle)

    def keys_of(self, person: Person) -> list[Token]:
        with self._lock:
            return [t for t in self._tokens.values() if t.name is not None and t.person is person]

    def revoke(self, value: str) -> bool:
        with self._lock:
            return self._tokens.pop(value, None) is not None

    def expire_all(self) -> int:
        """End every session's token; API keys stay. Returns how many."""
        with self._lock:
            gone = [value for value, token in self._tokens.items() if token.name is None]
            for value in gone:
                del self._tokens[value]
            return len(gone)


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise Denied(401, "Unauthorized")
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Denied(400, "Failed to parse Authorization header credentials") from error
    user, colon, value = text.partition(":")
    if not colon:
        raise Denied(400, "Failed to parse Authorization header credentials")
    return user, value
