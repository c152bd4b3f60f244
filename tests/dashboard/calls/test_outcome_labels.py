"""The text of an outcome is stated once."""

from __future__ import annotations

import re

import pytest

from integration.core import clock
from integration.mirror.page_queries.call_labels import STATE_LABELS, Label
from tests.support.application import TestApp

NAMES_OF_PAGES = re.compile(r"<(nav|h1|dialog|select)\b.*?</\1>", re.DOTALL)
"""Elements with the name of the page Missed, and the filter, whose texts are computed at the import."""


def test_a_renamed_outcome_has_its_new_name_on_pages(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATE_LABELS, "missed", Label("Lost", "missed"))  # type: ignore[arg-type]
    at = clock.utc_text(clock.unix() - 600)
    for number in (1, 2):
        app.call(number, at, outcome="missed", direction="in", party="447700900101")
    alice = app.log_in()
    for path, count in (("/calls", 3), ("/reports", 5), ("/reports/missed", 3), ("/", 3)):
        page = NAMES_OF_PAGES.sub("", alice.get(path).text)
        found = re.findall(r">(missed|lost)(?: or voicemail)?<", page, re.IGNORECASE)
        assert [name.lower() for name in found] == ["lost"] * count, path
