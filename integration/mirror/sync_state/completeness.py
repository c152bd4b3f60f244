"""Completeness table: record counts of platform and mirror by collection and day.

`day` is a UTC day 'YYYY-MM-DD' by the collection's date property, or ENTIRE_COLLECTION for all records,
with or without a date. `proved_at` is the last time at which both counts were equal. A failed comparison
changes nothing.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror.calls import backlog
from integration.mirror.records.missing_records import build_kept_sql
from integration.mirror.sync_state.collection_state import LIVE_COLLECTIONS, get_state, list_states
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _coverage (
    collection TEXT NOT NULL,
    day TEXT NOT NULL,
    total INTEGER NOT NULL,
    ours INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    proved_at TEXT,
    cause TEXT,
    repair TEXT,
    differs_since TEXT,
    PRIMARY KEY (collection, day)
) STRICT, WITHOUT ROWID;
-- serves the list of gaps
CREATE INDEX IF NOT EXISTS _coverage_gaps ON _coverage (collection, day) WHERE total <> ours;
"""

ENTIRE_COLLECTION = "*"
"""Value of `day` for the counts of an entire collection."""

RECHECK_SECONDS = 60.0
"""Seconds after which a new difference is checked again.

A record that arrives between two counts makes them differ. Only a difference that lasts is a problem.
"""


@dataclass(frozen=True, slots=True)
class DayCount:
    """Counts of one day of one collection.

    `total`, `ours`: number of records on the platform and in the mirror at `asked_at`. `proved_at`: when the
    counts were last equal (UTC text, None if never). `cause`: reason of a difference. `repair`: what was
    done. `differs_since`: the first comparison of a difference; None without one, and for differences that
    older versions stored.
    """

    collection: str
    day: str
    total: int
    ours: int
    asked_at: str
    proved_at: str | None
    cause: str | None
    repair: str | None
    differs_since: str | None = None

    @property
    def recheck_at(self) -> str | None:
        """Time (UTC text) at which a new difference is checked again; None if it has lasted."""
        differs_since = clock.parse_utc(self.differs_since)
        if differs_since is None:
            return None
        recheck_at = clock.utc_text(differs_since + timedelta(seconds=RECHECK_SECONDS))
        return recheck_at if self.asked_at < recheck_at else None

    @property
    def is_gap(self) -> bool:
        """Return whether the counts differ and did so for at least RECHECK_SECONDS."""
        return self.total != self.ours and self.recheck_at is None


@dataclass(frozen=True, slots=True)
class CollectionCompleteness:
    """Completeness of one collection. Times are UTC text.

    `complete_at`: end of the last full sync (None if none has ended). `day_count`: number of compared UTC
    days. `verified_days`: number of days with equal counts. `first_day`: the oldest compared day.
    `verified_at`: last time at which counts of a day were equal. `differences`: days with different counts,
    newest first.
    """

    collection: str
    complete_at: str | None
    day_count: int
    verified_days: int
    first_day: str | None
    verified_at: str | None
    differences: list[DayCount]

    @property
    def is_live(self) -> bool:
        """Return whether the collection lists live objects."""
        return self.collection in LIVE_COLLECTIONS

    @property
    def gap_count(self) -> int:
        """Return the number of differences that have lasted."""
        return sum(difference.is_gap for difference in self.differences)


def list_collections(connection: sqlite3.Connection) -> list[CollectionCompleteness]:
    """Return all collections that were ever requested, in the catalogue's order."""
    states = {state.collection: state for state in list_states(connection)}
    days: dict[str, tuple[int, int, str | None, str | None]] = {
        row[0]: (row[1], row[2], row[3], row[4])
        for row in connection.execute(
            "SELECT collection, count(*), sum(total = ours), min(day), max(proved_at) FROM _coverage"
            " WHERE day <> ? GROUP BY collection",
            (ENTIRE_COLLECTION,),
        )
    }
    return [
        CollectionCompleteness(
            name,
            states[name].complete_at,
            *days.get(name, (0, 0, None, None)),
            list_differences(connection, name),
        )
        for name in (resource.collection for resource in RESOURCES if resource.is_listed)
        if name in states
    ]


