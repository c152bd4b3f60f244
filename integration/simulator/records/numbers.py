"""Telephone numbers from ranges reserved for fiction, in the platform's form.

London 020 7946 0xxx, United Kingdom mobiles 07700 900xxx, North America 555-01xx. The form is international
digits without plus (docs/platform.md#14-numbers).
"""

from __future__ import annotations

import random

_DESTINATIONS = (
    ("447", "United Kingdom Mobile", 0.035),
    ("44", "United Kingdom London", 0.012),
    ("1", "United States", 0.01),
    ("", "United States", 0.45),
)
"""Prefix, name and price per minute of destinations."""
_AMERICAN_AREAS = ("202", "212", "312", "415", "617")


def make_london_number(n: int) -> str:
    """Return '442079460nnn' for 0 ≤ n ≤ 999."""
    return f"442079460{n:03d}"


def make_mobile_number(n: int) -> str:
    """Return '447700900nnn' for 0 ≤ n ≤ 999."""
    return f"447700900{n:03d}"


def make_american_number(n: int) -> str:
    """Return '1<area>55501nn' for 0 ≤ n ≤ 499."""
    return f"1{_AMERICAN_AREAS[n // 100]}55501{n % 100:02d}"


def choose_outside_number(rng: random.Random) -> str:
    """Choose an outside number, never one of the account's own (London 100–199)."""
    kind = rng.random()
    if kind < 0.6:
        return make_mobile_number(rng.randrange(1000))
    if kind < 0.9:
        return make_london_number(rng.randrange(200, 1000))
    return make_american_number(rng.randrange(500))


def format_national(number: str) -> str:
    """Return a number without country code, the format inside names."""
    return number[2:] if number.startswith("44") else number[1:]


def describe_destination(number: str) -> str:
    """Return the platform's name for the destination of an outbound call."""
    return _find_destination(number)[1]


def get_rate(number: str) -> float:
    """Return the price per minute of calls to `number`; 0 for an extension."""
    return _find_destination(number)[2] if len(number) > 6 else 0.0


def _find_destination(number: str) -> tuple[str, str, float]:
    return next(row for row in _DESTINATIONS if number.startswith(row[0]))
