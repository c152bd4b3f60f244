"""Routes of the dashboard's pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from werkzeug.exceptions import NotFound

from integration.core import clock
from tests.support.application import TestApp
from tests.support.page_text import text


def test_ids_in_urls_are_ascii_digits(app: TestApp) -> None:
    routes = app.product.site.url_map.bind("localhost")
    assert routes.match("/calls/3") == ("call.index", {"number": 3})
    for number in ("٣", "²", "-3"):
        with pytest.raises(NotFound):
            routes.match(f"/calls/{number}")


@pytest.mark.parametrize(
    ("constant", "value", "path", "shown"),
    [
        ("dashboard.calls.report_charts.PALE_BELOW_CALLS", 7, "/reports?heat=level", "fewer than 7 calls"),
        ("mirror.page_queries.history.MAX_COUNT", 1, "/calls?q=kettle", "more than 1 calls"),
        ("dashboard.site.news.PERIOD", timedelta(days=3), "/notifications", "for 3 days"),
        ("access.keys.DEFAULT_OVERLAP_HOURS", 5.0, "/settings/keys", "for another 5 hours"),
    ],
)
def test_limits_on_pages_are_those_of_the_code(
    app: TestApp, monkeypatch: pytest.MonkeyPatch, constant: str, value: object, path: str, shown: str
) -> None:
    for number in (1, 2):
        app.call(number, clock.utc_text())
    app.add_key()
    monkeypatch.setattr(f"integration.{constant}", value)
    assert shown in text(app.log_in().get(path))
