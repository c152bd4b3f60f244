"""Named queries of Reports: sums over `_calls` of a span of time, by person, number, group, country, hour.

A call belongs to the span in which it began. Internal calls are kept apart from customers' (docs/calls.md)
and counted nowhere here. Each sum has its twin among the filters of `history.CallFilter`: what is counted can
be listed. Days and hours are those of a zone, whose changes of the clock need no table: calls are summed by
whole hours of UTC (quarters, where the zone's offset has a fraction), and each falls into one local hour.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import phonenumbers

from integration.core import clock

_SUMS = """count(*), sum(direction = 'in'), sum(direction = 'out'),
 coalesce(sum(direction = 'in' AND outcome = 'answered'), 0), coalesce(sum(outcome = 'missed'), 0),
 coalesce(sum(outcome = 'voicemail'), 0), coalesce(sum(outcome = 'abandoned'), 0),
 coalesce(sum(direction = 'in' AND outcome = 'answered' AND wait_seconds <= :level), 0),
 coalesce(sum(direction = 'in' AND outcome = 'answered' AND wait_seconds IS NOT NULL), 0),
 coalesce(sum(CASE WHEN direction = 'in' AND outcome = 'answered' THEN wait_seconds END), 0),
 coalesce(sum(outcome = 'answered'), 0), coalesce(sum(outcome = 'answered' AND talk_seconds IS NOT NULL), 0),
 coalesce(sum(CASE WHEN outcome = 'answered' THEN talk_seconds END), 0),
 coalesce(sum(charge > 0), 0), coalesce(sum(CASE WHEN charge > 0 THEN charge END), 0.0)"""

_FROM = """ FROM _calls INDEXED BY _calls_report
 WHERE started_at >= :since AND started_at < :until AND direction <> 'internal'"""
GROUP_KEY = "group_kind || ':' || coalesce(group_id, group_name)"
"""What names a ring group, queue or IVR in a link; NULL for calls that came to none."""


@dataclass(slots=True)
class Figures:
    """Counts of calls; `wait`, `talk` in seconds; `charge` in the account's currency.

    `in_time` of `answered` waited no longer than the level asked for; `timed` of them have a known wait.
    `talks` are answered calls of both directions, `talked` of them have a known duration.
    """

    calls: int = 0
    inbound: int = 0
    outbound: int = 0
    answered: int = 0
    missed: int = 0
    voicemail: int = 0
    abandoned: int = 0
    in_time: int = 0
    timed: int = 0
    wait: int = 0
    talks: int = 0
    talked: int = 0
    talk: int = 0
    charged: int = 0
    charge: float = 0.0

    def add(self, other: Figures) -> None:
        for name in FIGURES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def unanswered(self) -> int:
        """Not answered by a person: missed, or left to voicemail."""
        return self.missed + self.voicemail

    @property
    def in_progress(self) -> int:
        """Came in, and nobody knows yet how it ends."""
        return self.inbound - self.answered - self.unanswered - self.abandoned

    @property
    def offered(self) -> int:
        """What the service level is a share of: early hang-ups give nobody a chance."""
        return self.answered + self.unanswered

    @property
    def service_level(self) -> float | None:
        """0–100; None where there is nothing to answer."""
        return 100 * self.in_time / self.offered if self.offered else None

    @property
    def average_wait(self) -> float | None:
        return self.wait / self.timed if self.timed else None

    @property
    def average_talk(self) -> float | None:
        return self.talk / self.talked if self.talked else None


FIGURES = tuple(one.name for one in fields(Figures))


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` up to, not including, `until`: UTC text. `level`: the service level's wait in seconds."""

    since: str
    until: str
    level: int

    def get_parameters(self) -> dict[str, str | int]:
        return {"since": self.since, "until": self.until, "level": self.level}


SHARE_KINDS = ("person", "line", "group", "country")


@dataclass(slots=True)
class Share:
    """The figures of one person, number, group or country. `key` is what `/calls` filters by."""

    key: str
    name: str
    figures: Figures


