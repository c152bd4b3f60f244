"""Which periods schedules still owe, and what the records of a period lack."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from integration.access import rights
from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.exports import deliveries as export_deliveries
from integration.exports import due_periods as periods
from integration.exports import export_request as asking
from integration.exports.deliveries import Attempt, Standing
from integration.exports.due_periods import Period
from integration.exports.export_request import NoSuchExport
from integration.exports.presets import CALLS
from integration.exports.schedule_table import Schedule
from integration.exports.selection import HISTORY
from integration.mirror.sync_state import settled

MOST_PERIODS = 31
"""So many periods are caught up; what is older is given up, and the log says so."""


@dataclass(frozen=True, slots=True)
class Owed:
    """A period of a schedule, and where it stands."""

    schedule: Schedule
    period: Period
    standing: Standing

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        return self.period.bounds(ZoneInfo(self.schedule.zone))

    @property
    def due_at(self) -> datetime:
        return self.period.due_at(time.fromisoformat(self.schedule.at), ZoneInfo(self.schedule.zone))

    @property
    def patience_ends(self) -> datetime:
        """Until then the schedule waits for records that are not here yet."""
        return self.due_at + timedelta(hours=self.schedule.wait_hours)

    def file_name(self, *, complete: bool) -> str:
        """The same for the same file, whenever it is made."""
        return (
            f"{self.schedule.file}-{self.period.key}{'' if complete else '-incomplete'}.{self.schedule.form}"
        )

    def attempt(
        self,
        at: datetime,
        state: str,
        result: str,
        *,
        file: str = "",
        rows: int | None = None,
        size: int | None = None,
    ) -> Attempt:
        return Attempt(
            self.schedule.id,
            self.schedule.name,
            self.period.key,
            clock.stamp(at),
            file,
            rows,
            size,
            state,
            result,
        )

    def lacking(self, mirror: sqlite3.Connection) -> str | None:
        """What keeps its records from being complete; None where nothing does."""
        chosen, _ = asking.named(self.schedule.export)
        of = resource(rights.rights_of(chosen))
        since, until = self.bounds
        if not grows(chosen):
            return settled.unread(mirror, of, until)
        found = settled.lacking(mirror, of, since, until)
        if found is None and chosen is CALLS:
            return settled.unfinished(mirror, since, until)
        return found


def owed(house: sqlite3.Connection, schedule: Schedule, now: datetime) -> list[Owed]:
    """What was due by `now` and is open, the oldest first: what became due since the schedule began, and what
    a person asked for again."""
    standings = export_deliveries.standings(house, schedule.id)
    found = []
    # What a person asks for may have ended and not be due before this morning's hour.
    for period in dict.fromkeys((newest(schedule, now), *islice(_ended(schedule, now), _most(schedule)))):
        one = Owed(schedule, period, standings.get(period.key, Standing(period.key)))
        begun = period.key in standings or clock.stamp(one.due_at) > schedule.since
        wanted = one.standing.at_once or (begun and one.due_at <= now)
        if wanted and one.standing.state == "open":
            found.append(one)
    return found[::-1]


def given_up(house: sqlite3.Connection, schedule: Schedule, now: datetime) -> tuple[Owed, str] | None:
    """The newest of what is too old to be caught up, and why; None where nothing is.

    Of settings only the last period is: what they were before nobody knows any more.
    """
    most = _most(schedule)
    period = next(islice(_ended(schedule, now), most, None))
    standing = export_deliveries.standings(house, schedule.id).get(period.key, Standing(period.key))
    one = Owed(schedule, period, standing)
    if standing.state != "open" or clock.stamp(one.due_at) <= schedule.since:
        return None
    if most == 1:
        return one, "not caught up: settings can only be exported as they are now"
    return one, f"not caught up, nor what is before it: more than {most} periods behind"


def newest(schedule: Schedule, now: datetime) -> Period:
    """The last period that ended, due or not."""
    zone = ZoneInfo(schedule.zone)
    return periods.holding(schedule.every, now.astimezone(zone).date()).before


def next_due(schedule: Schedule, now: datetime) -> datetime:
    """When the next delivery is due, after `now`."""
    zone, at = ZoneInfo(schedule.zone), time.fromisoformat(schedule.at)
    period = newest(schedule, now)
    while (due_at := period.due_at(at, zone)) <= now:
        period = periods.holding(schedule.every, period.beyond)
    return due_at


def grows(chosen: Resource) -> bool:
    """Whether a period has records of its own. Settings are exported as a whole, as they are now."""
    return rights.rights_of(chosen) in HISTORY


def _most(schedule: Schedule) -> int:
    try:
        return MOST_PERIODS if grows(asking.named(schedule.export)[0]) else 1
    except NoSuchExport:
        # The attempt will say so.
        return MOST_PERIODS


def _ended(schedule: Schedule, now: datetime) -> Iterator[Period]:
    return periods.ended(schedule.every, time.fromisoformat(schedule.at), ZoneInfo(schedule.zone), now)
