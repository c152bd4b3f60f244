"""UTC offsets of time zones, for local times in SQL.

SQLite does not convert to named time zones, and the views call no function of the product. The table
`_zone_offsets` therefore has each time at which the offset of `dashboard.timezone` changes.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
-- Offset of the display zone from the UTC time `since`, until the next row. `since` of the first row is ''.
CREATE TABLE IF NOT EXISTS _zone_offsets (
    since TEXT PRIMARY KEY, offset_seconds INTEGER NOT NULL, utc_offset TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

FIRST_YEAR = 1970
"""Year of the first stored change. Earlier times have the offset of its first day."""
YEARS_AHEAD = 10
"""Years after the present one with stored changes. Later times have the last stored offset."""

_STEP = timedelta(days=7)
"""Distance of the compared times. No time zone has had two changes in a week since FIRST_YEAR."""

Offset = tuple[str, int, str]
"""Row of `_zone_offsets`: (UTC text, seconds, '+HH:MM')."""


def update(mirror_db: Database, zone: ZoneInfo) -> None:
    """Store the offsets of `zone` if they differ from the stored ones.

    They differ after a change of `dashboard.timezone`, in a new year, and with new rules of the time zone.
    """
    offsets = compute_offsets(zone, clock.now().year + YEARS_AHEAD)
    with mirror_db.read() as connection:
        stored = [tuple(row) for row in connection.execute("SELECT * FROM _zone_offsets ORDER BY since")]
    if stored == list(offsets):
        return

    def work(tx: Transaction) -> None:
        tx.execute("DELETE FROM _zone_offsets")
        tx.executemany("INSERT INTO _zone_offsets VALUES (?, ?, ?)", offsets)

    mirror_db.write(work)


@lru_cache(maxsize=8)
def compute_offsets(zone: ZoneInfo, last_year: int) -> tuple[Offset, ...]:
    """Return the offsets of `zone`, in order of time.

    They reach from FIRST_YEAR to the end of `last_year`.
    """
    moment, end = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    offset = _find_offset(moment, zone)
    offsets = [_make_offset("", offset)]
    while moment < end:
        next_moment = moment + _STEP
        if (next_offset := _find_offset(next_moment, zone)) != offset:
            change = _find_change(moment, next_moment, zone)
            offsets.append(_make_offset(clock.utc_text(change), next_offset))
        moment, offset = next_moment, next_offset
    return tuple(offsets)


def _find_change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the first second with the offset of `after`."""
    offset, seconds = _find_offset(after, zone), range(int((after - before).total_seconds()))

    def is_changed(second: int) -> bool:
        return _find_offset(before + timedelta(seconds=second), zone) == offset

    return before + timedelta(seconds=bisect_left(seconds, True, key=is_changed))


def _find_offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _make_offset(since: str, offset: timedelta) -> Offset:
    seconds = int(offset.total_seconds())
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return since, seconds, f"{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}"
