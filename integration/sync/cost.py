"""What the plan costs the platform in requests a day, and the plan as a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from integration.settings.model import Settings
from integration.sync.plan import BELOW, DAY, HOUR, PLAN, RAW_ROWS, SETTINGS_SECONDS, Policy


@dataclass(frozen=True, slots=True)
class Office:
    """A quiet office, to reckon by: `records` it has of what is read one by one."""

    records: dict[str, int]
    calls_hours: float = 4.0
    """Hours of a day in which at least one call is open."""


OFFICE = Office({"users": 30, "queues": 4, "ringgroups": 8, "ddis": 30, "cdrs": 600, "notes": 20})


def requests_a_day(policy: Policy, settings: Settings, office: Office = OFFICE) -> int:
    """What a collection costs a day with these settings, pages of a full load apart."""
    if policy.kind == "live":
        polls = office.calls_hours * HOUR / settings.sync.live_interval
        return round(polls + (24 - office.calls_hours) * HOUR / SETTINGS_SECONDS)
    cost = DAY / policy.walk_seconds(settings)
    if policy.kind == "grows":
        # Beyond the mark, and what overlaps.
        cost += 2 * DAY / policy.look_back_seconds(settings)
        if policy.reread is not None:
            cost += DAY / policy.reread[0]
        # Proofs: today and yesterday hourly, five weeks daily, older days weekly, the whole hourly.
        cost += 2 * 24 + 33 + 365 / 7 + 24
    if policy.items:
        cost += office.records[policy.collection] * DAY / settings.sync.full_interval
    for below in BELOW.values():
        if below.collection == policy.collection and below.seconds is not None:
            records = office.records[below.name if below.where else below.collection]
            cost += records * DAY / below.seconds
    return round(cost)


def table(settings: Settings) -> str:
    """The plan as a Markdown table, for docs/sync.md."""
    lines = [
        "| Collection | New ones come within | All of it is read | Read again | Besides | Requests a day |",
        "|---|---|---|---|---|---|",
    ]
    total = 0
    for policy in PLAN.values():
        cost = requests_a_day(policy, settings)
        total += cost
        lines.append(f"| `/{policy.collection}` | {_cells(policy, settings)} | {cost:,} |")
    budget = round(settings.sync.max_requests_per_minute * DAY / 60)
    lines.append(f"| all | | | | of {budget:,} that `sync.max_requests_per_minute` allows | {total:,} |")
    return "\n".join(lines)


def _cells(policy: Policy, settings: Settings) -> str:
    if policy.kind == "live":
        often = f"{_span(settings.sync.live_interval)} while calls are open, else {_span(SETTINGS_SECONDS)}"
        return (
            f"at once by webhook, else {often} | with each poll | – | a leg missing from the list by its path"
        )
    whole = _span(policy.walk_seconds(settings))
    again = besides = "–"
    new = whole
    if policy.kind == "grows":
        new = _span(policy.look_back_seconds(settings))
        besides = "each day proved by the platform's count"
        if policy.reread is not None:
            again = f"{policy.reread[1]} days back every {_span(policy.reread[0])}"
    if policy.own_form is not None:
        besides = (
            f"each by `{policy.own_form}` when new or changed, all every {_span(settings.sync.full_interval)}"
        )
    for below in BELOW.values():
        if below.collection == policy.collection and below.seconds is not None:
            besides += f"; {below.name} every {_span(below.seconds)}"
            if policy.resource.date is not None:
                besides += f", of old ones every {_span(below.old_seconds)}"
    if policy.resource.key is None and policy.kind == "settings":
        besides = f"no keys: stored whole; beyond {RAW_ROWS:,} records more rarely"
    return f"{new} | every {whole} | {again} | {besides}"


def _span(seconds: float) -> str:
    for unit, length in (("day", DAY), ("hour", HOUR), ("min", 60.0)):
        if seconds >= length:
            number = seconds / length
            return f"{number:g} {unit}{'s' if unit == 'day' and number != 1 else ''}"
    return f"{seconds:g} s"
