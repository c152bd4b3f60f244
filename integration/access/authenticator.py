"""Authentication of facade clients by local key or platform credential.

Credentials are verified before the request body is read. See docs/facade.md.
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
from integration.access.keys import Key, KeyRates, KeyRefused
from integration.access.login_throttle import TooManyAttempts
from integration.access.rights import list_key_rights
from integration.access.tenant_check import TenantCheck
from integration.access.visibility import Visibility
from integration.core import clock, tokens
from integration.core.api_responses import ApiError, to_gateway_error
from integration.core.errors import PlatformError
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.client import Platform
from integration.platform_api.login import Credentials
from integration.settings.model import Settings
from integration.sqlite.database import Database

RECHECK_SECONDS = 50.0
"""Minimum seconds between two platform checks of a cached credential.

With the longest check (CHECK_TIMEOUT_SECONDS), a token that was revoked on the platform ends here within a
minute of use.
"""
ADMIN_RECHECK_SECONDS = 900.0
"""Seconds between requests of `/me`, because the user may have lost administrator rights.

The checks in between use `/ping`, which also keeps a token alive on the platform.
"""
CACHE_SECONDS = 900.0
"""Seconds for which a checked credential is valid without the platform."""
CHECK_TIMEOUT_SECONDS = 10.0
"""Seconds for one check of a credential with the platform, in total."""
BACKOFF_SECONDS = 30.0
"""Seconds without checks of cached credentials after the platform did not respond to one."""
MAX_TIMES = 1000
"""Credentials whose last use, and last request of `/me`, is in memory. Every login creates another token."""
USE_WRITE_SECONDS = 30.0
"""Seconds between two writes of a credential's last use.

A quarter of `facade.session_idle` if that is less.
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """Authenticated client of the facade.

    `credentials` are forwarded to the platform; None: use the configured account.
    Only reads of administrators and of local keys are served from the mirror.
    """

    name: str
    key: Key | None = None
    credentials: Credentials | None = None
    is_administrator: bool = False

    @property
    def is_local(self) -> bool:
        return self.key is not None

    @property
    def can_read_mirror(self) -> bool:
        return self.is_local or self.is_administrator

    @property
    def visibility(self) -> Visibility:
        """Visibility of the mirror, if the client can read the mirror."""
        return visibility.of(self.key)


