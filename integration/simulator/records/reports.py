"""Report schedules: when a report is made next, and what their writes take.

Their enumerations are not shown: `format` csv, pdf or xlsx, `status` A (active) or P (paused), frequency
`type` D, W or M (W is observed) are this simulator's choice. `emails` and `frequency` are text in the record,
as the specification types them: addresses with commas, and the object as JSON.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from integration.core import clock
from integration.simulator.http.bodies import (
    Form,
    email,
    integer,
    json_object,
    list_of,
    non_empty_text,
    one_of,
    text,
    timestamp,
)

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]

REPORTS = {1: "Calls by user", 2: "Calls by number", 3: "Queue service levels"}
FORMATS = ("csv", "pdf", "xlsx")


def _report_id(value: Any) -> int:
    report_id = integer(value)
    if report_id not in REPORTS:
        raise ValueError
    return report_id


def _frequency(value: Any) -> Record:
    frequency = json_object(value)
    one_of("D", "W", "M")(frequency.get("type"))
    for name, minimum, maximum in (("time_of_day", 0, 23), ("day_of_week", 0, 7), ("day_of_month", 1, 31)):
        for entry in list_of(integer)(frequency.get(name, [])):
            if not minimum <= entry <= maximum:
                raise ValueError
    return frequency


FORM = Form(
    {
        "report_id": _report_id,
        "name": non_empty_text,
        "description": text,
        "emails": list_of(email),
        "format": one_of(*FORMATS),
        "culture": text,
        "start_at": timestamp,
        "end_at": timestamp,
        "status": one_of("A", "P"),
        "frequency": _frequency,
        "timezone": text,
        "tz": text,
    },
    ("report_id", "name", "emails", "frequency"),
)


def make_record_fields(body: Record) -> Record:
    """The fields of a record that a checked body sets."""
    record_fields = {name: value for name, value in body.items() if name not in ("tz", "emails", "frequency")}
    if body.get("tz") and "timezone" not in body:
        record_fields["timezone"] = body["tz"]
    if "emails" in body:
        record_fields["emails"] = ",".join(body["emails"])
    if "frequency" in body:
        record_fields["frequency"] = orjson.dumps(body["frequency"]).decode()
    return record_fields


def schedule_record(schedule_id: int, now: float, **values: Any) -> Record:
    record: Record = {
        "id": schedule_id,
        "report_id": 1,
        "name": "",
        "description": None,
        "emails": "",
        "format": "csv",
        "culture": "en",
        "status": "A",
        "frequency": '{"type":"D"}',
        "timezone": "Europe/London",
        "start_at": None,
        "end_at": None,
        "created_at": clock.utc_text(now),
        "last_run_at": None,
        "next_run_at": None,
        **values,
    }
    record["next_run_at"] = compute_next_run(record, now)
    return record


def compute_next_run(record: Record, now: float) -> str | None:
    """The next full hour that the schedule names, in UTC; None for one that is paused or over."""
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


def add_collections(world: World) -> None:
    weekly = {"type": "W", "time_of_day": [6], "day_of_week": [1], "day_of_month": []}
    monthly = {"type": "M", "time_of_day": [7], "day_of_week": [], "day_of_month": [1]}
    created_at = world.start - 90 * 86400
    records = [
        schedule_record(
            5101,
            world.start,
            name="Weekly calls",
            description="Calls of the week by user",
            emails="ada@example.com,ben@example.com",
            frequency=orjson.dumps(weekly).decode(),
            created_at=clock.utc_text(created_at),
            last_run_at=clock.utc_text(world.start - world.start % 86400 - 4 * 86400 + 6 * 3600),
        ),
        schedule_record(
            5102,
            world.start,
            report_id=3,
            name="Service line by month",
            emails="ada@example.com",
            format="pdf",
            status="P",
            frequency=orjson.dumps(monthly).decode(),
            created_at=clock.utc_text(created_at),
        ),
    ]
    world.add_collection("reportschedules", records=records)
