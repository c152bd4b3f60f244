"""Button that opens the party of a call or contact in the CRM of the business."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from integration.core.errors import ConfigurationError
from integration.settings.model import load
from tests.support.application import running_app
from tests.support.fake_exchange import FakeExchange
from tests.support.people import BOB

NUMBER = "+447700900101"


def find_links(page: str) -> list[str]:
    return [
        unescape(link)
        for link in re.findall(r'href="([^"]+)" target="_blank" rel="noopener noreferrer">Customers<', page)
    ]


def test_the_address_has_the_values_of_the_party(tmp_path: Path, platform: FakeExchange) -> None:
    template = "https://crm.example.com/{e164}/{digits}/{national}/{name}/{contact_id}"
    values = "%2B447700900101/447700900101/07700%20900101/Zo%C3%AB%20%26%20Sons/5"
    options = {"dashboard__crm_label": "Customers", "dashboard__country": "GB"}
    with running_app(tmp_path, platform=platform, **options) as app:
        app.put("contacts", {"id": 5, "first_name": "Zoë &", "last_name": "Sons", "mobile": NUMBER})
        app.call(101, "2026-09-02 09:00:00", party_name="Zoë & Sons", our_e164="+442079460000")
        app.call(102, "2026-09-02 10:00:00", party="anonymous", party_e164=None)
        assert "Customers" not in app.log_in(BOB).get("/calls/101").text, "no address is set"
        app.restart(dashboard__crm_url=template)
        client = app.log_in(BOB)
        for path in ("/calls/101", "/calls/101/beside", f"/contacts/of/{NUMBER[1:]}"):
            assert find_links(client.get(path).text) == [f"https://crm.example.com/{values}"], path
        assert find_links(client.get("/calls/102").text) == [], "a withheld number has no address"
        app.restart(dashboard__crm_url="https://crm.example.com/{call_id}/{our_e164}")
        client = app.log_in(BOB)
        assert find_links(client.get("/calls/101").text) == ["https://crm.example.com/101/%2B442079460000"]
        assert find_links(client.get(f"/contacts/of/{NUMBER[1:]}").text) == [], "no call"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://crm.example.com/?a={e164}&b={email}", "and no others"),
        ("https://me:secret@crm.example.com/{e164}", "without a login"),
        ("ftp://crm.example.com/{e164}", "must be an address"),
        ("http://crm.example.com/{e164}", "add crm.example.com to outgoing.allow_hosts"),
    ],
)
def test_an_address_that_cannot_work_stops_the_start(url: str, words: str) -> None:
    environment = {
        "SWITCHROOM_PLATFORM__BASE_URL": "https://api.example.com/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "a" * 40,
        "SWITCHROOM_DASHBOARD__CRM_URL": url,
    }
    with pytest.raises(ConfigurationError) as caught:
        load(None, environment)
    [mistake] = caught.value.mistakes
    assert mistake.startswith("dashboard.crm_url")
    assert words in mistake
    assert "secret" not in mistake
    if url.startswith("http://"):
        load(None, environment | {"SWITCHROOM_OUTGOING__ALLOW_HOSTS": "10.0.0.5, crm.example.com"})
    del environment["SWITCHROOM_DASHBOARD__CRM_URL"]
    with pytest.raises(ConfigurationError, match="crm_on_platform: set"):
        load(None, environment | {"SWITCHROOM_DASHBOARD__CRM_ON_PLATFORM": "true"})
