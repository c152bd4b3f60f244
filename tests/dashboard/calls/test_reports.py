"""Reports: figures equal the rows behind their links; days follow the zone."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.support.clock import ago
from tests.support.page_text import text

pytestmark = pytest.mark.exhaustive


def figures(answer) -> list[tuple[str, int]]:
    """(URL, count) of every linked figure."""
    found = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', answer.text)
    return [(unescape(href), int(count)) for href, count in found]


def rows_of(answer) -> int:
    """Number of calls that the history states."""
    shown = re.search(r'id="total">([^<]*?) calls?\b', answer.text)
    return int(re.sub(r"\D", "", shown[1])) if shown else 0


@pytest.fixture(autouse=True)
def afternoon(app):
    """Fix the time: a day has no calls in its first minutes."""
    app.clock.freeze("2026-11-20 14:03:30")


def test_the_service_level_follows_its_formula(app, client):
    for number, (outcome, wait) in enumerate(
        [("answered", 20), ("answered", 21), ("missed", 60), ("voicemail", 9), ("abandoned", 2)], 1
    ):
        app.call(number, ago(60 * number), outcome=outcome, wait_seconds=wait)
    shown = text(client.get("/reports?range=week"))
    assert "answered within 20 s ÷ (answered + missed + voicemail) = 1 ÷ 4" in shown
    assert "Service level answered within 20 s 1 of 4" in shown


def test_the_outcomes_add_up_to_all_calls(app, client):
    """Calls in progress, and those whose outcome is not decided yet, have a row of their own."""
    ways = [("in", "answered"), ("in", "missed"), ("in", None), ("out", "answered"), ("out", "not_answered")]
    for number, (direction, outcome) in enumerate([*ways, ("out", "not_answered"), ("out", None)], 1):
        state = "ended" if outcome else "talking"
        app.call(number, ago(60 * number), direction=direction, outcome=outcome, state=state)
    page = client.get("/reports?range=today")
    table = re.search(r'<table class="sheet outcomes">.*?</table>', page.text, re.DOTALL)[0]
    rows = re.findall(r'<th scope="row"[^>]*>(.*?)</th><td class="right">(.*?)</td>', table)
    counts = {word: int(re.sub(r"<[^>]*>", "", cell)) for word, cell in rows}
    assert sum(counts.values()) == 7
    assert (counts["Outbound, no answer"], counts["No outcome yet"]) == (2, 2)
    assert ("/calls?from=2026-11-20&to=2026-11-20&outcome=not_answered", 2) in figures(page)


def test_a_report_states_what_is_not_known(app, client):
    assert "Nothing to report yet" in text(client.get("/reports"))
    app.call(1, ago(60), outcome="missed", wait_seconds=None, talk_seconds=None)
    shown = text(client.get("/reports?range=week"))
    assert "Average wait —" in shown
    assert "Average talk —" in shown
    assert "Cost" not in shown, "no call has a cost"
    assert "No calls in this period" in text(client.get("/reports?range=yesterday"))
    for query in ("from=x&to=y", "range=nonsense", "from=0001-01-01", "from=2026-02-30"):
        assert client.get(f"/reports?{query}").status_code == 200, query


def test_today_is_compared_up_to_the_same_minute(app):
    for number, at in enumerate(("2026-11-20 09:00:00", "2026-11-13 14:03:59", "2026-11-13 14:04:00"), 1):
        app.call(number, at)
    client = app.log_in()
    answer = client.get("/reports")
    assert "Calls 1 vs 1 no change" in text(answer)
    ((href, _),) = {pair for pair in figures(answer) if "clock" in pair[0] and "outcome" not in pair[0]}
    assert "from=2026-11-13&to=2026-11-13" in href
    assert rows_of(client.get(href)) == 1


def test_a_period_after_one_without_calls_is_not_compared(app):
    """Neither one before the first call, nor one in which there were no calls."""
    app.call(1, "2026-11-02 09:00:00")
    for number in range(2, 9):
        app.call(number, "2026-11-20 09:00:00", outcome="missed" if number < 5 else "answered")
    client = app.log_in()
    for report in ("", "/missed", "/labels", "/summary"):
        for days in ("from=2026-11-19&to=2026-11-20", "from=2026-11-02&to=2026-11-20"):
            shown = text(client.get(f"/reports{report}?{days}"))
            shown = shown.replace("no data before", "")
            shown = shown.replace("vs previous period Previous period", "")
            found = re.findall(r"\bvs\b|better|worse|no change|no one called", shown)
            assert found == [], (report, days)
    assert "no data before 2 November 2026" in text(client.get("/reports?from=2026-11-02&to=2026-11-20"))


def test_any_period_is_compared_and_stays_in_the_address(app):
    """October with the October before: every report, its links to reports and ranges; then other days."""
    numbers = iter(range(1, 99))
    for at, count in (
        ("2025-10-01 09:00:00", 1),
        ("2025-10-31 22:59:00", 2),
        ("2026-09-15 09:00:00", 4),
        ("2026-10-15 09:00:00", 5),
    ):
        for _ in range(count):
            app.call(next(numbers), at, outcome="missed")
    client = app.log_in()
    last_year = client.get("/reports?range=last-month&compare=last-year&heat=missed")
    assert "1–31 October 2026, vs October 2025" in text(last_year)
    assert "Calls 5 vs 3 ▲ more by 2" in text(last_year)
    assert "When Calls Inbound Inbound, October 2025" in text(last_year)
    assert "Thu 1 Oct 2026: 0 vs 1" in text(last_year), "the chart has the earlier period"
    (before,) = {href for href, count in figures(last_year) if "direction=external" in href and count == 3}
    assert rows_of(client.get(before)) == 3
    for link in (
        "/reports/missed?range=last-month&amp;compare=last-year",
        "/reports?range=year&amp;heat=missed&amp;compare=last-year",
        "/reports?range=last-month&amp;heat=level&amp;compare=last-year",
    ):
        assert f'href="{link}' in last_year.text, link
    missed = text(client.get("/reports/missed?range=last-month&compare=last-year"))
    assert "Missed, with voicemail 5 vs 3 ▲ more by 2 worse" in missed
    assert "Reason Missed October 2025 Change" in missed
    summary = text(client.get("/reports/summary?range=last-month&compare=last-year"))
    assert "answered 0 (October 2025: 0 of 3" in summary

    days = "compare_from=2026-09-15&compare_to=2026-09-14"
    other = client.get(f"/reports?range=last-month&{days}")
    assert "1–31 October 2026, vs 14–15 Sep" in text(other)
    assert "Calls 5 vs 4 ▲ more by 1" in text(other)
    assert "Fri 2 Oct 2026: 0 vs 4" in text(other), "days are compared from the first on"
    assert 'href="/reports/labels?range=last-month&amp;compare_from=2026-09-14' in other.text
    assert 'href="/reports?range=year"' in other.text, "chosen days belong to one range"
    none = text(client.get("/reports?range=last-month&compare_from=2025-12-01&compare_to=2025-12-31"))
    assert "no calls in December 2025 to compare with" in none
    assert "no data before 1 October 2025" in text(client.get("/reports?range=year&compare=last-year"))
