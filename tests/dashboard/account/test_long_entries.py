"""Long values in forms: untouched values are not sent, long entries are refused."""

from __future__ import annotations

import json

import pytest

from tests.dashboard.account.test_forms import form_values
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import FakeExchange
from tests.support.page_text import text
from tests.support.payloads.account_records import Filling
from tests.support.people import Member

ADMIN = Member("root@example.com", "admin")
EMAILS = [f"reader-{number}@example.com" for number in range(250)]
SCHEDULE = {
    "id": 3,
    "name": "Weekly " * 400,
    "description": "One\r\nTwo\rThree " + "x" * 250_000,
    "emails": ",".join(EMAILS),
}
CONTACT = {
    "id": 5,
    "first_name": "Cora",
    "last_name": "Sample",
    "company": "Example\nLtd " * 300,
    "tel": "442079460123",
    "notes": "One\r\nTwo " * 700,
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    app = SharedApp(tmp_path_factory.mktemp("long") / "data", FakeExchange())
    yield app
    app.close()


@pytest.fixture
def app(shared):
    shared.clear()
    shared.platform.respond("GET /reportschedules/{id}", {"data": SCHEDULE})
    shared.platform.respond("PATCH /reportschedules/{id}", {"data": SCHEDULE})
    shared.platform.respond("PATCH /contacts/{id}", {"data": CONTACT})
    Filling(shared)("reportschedules", SCHEDULE)
    Filling(shared)("contacts", CONTACT)
    return shared


def sent(app) -> list:
    return [json.loads(one.body) for one in app.platform.requests if one.method in ("PATCH", "POST")]


def submitted(page: str, prose: str) -> dict:
    """Return the entries of the form as a browser sends them."""
    values = form_values(page)
    return {
        name: [
            "\r\n".join(one.splitlines()) if name in (prose, "emails") else one.replace("\n", "")
            for one in entries
        ]
        for name, entries in values.items()
    }


def test_untouched_long_values_of_a_record_are_not_sent(app):
    client, path = app.log_in(ADMIN), "/account/reportschedules/3"
    entries = submitted(client.get(f"{path}?edit=1").text, "description")
    assert len(entries["emails"][0].splitlines()) == len(EMAILS)
    client.post(path, **entries | {"format": "csv"})
    assert sent(app) == [{"format": "csv"}]


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("name", "N" * 2001, "has 2,001 characters. Shorten it to at most 2,000."),
        ("description", "D" * 200_001, "Description has 200,001 characters. Shorten it to at most 200,000."),
        ("emails", "\r\n".join(EMAILS[:201]), "has 201 entries. Remove all but 200."),
        ("emails", "e" * 2001, "has 2,001 characters. Shorten it to at most 2,000."),
    ],
)
def test_an_entry_that_is_too_long_is_refused_at_its_field_and_kept(app, name, entry, message):
    client, path = app.log_in(ADMIN), "/account/reportschedules/3"
    entries = submitted(client.get(f"{path}?edit=1").text, "description") | {"format": "csv"}
    refused = client.post(path, **entries | {name: entry})
    assert refused.status_code == 400
    assert f"{message}</span>" in refused.text
    kept = submitted(refused.text, "description")
    assert (kept[name], kept["format"]) == ([entry], ["csv"])
    assert sent(app) == []


def test_untouched_long_values_of_a_contact_are_not_sent(app):
    client = app.log_in(ADMIN)
    entries = submitted(client.get("/contacts/5").text, "notes")
    client.post("/contacts/5", **entries | {"last_name": "Moss"})
    assert sent(app) == [{"last_name": "Moss"}]


def test_a_long_entry_of_a_contact_is_refused_at_its_field_and_kept(app):
    client = app.log_in(ADMIN)
    entries = submitted(client.get("/contacts/5").text, "notes")
    for path, changes in (("/contacts/5", entries), ("/contacts", {"first_name": "Cora"})):
        refused = client.post(path, **changes | {"last_name": "Moss", "email": "e" * 2001})
        assert refused.status_code == 400
        assert "Not saved: E-mail has 2,001 characters. Shorten it to at most 2,000." in text(refused)
        assert '<span class="error">E-mail has 2,001 characters.' in refused.text
        assert 'value="Moss"' in refused.text
        assert f'value="{"e" * 2001}"' in refused.text
    assert sent(app) == []
