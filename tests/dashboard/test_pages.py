"""Routes of the dashboard's pages."""

from __future__ import annotations

import pytest
from flask import Flask
from werkzeug.exceptions import NotFound

from integration.dashboard import pages


def test_ids_in_urls_are_ascii_digits() -> None:
    app = Flask("test")
    pages.register(app)
    routes = app.url_map.bind("localhost")
    assert routes.match("/calls/3") == ("call.index", {"number": 3})
    for text in ("٣", "²", "-3"):
        with pytest.raises(NotFound):
            routes.match(f"/calls/{text}")
