"""Who calls the facade: a local key, or credentials of the platform that the platform itself accepted.

Credentials are settled before a byte of the body is read. interface.md §4 and §6 (Identity).
"""

from __future__ import annotations

import base64
import hashlib
import threading
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Request

from integration.access import credential_cache as remembered
from integration.access import keys
from integration.access import login_throttle as attempts
from integration.access.credential_cache import Remembered
from integration.access.keys import Key
from integration.access.login_throttle import TooManyAttempts
from integration.access.tenant_check import Customer
from integration.context import House
from integration.core import clock
from integration.core.api_responses import Stop, no_answer
from integration.core.errors import PlatformError
from integration.platform_api.budget import PEOPLE

RECHECK_SECONDS = 300.0
"""A credential in use is checked with the platform at most this often."""
RIGHTS_SECONDS = 900.0
"""So long after /me told whose it is that is asked again, instead of a ping: who was an administrator may be
none by now."""
GOOD_SECONDS = 900.0
"""How long a checked credential is believed without the platform."""
CHECK_SECONDS = 10.0
"""Total for one question about a credential."""
REST_SECONDS = 30.0
"""After the platform failed to answer, known credentials are not asked about for so long."""
USED_EVERY = 30.0
"""Between two notes on disk that a credential is in use."""
USED_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking. `credentials` are what to forward to the platform, None for our own account's.

    Only an administrator's reads, and a local key's, come from the mirror.
    """

    who: str
    key: Key | None = None
    credentials: tuple[str, str, str] | None = None
    administrator: bool = False

    @property
    def local(self) -> bool:
        return self.key is not None

    @property
    def from_mirror(self) -> bool:
        return self.local or self.administrator

    @property
    def narrowed(self) -> int | None:
        """The platform's user whose own records are all that the key sees."""
        return self.key.platform_user_id if self.key else None


@dataclass(frozen=True, slots=True)
class Shown:
    """Credentials as they came. `user` is None for X-Auth-Token; `kind` says in which header they go on."""

    user: str | None
    secret: str
    kind: str

    @property
    def forward(self) -> tuple[str, str, str]:
        return (self.user or "", self.secret, self.kind)


