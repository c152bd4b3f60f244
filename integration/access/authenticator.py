"""Who calls the facade: a local key, or credentials of the platform that the platform itself accepted.

Credentials are settled before a byte of the body is read. See docs/facade.md.
"""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Request

from integration.access import credential_cache, keys, login_throttle, visibility
from integration.access.credential_cache import CachedCredential
from integration.access.keys import Key
from integration.access.login_throttle import TooManyAttempts
from integration.access.tenant_check import TenantCheck
from integration.access.timestamp_cache import TimestampCache
from integration.access.visibility import Visibility
from integration.core import clock, tokens
from integration.core.api_responses import ApiError, to_gateway_error
from integration.core.errors import PlatformError
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database

RECHECK_SECONDS = 300.0
"""A credential in use is checked with the platform at most this often."""
ADMIN_RECHECK_SECONDS = 900.0
"""So long after /me told whose it is that is asked again, instead of a ping: who was an administrator may be
none by now."""
CACHE_SECONDS = 900.0
"""How long a checked credential is believed without the platform."""
CHECK_TIMEOUT_SECONDS = 10.0
"""Total for one question about a credential."""
BACKOFF_SECONDS = 30.0
"""After the platform failed to answer, known credentials are not asked about for so long."""
USE_WRITE_SECONDS = 30.0
"""Between two notes on disk that a credential is in use."""
MAX_CACHED_USES = 1000
"""Credentials whose last use is cached; every login brings another token."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking. `credentials` are what to forward to the platform, None for our own account's.

    Only an administrator's reads, and a local key's, come from the mirror.
    """

    name: str
    key: Key | None = None
    credentials: tuple[str, str, str] | None = None
    is_administrator: bool = False

    @property
    def is_local(self) -> bool:
        return self.key is not None

    @property
    def can_read_mirror(self) -> bool:
        return self.is_local or self.is_administrator

    @property
    def visibility(self) -> Visibility:
        """What the client sees of the mirror, if it can read the mirror."""
        return visibility.of(self.key)


@dataclass(frozen=True, slots=True)
class PresentedCredentials:
    """Credentials as they came. `user` is None for X-Auth-Token; `kind` says in which header they go on."""

    user: str | None
    secret: str
    kind: str

    @property
    def as_tuple(self) -> tuple[str, str, str]:
        return (self.user or "", self.secret, self.kind)


