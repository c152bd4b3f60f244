"""Query strings of collection requests (specification, Common conventions: pager, filter, grouping)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import orjson

MAX_PAGE_RECORDS = 5000
"""Records that one page may hold."""

Condition = tuple[str, str, Any]
"""(property, operator, value), such as ('live_id', 'in', [4278000101])."""


def format_filter(conditions: Iterable[Condition]) -> str:
    """`conditions` as the platform's filter: a compact JSON array whose entries AND together."""
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
    """The parameters of one page. No conditions means no `filter` at all."""
    result = {"page": str(page), "limit": str(limit)}
    condition_list = list(conditions)
    if condition_list:
        result["filter"] = format_filter(condition_list)
    if sort:
        result["sort"] = sort
        result["dir"] = direction or "ASC"
    return result


def encode_path(path: str) -> str:
    """A decoded path, encoded for the platform: nothing in it can become a query or another path."""
    return quote(path, safe="/,+:@")


def format_query_string(params: Mapping[str, Any] | str | None) -> str:
    """`?a=b&c=d`, or nothing. A string passes as it is: a caller's own query, already encoded."""
    if not params:
        return ""
    if isinstance(params, str):
        return f"?{params.lstrip('?')}"
    return "?" + urlencode(params, quote_via=quote)
