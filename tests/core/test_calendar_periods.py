"""Days, weeks and months of schedules in local time."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.core.calendar_periods import (
    FREQUENCIES,
    find_days_before,
    find_days_last_year,
    find_period,
    find_range_days,
    iter_ended,
)
from tests.support.examples import example_count

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = (
    "UTC", "Europe/London", "Europe/Berlin", "America/New_York", "America/Havana", "America/Santiago",
    "Africa/Cairo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham",
)  # fmt: skip


def test_skipped_local_time_is_due_after_the_change_of_clocks() -> None:
    """On 29 March 2026 Berlin has no 2:30."""
    due = find_period("day", date(2026, 3, 28)).due_at(time(2, 30), BERLIN)
    assert due == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert due.astimezone(BERLIN).hour == 3


def test_repeated_local_time_is_due_at_its_first_occurrence() -> None:
    """On 25 October 2026 Berlin has 2:30 twice."""
    assert find_period("day", date(2026, 10, 24)).due_at(time(2, 30), BERLIN) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )


def test_local_day_has_23_24_or_25_hours() -> None:
    for day, hours in ((date(2026, 3, 29), 23), (date(2026, 7, 1), 24), (date(2026, 10, 25), 25)):
        since, until = find_period("day", day).bounds(BERLIN)
        assert until - since == timedelta(hours=hours)
    # In Cairo clocks change from midnight to one o'clock: the day begins at one.
    since, _ = find_period("day", date(2026, 4, 24)).bounds(ZoneInfo("Africa/Cairo"))
    assert since == datetime(2026, 4, 23, 22, tzinfo=UTC)


def test_periods_have_keys_and_labels() -> None:
    assert find_period("day", date(2026, 11, 19)).key == "2026-11-19"
    assert find_period("day", date(2026, 11, 19)).label == "19 November 2026"
    week = find_period("week", date(2027, 1, 2))
    assert (week.key, week.first_day, week.end_day) == ("2026-W53", date(2026, 12, 28), date(2027, 1, 4))
    assert week.label == "28 December 2026 – 3 January 2027"
    month = find_period("month", date(2026, 12, 31))
    assert (month.key, month.first_day, month.end_day) == ("2026-12", date(2026, 12, 1), date(2027, 1, 1))
    assert month.label == "December 2026"


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("today", "2026-11-20", "2026-11-20"),
        ("yesterday", "2026-11-19", "2026-11-19"),
        ("this-week", "2026-11-16", "2026-11-22"),
        ("last-week", "2026-11-09", "2026-11-15"),
        ("this-month", "2026-11-01", "2026-11-30"),
        ("last-month", "2026-10-01", "2026-10-31"),
        ("week", "2026-11-14", "2026-11-20"),
        ("month", "2026-10-22", "2026-11-20"),
    ],
)
def test_a_named_range_has_these_days_on_friday_20_november(name, first, last) -> None:
    assert find_range_days(name, date(2026, 11, 20)) == (date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    ("days", "days_before"),
    [
        (("2026-11-20", "2026-11-20"), ("2026-11-13", "2026-11-13")),  # the same weekday
        (("2026-11-16", "2026-11-22"), ("2026-11-09", "2026-11-15")),  # a week
        (("2026-11-16", "2026-11-18"), ("2026-11-09", "2026-11-11")),  # Monday to Wednesday
        (("2026-10-01", "2026-10-31"), ("2026-09-01", "2026-09-30")),  # a month
        (("2026-11-01", "2026-11-20"), ("2026-10-01", "2026-10-20")),  # the beginning of a month
        (("2026-03-01", "2026-03-30"), ("2026-02-01", "2026-02-28")),  # longer than the month before
        (("2026-11-14", "2026-11-20"), ("2026-11-07", "2026-11-13")),  # seven days
        (("2026-10-10", "2026-11-05"), ("2026-09-13", "2026-10-09")),  # other days
    ],
)
def test_days_are_compared_with_those_of_the_calendar_or_as_many_before(days, days_before) -> None:
    found = find_days_before(*(date.fromisoformat(day) for day in days))
    assert tuple(str(day) for day in found) == days_before


@pytest.mark.parametrize(
    ("days", "days_before"),
    [
        (("2026-11-20", "2026-11-20"), ("2025-11-21", "2025-11-21")),  # the same weekday
        (("2026-11-16", "2026-11-22"), ("2025-11-17", "2025-11-23")),  # a week
        (("2026-10-01", "2026-10-31"), ("2025-10-01", "2025-10-31")),  # a month
        (("2026-11-01", "2026-11-20"), ("2025-11-01", "2025-11-20")),  # the beginning of a month
        (("2029-02-01", "2029-02-28"), ("2028-02-01", "2028-02-29")),
        (("2028-02-01", "2028-02-29"), ("2027-02-01", "2027-02-28")),
        (("2028-02-29", "2028-03-30"), ("2027-02-28", "2027-03-30")),
        (("2026-01-01", "2026-12-31"), ("2025-01-01", "2025-12-31")),  # a year
    ],
)
def test_the_same_period_last_year_has_its_weekdays_or_its_dates(days, days_before) -> None:
    found = find_days_last_year(*(date.fromisoformat(day) for day in days))
    assert tuple(str(day) for day in found) == days_before


@example_count(40, exhaustive=150)
@given(
    st.sampled_from(FREQUENCIES),
    st.sampled_from(ZONES),
    # A schedule stores HH:MM: it cannot name the second of two equal times.
    st.times().map(lambda at: at.replace(second=0, microsecond=0, fold=0)),
    st.datetimes(datetime(2005, 1, 1), datetime(2035, 1, 1)),
)
def test_periods_are_adjacent_and_due_in_order(every, zone, at, naive) -> None:  # type: ignore[no-untyped-def]
    where, now = ZoneInfo(zone), naive.replace(tzinfo=UTC)
    found = list(islice(iter_ended(every, at, where, now), 40))
    assert found[0].due_at(at, where) <= now < find_period(every, found[0].end_day).due_at(at, where)
    for later, earlier in pairwise(found):
        assert earlier.bounds(where)[1] == later.bounds(where)[0]
        assert earlier.key < later.key
        # Equal where a zone leaves out a whole day (Samoa, 30 December 2011).
        assert earlier.due_at(at, where) <= later.due_at(at, where)
        # No period is due before its end.
        assert earlier.bounds(where)[1] <= earlier.due_at(at, where)
