"""Stored sums of calls by local day, for reports of long ranges.

The days are those of the display time zone. Until the sums of a day are computed after a change, and for
today, a report reads the calls. So it equals the direct computation (`reports.compute_sums`) in every
snapshot.

How soon the caller of a missed call was reached depends on later days: the sums of missed calls of a day are
computed again with each of the following REACHED_DAYS days.
"""

from __future__ import annotations

import json
import sqlite3
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain, groupby
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.mirror.derived import due
from integration.mirror.derived.declaration import (
    ALL_TIMES,
    Derived,
    Key,
    Range,
    Rows,
    Rules,
    Source,
    Target,
    to_json,
)
from integration.mirror.page_queries import missed_calls, reports
from integration.mirror.page_queries.missed_calls import REACHED_DAYS, CountingRules, MissedSums
from integration.mirror.page_queries.reports import (
    END_DAY,
    FIGURES,
    FIRST_DAY,
    SHARE_KINDS,
    Figures,
    ReportSums,
    Share,
    Span,
)
from integration.sqlite.transaction import Transaction

VERSION = 3
"""Increased when the sums have another meaning."""

_AFTER_HOUR = ";"
"""Suffix that sorts an hour after all its minutes ('HH:MM')."""

TABLES = f"""{missed_calls.TABLES}
-- Sums of a day 'YYYY-MM-DD' of the display zone, and of a month 'YYYY-MM' except for kind 'day'.
-- `kind` is 'day' (key ''), 'hour' (key: weekday and hour, '000' to '623'), 'person', 'line', 'group' or
-- 'country'.
-- Days without calls have no row.
CREATE TABLE IF NOT EXISTS _report_days (
    kind TEXT NOT NULL, day TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    {", ".join(f"{name} {'REAL' if name == 'charge' else 'INTEGER'} NOT NULL" for name in FIGURES)},
    PRIMARY KEY (kind, day, key)
) STRICT, WITHOUT ROWID;
"""

MAX_DIRECT_SPANS = 12
"""Most ranges of days that are read from the calls. With more, the entire report is read from the calls."""

MANY_CALLS = 50
"""Calls above which their hours are recorded as due before they are stored."""

_SUM_COLUMNS = ", ".join(f"sum({name})" for name in FIGURES)


def mark_hours(tx: Transaction, starts: Iterable[str | None]) -> None:
    """Record the hours of many calls that will change. `starts` are UTC text."""
    hours = sorted({start[:13] for start in starts if start})
    due.mark(tx, REPORT_SUMS.name, [(hour, hour + _AFTER_HOUR) for hour in hours])


def follow_hours(tx: Transaction, rules: CountingRules, valid_from: date | None) -> None:
    """Record the days from `valid_from` on as due, or all days, after a change of the opening hours."""
    since = None if valid_from is None else clock.midnight(valid_from, rules.zone)
    due.follow_rules(tx, REPORT_SUMS, _describe_rules(rules), since)


# --- reading ---------------------------------------------------------------------------------------------


def read_sums(
    connection: sqlite3.Connection,
    first: date,
    last: date,
    rules: CountingRules,
    today: date,
    *,
    with_shares: bool = True,
) -> ReportSums:
    """Return the sums of the days from `first` to `last`, both included.

    `today` is the present day in the zone.
    """
    direct_days, spans = _list_direct_spans(connection, first, last, rules, today)
    sums = ReportSums()
    if spans != [(first, last)]:
        _add_rollups(sums, connection, first, last, direct_days, with_shares=with_shares)
    for begin, end in spans:
        span = _make_span(begin, end, rules)
        sums.add(reports.compute_sums(connection, span, rules.zone, with_shares=with_shares))
    return sums


def count_direct_calls(
    connection: sqlite3.Connection, first: date, last: date, rules: CountingRules, today: date, limit: int
) -> int:
    """Count the calls that `read_sums` reads, up to `limit`."""
    counted = 0
    for begin, end in _list_direct_spans(connection, first, last, rules, today)[1]:
        span = _make_span(begin, end, rules)
        counted += connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM _calls WHERE started_at >= ? AND started_at < ? LIMIT ?)",
            (span.since, span.until, limit - counted),
        ).fetchone()[0]
    return counted


