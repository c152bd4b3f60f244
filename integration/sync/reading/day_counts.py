"""Proving that what the platform lists is here: its own count of each day against ours (mirror/coverage.py).

Where they differ the day is read again, in closed windows. What differs still is a gap, with its cause.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.mirror.privacy.retention_rules import Limits
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import completeness as coverage
from integration.mirror.sync_state.completeness import WHOLE
from integration.sync.context import Parts
from integration.sync.plan import DAY, HOUR, Policy
from integration.sync.reading import windows
from integration.sync.reading.incremental_sync import look_back
from integration.sync.reading.page_store import Tally, store

log = logging.getLogger(__name__)

WARM_DAYS = 35
"""Days that are asked for daily; older ones weekly, the last two hourly."""

MOST_DAYS = 60
"""Days of one collection that one run asks for, the newest first."""


END = datetime(9999, 1, 1, tzinfo=UTC)


def prove(parts: Parts, policy: Policy, tally: Tally | None = None) -> int:
    """Ask for the days that are due, and for the whole; returns how many. Nothing before a first walk is
    complete. Raises PlatformError; what was not answered is due again."""
    tally = tally or Tally()
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, policy.collection)
        oldest = coverage.oldest(connection, policy.resource, kept_since(parts, policy))
        asked = coverage.asked(connection, policy.collection)
    if state.complete_at is None or state.off_since is not None:
        return 0
    done = prove_days(parts, policy, due_days(oldest, asked, clock.now()), tally)
    if not clock.stamp(clock.unix() - HOUR) < asked.get(WHOLE, "") <= clock.stamp():
        prove_whole(parts, policy)
        done += 1
    return done


def prove_days(parts: Parts, policy: Policy, days: Sequence[str], tally: Tally) -> int:
    """Ask for these UTC days; returns how many, which is fewer where the platform can't filter by time.
    Raises PlatformError."""
    for number, day in enumerate(days):
        tally.check()
        try:
            prove_day(parts, policy, day, tally)
        except PlatformRefused as error:
            if error.status != 400:
                raise
            log.info("%s; only the whole of it can be proved", error)
            return number
        tally.show(number + 1, len(days))
    return len(days)


def kept_since(parts: Parts, policy: Policy) -> str | None:
    """Where retention lets older records go: that they are not here is no gap. None: all are kept."""
    return Limits(parts.settings.retention).rows(policy.resource.table)


def every_day(oldest: str | None, now: datetime) -> list[str]:
    """UTC days from today back to the oldest record's."""
    begin = clock.parse_stamp((oldest or "")[:10])
    if begin is None:
        return []
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return [clock.stamp(today - timedelta(days=age))[:10] for age in range((today - begin).days + 1)]


def due_days(oldest: str | None, asked: dict[str, str], now: datetime) -> list[str]:
    """Those of them that were not asked for lately enough, MOST_DAYS at most."""
    due: list[str] = []
    for age, day in enumerate(every_day(oldest, now)):
        seconds = HOUR if age < 2 else DAY if age < WARM_DAYS else 7 * DAY
        if not clock.stamp(now - timedelta(seconds=seconds)) < asked.get(day, "") <= clock.stamp(now):
            due.append(day)
    return due[:MOST_DAYS]


def prove_day(parts: Parts, policy: Policy, day: str, tally: Tally) -> None:
    """One day; read again where the counts differ. Raises PlatformError."""
    lo = datetime.fromisoformat(day).replace(tzinfo=UTC)
    hi = lo + timedelta(days=1)
    total, ours = _counts(parts, policy, lo, hi)
    cause = repair = None
    if total != ours:
        before = tally.inserted
        for window in windows.closed(parts.platform, policy.resource, lo, hi):
            store(parts, policy, window, tally)
            tally.check()
        had = ours
        total, ours = _counts(parts, policy, lo, hi)
        repair = f"read again at {clock.stamp()}: {tally.inserted - before:,} records came"
        if total != ours:
            cause = _cause(total, ours)
        log.info("/%s on %s: %d here, %d there; %s", policy.collection, day, had, total, repair)
    parts.mirror.write(lambda tx: coverage.note(tx, policy.collection, day, total, ours, cause, repair))


def tell(parts: Parts) -> None:
    """How complete the mirror is, for /readyz."""
    with parts.mirror.read() as connection:
        lines = [line for line in coverage.ledger(connection) if not line.live]
    parts.health.fact(
        "coverage",
        {
            "collections": len(lines),
            "complete": sum(1 for line in lines if line.complete_at is not None),
            "days": sum(line.days for line in lines),
            "days_proved": sum(line.proved for line in lines),
            "gaps": sum(len(line.gaps) for line in lines),
            "proved_at": max((line.proved_at for line in lines if line.proved_at), default=None),
        },
    )


def prove_whole(parts: Parts, policy: Policy) -> None:
    """All of it: records without a date, or with an absurd one, are in no day. Raises PlatformError."""
    total, ours = _whole_counts(parts, policy)
    if total != ours:
        # What came since the last look-back is no gap.
        look_back(parts, policy)
        total, ours = _whole_counts(parts, policy)
    cause = _cause(total, ours) if total != ours else None
    parts.mirror.write(lambda tx: coverage.note(tx, policy.collection, WHOLE, total, ours, cause))


def _whole_counts(parts: Parts, policy: Policy) -> tuple[int, int]:
    since = clock.parse_stamp(kept_since(parts, policy))
    if since is not None:
        return _counts(parts, policy, since, END)
    total = windows.count(parts.platform, policy.resource, [])
    with parts.mirror.read() as connection:
        ours = walks.count_rows(connection, policy.resource) - coverage.kept(connection, policy.resource)
    return total, ours


def _counts(parts: Parts, policy: Policy, lo: datetime, hi: datetime) -> tuple[int, int]:
    """The platform's count and ours of `[lo, hi)`."""
    total = windows.count(parts.platform, policy.resource, windows.within(policy.resource, lo, hi))
    with parts.mirror.read() as connection:
        ours = coverage.between(connection, policy.resource, clock.stamp(lo), clock.stamp(hi))
    return total, ours


def _cause(total: int, ours: int) -> str:
    if ours > total:
        return f"{ours - total:,} records here are counted no longer; the next complete walk settles them"
    return f"the platform counts {total - ours:,} more than it lists; asked again at the next proof"
