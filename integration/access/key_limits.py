"""Limits of local keys: expiry, networks, rate and rights. `api/events` limits waiting requests."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_network

from integration.access.rights import list_key_rights
from integration.core import clock
from integration.core.errors import DomainError, SwitchroomError
from integration.settings.values import is_in_networks

MAX_NETWORKS = 50
MAX_REQUESTS_PER_MINUTE = 100_000


class KeyRefused(SwitchroomError):
    """A valid key that a limit refuses.

    `status` is that of the response. `retry_after` is in seconds.
    """

    def __init__(self, message: str, status: int, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of a key.

    `expires_at`: UTC text, None for no expiry. `networks`: addresses from which the key is accepted, empty
    for any. `requests_per_minute`: None for no limit. `rights`: names of `access/rights`.
    """

    expires_at: str | None = None
    networks: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    rights: frozenset[str] = frozenset()

    def check(self, name: str, address: str) -> None:
        """Raise KeyRefused if the key has expired or `address` is not allowed.

        `name`: name of the key for the message.
        """
        if self.expires_at is not None and clock.utc_text() >= self.expires_at:
            raise KeyRefused(f"The key {name!r} expired at {self.expires_at} (UTC).", 401)
        if self.networks and not is_in_networks([*map(ip_network, self.networks)], address):
            raise KeyRefused(f"The key {name!r} is not accepted from the address {address}.", 403)


NO_LIMITS = KeyLimits()
"""Limits of a key without rights."""


def parse_limits(
    expires: str, networks: Collection[str], requests_per_minute: str, rights: Collection[str]
) -> KeyLimits:
    """Parse the limits that a user entered.

    An empty text is no limit. `expires`: a day, whose end counts, or a time (UTC). Raises DomainError.
    """
    names = [right.name for right in list_key_rights()]
    unknown = sorted(set(rights).difference(names))
    if unknown:
        raise DomainError(f"There is no right {unknown[0]!r}. Rights are {', '.join(names)}.")
    return KeyLimits(
        _parse_expiry(expires.strip()),
        _parse_networks(networks),
        _parse_rate(requests_per_minute.strip()),
        frozenset(rights),
    )


def _parse_expiry(text: str) -> str | None:
    if not text:
        return None
    moment = clock.parse_utc(f"{text} 23:59:59" if len(text) == 10 else text)
    if moment is None:
        raise DomainError(f"Invalid time {text!r}. Use 2030-02-28 or '2030-02-28 14:30:00' (UTC).")
    expires_at = clock.utc_text(moment)
    if expires_at <= clock.utc_text():
        raise DomainError(f"The key would expire at once, because {text} is in the past.")
    return expires_at


def _parse_networks(texts: Collection[str]) -> tuple[str, ...]:
    networks = []
    for text in texts:
        try:
            networks.append(str(ip_network(text.strip(), strict=False)))
        except ValueError:
            raise DomainError(
                f"{text!r} is not an address or network. Use 192.0.2.1 or 192.0.2.0/24."
            ) from None
    if len(networks) > MAX_NETWORKS:
        raise DomainError(f"A key can have at most {MAX_NETWORKS} networks.")
    return tuple(dict.fromkeys(networks))


def _parse_rate(text: str) -> int | None:
    if not text:
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) <= 6
    if not is_number or not 1 <= int(text) <= MAX_REQUESTS_PER_MINUTE:
        raise DomainError(f"Invalid rate {text!r}. Enter requests per minute, from 1 to 100,000.")
    return int(text)


class KeyRates:
    """Count of the requests of each key, in memory.

    A key can send the requests of one minute at once. Its allowance then grows evenly.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._allowances: dict[int, tuple[float, float]] = {}

    def count(self, key_id: int, requests_per_minute: int) -> None:
        """Count a request. Raises KeyRefused above the rate."""
        now = clock.monotonic()
        with self._lock:
            allowance, counted_at = self._allowances.get(key_id, (float(requests_per_minute), now))
            per_second = requests_per_minute / 60
            allowance = min(float(requests_per_minute), allowance + (now - counted_at) * per_second)
            is_allowed = allowance >= 1
            self._allowances[key_id] = (allowance - 1 if is_allowed else allowance, now)
        if not is_allowed:
            retry_after = max(1, math.ceil((1 - allowance) / per_second))
            raise KeyRefused(
                f"This key is limited to {requests_per_minute} requests per minute. Try again in"
                f" {retry_after} seconds.",
                429,
                retry_after,
            )
