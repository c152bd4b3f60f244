"""Stored sums of calls by local day, for reports of long ranges.

The days are those of the display time zone. Triggers record the start of each changed call in `_report_due`,
in the transaction of the change, so every writer is covered. `update_due` recomputes the sums of these days.
Until then, and for today, a report reads the calls. Stored sums are used only for days without later changes,
so that a report equals the direct computation (`reports.compute_sums`) in every snapshot.

Sums belong to `CountingRules`, such as the time zone and the service level. A change recomputes all sums.
How soon the caller of a missed call was reached depends on later days: the sums of missed calls of a day are
recomputed with each of the following REACHED_DAYS days.
"""

from __future__ import annotations

import json
import random
import sqlite3
from calendar import monthrange
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import groupby
from zoneinfo import ZoneInfo

from integration.core import clock
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
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

FORMAT_VERSION = 2
"""Version of the meaning of the sums. A higher version recomputes all sums."""

_AFTER_HOUR = ";"
"""Suffix that sorts an hour after all its minutes ('HH:MM')."""

_SUMMED_COLUMNS = (
    "{0}.started_at, {0}.direction, {0}.outcome, {0}.wait_seconds, {0}.talk_seconds, {0}.charge, {0}.user_id,"
    " {0}.our_e164, {0}.our_number, {0}.group_kind, {0}.group_id, {0}.group_name, {0}.party_e164,"
    " {0}.party, {0}.legs, {0}.cdrs, {0}.t_cause"
)
_IS_CHANGED = f"({_SUMMED_COLUMNS.format('OLD')}) IS NOT ({_SUMMED_COLUMNS.format('NEW')})"


