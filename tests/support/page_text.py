"""What a page says, read from its HTML."""

from __future__ import annotations

import re
from html import unescape

import requests


def call_ids(answer: requests.Response) -> list[int]:
    """Calls of the rows shown, in order."""
    assert answer.status_code == 200, answer.text[:500]
    return [int(number) for number in re.findall(r'<tr class="row[^>]* data-call="(\d+)"', answer.text)]


def text(answer: requests.Response) -> str:
    """The page's words, without markup."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def link(answer: requests.Response, rel: str) -> str | None:
    """The address of the link with this `rel`."""
    found = re.search(rf'<a [^>]*rel="{rel}" href="([^"]+)"', answer.text)
    return unescape(found[1]) if found else None
