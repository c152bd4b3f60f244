"""Delivery of due export schedules.

Each period is delivered once, oldest first, when its records are complete. A period is marked as delivered
after its target has accepted the file. A crash between the two repeats the delivery with the same file name
or Message-ID; a crash never loses a delivery. Each schedule delivers in a separate thread, so that a target
that hangs delays no other schedule.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from datetime import datetime, timedelta
from typing import IO

from integration.access import people, visibility
from integration.access.rights import has
from integration.context import AppContext
from integration.core import backoff, clock
from integration.core.errors import QueryError, StorageError, SwitchroomError
from integration.exports import delivery, delivery_states, export_request
from integration.exports import schedules as export_schedules
from integration.exports.delivery import DeliveryFailed, OutgoingFile
from integration.exports.delivery_states import DeliveryAttempt
from integration.exports.due_periods import DuePeriod, find_abandoned, has_period_records, list_due
from integration.exports.formats import FORMATS, parquet_months
from integration.exports.schedules import Schedule
from integration.exports.selection import Selection
from integration.outbound import mail_server

log = logging.getLogger(__name__)

JOB_NAME = "scheduled exports"
"""Name of the job and of its health check."""
CHECK_SECONDS = 30.0
"""Seconds between runs of the job."""
RETRY_DELAYS = (60.0, 300.0, 900.0, 3600.0, 3 * 3600.0, 6 * 3600.0)
"""Seconds between attempts; the last value repeats. RETRY_JITTER varies each by up to 20 %."""
RETRY_JITTER = (0.8, 1.2)
"""Range of the random factor of a retry delay."""


class ScheduleRunner:
    """Delivers the schedules of an app context. One instance per context."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._writing_lock = threading.Lock()
        self._running: dict[int, threading.Thread] = {}
        self._errors: dict[int, str] = {}
        self._is_stopping = False

    def schedule(self) -> None:
        self._context.scheduler.every(
            JOB_NAME, CHECK_SECONDS, self.run, executor="exports", is_watched=True, retries=True
        )

    def run(self) -> None:
        """Start the delivery of due schedules. Returns immediately."""
        with self._context.app_db.read() as connection:
            schedules = export_schedules.list_all(connection)
        schedule_ids = {schedule.id for schedule in schedules}
        self._errors = {
            schedule_id: error for schedule_id, error in self._errors.items() if schedule_id in schedule_ids
        }
        for schedule in schedules:
            if schedule.paused_at is None and self._list_due(schedule):
                self._start_thread(schedule)

    def stop(self, seconds: float = 0.5) -> None:
        """Start no more deliveries, and wait up to `seconds` for active ones.

        Aborted ones are repeated.
        """
        with self._lock:
            self._is_stopping = True
            threads = list(self._running.values())
        deadline = clock.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - clock.monotonic()))

    def describe_failures(self) -> str | None:
        """Return a summary of failing schedules for the health check.

        Returns None if none fails.
        """
        with self._context.app_db.read() as connection:
            failing = [f"{name}: {error}" for _, name, error in delivery_states.list_failing(connection)]
        failing += [f"schedule {schedule_id}: {error}" for schedule_id, error in self._errors.items()]
        if len(failing) > 1:
            return f"{len(failing)} schedules fail; the first is {failing[0]}"
        return failing[0] if failing else None

    def deliver_due(self, schedule: Schedule) -> None:
        """Deliver the due periods of one schedule until its target fails."""
        with self._context.app_db.read() as connection:
            abandoned = find_abandoned(connection, schedule, clock.now())
        if abandoned is not None:
            due_period, reason = abandoned
            attempt = due_period.make_attempt(clock.now(), "skipped", reason)
            delivery_states.mark_skipped(self._context.app_db, attempt, clock.utc_text(due_period.due_at))
        for due_period in self._list_due(schedule):
            if self._is_stopping or not self._deliver_period(due_period):
                return

    # --- internals ---------------------------------------------------------------------------------

    def _start_thread(self, schedule: Schedule) -> None:
        with self._lock:
            if schedule.id not in self._running and not self._is_stopping:
                name = f"schedule {schedule.id}"
                thread = threading.Thread(target=self._run_schedule, args=(schedule,), name=name, daemon=True)
                self._running[schedule.id] = thread
                thread.start()

    def _run_schedule(self, schedule: Schedule) -> None:
        try:
            self.deliver_due(schedule)
            self._errors.pop(schedule.id, None)
        except Exception as error:
            # Delivery errors are handled inside; here house.db could not be read or written. No caller
            # receives the error, so the health check reports it.
            log.exception("schedule %s failed", schedule.id)
            self._errors[schedule.id] = str(error) or type(error).__name__
        finally:
            with self._lock:
                del self._running[schedule.id]

    def _list_due(self, schedule: Schedule) -> list[DuePeriod]:
        """Return the due periods whose back-off has passed, oldest first."""
        now = clock.utc_text(clock.now())
        with self._context.app_db.read() as connection:
            due_periods = list_due(connection, schedule, clock.now())
        delayed = [
            due_period for due_period in due_periods if (due_period.delivery_state.next_at or "") > now
        ]
        if any(due_period.delivery_state.holds_all for due_period in delayed):
            return []
        return [due_period for due_period in due_periods if due_period not in delayed]

    def _deliver_period(self, due_period: DuePeriod) -> bool:
        """Deliver one period if its data allows it.

        Returns False to skip the schedule's other periods.
        """
        key, started_at, app_db = due_period.period.key, clock.now(), self._context.app_db
        try:
            with self._context.mirror_db.read() as connection:
                incomplete_reason = due_period.find_incomplete_reason(connection)
            if incomplete_reason is not None and not self._accepts_incomplete(due_period, incomplete_reason):
                return True
            delay = backoff.delay(due_period.delivery_state.tries + 1, RETRY_DELAYS, jitter=RETRY_JITTER)
            # Store the back-off before the delivery, so that a crash does not cause an immediate retry.
            delivery_states.mark_started(
                app_db, due_period.schedule.id, key, clock.utc_text(started_at + timedelta(seconds=delay))
            )
            if due_period.schedule.is_by_month:
                attempt = self._write_months(due_period, started_at, is_complete=incomplete_reason is None)
                delivery_states.mark_delivered(app_db, attempt)
                return True
            name = due_period.file_name(complete=incomplete_reason is None)
            with tempfile.TemporaryFile(dir=self._context.settings.storage.data_dir) as file:
                # Write one file at a time: writing is limited by this host, delivering by the targets.
                with self._writing_lock:
                    rows = self._write_file(due_period, file)
                size = file.tell()
                repeat_number = due_period.delivery_state.redeliveries
                outgoing = OutgoingFile(
                    file, name, size, rows, key, due_period.period.label, incomplete_reason, repeat_number
                )
                result = delivery.deliver(
                    self._context.settings,
                    mail_server.load(self._context.settings, app_db),
                    due_period.schedule,
                    outgoing,
                )
        except Exception as error:
            text = str(error)
            if not isinstance(error, DeliveryFailed | QueryError | visibility.NotAllowed):
                log.exception("schedule %s, period %s failed", due_period.schedule.id, key)
                if isinstance(error, OSError):
                    text = f"The file cannot be written: {error.strerror}."
                elif not isinstance(error, SwitchroomError):
                    text = f"{type(error).__name__}. The log of the server has the details."
            holds_all = not isinstance(error, DeliveryFailed) or error.holds_all
            log.warning("schedule %s, period %s: %s", due_period.schedule.id, key, text)
            delivery_states.mark_failed(
                app_db, due_period.make_attempt(started_at, "failed", text), holds_all=holds_all
            )
            return not holds_all
        state = "delivered" if incomplete_reason is None else "incomplete"
        attempt = due_period.make_attempt(started_at, state, result, file=name, rows=rows, size=size)
        delivery_states.mark_delivered(app_db, attempt)
        return True

    def _accepts_incomplete(self, due_period: DuePeriod, incomplete_reason: str) -> bool:
        """Return whether to deliver an incomplete file now.

        If not, record the missing data.
        """
        schedule, delivery_state = due_period.schedule, due_period.delivery_state
        is_waiting = clock.now() < due_period.wait_until
        if delivery_state.at_once or not (is_waiting or not schedule.incomplete or delivery_state.partial_at):
            return True
        is_overdue = not is_waiting and not schedule.incomplete
        error = f"{due_period.period.key} waits for its records: {incomplete_reason}" if is_overdue else None
        if (incomplete_reason, error) != (delivery_state.waits_for, delivery_state.error):
            delivery_states.mark_waiting(
                self._context.app_db, schedule.id, due_period.period.key, incomplete_reason, error
            )
        return False

    def _write_months(
        self, due_period: DuePeriod, started_at: datetime, *, is_complete: bool
    ) -> DeliveryAttempt:
        """Write the changed months of a data set and return the attempt.

        Months with incomplete records keep their files, so that a rebuilt mirror does not replace good
        files. If all are complete, files of months without records are removed.
        """
        settings, schedule = self._context.settings, due_period.schedule
        name = due_period.file_name(complete=True)
        folder = delivery.prepare_folder(settings, f"{schedule.place}/{name}".lstrip("/"))
        selection, _ = self._build_selection(due_period)
        read = self._context.mirror_db.read
        months, excluded_months = parquet_months.list_months(read, selection), list[str]()
        if not is_complete:
            with read() as connection:
                excluded_months = due_period.find_incomplete_months(connection, months)
        # Write one data set or file at a time, as above.
        try:
            with self._writing_lock:
                files = parquet_months.write_months(
                    read,
                    selection,
                    folder,
                    excluded_months=excluded_months,
                    open_file=delivery.open_target,
                    spool_folder=settings.storage.data_dir,
                )
            removed = parquet_months.remove_other_months(folder, months) if is_complete else []
        except StorageError as error:
            raise DeliveryFailed(str(error)) from error
        written = [file for file in files if file.is_written]
        results = [
            f"{word}: {', '.join(names)}"
            for word, names in (
                ("written", [file.month for file in written]),
                ("removed", removed),
                ("incomplete, not changed", excluded_months),
            )
            if names
        ]
        return due_period.make_attempt(
            started_at,
            "delivered" if is_complete else "incomplete",
            f"{'; '.join(results) or 'no month has changed'} ({folder})",
            file=name,
            rows=sum(file.rows for file in written),
            size=sum(file.size for file in written),
        )

    def _write_file(self, due_period: DuePeriod, file: IO[bytes]) -> int:
        """Write the export of a period and return the number of rows."""
        selection, args = self._build_selection(due_period)
        chunks = export_request.open_chunks(self._context, selection, due_period.schedule.form, args)
        try:
            for chunk in chunks:
                file.write(chunk)
        finally:
            chunks.close()
        return chunks.row_count

    def _build_selection(self, due_period: DuePeriod) -> tuple[Selection, dict[str, str]]:
        """Return the selection of a period with its parameters.

        The rights of the schedule's owner apply.
        """
        schedule, settings = due_period.schedule, self._context.settings
        target, _ = export_request.find_export(schedule.export)
        person = people.find(self._context.app_db, schedule.who)
        if person is None or not has(person, "supervisor"):
            raise visibility.NotAllowed(
                f"{schedule.who} no longer has the role supervisor. A user with this role must save the"
                " schedule."
            )
        viewer = visibility.of(person, settings.dashboard.agents_see)
        viewer.check_export(target, FORMATS[schedule.form].right)
        args = {**schedule.args, "tz": schedule.zone}
        if has_period_records(target):
            args["to"] = due_period.period.end_day.isoformat()
            if not schedule.is_by_month:
                args["from"] = due_period.period.first_day.isoformat()
        return export_request.build_selection(self._context, schedule.export, args, viewer, person), args