class Gatekeeper:
    """Identifies callers. One per application; remembers in memory only what spares work."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._customer = Customer(house)
        self._lock = threading.Lock()
        self._asking: set[bytes] = set()
        self._used: dict[bytes, float] = {}
        self._told: dict[bytes, float] = {}
        self._rest_until = 0.0

    def identify(self, request: Request) -> Caller:
        """Raises Stop: 400 unreadable, 401 missing, unknown or expired, 429 too many guesses, 502 or 504 when
        the platform would have to be asked and does not answer."""
        shown = read_credentials(request)
        address = request.remote_addr or ""
        house = self._house.house
        try:
            key = keys.check(house, shown.user, shown.secret)
            if key is not None:
                return Caller(f"key {key.name}", key=key)
            known = remembered.find(house, shown.secret)
            if known is not None and known.ended_at is not None:
                raise unauthorized("The token has expired or was destroyed.")
            if known is not None and known.answers_to(shown.user):
                known = self._still_good(shown, known, reading=request.method in ("GET", "HEAD"))
            else:
                known = self._meet(shown, address)
        except TooManyAttempts as error:
            raise Stop(429, str(error), headers={"Retry-After": str(error.retry_after)}) from error
        self._note_use(shown.secret)
        return Caller(
            f"platform user {known.user_id or known.user_part or '?'}",
            credentials=shown.forward,
            administrator=bool(known.administrator),
        )

    def logged_in(self, secret: str, user_id: object, email: str | None) -> None:
        """A login through the facade succeeded: its token is good from now on."""
        remembered.remember(
            self._house.house,
            secret,
            source="login",
            user_id=None if user_id is None else str(user_id),
            user_part=email,
            administrator=None,
        )

    def ended(self, secret: str) -> None:
        remembered.end(self._house.house, secret)

    # --- inside ------------------------------------------------------------------------------------

    def _meet(self, shown: Shown, address: str) -> Remembered:
        """Credentials we don't know: the platform decides. Guesses are limited here and only here: a script
        with a wrong key must not lock everyone else at its address out."""
        house = self._house.house
        if not self._house.settings.facade.platform_credentials:
            attempts.failed(house, "key", shown.user, address)
            raise unauthorized()
        attempt = attempts.begin(house, "key", shown.user, address)
        try:
            found = self._ask_who(shown)
        except PlatformError as error:
            attempts.succeeded(house, attempt)
            raise no_answer(error) from error
        if found is None:
            raise unauthorized()
        attempts.succeeded(house, attempt)
        return found

    def _still_good(self, shown: Shown, known: Remembered, *, reading: bool) -> Remembered:
        facade = self._house.settings.facade
        now = clock.unix()
        digest = _digest(shown.secret)
        used_at = max(known.used_at, self._used.get(digest, 0.0))
        if known.source == "login" and now - used_at > facade.session_idle:
            self.ended(shown.secret)
            raise unauthorized("The token has expired.")
        if known.source == "shown" and not facade.platform_credentials:
            raise unauthorized()
        age = now - known.checked_at
        if age <= RECHECK_SECONDS and known.administrator is not None:
            return known
        believed = age <= GOOD_SECONDS and known.administrator is not None
        if believed and not self._begin(digest):
            return known
        try:
            return self._ask_again(shown, known)
        except PlatformError as error:
            if believed or (reading and known.administrator is not None and age <= facade.offline_grace):
                return known
            raise no_answer(error) from error
        finally:
            with self._lock:
                self._asking.discard(digest)

    def _begin(self, digest: bytes) -> bool:
        """Whether this request is the one to ask; others go on with what is known."""
        with self._lock:
            if digest in self._asking:
                return False
            self._asking.add(digest)
            return True

    def _ask_again(self, shown: Shown, known: Remembered) -> Remembered:
        if clock.monotonic() < self._rest_until:
            raise PlatformError("it did not answer a moment ago")
        try:
            if known.administrator is None or self._told_long_ago(shown):
                found = self._ask_who(shown)
            else:
                answer = self._get("/ping", shown)
                found = None if answer in (400, 401, 403) else known
        except PlatformError:
            self._rest_until = clock.monotonic() + REST_SECONDS
            raise
        if found is None:
            remembered.forget(self._house.house, shown.secret)
            raise unauthorized()
        return remembered.remember(
            self._house.house,
            shown.secret,
            source=known.source,
            user_id=found.user_id,
            user_part=found.user_part,
            administrator=found.administrator,
        )

    def _told_long_ago(self, shown: Shown) -> bool:
        with self._lock:
            told = self._told.get(_digest(shown.secret), 0.0)
        return not 0 <= clock.unix() - told <= RIGHTS_SECONDS

    def _get(self, path: str, shown: Shown) -> int:
        answer = self._house.platform.get(
            path, who=PEOPLE, credentials=shown.forward, tries=1, check=False, seconds=CHECK_SECONDS
        )
        if answer.status >= 500 or answer.status == 429:
            raise PlatformError(f"{path}: status {answer.status}", status=answer.status)
        return answer.status

    def _ask_who(self, shown: Shown) -> Remembered | None:
        """GET /me with these credentials: whose they are, or None where the platform refuses them. Raises
        Stop 403 for another customer's."""
        answer = self._house.platform.get(
            "/me", who=PEOPLE, credentials=shown.forward, tries=1, check=False, seconds=CHECK_SECONDS
        )
        if answer.status >= 500 or answer.status == 429:
            raise PlatformError(f"/me: status {answer.status}", status=answer.status)
        me: dict[str, Any] = {}
        if answer.status == 200:
            me = _object(answer.body)
        elif answer.status != 403:
            # 403 is a good credential that may not read this (specification, Authentication 6).
            return None
        user_id = me.get("id", shown.user if shown.user and "@" not in shown.user else None)
        email = me.get("email", shown.user)
        administrator = self._customer.administrator(me)
        with self._lock:
            self._told[_digest(shown.secret)] = clock.unix()
        return remembered.remember(
            self._house.house,
            shown.secret,
            source="shown",
            user_id=None if user_id is None else str(user_id),
            user_part=email if isinstance(email, str) else None,
            administrator=administrator,
        )

    def _note_use(self, secret: str) -> None:
        digest, now = _digest(secret), clock.unix()
        every = min(USED_EVERY, self._house.settings.facade.session_idle / 4)
        with self._lock:
            written = self._used.get(digest, 0.0)
            if len(self._used) >= USED_KEPT:
                # What was idle for longer stands in its row, and every login brings another token.
                self._used = {known: at for known, at in self._used.items() if now - at < every}
                self._told = {known: at for known, at in self._told.items() if now - at < RIGHTS_SECONDS}
            self._used[digest] = now
        # The row may lag behind by `every`: a restart then ends an idle session that much early, at most.
        if now - written >= every:
            remembered.used(self._house.house, secret)


def read_credentials(request: Request) -> Shown:
    """What the request shows. Raises Stop 401 for nothing, 400 for a Basic header that can't be read."""
    header = request.headers.get("Authorization", "")
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            text = base64.b64decode(rest.strip(), validate=True).decode()
        except ValueError:
            text = ""
        user, colon, secret = text.partition(":")
        if not colon:
            # The platform's own words (observed.md §2).
            raise Stop(400, "Failed to parse Authorization header credentials")
        return Shown(user or None, secret, "basic")
    token = request.headers.get("X-Auth-Token", "").strip()
    if token:
        return Shown(None, token, "token")
    raise unauthorized("Credentials are needed: HTTP Basic user_id:secret, or the header X-Auth-Token.")


def unauthorized(message: str = "Unauthorized: unknown or expired credentials.") -> Stop:
    return Stop(401, message, headers={"WWW-Authenticate": 'Basic realm="Switchroom", charset="UTF-8"'})


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _object(body: bytes) -> dict[str, Any]:
    """The record in an answer of the platform, {} where there is none."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    record = parsed.get("data", parsed) if isinstance(parsed, dict) else {}
    return record if isinstance(record, dict) else {}
