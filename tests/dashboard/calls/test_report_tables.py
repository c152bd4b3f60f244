"""Tables of the page Reports add up to its headline."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.support.page_text import text
from tests.support.people import ERIN


@pytest.fixture(autouse=True)
def afternoon(app):
    app.clock.freeze("2026-11-20 14:03:30")


@pytest.fixture
def report(app):
    """Report of today with three inbound, two outbound and one internal call.

    One inbound call is withheld.
    """
    at = "2026-11-20 09:00:00"
    ann = {"user_id": 1, "user_name": "Ann Example"}
    app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example"})
    support = {"group_kind": "queue", "group_id": 5, "group_name": "Support"}
    app.call(1, at, talk_seconds=60, **ann, **support)
    app.call(2, at, talk_seconds=30, user_id=None, party="", party_e164=None)
    app.call(3, at, outcome="missed", talk_seconds=None, wait_seconds=None)
    app.call(4, at, direction="out", talk_seconds=20, charge=0.25, **ann)
    app.call(5, at, direction="out", outcome="not_answered", talk_seconds=None, charge=0.1)
    app.call(6, at, direction="internal", outcome="internal")
    return app.log_in().get("/reports?range=today").text


def table(page: str, name: str) -> list[list[str]]:
    """Texts of the rows of a breakdown, without the head."""
    section = page[page.index(f'aria-labelledby="by-{name}"') :]
    section = section[section.index("<tbody>") : section.index("</table>")]
    rows = []
    for row in section.split("<tr>")[1:]:
        cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        rows.append([" ".join(unescape(re.sub(r"<[^>]*>", "", cell)).split()) for cell in cells])
    return rows


TABLES = {
    "person": [
        ["Ann Example", "1", "1", "1:20", "0:40", "0.25"],
        ["Person unknown", "1", "0", "0:30", "0:30", "0.10"],
        ["Total", "2", "1", "1:50", "0:36", "0.35"],
    ],
    "country": [
        ["United Kingdom (+44)", "4", "2", "2", "1:20", "0.35"],
        ["Withheld or unknown", "1", "1", "0", "0:30", "0.00"],
        ["Total", "5", "3", "2", "1:50", "0.35"],
    ],
    "group": [
        ["Support", "1", "1", "0", "0", "100 %", "0:07"],
        ["No ring group or queue", "2", "1", "1", "0", "50 %", "0:07"],
        ["Total", "3", "2", "1", "0", "67 %", "0:07"],
    ],
    "line": [
        ["020 7946 0002", "3", "2", "1", "0", "67 %", "0:07"],
        ["Total", "3", "2", "1", "0", "67 %", "0:07"],
    ],
}


def test_the_rows_of_each_table_add_up_to_its_total(report):
    assert {name: table(report, name) for name in TABLES} == TABLES


def test_calls_today_on_live_are_the_calls_of_the_report(app, report):
    shown = re.search(r'data-figure="today"><a href="([^"]+)">(\d+)', app.log_in(ERIN).get("/").text)
    assert shown[2] == "5"
    assert "5 calls" in text(app.log_in(ERIN).get(unescape(shown[1])))


def test_a_missed_call_has_no_talk_time_and_an_answered_one_may_have_an_unknown_one(app):
    app.call(1, "2026-11-20 09:00:00", outcome="missed", talk_seconds=None)
    app.call(2, "2026-11-20 09:00:00", outcome="answered", talk_seconds=None)
    page = app.log_in(ERIN).get("/calls").text
    times = dict(re.findall(r'id="call-(\d)".*?<td class="time right">([^<]*)</td>', page, re.DOTALL))
    assert {number: shown.strip() for number, shown in times.items()} == {"1": "0:00", "2": "—"}
