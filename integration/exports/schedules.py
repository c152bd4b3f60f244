"""Delivers what schedules ask for: each period once, the oldest first, when all of it is here.

A period is marked as delivered when its target has it. A crash between the two repeats the delivery, under
the same name or Message-ID; none loses one. Every schedule has a thread of its own while it delivers, so that
a target that hangs keeps no other waiting.
"""

from __future__ import annotations

import logging
import random
import tempfile
import threading
from datetime import timedelta
from typing import IO

from integration.access import people, rights
from integration.context import House
from integration.core import clock
from integration.core.errors import QueryError, SwitchroomError
from integration.exports import deliveries as export_deliveries
from integration.exports import delivery
from integration.exports import export_request as asking
from integration.exports import schedule_table as export_schedules
from integration.exports.delivery import DeliveryFailed, Parcel
from integration.exports.schedule_runner import Owed, given_up, grows, owed
from integration.exports.schedule_table import Schedule

log = logging.getLogger(__name__)

WAKE = "switchroom wake schedules"
"""What an application calls when a person changed something, by name among its extensions."""
EVERY_SECONDS = 30.0
GAPS = (60.0, 300.0, 900.0, 3600.0, 3 * 3600.0, 6 * 3600.0)
"""Seconds between attempts, the last for all that follow; each up to a fifth shorter or longer."""