class Authenticator:
    """Authenticator of facade clients and of exports.

    One per application, made by `factory.py`. A second one would repeat requests that verify a credential.
    `app_db` is house.db.
    """

    def __init__(self, settings: Settings, mirror: Database, app_db: Database, platform: Platform) -> None:
        self._settings = settings
        self._app_db = app_db
        self._platform = platform
        self._tenant_check = TenantCheck(settings, mirror, platform)
        self._key_rates = KeyRates()
        self._lock = threading.Lock()
        self._checks_running: set[bytes] = set()
        self._identified_at: dict[bytes, float] = {}
        """Times (Unix seconds) of requests of `/me`, by digest of the credential."""
        self._used_at: dict[bytes, float] = {}
        """The same of last uses. The stored times lag behind by `_use_interval_seconds`."""
        self._use_interval_seconds = min(USE_WRITE_SECONDS, settings.facade.session_idle / 4)
        self._backoff_until = 0.0

    def identify(self, request: Request) -> Caller:
        """Return the authenticated client of a request.

        Raises ApiError: 400 for a malformed header, 401 for missing, unknown or expired credentials, 403 for
        another customer's, 429 after too many failed attempts, 502 or 504 if a check is required and the
        platform does not respond.
        """
        presented = read_credentials(request)
        user_part, address = presented.user or None, request.remote_addr or ""
        try:
            key = self._find_key(presented, address)
            if key is not None:
                return Caller(f"key {key.name}", key=key)
            cached = credential_cache.find(self._app_db, presented.secret)
            if cached is not None and cached.ended_at is not None:
                raise build_unauthorized_error("The token has expired or was destroyed.")
            if cached is not None and cached.matches_user(user_part):
                cached = self._validate_cached(presented, cached, is_read=request.method in ("GET", "HEAD"))
            else:
                cached = self._verify_new(presented, address)
        except (KeyRefused, TooManyAttempts) as error:
            raise _to_api_error(error) from error
        self._store_time(self._used_at, presented.secret)
        # A credential that was just verified has the time of its use.
        if clock.unix() - cached.used_at >= self._use_interval_seconds:
            credential_cache.record_use(self._app_db, presented.secret)
        return Caller(
            f"platform user {cached.user_id or cached.user_part or '?'}",
            credentials=presented,
            is_administrator=bool(cached.administrator),
        )

    def check_key(self, request: Request, *, is_open: bool = False) -> None:
        """Raise ApiError 400, 401, 403 or 429 unless a request has a valid local key.

        `is_open`: the request was counted before, when it began.
        """
        presented, address = read_credentials(request), request.remote_addr or ""
        try:
            if self._find_key(presented, address, counts=not is_open) is None:
                login_throttle.begin_attempt(self._app_db, "key", presented.user or None, address)
                raise build_unauthorized_error()
        except (KeyRefused, TooManyAttempts) as error:
            raise _to_api_error(error) from error

    def record_login(self, secret: str, user_id: object, email: str | None) -> None:
        """Cache the token of a successful login through the facade."""
        credential_cache.store(
            self._app_db,
            secret,
            source="login",
            user_id=None if user_id is None else str(user_id),
            user_part=email,
            administrator=None,
        )

    def revoke(self, secret: str) -> None:
        """End a token here, even if the platform still accepts it."""
        credential_cache.mark_ended(self._app_db, secret)

    def record_refusal(self, secret: str) -> None:
        """Require a new check of a credential that the platform refused.

        Until the platform accepts it, the credential is not valid, even for reads during an outage.
        """
        credential_cache.expire_check(self._app_db, secret)

    def record_logout(self, secret: str) -> None:
        """End a token of `POST /login`.

        Any other credential is verified at its next use. Only the platform can distinguish an API key, which
        a logout does not end, from a token of a login that did not pass through the facade.
        """
        cached = credential_cache.find(self._app_db, secret)
        if cached is not None and cached.source == "login":
            self.revoke(secret)
        else:
            credential_cache.delete(self._app_db, secret)

    @staticmethod
    def _store_time(times: dict[bytes, float], secret: str) -> None:
        """Store the present time for a credential. Above MAX_TIMES the others are dropped."""
        if len(times) >= MAX_TIMES:
            times.clear()
        times[tokens.digest(secret)] = clock.unix()

    # --- internal ----------------------------------------------------------------------------------

    def _find_key(self, presented: Credentials, address: str, *, counts: bool = True) -> Key | None:
        """Return the local key with these credentials; with `counts` count its request.

        Raises KeyRefused if one of its limits refuses the request.
        """
        key = keys.authenticate(self._app_db, presented.user or None, presented.secret, address)
        if counts and key is not None and key.limits.requests_per_minute is not None:
            self._key_rates.count(key.user_id, key.limits.requests_per_minute)
        return key

    def _verify_new(self, presented: Credentials, address: str) -> CachedCredential:
        """Verify credentials that are not cached with the platform.

        Attempts are limited for these credentials only: a script with a wrong key must not lock out the other
        clients at its address.
        """
        attempt = login_throttle.begin_attempt(self._app_db, "key", presented.user or None, address)
        if not self._settings.facade.platform_credentials:
            raise build_unauthorized_error()
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
        self, presented: Credentials, cached: CachedCredential, *, is_read: bool
    ) -> CachedCredential:
        facade = self._settings.facade
        now = clock.unix()
        digest = tokens.digest(presented.secret)
        idle_seconds = now - max(cached.used_at, self._used_at.get(digest, 0))
        if cached.source == "login" and idle_seconds > facade.session_idle:
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
            return self._recheck(presented, cached, digest)
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
        """Return True for the first of concurrent requests.

        The others use the cached result.
        """
        with self._lock:
            if digest in self._checks_running:
                return False
            self._checks_running.add(digest)
            return True

    def _recheck(self, presented: Credentials, cached: CachedCredential, digest: bytes) -> CachedCredential:
        if clock.monotonic() < self._backoff_until:
            raise PlatformError(
                f"it did not respond to a check of credentials within the last {BACKOFF_SECONDS:.0f} s"
            )
        identity_age = clock.unix() - self._identified_at.get(digest, 0)
        try:
            if cached.administrator is not None and 0 <= identity_age <= ADMIN_RECHECK_SECONDS:
                verified = self._ping(presented, cached)
            else:
                verified = self._fetch_identity(presented)
        except PlatformError:
            self._backoff_until = clock.monotonic() + BACKOFF_SECONDS
            raise
        if verified is None:
            credential_cache.delete(self._app_db, presented.secret)
            raise build_unauthorized_error()
        return verified

    def _request(self, path: str, presented: Credentials) -> PlatformResponse:
        """Send one GET with these credentials. Raises PlatformError, also for 429 and 5xx."""
        response = self._platform.get(
            path,
            priority=INTERACTIVE,
            credentials=presented,
            tries=1,
            check=False,
            seconds=CHECK_TIMEOUT_SECONDS,
        )
        if response.status >= 500 or response.status == 429:
            raise PlatformError(f"{path}: status {response.status}", status=response.status)
        return response

    def _ping(self, presented: Credentials, cached: CachedCredential) -> CachedCredential | None:
        """Request `/ping` with cached credentials. Returns None if the platform refuses them."""
        if self._request("/ping", presented).status in (400, 401, 403):
            return None
        return credential_cache.store(
            self._app_db,
            presented.secret,
            source=cached.source,
            user_id=cached.user_id,
            user_part=cached.user_part,
            administrator=cached.administrator,
        )

    def _fetch_identity(self, presented: Credentials) -> CachedCredential | None:
        """Request `/me` with these credentials and cache their user.

        Returns None if the platform refuses the credentials. Raises ApiError 403 for credentials of another
        customer, and PlatformError.
        """
        response = self._request("/me", presented)
        me: dict[str, Any] = {}
        if response.status == 200:
            me = _parse_record(response.body)
        elif response.status != 403:
            # 403: the credentials are valid but have no access to /me (specification, Authentication 6).
            return None
        user_id = me.get("id", presented.user if presented.user and "@" not in presented.user else None)
        email = me.get("email", presented.user or None)
        is_administrator = self._tenant_check.is_administrator(me)
        self._store_time(self._identified_at, presented.secret)
        return credential_cache.store(
            self._app_db,
            presented.secret,
            source="shown",
            user_id=None if user_id is None else str(user_id),
            user_part=email if isinstance(email, str) else None,
            administrator=is_administrator,
        )


