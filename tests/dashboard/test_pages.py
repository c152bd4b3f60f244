"""Routes of the dashboard's pages."""

from __future__ import annotations

import pytest
from werkzeug.exceptions import NotFound

from tests.support.application import TestApp


def test_ids_in_urls_are_ascii_digits(app: TestApp) -> None:
    routes = app.product.site.url_map.bind("localhost")
    assert routes.match("/calls/3") == ("call.index", {"number": 3})
    for text in ("٣", "²", "-3"):
        with pytest.raises(NotFound):
            routes.match(f"/calls/{text}")