def read_missed(
    connection: sqlite3.Connection, first: date, last: date, rules: CountingRules, today: date
) -> MissedSums:
    """Return the missed calls from `first` to `last`, both included."""
    direct_days, spans = _list_direct_spans(connection, first, last, rules, today, days_after=REACHED_DAYS)
    sums = MissedSums()
    if spans != [(first, last)]:
        days = [day for day in clock.iterate_days(first, last) if day not in direct_days]
        missed_calls.add_stored(sums, connection, _list_labels(days))
    for begin, end in spans:
        span = _make_span(begin, end, rules)
        missed_calls.add_missed_calls(sums, connection, span.since, span.until, rules)
    return sums


def _list_direct_spans(
    connection: sqlite3.Connection,
    first: date,
    last: date,
    rules: CountingRules,
    today: date,
    *,
    days_after: int = 0,
) -> tuple[set[date], list[tuple[date, date]]]:
    """Return the days that are read from the calls, and their ranges.

    Today and later days change with every call. No sums of calls during opening hours are stored.
    `days_after`: days on whose calls the figures of a day depend too.
    """
    if rules.open_only or not due.has_current_rules(connection, REPORT_SUMS, _describe_rules(rules)):
        return set(), [(first, last)]
    last_read = last + timedelta(days=days_after)
    direct_days = set(clock.iterate_days(max(first, today), last_read))
    span = _make_span(first, last_read, rules)
    # During an initial sync each hour is due. To find the days of each would take most of the time of a page.
    ranges_by_day: dict[str, Range] = {}
    for low, high in due.list_ranges(connection, REPORT_SUMS.name, (span.since, span.until)):
        begin, end = ranges_by_day.get(low[:10], (low, high))
        ranges_by_day[low[:10]] = min(begin, low), max(end, high)
    for low, high in ranges_by_day.values():
        changed = _find_days((max(low, span.since), min(high, span.until)), rules.zone)
        direct_days.update(clock.iterate_days(*changed))
    if days_after:
        direct_days = _list_days_before(direct_days)
    direct_days = {day for day in direct_days if first <= day <= last}
    spans = list(clock.merge_days(direct_days))
    return (set(), [(first, last)]) if len(spans) > MAX_DIRECT_SPANS else (direct_days, spans)


def _list_days_before(days: Iterable[date]) -> set[date]:
    """Return `days` and the REACHED_DAYS days before each."""
    return {day - timedelta(days=back) for day in days for back in range(REACHED_DAYS + 1)}


def _add_rollups(
    target: ReportSums,
    connection: sqlite3.Connection,
    first: date,
    last: date,
    excluded_days: set[date],
    *,
    with_shares: bool,
) -> None:
    days = [day for day in clock.iterate_days(first, last) if day not in excluded_days]
    figure_columns = ", ".join(FIGURES)
    source = " FROM _report_days WHERE kind = ? AND day IN (SELECT value FROM json_each(?))"
    labels = json.dumps([str(day) for day in days])
    for day, *values in connection.execute(f"SELECT day, {figure_columns}{source}", ("day", labels)):
        target.days[date.fromisoformat(day)] = Figures(*values)
    if first == last:
        for key, *values in connection.execute(f"SELECT key, {figure_columns}{source}", ("hour", labels)):
            target.hours[int(key[1:])] = Figures(*values)
    if not with_shares:
        return
    labels = json.dumps(list(_list_labels(days)))
    for key, *values in connection.execute(
        f"SELECT key, {_SUM_COLUMNS}{source} GROUP BY key", ("hour", labels)
    ):
        target.week.setdefault((int(key[0]), int(key[1:])), Figures()).add(Figures(*values))
    for kind, shares in target.shares.items():
        rows = connection.execute(
            f"SELECT key, max(name), {_SUM_COLUMNS}{source} GROUP BY key", (kind, labels)
        )
        shares.update({key: Share(key, name, Figures(*values)) for key, name, *values in rows})