class Authenticator:
    """Authenticate clients of the facade and of exports. One per application, made by `factory.py`.

    A second one would repeat requests that verify a credential. `app_db` is house.db.
    """

    def __init__(self, settings: Settings, mirror: Database, app_db: Database, platform: Platform) -> None:
        self._settings = settings
        self._app_db = app_db
        self._platform = platform
        self._tenant_check = TenantCheck(settings, mirror, platform)
        self._lock = threading.Lock()
        self._checks_running: set[bytes] = set()
        self._use_interval_seconds = min(USE_WRITE_SECONDS, settings.facade.session_idle / 4)
        self._used_at = TimestampCache(MAX_CACHED_USES, self._use_interval_seconds)
        self._identified_at = TimestampCache(MAX_CACHED_USES, ADMIN_RECHECK_SECONDS)
        self._backoff_until = 0.0

    def identify(self, request: Request) -> Caller:
        """Raises ApiError: 400 unreadable, 401 missing, unknown or expired, 429 too many guesses, 502 or 504
        when the platform would have to be asked and does not answer."""
        presented = read_credentials(request)
        address = request.remote_addr or ""
        try:
            key = keys.authenticate(self._app_db, presented.user, presented.secret)
            if key is not None:
                return Caller(f"key {key.name}", key=key)
            cached = credential_cache.find(self._app_db, presented.secret)
            if cached is not None and cached.ended_at is not None:
                raise build_unauthorized_error("The token has expired or was destroyed.")
            if cached is not None and cached.matches_user(presented.user):
                cached = self._validate_cached(presented, cached, is_read=request.method in ("GET", "HEAD"))
            else:
                cached = self._verify_new(presented, address)
        except TooManyAttempts as error:
            raise ApiError(429, str(error), headers={"Retry-After": str(error.retry_after)}) from error
        self._record_use(presented.secret)
        return Caller(
            f"platform user {cached.user_id or cached.user_part or '?'}",
            credentials=presented.as_tuple,
            is_administrator=bool(cached.administrator),
        )

    def record_login(self, secret: str, user_id: object, email: str | None) -> None:
        """A login through the facade succeeded: its token is good from now on."""
        credential_cache.store(
            self._app_db,
            secret,
            source="login",
            user_id=None if user_id is None else str(user_id),
            user_part=email,
            administrator=None,
        )

    def revoke(self, secret: str) -> None:
        credential_cache.mark_ended(self._app_db, secret)

    # --- inside ------------------------------------------------------------------------------------

    def _verify_new(self, presented: PresentedCredentials, address: str) -> CachedCredential:
        """Credentials we don't know: the platform decides. Guesses are limited here and only here: a script
        with a wrong key must not lock everyone else at its address out."""
        if not self._settings.facade.platform_credentials:
            login_throttle.record_failure(self._app_db, "key", presented.user, address)
            raise build_unauthorized_error()
        attempt = login_throttle.begin_attempt(self._app_db, "key", presented.user, address)
        try:
            verified = self._fetch_identity(presented)
        except PlatformError as error:
            login_throttle.discard_attempt(self._app_db, attempt)
            raise to_gateway_error(error) from error
        if verified is None:
            raise build_unauthorized_error()
        login_throttle.discard_attempt(self._app_db, attempt)
        return verified

    def _validate_cached(
        self, presented: PresentedCredentials, cached: CachedCredential, *, is_read: bool
    ) -> CachedCredential:
        facade = self._settings.facade
        now = clock.unix()
        digest = tokens.digest(presented.secret)
        used_at = max(cached.used_at, self._used_at.get(digest))
        if cached.source == "login" and now - used_at > facade.session_idle:
            self.revoke(presented.secret)
            raise build_unauthorized_error("The token has expired.")
        if cached.source == "shown" and not facade.platform_credentials:
            raise build_unauthorized_error()
        age = now - cached.checked_at
        if age <= RECHECK_SECONDS and cached.administrator is not None:
            return cached
        can_use_cache = age <= CACHE_SECONDS and cached.administrator is not None
        if can_use_cache and not self._start_check(digest):
            return cached
        try:
            return self._recheck(presented, cached)
        except PlatformError as error:
            if can_use_cache or (
                is_read and cached.administrator is not None and age <= facade.offline_grace
            ):
                return cached
            raise to_gateway_error(error) from error
        finally:
            with self._lock:
                self._checks_running.discard(digest)

    def _start_check(self, digest: bytes) -> bool:
        """Whether this request is the one to ask; others go on with what is known."""
        with self._lock:
            if digest in self._checks_running:
                return False
            self._checks_running.add(digest)
            return True

    def _recheck(self, presented: PresentedCredentials, cached: CachedCredential) -> CachedCredential:
        if clock.monotonic() < self._backoff_until:
            raise PlatformError("it did not answer a moment ago")
        try:
            if cached.administrator is None or self._is_identity_stale(presented):
                verified = self._fetch_identity(presented)
            else:
                status = self._request("/ping", presented).status
                verified = None if status in (400, 401, 403) else cached
        except PlatformError:
            self._backoff_until = clock.monotonic() + BACKOFF_SECONDS
            raise
        if verified is None:
            credential_cache.delete(self._app_db, presented.secret)
            raise build_unauthorized_error()
        return credential_cache.store(
            self._app_db,
            presented.secret,
            source=cached.source,
            user_id=verified.user_id,
            user_part=verified.user_part,
            administrator=verified.administrator,
        )

    def _is_identity_stale(self, presented: PresentedCredentials) -> bool:
        identified_at = self._identified_at.get(tokens.digest(presented.secret))
        return not 0 <= clock.unix() - identified_at <= ADMIN_RECHECK_SECONDS

    def _request(self, path: str, presented: PresentedCredentials) -> PlatformResponse:
        """GET `path` with these credentials, once. Raises PlatformError for 429 and 5xx as well."""
        response = self._platform.get(
            path,
            priority=INTERACTIVE,
            credentials=presented.as_tuple,
            tries=1,
            check=False,
            seconds=CHECK_TIMEOUT_SECONDS,
        )
        if response.status >= 500 or response.status == 429:
            raise PlatformError(f"{path}: status {response.status}", status=response.status)
        return response

    def _fetch_identity(self, presented: PresentedCredentials) -> CachedCredential | None:
        """GET /me with these credentials: their user, or None where the platform refuses them.

        Raises ApiError 403 for credentials of another customer.
        """
        response = self._request("/me", presented)
        me: dict[str, Any] = {}
        if response.status == 200:
            me = _parse_record(response.body)
        elif response.status != 403:
            # 403 is a good credential that may not read this (specification, Authentication 6).
            return None
        user_id = me.get("id", presented.user if presented.user and "@" not in presented.user else None)
        email = me.get("email", presented.user)
        is_administrator = self._tenant_check.is_administrator(me)
        self._identified_at.replace(tokens.digest(presented.secret), clock.unix())
        return credential_cache.store(
            self._app_db,
            presented.secret,
            source="shown",
            user_id=None if user_id is None else str(user_id),
            user_part=email if isinstance(email, str) else None,
            administrator=is_administrator,
        )

    def _record_use(self, secret: str) -> None:
        now = clock.unix()
        written_at = self._used_at.replace(tokens.digest(secret), now)
        # The row may be older than the last use by the interval: after a restart an idle session ends that
        # much earlier.
        if now - written_at >= self._use_interval_seconds:
            credential_cache.record_use(self._app_db, secret)


def read_credentials(request: Request) -> PresentedCredentials:
    """What the request shows. Raises ApiError 401 for nothing, 400 for a Basic header that can't be read."""
    header = request.headers.get("Authorization", "")
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            text = base64.b64decode(rest.strip(), validate=True).decode()
        except ValueError:
            text = ""
        user, separator, secret = text.partition(":")
        if not separator:
            # The platform's own words (docs/platform.md#2-sign-in).
            raise ApiError(400, "Failed to parse Authorization header credentials")
        return PresentedCredentials(user or None, secret, "basic")
    token = request.headers.get("X-Auth-Token", "").strip()
    if token:
        return PresentedCredentials(None, token, "token")
    raise build_unauthorized_error(
        "Credentials are needed: HTTP Basic user_id:secret, or the header X-Auth-Token."
    )


def build_unauthorized_error(message: str = "Unauthorized: unknown or expired credentials.") -> ApiError:
    return ApiError(401, message, headers={"WWW-Authenticate": 'Basic realm="Switchroom", charset="UTF-8"'})


def _parse_record(body: bytes) -> dict[str, Any]:
    """The record in an answer of the platform, {} where there is none."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    record = parsed.get("data", parsed) if isinstance(parsed, dict) else {}
    return record if isinstance(record, dict) else {}