def read_credentials(request: Request) -> Credentials:
    """Return the credentials of a request, not yet verified. `user` is '' for X-Auth-Token.

    Raises ApiError 401 if they or one of their parts are missing, 400 if they are malformed.
    """
    header = request.headers.get("Authorization", "")
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            text = base64.b64decode(rest.strip(), validate=True).decode()
        except ValueError:
            text = ""
        user, separator, secret = text.partition(":")
        if not separator:
            # Wording of the platform (docs/platform.md#2-sign-in).
            raise ApiError(400, "Failed to parse Authorization header credentials")
        if not user.strip() or not secret:
            raise build_unauthorized_error(
                "Basic credentials need a user id and a secret: user_id:secret. Without a user id send the "
                "secret as X-Auth-Token."
            )
        return Credentials(user, secret, "basic")
    token = request.headers.get("X-Auth-Token", "").strip()
    if token:
        return Credentials("", token, "token")
    raise build_unauthorized_error(
        "Credentials are missing. Send HTTP Basic user_id:secret, or the header X-Auth-Token."
    )


def check_collection(key: Key, collection: str) -> None:
    """Raise ApiError 403 if a key has no access to a collection."""
    if not key.can_access(collection):
        raise ApiError(403, f"The key {key.name!r} has no access to the collection {collection}.")


def check_right(key: Key, right: str) -> None:
    """Raise ApiError 403 if a key lacks a right of `access/rights`."""
    if right not in key.limits.rights:
        label = next(known.label for known in list_key_rights() if known.name == right)
        raise ApiError(
            403,
            f"The key {key.name!r} does not have the right {right!r} ({label}). Create a key with it on"
            f" Settings › Keys, or with `switchroom key add NAME --grant {right}`.",
        )


def _to_api_error(refusal: KeyRefused | TooManyAttempts) -> ApiError:
    if refusal.status == 401:
        return build_unauthorized_error(str(refusal))
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return ApiError(refusal.status, str(refusal), headers=headers)


def build_unauthorized_error(message: str = "Unauthorized: unknown or expired credentials.") -> ApiError:
    return ApiError(401, message, headers={"WWW-Authenticate": 'Basic realm="Switchroom", charset="UTF-8"'})


def _parse_record(body: bytes) -> dict[str, Any]:
    """Return the record in a platform response, {} if there is none."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    record = parsed.get("data", parsed) if isinstance(parsed, dict) else {}
    return record if isinstance(record, dict) else {}
