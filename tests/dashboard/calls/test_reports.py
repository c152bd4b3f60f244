"""Reports: figures equal the rows behind their links; days follow the zone."""

from __future__ import annotations

import random
import re
from datetime import UTC, date, datetime, timedelta
from html import unescape
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pytest

from integration.core import clock
from integration.dashboard.calls import report_charts
from integration.dashboard.calls import report_period as page
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.page_queries import reports
from tests.support.application import running_app
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.records import ACCOUNT_NUMBER

pytestmark = pytest.mark.exhaustive

OUTCOMES = ("answered", "answered", "answered", "missed", "voicemail", "abandoned", None)


def figures(answer) -> list[tuple[str, int]]:
    """(URL, count) of every linked figure."""
    found = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', answer.text)
    return [(unescape(href), int(count)) for href, count in found]


def rows_of(answer) -> int:
    """Number of calls that the history states."""
    shown = re.search(r'id="total">([^<]*?) calls?\b', answer.text)
    return int(re.sub(r"\D", "", shown[1])) if shown else 0


@pytest.fixture(autouse=True)
def afternoon(monkeypatch):
    """Fix the time: a day has no calls in its first minutes."""
    now = datetime(2026, 11, 20, 14, 3, 30, tzinfo=UTC)
    monkeypatch.setattr(clock, "unix", now.timestamp)


@pytest.fixture
def busy(app):
    """Calls of every kind over eight days, including today one week ago."""
    rng = random.Random(7)
    for number in range(1, 161):
        direction = rng.choice(("in", "in", "in", "out", "internal"))
        outcome = rng.choice(OUTCOMES)
        if direction == "out":
            outcome = rng.choice(("answered", "not_answered"))
        if direction == "internal":
            outcome = "internal"
        country = rng.choice(("44", "1", "353", "49"))
        app.call(
            number,
            ago(rng.randrange(8 * 86400)),
            direction=direction,
            outcome=outcome,
            state="ended" if outcome else "talking",
            wait_seconds=rng.choice((None, 3, 20, 21, 90)),
            talk_seconds=rng.choice((None, 0, 30, 600)),
            charge=rng.choice((None, 0.0, 0.25)),
            party=f"{country}7700900{number:03}",
            party_e164=None if number % 9 == 0 else f"+{country}7700900{number:03}",
            our_number=rng.choice((ACCOUNT_NUMBER, "442079460003")),
            our_e164=None,
            group_kind=(kind := rng.choice((None, "queue", "ringgroup"))),
            group_id=kind and rng.choice((5, 6, None)),
            group_name=kind and rng.choice(("Support", "Sales & Co")),
            user_id=rng.choice((None, 1, 2)),
            user_name=rng.choice(("", "Ann Example")),
        )
    rebuild_due(app.mirror_db, app.context.rules)


@pytest.mark.parametrize("query", ["range=week", "range=today"])
def test_every_figure_links_to_as_many_rows_as_it_counts(client, busy, query):
    answer = client.get(f"/reports?{query}")
    found = figures(answer)
    assert len(found) > (60 if query != "range=today" else 10)
    for href, count in dict(found).items():
        assert rows_of(client.get(href)) == count, href


def test_the_export_of_a_report_has_the_calls_it_counts(client, busy):
    answer = client.get("/reports?range=week")
    (view,) = re.findall(r'href="/exports/call-history.csv\?view=([^"&]+)', answer.text)
    assert f"/calls?{unquote(view)}" in {address for address, _ in figures(answer)}
    stated = re.search(r"The ([\d\s]+) calls behind these figures, comma", answer.text)[1]
    assert rows_of(client.get(f"/calls?{unquote(view)}")) == int(re.sub(r"\D", "", stated)) > 0


def test_figures_add_up_and_internal_calls_are_left_out(app, client, busy):
    with app.mirror_db.read() as connection:
        span = reports.Span(ago(9 * 86400), ago(-60), 20)
        totals = reports.compute_totals(connection, span)
        external = connection.execute("SELECT count(*) FROM _calls WHERE direction <> 'internal'").fetchone()[
            0
        ]
        in_progress = connection.execute("SELECT count(*) FROM _calls WHERE outcome IS NULL").fetchone()[0]
    assert totals.calls == external == totals.inbound + totals.outbound
    assert (
        totals.inbound == totals.answered + totals.missed + totals.voicemail + totals.abandoned + in_progress
    )


