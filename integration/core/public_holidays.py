"""Public holidays of countries and their regions, from the package `holidays`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

LANGUAGE = "en_US"
"""Language of the names. Without one the package uses that of the computer."""


def list_countries() -> Mapping[str, Sequence[str]]:
    """Return the regions of each country, by ISO 3166 code."""
    # Imported here, because only one page needs the package, and the import takes 55 ms.
    import holidays

    regions: Mapping[str, Sequence[str]] = holidays.list_supported_countries(include_aliases=False)
    return regions


def list_holidays(country: str, region: str, years: Iterable[int]) -> dict[str, str]:
    """Return the names of the holidays by day ('YYYY-MM-DD'), in order.

    `region` is one of `list_countries`, or '' for the entire country. Raises NotImplementedError for others.
    """
    import holidays

    found = holidays.country_holidays(country, region or None, years=years, language=LANGUAGE)
    return {str(day): name for day, name in sorted(found.items())}
