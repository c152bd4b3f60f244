"""Verify completeness by the platform's record count of each day.

The counts are compared with those of the mirror. A day with different counts is read again, in closed
windows, and the deletion of records that this reading missed is confirmed (deletions.py). If the counts still
differ, the day is a gap and stored with its cause (mirror/sync_state/completeness.py). The total of the
collection is compared more often than most days; if it differs, the days that cause the difference are found
by halving the time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.mirror.privacy.retention_rules import RetentionLimits
from integration.mirror.records import missing_records
from integration.mirror.sync_state import collection_state, completeness
from integration.mirror.sync_state.completeness import ENTIRE_COLLECTION
from integration.sync.plan import DAY, HOUR, Policy, is_due
from integration.sync.reading import deletions
from integration.sync.reading.collection_reader import CollectionReader, try_query
from integration.sync.reading.deletions import DayReading
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Tally, store_window

log = logging.getLogger(__name__)

DAILY_CHECK_DAYS = 35
"""Age in days below which a day is verified daily.

Older days are verified weekly, the last two hourly.
"""

TOTAL_CHECK_SECONDS = HOUR / 2
"""Seconds between comparisons of the total of a collection.

With one request they show whether any record was deleted. With those of the day and its second reading, a
deletion is confirmed within an hour.
"""

MAX_DAYS_PER_RUN = 60
"""Maximum number of days that one run verifies of one collection, newest first."""


FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)
"""End of the window that counts a collection without an upper limit."""


def verify_due_days(context: SyncContext, policy: Policy, tally: Tally | None = None) -> int:
    """Compare due days and a due total with the platform's counts.

    Days that differ are read again, also those that a different total leads to. Returns the number of
    comparisons. Does nothing before the initial sync is complete or while the platform refuses the
    collection. Raises PlatformError; days without a result stay due.
    """
    tally = tally or Tally()
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, policy.collection)
        oldest_date = completeness.find_oldest_date(
            connection, policy.resource, retention_start(context, policy)
        )
        verified_at_by_day = {
            one.day: one.asked_at for one in completeness.list_days(connection, policy.collection)
        }
        new_differences = {
            one.day for one in completeness.list_differences(connection, policy.collection) if one.recheck_at
        }
        suspected_days = missing_records.list_suspected_days(connection, policy.resource)
    if state.complete_at is None or state.off_since is not None:
        return 0
    # A suspected record is confirmed or found by the second reading of its day.
    unconfirmed_days = [day for day in list_days(oldest_date, clock.now()) if day in suspected_days]
    due_days = list_due_days(oldest_date, verified_at_by_day, clock.now(), new_differences)
    verified_count = verify_days(context, policy, list(dict.fromkeys([*unconfirmed_days, *due_days])), tally)
    if unconfirmed_days or is_due(
        verified_at_by_day.get(ENTIRE_COLLECTION),
        completeness.RECHECK_SECONDS if ENTIRE_COLLECTION in new_differences else TOTAL_CHECK_SECONDS,
    ):
        verified_count += 1
        if not verify_total(context, policy) and (days := _find_new_gaps(context, policy, oldest_date)):
            verified_count += verify_days(context, policy, days, tally)
            verify_total(context, policy)
    return verified_count


def verify_days(context: SyncContext, policy: Policy, days: Sequence[str], tally: Tally) -> int:
    """Verify the UTC days `days`, and confirm deletions.

    Returns the number of verified days. Raises PlatformError. Stops at a day for which the platform refuses
    the time filter with 400.
    """
    verified_count = 0
    readings_by_day: dict[str, DayReading] = {}
    for day in days:
        tally.raise_if_cancelled()
        try:
            reading = verify_day(context, policy, day, tally)
        except PlatformRefused as error:
            if error.status != 400:
                raise
            log.info("%s; verifying only the total of the collection", error)
            break
        verified_count += 1
        if reading is not None:
            readings_by_day[day] = reading
        tally.show_progress(verified_count, len(days))
    # A record without a readable key may be a stored record, so no record can be called missing.
    if readings_by_day and not tally.keyless and not tally.unreadable:
        deletions.confirm_missing_of_days(context, policy, list(readings_by_day.values()), tally)
        for day in readings_by_day:
            _recount_day(context, policy, day)
    return verified_count


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


def list_due_days(
    oldest: str | None,
    verified_at_by_day: dict[str, str],
    now: datetime,
    new_differences: Collection[str] = (),
) -> list[str]:
    """List the days whose verification is due, newest first, at most MAX_DAYS_PER_RUN.

    `new_differences`: days that are checked again after RECHECK_SECONDS.
    """
    due_dates = [
        day
        for age, day in enumerate(list_days(oldest, now))
        if is_due(
            verified_at_by_day.get(day),
            completeness.RECHECK_SECONDS if day in new_differences else _get_check_interval(age),
            now,
        )
    ]
    return due_dates[:MAX_DAYS_PER_RUN]


def _get_check_interval(age_days: int) -> float:
    if age_days < 2:
        return HOUR
    return DAY if age_days < DAILY_CHECK_DAYS else 7 * DAY


def verify_day(context: SyncContext, policy: Policy, day: str, tally: Tally) -> DayReading | None:
    """Compare the counts of `day` and read it again if they differ.

    Returns the reading if the mirror then has more records than the platform. Raises PlatformError.
    """
    lo, hi = _get_bounds(day)
    read_from = clock.utc_text()
    platform_count, local_count = _count_between(context, policy, lo, hi)
    cause = repair = None
    if platform_count != local_count:
        inserted_before, unreadable_before = tally.inserted, len(tally.unreadable)
        for window in CollectionReader(context.platform, policy.resource).between(lo, hi):
            store_window(context, policy, window, tally)
            tally.raise_if_cancelled()
        previous_count = local_count
        platform_count, local_count = _count_between(context, policy, lo, hi)
        repair = f"read again at {clock.utc_text()}: {tally.inserted - inserted_before:,} records added"
        if platform_count != local_count:
            unreadable = tally.unreadable[unreadable_before:]
            cause = unreadable[-1] if unreadable else _explain_difference(platform_count, local_count)
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
    if local_count <= platform_count:
        return None
    return DayReading(clock.utc_text(lo), clock.utc_text(hi), read_from)


def _recount_day(context: SyncContext, policy: Policy, day: str) -> None:
    """Store the counts of a day whose deletions were confirmed."""
    platform_count, local_count = _count_between(context, policy, *_get_bounds(day))
    cause = _explain_difference(platform_count, local_count) if platform_count != local_count else None
    context.mirror_db.write(
        lambda tx: completeness.save_day(tx, policy.collection, day, platform_count, local_count, cause)
    )


def _get_bounds(day: str) -> tuple[datetime, datetime]:
    since = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return since, since + timedelta(days=1)


def _find_new_gaps(context: SyncContext, policy: Policy, oldest_date: str | None) -> list[str]:
    """Return the days that differ, newest first, at most MAX_DAYS_PER_RUN.

    None if known differences explain that of the totals, if it exceeds the deletion limit, or if the
    platform cannot filter by time. Two differences of one span that cancel each other are not found; each day
    is still compared on its own from time to time. Raises PlatformError.
    """
    with context.mirror_db.read() as connection:
        differences = completeness.list_differences(connection, policy.collection)
        missing_count = completeness.count_missing(connection, policy.collection)
        present_count = collection_state.count_rows(connection, policy.resource)
    known_difference = sum(one.total - one.ours for one in differences if one.day != ENTIRE_COLLECTION)
    total_difference = sum(one.total - one.ours for one in differences if one.day == ENTIRE_COLLECTION)
    if known_difference == total_difference or missing_count > deletions.get_deletion_limit(present_count):
        return []
    return try_query(lambda: _halve_to_gaps(context, policy, list_days(oldest_date, clock.now()))) or []


def _halve_to_gaps(context: SyncContext, policy: Policy, days: list[str]) -> list[str]:
    found: list[str] = []
    spans = [days] if days else []
    while spans and len(found) < MAX_DAYS_PER_RUN:
        span = spans.pop()
        platform_count, local_count = _count_between(
            context, policy, _get_bounds(span[-1])[0], _get_bounds(span[0])[1]
        )
        if platform_count == local_count:
            continue
        if len(span) == 1:
            found += span
        else:
            middle = len(span) // 2
            spans += [span[middle:], span[:middle]]
    return found


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
            "gaps": sum(collection.gap_count for collection in collections),
            "proved_at": max(
                (collection.verified_at for collection in collections if collection.verified_at), default=None
            ),
        },
    )


def verify_total(context: SyncContext, policy: Policy) -> bool:
    """Compare the total counts of a collection.

    Returns whether they are equal. Raises PlatformError. Records without a date or with an absurd date are in
    no day.
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
    return cause is None


def _count_collection(context: SyncContext, policy: Policy) -> tuple[int, int]:
    since = clock.parse_utc(retention_start(context, policy))
    if since is not None:
        return _count_between(context, policy, since, FAR_FUTURE)
    platform_count = CollectionReader(context.platform, policy.resource).count()
    with context.mirror_db.read() as connection:
        local_count = collection_state.count_rows(connection, policy.resource) - completeness.count_kept_rows(
            connection, policy.resource
        )
    return platform_count, local_count


def _count_between(context: SyncContext, policy: Policy, lo: datetime, hi: datetime) -> tuple[int, int]:
    """Count `[lo, hi)` on the platform and in the mirror."""
    reader = CollectionReader(context.platform, policy.resource)
    platform_count = reader.count(reader.date_conditions(lo, hi))
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
