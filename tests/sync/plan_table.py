"""The sync plan as the Markdown table of docs/sync.md: `python -m tests.sync.plan_table`."""

from __future__ import annotations

from integration.settings.model import Settings, load
from integration.sync.plan import (
    DAY,
    HOUR,
    KEYLESS_ROWS_PER_INTERVAL,
    LIST_REFRESH_SECONDS,
    LONG_REFRESH_SECONDS,
    OLD_RECORD_DAYS,
    PLAN,
    SUBRESOURCES,
    Policy,
)

DEFAULT_SETTINGS = load(
    None,
    {
        "SWITCHROOM_PLATFORM__BASE_URL": "https://platform.example.com/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
    },
)


def render_table(settings: Settings) -> str:
    """Return the plan as a Markdown table, as in docs/sync.md, with equal collections in one row."""
    rows: dict[str, list[str]] = {}
    for policy in PLAN.values():
        rows.setdefault(_format_cells(policy, settings), []).append(f"`/{policy.collection}`")
    return "\n".join(
        [
            "| Collection | New records appear within | Full sync | Refresh | Other requests |",
            "|---|---|---|---|---|",
            *(f"| {', '.join(names)} | {cells} |" for cells, names in rows.items()),
        ]
    )


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
                f"the last {OLD_RECORD_DAYS} days every {_format_duration(LONG_REFRESH_SECONDS)}"
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
