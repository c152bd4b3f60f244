"""Checks of the platform: reachability, clock, credentials and rights.

For `doctor` and `init`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from integration.core import clock
from integration.core.errors import (
    ConfigurationError,
    CredentialsRefused,
    PlatformBroken,
    PlatformError,
    PlatformRefused,
    PlatformThrottled,
)
from integration.maintenance.check_result import CheckResult
from integration.outbound import tls
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.client import Platform
from integration.settings.model import Settings

TIMEOUT_SECONDS = 10.0
"""Seconds for one request to the platform."""
TLS_SECONDS = 3.0
"""Seconds to find out whether a server of an http:// address requires TLS."""
MAX_CLOCK_SKEW_SECONDS = 10
"""Clock difference in seconds above which the check warns."""
FATAL_CLOCK_SKEW_SECONDS = 300
"""Clock difference in seconds above which the check fails."""


def check_platform(settings: Settings) -> Iterator[CheckResult]:
    """Request a ping and the configured user from the platform."""
    base_url = settings.platform.base_url
    try:
        timeout = min(settings.platform.timeout, TIMEOUT_SECONDS)
        platform = Platform(settings.platform.model_copy(update={"timeout": timeout}))
    except ConfigurationError:
        return  # platform.ca_file: reported as a condition of the start.
    try:
        before = clock.now()
        response = platform.get("/ping", priority=INTERACTIVE, tries=1)
        yield CheckResult("ok", "platform", f"{base_url} responds")
        if response.date is not None:
            yield _check_clock(response.date, before)
        me = platform.item("/me", priority=INTERACTIVE, tries=1).values
        yield _check_user(me)
    except CredentialsRefused as error:
        yield CheckResult("fail", "credentials", str(error))
    except PlatformError as error:
        yield CheckResult("fail", "platform", f"{base_url}: {error}", _advise_on_failure(base_url, error))
    finally:
        platform.close()


def _advise_on_failure(base_url: str, error: PlatformError) -> str:
    """Return the advice that the message of `error` lacks."""
    address = urlsplit(base_url)
    if address.scheme == "http" and tls.uses_tls(address.hostname or "", address.port or 80, TLS_SECONDS):
        return "this port requires TLS: begin platform.base_url with https://"
    if isinstance(error, PlatformRefused):
        return f"status {error.status}: check platform.base_url, including its version segment"
    if isinstance(error, PlatformThrottled):
        return "wait a minute and repeat the command"
    if isinstance(error, PlatformBroken):
        return "check that platform.base_url is the address of the platform's API; otherwise try again later"
    if "platform." in str(error):
        return ""
    return "check platform.base_url, and that a firewall allows connections from this host"


def _check_user(me: Mapping[str, Any]) -> CheckResult:
    name = me.get("email") or me.get("username") or me.get("id")
    if me.get("is_root") in (True, 1, "1", "true"):
        return CheckResult("ok", "credentials", f"logged in as {name}, administrator")
    return CheckResult(
        "warn",
        "credentials",
        f"logged in as {name}, not an administrator: the platform returns only this user's calls",
        "use credentials of an administrator",
    )


def _check_clock(platform_time: datetime, before: datetime) -> CheckResult:
    # The platform's time was read between `before` and now, and has a resolution of 1 s.
    after = clock.now()
    skew_seconds = max(
        0.0, (before - platform_time).total_seconds() - 1, (platform_time - after).total_seconds()
    )
    if skew_seconds <= MAX_CLOCK_SKEW_SECONDS:
        return CheckResult("ok", "clock", "agrees with the platform's clock")
    direction = "behind" if platform_time > after else "ahead of"
    return CheckResult(
        "fail" if skew_seconds > FATAL_CLOCK_SKEW_SECONDS else "warn",
        "clock",
        f"{skew_seconds:,.0f} s {direction} the platform's clock",
        "synchronize the clock of this host by NTP (timedatectl set-ntp true)",
    )
