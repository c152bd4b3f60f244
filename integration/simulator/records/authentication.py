"""Who asks: passwords, second factor, tokens that expire when idle, API keys (observed.md §2)."""

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
from integration.simulator.records.people import Account, Person, secret

TOKEN_IDLE = 900.0
KEY_IDLE = 7 * 86400.0
REMEMBERED_IDLE = 30 * 86400.0


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
        self._nonces: dict[str, tuple[Person, str, str | None]] = {}
        self._devices: set[tuple[int, str]] = set()
        self._resets: dict[str, Person] = {}
        self._closed = False
        self.codes: dict[str, str] = {}
        for person in account.people:
            self._keep(person, "api", KEY_IDLE, person.api_key)

    def _keep(self, person: Person, name: str | None, idle: float, value: str | None = None) -> Token:
        token = Token(value or secret(self._rng), person, name, idle, clock.monotonic(), clock.stamp())
        self._tokens[token.secret] = token
        return token

    def log_in(
        self, email: object, password: object, *, device: object = None, remember: bool = False
    ) -> tuple[Token | None, str | None]:
        """(token, None), or (None, nonce) if a code is needed; that is printed on stderr. Raises Denied.

        A `device` that was added with a code needs none; `remember` makes the token live long.
        """
        person = self._person(email)
        if person is None or person.password != password or self._closed:
            raise Denied(400, "Invalid email and/or password.")
        fingerprint = device if isinstance(device, str) and device else None
        with self._lock:
            if not person.two_factor or (person.id, fingerprint) in self._devices:
                return self._keep(person, None, self._idle(remember)), None
            nonce, code = secret(self._rng), f"{self._rng.randrange(10**6):06d}"
            self._nonces[nonce] = (person, code, fingerprint)
            self.codes[person.email] = code
        _mail(f"code for {person.email} is {code}")
        return None, nonce

    def second_factor(
        self, nonce: object, code: object, *, add_device: bool = False, remember: bool = False
    ) -> Token:
        """Raises Denied."""
        with self._lock:
            person, expected, fingerprint = self._nonces.get(str(nonce), (None, "", None))
            if person is None or str(code) != expected:
                raise Denied(400, "Invalid code.")
            del self._nonces[str(nonce)]
            if add_device and fingerprint is not None:
                self._devices.add((person.id, fingerprint))
            return self._keep(person, None, self._idle(remember))

    def _person(self, email: object) -> Person | None:
        return next((p for p in self.account.people if p.email == email), None)

    def _idle(self, remember: bool) -> float:
        return REMEMBERED_IDLE if remember else self.token_idle

    def confirm_again(self, email: str) -> bool:
        """ "Send" the confirmation of an address again; False where nobody has it."""
        if self._person(email) is None:
            return False
        _mail(f"{email} is confirmed already")
        return True

    def begin_reset(self, email: str) -> bool:
        """ "Send" a token with which the password can be set anew; False where nobody has the address."""
        person = self._person(email)
        if person is None:
            return False
        with self._lock:
            token = secret(self._rng)
            self._resets[token] = person
            self.codes[person.email] = token
        _mail(f"reset token for {email} is {token}")
        return True

    def reset(self, token: str, password: str) -> bool:
        """Set a new password, once for each token, and end the person's sessions."""
        with self._lock:
            person = self._resets.pop(token, None)
            if person is None:
                return False
            person.password = password
            self._drop(lambda kept: kept.person is person and kept.name is None)
            return True

    def forget(self, person: Person) -> None:
        """End all that a deleted user could come in with."""
        with self._lock:
            self._drop(lambda kept: kept.person is person)

    def close(self) -> None:
        """The account is deleted: no token does any more, and no login."""
        with self._lock:
            self._closed = True
            self._tokens.clear()

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
            return self._drop(lambda token: token.name is None)

    def _drop(self, which: Callable[[Token], bool]) -> int:
        gone = [value for value, token in self._tokens.items() if which(token)]
        for value in gone:
            del self._tokens[value]
        return len(gone)


def _mail(text: str) -> None:
    """What the platform would send by e-mail is printed instead."""
    print(f"Simulator: {text}", file=sys.stderr, flush=True)


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
