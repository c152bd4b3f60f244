"""Search box in the bar of each page."""

from __future__ import annotations

import re

import pytest

from tests.support.page_text import text
from tests.support.people import ERIN


@pytest.mark.parametrize(
    ("page", "action", "name"),
    [
        ("/", "/calls", "q"),
        ("/contacts", "/contacts", "find"),
        ("/messages", "/messages", "find"),
        ("/messages/faxes", "/messages/faxes", "find"),
        ("/voicemail", "/voicemail", "find"),
        ("/account/users", "/account/users", "q"),
    ],
)
def test_each_page_searches_its_own_records(shared_client, page, action, name):
    forms = re.findall(
        r'<form class="find" action="([^"]+)".*?<input type="search" name="(\w+)"',
        shared_client.get(page).text,
    )
    assert forms == [(action, name)]


def test_a_search_offers_the_other_kinds(shared_app, shared_client):
    page = shared_client.get("/contacts?find=Greta+%26+Co")
    assert 'value="Greta &amp; Co"' in page.text
    assert "Also search calls , messages , voicemail" in text(page)
    for link in ("/calls?range=all&amp;q=Greta%20%26%20Co", "/messages?find=Greta%20%26%20Co"):
        assert f'href="{link}"' in page.text
    page = shared_app.log_in(ERIN).get("/calls?q=Greta")
    assert "Also search contacts , messages" in text(page)
    assert "in calls" not in text(shared_client.get("/contacts"))
