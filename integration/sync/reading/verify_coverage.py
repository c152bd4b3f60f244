"""Command `verify --coverage`: compare all collections and days with the platform now.

Does at once the verification that the scheduler distributes over time, and repairs differences: a day with
different counts is read again, and a collection that still differs gets a full sync, which also checks
records that the platform deleted. A collection that cannot be read counts as not verified, whatever earlier
verifications found.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from integration.context import SyncContext
from integration.core import clock
from integration.core.commands import Arguments, Progress, Result, Unfinished, command
from integration.core.errors import PlatformError
from integration.mirror.sync_state import collection_state, completeness
from integration.mirror.sync_state.completeness import ENTIRE_COLLECTION
from integration.sync.plan import PLAN, Policy
from integration.sync.reading import day_counts, live_poll
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally, is_unavailable, store_failure


@command("completeness.verify")
def verify_completeness(context: SyncContext, arguments: Arguments, progress: Progress) -> Result:
    """Verify `resources`; with `every_day` list each day.

    The result has `proofs`, one of `verify_collection` for each collection, and `complete`.
    """
    results, remaining = [*arguments.get("done", ())], list(arguments["resources"])
    every_day = bool(arguments.get("every_day"))
    while remaining:
        try:
            results.append(verify_collection(context, PLAN[remaining[0]], progress, every_day=every_day))
        except Interrupted as interrupted:
            raise Unfinished({**arguments, "resources": remaining, "done": results}) from interrupted
        remaining.pop(0)
    day_counts.report_completeness(context)
    return {"proofs": results, "complete": all(one["complete"] for one in results)}


def verify_collection(
    context: SyncContext, policy: Policy, progress: Progress, *, every_day: bool
) -> dict[str, Any]:
    """Verify one collection against the platform.

    In the result `there` is the platform's count of records, `here` that of the mirror. `days` counts the
    verified UTC days, `agree` the days with equal counts, and `gaps` lists the others, with new differences.
    `came` counts records that were missing and are stored now. `off` is True if the platform refuses the
    collection, which then counts as `complete`, like one without gaps and errors. `held` counts deletions
    that wait for confirmation. `every` lists all days, if requested. Failures of the platform are part of the
    result. Raises Interrupted, StorageError.
    """
    verified_days, error, is_refused = list[str](), None, False

    def show(done: int, total: int | None) -> None:
        progress(collection=policy.collection, done=done, total=total)

    tally = Tally(show_progress=show, should_continue=lambda: progress.can_continue)
    tally.raise_if_cancelled()
    show(0, None)
    try:
        if policy.kind == "grows":
            error = _verify_history(context, policy, tally, verified_days)
        elif policy.kind == "live":
            live_poll.poll(context)
        else:
            # A list is small. A full sync, which fails unless the number of records equals the total,
            # verifies more than a count.
            run_full_sync(context, policy, tally)
    except PlatformError as failure:
        tally.raise_if_cancelled()
        error, is_refused = str(failure), is_unavailable(failure)
        store_failure(context, policy, failure)
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, policy.collection)
        row_count = collection_state.count_rows(connection, policy.resource)
        gaps = completeness.list_differences(connection, policy.collection)
        days = completeness.list_days(connection, policy.collection)
    return {
        "collection": policy.collection,
        "there": next((day.total for day in days if day.day == ENTIRE_COLLECTION), state.total),
        "here": row_count,
        "days": len(verified_days),
        "agree": len(set(verified_days) - {gap.day for gap in gaps}),
        "came": tally.inserted,
        "off": is_refused,
        "complete": is_refused or (error is None and not gaps),
        "held": state.held or 0,
        "error": error,
        "gaps": [asdict(gap) for gap in gaps],
        "every": [asdict(day) for day in days if every_day and day.day != ENTIRE_COLLECTION],
    }


def _verify_history(
    context: SyncContext, policy: Policy, tally: Tally, verified_days: list[str]
) -> str | None:
    """Verify a history; append to `verified_days` the days whose counts were compared.

    Returns the reason if it cannot be verified.
    """
    with context.mirror_db.read() as connection:
        completed_at = collection_state.get_state(connection, policy.collection).complete_at
    if completed_at is None:
        return "the initial sync is not complete; run or resume it with `switchroom sync`"
    # Records created since the last incremental sync are not a gap.
    run_incremental_sync(
        context, policy, replace(tally, show_progress=lambda _done, _total: None, changed_keys=[])
    )
    with context.mirror_db.read() as connection:
        oldest_date = completeness.find_oldest_date(
            connection, policy.resource, day_counts.retention_start(context, policy)
        )
        days = day_counts.list_days(oldest_date, clock.now())
    verified_days += days[: day_counts.verify_days(context, policy, days, tally)]
    day_counts.verify_total(context, policy)
    with context.mirror_db.read() as connection:
        gaps = completeness.list_differences(connection, policy.collection)
    if gaps:
        run_full_sync(context, policy, tally, restart=True)
        day_counts.verify_days(
            context, policy, [day.day for day in gaps if day.day != ENTIRE_COLLECTION], tally
        )
        day_counts.verify_total(context, policy)
    return None