def _build_due_insert(row: str) -> str:
    """Return trigger SQL that records the start of a call.

    The hour of a start is recorded once. The SQL calls no function: SQLite assumes that functions may fail
    and would copy every page that the row touches. The SQL has no OR IGNORE, because the conflict clause of
    the statement that fires a trigger overrides the clauses inside.
    """
    previous_hour = f"SELECT hour FROM _report_due WHERE hour <= {row}.started_at ORDER BY hour DESC LIMIT 1"
    return (
        f"INSERT INTO _report_due SELECT {row}.started_at WHERE {row}.started_at IS NOT NULL"
        f" AND NOT EXISTS (SELECT 1 FROM ({previous_hour}) WHERE {row}.started_at < hour || '{_AFTER_HOUR}');"
    )


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
-- Hours of UTC 'YYYY-MM-DD HH', or times within an hour, whose calls changed after their days were summed.
CREATE TABLE IF NOT EXISTS _report_due (hour TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
-- Format version, time zone and service level of the sums.
CREATE TABLE IF NOT EXISTS _report_basis (
    one INTEGER PRIMARY KEY CHECK (one = 0), basis TEXT NOT NULL
) STRICT;

CREATE TRIGGER IF NOT EXISTS _calls_report_insert AFTER INSERT ON _calls BEGIN {_build_due_insert("NEW")} END;
CREATE TRIGGER IF NOT EXISTS _calls_report_update AFTER UPDATE ON _calls WHEN {_IS_CHANGED} BEGIN
  {_build_due_insert("OLD")}
  {_build_due_insert("NEW")}
END;
CREATE TRIGGER IF NOT EXISTS _calls_report_delete AFTER DELETE ON _calls BEGIN {_build_due_insert("OLD")} END;
"""

MAX_DIRECT_SPANS = 12
"""Most ranges of days that are read from the calls. With more, the entire report is read from the calls."""

_SUM_COLUMNS = ", ".join(f"sum({name})" for name in FIGURES)
_INSERT_ROW = f"INSERT INTO _report_days VALUES ({', '.join('?' * (4 + len(FIGURES)))})"


def mark_due(tx: Transaction, starts: Iterable[str | None]) -> None:
    """Record that calls with these starts (UTC text) will change.

    The triggers then find the hours recorded and insert no row per call.
    """
    hours = sorted({start[:13] for start in starts if start})
    tx.executemany("INSERT OR IGNORE INTO _report_due VALUES (?)", [(hour,) for hour in hours])


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
    sums = MissedSums()
    later = _list_direct_days(connection, first, last + timedelta(days=REACHED_DAYS), rules, today)
    spans = [(first, last)]
    if later is not None:
        direct_days = {day for day in _list_days_before(later) if first <= day <= last}
        spans = list(clock.merge_days(direct_days))
        if len(spans) > MAX_DIRECT_SPANS:
            spans = [(first, last)]
        else:
            days = [day for day in clock.iterate_days(first, last) if day not in direct_days]
            missed_calls.add_stored(sums, connection, _list_labels(days))
    for begin, end in spans:
        span = _make_span(begin, end, rules)
        missed_calls.add_missed_calls(sums, connection, span.since, span.until, rules)
    return sums


def _list_direct_days(
    connection: sqlite3.Connection, first: date, last: date, rules: CountingRules, today: date
) -> set[date] | None:
    """Return the days that are read from the calls.

    None for all days. Today and later days change with every call.
    """
    if _get_stored_basis(connection) != _get_requested_basis(rules):
        return None
    direct_days = {day for day in _list_due_days(connection, first, last, rules) if first <= day <= last}
    direct_days.update(clock.iterate_days(max(first, today), last))
    return direct_days


def _list_direct_spans(
    connection: sqlite3.Connection, first: date, last: date, rules: CountingRules, today: date
) -> tuple[set[date], list[tuple[date, date]]]:
    """Return the days that are read from the calls, and their ranges."""
    direct_days = _list_direct_days(connection, first, last, rules, today)
    spans = [] if direct_days is None else list(clock.merge_days(direct_days))
    if direct_days is None or len(spans) > MAX_DIRECT_SPANS:
        return set(), [(first, last)]
    return direct_days, spans


def _list_days_before(days: Iterable[date]) -> set[date]:
    """Return `days` and the REACHED_DAYS days before each."""
    return {day - timedelta(days=back) for day in days for back in range(REACHED_DAYS + 1)}


def _list_due_days(
    connection: sqlite3.Connection, first: date, last: date, rules: CountingRules
) -> Iterator[date]:
    """Return days whose calls changed since the last sum.

    Days adjacent to the range may be included.
    """
    span = _make_span(first, last, rules)
    return (day for hour in _list_due_hours(connection, span) for day in _list_days_of_hour(hour, rules.zone))


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


# --- updating --------------------------------------------------------------------------------------------


def update_due(mirror_db: Database, rules: CountingRules, seconds: float = 2.0) -> bool:
    """Recompute due days for up to `seconds`.

    Each transaction recomputes one or two days. Returns whether more days may be due.
    """
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        today = clock.now().astimezone(rules.zone).date()
        with mirror_db.read() as connection:
            is_current = _get_stored_basis(connection) == _get_requested_basis(rules)
            if is_current and not _find_next_days(connection, rules.zone, today):
                return False
        mirror_db.write_bulk([partial(update_next_days, rules=rules, today=today)])
    return True


def verify_random_day(mirror_db: Database, rules: CountingRules) -> date | None:
    """Compare the stored sums of a random past day with its calls.

    Returns a day that differs and marks the day as due. This repairs the sums after another program changed
    the file.
    """
    today = clock.now().astimezone(rules.zone).date()
    with mirror_db.read() as connection:
        first = reports.find_first_day(connection, rules.zone)
        if first is None or first >= today:
            return None
        day = first + timedelta(days=random.randrange((today - first).days))
        span = _make_span(day, day, rules)
        rollup = read_sums(connection, day, day, rules, today)
        missed = read_missed(connection, day, day, rules, today)
        direct = reports.compute_sums(connection, span, rules.zone)
        direct_missed = MissedSums()
        missed_calls.add_missed_calls(direct_missed, connection, span.since, span.until, rules)
    # Charges can be compared exactly: the sums of one day always add in the same order.
    if (rollup.days, rollup.hours, rollup.shares, missed.shares) == (
        direct.days, direct.hours, direct.shares, direct_missed.shares
    ):  # fmt: skip
        return None
    mirror_db.write(lambda tx: tx.execute("INSERT OR IGNORE INTO _report_due VALUES (?)", (span.since[:13],)))
    return day


def update_next_days(tx: Transaction, rules: CountingRules, today: date) -> None:
    """Recompute the oldest due days before today.

    If the basis has changed, all sums are deleted and all days are due.
    """
    if _get_stored_basis(tx.connection) != _get_requested_basis(rules):
        tx.execute("DELETE FROM _report_days")
        tx.execute("DELETE FROM _report_missed")
        tx.execute("INSERT OR REPLACE INTO _report_basis VALUES (0, ?)", (_get_requested_basis(rules),))
        tx.execute(
            "INSERT OR IGNORE INTO _report_due SELECT DISTINCT substr(started_at, 1, 13)"
            " FROM _calls WHERE started_at IS NOT NULL"
        )
    days = _find_next_days(tx.connection, rules.zone, today)
    for day in days:
        _sum_day(tx, day, rules)
    for month in {str(day)[:7] for day in days}:
        _sum_month(tx, month)
    spans = {day: _make_span(day, day, rules) for day in _list_days_before(days)}
    missed_calls.store_days(tx, {day: (span.since, span.until) for day, span in spans.items()}, rules)
    if days:
        span = _make_span(min(days), max(days), rules)
        tx.executemany(
            "DELETE FROM _report_due WHERE hour = ?",
            [
                (hour,)
                for hour in _list_due_hours(tx.connection, span)
                if set(_list_days_of_hour(hour, rules.zone)) <= days
            ],
        )


def _list_due_hours(connection: sqlite3.Connection, span: Span) -> list[str]:
    rows = connection.execute(
        "SELECT hour FROM _report_due WHERE hour >= ? AND hour < ?",
        (span.since[:13], span.until[:13] + _AFTER_HOUR),
    )
    return [row[0] for row in rows]


def _find_next_days(connection: sqlite3.Connection, zone: ZoneInfo, today: date) -> set[date]:
    """Return the days of the oldest due hour, if all are past."""
    for row in connection.execute("SELECT hour FROM _report_due ORDER BY hour"):
        days = set(_list_days_of_hour(row[0], zone))
        if days:
            return days if max(days) < today else set()
    return set()


def _sum_day(tx: Transaction, day: date, rules: CountingRules) -> None:
    sums = reports.compute_sums(tx.connection, _make_span(day, day, rules), rules.zone)
    rows = list(_make_rows(sums, str(day)))
    # By full key prefix (kind, day): SQLite finds no better plan to select a day of every kind.
    for kind in ("day", "hour", *SHARE_KINDS):
        tx.execute("DELETE FROM _report_days WHERE kind = ? AND day = ?", (kind, str(day)))
    tx.executemany(_INSERT_ROW, rows)


def _sum_month(tx: Transaction, month: str) -> None:
    for kind in ("hour", *SHARE_KINDS):
        tx.execute("DELETE FROM _report_days WHERE kind = ? AND day = ?", (kind, month))
        tx.execute(
            f"INSERT INTO _report_days SELECT kind, ?2, key, max(name), {_SUM_COLUMNS} FROM _report_days"
            " WHERE kind = ?1 AND day > ?2 || '-' AND day < ?2 || '-99' GROUP BY key",
            (kind, month),
        )


def _make_rows(sums: ReportSums, day: str) -> Iterator[tuple[object, ...]]:
    weekday = date.fromisoformat(day).weekday()
    for figures in sums.days.values():
        yield "day", day, "", "", *astuple(figures)
    for hour, figures in sums.hours.items():
        yield "hour", day, f"{weekday}{hour:02}", "", *astuple(figures)
    for kind, shares in sums.shares.items():
        for share in shares.values():
            yield kind, day, share.key, share.name, *astuple(share.figures)


# --- days, hours -----------------------------------------------------------------------------------------


def _get_requested_basis(rules: CountingRules) -> str:
    return json.dumps(
        [FORMAT_VERSION, rules.zone.key, rules.level, rules.usual_hours, rules.callback_seconds]
    )


def _get_stored_basis(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT basis FROM _report_basis").fetchone()
    return None if row is None else str(row[0])


def _make_span(first: date, last: date, rules: CountingRules) -> Span:
    begin = datetime.combine(first, time(), rules.zone)
    end = datetime.combine(last + timedelta(days=1), time(), rules.zone)
    return Span(clock.utc_text(begin), clock.utc_text(end), rules.level)


def _list_days_of_hour(hour: str, zone: ZoneInfo) -> tuple[date, ...]:
    """Return the one or two local days overlapped by a UTC hour.

    `hour` may also be a time within the hour.
    """
    try:
        begin = datetime.fromisoformat(f"{hour[:13]}:00:00").replace(tzinfo=UTC)
        moments = (begin, begin + timedelta(minutes=59, seconds=59))
    except (ValueError, OverflowError):
        # The start is no valid time, so no day and no sum includes the call.
        return ()
    local_times = [local for moment in moments if (local := clock.to_zone(moment, zone)) is not None]
    return tuple(dict.fromkeys(local.date() for local in local_times if FIRST_DAY <= local.date() < END_DAY))
