"""Opening hours across changes of the clock, midnights, days of entries and closed days.

All results are written by hand. Europe/London changes at 01:00 UTC on 29 March and on 25 October 2026.
America/Sao_Paulo skipped the hour after midnight on 4 November 2018, and set the clock back to 23:00 at the
end of 17 February 2018.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from integration.core.opening_hours import HoursEntry, OpeningHours, find_overlap

SALES = "+442079460002"


def make_week(text: str):
    """Return the week of a text such as 'Mon-Fri 09:00-12:00 13:00-17:30, Sat 22:00-02:00'."""
    names, week = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], [()] * 7
    for part in filter(None, text.split(", ")):
        days, *ranges = part.split()
        first, _, last = days.partition("-")
        for day in range(names.index(first), names.index(last or first) + 1):
            week[day] = tuple(tuple(entry.split("-")) for entry in ranges)
    return tuple(week)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def make_hours(zone: str, *entries: tuple[str, str, str], closed=()) -> OpeningHours:
    stored = [HoursEntry(line, valid_from, make_week(text)) for line, valid_from, text in entries]
    return OpeningHours(ZoneInfo(zone), stored, closed)


OFFICE = make_hours("Europe/London", ("", "", "Mon-Fri 09:00-17:30"))
LUNCH = make_hours("Europe/London", ("", "", "Mon-Fri 09:00-12:00 13:00-17:30"))
BAR = make_hours("Europe/London", ("", "", "Sat 22:00-02:00, Sun 01:30-05:00"))
NIGHT = make_hours("Europe/London", ("", "", "Sat 22:00-01:30"))
ROUND = make_hours("Europe/London", ("", "", "Sat 00:00-00:00, Sun 00:00-00:00"))
PAULISTA = make_hours("America/Sao_Paulo", ("", "", "Sat 18:00-00:00, Sun 00:00-12:00"))
EVENING = make_hours("America/Sao_Paulo", ("", "", "Sat 18:00-00:00"))
EASTER = make_hours(
    "Europe/London", ("", "", "Mon-Fri 09:00-17:30, Thu 22:00-02:00"), closed=("2026-04-03", "2026-04-06")
)
CHANGED = make_hours(
    "Europe/London",
    ("", "", "Mon-Fri 09:00-17:30"),
    ("", "2026-04-01", "Mon-Fri 10:00-16:00"),
    (SALES, "2026-04-08", "Sat 10:00-14:00"),
    (SALES, "2026-04-15", "Mon-Fri 20:00-04:00"),
)


@pytest.mark.parametrize(
    ("hours", "line", "opens", "closes"),
    [
        (OFFICE, "", "2026-03-27 09:00:00", "2026-03-27 17:30:00"),
        (OFFICE, None, "2026-03-30 08:00:00", "2026-03-30 16:30:00"),
        (OFFICE, "+442079460009", "2026-10-23 08:00:00", "2026-10-23 16:30:00"),
        (OFFICE, "", "2026-10-26 09:00:00", "2026-10-26 17:30:00"),
        (LUNCH, "", "2026-03-30 12:00:00", "2026-03-30 16:30:00"),
        # The end of a range is skipped, repeated, and the time of the change.
        (NIGHT, "", "2026-03-28 22:00:00", "2026-03-29 01:00:00"),
        (NIGHT, "", "2026-10-24 21:00:00", "2026-10-25 00:30:00"),
        (BAR, "", "2026-03-28 22:00:00", "2026-03-29 04:00:00"),
        (BAR, "", "2026-10-24 21:00:00", "2026-10-25 05:00:00"),
        (ROUND, "", "2026-03-28 00:00:00", "2026-03-29 23:00:00"),
        (ROUND, "", "2026-10-23 23:00:00", "2026-10-26 00:00:00"),
        # Midnight is skipped, and comes an hour later.
        (PAULISTA, "", "2018-11-03 21:00:00", "2018-11-04 14:00:00"),
        (EVENING, "", "2018-11-03 21:00:00", "2018-11-04 03:00:00"),
        (EVENING, "", "2018-02-17 20:00:00", "2018-02-18 03:00:00"),
        # The night before a closed day ends on that day.
        (EASTER, "", "2026-04-02 21:00:00", "2026-04-03 01:00:00"),
        (CHANGED, "", "2026-03-31 08:00:00", "2026-03-31 16:30:00"),
        (CHANGED, "", "2026-04-01 09:00:00", "2026-04-01 15:00:00"),
        (CHANGED, SALES, "2026-04-07 09:00:00", "2026-04-07 15:00:00"),
        (CHANGED, SALES, "2026-04-11 09:00:00", "2026-04-11 13:00:00"),
        (CHANGED, SALES.removeprefix("+"), "2026-04-15 19:00:00", "2026-04-16 03:00:00"),
    ],
)
def test_a_line_is_open_from_its_first_to_before_its_last_second(hours, line, opens, closes):
    seconds = [(opens, -1, False), (opens, 0, True), (closes, -1, True), (closes, 0, False)]
    for text, offset, is_open in seconds:
        moment = datetime.fromtimestamp(at(text).timestamp() + offset, UTC)
        assert hours.is_open(line, moment) is is_open, (text, offset)
    assert hours.next_opening(line, datetime.fromtimestamp(at(opens).timestamp() - 1, UTC)) == at(opens)


@pytest.mark.parametrize(
    ("hours", "line", "start", "minutes", "end", "opening"),
    [
        (OFFICE, "", "2026-03-27 17:00:00", 60, "2026-03-30 08:30:00", None),
        (OFFICE, "", "2026-03-28 12:00:00", 30, "2026-03-30 08:30:00", "2026-03-30 08:00:00"),
        (OFFICE, "", "2026-03-30 08:00:00", 510, "2026-03-30 16:30:00", None),
        (OFFICE, "", "2026-10-23 17:00:00", 0, "2026-10-26 09:00:00", "2026-10-26 09:00:00"),
        (LUNCH, "", "2026-03-30 10:45:00", 30, "2026-03-30 12:15:00", None),
        (EASTER, "", "2026-04-03 12:00:00", 120, "2026-04-07 10:00:00", "2026-04-07 08:00:00"),
        (CHANGED, SALES, "2026-04-07 15:00:00", 300, "2026-04-15 20:00:00", "2026-04-11 09:00:00"),
        (make_hours("Europe/London"), "", "2026-03-28 23:30:00", 120, "2026-03-29 01:30:00", None),
    ],
)
def test_time_counts_while_open(hours, line, start, minutes, end, opening):
    assert hours.add_open_time(line, at(start), 60 * minutes) == at(end)
    assert hours.next_opening(line, at(start)) == (at(opening) if opening else None)


def test_a_line_that_never_opens_has_no_opening():
    hours = make_hours("Europe/London", (SALES, "2026-04-01", ""))
    assert hours.next_opening(SALES, at("2026-04-02 10:00:00")) is None
    assert hours.is_open(SALES, at("2026-03-31 22:59:59"))
    assert not hours.is_open(SALES, at("2026-04-01 12:00:00"))
    assert hours.is_open("", at("2026-04-01 12:00:00"))


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Mon-Fri 09:00-12:00 12:00-17:30", None),
        ("Mon 09:00-12:00 11:59-17:30", 0),
        ("Mon-Sun 20:00-04:00", None),
        ("Fri 20:00-04:00, Sat 03:59-05:00", 5),
        ("Sun 20:00-04:00, Mon 03:59-05:00", 0),
        ("Mon-Sun 00:00-00:00", None),
        ("Tue 00:00-00:00 09:00-10:00", 1),
        ("", None),
    ],
)
def test_overlaps_are_found_also_past_midnight(text, day):
    assert find_overlap(make_week(text)) == day
