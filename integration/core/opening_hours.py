"""Opening hours of the account's lines, in the display zone.

A local time that occurs twice means its first occurrence. One that the clock skips means the time of the
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from integration.core import clock

Ranges = tuple[tuple[str, str], ...]
"""Ranges of a day, in order: (start, end), both 'HH:MM'.

A range whose end is not after its start ends on the next day.
"""
ALL_DAY: Ranges = (("00:00", "00:00"),)
ALL_LINES = ""
SEARCH_DAYS = 400
"""Days after which a search for open time ends: it never opens."""


@dataclass(frozen=True, slots=True, order=True)
class HoursEntry:
    """Hours of a week, from a local day until the next entry of the line.

    `line`: number in E.164, or ALL_LINES. `valid_from`: 'YYYY-MM-DD', or '' for always. `week`: ranges of the
    seven days, Monday first.
    """

    line: str
    valid_from: str
    week: tuple[Ranges, ...]


class OpeningHours:
    """When the lines are open. Immutable.

    On `closed_days` ('YYYY-MM-DD') no range begins; that of the day before continues past midnight. A line
    without an entry has the entries for all lines. Without any entry it is open on all days but the closed
    ones.
    """

    def __init__(
        self,
        zone: ZoneInfo | None = None,
        entries: Iterable[HoursEntry] = (),
        closed_days: Iterable[str] = (),
    ) -> None:
        self.zone = zone or ZoneInfo("UTC")
        self.entries: Sequence[HoursEntry] = tuple(sorted(entries))
        self.closed_days = frozenset(closed_days)
        self._weeks: dict[str, list[HoursEntry]] = {}
        for entry in self.entries:
            self._weeks.setdefault(_make_key(entry.line), []).insert(0, entry)
        self._spans: dict[tuple[str, date], list[tuple[str, str]]] = {}
        self._utc_days: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self._days_by_line: dict[str | None, dict[str, list[tuple[str, str]]]] = {}

    def __str__(self) -> str:
        """Return all that decides when a line is open."""
        return str((self.entries, sorted(self.closed_days)))

    def is_open(self, line: str | None, moment: datetime) -> bool:
        """Return whether a line (E.164, or ALL_LINES) is open.

        Without opening hours every line is always open.
        """
        return self.is_open_at(line, clock.utc_text(moment))

    def is_open_at(self, line: str | None, utc_text: str | None) -> bool:
        """Return whether a line is open at a time, UTC text.

        A call without a valid time is one while open.
        """
        if not utc_text:
            return True
        # A report of a million calls calls this function millions of times.
        days = self._days_by_line.get(line)
        if days is None:
            days = self._days_by_line[line] = self._utc_days.setdefault(self._find_key(line), {})
        day = utc_text[:10]
        spans = days.get(day)
        if spans is None:
            spans = days[day] = self._list_utc_day(self._find_key(line), day)
        for begin, end in spans:  # noqa: SIM110 – a generator takes twice as long
            if begin <= utc_text < end:
                return True
        return False

    @property
    def is_entered(self) -> bool:
        """False if all lines are always open."""
        return bool(self.entries or self.closed_days)

    def has_hours(self, line: str | None) -> bool:
        """Return whether a line can be closed at any time."""
        return bool(self.closed_days or self._find_key(line) in self._weeks)

    def opens_on(self, day: date) -> bool:
        """Return whether a range of any line begins on a local day."""
        return any(self._list_ranges(key, day) for key in (ALL_LINES, *self._weeks))

    def next_opening(self, line: str | None, moment: datetime) -> datetime | None:
        """Return when a closed line opens. None: it is open at `moment`, or it never opens."""
        if self.is_open(line, moment):
            return None
        return next((begin for begin, _ in self._iterate_spans(line, moment) if begin > moment), None)

    def find_open_since(self, line: str | None, moment: datetime) -> datetime | None:
        """Return the start of the range in which `moment` is. None: always open, or closed at `moment`."""
        if not self.has_hours(line):
            return None
        found = None
        for begin, end in self._iterate_spans(line, moment):
            if begin > moment:
                break
            if moment < end:
                found = found or begin
        return found

    def add_open_time(self, line: str | None, start: datetime, seconds: float) -> datetime:
        """Return the end of so many `seconds` while open, counted from `start`."""
        rest, position = timedelta(seconds=seconds), start
        if not self.has_hours(line):
            return start + rest
        for begin, end in self._iterate_spans(line, start):
            begin = max(begin, position)
            if begin >= end:
                continue
            if begin + rest <= end:
                return begin + rest
            rest -= end - begin
            position = end
        return position

    def count_open_seconds(self, line: str | None, start: datetime, end: datetime) -> float:
        """Return the seconds from `start` to `end` while a line was open."""
        if not self.has_hours(line):
            return max(0.0, (end - start).total_seconds())
        seconds, position = 0.0, start
        for begin, close in self._iterate_spans(line, start):
            if begin >= end:
                break
            begin, close = max(begin, position), min(close, end)
            if begin < close:
                seconds += (close - begin).total_seconds()
                position = close
        return seconds

    def _find_key(self, line: str | None) -> str:
        key = _make_key(line or ALL_LINES)
        return key if key in self._weeks else ALL_LINES

    def _iterate_spans(self, line: str | None, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the ranges from two days before `moment`, in order of their starts (UTC)."""
        key, today = self._find_key(line), moment.astimezone(self.zone).date()
        for day in clock.iterate_days(today - timedelta(days=2), today + timedelta(days=SEARCH_DAYS)):
            for begin, end in self._list_spans(key, day):
                yield _parse(begin), _parse(end)

    def _list_utc_day(self, key: str, day_text: str) -> list[tuple[str, str]]:
        """Return the ranges that can contain a time of a UTC day, such as '2026-03-29'."""
        try:
            day = date.fromisoformat(day_text)
            days = clock.iterate_days(day - timedelta(days=2), day + timedelta(days=1))
            return [span for local_day in days for span in self._list_spans(key, local_day)]
        except (ValueError, OverflowError):
            return [("", "~")]

    def _list_spans(self, key: str, day: date) -> list[tuple[str, str]]:
        """Return the ranges that begin on a local day, as UTC text."""
        spans = self._spans.get((key, day))
        if spans is None:
            spans = self._spans[key, day] = [
                (
                    self._find_moment(day, begin),
                    self._find_moment(day if begin < end else day + timedelta(days=1), end),
                )
                for begin, end in self._list_ranges(key, day)
            ]
        return spans

    def _list_ranges(self, key: str, day: date) -> Ranges:
        day_text = str(day)
        if day_text in self.closed_days:
            return ()
        for entry in (*self._weeks.get(key, ()), *self._weeks.get(ALL_LINES, ())):
            if entry.valid_from <= day_text:
                ranges: Ranges = entry.week[day.weekday()]
                return ranges
        return ALL_DAY

    def _find_moment(self, day: date, time_text: str) -> str:
        local = datetime.combine(day, time.fromisoformat(time_text), self.zone)
        moment = local.astimezone(UTC)
        if moment.astimezone(self.zone).replace(tzinfo=None) != local.replace(tzinfo=None):
            # The clock skips this time. `moment` is in the offset before the change, so after the change.
            offset = moment.astimezone(self.zone).utcoffset()
            while (earlier := moment - timedelta(minutes=1)).astimezone(self.zone).utcoffset() == offset:
                moment = earlier
        return clock.utc_text(moment)


def _make_key(line: str) -> str:
    """Return a number without its plus: the platform sends some without."""
    return line.removeprefix("+")


def _parse(utc_text: str) -> datetime:
    return datetime.fromisoformat(utc_text).replace(tzinfo=UTC)


def find_overlap(week: Sequence[Ranges]) -> int | None:
    """Return the day (0 is Monday) on which the second of two overlapping ranges begins, None without any."""
    spans = sorted(
        (24 * 60 * day + _to_minutes(begin), 24 * 60 * (day + (end <= begin)) + _to_minutes(end))
        for day, ranges in enumerate(week)
        for begin, end in ranges
    )
    if not spans:
        return None
    following = [*spans[1:], (spans[0][0] + 7 * 24 * 60, 0)]
    for (_, end), (begin, _) in zip(spans, following, strict=True):
        if begin < end:
            return begin // (24 * 60) % 7
    return None


def _to_minutes(time_text: str) -> int:
    return 60 * int(time_text[:2]) + int(time_text[3:])
