"""Missed and called back: reasons, persons and call-backs in two zones.

The opening hours are those of the first start: Monday to Friday, 08:00 to 18:00. The
expected results are written by hand.
"""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from integration.mirror.derived.rebuild import rebuild_due
from tests.support.applications.shared_app import running_shared_app

NOW = datetime(2026, 11, 27, 14, 3, 30, tzinfo=UTC)
DAYS = "from=2026-11-17&to=2026-11-19"
ANN, BOB = 1, 2
HOURS = {"calls__usual_hours": '["Mon-Fri 08:00-18:00"]'}
REASONS = {
    # Zone: outside opening hours; rang, not answered; no one free; left a voicemail
    "Europe/London": (2, 3, 1, 1),
    "Australia/Lord_Howe": (5, 1, 0, 1),
}
EXHAUSTIVE = [
    pytest.param(zone, marks=() if zone == "Europe/London" else pytest.mark.exhaustive) for zone in REASONS
]


@pytest.fixture(scope="module", params=EXHAUSTIVE)
def zoned_app(request, tmp_path_factory):
    with running_shared_app(
        tmp_path_factory.mktemp("zone"), dashboard__timezone=request.param, **HOURS
    ) as app:
        app.zone = request.param
        yield app


@pytest.fixture
def missed(zoned_app):
    """Calls of 18 November 2026, a Wednesday. Times are UTC."""
    app = zoned_app
    app.clear()
    app.clock.freeze(NOW.timestamp())
    app.put("users", {"id": ANN, "first_name": "Ann", "last_name": "Example"})
    app.put("users", {"id": BOB, "first_name": "Bob", "last_name": "Sample"})
    app.call(90, "2026-11-01 12:00:00", party="447700900999", party_e164="+447700900999")

    def unanswered(number, time, *phones, outcome="missed", cause="No Answer", **values):
        party = {"party": f"44770090010{number}", "party_e164": f"+44770090010{number}"}
        app.call(number, f"2026-11-18 {time}", outcome=outcome, talk_seconds=None, **{**party, **values})
        for place, user_id in enumerate(phones):
            leg = {"context": "LOCAL_USER", "user_id": user_id, "t_cause": cause, "connected": 0}
            app.leg(10 * number + place, call_id=number, **leg)

    def reaching(number, party, at, **values):
        number_of = {"party": f"44770090010{party}", "party_e164": f"+44770090010{party}"}
        app.call(number, f"2026-11-{at}", **{**number_of, **values})

    sales = {"group_kind": "queue", "group_id": 5, "group_name": "Sales"}
    unanswered(1, "07:59:59", ANN)
    unanswered(2, "08:00:00", ANN, BOB, **sales)
    reaching(22, 2, "18 08:30:00", direction="out", talk_seconds=15)
    unanswered(3, "12:14:59", BOB, cause="User busy", **sales)
    unanswered(4, "12:15:00", BOB)
    reaching(24, 4, "19 12:15:00")
    unanswered(5, "21:00:00", ANN)
    reaching(25, 5, "18 21:10:00", direction="out", talk_seconds=14)
    reaching(26, 5, "19 21:00:01")
    unanswered(6, "13:00:00", outcome="voicemail", voicemails=1)
    reaching(27, 6, "18 13:59:00")
    unanswered(7, "13:05:00", ANN, outcome="abandoned")
    unanswered(8, "13:10:00", ANN, party="", party_e164=None)
    return app


@pytest.fixture(params=["calls", "stored sums"])
def report(request, missed):
    if request.param == "stored sums":
        rebuild_due(missed.mirror_db, missed.context.rules)
    return missed.log_in().get(f"/reports/missed?{DAYS}").text


def read_table(page: str, name: str) -> dict[str, list[int]]:
    """Missed, reached within an hour, within a day, later or never.

    By the name of the row.
    """
    section = page[page.index(f'aria-labelledby="by-{name}"') :]
    section = section[section.index("<tbody>") : section.index("</table>")]
    rows = {}
    for row in section.split("<tr>")[1:]:
        head, *cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        texts = [re.sub(r"<[^>]*>|\s", "", unescape(cell)) for cell in cells]
        rows[unescape(re.sub(r"<[^>]*>", "", head))] = [int(text) for text in (texts[0], *texts[-3:])]
    return rows


def test_reasons_follow_the_opening_hours_of_the_zone(missed, report):
    outside, rang, none_free, voicemail = REASONS[missed.zone]
    table = read_table(report, "reason")
    assert table.pop("Total") == [7, 2, 1, 4]
    found = {name: counts[0] for name, counts in table.items()}
    expected = {
        "Outside opening hours": outside,
        "Rang, not answered": rang,
        "No one free": none_free,
        "Left a voicemail": voicemail,
    }
    assert found == {name: count for name, count in expected.items() if count}


def test_a_call_counts_for_each_person_whose_phone_rang(report):
    assert read_table(report, "person") == {"Ann Example": [4, 1, 0, 3], "Bob Sample": [2, 1, 1, 0]}


def test_missed_calls_of_a_queue_are_reached_or_not(report):
    assert read_table(report, "group") == {"Sales": [2, 1, 0, 1]}


def test_a_caller_who_hangs_up_at_once_is_shown_and_not_counted(report):
    assert re.search(r"Hung up within 5 s.*?reason=early[^>]*>1</a>", report, re.DOTALL)


def test_every_figure_opens_its_calls_and_their_export(missed, report):
    browser = missed.log_in()
    figures = {
        (unescape(href), int(count))
        for href, count in re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', report)
    }
    assert len(figures) > 30
    for href, count in figures:
        shown = re.search(r'id="total">([\d\s]+) calls?\b', browser.get(href).text)
        assert shown is not None, href
        assert int(shown[1]) == count, href
        export = urlencode({"view": urlsplit(href).query, "columns": "id"})
        rows = list(csv.reader(io.StringIO(browser.get(f"/exports/call-history.csv?{export}").text)))
        assert len(rows) - 1 == count, href


def test_a_call_that_reaches_the_caller_later_corrects_stored_sums(missed):
    rebuild_due(missed.mirror_db, missed.context.rules)
    party = {"party": "447700900105", "party_e164": "+447700900105"}
    missed.call(28, "2026-11-19 20:59:00", direction="out", talk_seconds=40, **party)
    for _ in ("read from the calls", "stored"):
        page = missed.log_in().get(f"/reports/missed?{DAYS}").text
        assert read_table(page, "reason")["Total"] == [7, 2, 2, 3]
        rebuild_due(missed.mirror_db, missed.context.rules)


def test_links_of_the_report_name_their_filters(missed):
    page = missed.log_in().get("/calls?" + DAYS + f"&reason=early&rang={ANN}&reached=never").text
    chips = re.findall(r'title="Remove filter">([^<]+) <', page)
    assert chips == ["Hung up early", "reached later or never", "rang for Ann Example"]
    assert "reason" not in parse_qs(urlsplit("/calls?" + DAYS).query)
