"""What the plan costs the platform in requests a day, and the plan as a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from integration.settings.model import Settings
from integration.sync.plan import (
    DAY,
    HOUR,
    KEYLESS_ROWS_PER_INTERVAL,
    LIST_REFRESH_SECONDS,
    PLAN,
    SUBRESOURCES,
    Policy,
)


@dataclass(frozen=True, slots=True)
class OfficeProfile:
    """A quiet office, to reckon by: `records` it has of what is read one by one."""

    records: dict[str, int]
    hours_with_calls: float = 4.0
    """Hours of a day in which at least one call is open."""


TYPICAL_OFFICE = OfficeProfile(
    {"users": 30, "queues": 4, "ringgroups": 8, "ddis": 30, "cdrs": 600, "notes": 20}
)


def estimate_requests_per_day(
    policy: Policy, settings: Settings, office: OfficeProfile = TYPICAL_OFFICE
) -> int:
    """What a collection costs a day with these settings, pages of a full load apart."""
    if policy.kind == "live":
        polls = office.hours_with_calls * HOUR / settings.sync.live_interval
        return round(polls + (24 - office.hours_with_calls) * HOUR / LIST_REFRESH_SECONDS)
    cost = DAY / policy.full_sync_seconds(settings)
    if policy.kind == "grows":
        # Beyond the mark, and what overlaps.
        cost += 2 * DAY / policy.incremental_sync_seconds(settings)
        if policy.refresh is not None:
            cost += DAY / policy.refresh[0]
        # Proofs: today and yesterday hourly, five weeks daily, older days weekly, the whole hourly.
        cost += 2 * 24 + 33 + 365 / 7 + 24
    if policy.reads_items:
        cost += office.records[policy.collection] * DAY / settings.sync.full_interval
    for subresource in SUBRESOURCES.values():
        if subresource.collection == policy.collection and subresource.interval_seconds is not None:
            records = office.records[subresource.name if subresource.count_field else subresource.collection]
            cost += records * DAY / subresource.interval_seconds
    return round(cost)


def render_table(settings: Settings) -> str:
    """The plan as a Markdown table, for docs/sync.md."""
    lines = [
        "| Collection | New ones come within | All of it is read | Read again | Besides | Requests a day |",
        "|---|---|---|---|---|---|",
    ]
    total = 0
    for policy in PLAN.values():
        cost = estimate_requests_per_day(policy, settings)
        total += cost
        lines.append(f"| `/{policy.collection}` | {_format_cells(policy, settings)} | {cost:,} |")
    budget = round(settings.sync.max_requests_per_minute * DAY / 60)
    lines.append(f"| all | | | | of {budget:,} that `sync.max_requests_per_minute` allows | {total:,} |")
    return "\n".join(lines)


def _format_cells(policy: Policy, settings: Settings) -> str:
    if policy.kind == "live":
        poll_interval = (
            f"{_format_duration(settings.sync.live_interval)} while calls are open, "
            f"else {_format_duration(LIST_REFRESH_SECONDS)}"
        )
        return (
            f"at once by webhook, else {poll_interval} | with each poll | – | "
            "a leg missing from the list by its path"
        )
    full_sync_interval = _format_duration(policy.full_sync_seconds(settings))
    refresh_text = other_reads = "–"
    incremental_interval = full_sync_interval
    if policy.kind == "grows":
        incremental_interval = _format_duration(policy.incremental_sync_seconds(settings))
        other_reads = "each day proved by the platform's count"
        if policy.refresh is not None:
            refresh_text = f"{policy.refresh[1]} days back every {_format_duration(policy.refresh[0])}"
    if policy.item_key is not None:
        other_reads = (
            f"each by `{policy.item_key}` when new or changed, "
            f"all every {_format_duration(settings.sync.full_interval)}"
        )
    for subresource in SUBRESOURCES.values():
        if subresource.collection == policy.collection and subresource.interval_seconds is not None:
            other_reads += f"; {subresource.name} every {_format_duration(subresource.interval_seconds)}"
            if policy.resource.date is not None:
                other_reads += f", of old ones every {_format_duration(subresource.old_interval_seconds)}"
    if policy.resource.key is None and policy.kind == "settings":
        other_reads = f"no keys: stored whole; beyond {KEYLESS_ROWS_PER_INTERVAL:,} records more rarely"
    return f"{incremental_interval} | every {full_sync_interval} | {refresh_text} | {other_reads}"


def _format_duration(seconds: float) -> str:
    for unit, unit_seconds in (("day", DAY), ("hour", HOUR), ("min", 60.0)):
        if seconds >= unit_seconds:
            number = seconds / unit_seconds
            return f"{number:g} {unit}{'s' if unit == 'day' and number != 1 else ''}"
    return f"{seconds:g} s"
