"""Faxes: list, search, unread state and file."""

from __future__ import annotations

import re

from integration.core import clock
from tests.support.people import CALLER, CAROL
from tests.support.records import ACCOUNT_NUMBER


def test_faxes_are_listed_searched_unread_until_marked_and_opened(app, client):
    app.put("ddis", {"id": 1, "e164": ACCOUNT_NUMBER, "name": "Main"}, complete=False)
    for number, (sender, receiver) in enumerate(
        ((CALLER, ACCOUNT_NUMBER), (ACCOUNT_NUMBER, "447700900555")), 1
    ):
        values = {
            "from": sender,
            "to": receiver,
            "created_at": clock.utc_text(clock.unix() + 60),
            "pages": number,
            "status": 1,
        }
        app.put("faxes", {"id": number, **values}, complete=False)
    page = client.get("/messages/faxes")
    assert page.text.count(".pdf") == 2
    assert 'title="Unread"' in client.get("/messages?new=1").text
    found = client.get("/messages/faxes?find=0555").text
    assert "/2.pdf" in found
    assert "/1.pdf" not in found
    read_to = re.search(r'name="to" value="([^"]+)"', page.text)
    assert client.post("/messages/read", **{"with": "faxes", "to": read_to[1]}).url.endswith(
        "/messages/faxes"
    )
    assert "Mark as read" not in client.get("/messages/faxes").text
    app.archive("fax", 1, b"%PDF-1.4 fax")
    answer = client.get("/messages/faxes/1.pdf")
    assert answer.content == b"%PDF-1.4 fax"
    assert answer.headers["Content-Type"] == "application/pdf"


def test_a_fax_is_in_the_timeline_of_its_number(app, client):
    app.call(1, clock.utc_text(clock.unix() - 60), party=CALLER, party_e164=f"+{CALLER}")
    at = clock.utc_text(clock.unix() - 30)
    app.put(
        "faxes",
        {"id": 4, "created_at": at, "from": f"00{CALLER}", "to": ACCOUNT_NUMBER, "pages": 3},
        complete=False,
    )
    page = client.get(f"/contacts/of/{CALLER}").text
    assert page.index("/messages/faxes/4.pdf") < page.index('href="/calls/1"')
    assert "3 pages" in page


def test_the_page_states_that_there_are_no_faxes_yet(client):
    assert "No faxes read yet" in client.get("/messages/faxes").text


def test_agents_limited_to_own_calls_see_no_faxes(own_calls_only):
    client = own_calls_only.log_in(CAROL.as_user(1))
    assert client.get("/messages/faxes").status_code == 403
    assert client.get("/messages/faxes/1.pdf").status_code == 403
