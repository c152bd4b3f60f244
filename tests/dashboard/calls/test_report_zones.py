"""Overview of Reports on days when the clock changes."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from html import unescape
from urllib.parse import unquote, urlencode, urlsplit
from zoneinfo import ZoneInfo

import pytest

from integration.core import clock
from tests.support.applications.shared_app import running_shared_app

NOW = datetime(2026, 12, 10, 14, 3, 30, tzinfo=UTC)
ZONE = "Europe/London"
SWITCHES = ("2026-03-29", "2026-10-25")
"""Days on which the clock changes. The trial `zones` has other zones."""
HEAT_MODES = ("calls", "missed", "level", "talk")
KINDS = (
    {"direction": "in", "outcome": "answered", "wait_seconds": 20, "user_id": 1, "user_name": "Ann Example"},
    {"direction": "in", "outcome": "missed", "talk_seconds": None, "group_kind": "queue", "group_id": 5,
     "group_name": "Sales"},
    {"direction": "out", "outcome": "answered", "user_id": 2, "user_name": "Bob Sample", "charge": 0.25},
    {"direction": "in", "outcome": "voicemail", "talk_seconds": None, "our_number": "442079460003"},
    {"direction": "internal", "outcome": "internal"},
    {"direction": "in", "outcome": "answered", "wait_seconds": 21, "party": "", "party_e164": None},
    {"direction": "in", "outcome": "abandoned", "talk_seconds": None},
    {"direction": "in", "outcome": None, "state": "talking", "talk_seconds": None},
    {"direction": "out", "outcome": "not_answered", "talk_seconds": None, "party": "12025550101",
     "party_e164": "+12025550101"},
)  # fmt: skip
"""Calls of every kind, in turn."""


def list_moments(day: date, zone: ZoneInfo) -> list[datetime]:
    """Starts of calls around a day: each 53 minutes, near the midnights and around 02:00 each 7.

    The earlier period has calls too.
    """
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    moments = {midnight + timedelta(minutes=53 * step) for step in range(-120, 60)}
    for centre in (-24, 0, 2, 24, 48):
        begin = midnight + timedelta(hours=centre)
        moments |= {begin + timedelta(minutes=7 * step, seconds=30) for step in range(-8, 9)}
        moments |= {begin, begin - timedelta(seconds=1)}
    return sorted(moments)


@pytest.fixture(scope="module", params=[SWITCHES[0], pytest.param(SWITCHES[1], marks=pytest.mark.exhaustive)])
def changing(request, tmp_path_factory):
    """Application and calls (start, direction) around a change of the clock."""
    day, zone = date.fromisoformat(request.param), ZoneInfo(ZONE)
    with running_shared_app(tmp_path_factory.mktemp("zone"), dashboard__timezone=ZONE) as app:
        app.clock.freeze(NOW.timestamp())
        app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example"}, complete=False)
        app.put("users", {"id": 2, "first_name": "Bob", "last_name": "Sample"}, complete=False)
        app.call(9000, "2025-11-01 12:00:00")
        calls = []
        for number, moment in enumerate(list_moments(day, zone), 1):
            values = KINDS[number % len(KINDS)]
            app.call(number, clock.utc_text(moment), **values)
            calls.append((moment.astimezone(zone), values["direction"]))
        yield app, day, calls


def read_figures(page: str) -> set[tuple[str, int]]:
    """(URL, count) of each linked figure."""
    found = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', page)
    return {(unescape(href), int(count)) for href, count in found}


def read_bars(page: str) -> list[int]:
    """Inbound calls of the bars of the first chart, in order."""
    chart = page[page.index('<figure class="chart">') :].partition("</figure>")[0]
    return [
        int(re.sub(r"\D", "", count))
        for count in re.findall(r'class="value"[^>]*>[^<]*: ([\d\s]+)(?: vs [\d\s]+)?</text>', chart)
    ]


def list_reports(day: date) -> list[str]:
    """Addresses of the report of a day and of three days, with each heat map."""
    first, last = day - timedelta(days=1), day + timedelta(days=1)
    return [
        f"/reports?from={begin}&to={end}&heat={mode}"
        for begin, end in ((day, day), (first, last))
        for mode in HEAT_MODES
    ]


def test_bars_and_heat_map_are_the_calls_of_local_days_and_hours(changing) -> None:
    app, day, calls = changing
    inbound = [begin for begin, direction in calls if direction == "in"]
    days = [day + timedelta(days=step) for step in (-1, 0, 1)]
    browser = app.log_in()
    by_day = Counter(begin.date() for begin in inbound)
    three = browser.get(f"/reports?from={days[0]}&to={days[2]}").text
    assert read_bars(three) == [by_day[one] for one in days]
    by_hour = Counter(begin.hour for begin in inbound if begin.date() == day)
    assert read_bars(browser.get(f"/reports?from={day}&to={day}").text) == [
        by_hour[hour] for hour in range(24)
    ]
    cells = {
        tuple(int(re.search(rf"[?&]{name}=(\d+)", href)[1]) for name in ("weekday", "hour")): count
        for href, count in read_figures(three)
        if "weekday=" in href
    }
    assert cells == Counter((begin.weekday(), begin.hour) for begin in inbound if begin.date() in days)


def test_every_figure_of_the_overview_is_its_list_and_its_export(changing) -> None:
    app, day, calls = changing
    browser = app.log_in()
    figures = {figure for path in list_reports(day) for figure in read_figures(browser.get(path).text)}
    assert len(figures) > 150
    for href, count in figures:
        shown = re.search(r'id="total">([\d\s]+) calls?\b', browser.get(href).text)
        assert shown is not None, href
        assert int(shown[1]) == count, href
        export = urlencode({"view": urlsplit(href).query, "columns": "id"})
        rows = list(csv.reader(io.StringIO(browser.get(f"/exports/call-history.csv?{export}").text)))
        assert len(rows) - 1 == count, href
    days = [day + timedelta(days=step) for step in (-1, 0, 1)]
    report = browser.get(f"/reports?from={days[0]}&to={days[2]}")
    external = sum(begin.date() in days for begin, direction in calls if direction != "internal")
    three = f"/calls?direction=external&from={days[0]}&to={days[2]}"
    assert any(count == external for _, count in figures), three
    (view,) = re.findall(r'href="/exports/call-history.csv\?view=([^"&]+)', report.text)
    assert (f"/calls?{unquote(view)}", external) in figures
    assert f"The {external} calls behind these figures, comma" in report.text
