"""Sums of calls for reports: by user, number, group, country and hour.

A call belongs to the span in which it started. Internal calls are excluded (docs/calls.md#times). Every sum
has an equivalent filter of `history.CallFilter`, so pages can list the counted calls. Days and hours are
those of a time zone. Calls are summed by hours of UTC, or by quarters of an hour if the zone's offset is not
in full hours. Each quarter or hour belongs to exactly one local hour, so changes of the clock need no table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.core.phone_numbers import find_calling_code, format_country_name
from integration.mirror.page_queries import history
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.page_queries.missed_calls import (
    GROUP_KEY,
    IS_OPEN,
    CountingRules,
    find_user_name,
    list_offsets,
)

FIRST_DAY, END_DAY = date(1970, 1, 1), date(9000, 1, 1)
"""First day of reports, and the day after the last. Other starts are no times of calls, such as year 1."""

_SUMS = """count(*), sum(direction = 'in'), sum(direction = 'out'),
 coalesce(sum(direction = 'in' AND outcome = 'answered'), 0), coalesce(sum(outcome = 'missed'), 0),
 coalesce(sum(outcome = 'voicemail'), 0), coalesce(sum(outcome = 'abandoned'), 0),
 coalesce(sum(direction = 'in' AND outcome = 'answered' AND wait_seconds <= :level), 0),
 coalesce(sum(direction = 'in' AND outcome = 'answered' AND wait_seconds IS NOT NULL), 0),
 coalesce(sum(CASE WHEN direction = 'in' AND outcome = 'answered' THEN wait_seconds END), 0),
 coalesce(sum(outcome = 'answered'), 0), coalesce(sum(outcome = 'answered' AND talk_seconds IS NOT NULL), 0),
 coalesce(sum(CASE WHEN outcome = 'answered' THEN talk_seconds END), 0),
 coalesce(sum(charge > 0), 0), coalesce(sum(CASE WHEN charge > 0 THEN charge END), 0.0)"""

_IN_SPAN = "started_at >= :since AND started_at < :until"
_FROM = f" FROM _calls AS c INDEXED BY _calls_report WHERE {_IN_SPAN} AND direction <> 'internal'"


@dataclass(slots=True)
class Figures:
    """Numbers of calls, and sums of seconds and charges.

    - `answered`: answered inbound calls. `in_time`: those within the service level. `timed`: those with a
      known wait. `wait`: the sum of their waits in seconds.
    - `talks`: answered calls of both directions. `talked`: those with a known duration. `talk`: the sum of
      their durations in seconds.
    - `charged`: calls with a charge above 0. `charge`: their sum in the account's currency.
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
        """Add all numbers of `other`."""
        for name in FIGURES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def subtract(self, other: Figures) -> None:
        """Subtract all numbers of `other`."""
        for name in FIGURES:
            setattr(self, name, getattr(self, name) - getattr(other, name))

    @property
    def unanswered(self) -> int:
        """Number of missed calls and calls with voicemail."""
        return self.missed + self.voicemail

    @property
    def in_progress(self) -> int:
        """Number of inbound calls without an outcome."""
        return self.inbound - self.answered - self.unanswered - self.abandoned

    @property
    def offered(self) -> int:
        """Number of calls that the service level refers to.

        Abandoned calls are excluded, because they end before a user can answer.
        """
        return self.answered + self.unanswered

    @property
    def service_level(self) -> float | None:
        """Percentage of offered calls answered in time, 0 to 100, or None."""
        return 100 * self.in_time / self.offered if self.offered else None

    @property
    def average_wait(self) -> float | None:
        """Average wait of answered inbound calls in seconds; None without calls."""
        return self.wait / self.timed if self.timed else None

    @property
    def average_talk(self) -> float | None:
        """Average duration of answered calls in seconds; None without calls."""
        return self.talk / self.talked if self.talked else None


FIGURES = tuple(field_.name for field_ in fields(Figures))
"""Field names of `Figures`, in the order of the columns of `_SUMS`."""


@dataclass(frozen=True, slots=True)
class Span:
    """Time from `since` until before `until`, both UTC text.

    `level` is the wait of the service level in seconds. `open_only` excludes calls outside opening hours.
    """

    since: str
    until: str
    level: int
    open_only: bool = False

    @property
    def source(self) -> str:
        """SQL of the calls of the span."""
        return f"{_FROM} AND {IS_OPEN}" if self.open_only else _FROM

    def get_parameters(self) -> dict[str, str | int]:
        """Return the named values of `_SUMS` and `source`."""
        return {"since": self.since, "until": self.until, "level": self.level}


