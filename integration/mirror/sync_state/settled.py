"""Whether all that happened in a span of time is here, by the ledger of completeness (coverage.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror.calls import backlog
from integration.mirror.sync_state import completeness as coverage
from integration.mirror.sync_state.completeness import WHOLE


def unread(connection: sqlite3.Connection, of: Resource, until: datetime) -> str | None:
    """What keeps `of` as a whole from being known as of `until` or later, in words; None where all of it was
    read since."""
    complete_at, _, trouble = _walk(connection, of)
    if trouble is None and complete_at < clock.stamp(until):
        return f"/{of.collection} was not read since {clock.stamp(until)} UTC"
    return trouble


def lacking(connection: sqlite3.Connection, of: Resource, since: datetime, until: datetime) -> str | None:
    """What keeps the records of `of` dated in `[since, until)` from being complete, in words; None where the
    platform's count and ours agreed after each of its days had ended. Only for collections that grow: of
    others no days are counted.
    """
    _, walked_from, trouble = _walk(connection, of)
    if trouble is not None:
        return trouble
    end = clock.stamp(until)
    known = {day.day: day for day in coverage.days(connection, of.collection)}
    whole = known.pop(WHOLE, None)
    names = list(_days(since, until))
    for name in names:
        proof = known.get(name)
        if proof is not None and proof.total != proof.ours:
            return f"/{of.collection} on {name}: {proof.ours:,} of {proof.total:,} records are here"
    if whole is not None and whole.total == whole.ours and whole.asked_at >= end:
        return None
    if walked_from >= end:
        return None
    # Days are asked for from the oldest record on; there is nothing before it.
    oldest = min(known, default="")
    for name in names:
        proof = known.get(name)
        # Hour 24 of a day is text behind all of it, and before the next.
        if name >= oldest and (proof is None or proof.asked_at < min(f"{name} 24", end)):
            return f"/{of.collection} on {name}: the platform's count was not compared since"
    return None


def _walk(connection: sqlite3.Connection, of: Resource) -> tuple[str, str, str | None]:
    """When all of it was last read, when that reading began ('' for never), and why none of it counts."""
    row = connection.execute(
        "SELECT complete_at, walked_from, off_since FROM _walks WHERE collection = ?", (of.collection,)
    ).fetchone()
    complete_at, walked_from, off_since = row or (None, None, None)
    trouble = None
    if off_since is not None:
        trouble = f"the platform refuses /{of.collection} since {off_since} UTC"
    elif complete_at is None:
        trouble = f"/{of.collection} was never read completely"
    return complete_at or "", walked_from or "", trouble


def _days(since: datetime, until: datetime) -> Iterator[str]:
    """The UTC days that the span touches."""
    day = since.astimezone(UTC).date()
    while clock.stamp(datetime.combine(day, time(), UTC)) < clock.stamp(until):
        yield day.isoformat()
        day += timedelta(days=1)


def unfinished(connection: sqlite3.Connection, since: datetime, until: datetime) -> str | None:
    """What keeps the calls that began in `[since, until)` from being what their records tell, in words; None
    where nothing does."""
    waiting = backlog.waiting(connection)
    if waiting is not None and waiting.within(clock.stamp(since)):
        return f"{waiting.left:,} legs of calls are still being put together"
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE started_at >= ? AND started_at < ? AND state <> 'ended'",
        (clock.stamp(since), clock.stamp(until)),
    ).fetchone()
    return f"{row[0]} of its calls are still going on" if row[0] else None