def test_the_service_level_follows_its_formula(app, client):
    for number, (outcome, wait) in enumerate(
        [("answered", 20), ("answered", 21), ("missed", 60), ("voicemail", 9), ("abandoned", 2)], 1
    ):
        app.call(number, ago(60 * number), outcome=outcome, wait_seconds=wait)
    shown = text(client.get("/reports?range=week"))
    assert "answered within 20 s ÷ (answered + missed + voicemail) = 1 ÷ 4" in shown
    assert "Service level answered within 20 s 1 of 4" in shown


def test_a_queue_without_missed_calls_states_why_its_service_level_is_0(app, client):
    for number in range(1, 4):
        app.call(number, ago(60 * number), wait_seconds=50, group_kind="queue", group_id=5,
                 group_name="Workshop")  # fmt: skip
    assert "Workshop 3 3 0 0 0 % none within 20 s 0:50" in text(client.get("/reports?range=week"))


def test_an_average_without_values_is_a_dash(app, client):
    app.call(1, ago(60), outcome="missed", wait_seconds=None, talk_seconds=None)
    shown = text(client.get("/reports?range=week"))
    assert "Average wait —" in shown
    assert "Average talk —" in shown
    assert "Cost" not in shown, "no call has a cost"


def test_an_empty_report_states_what_will_appear(client):
    assert "Nothing to report yet" in text(client.get("/reports"))


def test_days_without_calls_are_stated(app, client):
    app.call(1, ago(86400 * 30))
    assert "No calls in this period" in text(client.get("/reports?range=today"))


@pytest.mark.parametrize("query", ["from=x&to=y", "range=nonsense", "from=0001-01-01", "from=2026-02-30"])
def test_invalid_parameters_still_show_a_report(client, busy, query):
    assert client.get(f"/reports?{query}").status_code == 200


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
    assert 'href="/reports/labels?range=last-month&amp;compare_from=2026-09-14' in other.text
    assert 'href="/reports?range=year"' in other.text, "chosen days belong to one range"
    none = text(client.get("/reports?range=last-month&compare_from=2025-12-01&compare_to=2025-12-31"))
    assert "no calls in December 2025 to compare with" in none
    assert "no data before 1 October 2025" in text(client.get("/reports?range=year&compare=last-year"))


# --- daylight saving time -------------------------------------------------------------------------------

SWITCHES = {
    "Europe/London": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),  # by half an hour
    "Asia/Kathmandu": ("2026-03-29", "2026-10-25"),  # 5:45 ahead, never changes
    "America/St_Johns": ("2026-03-08", "2026-11-01"),  # 3:30 behind
}


@pytest.mark.parametrize("zone", SWITCHES)
@pytest.mark.parametrize("which", [0, 1])
def test_day_sums_equal_the_total_when_the_clock_changes(tmp_path, zone, which):
    day = date.fromisoformat(SWITCHES[zone][which])
    where = ZoneInfo(zone)
    first, last = day - timedelta(days=1), day + timedelta(days=1)
    chosen = page.Period("custom", first, last)
    span = chosen.span(where, 20)
    begin = clock.parse_utc(span.since)
    with running_app(tmp_path / "data", dashboard__timezone=zone) as app:
        # A call every 7.5 minutes, the first just before the days begin.
        for number in range(1, 640):
            moment = begin + timedelta(seconds=450 * number - 460)
            app.call(number, clock.utc_text(moment))
        with app.mirror_db.read() as connection:
            sums = reports.compute_sums(connection, span, where)
            total = reports.compute_totals(connection, span).calls
            expected = {
                bar: connection.execute(
                    "SELECT count(*) FROM _calls WHERE started_at >= ? AND started_at < ?",
                    (one.since, one.until),
                ).fetchone()[0]
                for bar in (first, day, last)
                for one in [page.Period("custom", bar, bar).span(where, 20)]
            }
        bars = report_charts.build_bars(chosen, sums)
        assert [bar.figures.calls for bar in bars] == list(expected.values())
        assert sum(expected.values()) == total > 500
        assert sum(cell.count for row in report_charts.build_heatmap(chosen, sums) for cell in row) == total
        client = app.log_in()
        heat = client.get(f"/reports?from={first}&to={last}")
        for href, count in figures(heat):
            if f"weekday={day.weekday()}" in href:
                assert rows_of(client.get(href)) == count, href
