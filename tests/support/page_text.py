"""Text, links and calls of a page, read from its HTML."""

from __future__ import annotations

import re
from html import unescape

import requests


def call_ids(response: requests.Response) -> list[int]:
    """Ids of the calls in a list, in order of their rows."""
    assert response.status_code == 200, response.text[:500]
    return [int(number) for number in re.findall(r'<tr class="row[^>]* data-call="(\d+)"', response.text)]


def text(response: requests.Response) -> str:
    """Text of a page without markup, separated by single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", response.text)).split())


def link(response: requests.Response, rel: str) -> str | None:
    """URL of the first link with this `rel`, or None."""
    found = re.search(rf'<a [^>]*rel="{rel}" href="([^"]+)"', response.text)
    return unescape(found[1]) if found else None
