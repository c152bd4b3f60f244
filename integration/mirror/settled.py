"""Whether all that happened in a span of time is here, by the ledger of completeness (coverage.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

from integration import clock
from integration.catalogue.shapes import Resource
from integration.mirror import coverage
from integration.mirror.coverage import WHOLE


def lacking(connection: sqlite3.Connection, of: Resource, since: datetime, until: datetime) -> str | None:
    """What keeps the records of `of` dated in `[since, until)` from being complete, in words; None where the
    platform's count and ours agreed after each of its days had ended.

    A collection without a date is complete when all of it was read after `until`.
    """
    state = connection.execute(
        "SELECT complete_at, walked_from, off_since FROM _walks WHERE collection = ?", (of.collection,)
    ).fetchone()
    if state is not None and state["off_since"] is not None:
        return f"the platform refuses /{of.collection} since {state['off_since']} UTC"
    if state is None or state["complete_at"] is None:
        return f"/{of.collection} was never read completely"
    end = clock.stamp(until)
    if of.date is None:
        return None if state["complete_at"] >= end else f"/{of.collection} was not read since {end} UTC"
    known = {day.day: day for day in coverage.days(connection, of.collection)}
    whole = known.pop(WHOLE, None)
    names = list(_days(since, until))
    for name in names:
        proof = known.get(name)
        if proof is not None and proof.total != proof.ours:
            return f"/{of.collection} on {name}: {proof.ours:,} of {proof.total:,} records are here"
    if whole is not None and whole.total == whole.ours and whole.asked_at >= end:
        return None
    if (state["walked_from"] or "") >= end:
        return None
    # Days are asked for from the oldest record on; there is nothing before it.
    oldest = min(known, default="")
    for name in names:
        proof = known.get(name)
        # Hour 24 of a day is text behind all of it, and before the next.
        if name >= oldest and (proof is None or proof.asked_at < min(f"{name} 24", end)):
            return f"/{of.collection} on {name}: the platform's count was not compared since"
    return None


def _days(since: datetime, until: datetime) -> Iterator[str]:
    """The UTC days that the span touches."""
    day = since.astimezone(UTC).date()
    while clock.stamp(datetime.combine(day, time(), UTC)) < clock.stamp(until):
        yield day.isoformat()
        day += timedelta(days=1)


def going_on(connection: sqlite3.Connection, since: datetime, until: datetime) -> int:
    """Calls that began in `[since, until)` and have not ended."""
    row = connection.execute(
        "SELECT count(*) FROM _calls WHERE started_at >= ? AND started_at < ? AND state <> 'ended'",
        (clock.stamp(since), clock.stamp(until)),
    ).fetchone()
    return int(row[0])
