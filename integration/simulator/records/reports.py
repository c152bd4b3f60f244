"""Report schedules and the times of their next runs.

In records `emails` and `frequency` are text, as in the specification: comma-separated addresses, and a JSON
object.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import orjson

from integration.core import clock
from integration.simulator.records.account_state import AccountState

Record = dict[str, Any]


def compute_next_run(record: Record, now: float) -> str | None:
    """Compute the UTC time of the next run after Unix time `now`.

    Returns None for a paused or ended schedule. Runs start at full hours.
    """
    if record["status"] != "A":
        return None
    frequency = orjson.loads(record["frequency"])
    hours = frequency.get("time_of_day") or [6]
    candidate = clock.parse_utc(clock.utc_text(now))
    assert candidate is not None
    candidate = candidate.replace(minute=0, second=0)
    for _ in range(24 * 62):
        candidate += timedelta(hours=1)
        stamp = clock.utc_text(candidate)
        if record["end_at"] and stamp > record["end_at"]:
            return None
        if (
            candidate.hour in hours
            and (not record["start_at"] or stamp >= record["start_at"])
            and _is_scheduled_day(frequency, candidate)
        ):
            return stamp
    return None


def _is_scheduled_day(frequency: Record, candidate: datetime) -> bool:
    if frequency["type"] == "W":
        return candidate.isoweekday() in [day or 7 for day in frequency.get("day_of_week") or [1]]
    if frequency["type"] == "M":
        return candidate.day in (frequency.get("day_of_month") or [1])
    return True


def set_schedule_times(state: AccountState) -> None:
    """Set the times of the seeded schedules."""
    for record in state.collections["reportschedules"].records.values():
        record["created_at"] = clock.utc_text(state.start - 90 * 86400)
        record["next_run_at"] = compute_next_run(record, state.start)
        if record["status"] == "A":
            midnight = state.start - state.start % 86400
            record["last_run_at"] = clock.utc_text(midnight - 4 * 86400 + 6 * 3600)
