"""Run export jobs: write the files of due runs and deliver them.

Each schedule, and all downloads together, have a thread, so that a target that hangs delays no other job. The
threads write one file at a time, because this host limits writing.

Downloads exist because some formats can send no byte before the last row is written: exports of more than
`Format.background_above` rows would leave a browser without a response for minutes. Their files are kept
until `exports.keep_days` or `exports.max_gb` is exceeded.

A period of a schedule is delivered once, oldest first, when its records are complete, and is marked as
delivered after its target has accepted the file. A crash between the two repeats the delivery with the same
file name or Message-ID; a crash never loses a delivery.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

from integration.access import people, visibility
from integration.access.rights import has
from integration.catalogue.shapes import Resource
from integration.core import backoff, clock, tokens
from integration.core.calendar_periods import Period, find_period
from integration.core.errors import DomainError, QueryError, StorageError, SwitchroomError
from integration.core.health import Health
from integration.core.retry_delays import EXPORT_FACTORS, EXPORTS
from integration.core.scheduler import Scheduler
from integration.exports import delivery, export_request, jobs
from integration.exports.delivery import DeliveryFailed, OutgoingFile
from integration.exports.formats import FORMATS, SCHEDULED_FORMATS, parquet_months
from integration.exports.jobs import DeliveryAttempt, ExportJob, ExportRun
from integration.exports.query import ExportQuery, ExportStream
from integration.exports.selection import Selection
from integration.mirror.calls.schema import CALLS
from integration.mirror.sync_state import completeness
from integration.outbound import mail_server
from integration.settings.model import Settings
from integration.settings.values import MIN_FREE_BYTES, MIN_FREE_TEXT
from integration.sqlite.database import Database
from integration.workspace.opening_hours import load_opening_hours

log = logging.getLogger(__name__)

JOB_NAME = "exports"
"""Name of the job and of its health check."""
CHECK_SECONDS = 30.0
"""Seconds between runs of the job."""
MAX_ATTEMPTS = 3
"""Largest number of starts of a download, because an export can crash the process."""
FIRST_RECORDS = datetime(2000, 1, 1, tzinfo=UTC)
"""Time before all records of the platform."""
_FILE_NAME = re.compile(r"([0-9]{1,18})\.([a-z0-9]+)(\.part)?")


FileWriter = Callable[[IO[bytes], Callable[[int], None]], int]
"""Writes a file, calls the function with the number of rows so far, and returns their number."""
_WRITER = "writer"
"""Parameter of a download with a `FileWriter`: its key."""


class JobCancelled(SwitchroomError):
    """The run was cancelled or removed, or the process stops."""


class ExportRunner:
    """Runs the export jobs of an application. It is an `ExportContext`.

    `write_digest` writes the page of a digest and returns the number of calls. Its parameters are the run,
    the reason why its data is incomplete, and the file.
    """

    def __init__(
        self,
        settings: Settings,
        mirror_db: Database,
        app_db: Database,
        scheduler: Scheduler,
        health: Health,
        write_digest: Callable[[ExportRun, str | None, IO[bytes]], int],
    ) -> None:
        self.settings, self.mirror_db, self.app_db = settings, mirror_db, app_db
        self._scheduler = scheduler
        self._health = health
        self._folder = settings.storage.data_dir / "prepared"
        self._write_digest = write_digest
        self._rows_written: dict[int, int] = {}
        self._writers: dict[str, FileWriter] = {}
        self._writing_lock = threading.Lock()
        self._threads_lock = threading.Lock()
        self._threads: dict[int | None, threading.Thread] = {}
        self._repeated: set[int | None] = set()

    def schedule(self) -> None:
        self._scheduler.every(
            JOB_NAME, CHECK_SECONDS, self.run, executor="exports", is_watched=True, retries=True
        )

    def request_run(self) -> None:
        """Start a run for new or changed jobs. Returns immediately."""
        self._scheduler.nudge(JOB_NAME)

    def stop(self, seconds: float = 0.5) -> None:
        """Wait up to `seconds` for deliveries that end. The next process repeats the others."""
        deadline = clock.monotonic() + seconds
        for thread in list(self._threads.values()):
            thread.join(max(0.0, deadline - clock.monotonic()))

    def describe_failures(self) -> str | None:
        """Return a summary of failing schedules for the health check.

        Returns None if none fails.
        """
        with self.app_db.read() as connection:
            failing = [f"{name}: {error}" for name, error in jobs.list_failing(connection)]
        if len(failing) > 1:
            return f"{len(failing)} schedules fail; the first is {failing[0]}"
        return failing[0] if failing else None

    # --- downloads ---------------------------------------------------------------------------------

    def add_download(self, job: ExportJob, total: int, write: FileWriter) -> None:
        """Add a download whose file `write` creates.

        `write` is in memory only: a number that can be erased must be in no table. A restart before the file
        is complete ends the download. Raises DomainError.
        """
        key = tokens.new()
        self._writers[key] = write
        try:
            jobs.add_download(self.app_db, replace(job, args={_WRITER: key}), total)
        except DomainError:
            del self._writers[key]
            raise
        self.request_run()

    def rows_written(self, run: ExportRun) -> int:
        """Return the number of rows written so far."""
        return self._rows_written.get(run.id, 0) if run.is_active else run.rows or 0

    def path(self, run: ExportRun) -> Path:
        return self._folder / f"{run.id}.{run.job.form}"

    def expires_at(self, run: ExportRun) -> str | None:
        """Return the time at which the file is removed, as UTC text.

        Returns None without a file.
        """
        ended = clock.parse_utc(run.ended_at)
        if run.state != "done" or ended is None:
            return None
        return clock.utc_text(ended + timedelta(days=self.settings.exports.keep_days))

    def cancel(self, run: ExportRun) -> None:
        """Cancel an active download; otherwise delete the job and its file."""
        if not jobs.cancel(self.app_db, run):
            self._remove(run)

    def remove_all(self) -> int:
        """Cancel active downloads and delete finished ones with their files.

        Returns the number of both.
        """
        downloads = [run for run in self._list_downloads() if run.is_active or run.state == "done"]
        for run in downloads:
            self.cancel(run)
        return len(downloads)

    # --- the job -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Start threads for the due runs. Returns immediately."""
        self._remove_expired()
        self.open_due_periods()
        with self.app_db.read() as connection:
            due = jobs.list_due_runs(connection, clock.now())
        for schedule_id in {run.schedule_id for run in due}:
            self._start_thread(schedule_id)

    def open_due_periods(self) -> None:
        with self.app_db.read() as connection:
            schedules = jobs.list_schedules(connection)
        for schedule in schedules:
            if schedule.paused_at is None:
                jobs.open_due_periods(self.app_db, schedule, clock.now())

    def do_due_runs(self, schedule_id: int | None) -> None:
        """Do the due runs of a schedule, or of all downloads (None), one after another."""
        attempted = set[int]()
        while not self._scheduler.stopping.is_set():
            if schedule_id is None:
                self._remove_expired()
            with self.app_db.read() as connection:
                due = jobs.list_due_runs(connection, clock.now())
            run = next(
                (run for run in due if run.schedule_id == schedule_id and run.id not in attempted), None
            )
            if run is None:
                return
            attempted.add(run.id)
            self._attempt(run)

    # --- internals ---------------------------------------------------------------------------------

    def _start_thread(self, schedule_id: int | None) -> None:
        with self._threads_lock:
            if schedule_id in self._threads:
                self._repeated.add(schedule_id)
                return
            name = "downloads" if schedule_id is None else f"schedule {schedule_id}"
            thread = threading.Thread(target=self._run_thread, args=(schedule_id,), name=name, daemon=True)
            self._threads[schedule_id] = thread
            thread.start()

    def _run_thread(self, schedule_id: int | None) -> None:
        while True:
            try:
                self.do_due_runs(schedule_id)
            except Exception as error:
                # Delivery errors are handled inside; here house.db could not be read or written. No caller
                # receives the error, so the health check reports it.
                if not self._scheduler.stopping.is_set():
                    log.exception("%s failed", threading.current_thread().name)
                    self._health.fail(JOB_NAME, error)
            with self._threads_lock:
                if schedule_id not in self._repeated:
                    del self._threads[schedule_id]
                    return
                self._repeated.remove(schedule_id)

    def _attempt(self, run: ExportRun) -> None:
        """Write and deliver a file, if its data allows it."""
        started_at, next_at = clock.now(), None
        try:
            incomplete_reason = None
            if run.schedule_id is not None:
                with self.mirror_db.read() as connection:
                    incomplete_reason = find_incomplete_reason(connection, run)
                if incomplete_reason is not None and not self._accepts_incomplete(run, incomplete_reason):
                    return
                # Stored before the attempt, so that a crash does not cause an immediate retry.
                delay = backoff.delay(run.tries + 1, EXPORTS, jitter=EXPORT_FACTORS)
                next_at = clock.utc_text(started_at + timedelta(seconds=delay))
            elif run.tries >= MAX_ATTEMPTS:
                raise QueryError(
                    f"The export was started {MAX_ATTEMPTS} times and interrupted each time. Request it"
                    " again."
                )
            if not run.at_once and self._is_closed_day(run):
                jobs.mark_skipped(self.app_db, run)
                return
            if not jobs.mark_running(self.app_db, run, next_at):
                return
            if run.job.is_by_month:
                attempt = self._write_months(run, started_at, is_complete=incomplete_reason is None)
            else:
                attempt = self._write_and_deliver(run, started_at, incomplete_reason)
        except JobCancelled:
            log.info("export %d cancelled", run.id)
            return
        except Exception as error:
            if self._scheduler.stopping.is_set():
                return  # The databases are being closed. The next process repeats the attempt.
            text = str(error)
            if not isinstance(error, DeliveryFailed | QueryError | visibility.NotAllowed):
                log.exception("%s failed", _describe(run))
                if isinstance(error, OSError):
                    text = f"The file cannot be written: {error.strerror}."
                elif not isinstance(error, SwitchroomError):
                    text = f"{type(error).__name__}. The log of the server has the details."
            log.warning("%s: %s", _describe(run), text)
            holds_all = not isinstance(error, DeliveryFailed) or error.holds_all
            attempt = run.make_attempt(started_at, "failed", text)
            jobs.mark_failed(self.app_db, run, attempt, holds_all=holds_all)
            return
        if not jobs.mark_delivered(self.app_db, run, attempt):
            self.path(run).unlink(missing_ok=True)

    def _is_closed_day(self, run: ExportRun) -> bool:
        """Return whether the run is for open days only, and no line opens on the day of its delivery."""
        if not run.job.args.get(jobs.OPEN_DAYS_PARAMETER):
            return False
        with self.app_db.read() as connection:
            hours = load_opening_hours(connection, ZoneInfo(run.job.zone))
        return not hours.opens_on(run.calendar_period.end_day)

    def _accepts_incomplete(self, run: ExportRun, incomplete_reason: str) -> bool:
        """Return whether to deliver an incomplete file now.

        If not, record the missing data.
        """
        is_waiting = clock.now() < run.wait_until
        if run.at_once or not (is_waiting or not run.job.incomplete or run.partial_at):
            return True
        is_overdue = not is_waiting and not run.job.incomplete
        error = f"{run.period} waits for its records: {incomplete_reason}" if is_overdue else None
        if (incomplete_reason, error) != (run.waits_for, run.error):
            jobs.mark_waiting(self.app_db, run, incomplete_reason, error)
        return False

    def _write_and_deliver(
        self, run: ExportRun, started_at: datetime, incomplete_reason: str | None
    ) -> DeliveryAttempt:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._rows_written[run.id] = 0
        path = self.path(run)
        part_path = path.with_name(f"{path.name}.part")
        name = run.file_name(complete=incomplete_reason is None) if run.schedule_id is not None else path.name
        try:
            with part_path.open("wb+") as file:
                if run.job.target != "download":
                    part_path.unlink()  # A process that is killed leaves no file.
                with self._writing_lock:
                    rows = self._write_file(run, incomplete_reason, file)
                size = file.seek(0, os.SEEK_END)
                if run.job.target == "download":
                    if size > self._max_bytes:
                        raise QueryError(
                            f"The file has {size / 1e9:,.1f} GB, more than exports.max_gb. Narrow the filter"
                            " or raise the setting."
                        )
                    result = part_path.replace(path).name
                else:
                    server = mail_server.load(self.settings, self.app_db)
                    outgoing = OutgoingFile(
                        run, self._find_days(run), file, name, size, rows, incomplete_reason
                    )
                    result = delivery.deliver(self.settings, server, outgoing)
        finally:
            part_path.unlink(missing_ok=True)
            self._rows_written.pop(run.id, None)
        state = "delivered" if incomplete_reason is None else "incomplete"
        return run.make_attempt(started_at, state, result, file=name, rows=rows, size=size)

    def _find_days(self, run: ExportRun) -> Period:
        """Return the days that the file of a schedule covers."""
        if not run.job.is_digest:
            return run.calendar_period
        with self.app_db.read() as connection:
            return jobs.find_digest_period(connection, run)

    def _write_file(self, run: ExportRun, incomplete_reason: str | None, file: IO[bytes]) -> int:
        """Write the records that the owner may export at present. Returns the number of rows."""
        report = partial(self._report_progress, run)
        if key := run.job.args.get(_WRITER):
            write = self._writers.pop(key, None)
            if write is None:
                raise QueryError("Switchroom was restarted before this file was complete. Request it again.")
            return write(file, report)
        selection = self._build_selection(run)
        if run.job.is_digest:
            return self._write_digest(run, incomplete_reason, file)
        if FORMATS[run.job.form].write is not None:
            return write_export(self.mirror_db, selection, run.job.form, file, report)
        chunks = export_request.open_chunks(self, selection, run.job.form, run.job.args)
        try:
            for chunk in chunks:
                file.write(chunk)
                report(0)
        finally:
            chunks.close()
        return chunks.row_count

    def _report_progress(self, run: ExportRun, rows: int) -> None:
        self._rows_written[run.id] = rows
        if self._scheduler.stopping.is_set():
            raise JobCancelled
        with self.app_db.read() as connection:
            if not jobs.is_running(connection, run):
                raise JobCancelled
        if run.job.target == "download" and shutil.disk_usage(self._folder).free < MIN_FREE_BYTES:
            raise QueryError(
                f"The disk is nearly full: {MIN_FREE_TEXT} always stay free. Free disk space and try again."
            )

    def _write_months(self, run: ExportRun, started_at: datetime, *, is_complete: bool) -> DeliveryAttempt:
        """Write the changed months of a data set and return the attempt.

        Months with incomplete records keep their files, so that a rebuilt mirror does not replace good
        files. If all are complete, files of months without records are removed.
        """
        name = run.file_name(complete=True)
        folder = delivery.find_folder(self.settings, f"{run.job.place}/{name}".lstrip("/"))
        selection, read = self._build_selection(run), self.mirror_db.read
        months, excluded_months = parquet_months.list_months(read, selection), list[str]()
        if not is_complete:
            with read() as connection:
                excluded_months = find_incomplete_months(connection, run, months)
        # Write one data set or file at a time, as above.
        try:
            with self._writing_lock:
                files = parquet_months.write_months(
                    read,
                    selection,
                    folder,
                    excluded_months=excluded_months,
                    spool_folder=self.settings.storage.data_dir,
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
        return run.make_attempt(
            started_at,
            "delivered" if is_complete else "incomplete",
            f"{'; '.join(results) or 'no month has changed'} ({folder})",
            file=name,
            rows=sum(file.rows for file in written),
            size=sum(file.size for file in written),
        )

    def _build_selection(self, run: ExportRun) -> Selection:
        """Return the selection of a run with the present rights of the job's owner."""
        job, args = run.job, dict(run.job.args)
        target, _ = export_request.find_export(job.export)
        person = None if job.person_id is None else people.get(self.app_db, job.person_id)
        if run.schedule_id is not None and (person is None or not has(person, "supervisor")):
            raise visibility.NotAllowed(
                f"{job.who} no longer has the role supervisor. A user with this role must save the schedule."
            )
        viewer = visibility.of(person, self.settings.dashboard.agents_see)
        if person is not None:
            viewer.check_export(target, SCHEDULED_FORMATS[job.form].right)
            if viewer.scope_of(target) != job.only_user:
                raise visibility.NotAllowed(
                    "Your access rights have changed since you requested this export. Request it again."
                )
        elif job.person_id is not None:
            raise visibility.NotAllowed(f"The dashboard user {job.who} was removed.")
        else:
            viewer = viewer.limited_to(job.only_user)
        if run.schedule_id is not None:
            args["tz"] = job.zone
            if jobs.has_period_records(target):
                args["to"] = run.calendar_period.end_day.isoformat()
                if not job.is_by_month:
                    args["from"] = run.calendar_period.first_day.isoformat()
        return export_request.build_selection(self, job.export, args, viewer, person)

    @property
    def _max_bytes(self) -> float:
        return self.settings.exports.max_gb * 1e9

    def _list_downloads(self) -> list[ExportRun]:
        with self.app_db.read() as connection:
            return jobs.list_downloads(connection)

    def _remove_expired(self) -> None:
        """Remove downloads older than `exports.keep_days`, the oldest beyond `exports.max_gb`, and orphans.

        Orphans are files without a finished download: a crash or a restored backup leaves them.
        """
        cutoff = clock.utc_text(clock.now() - timedelta(days=self.settings.exports.keep_days))
        # Listed before what is kept is read: a run exists before its file, so the file of a run that
        # another thread begins now is not an orphan.
        paths = list(self._folder.glob("*"))
        size, kept_ids = 0, set(self._rows_written)
        for run in self._list_downloads():
            size += run.bytes or 0
            is_over = run.state == "done" and size > self._max_bytes
            if not run.is_active and ((run.ended_at or "") < cutoff or is_over):
                self._remove(run)
            elif run.is_active or run.state == "done":
                kept_ids.add(run.id)
        for path in paths:
            name = _FILE_NAME.fullmatch(path.name)
            if name is not None and name[2] in FORMATS and int(name[1]) not in kept_ids:
                path.unlink(missing_ok=True)

    def _remove(self, run: ExportRun) -> None:
        self.path(run).unlink(missing_ok=True)
        jobs.remove(self.app_db, run.job.id)


def write_export(
    mirror_db: Database, selection: Selection, form: str, file: IO[bytes], on_progress: Callable[[int], None]
) -> int:
    """Write a complete export to `file`. Returns the number of rows.

    `on_progress` receives the number of rows written so far. Raises QueryError.
    """
    write_file = FORMATS[form].write
    assert write_file is not None

    def write(connection: sqlite3.Connection, export_query: ExportQuery) -> Iterator[bytes]:
        write_file(connection, replace(export_query, on_progress=on_progress), selection, file)
        yield b""

    stream = ExportStream(mirror_db.read, selection, write)
    stream.prefetch()
    stream.close()
    return stream.row_count


def find_incomplete_reason(connection: sqlite3.Connection, run: ExportRun) -> str | None:
    """Return why the mirror's records of a period are incomplete.

    Returns None if they are complete.
    """
    target, _ = export_request.find_export(run.job.export)
    since, until = run.bounds
    if not jobs.has_period_records(target):
        return completeness.explain_unread(connection, visibility.required_resource(target), until)
    return _explain_incomplete(connection, target, FIRST_RECORDS if run.job.is_by_month else since, until)


def find_incomplete_months(
    connection: sqlite3.Connection, run: ExportRun, months: Iterable[str]
) -> list[str]:
    """Return those of `months` (UTC) with incomplete records.

    Records after the end of the period do not count. Records without a date have no counts that could be
    compared, so the month 'undated' is one of them.
    """
    target, _ = export_request.find_export(run.job.export)
    incomplete_months = []
    for month in months:
        begin = clock.parse_utc(f"{month}-01 00:00:00")
        if begin is not None:
            end = min(find_period("month", begin.date()).bounds(ZoneInfo("UTC"))[1], run.bounds[1])
            if _explain_incomplete(connection, target, begin, end) is None:
                continue
        incomplete_months.append(month)
    return incomplete_months


def _explain_incomplete(
    connection: sqlite3.Connection, target: Resource, since: datetime, until: datetime
) -> str | None:
    """Return why the records dated in `[since, until)` are incomplete, or None."""
    reason = completeness.explain_gaps(connection, visibility.required_resource(target), since, until)
    if reason is None and target is CALLS:
        return completeness.explain_unfinished_calls(connection, since, until)
    return reason


def _describe(run: ExportRun) -> str:
    return f"export {run.id}" if run.schedule_id is None else f"schedule {run.job.id}, period {run.period}"
