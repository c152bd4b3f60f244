"""Query strings of collection requests (specification, Common conventions: pager, filter, grouping)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

MAX_PAGE_RECORDS = 5000
"""Maximum number of records of one page."""

Condition = tuple[str, str, Any]
"""(property, operator, value), such as ('live_id', 'in', [4278000101])."""


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