_SHARE_SQL = {
    "person": ("user_id", "''", "outcome = 'answered'"),
    "line": ("coalesce(our_e164, our_number)", "''", "direction = 'in'"),
    "group": (GROUP_KEY, "max(group_name)", "direction = 'in' AND group_kind IS NOT NULL"),
    "country": ("substr(party_e164, 2, 3)", "''", "true"),
}
"""SQL of key, name and condition of each kind of share.

'person' is the platform user who answered or placed the call: a missed call counts for no user, although a
user's phone rang. 'line' is the DDI that was dialled, 'group' a ring group, queue or IVR. 'country' is the
calling code of the outside party, found by the first digits; all countries with +1 are one key.
"""
SHARE_KINDS = tuple(_SHARE_SQL)


@dataclass(slots=True)
class Share:
    """Figures of one user, number, group or country.

    `key` is the filter value of `/calls`.
    """

    key: str
    name: str
    figures: Figures


@dataclass(slots=True)
class ReportSums:
    """Sums of a range of days.

    - `days`: by day of the zone.
    - `hours`: by hour of the day (0 to 23). Complete only if the range is a single day.
    - `week`: by (weekday, hour); Monday is 0.
    - `shares`: by kind of SHARE_KINDS, then by key. Names come from the calls; `rank_shares` replaces the
      names of users.

    Sums of parts of a range add up to the sums of the range.
    """

    days: dict[date, Figures] = field(default_factory=dict)
    hours: dict[int, Figures] = field(default_factory=dict)
    week: dict[tuple[int, int], Figures] = field(default_factory=dict)
    shares: dict[str, dict[str, Share]] = field(default_factory=lambda: {kind: {} for kind in SHARE_KINDS})

    def add_hour(self, hour_start: datetime, figures: Figures) -> None:
        """Add the figures of one hour; `hour_start` is local time."""
        self.days.setdefault(hour_start.date(), Figures()).add(figures)
        self.hours.setdefault(hour_start.hour, Figures()).add(figures)
        self.week.setdefault((hour_start.weekday(), hour_start.hour), Figures()).add(figures)

    def add_share(self, kind: str, key: str, name: str, figures: Figures) -> None:
        """Add figures to the share with `key`.

        Of several names, the last in text order is used.
        """
        share = self.shares[kind].setdefault(key, Share(key, name, Figures()))
        share.name = max(share.name, name)
        share.figures.add(figures)

    def add(self, other: ReportSums) -> None:
        """Add the sums of another range."""
        for day, figures in other.days.items():
            self.days.setdefault(day, Figures()).add(figures)
        for hour, figures in other.hours.items():
            self.hours.setdefault(hour, Figures()).add(figures)
        for key, figures in other.week.items():
            self.week.setdefault(key, Figures()).add(figures)
        for kind, shares in other.shares.items():
            for share in shares.values():
                self.add_share(kind, share.key, share.name, share.figures)

    @property
    def total(self) -> Figures:
        """Figures of all days."""
        total = Figures()
        for figures in self.days.values():
            total.add(figures)
        return total


def compute_share_total(totals: Figures, kind: str) -> Figures:
    """Return the part of `totals` that the shares of `kind` divide.

    Users share answered calls, numbers and groups inbound calls, countries all calls. Of inbound calls alone
    talk and charge are not known, so these are 0.
    """
    if kind == "person":
        return replace(
            totals, calls=totals.talks, inbound=totals.answered, outbound=totals.talks - totals.answered
        )
    if kind == "country":
        return replace(totals)
    return replace(totals, calls=totals.inbound, outbound=0, talks=0, talked=0, talk=0, charged=0, charge=0.0)


def compute_rest(total: Figures, shares: Iterable[Share]) -> Figures:
    """Return the figures of the calls that belong to no share."""
    rest = replace(total)
    for share in shares:
        rest.subtract(share.figures)
    return rest


def compute_totals(connection: sqlite3.Connection, span: Span) -> Figures:
    """Return the figures of a span, computed from the calls."""
    row = connection.execute(f"SELECT {_SUMS} {span.source}", span.get_parameters()).fetchone()
    return _make_figures(row)


