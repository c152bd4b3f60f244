"""Reports in words: sentences of a period with links to its calls."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from integration.core import clock
from tests.support.page_text import text

NOW = datetime(2026, 11, 20, 14, 3, 30, tzinfo=UTC)


@pytest.fixture
def october(app):
    """A client, and a function that stores calls. Lines are open from Monday to Friday, 08:00 to 18:00."""
    app.clock.freeze(NOW.timestamp())
    week = {f"begin{day}": "08:00" for day in range(5)} | {f"end{day}": "18:00" for day in range(5)}
    app.log_in().post("/settings/hours", line="", valid_from="", **week)
    numbers = iter(range(1, 500))

    def store(count, at, **values):
        for _ in range(count):
            number = next(numbers)
            begin = datetime.fromisoformat(at) + timedelta(seconds=number)
            party = {"party": f"447700900{number:03}", "party_e164": f"+447700900{number:03}"}
            app.call(number, clock.utc_text(begin.replace(tzinfo=UTC)), **{**party, **values})

    return app.log_in(), store


def read_story(client, query="range=last-month"):
    answer = client.get(f"/reports/summary?{query}")
    story = answer.text[answer.text.index('class="story"') : answer.text.index("</section>")]
    return answer, [
        " ".join(unescape(re.sub(r"<[^>]*>", "", paragraph)).split())
        for paragraph in re.findall(r"<p[^>]*>(.*?)</p>", story, re.DOTALL)
    ]


def test_a_month_is_five_sentences_and_each_number_opens_its_calls(october):
    client, store = october
    # Thursday 15 October at 11:00 in London is 10:00 UTC.
    store(16, "2026-10-15 10:00:00")
    store(4, "2026-10-15 10:10:00", outcome="missed", talk_seconds=None)
    store(1, "2026-10-15 10:20:00", outcome="voicemail", talk_seconds=None, voicemails=1)
    store(3, "2026-10-17 10:20:00", outcome="missed", talk_seconds=None)
    store(1, "2026-10-17 10:50:00", direction="out", talk_seconds=20, party="447700900022",
          party_e164="+447700900022")  # fmt: skip
    store(6, "2026-10-20 10:00:00", wait_seconds=40)
    answer, sentences = read_story(client)
    assert "Your October 2026" in text(answer)
    assert sentences == [
        "You had 30 inbound calls and answered 22.",
        "You did not answer 8 of 30 calls (27 %): 1 was reached within the hour, 0 within a day, and 7 later"
        " or never.",
        "Of these, 4 found no one free, 3 came outside your opening hours and 1 left a voicemail.",
        "53 % were answered within 20 s: 16 of 30.",
        "Thursdays from 11:00 to 12:00 are your worst hour: you did not answer 5 of 21 calls.",
    ]
    figures = {
        (unescape(href), int(n))
        for href, n in re.findall(r'href="([^"]+)" data-count-of="(\d+)"', answer.text)
    }
    assert len(figures) > 8
    for href, count in figures:
        assert re.search(rf'id="total">{count} calls?\b', client.get(href).text), href


def test_few_calls_have_no_percentages_and_no_worst_hour(october):
    client, store = october
    store(14, "2026-10-15 10:00:00")
    store(5, "2026-10-15 10:10:00", outcome="missed", talk_seconds=None)
    _, sentences = read_story(client)
    assert sentences == [
        "You had 19 inbound calls and answered 14.",
        "You did not answer 5 of 19 calls: 0 were reached within the hour, 0 within a day, and 5 later"
        " or never.",
        "Of these, 5 found no one free.",
        "14 of 19 were answered within 20 s.",
        "Fewer than 20 calls: too few for percentages or a worst hour.",
    ]


def test_two_hours_with_equally_many_missed_calls_are_no_worst_hour(october):
    client, store = october
    for day in ("15", "16"):
        store(20, f"2026-10-{day} 10:00:00")
        store(5, f"2026-10-{day} 10:10:00", outcome="missed", talk_seconds=None)
    assert "worst hour" not in " ".join(read_story(client)[1])


def test_the_period_before_is_compared_if_the_history_reaches_it(october):
    client, store = october
    store(2, "2026-09-01 08:00:00")
    store(1, "2026-09-30 22:59:00", outcome="missed", talk_seconds=None)
    store(1, "2026-10-02 09:00:00")
    assert read_story(client)[1][:2] == [
        "You had 1 inbound call and answered 1 (September 2026: 2 of 3).",
        "You missed no caller.",
    ]


def test_a_period_is_empty_or_goes_on(october):
    client, store = october
    assert "Nothing to report yet" in text(client.get("/reports/summary"))
    store(1, "2026-08-01 09:00:00")
    assert "No inbound calls in this period" in text(client.get("/reports/summary"))
    store(1, "2026-11-20 09:00:00")
    answer, sentences = read_story(client, "range=this-month")
    assert "Your calls, 1–20 November 2026, so far" in text(answer)
    assert sentences[1] == "You missed no caller so far."
