"""Calls: totals and histogram, jump to a day, page length."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape

import pytest

from integration.dashboard.calls import call_range
from integration.mirror.derived.rebuild import rebuild_due
from tests.support.page_text import call_ids, link, text
from tests.support.people import ERIN

NOW = datetime(2026, 11, 20, 14, 3, 30, tzinfo=UTC)


@pytest.fixture
def app(app):
    """Calls of two weeks: 3 inbound answered, 2 missed, 1 outbound.

    Before 1 inbound and 1 missed.
    """
    app.clock.freeze(NOW.timestamp())
    answered = {"talk_seconds": 60, "user_id": 1, "user_name": "Ann Example"}
    app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example"})
    app.call(1, "2026-11-07 09:00:00", **answered)
    app.call(2, "2026-11-10 09:00:00", outcome="missed", talk_seconds=None)
    app.call(3, "2026-11-14 09:00:00", **answered)
    app.call(4, "2026-11-16 09:00:00", **answered)
    app.call(5, "2026-11-16 10:00:00", outcome="missed", talk_seconds=None)
    app.call(6, "2026-11-16 11:00:00", outcome="missed", talk_seconds=None)
    app.call(7, "2026-11-18 09:00:00", direction="out", **answered)
    app.call(8, "2026-11-18 10:00:00", direction="internal", outcome="internal", talk_seconds=None)
    app.call(9, "2026-11-20 14:03:00", **answered)
    return app


def read_totals(page: str) -> str:
    section = page[page.index('<dl class="totals') : page.index("</dl>")]
    rows = re.findall(r"<div>(.*?)</div>", section, re.DOTALL)
    return "; ".join(" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows)


def read_bars(page: str) -> list[tuple[str, int]]:
    chart = page[page.index('<svg class="range"') :]
    found = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', chart[: chart.index("</svg>")])
    return [(unescape(href), int(count)) for href, count in found]


def test_totals_stand_beside_those_of_the_period_before(app):
    page = app.log_in().get("/calls").text
    assert read_totals(page) == (
        "external 6 ▲ more by 4 from 2; internal + 1; inbound answered 3 ▲ more by 2 better from 1;"
        " missed 2 ▲ more by 1 worse from 1; voicemail 0; outbound 1; talked 4:00 from 1:00"
    )
    assert "vs 7–13 Nov, same time" in text(app.log_in().get("/calls"))
    assert read_totals(app.log_in(ERIN).get("/calls").text).startswith("external 6"), "an agent"
    totals = read_totals(app.log_in().get("/calls?person=1").text)
    assert totals.startswith("calls 4 ▲ more by 3 from 1; inbound answered 3")


def test_a_search_and_a_period_after_one_without_calls_are_not_compared(app):
    app.call(10, "2026-11-19 09:00:00", recordings=1, party_name="Ann Example")
    client = app.log_in()
    for query in ("q=Ann", "recorded=1"):
        page = client.get(f"/calls?{query}")
        assert read_totals(page.text).startswith("calls "), query
        assert " from " not in read_totals(page.text), query
        assert "vs 7–13" not in text(page), query


def test_days_without_stored_sums_are_summed_only_up_to_a_number_of_calls(app, monkeypatch):
    """During an initial sync no day has stored sums, and a page would read all calls."""
    monkeypatch.setattr(call_range, "MAX_UNSUMMED_CALLS", 8)
    client = app.log_in()
    assert '<dl class="totals' not in client.get("/calls?range=all").text
    assert read_totals(client.get("/calls").text)
    rebuild_due(app.context.mirror_db, app.context.rules)
    assert read_totals(client.get("/calls?range=all").text)


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        ("", [1, 3, 1, 1]),
        ("outcome=not_talked", [2]),
        ("person=1", [1, 1, 1, 1]),
        ("direction=internal", [1]),
        ("range=today", [1]),
        ("range=all", [1, 1, 1, 3, 1, 1]),
        ("range=last-week", [1, 1]),
        ("from=2026-11-16&to=2026-11-16", [1, 1, 1]),
    ],
)
def test_every_bar_opens_the_calls_that_it_counts(app, query, counts):
    client = app.log_in()
    bars = read_bars(client.get(f"/calls?{query}").text)
    assert [count for _, count in bars] == counts
    for href, count in bars:
        assert len(call_ids(client.get(href))) == count, href


def test_every_total_opens_the_calls_that_it_counts(app):
    client = app.log_in()
    page = client.get("/calls").text
    section = page[page.index('<dl class="totals') : page.index("</dl>")]
    figures = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', section)
    assert len(figures) == 8
    for href, count in figures:
        assert len(call_ids(client.get(unescape(href)))) == int(count), href


def test_a_jump_shows_the_calls_up_to_the_end_of_a_day(app):
    client = app.log_in()
    answer = client.get("/calls?on=2026-11-16")
    assert call_ids(answer) == [6, 5, 4, 3]
    assert call_ids(client.get(link(answer, "prev"))) == [9, 8, 7]
    assert call_ids(client.get("/calls?on=2026-11-10")) == [2, 1], "out of the range"
    assert call_ids(client.get("/calls?range=today&outcome=missed&on=2026-11-12")) == [2]


def test_a_page_has_50_200_or_500_calls(app):
    for number in range(100, 160):
        app.call(number, "2026-11-19 09:00:00")
    client = app.log_in()
    assert len(call_ids(client.get("/calls"))) == 50
    answer = client.get("/calls?rows=200")
    assert len(call_ids(answer)) == 67
    assert "rows=200" in answer.text
    assert "rows=500" in client.get("/calls?rows=500&direction=in").text
    assert len(call_ids(client.get("/calls?rows=100000"))) == 50
