"""Every listed collection opens as list and as record, with any content."""

from __future__ import annotations

import html
import re
from contextlib import ExitStack
from functools import cache

import pytest

from integration.dashboard.account.sections import GROUPS, SECTIONS
from integration.mirror.records.masking import is_secret
from tests.support.application import running_app
from tests.support.page_text import text
from tests.support.payloads.account_records import LISTED, Filling, complete_record, path_of

pytestmark = pytest.mark.exhaustive

every = pytest.mark.parametrize("of", LISTED, ids=lambda of: of.collection)

XSS = (
    "<script>alert(1)</script>\"><img src=x onerror=alert(2)>'-->{{7*7}}</textarea><svg onload=alert(3)> "
    "javascript:alert(4)"
)


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """`sites(record_of)`: client of a dashboard with one record of each collection.

    `record_of(resource)` makes the record, stored as listed and as a single record. With None the mirror is
    empty. Each dashboard starts once.
    """
    with ExitStack() as stack:

        @cache
        def client(record_of):
            app = stack.enter_context(running_app(tmp_path_factory.mktemp("site")))
            fill = Filling(app)
            for of in LISTED if record_of else ():
                fill(of.collection, record_of(of))
                if of.item and of.key:
                    fill.item(of.collection, record_of(of))
            return app.log_in()

        yield client


def hostile(of):
    return complete_record(of, XSS)


def secretive(of):
    return {
        **complete_record(of),
        **{field.name: "canary-4711" for field in of.fields if is_secret(field.name)},
        "sip_password": "canary-sip",
        "api_key": "canary-key",
        "nested": {"pin": "canary-nested", "list": [{"vm_pin": "canary-list"}]},
    }


def test_every_collection_belongs_to_a_group():
    assert [shelf.collection for shelf in SECTIONS.values() if shelf.group not in GROUPS] == []
    assert {of.collection for of in LISTED} == set(SECTIONS)


def test_the_overview_links_every_collection_with_its_age_and_count(client, fill):
    fill("users", complete_record(_of("users"), number=1), complete_record(_of("users"), number=2))
    fill("faxes")
    fill.record_failure("chats", "the platform answered 403")
    page = client.get("/account")
    links = re.findall(r'<li><a href="(/account/[^"]+)">(.*?)</a></li>', page.text, re.DOTALL)
    assert {link for link, _ in links} == {f"/account/{of.collection}" for of in LISTED}
    texts = {link: " ".join(re.sub(r"<[^>]*>", " ", words).split()) for link, words in links}
    assert texts["/account/users"].startswith("Users")
    assert texts["/account/users"].endswith("ago 2")
    assert texts["/account/faxes"].endswith("ago 0")
    assert texts["/account/ivrs"] == "IVRs not synced yet —"
    assert texts["/account/chats"] == "Chats sync failed —"
    assert f"2 of {len(LISTED)} collections synced" in text(page)
    # Collections with a problem come first, with its text.
    assert links[0][0] == "/account/chats"
    assert "1 collection could not be synced the platform answered 403 Chats sync failed" in text(page)


@every
def test_a_collection_opens_as_list_and_as_record_with_every_field(sites, of):
    client, record = sites(complete_record), complete_record(of)
    listed = client.get(f"/account/{of.collection}")
    shown = client.get(path_of(of) if of.collection != "me" else "/account/me")
    assert (listed.status_code, shown.status_code) == (200, 200)
    if of.collection != "me":
        assert f'href="{path_of(of)}"' in listed.text
    for name in record:
        kept = not (of.collection == "me" and name.startswith("sip_"))
        assert (f'<dt title="{html.escape(name)}">' in shown.text) == kept, name


@every
def test_values_of_records_are_escaped_on_every_page(sites, of):
    client = sites(hostile)
    for path in (
        "/account",
        f"/account/{of.collection}",
        f"/account/{of.collection}?q=%3Cscript%3E",
        path_of(of) if of.collection != "me" else "/account/me",
    ):
        page = client.get(path)
        assert page.status_code == 200, path
        for tag in ("<script>alert", "<img src=x", "<svg onload", "</textarea><svg", 'href="javascript'):
            assert tag not in page.text, (path, tag)
        assert "49</textarea>" not in page.text


@every
def test_no_page_shows_a_secret(sites, of):
    client = sites(secretive)
    for path in (f"/account/{of.collection}", path_of(of) if of.collection != "me" else "/account/me"):
        page = client.get(path)
        assert page.status_code == 200
        assert "canary" not in page.text, path


def _of(collection):
    return next(of for of in LISTED if of.collection == collection)
