"""Query strings of collection requests (specification, Common conventions: pager, filter, grouping)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import orjson

MAX_PAGE_RECORDS = 5000
"""Maximum number of records of one page."""

Condition = tuple[str, str, Any]
"""(property, operator, value), such as ('live_id', 'in', [4278000101])."""


def format_filter(conditions: Iterable[Condition]) -> str:
    """Format `conditions` as a filter of the platform.

    The filter is a compact JSON array, combined with AND.
    """
    return orjson.dumps(
        [{"property": name, "operator": operator, "value": value} for name, operator, value in conditions]
    ).decode()


def build_parameters(
    *,
    conditions: Iterable[Condition] = (),
    sort: str | None = None,
    direction: str | None = None,
    page: int = 1,
    limit: int = MAX_PAGE_RECORDS,
) -> dict[str, str]:
    """Build the query parameters of one page.

    Without conditions there is no `filter`.
    """
    result = {"page": str(page), "limit": str(limit)}
    condition_list = list(conditions)
    if condition_list:
        result["filter"] = format_filter(condition_list)
    if sort:
        result["sort"] = sort
        result["dir"] = direction or "ASC"
    return result


def encode_path(path: str) -> str:
    """Percent-encode a decoded path, so that it cannot contain a query.

    `..` stays: `facade/blueprint.py` rejects it.
    """
    return quote(path, safe="/,+:@")


def format_query_string(params: Mapping[str, Any] | str | None) -> str:
    """Format `?a=b&c=d`, or an empty string without parameters.

    A string is the encoded query of a client and is used unchanged.
    """
    if not params:
        return ""
    if isinstance(params, str):
        return f"?{params.lstrip('?')}"
    return "?" + urlencode(params, quote_via=quote)