def list_differences(connection: sqlite3.Connection, collection: str | None = None) -> list[DayCount]:
    """Return the days on which platform and mirror differ, of one or all collections, newest first.

    ENTIRE_COLLECTION is included.
    """
    rows = connection.execute(
        "SELECT * FROM _coverage WHERE total <> ours AND collection = coalesce(?, collection)"
        " ORDER BY day DESC",
        (collection,),
    )
    return [DayCount(*row) for row in rows]


def count_missing(connection: sqlite3.Connection, collection: str) -> int:
    """Return how many records the platform lacks.

    By the last comparison of the totals of the collection.
    """
    row = connection.execute(
        "SELECT max(ours - total, 0) FROM _coverage WHERE collection = ? AND day = ?",
        (collection, ENTIRE_COLLECTION),
    ).fetchone()
    return 0 if row is None else int(row[0])


def list_days(connection: sqlite3.Connection, collection: str) -> list[DayCount]:
    """Return all counts of a collection, newest day first."""
    rows = connection.execute("SELECT * FROM _coverage WHERE collection = ? ORDER BY day DESC", (collection,))
    return [DayCount(*row) for row in rows]


def find_next_recheck(connection: sqlite3.Connection) -> str | None:
    """Return the earliest time (UTC text) at which a new difference is checked again, or None."""
    return min((one.recheck_at for one in list_differences(connection) if one.recheck_at), default=None)


def count_between(connection: sqlite3.Connection, resource: Resource, start: str, end: str) -> int:
    """Return the number of present records dated in `[start, end)` (UTC text).

    Records that a user keeps although the platform deleted them are excluded.
    """
    row = connection.execute(
        f'SELECT count(*) FROM "{resource.table}" AS t WHERE "{resource.date}" >= :start'
        f' AND "{resource.date}" < :end AND _missing_since IS NULL AND NOT {build_kept_sql(resource)}',
        {"start": start, "end": end, "name": resource.collection},
    ).fetchone()
    return int(row[0])


def count_kept_rows(connection: sqlite3.Connection, resource: Resource) -> int:
    """Return the number of records kept by a user after their deletion."""
    row = connection.execute(
        f'SELECT count(*) FROM _deletions AS d JOIN "{resource.table}" AS t ON t."{resource.key}" = d.key '
        "WHERE d.collection = ? AND d.state = 'kept' AND t._missing_since IS NULL",
        (resource.collection,),
    ).fetchone()
    return int(row[0])


def find_oldest_date(
    connection: sqlite3.Connection, resource: Resource, since: str | None = None
) -> str | None:
    """Return the oldest date of present records, from `since` on.

    `since` is UTC text. Without `since`, dates before 1990 are ignored as mistakes, and so are texts that are
    no time. None if no record has a date.
    """
    rows = connection.execute(
        f'SELECT "{resource.date}" FROM "{resource.table}" WHERE "{resource.date}" >= ?'
        f' AND _missing_since IS NULL ORDER BY "{resource.date}"',
        (since or "1990",),
    )
    return next((str(row[0]) for row in rows if clock.parse_utc(row[0]) is not None), None)


def save_day(
    tx: Transaction,
    collection: str,
    day: str,
    platform_count: int,
    mirror_count: int,
    cause: str | None = None,
    repair: str | None = None,
) -> None:
    """Store the counts of a day.

    A repair is kept until the next difference.
    """
    now = clock.utc_text()
    tx.execute(
        "INSERT INTO _coverage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (collection, day) DO UPDATE SET "
        "differs_since = CASE WHEN excluded.total <> excluded.ours THEN "
        "CASE WHEN total <> ours THEN differs_since ELSE excluded.differs_since END END, "
        "total = excluded.total, ours = excluded.ours, asked_at = excluded.asked_at, "
        "proved_at = coalesce(excluded.proved_at, proved_at), cause = excluded.cause, "
        "repair = coalesce(excluded.repair, CASE WHEN excluded.total = excluded.ours THEN repair END)",
        (
            collection,
            day,
            platform_count,
            mirror_count,
            now,
            now if platform_count == mirror_count else None,
            cause,
            repair,
            None if platform_count == mirror_count else now,
        ),
    )


