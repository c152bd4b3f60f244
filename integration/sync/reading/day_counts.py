"""Verify completeness by the platform's record count of each day.

The counts are compared with those of the mirror. A day with different counts is read again, in closed
windows. If the counts still differ, the day is a gap and stored with its cause
(mirror/sync_state/completeness.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.mirror.privacy.retention_rules import RetentionLimits
from integration.mirror.sync_state import collection_state, completeness
from integration.mirror.sync_state.completeness import ENTIRE_COLLECTION
from integration.sync.context import SyncContext
from integration.sync.plan import DAY, HOUR, Policy, is_due
from integration.sync.reading import windows
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Tally, store_window

log = logging.getLogger(__name__)

DAILY_CHECK_DAYS = 35
"""Age in days below which a day is verified daily.

Older days are verified weekly, the last two hourly.
"""

MAX_DAYS_PER_RUN = 60
"""Maximum number of days that one run verifies of one collection, newest first."""


FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)
"""End of the window that counts a collection without an upper limit."""


def verify_due_days(context: SyncContext, policy: Policy, tally: Tally | None = None) -> int:
    """Compare due days and a due total with the platform's counts.

    Days that differ are read again. Returns the number of comparisons. Does nothing before the initial sync
    is complete or while the platform refuses the collection. Raises PlatformError; days without a result stay
    due.
    """
    tally = tally or Tally()
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, policy.collection)
        oldest_date = completeness.find_oldest_date(
            connection, policy.resource, retention_start(context, policy)
        )
        verified_at_by_day = completeness.get_comparison_times(connection, policy.collection)
    if state.complete_at is None or state.off_since is not None:
        return 0
    verified_count = verify_days(
        context, policy, list_due_days(oldest_date, verified_at_by_day, clock.now()), tally
    )
    if is_due(verified_at_by_day.get(ENTIRE_COLLECTION), HOUR):
        verify_total(context, policy)
        verified_count += 1
    return verified_count


def verify_days(context: SyncContext, policy: Policy, days: Sequence[str], tally: Tally) -> int:
    """Verify the UTC days `days`.

    Returns the number of verified days. Raises PlatformError. Stops at a day for which the platform refuses
    the time filter with 400.
    """
    for index, day in enumerate(days):
        tally.raise_if_cancelled()
        try:
            verify_day(context, policy, day, tally)
        except PlatformRefused as error:
            if error.status != 400:
                raise
            log.info("%s; verifying only the total of the collection", error)
            return index
        tally.show_progress(index + 1, len(days))
    return len(days)


def retention_start(context: SyncContext, policy: Policy) -> str | None:
    """Return the UTC text before which retention deletes records, or None.

    Deleted records are not a gap.
    """
    return RetentionLimits(context.settings.retention).for_table(policy.resource.table)


def list_days(oldest: str | None, now: datetime) -> list[str]:
    """List the UTC days from today back to `oldest`.

    `oldest` is UTC text.
    """
    first_day = clock.parse_utc((oldest or "")[:10])
    if first_day is None:
        return []
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return [clock.utc_text(today - timedelta(days=age))[:10] for age in range((today - first_day).days + 1)]


def list_due_days(oldest: str | None, verified_at_by_day: dict[str, str], now: datetime) -> list[str]:
    """List the days whose verification is due, newest first, at most MAX_DAYS_PER_RUN."""
    due_dates = [
        day
        for age, day in enumerate(list_days(oldest, now))
        if is_due(verified_at_by_day.get(day), _get_check_interval(age), now)
    ]
    return due_dates[:MAX_DAYS_PER_RUN]


def _get_check_interval(age_days: int) -> float:
    if age_days < 2:
        return HOUR
    return DAY if age_days < DAILY_CHECK_DAYS else 7 * DAY


def verify_day(context: SyncContext, policy: Policy, day: str, tally: Tally) -> None:
    """Compare the counts of `day` and read it again if they differ.

    Raises PlatformError.
    """
    lo = datetime.fromisoformat(day).replace(tzinfo=UTC)
    hi = lo + timedelta(days=1)
    platform_count, local_count = _count_between(context, policy, lo, hi)
    cause = repair = None
    if platform_count != local_count:
        inserted_before = tally.inserted
        for window in windows.read_closed(context.platform, policy.resource, lo, hi):
            store_window(context, policy, window, tally)
            tally.raise_if_cancelled()
        previous_count = local_count
        platform_count, local_count = _count_between(context, policy, lo, hi)
        repair = f"read again at {clock.utc_text()}: {tally.inserted - inserted_before:,} records added"
        if platform_count != local_count:
            cause = (
                tally.unreadable[-1] if tally.unreadable else _explain_difference(platform_count, local_count)
            )
        log.info(
            "/%s on %s: %d records in the mirror, %d on the platform; %s",
            policy.collection,
            day,
            previous_count,
            platform_count,
            repair,
        )
    context.mirror_db.write(
        lambda tx: completeness.save_day(
            tx, policy.collection, day, platform_count, local_count, cause, repair
        )
    )


def report_completeness(context: SyncContext) -> None:
    """Publish the completeness of the mirror as fact `coverage` of /readyz."""
    with context.mirror_db.read() as connection:
        collections = [
            collection for collection in completeness.list_collections(connection) if not collection.is_live
        ]
    context.health.set_fact(
        "coverage",
        {
            "collections": len(collections),
            "complete": sum(1 for collection in collections if collection.complete_at is not None),
            "days": sum(collection.day_count for collection in collections),
            "days_proved": sum(collection.verified_days for collection in collections),
            "gaps": sum(len(collection.gaps) for collection in collections),
            "proved_at": max(
                (collection.verified_at for collection in collections if collection.verified_at), default=None
            ),
        },
    )


def verify_total(context: SyncContext, policy: Policy) -> None:
    """Compare the total counts of a collection. Raises PlatformError.

    Records without a date or with an absurd date are in no day.
    """
    platform_count, local_count = _count_collection(context, policy)
    if platform_count != local_count:
        # Records created since the last incremental sync are not a gap.
        run_incremental_sync(context, policy)
        platform_count, local_count = _count_collection(context, policy)
    cause = _explain_difference(platform_count, local_count) if platform_count != local_count else None
    context.mirror_db.write(
        lambda tx: completeness.save_day(
            tx, policy.collection, ENTIRE_COLLECTION, platform_count, local_count, cause
        )
    )


def _count_collection(context: SyncContext, policy: Policy) -> tuple[int, int]:
    since = clock.parse_utc(retention_start(context, policy))
    if since is not None:
        return _count_between(context, policy, since, FAR_FUTURE)
    platform_count = windows.count_records(context.platform, policy.resource, [])
    with context.mirror_db.read() as connection:
        local_count = collection_state.count_rows(connection, policy.resource) - completeness.count_kept_rows(
            connection, policy.resource
        )
    return platform_count, local_count


def _count_between(context: SyncContext, policy: Policy, lo: datetime, hi: datetime) -> tuple[int, int]:
    """Count `[lo, hi)` on the platform and in the mirror."""
    platform_count = windows.count_records(
        context.platform, policy.resource, windows.make_date_conditions(policy.resource, lo, hi)
    )
    with context.mirror_db.read() as connection:
        local_count = completeness.count_between(
            connection, policy.resource, clock.utc_text(lo), clock.utc_text(hi)
        )
    return platform_count, local_count


def _explain_difference(platform_count: int, local_count: int) -> str:
    if local_count > platform_count:
        return (
            f"the mirror has {local_count - platform_count:,} records that the platform no longer counts; "
            "the next full sync checks them"
        )
    return (
        f"the platform counts {platform_count - local_count:,} records more than it lists; "
        "the next verification repeats the comparison"
    )
