"""Records of web calls, whose two ends the platform dials."""

from __future__ import annotations

from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import CallPlan, Leg
from integration.simulator.calls.records import compute_billed_seconds
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState

Record = dict[str, Any]


def add_webcall(state: AccountState, plan: CallPlan, started_at: float) -> Record:
    """Add the record of a web call, started at Unix time `started_at`.

    `bill_leg` sets durations and charges when the legs end.
    """
    first_number, second_number = plan.legs[0].dst, plan.legs[1].dst
    plan.webcall = state.create(
        "webcalls",
        **{"from": first_number, "to": second_number},
        calldate=clock.utc_text(started_at),
        from_rate=_get_rate(first_number),
        to_rate=_get_rate(second_number),
        **dict.fromkeys(("from_duration", "to_duration"), 0),
        **dict.fromkeys(("from_charge", "to_charge", "charge"), 0.0),
    )
    return plan.webcall


def bill_leg(record: Record, plan: CallPlan, leg: Leg) -> None:
    """Store duration and charge of an ended leg in its web call."""
    side = "from" if leg is plan.legs[0] else "to"
    seconds = compute_billed_seconds(leg)
    record[f"{side}_duration"] = seconds
    record[f"{side}_charge"] = round(record[f"{side}_rate"] * seconds / 60, 3)
    record["charge"] = round(record["from_charge"] + record["to_charge"], 3)


def _get_rate(number: str) -> float:
    """Return the rate per minute of a number; 0 for an extension."""
    return numbers.get_rate(number) if len(number) > 6 else 0.0
