"""Stored opening hours: entries of Settings › Opening hours, and closed days."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from zoneinfo import ZoneInfo

from integration.context import AppContext
from integration.core.errors import DomainError
from integration.core.opening_hours import ALL_LINES, HoursEntry, OpeningHours, Ranges
from integration.mirror.derived import report_sums
from integration.mirror.derived.declaration import Rules
from integration.settings.usual_hours import parse_hours
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
-- Hours of a week (JSON) from a local day until the next entry of the same line. `line` '': all lines.
CREATE TABLE IF NOT EXISTS opening_hours (
    line TEXT NOT NULL, valid_from TEXT NOT NULL, week TEXT NOT NULL, PRIMARY KEY (line, valid_from)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS closed_days (day TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- `usual_hours`: the setting (JSON) with which the first start filled `opening_hours`.
-- `country` and `region`: whose public holidays are proposed.
CREATE TABLE IF NOT EXISTS opening_hours_source (
    one INTEGER PRIMARY KEY CHECK (one = 0), usual_hours TEXT NOT NULL,
    country TEXT NOT NULL DEFAULT '', region TEXT NOT NULL DEFAULT ''
) STRICT;
"""


def load_opening_hours(connection: sqlite3.Connection, zone: ZoneInfo) -> OpeningHours:
    """Return the stored hours. `connection` reads house.db."""
    entries = (
        HoursEntry(
            line, valid_from, tuple(tuple((begin, end) for begin, end in day) for day in json.loads(week))
        )
        for line, valid_from, week in connection.execute("SELECT line, valid_from, week FROM opening_hours")
    )
    return OpeningHours(zone, entries, list_closed_days(connection))


def load_rules(connection: sqlite3.Connection, rules: Rules) -> None:
    """Put the stored hours into `rules`."""
    hours = load_opening_hours(connection, rules.counting.zone)
    rules.counting = replace(rules.counting, hours=hours)


def apply(context: AppContext, valid_from: str) -> None:
    """Let every figure and page follow changed hours. `valid_from`: the first changed day, '' for all."""
    with context.app_db.read() as connection:
        load_rules(connection, context.rules)
    first_day = date.fromisoformat(valid_from) if valid_from else None
    context.mirror_db.write(lambda tx: report_sums.follow_hours(tx, context.rules.counting, first_day))


def list_closed_days(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the names of the closed days by day, in order."""
    return dict(tuple(row) for row in connection.execute("SELECT day, name FROM closed_days ORDER BY day"))


def seed(app_db: Database, usual_hours: Sequence[str]) -> None:
    """Store the setting `calls.usual_hours` at the first start: hours of all lines, always valid."""

    def work(tx: Transaction) -> None:
        if tx.execute("SELECT 1 FROM opening_hours_source").fetchone():
            return
        tx.execute(
            "INSERT INTO opening_hours_source (one, usual_hours) VALUES (0, ?)",
            (json.dumps(list(usual_hours)),),
        )
        week = _make_week(usual_hours)
        if any(week):
            _store(tx, HoursEntry(ALL_LINES, "", week))

    app_db.write(work)


def _make_week(usual_hours: Iterable[str]) -> tuple[Ranges, ...]:
    """Return the hours of each day of the setting. Ranges that overlap or adjoin become one."""
    week: list[list[tuple[str, str]]] = [[] for _ in range(7)]
    for hours in parse_hours(usual_hours):
        ranges = week[hours.weekday]
        if ranges and hours.begin <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], hours.end)
        else:
            ranges.append((hours.begin, hours.end))
    return tuple(tuple((begin, end.replace("24:", "00:")) for begin, end in ranges) for ranges in week)


def save_entry(app_db: Database, entry: HoursEntry) -> None:
    """Add an entry, or replace the one of the same line and day."""
    app_db.write(lambda tx: _store(tx, entry))


def _store(tx: Transaction, entry: HoursEntry) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO opening_hours VALUES (?, ?, ?)",
        (entry.line, entry.valid_from, json.dumps(entry.week)),
    )


def remove_entry(app_db: Database, line: str, valid_from: str) -> None:
    """Delete an entry. Raises DomainError for an unknown one."""

    def work(tx: Transaction) -> None:
        if not tx.execute(
            "DELETE FROM opening_hours WHERE line = ? AND valid_from = ?", (line, valid_from)
        ).rowcount:
            raise DomainError("These hours were already removed.")

    app_db.write(work)


def add_closed_days(app_db: Database, names: Mapping[str, str]) -> None:
    """Store closed days: names by day ('YYYY-MM-DD')."""
    app_db.write(
        lambda tx: tx.executemany("INSERT OR REPLACE INTO closed_days VALUES (?, ?)", list(names.items()))
    )


def remove_closed_day(app_db: Database, day: str) -> None:
    app_db.write(lambda tx: tx.execute("DELETE FROM closed_days WHERE day = ?", (day,)))


def load_holiday_region(connection: sqlite3.Connection) -> tuple[str, str]:
    """Return the country and the region whose public holidays are proposed, '' for none."""
    row = connection.execute("SELECT country, region FROM opening_hours_source").fetchone()
    return (row[0], row[1]) if row is not None else ("", "")


def save_holiday_region(app_db: Database, country: str, region: str) -> None:
    app_db.write(
        lambda tx: tx.execute("UPDATE opening_hours_source SET country = ?, region = ?", (country, region))
    )
