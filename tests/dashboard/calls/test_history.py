"""Call history: search, filters, paging and time zone."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from integration.core import clock
from integration.workspace import notes
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.clock import ago
from tests.support.page_text import call_ids, link, text


@pytest.fixture(scope="module")
def searched(shared_app, shared_client):
    """Client of a history of five calls, four in the default range."""
    app = shared_app
    party = {"party": "442079460123", "party_e164": "+442079460123"}
    app.call(1, ago(hours=1), party_name="Jürgen Müller, Corner Bakery", **party)
    party = {"party": "447700900777", "party_e164": "+447700900777", "party_name": "Greta Lindqvist"}
    values = {"direction": "out", "user_id": 1000002, "talk_seconds": 240, "recordings": 1, "charge": 2.5}
    app.call(2, ago(hours=2), **values, **party)
    app.call(3, ago(hours=3), outcome="missed", talk_seconds=None)
    app.call(4, ago(hours=4), outcome="voicemail", talk_seconds=None, voicemails=1, our_number="442079460010")
    app.call(5, ago(days=40))
    return shared_client


def test_numbers_and_names_are_found_by_any_fragment_in_any_spelling(searched):
    for spelling in (
        "442079460123", "+44 (0)20 7946-0123", "(020) 7946.0123", "7946 012", "460123",
        "Müller", "MÜLLER", "ülle", "mull jurg", "JU",
    ):  # fmt: skip
        assert call_ids(searched.get(f"/calls?q={quote(spelling)}")) == [1], spelling


def test_a_number_with_the_same_last_digits_is_not_found(app, client):
    for call_id, party in ((1, "442079460123"), (2, "441632460123"), (3, "447700900123")):
        app.call(call_id, ago(hours=call_id), party=party, party_e164=f"+{party}")
    assert call_ids(client.get("/calls?q=460123")) == [1, 2]
    assert call_ids(client.get("/calls?q=79460123")) == [1]
    assert call_ids(client.get("/calls?q=442079460123+44163")) == []
    assert call_ids(client.get("/calls?q=1632460123")) == [2]
    app.call(4, ago(hours=4), party="443069990123", party_name="Forwarded from 442079460123")
    assert call_ids(client.get("/calls?q=442079460123")) == [1, 4]


def test_special_characters_of_the_search_engine_are_searched_as_text(searched):
    for odd in ('"', "%", "_", "' OR 1=1", "a AND", "*", "NEAR(", "\\", "----", "(...)", "🦊"):
        assert call_ids(searched.get(f"/calls?q={quote(odd)}")) == [], odd


def test_paging_shows_every_call_once_while_calls_arrive(app, client):
    same_second = ago(hours=3)
    for number in range(1, 131):
        app.call(number, same_second if number > 40 else ago(hours=4, seconds=number))
    seen, path, arrived = [], "/calls", 1000
    while path:
        answer = client.get(path)
        seen += call_ids(answer)
        arrived += 1
        app.call(arrived, ago(minutes=1))
        path = link(answer, "next")
    assert call_ids(client.get(link(answer, "prev"))) == seen[-80:-30]
    assert len(seen) == len(set(seen)) == 130
    assert seen[:90] == list(range(130, 40, -1))


def test_each_filter_of_the_url_narrows_the_list(searched):
    for query, found in (
        ("direction=out", [2]),
        ("outcome=missed", [3]),
        ("outcome=not_talked", [3, 4]),
        ("person=1000002", [2]),
        ("line=442079460010", [4]),
        ("min=100", [2]),
        ("max=10", [3, 4]),
        ("recorded=1", [2]),
        ("cost=1", [2]),
        ("cost=2,6", []),
        ("cost=much", [1, 2, 3, 4]),
        ("voicemail=1", [4]),
        ("direction=in&outcome=voicemail", [4]),
        ("range=all", [1, 2, 3, 4, 5]),
        ("q=bakery&direction=in", [1]),
    ):
        assert call_ids(searched.get(f"/calls?{query}")) == found, query


def test_invalid_parameters_are_ignored(app, client):
    app.call(1, ago(hours=1))
    query = (
        "range=soon&from=2026-99-99&person=x&min=-1&direction=up&outcome=x&before=zz&after=1.x&to=9999-12-31"
    )
    assert call_ids(client.get(f"/calls?{query}")) == [1]
    assert call_ids(client.get("/calls?before=2026-01-01T00:00:00.²")) == [1]


def test_an_empty_history_states_its_cause(app, client):
    assert "No calls read yet" in text(client.get("/calls"))
    app.call(1, ago(days=20))
    page = client.get("/calls")
    assert "Nothing in this period 1 call matches in other periods." in text(page)
    assert "Search all time" in text(page)
    unmatched = text(client.get("/calls?q=nobody&range=all"))
    assert "No calls match “nobody” in any period" in unmatched
    assert "Without the search this period has 1 call." in unmatched


def test_calls_are_filtered_by_hours_also_across_midnight(app, client):
    for number, clock_time in enumerate(("05:00:00", "12:00:00", "21:00:00"), 1):
        app.call(number, f"2026-07-01 {clock_time}")  # an hour later in London
    for span, found in (
        ("begin=09:00&end=17:30", [2]),
        ("begin=17:30&end=09:00", [3, 1]),
        ("begin=17:00", [3]),
        ("end=09:00", [1]),
    ):
        assert call_ids(client.get(f"/calls?from=2026-07-01&to=2026-07-01&{span}")) == found, span


def test_every_form_of_a_time_of_day_is_a_minute(app, client):
    app.call(1, "2026-07-01 13:02:59")  # an hour later in London
    app.call(2, "2026-07-01 13:03:00")
    for form in ("14:03", "14:03:30", "1403", "14:03:30.5", "T14:03%2B02:00"):
        for filters, found in ((f"clock={form}", [1]), (f"begin={form}", [2]), (f"end={form}", [1])):
            page = client.get(f"/calls?from=2026-07-01&to=2026-07-01&{filters}")
            assert call_ids(page) == found, filters
            assert "14:03" in text(page)
            assert "14:03:30" not in page.text


def test_active_filters_are_named_and_cleared_by_a_link(app, client):
    app.call(1, ago(hours=1))
    answer = client.get("/calls?range=month&q=x&direction=in&begin=08:00&clock=09:00&min=5")
    assert "Inbound" in text(answer)
    assert "talked at least 5 s" in text(answer)
    cleared = re.search(r'href="([^"]*)">Clear filters', answer.text)
    assert cleared is not None
    assert cleared[1] == "/calls?q=x&amp;range=month"


def test_a_queue_filter_shows_the_queue_name(app, client):
    app.call(1, ago(hours=1), group_kind="queue", group_id=12, group_name="Bookings")
    page = client.get("/calls?range=all&group=queue:12")
    assert re.findall(r'class="chip on"[^>]*>([^<]+) <', page.text) == ["Bookings"]
    assert call_ids(page) == [1]


def test_labels_are_renamed_and_removed(app, client):
    for number, label in ((1, "Order"), (2, "Order"), (3, "Oder")):
        app.call(number, ago(hours=number))
        app.app_db.write(
            lambda tx, leg=number, label=label: notes.add_label(tx, leg, "ann@example.com", label)
        )
    assert 'title="Only calls labelled Oder"' in client.get("/calls").text
    assert "label%3DOrder" in client.get("/calls?label=Order").text, "the export has the label"
    client.post("/calls/labels", label="Oder", to="Order")
    assert call_ids(client.get("/calls?label=Order")) == [1, 2, 3]
    client.post("/calls/labels", label="Order", drop="1")
    assert call_ids(client.get("/calls?label=Order")) == []
    assert "No labels yet" in client.get("/calls/labels").text


def test_a_call_without_cdr_after_a_day_is_marked(app, client):
    app.call(7, ago(days=2), cdrs=0, sources="webhook")
    app.leg(7)
    assert "no record of this call" not in client.get("/calls/7").text
    app.insert("_lookups", kind="leg", id=7, wanted_at=clock.unix() - 2 * 86400, tries=9, state="unlearnt")
    assert "no record of this call" in client.get("/calls/7").text
    assert 'href="/calls/7"' in client.get("/system").text
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET cdrs = 1"))
    assert "no record of this call" not in client.get("/calls/7").text
    assert "no record of" not in client.get("/system").text