def _list_labels(days: Iterable[date]) -> Iterator[str]:
    """Return the days as labels 'YYYY-MM-DD', and complete months as 'YYYY-MM'."""
    for month, month_days in groupby(days, key=lambda day: str(day)[:7]):
        day_list = list(month_days)
        is_complete_month = len(day_list) == monthrange(day_list[0].year, day_list[0].month)[1]
        yield from (month,) if is_complete_month else map(str, day_list)


# --- computing -------------------------------------------------------------------------------------------


def compute_days(connection: sqlite3.Connection, ranges: Sequence[Range], rules: Rules) -> list[Rows]:
    """Return the sums of the past days of `ranges`, and of their months."""
    counting = rules.counting
    days = {day for keys in ranges for day in _list_changed_days(connection, keys, counting)}
    missed_days = _list_days_before(days)
    day_rows = [
        row
        for day in days
        for row in _make_rows(
            reports.compute_sums(connection, _make_span(day, day, counting), counting.zone), str(day)
        )
    ]
    missed_rows: list[tuple[object, ...]] = []
    for day in missed_days:
        sums, span = MissedSums(), _make_span(day, day, counting)
        missed_calls.add_missed_calls(sums, connection, span.since, span.until, counting)
        missed_rows += missed_calls.make_rows(sums, str(day))
    return [
        _add_months(connection, DAYS, days, day_rows),
        _add_months(connection, MISSED, missed_days, missed_rows),
    ]


def _list_changed_days(connection: sqlite3.Connection, keys: Range, rules: CountingRules) -> Iterator[date]:
    """Yield the days of a range before today. Those of a long range have calls or sums."""
    first, last = _find_days(keys, rules.zone)
    last = min(last, _get_today(rules) - timedelta(days=1))
    days: Iterable[date] = clock.iterate_days(first, last)
    if (last - first).days > REACHED_DAYS:
        span = _make_span(first, last, rules)
        hours = connection.execute(
            "SELECT DISTINCT substr(started_at, 1, 13) FROM _calls WHERE started_at >= ? AND started_at < ?",
            (span.since, span.until),
        )
        found = {
            day for (hour,) in hours for day in clock.iterate_days(*_find_days((hour, hour), rules.zone))
        }
        stored = connection.execute(
            "SELECT day FROM _report_days WHERE kind = 'day' AND day BETWEEN ? AND ?", (str(first), str(last))
        )
        found |= {date.fromisoformat(day) for (day,) in stored}
        days = (day for day in found if first <= day <= last)
    yield from days


def _make_rows(sums: ReportSums, day: str) -> Iterator[tuple[Any, ...]]:
    weekday = date.fromisoformat(day).weekday()
    for figures in sums.days.values():
        yield "day", day, "", "", *astuple(figures)
    for hour, figures in sums.hours.items():
        yield "hour", day, f"{weekday}{hour:02}", "", *astuple(figures)
    for kind, shares in sums.shares.items():
        for share in shares.values():
            yield kind, day, share.key, share.name, *astuple(share.figures)


def _add_months(
    connection: sqlite3.Connection, target: Target, days: set[date], day_rows: Sequence[tuple[Any, ...]]
) -> Rows:
    """Return the rows of days and of their months. The other days of a month are read from `target`."""
    labels, months = {str(day) for day in days}, {str(day)[:7] for day in days}
    sums: dict[tuple[str, ...], list[Any]] = {}
    others = [f"{month}-{day:02}" for month in months for day in range(1, 32)]
    stored = connection.execute(target.select, (to_json(sorted(set(others) - labels)),))
    rows = chain(map(tuple, stored), day_rows)
    # In order of days, so that the sum of the charges, which are fractions, is the same each time.
    for kind, day, key, name, *figures in sorted(rows, key=itemgetter(1)):
        if kind != "day":
            total = sums.setdefault((kind, day[:7], key), [name, *(0 for _ in figures)])
            total[0] = max(total[0], name)
            total[1:] = [a + b for a, b in zip(total[1:], figures, strict=True)]
    month_rows = {(*key, *total) for key, total in sums.items()}
    return Rows(target, sorted(labels | months), {*day_rows, *month_rows})


# --- days, hours -----------------------------------------------------------------------------------------