def compute_sums(
    connection: sqlite3.Connection, span: Span, zone: ZoneInfo, *, with_shares: bool = True
) -> ReportSums:
    """Return the sums of a span, computed from the calls."""
    sums = ReportSums()
    for hour_start, figures in sum_by_hour(connection, span, zone):
        sums.add_hour(hour_start, figures)
    if not with_shares:
        return sums
    for kind, (key_sql, name_sql, condition) in _SHARE_SQL.items():
        rows = connection.execute(
            f"SELECT {key_sql}, {name_sql}, {_SUMS} {span.source} AND {condition} GROUP BY 1",
            span.get_parameters(),
        )
        for key, name, *figures in rows:
            if kind == "country":
                key = find_calling_code(key)
                name = format_country_name(key) if key else ""
            if key:
                sums.add_share(kind, str(key), name or "", _make_figures(figures))
    return sums


def rank_shares(connection: sqlite3.Connection, sums: ReportSums, kind: str) -> list[Share]:
    """Return the shares of one kind with names, most calls first."""
    shares = [
        Share(
            entry.key,
            find_user_name(connection, entry.key) if kind == "person" else entry.name or entry.key,
            entry.figures,
        )
        for entry in sums.shares[kind].values()
    ]
    return sorted(shares, key=lambda share: (-share.figures.calls, share.name, share.key))


def sum_by_hour(connection: sqlite3.Connection, span: Span, zone: ZoneInfo) -> list[tuple[datetime, Figures]]:
    """Return (local start, figures) of every hour with calls.

    An hour that occurs twice in local time, because the clock is set back, is returned twice. Quarters of an
    hour are returned separately if the offset of the zone is not in full hours.
    """
    offsets = list_offsets(zone, span.since, span.until)
    has_full_hours = all(seconds % 3600 == 0 for _, seconds in offsets)
    minutes = "" if has_full_hours else ", cast(substr(started_at, 15, 2) AS INTEGER) / 15"
    rows = connection.execute(
        f"SELECT substr(started_at, 1, 13){minutes}, {_SUMS} {span.source}"
        f" GROUP BY 1{', 2' if minutes else ''}",
        span.get_parameters(),
    )
    hours = []
    for row in rows:
        hour_start = datetime.fromisoformat(f"{row[0]}:00:00").replace(tzinfo=UTC)
        if minutes:
            hour_start += timedelta(minutes=15 * row[1])
        hours.append((hour_start.astimezone(zone), _make_figures(row[2 if minutes else 1 :])))
    return hours


def sum_filtered(
    connection: sqlite3.Connection,
    call_filter: CallFilter,
    span: Span,
    rules: CountingRules,
    *,
    by_hour: bool,
) -> ReportSums:
    """Return the sums of filtered calls within `span`, by day or hour."""
    conditions, values = history.build_named_conditions(connection, call_filter, "value")
    local_start = rules.build_local_time_sql(span.since, span.until, "%Y-%m-%d" + (" %H" if by_hour else ""))
    rows = connection.execute(
        f"SELECT {local_start}, {_SUMS} FROM _calls c"
        f" WHERE {' AND '.join([_IN_SPAN, *conditions])} GROUP BY 1",
        {**values, **span.get_parameters()},
    )
    sums = ReportSums()
    for text, *figures in rows:
        if by_hour:
            sums.add_hour(datetime.fromisoformat(text), _make_figures(figures))
        else:
            sums.days[date.fromisoformat(text)] = _make_figures(figures)
    return sums


def find_first_day(connection: sqlite3.Connection, zone: ZoneInfo) -> date | None:
    """Return the local day of the oldest call; None without calls."""
    row = connection.execute(
        "SELECT min(started_at) FROM _calls WHERE started_at >= ? AND started_at < ?",
        (clock.midnight(FIRST_DAY, zone), clock.midnight(END_DAY, zone)),
    ).fetchone()
    started_at = clock.to_zone(clock.parse_utc(row[0]), zone)
    return None if started_at is None else started_at.date()


def count_undecided_outbound(connection: sqlite3.Connection, span: Span) -> int:
    """Count the outbound calls of a span without an outcome: in progress, or ended minutes ago."""
    since = max(span.since, clock.utc_text(clock.now() - timedelta(days=1)))
    row = connection.execute(
        f"SELECT count(*) {span.source} AND direction = 'out' AND outcome IS NULL",
        replace(span, since=since).get_parameters(),
    ).fetchone()
    return int(row[0])


def get_currency(connection: sqlite3.Connection) -> str:
    """Return the ISO code of the account's currency; '' if unknown."""
    row = connection.execute("SELECT currency_iso FROM me LIMIT 1").fetchone()
    return str(row[0] or "") if row else ""


def _make_figures(row: Iterable[float | None]) -> Figures:
    return Figures(*(value or 0 for value in row))  # type: ignore[arg-type]
