"""Digests: pages about a period that schedules send."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from integration.core.opening_hours import HoursEntry
from integration.exports import jobs
from integration.workspace import opening_hours
from integration.workspace.callback_following import update_from_mirror
from tests.exports.test_delivery import smtp
from tests.support.application import TestApp
from tests.support.mail_server import running_mail_server
from tests.support.people import ALICE

DIGEST = {"export": "call-history", "form": "digest", "at": "07:00"}
FORM = {
    "export": "call-history", "name": "Monday", "form": "digest", "every": "week", "at": "07:00",
    "zone": "Asia/Tokyo", "target": "email", "place": "ann@example.com", "wait_hours": "6",
    "otherwise": "incomplete",
}  # fmt: skip


def store_calls(exporting: TestApp, day: str, *, answered: int, missed: int) -> None:
    """Store inbound calls from 10:00 in Berlin, each of another caller."""
    for number in range(answered + missed):
        outcome = "answered" if number < answered else "missed"
        exporting.call(
            int(f"{day[-2:]}{number:03}"),
            f"{day} 09:{number:02}:00",
            outcome=outcome,
            talk_seconds=60 if outcome == "answered" else None,
            party=f"4477009001{number:02}",
            party_e164=f"+4477009001{number:02}",
        )


def read_sentences(page: str) -> list[str]:
    story = page[page.index('class="story"') : page.index("</section>")] if 'class="story"' in page else page
    return [
        " ".join(unescape(re.sub(r"<[^>]*>", "", paragraph)).split())
        for paragraph in re.findall(r"<p[^>]*>(You .*?)</p>", story, re.DOTALL)
    ]


def test_a_mailed_digest_equals_the_page_of_its_period(make_exporting: Any) -> None:
    with running_mail_server() as mail:
        exporting = make_exporting(**smtp(mail.port), server__public_url="https://calls.example.com")
        exporting.schedule("Morning", **DIGEST, target="email", place="ann@example.com", args={"names": "1"})
        store_calls(exporting, "2026-11-18", answered=17, missed=5)
        exporting.call(1, "2026-11-18 08:00:00", outcome="missed", party="", party_e164=None)
        update_from_mirror(exporting.app_db, exporting.mirror_db)
        text_sent = (
            "INSERT INTO text_back_calls VALUES (1, '2026-11-18 10:00:00', '+447400123000', 'sent', '')"
        )
        exporting.app_db.write(lambda tx: tx.execute(text_sent))
        exporting.clock.set("2026-11-19 06:01:00")
        exporting.finish_sync()
        exporting.deliver()
        (letter,) = mail.letters
    assert letter["Subject"] == "Morning, 18 November 2026"
    assert list(letter.iter_attachments()) == []
    page = letter.get_body(("html",)).get_content()
    plain = letter.get_body(("plain",)).get_content()
    shown = exporting.log_in(ALICE).get("/reports/summary?from=2026-11-18&to=2026-11-18").text
    sentences = read_sentences(page)
    assert sentences == read_sentences(shown)
    assert sentences[0] == "You had 23 inbound calls and answered 17."
    for line in (
        sentences[0],
        "Not answered – 6 –",
        "6 callers wait.",
        "System: no problems.",
        "Texts sent this month: 1.",
    ):
        assert line in plain
    assert re.findall(r"Since 18 Nov \d\d:00: (.*)\r", plain) == ["Withheld"]
    assert re.findall(r"Since 18 Nov \d\d:17: (.*)\r", plain) == ["07700 900117"]
    # Every figure opens the calls that it counts.
    links = re.findall(r'href="https://calls.example.com([^"]+)" data-count-of="(\d+)"', page)
    assert len(links) > 4
    client = exporting.log_in(ALICE)
    for href, count in links:
        assert re.search(rf'id="total">{count} calls?\b', client.get(unescape(href)).text), href


def test_closed_days_are_left_to_the_next_digest(make_exporting: Any) -> None:
    with running_mail_server() as mail:
        exporting = make_exporting(**smtp(mail.port))
        week = tuple((("09:00", "17:00"),) if weekday < 5 else () for weekday in range(7))
        opening_hours.save_entry(exporting.app_db, HoursEntry("", "", week))
        exporting.schedule(
            "Morning", **DIGEST, target="email", place="ann@example.com", args={"open_days": "1"}
        )
        store_calls(exporting, "2026-11-20", answered=1, missed=0)
        # Thursday to Monday: the digest of Friday would come on Saturday.
        for day in ("19", "20", "21", "22", "23"):
            exporting.clock.set(f"2026-11-{day} 06:01:00")
            exporting.finish_sync()
            exporting.deliver()
    texts = {letter["Subject"]: letter.get_body(("plain",)).get_content() for letter in mail.letters}
    assert list(texts) == [f"Morning, {days} November 2026" for days in ("18", "19", "20–22")]
    _, thursday, weekend = texts.values()
    assert "No inbound calls." in thursday
    heading, sentence, *_ = weekend.splitlines()
    assert (heading, sentence) == (
        "Your calls, 20–22 November 2026",
        "You had 1 inbound call and answered 1.",
    )


def test_a_day_on_which_a_single_line_opens_is_no_closed_day(make_exporting: Any) -> None:
    exporting = make_exporting()
    night = tuple((("22:00", "02:00"),) if weekday == 4 else () for weekday in range(7))
    sunday = tuple((("10:00", "12:00"),) if weekday == 6 else () for weekday in range(7))
    for line, week in (("", night), ("+442079460002", sunday)):
        opening_hours.save_entry(exporting.app_db, HoursEntry(line, "", week))
    exporting.schedule("Morning", **DIGEST, target="folder", args={"open_days": "1"})
    # Thursday to Monday. A range of Friday ends on Saturday.
    for day in ("19", "20", "21", "22", "23"):
        exporting.clock.set(f"2026-11-{day} 06:01:00")
        exporting.finish_sync()
        exporting.deliver()
    assert list(exporting.exported_files()) == [f"morning-2026-11-{day}.html" for day in ("19", "21")]


def test_the_form_refuses_names_without_email_and_closed_days_of_other_periods(app: TestApp) -> None:
    client = app.log_in()
    store_calls(app, "2026-11-18", answered=1, missed=0)
    page = client.get("/reports/summary?from=2026-11-18&to=2026-11-18").text
    (link,) = re.findall(r'href="([^"]+)">[^<]*(?:<svg.*?</svg>)? *Mail this', page, re.DOTALL)
    form = client.get(unescape(link)).text
    assert '<option value="digest" selected>' in form
    assert "E-mail isn’t set up" in form
    for values, refusal in (
        ({"target": "folder", "place": "", "names": "1"}, "go by e-mail only"),
        ({"target": "folder", "place": "", "open_days": "1"}, "Only a digest of every day"),
        ({"target": "alerts"}, "The setting alerts.urls has no address"),
    ):
        refused = client.post("/exports/schedules/new", **{**FORM, **values})
        assert refused.status_code == 400
        assert refusal in unescape(refused.text)
    saved = client.post("/exports/schedules/new", **{**FORM, "target": "folder", "place": "", "bom": "1"})
    assert saved.status_code == 200
    with app.app_db.read() as connection:
        (schedule,) = jobs.list_schedules(connection)
    assert (schedule.form, schedule.args, schedule.zone) == ("digest", {}, "Europe/London")