def _describe_rules(rules: CountingRules) -> object:
    return VERSION, rules.zone.key, rules.level, rules.callback_seconds, str(rules.hours)


def _get_today(rules: CountingRules) -> date:
    return clock.now().astimezone(rules.zone).date()


def _make_span(first: date, last: date, rules: CountingRules) -> Span:
    begin = datetime.combine(first, time(), rules.zone)
    end = datetime.combine(last + timedelta(days=1), time(), rules.zone)
    return Span(clock.utc_text(begin), clock.utc_text(end), rules.level, rules.open_only)


def _find_days(keys: Range, zone: ZoneInfo) -> tuple[date, date]:
    """Return the first and the last local day of a range of times or hours.

    Without a valid time the last day is before the first: no sum includes calls at such times.
    """
    low, high = (
        _find_day(key if len(key) > len("2026-01-01 00:") else f"{key[:13]}:{rest}", zone)
        for key, rest in zip(keys, ("00:00", "59:59"), strict=True)
    )
    first = FIRST_DAY if keys[0] == ALL_TIMES[0] else low or END_DAY
    last = END_DAY - timedelta(days=1) if keys[1] == ALL_TIMES[1] else high or FIRST_DAY - timedelta(days=1)
    return max(first, FIRST_DAY), min(last, END_DAY - timedelta(days=1))


def _find_day(moment: str, zone: ZoneInfo) -> date | None:
    try:
        local = clock.to_zone(datetime.fromisoformat(moment).replace(tzinfo=UTC), zone)
    except (ValueError, OverflowError):
        return None
    return None if local is None else local.date()


def _align(key: Key, rules: Rules) -> Key:
    """Return the start of the local day of `key`."""
    return _find_span(key, rules, 0)[0]


def _find_span(key: Key, rules: Rules, margin: int = REACHED_DAYS) -> Range:
    """Return the local day of `key`, and the days around it with which the missed calls are computed."""
    day, days = _find_day(key, rules.counting.zone), timedelta(days=margin)
    if day is None or not FIRST_DAY + days <= day < END_DAY - days:
        return key, key
    span = _make_span(day - days, day + days, rules.counting)
    return span.since, span.until


def _defer(rules: Rules) -> tuple[Key, float]:
    """Sums of today change with every call."""
    today = _get_today(rules.counting)
    tomorrow = datetime.combine(today + timedelta(days=1), time(), rules.counting.zone)
    return _make_span(today, today, rules.counting).since, tomorrow.timestamp()


def _make_target(table: str, columns: tuple[str, ...], kinds: Iterable[str]) -> Target:
    # By full key prefix (kind, day): SQLite finds no better plan to select a day of every kind.
    values = ", ".join(f"('{kind}')" for kind in kinds)
    return Target(
        table,
        ("kind", "day", "key", "name", *columns),
        ("kind", "day", "key"),
        f"WITH kinds(kind) AS (VALUES {values}) SELECT r.* FROM kinds CROSS JOIN json_each(?1) AS label"
        f" CROSS JOIN {table} AS r ON r.kind = kinds.kind AND r.day = label.value",
    )


DAYS = _make_target("_report_days", tuple(FIGURES), ("day", "hour", *SHARE_KINDS))
MISSED = _make_target("_report_missed", ("calls", "in_hour", "in_day"), missed_calls.KINDS)

_CALL_COLUMNS = (
    "started_at", "direction", "outcome", "wait_seconds", "talk_seconds", "charge", "user_id", "our_e164",
    "our_number", "group_kind", "group_id", "group_name", "party_e164", "party",
    # Causes and users of legs decide why a call was missed.
    "legs", "cdrs", "t_cause",
)  # fmt: skip

REPORT_SUMS = Derived(
    "reports",
    "Report totals",
    "calls",
    keys=("SELECT started_at FROM _calls WHERE started_at",),
    sources=(
        Source(
            "_calls",
            _CALL_COLUMNS,
            "{row}.started_at",
        ),
    ),
    all_keys=ALL_TIMES,
    tables=("_report_days", "_report_missed"),
    compute=compute_days,
    describe_rules=lambda rules: _describe_rules(rules.counting),
    align=_align,
    find_span=_find_span,
    defer=_defer,
)