@dataclass(slots=True)
class ReportSums:
    """All that a report tells of a range: by day of the zone, by hour of the day (0 to 23), calls that came
    in by (weekday, hour), Monday being 0, and by key for each of SHARE_KINDS. Sums of parts add up to those
    of the whole. Names are what the calls say; `rank_shares` knows better. `hours` are kept for single days
    only."""

    days: dict[date, Figures] = field(default_factory=dict)
    hours: dict[int, Figures] = field(default_factory=dict)
    week: Counter[tuple[int, int]] = field(default_factory=Counter)
    shares: dict[str, dict[str, Share]] = field(default_factory=lambda: {kind: {} for kind in SHARE_KINDS})

    def add_hour(self, hour_start: datetime, figures: Figures) -> None:
        """`figures` of calls that began in the hour of `hour_start`, a time of the zone."""
        self.days.setdefault(hour_start.date(), Figures()).add(figures)
        self.hours.setdefault(hour_start.hour, Figures()).add(figures)
        self.week[hour_start.weekday(), hour_start.hour] += figures.inbound

    def add_share(self, kind: str, key: str, name: str, figures: Figures) -> None:
        share = self.shares[kind].setdefault(key, Share(key, name, Figures()))
        share.name = max(share.name, name)
        share.figures.add(figures)

    def add(self, other: ReportSums) -> None:
        for day, figures in other.days.items():
            self.days.setdefault(day, Figures()).add(figures)
        for hour, figures in other.hours.items():
            self.hours.setdefault(hour, Figures()).add(figures)
        self.week.update(other.week)
        for kind, shares in other.shares.items():
            for share in shares.values():
                self.add_share(kind, share.key, share.name, share.figures)

    @property
    def total(self) -> Figures:
        total = Figures()
        for figures in self.days.values():
            total.add(figures)
        return total


def compute_totals(connection: sqlite3.Connection, span: Span) -> Figures:
    row = connection.execute(f"SELECT {_SUMS} {_FROM}", span.get_parameters()).fetchone()
    return _make_figures(row)


def compute_sums(connection: sqlite3.Connection, span: Span, zone: ZoneInfo) -> ReportSums:
    """The sums of a span of whole days of the zone, read from the calls themselves."""
    sums = ReportSums()
    for hour_start, figures in sum_by_hour(connection, span, zone):
        sums.add_hour(hour_start, figures)
    for kind, rows in (
        ("person", _sum_by_user(connection, span)),
        ("line", _sum_by_number(connection, span)),
        ("group", _sum_by_group(connection, span)),
        ("country", _sum_by_country(connection, span)),
    ):
        for key, name, figures in rows:
            sums.add_share(kind, key, name, figures)
    return sums


def rank_shares(connection: sqlite3.Connection, sums: ReportSums, kind: str) -> list[Share]:
    """Most calls first, with names for people."""
    shares = [
        Share(
            entry.key,
            _find_user_name(connection, entry.key) if kind == "person" else entry.name or entry.key,
            entry.figures,
        )
        for entry in sums.shares[kind].values()
    ]
    return sorted(shares, key=lambda share: (-share.figures.calls, share.name, share.key))


_KeyedFigures = Iterator[tuple[str, str, Figures]]
"""Key, name, figures; a key may come more than once."""


def _sum_by_user(connection: sqlite3.Connection, span: Span) -> _KeyedFigures:
    """Who answered, or placed the call; a missed call rang at somebody's, but is not theirs."""
    rows = connection.execute(
        f"SELECT user_id, {_SUMS} {_FROM} AND user_id IS NOT NULL AND outcome = 'answered' GROUP BY user_id",
        span.get_parameters(),
    )
    return ((str(row[0]), "", _make_figures(row[1:])) for row in rows)


def _sum_by_number(connection: sqlite3.Connection, span: Span) -> _KeyedFigures:
    """By the number of ours that was dialled."""
    rows = connection.execute(
        f"SELECT coalesce(our_e164, our_number), {_SUMS} {_FROM} AND direction = 'in' GROUP BY 1",
        span.get_parameters(),
    )
    return ((row[0], "", _make_figures(row[1:])) for row in rows if row[0])