def explain_unread(connection: sqlite3.Connection, resource: Resource, until: datetime) -> str | None:
    """Return why `resource` was not read completely since `until`, or None."""
    complete_at, _, reason = _get_sync_times(connection, resource)
    if reason is None and complete_at < clock.utc_text(until):
        return f"/{resource.collection} was not read since {clock.utc_text(until)} UTC"
    return reason


def explain_gaps(
    connection: sqlite3.Connection, resource: Resource, since: datetime, until: datetime
) -> str | None:
    """Return why the records dated in `[since, until)` are incomplete, or None.

    Records are complete if no day of the span is a gap, and one of these is true: a full sync began after the
    span, the counts of the entire collection were equal after the span, or each day was compared after its
    end. Only for growing collections, because others have no counts by day.
    """
    _, sync_started_at, reason = _get_sync_times(connection, resource)
    if reason is not None:
        return reason
    end = clock.utc_text(until)
    counts_by_day = {day.day: day for day in list_days(connection, resource.collection)}
    entire_count = counts_by_day.pop(ENTIRE_COLLECTION, None)
    last_second = until - timedelta(seconds=1)
    day_names = [
        str(day)
        for day in clock.iterate_days(since.astimezone(UTC).date(), last_second.astimezone(UTC).date())
    ]
    for day_name in day_names:
        day_count = counts_by_day.get(day_name)
        if day_count is not None and day_count.total != day_count.ours:
            counts = f"{day_count.ours:,} of {day_count.total:,} records"
            return f"/{resource.collection} on {day_name}: {counts} are here"
    if entire_count is not None and entire_count.total == entire_count.ours and entire_count.asked_at >= end:
        return None
    if sync_started_at >= end:
        return None
    # Platform and mirror are compared from the oldest record on, so earlier days have no row.
    oldest = min(counts_by_day, default="")
    for day_name in day_names:
        day_count = counts_by_day.get(day_name)
        # As text, hour 24 sorts after all times of the day and before the next day.
        if day_name >= oldest and (day_count is None or day_count.asked_at < min(f"{day_name} 24", end)):
            return f"/{resource.collection} on {day_name}: the platform's count was not compared since"
    return None


def _get_sync_times(connection: sqlite3.Connection, resource: Resource) -> tuple[str, str, str | None]:
    """Return end and start of the last full sync, and an objection.

    Both times are UTC text, '' without a full sync. The objection states why they are not usable; None if
    they are.
    """
    state, reason = get_state(connection, resource.collection), None
    if state.off_since is not None:
        reason = f"the platform refuses /{resource.collection} since {state.off_since} UTC"
    elif not state.is_complete:
        reason = f"/{resource.collection} was never read completely"
    return state.complete_at or "", state.walked_from or "", reason


def explain_unfinished_calls(connection: sqlite3.Connection, since: datetime, until: datetime) -> str | None:
    """Return why calls begun in `[since, until)` are not final, or None.

    Reasons are legs whose calls are not computed yet, and calls that have not ended.
    """
    backlog_state = backlog.get_state(connection)
    if backlog_state is not None and backlog_state.may_contain(clock.utc_text(since)):
        return f"{backlog_state.remaining:,} legs are not computed to calls yet"
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE started_at >= ? AND started_at < ? AND state <> 'ended'",
        (clock.utc_text(since), clock.utc_text(until)),
    ).fetchone()
    return f"{row[0]:,} of its calls have not ended" if row[0] else None
