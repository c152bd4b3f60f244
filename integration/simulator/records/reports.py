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
    filled,
    listed,
    mapping,
    moment,
    one_of,
    text,
    whole,
)

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]

REPORTS = {1: "Calls by user", 2: "Calls by number", 3: "Queue service levels"}
FORMATS = ("csv", "pdf", "xlsx")


def _report(value: Any) -> int:
    found = whole(value)
    if found not in REPORTS:
        raise ValueError
    return found


def _frequency(value: Any) -> Record:
    found = mapping(value)
    one_of("D", "W", "M")(found.get("type"))
    for name, least, most in (("time_of_day", 0, 23), ("day_of_week", 0, 7), ("day_of_month", 1, 31)):
        for entry in listed(whole)(found.get(name, [])):
            if not least <= entry <= most:
                raise ValueError
    return found


FORM = Form(
    {
        "report_id": _report,
        "name": filled,
        "description": text,
        "emails": listed(email),
        "format": one_of(*FORMATS),
        "culture": text,
        "start_at": moment,
        "end_at": moment,
        "status": one_of("A", "P"),
        "frequency": _frequency,
        "timezone": text,
        "tz": text,
    },
    ("report_id", "name", "emails", "frequency"),
)


def kept(body: Record) -> Record:
    """The fields of a record that a checked body sets."""
    found = {name: value for name, value in body.items() if name not in ("tz", "emails", "frequency")}
    if body.get("tz") and "timezone" not in body:
        found["timezone"] = body["tz"]
    if "emails" in body:
        found["emails"] = ",".join(body["emails"])
    if "frequency" in body:
        found["frequency"] = orjson.dumps(body["frequency"]).decode()
    return found


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
        "created_at": clock.stamp(now),
        "last_run_at": None,
        "next_run_at": None,
        **values,
    }
    record["next_run_at"] = next_run(record, now)
    return record


def next_run(record: Record, now: float) -> str | None:
    """The next full hour that the schedule names, in UTC; None for one that is paused or over."""
    if record["status"] != "A":
        return None
    wanted = orjson.loads(record["frequency"])
    hours = wanted.get("time_of_day") or [6]
    at = clock.parse_stamp(clock.stamp(now))
    assert at is not None
    at = at.replace(minute=0, second=0)
    for _ in range(24 * 62):
        at += timedelta(hours=1)
        stamp = clock.stamp(at)
        if record["end_at"] and stamp > record["end_at"]:
            return None
        if at.hour in hours and (not record["start_at"] or stamp >= record["start_at"]) and _day(wanted, at):
            return stamp
    return None


def _day(wanted: Record, at: datetime) -> bool:
    if wanted["type"] == "W":
        return at.isoweekday() in [day or 7 for day in wanted.get("day_of_week") or [1]]
    if wanted["type"] == "M":
        return at.day in (wanted.get("day_of_month") or [1])
    return True


def lay_out(world: World) -> None:
    weekly = {"type": "W", "time_of_day": [6], "day_of_week": [1], "day_of_month": []}
    monthly = {"type": "M", "time_of_day": [7], "day_of_week": [], "day_of_month": [1]}
    made = world.start - 90 * 86400
    records = [
        schedule_record(
            5101,
            world.start,
            name="Weekly calls",
            description="Calls of the week by user",
            emails="ada@example.com,ben@example.com",
            frequency=orjson.dumps(weekly).decode(),
            created_at=clock.stamp(made),
            last_run_at=clock.stamp(world.start - world.start % 86400 - 4 * 86400 + 6 * 3600),
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
            created_at=clock.stamp(made),
        ),
    ]
    world.collect("reportschedules", records=records)
