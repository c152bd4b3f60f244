"""Requests per day of the sync plan, and the plan as Markdown.

`python -m tests.sync.plan_cost` prints the table of docs/sync.md for the default settings.
"""

from __future__ import annotations

from math import ceil

from integration.settings.model import Settings, load
from integration.sync.plan import (
    DAY,
    HOUR,
    KEYLESS_ROWS_PER_INTERVAL,
    LIST_REFRESH_SECONDS,
    OLD_RECORD_DAYS,
    PLAN,
    ROTATION_SECONDS,
    SUBRESOURCES,
    Policy,
)
from integration.sync.reading.day_counts import TOTAL_CHECK_SECONDS
from integration.sync.reading.incremental_sync import RECENT_PAGE_SIZE
from integration.sync.reading.rotation import ROTATION_STEP

OFFICE = {"users": 30, "queues": 4, "ringgroups": 8, "ddis": 30, "cdrs": 600, "notes": 20}
"""Records of a usual office that are read one by one, by collection."""
HOURS_WITH_CALLS = 4.0
"""Hours a day with at least one open call."""
DEFAULT_SETTINGS = load(
    None,
    {
        "SWITCHROOM_PLATFORM__BASE_URL": "https://platform.example.com/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
    },
)


def estimate_requests_per_day(policy: Policy, settings: Settings) -> int:
    """Estimate the requests per day for one collection, in OFFICE.

    A full sync counts as one request, although a long collection needs one per page.
    """
    if policy.kind == "live":
        polls = HOURS_WITH_CALLS * HOUR / settings.sync.live_interval
        idle_polls = (24 - HOURS_WITH_CALLS) * HOUR / LIST_REFRESH_SECONDS
        # One request for each leg that a webhook reports before a poll.
        return round(polls + idle_polls + OFFICE["cdrs"])
    cost = DAY / policy.full_sync_seconds(settings)
    if policy.kind == "grows":
        # One request above the high-water mark and one for the overlap.
        cost += 2 * DAY / policy.incremental_sync_seconds(settings)
        if policy.refresh is not None:
            seconds, days = policy.refresh
            records = OFFICE.get(policy.collection, 0) * days
            cost += max(1, ceil(records / RECENT_PAGE_SIZE)) * DAY / seconds
            records = OFFICE.get(policy.collection, 0) * (OLD_RECORD_DAYS - days)
            pages = max(ceil((OLD_RECORD_DAYS - days) / ROTATION_STEP.days), ceil(records / RECENT_PAGE_SIZE))
            cost += pages * DAY / ROTATION_SECONDS
        # Day counts: today and yesterday hourly, five weeks daily, older days weekly, and the total.
        cost += 2 * 24 + 33 + 365 / 7 + DAY / TOTAL_CHECK_SECONDS
    if policy.reads_items:
        cost += OFFICE[policy.collection] * DAY / settings.sync.full_interval
    for subresource in SUBRESOURCES.values():
        if subresource.collection == policy.collection:
            records = OFFICE[subresource.name if subresource.count_field else subresource.collection]
            cost += records * DAY / subresource.interval_seconds
    return round(cost)


def render_table(settings: Settings) -> str:
    """Return the plan as a Markdown table, as in docs/sync.md, with equal collections in one row."""
    lines = [
        "| Collection | New records appear within | Full sync | Refresh | Other requests | Requests a day |",
        "|---|---|---|---|---|---|",
    ]
    collections: dict[tuple[str, int], list[str]] = {}
    for policy in PLAN.values():
        row = _format_cells(policy, settings), estimate_requests_per_day(policy, settings)
        collections.setdefault(row, []).append(f"`/{policy.collection}`")
    for (cells, cost), names in collections.items():
        each = " each" if len(names) > 1 else ""
        lines.append(f"| {', '.join(names)} | {cells} | {cost:,}{each} |")
    total = sum(cost * len(names) for (_, cost), names in collections.items())
    budget = round(settings.sync.max_requests_per_minute * DAY / 60)
    lines.append(f"| all | | | | of {budget:,} allowed by `sync.max_requests_per_minute` | {total:,} |")
    return "\n".join(lines)


def _format_cells(policy: Policy, settings: Settings) -> str:
    if policy.kind == "live":
        poll_interval = (
            f"{_format_duration(settings.sync.live_interval)} while calls are open, "
            f"otherwise {_format_duration(LIST_REFRESH_SECONDS)}"
        )
        return (
            f"at once by webhook, otherwise {poll_interval} | with each poll | – | "
            "the path of a call that a webhook reported first, and of a call that is missing from the list"
        )
    full_sync_interval = _format_duration(policy.full_sync_seconds(settings))
    refresh_text = other_reads = "–"
    incremental_interval = full_sync_interval
    if policy.kind == "grows":
        incremental_interval = _format_duration(policy.incremental_sync_seconds(settings))
        other_reads = "day counts"
        if policy.refresh is not None:
            refresh_text = (
                f"the last {policy.refresh[1]} days every {_format_duration(policy.refresh[0])}, "
                f"then up to {OLD_RECORD_DAYS} days every {_format_duration(ROTATION_SECONDS)}"
            )
    if policy.item_key is not None:
        other_reads = (
            f"each record by `{policy.item_key}` when new or changed, "
            f"all every {_format_duration(settings.sync.full_interval)}"
        )
    for subresource in SUBRESOURCES.values():
        if subresource.collection == policy.collection:
            other_reads += f"; {subresource.name} every {_format_duration(subresource.interval_seconds)}"
            if policy.resource.date is not None:
                other_reads += (
                    f", of older records every {_format_duration(subresource.old_interval_seconds)}"
                )
    if policy.resource.key is None and policy.kind == "settings":
        other_reads = f"no keys: replaced completely; less often above {KEYLESS_ROWS_PER_INTERVAL:,} records"
    return f"{incremental_interval} | every {full_sync_interval} | {refresh_text} | {other_reads}"


def _format_duration(seconds: float) -> str:
    for unit, unit_seconds in (("day", DAY), ("hour", HOUR), ("min", 60.0)):
        if seconds >= unit_seconds:
            number = seconds / unit_seconds
            return f"{number:g} {unit}{'s' if unit == 'day' and number != 1 else ''}"
    return f"{seconds:g} s"


if __name__ == "__main__":
    print(render_table(DEFAULT_SETTINGS))
