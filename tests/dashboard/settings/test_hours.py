"""Settings › Opening hours, and what follows from them. All results are written by hand."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlencode

import pytest

from integration.access import audit
from integration.alerts import notification_log
from integration.alerts.evaluate import RuleEvaluator
from integration.core.opening_hours import HoursEntry
from integration.mirror.derived.rebuild import rebuild_due
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import running_app
from tests.support.page_text import call_ids, text
from tests.support.people import BOB

RECEPTION, SALES = "+442079460001", "+442079460002"
NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC).timestamp()
"""A Thursday."""
OFFICE = (("08:00", "18:00"),)


@pytest.fixture
def app(tmp_path):
    with running_app(tmp_path / "data", calls__usual_hours='["Mon-Fri 08:00-18:00"]') as app:
        app.clock.freeze(NOW)
        app.put("ddis", {"id": 1, "e164": RECEPTION[1:], "name": "Reception"}, {"id": 2, "e164": SALES[1:]})
        yield app


def make_form(line="", valid_from="", **days: str) -> dict[str, object]:
    """Return the fields of the form. `days`: ranges of weekdays, such as mon='09:00-12:00 13:00-17:00'."""
    form: dict[str, object] = {"line": line, "valid_from": valid_from}
    for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun")):
        ranges = [*days.get(name, "").split(), "-", "-"][:2]
        form[f"begin{number}"], form[f"end{number}"] = zip(*(part.split("-") for part in ranges), strict=True)
    return form


def list_entries(app) -> list[HoursEntry]:
    return list(app.context.rules.counting.hours.entries)


def test_the_first_start_enters_the_setting_once(tmp_path):
    hours = '["Mon-Fri 09:00-17:00", "Mon 13:00-20:00", "Sat 10:00-24:00"]'
    with running_app(tmp_path / "data", calls__usual_hours=hours) as app:
        page = app.log_in().get("/settings/hours")
        assert "All lines always Mon 09:00–20:00, Tue–Fri 09:00–17:00, Sat 10:00–00:00" in text(page)
        app.restart(calls__usual_hours='["Sun 10:00-11:00"]')
        assert [entry.valid_from for entry in list_entries(app)] == [""]
        assert "Sun" not in text(app.log_in().get("/settings/hours")).partition("Add hours")[0]
    with running_app(tmp_path / "none", calls__usual_hours="[]") as app:
        assert "none: every line is always open" in text(app.log_in().get("/settings/hours"))


def test_hours_are_added_changed_and_removed_by_administrators(app):
    client = app.log_in()
    assert app.log_in(BOB).get("/settings/hours").status_code == 403
    client.post(
        "/settings/hours", **make_form("", "2026-12-01", mon="09:00-12:00 13:00-17:30", sat="22:00-02:00")
    )
    client.post("/settings/hours", **make_form(SALES, "2026-12-01", mon="00:00-00:00"))
    page = text(client.get("/settings/hours"))
    assert "All lines 1 Dec 2026 Mon 09:00–12:00 and 13:00–17:30, Sat 22:00–02:00" in page
    assert "020 7946 0002 1 Dec 2026 Mon all day" in page
    edited = client.get("/settings/hours?line=&from=2026-12-01").text
    assert re.findall(r'name="(?:begin|end)0" value="([^"]*)"', edited) == [
        "09:00",
        "12:00",
        "13:00",
        "17:30",
    ]
    client.post("/settings/hours", **make_form("", "2026-12-01", tue="10:00-11:00"))
    client.post("/settings/hours/remove", line=SALES, valid_from="2026-12-01")
    assert [(entry.line, entry.valid_from) for entry in list_entries(app)] == [("", ""), ("", "2026-12-01")]
    refused = client.post("/settings/hours/remove", line=SALES, valid_from="2026-12-01")
    assert refused.status_code == 400
    assert "already removed" in text(refused)
    app.restart()
    assert list_entries(app)[1].week[:2] == ((), (("10:00", "11:00"),))
    actions = [f"{entry.what}: {entry.about}" for entry in audit.list_newest(app.app_db)]
    assert actions == [
        f"opening hours removed: {SALES}, from 2026-12-01",
        "opening hours changed: all lines, from 2026-12-01: Tue 10:00–11:00",
        f"opening hours changed: {SALES}, from 2026-12-01: Mon all day",
        "opening hours changed: all lines, from 2026-12-01: Mon 09:00–12:00 and 13:00–17:30, Sat 22:00–02:00",
    ]


@pytest.mark.parametrize(
    ("form", "field", "error"),
    [
        (make_form(mon="09:00-12:00 11:59-17:00"), "begin0", "These hours overlap with others."),
        (make_form(sun="20:00-04:00", mon="03:00-05:00"), "begin0", "These hours overlap with others."),
        (
            make_form("+442079460099", mon="09:00-12:00"),
            "line",
            "+442079460099 is not a number of the account.",
        ),
        (make_form(tue="09:00-"), "begin1", "Enter a start and an end"),
        (make_form(tue="09:00-24:00"), "begin1", "Enter a start and an end"),
        (make_form("", "2026-02-30", mon="09:00-12:00"), "valid_from", "Enter a day, such as 2026-12-01"),
        (make_form(), "begin0", "Enter the hours of at least one day."),
    ],
)
def test_a_mistake_is_shown_at_its_field_and_nothing_is_stored(app, form, field, error):
    refused = app.log_in().post("/settings/hours", **form)
    assert refused.status_code == 400
    assert error in text(refused)
    assert re.search(rf'name="{field}"[^>]* aria-invalid="true"', refused.text)
    assert refused.text.count('class="error"') == 1
    for name in ("begin0", "end1"):
        assert f'name="{name}" value="{form[name][0]}"' in refused.text
    assert list_entries(app) == [HoursEntry("", "", (*[OFFICE] * 5, (), ()))]


def test_public_holidays_are_proposed_until_they_are_confirmed(app):
    client = app.log_in()
    refused = client.post("/settings/hours/holidays", country="GB", region="BY")
    assert "Use one of ENG, NIR, SCT, WLS, or leave it empty." in text(refused)
    client.post("/settings/hours/holidays", country="GB", region="SCT")
    page = client.get("/settings/hours").text
    proposed = re.findall(r'name="day" value="([\d-]+)" checked', page)
    # St Andrew's Day is a holiday of Scotland. The calendar of the rest of this year, and of the next.
    assert (proposed[:3], proposed[-1][:4]) == (["2026-11-30", "2026-12-25", "2026-12-26"], "2027")
    assert app.context.rules.counting.hours.closed_days == frozenset()
    client.post("/settings/hours/holidays/confirm", day=["2026-11-30", "2026-12-25", "2026-12-27"])
    refused = client.post("/settings/hours/closed", day="2026-11-25", name="Yesterday")
    assert "Enter today or a later day" in text(refused)
    client.post("/settings/hours/closed", day="2026-12-24", name="Party")
    page = text(client.get("/settings/hours"))
    closed = page.partition("Closed days for all lines")[2].partition("Public holidays")[0]
    assert re.findall(r"\d+ \w+ 2026", closed) == ["30 Nov 2026", "24 Dec 2026", "25 Dec 2026"]
    assert "Saint Andrew's Day" in closed
    assert "30 Nov 2026" not in page.partition("Public holidays")[2]
    client.post("/settings/hours/closed/2026-11-30/remove")
    assert app.context.rules.counting.hours.closed_days == {"2026-12-24", "2026-12-25"}


def read_outside(app) -> list[int]:
    """Return the calls that were missed outside opening hours, which are as many as the report counts."""
    client, days = app.log_in(), "from=2026-11-16&to=2026-11-25"
    calls = call_ids(client.get(f"/calls?{days}&reason=outside"))
    table = text(client.get(f"/reports/missed?{days}")).partition("By reason")[2]
    assert int(re.search(r"Outside opening hours (\d+)", table)[1]) == len(calls)
    return sorted(calls)


def list_due(app) -> list[tuple[str, str]]:
    """Return the days before today whose sums are due."""
    with app.mirror_db.read() as connection:
        rows = connection.execute("SELECT low, high FROM _due WHERE derived = 'reports' ORDER BY low")
        return [(low, high) for low, high in rows if low < "2026-11-26"]


def test_a_change_affects_the_calls_from_its_day_on(app):
    missed = {"outcome": "missed", "talk_seconds": None}
    days = ("16 17:59:59", "16 18:00:00", "21 12:00:00", "23 17:59:00", "24 17:00:00", "25 12:00:00")
    for number, at in enumerate(days, 1):
        app.call(number, f"2026-11-{at}", our_number=RECEPTION[1:], our_e164=RECEPTION, **missed)
    app.call(7, "2026-11-21 12:00:00", our_number=SALES[1:], our_e164=SALES, **missed)
    rebuild_due(app.mirror_db, app.context.rules)
    assert (read_outside(app), list_due(app)) == ([2, 3, 7], [])
    client = app.log_in()
    week = make_form("", "2026-11-23", mon="09:00-17:00", tue="09:00-17:30", wed="09:00-17:00")
    client.post("/settings/hours", **week)
    assert list_due(app) == [("2026-11-23 00:00:00", "~")]
    assert read_outside(app) == [2, 3, 4, 7]
    client.post("/settings/hours", **make_form(SALES, "", sat="12:00-12:01"))
    assert (read_outside(app), list_due(app)) == ([2, 3, 4], [("", "~")])
    rebuild_due(app.mirror_db, app.context.rules)
    assert (read_outside(app), list_due(app)) == ([2, 3, 4], [])
    # As a restored house.db: the start finds other hours than those of the stored sums.
    app.app_db.write(lambda tx: tx.execute("INSERT INTO closed_days VALUES ('2026-11-25', 'Holiday')"))
    app.restart()
    assert (read_outside(app), list_due(app)) == ([2, 3, 4, 6], [("", "~")])
    app.log_in().post("/settings/hours/remove", line="", valid_from="2026-11-23")
    rebuild_due(app.mirror_db, app.context.rules)
    assert (read_outside(app), list_due(app)) == ([2, 3, 6], [])


# --- call-backs and alerts -------------------------------------------------------------------------------


def miss(app, number: int, at: str, line: str = RECEPTION) -> None:
    """Add a call that was missed at a time of November 2026, by a caller of its own."""
    party = f"4477009001{number:02}"
    called = {"our_number": line[1:], "our_e164": line, "party": party, "party_e164": f"+{party}"}
    app.call(number, f"2026-11-{at}", outcome="missed", talk_seconds=None, change_no=number, **called)
    update_from_mirror(app.app_db, app.mirror_db)


def test_missed_shows_when_a_call_back_is_due_and_counts_open_time(app):
    app.log_in().post("/settings/hours", **make_form(SALES, "", fri="14:00-18:00"))
    app.log_in().post("/settings/hours/closed", day="2026-12-04", name="Stocktaking")
    app.clock.freeze(at := datetime(2026, 11, 26, 11, 0, tzinfo=UTC).timestamp())
    for number, (time, line) in enumerate(
        [
            ("26 10:45:00", RECEPTION),
            ("26 10:20:00", RECEPTION),
            ("25 20:00:00", RECEPTION),
            ("26 10:00:00", SALES),
        ],
        1,
    ):
        miss(app, number, time, line)
    page = text(app.log_in().get("/missed"))
    waits = re.findall(r"(due [\w: ]+|over \d+ \w+) · (\d\d:\d\d|\d+ Nov)", page)
    assert waits == [
        ("due 11:15", "10:45"),
        ("over 30 min", "10:20"),
        ("due Fri 14:30", "10:00"),
        ("over 2 h", "25 Nov"),
    ]
    app.clock.freeze(at + 7 * 86_400)
    miss(app, 9, "27 17:50:00", SALES)
    assert "due 11 Dec 14:20" in text(app.log_in().get("/missed"))


def run_rules(app, at: str) -> list[tuple[str, str]]:
    """Evaluate the rules at a time of November 2026. Returns new notifications: kind and caller or text."""
    app.clock.freeze(f"2026-11-{at}")
    with app.app_db.read() as connection:
        earlier = len(notification_log.list_newest(connection, 100))
    RuleEvaluator(app.context, lambda: None).run()
    with app.app_db.read() as connection:
        log = notification_log.list_newest(connection, 100)
    return sorted((entry.kind, entry.subject) for entry in log[: len(log) - earlier])


def test_a_rule_applies_only_while_open(app):
    app.clock.freeze("2026-11-26 10:00:00")
    client = app.log_in()
    client.post("/settings/hours", **make_form(SALES, "", thu="10:00-20:00"))
    for condition, values in (
        ("missed_call", {}),
        ("many_missed", {"threshold": "1", "minutes": "60"}),
        ("not_called_back", {"threshold": "30"}),
    ):
        rule = {"condition": condition, "name": condition, "notice": "1", "day": list("0123456"), **values}
        client.post("/system/alerts", only_open="1", **rule)
    assert "only while open" in text(client.get("/system/alerts"))
    edited = client.get("/system/alerts?edit=1").text
    assert re.search(r'name="only_open" value="1" checked', edited)
    miss(app, 1, "26 17:59:50")
    assert run_rules(app, "26 17:59:58") == [
        ("alert", "many_missed: 1 call missed in the last 60 min"),
        ("alert", "missed_call: Missed call from 07700 900101 on 020 7946 0001"),
    ]
    # After closing, an end of the alert is not reported, and calls of closed lines are no alerts.
    miss(app, 2, "26 18:00:10")
    miss(app, 3, "26 18:00:20", SALES)
    assert run_rules(app, "26 18:01:00") == [
        ("alert", "missed_call: Missed call from 07700 900103 on 020 7946 0002")
    ]
    miss(app, 4, "27 07:59:50")
    assert run_rules(app, "27 08:00:10") == [
        ("alert", "many_missed: 1 call missed in the last 60 min"),
        ("alert", "not_called_back: 07700 900103 is waiting for a call back"),
    ]
    assert run_rules(app, "27 08:29:45") == []
    assert run_rules(app, "27 08:29:55") == [
        ("alert", "not_called_back: 07700 900101 is waiting for a call back")
    ]


def test_reports_of_open_hours_count_the_calls_that_began_while_open(app):
    client, days = app.log_in(), "from=2026-11-23&to=2026-11-26"
    client.post("/settings/hours", **make_form(SALES, "", mon="18:00-20:00"))
    missed = {"outcome": "missed", "talk_seconds": None}
    for number, at, values in (
        (1, "23 10:00:00", {}),
        (2, "23 19:00:00", {}),
        (3, "23 18:00:00", missed),
        (4, "24 09:00:00", missed),
        (5, "25 07:59:59", {"direction": "out"}),
        (6, "25 17:59:59", {"direction": "out"}),
        (7, "23 19:00:00", {"our_number": SALES[1:], "our_e164": SALES}),
        (8, "26 07:00:00", missed),
        (9, "26 11:00:00", {}),
    ):
        line = {"our_number": RECEPTION[1:], "our_e164": RECEPTION}
        app.call(number, f"2026-11-{at}", **{**line, **values})
    for number in (1, 2):
        client.post(f"/calls/{number}/labels", label="Order")
    rebuild_due(app.mirror_db, app.context.rules)
    pages, counted = ("/reports", "/reports/missed", "/reports/summary", "/reports/labels"), set()
    for path in pages:
        page = client.get(f"{path}?{days}&open=1").text
        assert re.search(r'open=0[^"]*" aria-current="true"[^>]*>Open hours only', page), path
        for link, count in re.findall(r'href="(/calls\?[^"]*)" data-count-of="(\d+)"', page):
            assert "open=1" in link
            assert len(call_ids(client.get(unescape(link)))) == int(count), link
            counted.add((path, int(count)))
    assert {path for path, _ in counted} == set(pages)
    assert ("/reports", 5) in counted
    assert ("/reports/labels", 2) not in counted
    assert sorted(call_ids(client.get(f"/calls?{days}&open=1"))) == [1, 4, 6, 7, 9]
    assert "during opening hours" in text(client.get(f"/calls?{days}&open=1"))
    assert re.search(r'data-count-of="9"', client.get(f"/reports?{days}&open=0").text)
    rows = client.get(
        f"/exports/call-history.csv?{urlencode({'view': f'{days}&open=1', 'columns': 'id'})}"
    ).text
    assert sorted(rows.split()[1:]) == ["1", "4", "6", "7", "9"]
    for entry in list_entries(app):
        client.post("/settings/hours/remove", line=entry.line, valid_from=entry.valid_from)
    assert "Open hours only" not in client.get(f"/reports?{days}").text