def _sum_by_group(connection: sqlite3.Connection, span: Span) -> _KeyedFigures:
    """By the ring group, queue or IVR that took the call."""
    rows = connection.execute(
        f"SELECT {GROUP_KEY}, max(group_name), {_SUMS} {_FROM} AND direction = 'in'"
        " AND group_kind IS NOT NULL GROUP BY 1",
        span.get_parameters(),
    )
    return ((row[0], row[1] or "", _make_figures(row[2:])) for row in rows if row[0])


def _sum_by_country(connection: sqlite3.Connection, span: Span) -> _KeyedFigures:
    """By the calling code of the outside number: +1 is one country here, as it is one code."""
    rows = connection.execute(
        f"SELECT substr(party_e164, 2, 3), {_SUMS} {_FROM} GROUP BY 1", span.get_parameters()
    )
    for row in rows:
        code = find_calling_code(row[0])
        if code:
            yield code, format_country_name(code), _make_figures(row[1:])


def sum_by_hour(connection: sqlite3.Connection, span: Span, zone: ZoneInfo) -> list[tuple[datetime, Figures]]:
    """Figures of every hour that has any, each with its beginning in the zone. Sums of an hour that the clock
    shows twice come twice."""
    prefix_length = 13 if _has_whole_hour_offsets(span, zone) else 16
    minutes = "" if prefix_length == 13 else ", cast(substr(started_at, 15, 2) AS INTEGER) / 15"
    rows = connection.execute(
        f"SELECT substr(started_at, 1, 13){minutes}, {_SUMS} {_FROM} GROUP BY 1{', 2' if minutes else ''}",
        span.get_parameters(),
    )
    hours = []
    for row in rows:
        hour_start = datetime.fromisoformat(f"{row[0]}:00:00").replace(tzinfo=UTC)
        if minutes:
            hour_start += timedelta(minutes=15 * row[1])
        hours.append((hour_start.astimezone(zone), _make_figures(row[2 if minutes else 1 :])))
    return hours


def find_first_day(connection: sqlite3.Connection, zone: ZoneInfo) -> date | None:
    """The day of the oldest call; None where there are none."""
    row = connection.execute("SELECT min(started_at) FROM _calls").fetchone()
    started_at = clock.parse_utc(row[0]) if row[0] else None
    return None if started_at is None else started_at.astimezone(zone).date()


def get_currency(connection: sqlite3.Connection) -> str:
    """What charges are in: the ISO code of the account's currency, '' while nobody knows."""
    row = connection.execute("SELECT currency_iso FROM me LIMIT 1").fetchone()
    return str(row[0] or "") if row else ""


@cache
def find_calling_code(digits: str | None) -> str | None:
    """'44' of the first digits of '+442079460001'."""
    for length in (1, 2, 3):
        if digits and int(digits[:length] or 0) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE:
            return digits[:length]
    return None


@cache
def format_country_name(code: str | None) -> str:
    """'GB +44'. The names of phonenumbers come with 40 MB of places, for which a report is not worth it."""
    regions = phonenumbers.COUNTRY_CODE_TO_REGION_CODE.get(int(code or 0), ("001",))
    name = {"US": "North America", "001": ""}.get(regions[0], regions[0])
    return f"{name} +{code}".strip()


def _make_figures(row: Iterable[float | None]) -> Figures:
    return Figures(*(value or 0 for value in row))  # type: ignore[arg-type]


def _find_user_name(connection: sqlite3.Connection, user_id: str) -> str:
    row = connection.execute(
        "SELECT user_name FROM _calls WHERE user_id = ? ORDER BY started_at DESC LIMIT 1", (int(user_id),)
    ).fetchone()
    return (row and row[0]) or f"User {user_id}"


def _has_whole_hour_offsets(span: Span, zone: ZoneInfo) -> bool:
    """Whether the zone is whole hours from UTC all through the span, and changes on the hour."""
    begin, end = (clock.parse_utc(text) for text in (span.since, span.until))
    assert begin is not None
    assert end is not None
    step = max(timedelta(days=1), (end - begin) / 400)
    moment = begin
    while moment < end + step:
        offset = moment.astimezone(zone).utcoffset() or timedelta()
        if offset % timedelta(hours=1):
            return False
        moment += step
    return True