class Schedules:
    """One per running product."""

    def __init__(self, parts: House) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._under_way: dict[int, threading.Thread] = {}
        self._broken: dict[int, str] = {}
        self._stopping = False

    def run(self) -> None:
        """Begin to deliver whatever is due; returns at once."""
        with self._parts.house.read() as connection:
            schedules = export_schedules.everything(connection)
        known = {schedule.id for schedule in schedules}
        self._broken = {number: error for number, error in self._broken.items() if number in known}
        for schedule in schedules:
            if schedule.paused_at is None and self._due(schedule):
                self._begin(schedule)

    def stop(self, seconds: float = 0.5) -> None:
        """Begin nothing more, and give what is under way so long. What it doesn't end is delivered again."""
        with self._lock:
            self._stopping = True
            threads = list(self._under_way.values())
        deadline = clock.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - clock.monotonic()))

    def trouble(self) -> str | None:
        """What the health report says of schedules; None where all is well."""
        with self._parts.house.read() as connection:
            failing = [f"{name}: {error}" for _, name, error in export_deliveries.failing(connection)]
        failing += [f"schedule {number}: {error}" for number, error in self._broken.items()]
        if len(failing) > 1:
            return f"{len(failing)} fail; {failing[0]}"
        return failing[0] if failing else None

    def serve(self, schedule: Schedule) -> None:
        """Deliver what is due of one schedule, until there is nothing more or the target fails."""
        with self._parts.house.read() as connection:
            dropped = given_up(connection, schedule, clock.now())
        if dropped is not None:
            one, why = dropped
            attempt = one.attempt(clock.now(), "skipped", why)
            export_deliveries.skipped(self._parts.house, attempt, clock.stamp(one.due_at))
        for one in self._due(schedule):
            if self._stopping or not self._serve_one(one):
                return

    # --- inside ------------------------------------------------------------------------------------

    def _begin(self, schedule: Schedule) -> None:
        with self._lock:
            if schedule.id not in self._under_way and not self._stopping:
                name = f"schedule {schedule.id}"
                thread = threading.Thread(target=self._serve, args=(schedule,), name=name, daemon=True)
                self._under_way[schedule.id] = thread
                thread.start()

    def _serve(self, schedule: Schedule) -> None:
        try:
            self.serve(schedule)
            self._broken.pop(schedule.id, None)
        except Exception as error:
            # Nobody waits for this thread: house.db could not be read or written.
            log.exception("schedule %s", schedule.id)
            self._broken[schedule.id] = str(error) or type(error).__name__
        finally:
            with self._lock:
                del self._under_way[schedule.id]

    def _due(self, schedule: Schedule) -> list[Owed]:
        """What is to be tried now, the oldest first."""
        now = clock.stamp(clock.now())
        with self._parts.house.read() as connection:
            found = owed(connection, schedule, clock.now())
        resting = [one for one in found if (one.standing.next_at or "") > now]
        if any(one.standing.holds_all for one in resting):
            return []
        return [one for one in found if one not in resting]

    def _serve_one(self, one: Owed) -> bool:
        """Deliver one period if it can be; False where the others need not be tried."""
        key, begun, house = one.period.key, clock.now(), self._parts.house
        try:
            with self._parts.mirror.read() as connection:
                lacking = one.lacking(connection)
            if lacking is not None and not self._takes_what_there_is(one, lacking):
                return True
            gap = GAPS[min(one.standing.tries, len(GAPS) - 1)] * random.uniform(0.8, 1.2)
            # Before anything leaves: whatever happens from here on, the next try is not at once.
            export_deliveries.begun(house, one.schedule.id, key, clock.stamp(begun + timedelta(seconds=gap)))
            name = one.file_name(complete=lacking is None)
            with tempfile.TemporaryFile(dir=self._parts.settings.storage.data_dir) as file:
                # One at a time: making files is bounded by this machine, delivering by whoever takes them.
                with self._making:
                    rows = self._write(one, file)
                size = file.tell()
                again = one.standing.again
                parcel = Parcel(file, name, size, rows, key, one.period.words, lacking, again)
                said = delivery.deliver(self._parts.settings, one.schedule, parcel)
        except Exception as error:
            text = str(error)
            if not isinstance(error, DeliveryFailed | QueryError | rights.NotAllowed):
                log.exception("schedule %s, %s", one.schedule.id, key)
                if isinstance(error, OSError):
                    text = f"the file can't be made ({error.strerror})"
                elif not isinstance(error, SwitchroomError):
                    text = f"{type(error).__name__}; the log says more"
            holds_all = not isinstance(error, DeliveryFailed) or error.holds_all
            log.warning("schedule %s, %s: %s", one.schedule.id, key, text)
            export_deliveries.failed(house, one.attempt(begun, "failed", text), holds_all=holds_all)
            return not holds_all
        state = "delivered" if lacking is None else "incomplete"
        attempt = one.attempt(begun, state, said, file=name, rows=rows, size=size)
        export_deliveries.delivered(house, attempt)
        return True

    def _takes_what_there_is(self, one: Owed, lacking: str) -> bool:
        """Whether an incomplete file is to be delivered now; else notes what the period waits for."""
        schedule, standing = one.schedule, one.standing
        patient = clock.now() < one.patience_ends
        if standing.at_once or not (patient or not schedule.incomplete or standing.partial_at):
            return True
        late = not patient and not schedule.incomplete
        error = f"{one.period.key} waits for its records: {lacking}" if late else None
        if (lacking, error) != (standing.waits_for, standing.error):
            export_deliveries.waits(self._parts.house, schedule.id, one.period.key, lacking, error)
        return False

    def _write(self, one: Owed, file: IO[bytes]) -> int:
        """The file of a period, as whoever made the schedule may have it; returns its rows."""
        schedule, settings = one.schedule, self._parts.settings
        chosen, _ = asking.named(schedule.export)
        person = people.find(self._parts.house, schedule.who)
        if person is None or not person.may("supervisor"):
            raise rights.NotAllowed(f"{schedule.who} may export no longer; somebody who may has to save it")
        only = rights.only_of(person, chosen, schedule.form, settings.dashboard.agents_see)
        args = {**schedule.args, "tz": schedule.zone}
        if grows(chosen):
            args |= {"from": one.period.first.isoformat(), "to": one.period.beyond.isoformat()}
        found = asking.selection(self._parts, schedule.export, args, only, person)
        chunks = asking.chunks(self._parts, found, schedule.form, args)
        try:
            for chunk in chunks:
                file.write(chunk)
        finally:
            chunks.close()
        return chunks.rows
