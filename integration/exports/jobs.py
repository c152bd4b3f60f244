"""Export jobs: what to export, for whom, to which target, and how often.

A job without a frequency is a *download*: a large export that its owner fetches later. A job with one is a
*schedule*. A download has one run, a schedule one for each period that ended. The states of a run:

| State | Meaning | Next |
|---|---|---|
| waiting | for its first attempt, for complete records, or for the next attempt after a failure | running |
| running | an attempt began; if no thread works on it, the process ended during the attempt | any |
| done | the target has the file | waiting, if a user requests another delivery |
| failed | only downloads; a schedule waits for its next attempt instead | – |
| cancelled | by the owner of a download | – |
| skipped | only schedules: too old for delivery | waiting, as above |
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields, replace
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any, Literal
from zoneinfo import ZoneInfo

from integration.access import audit, visibility
from integration.catalogue import RESOURCES
from integration.catalogue.collection_titles import get_title
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.calendar_periods import Frequency, Period, find_period, iter_ended
from integration.core.errors import DomainError
from integration.exports import export_request, formats
from integration.exports.columns import use_one_zone
from integration.exports.export_request import UnknownExport
from integration.exports.selection import normalize_file_name
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema, execute_script
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS export_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    export TEXT NOT NULL,
    form TEXT NOT NULL,
    args TEXT NOT NULL,
    who TEXT NOT NULL,
    person_id INTEGER,
    owner TEXT NOT NULL DEFAULT '',
    only_user INTEGER,
    target TEXT NOT NULL CHECK (target IN ('download', 'folder', 'email', 'put')),
    place TEXT NOT NULL DEFAULT '',
    secret TEXT NOT NULL DEFAULT '',
    every TEXT CHECK (every IN ('day', 'week', 'month')),
    name TEXT NOT NULL DEFAULT '',
    file TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL DEFAULT '',
    zone TEXT NOT NULL DEFAULT '',
    wait_hours INTEGER NOT NULL DEFAULT 0,
    incomplete INTEGER NOT NULL DEFAULT 0 CHECK (incomplete IN (0, 1)),
    since TEXT NOT NULL DEFAULT '',
    paused_at TEXT,
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS export_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    period TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled', 'skipped')),
    tries INTEGER NOT NULL DEFAULT 0,
    next_at TEXT,
    holds_all INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    waits_for TEXT,
    partial_at TEXT,
    redeliveries INTEGER NOT NULL DEFAULT 0,
    at_once INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    rows INTEGER,
    bytes INTEGER,
    ended_at TEXT,
    UNIQUE (job_id, period)
) STRICT;
CREATE INDEX IF NOT EXISTS export_runs_open ON export_runs (job_id) WHERE state IN ('waiting', 'running');
CREATE TABLE IF NOT EXISTS export_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    period TEXT NOT NULL,
    at TEXT NOT NULL,
    file TEXT NOT NULL,
    rows INTEGER,
    bytes INTEGER,
    state TEXT NOT NULL,
    result TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS export_attempts_of ON export_attempts (schedule_id, id);
"""

RunState = Literal["waiting", "running", "done", "failed", "cancelled", "skipped"]
ScheduleState = Literal["paused", "failing", "waiting", "ok"]
DOWNLOAD_STATES: tuple[RunState, ...] = ("waiting", "running", "done", "failed", "cancelled")
_OPEN = "state IN ('waiting', 'running')"
Target = Literal["download", "folder", "email", "put"]
TARGETS: tuple[Target, ...] = ("folder", "email", "put")
"""Targets of schedules."""
SUBJECT_DATA = "subject-data"
"""Export of a download with all data of one telephone number. Its number is in memory only."""
PARTITION_PARAMETER = "partition_by"
"""Parameter of an export in files by month; its value is 'month'."""
NAMES_PARAMETER, OPEN_DAYS_PARAMETER = "names", "open_days"
"""Parameters of digests: whether callers are named, and whether closed days are left to the next one."""
ALERT_ADDRESSES = "alerts.urls"
"""Place of a digest that goes to the addresses of this setting. Its target is `put`."""
FREQUENCY_LABELS = {"day": "every day", "week": "every week, on Monday", "month": "every month, on the 1st"}
MAX_DIGEST_DAYS = 366
"""Days since the last delivery that a digest covers at most."""
MAX_SCHEDULES = 100
"""Largest number of schedules of an installation."""
MAX_NAME_LENGTH = 60
"""Characters of a schedule's name; a longer name is truncated."""
MAX_PERIODS = 31
"""Largest number of overdue periods that are delivered. Older ones are skipped and logged."""
MAX_ACTIVE_PER_OWNER = 5
"""Largest number of waiting and running downloads of one owner."""
LOG_LINES = 100
"""Number of delivery attempts that are shown, and searched for the last successful one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob:
    """An export with its target. Times are UTC text.

    `export` and `form` are as in `/exports/<export>.<form>`, `args` the parameters. Exports run with the
    rights of the dashboard user `person_id`; `who` is the name of this user, or of the key that requested a
    download.

    Of a download: only `owner` can access the file ('person ID', 'key USER_ID' or 'platform user …').
    `only_user` is the platform user of the owner's user scope.

    Of a schedule: `file` is the prefix of file names, before the period. `at` is 'HH:MM' in `zone`. `place`
    is a folder below `exports.folder`, e-mail addresses separated by blanks, or a URL; `secret` is the
    Authorization header for the URL, or ''. It waits `wait_hours` for complete data, then delivers an
    incomplete file if `incomplete` is set. Periods due until `since` are not delivered.
    """

    id: int = 0
    export: str
    form: str = "xlsx"
    args: Mapping[str, str]
    who: str = ""
    person_id: int | None = None
    owner: str = ""
    only_user: int | None = None
    target: Target = "folder"
    place: str = ""
    secret: str = ""
    every: Frequency | None = None
    name: str = ""
    file: str = ""
    at: str = "06:00"
    zone: str = "UTC"
    wait_hours: int = 6
    incomplete: bool = True
    since: str = ""
    paused_at: str | None = None
    created_at: str = ""

    @property
    def is_by_month(self) -> bool:
        """True for one file per month.

        A delivery then writes the changed months.
        """
        return self.args.get(PARTITION_PARAMETER) == "month"

    @property
    def display_form(self) -> str:
        """Format for pages and lists: 'csv', 'parquet by month'."""
        return f"{self.form} by month" if self.is_by_month else self.form

    @property
    def is_digest(self) -> bool:
        return self.form == formats.DIGEST

    @property
    def display_place(self) -> str:
        """`place` for pages and logs, without the query of a URL.

        The query may contain credentials.
        """
        return self.place.partition("?")[0] if self.target == "put" else self.place

    @property
    def title(self) -> str:
        """Title of the export; its name if the export no longer exists."""
        if self.export == SUBJECT_DATA:
            return "One person’s data"
        try:
            target, preset = export_request.find_export(self.export)
        except UnknownExport:
            return self.export
        return preset.title if preset else get_title(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """One file of a job. Times are UTC text.

    `period` is the key of a schedule's period, '' for a download. `tries` counts the attempts since the last
    success or change by a user; the next is not before `next_at`. `rows` and `bytes` describe the file.

    Of a download: `total` is the number of rows at the request.

    Of a schedule: `holds_all`: the last attempt failed because of the target, so its other periods wait as
    well. `waits_for` describes the missing data; `partial_at` is the time at which an incomplete file was
    delivered. `redeliveries` counts those that users requested; `at_once`: a user requested the delivery
    without waiting for complete data.
    """

    job: ExportJob
    id: int = 0
    period: str = ""
    state: RunState = "waiting"
    tries: int = 0
    next_at: str | None = None
    holds_all: bool = False
    error: str | None = None
    waits_for: str | None = None
    partial_at: str | None = None
    redeliveries: int = 0
    at_once: bool = False
    total: int = 0
    rows: int | None = None
    bytes: int | None = None
    ended_at: str | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ("waiting", "running")

    @property
    def schedule_id(self) -> int | None:
        return self.job.id if self.job.every else None

    @property
    def calendar_period(self) -> Period:
        """Days of the period. Only for runs of schedules."""
        assert self.job.every is not None
        first_day = f"{self.period}-01" if self.job.every == "month" else self.period
        return find_period(self.job.every, date.fromisoformat(first_day))

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        return self.calendar_period.bounds(ZoneInfo(self.job.zone))

    @property
    def due_at(self) -> datetime:
        return self.calendar_period.due_at(time.fromisoformat(self.job.at), ZoneInfo(self.job.zone))

    @property
    def wait_until(self) -> datetime:
        """UTC time until which the schedule waits for missing records."""
        return self.due_at + timedelta(hours=self.job.wait_hours)

    def file_name(self, *, complete: bool) -> str:
        """Return the file name. It depends on schedule and period only.

        For files by month it is the name of their folder.
        """
        if self.job.is_by_month:
            return f"{self.job.file}/"
        suffix = formats.SCHEDULED_FORMATS[self.job.form].suffix
        return f"{self.job.file}-{self.period}{'' if complete else '-incomplete'}.{suffix}"

    def make_attempt(
        self,
        started_at: datetime,
        state: str,
        result: str,
        file: str = "",
        rows: int | None = None,
        size: int | None = None,
    ) -> DeliveryAttempt:
        at, job = clock.utc_text(started_at), self.job
        return DeliveryAttempt(job.id, job.name, self.period, at, file, rows, size, state, result)


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One delivery attempt of a schedule.

    `state` is 'delivered', 'incomplete' (delivered with missing data), 'failed' or 'skipped'. `rows` and
    `bytes` are None without a file.
    """

    schedule_id: int
    name: str
    period: str
    at: str
    file: str
    rows: int | None
    bytes: int | None
    state: str
    result: str


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """Status of one schedule.

    `about` is the reason for a failure or for waiting. `next_at` is the time of the next delivery (UTC text),
    `last` the newest successful attempt.
    """

    schedule: ExportJob
    state: ScheduleState
    about: str
    next_at: str
    last: DeliveryAttempt | None


_JOB_COLUMNS = tuple(field.name for field in fields(ExportJob))
_RUN_COLUMNS = tuple(field.name for field in fields(ExportRun) if field.name != "job")
_ATTEMPT_COLUMNS = ", ".join(field.name for field in fields(DeliveryAttempt))
_JOB_SQL = f"SELECT {', '.join(f'j.{name}' for name in _JOB_COLUMNS)}"
_RUN_SQL = f"{_JOB_SQL}, {', '.join(f'r.{name}' for name in _RUN_COLUMNS)}"
_FLAGS = ("incomplete", "holds_all", "at_once")

# --- reads -----------------------------------------------------------------------------------------------


def list_schedules(connection: sqlite3.Connection) -> list[ExportJob]:
    """Return all schedules, sorted by name."""
    order = "WHERE j.every IS NOT NULL ORDER BY j.name COLLATE NOCASE, j.id"
    return [_make_job(row) for row in connection.execute(f"{_JOB_SQL} FROM export_jobs AS j {order}")]


def find_schedule(connection: sqlite3.Connection, schedule_id: int) -> ExportJob | None:
    return next((schedule for schedule in list_schedules(connection) if schedule.id == schedule_id), None)


def list_open_runs(connection: sqlite3.Connection, schedule_id: int) -> list[ExportRun]:
    """Return the runs of a schedule that are not delivered yet, oldest first."""
    return _list_runs(connection, f"j.id = ? AND {_OPEN} ORDER BY r.period", schedule_id)


def list_due_runs(connection: sqlite3.Connection, now: datetime) -> list[ExportRun]:
    """Return the runs that can be attempted: downloads, then schedules, oldest first."""
    return _list_runs(
        connection,
        f"{_OPEN} AND j.paused_at IS NULL AND coalesce(r.next_at, '') <= ?1 AND NOT EXISTS (SELECT 1 FROM"
        f" export_runs AS other WHERE other.job_id = j.id AND other.{_OPEN} AND other.holds_all"
        " AND other.next_at > ?1) ORDER BY r.period, r.id",
        clock.utc_text(now),
    )


def find_digest_period(connection: sqlite3.Connection, run: ExportRun) -> Period:
    """Return the days of a digest: those of its period, and earlier ones that no digest has covered."""
    days = run.calendar_period
    (period,) = connection.execute(
        "SELECT max(period) FROM export_runs WHERE job_id = ? AND state = 'done' AND period < ?",
        (run.job.id, run.period),
    ).fetchone()
    if period is None:
        return days
    covered_until = replace(run, period=period).calendar_period.end_day
    earliest = days.end_day - timedelta(days=MAX_DIGEST_DAYS)
    return replace(days, first_day=max(min(days.first_day, covered_until), earliest))


def find_download(connection: sqlite3.Connection, run_id: int) -> ExportRun | None:
    return next(iter(_list_runs(connection, "j.every IS NULL AND r.id = ?", run_id)), None)


def list_downloads(connection: sqlite3.Connection, owner: str | None = None) -> list[ExportRun]:
    """Return the downloads of an owner, or of all, newest first."""
    return _list_runs(
        connection, "j.every IS NULL AND j.owner = coalesce(?, j.owner) ORDER BY r.id DESC", owner
    )


def count_downloads(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of downloads by state."""
    rows = connection.execute("SELECT state, count(*) FROM export_runs AS r WHERE period = '' GROUP BY state")
    return dict(tuple(row) for row in rows)


def is_running(connection: sqlite3.Connection, run: ExportRun) -> bool:
    """Return whether the attempt of a run goes on: it was not cancelled, removed or requested once more."""
    sql = "SELECT 1 FROM export_runs WHERE id = ? AND state = 'running'"
    return connection.execute(sql, (run.id,)).fetchone() is not None


def list_attempts(connection: sqlite3.Connection, schedule_id: int) -> list[DeliveryAttempt]:
    """Return the newest LOG_LINES attempts, newest first."""
    sql = f"SELECT {_ATTEMPT_COLUMNS} FROM export_attempts WHERE schedule_id = ? ORDER BY id DESC LIMIT ?"
    return [DeliveryAttempt(*row) for row in connection.execute(sql, (schedule_id, LOG_LINES))]


def list_failing(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return name and error of the schedules that fail and are not paused."""
    statuses = list_statuses(connection, clock.now())
    return [(status.schedule.name, status.about) for status in statuses if status.state == "failing"]


def list_statuses(connection: sqlite3.Connection, now: datetime) -> list[ScheduleStatus]:
    """Return the status of all schedules, sorted by name."""
    return [compute_status(connection, schedule, now) for schedule in list_schedules(connection)]


def compute_status(connection: sqlite3.Connection, schedule: ExportJob, now: datetime) -> ScheduleStatus:
    runs = list_open_runs(connection, schedule.id)
    error = next((run.error for run in runs if run.error), "")
    waiting = next((f"{run.period} is waiting: {run.waits_for}" for run in runs if run.waits_for), "")
    state: ScheduleState = "failing" if error else "waiting" if waiting else "ok"
    if schedule.paused_at is not None:
        state = "paused"
    attempts = list_attempts(connection, schedule.id)
    last = next((entry for entry in attempts if entry.state in ("delivered", "incomplete")), None)
    next_at = clock.utc_text(find_next_due(schedule, now).due_at)
    return ScheduleStatus(schedule, state, error or waiting, next_at, last)


def find_last_ended(schedule: ExportJob, now: datetime) -> Period:
    """Return the last period that ended.

    Its delivery may not be due yet.
    """
    assert schedule.every is not None
    return find_period(schedule.every, now.astimezone(ZoneInfo(schedule.zone)).date()).previous


def find_next_due(schedule: ExportJob, now: datetime) -> ExportRun:
    """Return the run of the first delivery due after `now`."""
    period = find_last_ended(schedule, now)
    while (run := ExportRun(job=schedule, period=period.key)).due_at <= now:
        period = find_period(period.frequency, period.end_day)
    return run


def has_period_records(target: Resource) -> bool:
    """Return whether records belong to periods.

    Settings do not; exports contain all of them.
    """
    return visibility.required_resource(target).history


# --- changes by users ------------------------------------------------------------------------------------


def add_download(app_db: Database, job: ExportJob, total: int) -> ExportRun:
    """Add a download of `total` rows, or return an equal active one of the owner.

    They are equal if export, format and parameters are. Raises DomainError if the owner has
    MAX_ACTIVE_PER_OWNER active ones.
    """
    job = replace(
        job,
        args={name: value for name, value in job.args.items() if value},
        target="download",
        created_at=clock.utc_text(),
    )

    def work(tx: Transaction) -> ExportRun:
        active = [run for run in list_downloads(tx.connection, job.owner) if run.is_active]
        for run in active:
            if (run.job.export, run.job.form, run.job.args) == (job.export, job.form, job.args):
                return run
        if len(active) >= MAX_ACTIVE_PER_OWNER:
            raise DomainError(
                f"{MAX_ACTIVE_PER_OWNER} of your exports are already being prepared. Try again when one is"
                " complete."
            )
        row = tx.execute(
            "INSERT INTO export_runs (job_id, total) VALUES (?, ?)", (_insert_job(tx, job), total)
        )
        added = find_download(tx.connection, int(row.lastrowid or 0))
        assert added is not None
        return added

    return app_db.write(work)


def save_schedule(app_db: Database, schedule: ExportJob) -> int:
    """Add a schedule (id 0), or replace it and retry its failed periods at the next run.

    Returns its id. Raises DomainError.
    """
    name = " ".join(schedule.name.split())[:MAX_NAME_LENGTH]
    schedule = replace(schedule, name=name, file=normalize_file_name(name))

    def work(tx: Transaction) -> int:
        schedules, now = list_schedules(tx.connection), clock.utc_text()
        for other in schedules:
            if other.file == schedule.file and other.id != schedule.id:
                raise DomainError(
                    f"The schedule “{other.name}” already uses the file name {schedule.file}. Choose another"
                    " name."
                )
        if not schedule.id:
            if len(schedules) >= MAX_SCHEDULES:
                raise DomainError(f"At most {MAX_SCHEDULES} schedules are possible. Remove one first.")
            return _insert_job(tx, replace(schedule, since=now, created_at=now, paused_at=None))
        stored = find_schedule(tx.connection, schedule.id)
        if stored is None:
            raise DomainError("This schedule was removed.")
        since = stored.since
        if schedule.every != stored.every:
            # Open periods of another frequency have invalid keys.
            since = now
            tx.execute(f"DELETE FROM export_runs WHERE job_id = ? AND {_OPEN}", (schedule.id,))
        changed = replace(schedule, since=since, created_at=stored.created_at, paused_at=stored.paused_at)
        changes = ", ".join(f"{column} = ?" for column in _JOB_COLUMNS)
        tx.execute(f"UPDATE export_jobs SET {changes} WHERE id = ?", (*_to_row(changed), schedule.id))
        _reset_retries(tx, schedule.id)
        return schedule.id

    return app_db.write(work)


def remove(app_db: Database, job_id: int) -> None:
    """Delete a job with its runs; the log of a schedule stays."""
    app_db.write(lambda tx: tx.execute("DELETE FROM export_jobs WHERE id = ?", (job_id,)))


def pause(app_db: Database, schedule_id: int) -> None:
    """Pause a schedule: deliver nothing until `resume`."""
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE export_jobs SET paused_at = coalesce(paused_at, ?) WHERE id = ?",
            (clock.utc_text(), schedule_id),
        )
    )


def resume(app_db: Database, schedule_id: int) -> None:
    """Resume a schedule.

    Deliver the periods that were open before the pause and those due from now on.
    """

    def work(tx: Transaction) -> None:
        tx.execute(
            "UPDATE export_jobs SET since = ?, paused_at = NULL WHERE id = ? AND paused_at IS NOT NULL",
            (clock.utc_text(), schedule_id),
        )
        _reset_retries(tx, schedule_id)

    app_db.write(work)


def request_redelivery(app_db: Database, schedule_id: int, period: str) -> None:
    """Schedule an immediate delivery of a period.

    The period may have been delivered before, and its data may be incomplete.
    """

    def work(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO export_runs (job_id, period, at_once) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET"
            " redeliveries = redeliveries + (state = 'done' OR partial_at IS NOT NULL), state = 'waiting',"
            " at_once = 1, partial_at = NULL",
            (schedule_id, period),
        )
        _reset_retries(tx, schedule_id)

    app_db.write(work)


def cancel(app_db: Database, run: ExportRun) -> bool:
    """Cancel an active download. Returns False if it is not active."""
    return app_db.write(lambda tx: _change(tx, run, state="cancelled", ended_at=clock.utc_text()))


# --- changes by the runner -------------------------------------------------------------------------------


def open_due_periods(app_db: Database, schedule: ExportJob, now: datetime) -> None:
    """Add a run for each period that became due, and skip those that are too old for delivery.

    At most MAX_PERIODS are delivered. Of settings, and of files by month, only the last period can be.
    """
    limit = _get_max_periods(schedule)
    *newest, oldest = islice(_iter_ended_runs(schedule, now), limit + 1)
    with app_db.read() as connection:
        rows = connection.execute("SELECT period, state FROM export_runs WHERE job_id = ?", (schedule.id,))
        states = {row[0]: row[1] for row in rows}
    new = [run for run in newest if run.period not in states and _is_after(run, schedule.since)]
    is_too_old = any(
        state in ("waiting", "running") and period <= oldest.period for period, state in states.items()
    ) or (oldest.period not in states and _is_after(oldest, schedule.since))
    if not new and not is_too_old:
        return

    def work(tx: Transaction) -> None:
        for run in [*new, *([oldest] if is_too_old else [])]:
            tx.execute(
                "INSERT INTO export_runs (job_id, period) SELECT id, ? FROM export_jobs WHERE id = ?"
                " ON CONFLICT DO NOTHING",
                (run.period, schedule.id),
            )
        if not is_too_old:
            return
        if schedule.is_by_month:
            reason = "Skipped: the next delivery updates all months."
        elif limit == 1:
            reason = "Skipped: settings can only be exported in their present state."
        else:
            reason = f"Skipped with all earlier periods: more than {limit} periods are overdue."
        _insert_attempt(tx, oldest.make_attempt(now, "skipped", reason))
        # Period keys of one schedule sort chronologically.
        tx.execute(
            f"UPDATE export_runs SET state = 'skipped', error = NULL WHERE job_id = ? AND {_OPEN}"
            " AND period <= ?",
            (schedule.id, oldest.period),
        )
        tx.execute(
            "UPDATE export_jobs SET since = max(since, ?) WHERE id = ?",
            (clock.utc_text(oldest.due_at), schedule.id),
        )

    app_db.write(work)


def mark_waiting(app_db: Database, run: ExportRun, waits_for: str, error: str | None) -> None:
    """Record that the data of a period is incomplete.

    `error` is set if its waiting time has passed.
    """
    app_db.write(lambda tx: _change(tx, run, state="waiting", waits_for=waits_for, error=error))


def mark_skipped(app_db: Database, run: ExportRun) -> None:
    """Skip a period: the next delivery covers its days."""
    app_db.write(lambda tx: _change(tx, run, state="skipped"))


def mark_running(app_db: Database, run: ExportRun, next_at: str | None) -> bool:
    """Record the start of an attempt. Whatever its result, the next is not before `next_at`.

    Returns False if the run was cancelled or removed.
    """
    return app_db.write(lambda tx: _change(tx, run, state="running", tries=run.tries + 1, next_at=next_at))


def mark_failed(app_db: Database, run: ExportRun, attempt: DeliveryAttempt, *, holds_all: bool) -> None:
    """Record a failed attempt. A schedule makes another one.

    `holds_all` delays the other periods of the schedule too.
    """

    def work(tx: Transaction) -> None:
        if run.schedule_id is None:
            _change(tx, run, state="failed", error=attempt.result, ended_at=clock.utc_text())
        else:
            _insert_attempt(tx, attempt)
            _change(tx, run, state="waiting", error=attempt.result, holds_all=holds_all)

    app_db.write(work)


def mark_delivered(app_db: Database, run: ExportRun, attempt: DeliveryAttempt) -> bool:
    """Record a successful attempt. Returns False if the run was cancelled or removed.

    After an incomplete file the run waits for the complete one.
    """
    is_complete = attempt.state != "incomplete"

    def work(tx: Transaction) -> bool:
        if run.schedule_id is not None:
            _insert_attempt(tx, attempt)
            rows = f"{attempt.rows:,} rows, " if attempt.rows is not None else ""
            audit.record(tx, f"schedule {attempt.name}", "export", attempt.file, f"{rows}{attempt.result}")
        return _change(
            tx,
            run,
            state="done" if is_complete else "waiting",
            partial_at=run.partial_at if is_complete else attempt.at,
            rows=attempt.rows,
            bytes=attempt.bytes,
            ended_at=clock.utc_text(),
            **{**dict.fromkeys(("error", "next_at", "waits_for")), "tries": 0, "holds_all": 0, "at_once": 0},
        )

    return app_db.write(work)


# --- migrations ------------------------------------------------------------------------------------------


def store_default_columns(schema: Schema) -> None:
    """Migration step: store the default columns of earlier versions.

    The default columns of a collection now include the fields that only a record's own path returns. Files of
    existing schedules keep their columns.
    """
    if not schema.table("export_schedules").exists():
        return
    resources = {resource.table: resource for resource in RESOURCES if resource.has_item_only_fields}
    for row in schema.execute("SELECT id, export, form, args, zone FROM export_schedules").fetchall():
        schedule_id, export, form, args, zone = row[0], row[1], row[2], json.loads(row[3]), row[4]
        has_words = args.get("headings") == "words"
        if export not in resources or args.get("columns") or args.get("set"):
            continue
        if form == "jsonl" and not has_words:
            continue  # Its lines are the records as received.
        resource = resources[export]
        columns = tuple(field.name for field in resource.fields if field.documented and not field.item_only)
        if has_words:
            columns = use_one_zone(resource, columns, zone)
        changed_args = json.dumps({**args, "columns": ",".join(columns)})
        schema.execute("UPDATE export_schedules SET args = ? WHERE id = ?", (changed_args, schedule_id))


def merge_schedules_and_downloads(schema: Schema) -> None:
    """Migration step: move schedules and prepared exports into `export_jobs`.

    Schedules keep their ids, which pages and the log use. The runs of downloads have the ids of the prepared
    exports, which their paths contain.
    """
    if not schema.table("export_schedules").exists():
        return
    execute_script(
        schema,
        f"""{TABLES}
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'export_jobs', seq FROM sqlite_sequence WHERE name = 'export_schedules'
    UNION ALL SELECT 'export_runs', seq FROM sqlite_sequence WHERE name = 'prepared_exports';
INSERT INTO export_jobs (id, export, form, args, who, person_id, target, place, secret, every, name, file, at,
    zone, wait_hours, incomplete, since, paused_at, created_at)
    SELECT id, export, form, args, who, (SELECT id FROM people WHERE email = who), target, place, secret,
    every, name, file, at, zone, wait_hours, incomplete, since, paused_at, created_at FROM export_schedules;
INSERT INTO export_jobs (id, export, form, args, who, person_id, owner, only_user, target, created_at)
    SELECT id + (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'export_schedules'), export,
    form, args, who, person_id, owner, only_user, 'download', created_at FROM prepared_exports;
INSERT INTO export_runs (id, job_id, state, tries, total, rows, bytes, error, ended_at)
    SELECT id, id + (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'export_schedules'),
    state, begun, total, rows, bytes, error, ended_at FROM prepared_exports;
INSERT INTO export_runs (job_id, period, state, tries, next_at, holds_all, error, waits_for, partial_at,
    redeliveries, at_once)
    SELECT schedule_id, period, CASE state WHEN 'open' THEN 'waiting' WHEN 'delivered' THEN 'done' ELSE state
    END, tries, next_at, holds_all, error, waits_for, partial_at, again, at_once FROM export_periods;
DROP TABLE export_periods;
DROP TABLE export_schedules;
DROP TABLE prepared_exports;
""",
    )


# --- helpers ---------------------------------------------------------------------------------------------


def _list_runs(connection: sqlite3.Connection, conditions: str, *values: object) -> list[ExportRun]:
    rows = connection.execute(
        f"{_RUN_SQL} FROM export_jobs AS j JOIN export_runs AS r ON r.job_id = j.id WHERE {conditions}",
        values,
    )
    count = len(_JOB_COLUMNS)
    return [
        ExportRun(job=_make_job(row[:count]), **_convert_flags(zip(_RUN_COLUMNS, row[count:], strict=True)))
        for row in map(tuple, rows)
    ]


def _make_job(row: Any) -> ExportJob:
    values = _convert_flags(zip(_JOB_COLUMNS, row, strict=True))
    return ExportJob(**{**values, "args": json.loads(values["args"])})


def _convert_flags(values: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    return {name: bool(value) if name in _FLAGS else value for name, value in values}


def _to_row(job: ExportJob) -> list[object]:
    """Return the values of _JOB_COLUMNS."""
    values = [getattr(job, column) for column in _JOB_COLUMNS]
    values[_JOB_COLUMNS.index("args")] = json.dumps(dict(sorted(job.args.items())))
    return values


def _insert_job(tx: Transaction, job: ExportJob) -> int:
    columns, values = _JOB_COLUMNS[1:], _to_row(job)[1:]  # without the id
    placeholders = ", ".join("?" * len(values))
    sql = f"INSERT INTO export_jobs ({', '.join(columns)}) VALUES ({placeholders})"
    return int(tx.execute(sql, values).lastrowid or 0)


def _change(tx: Transaction, run: ExportRun, **changes: object) -> bool:
    """Change an open run. Returns False if it is not open any more."""
    assignments = ", ".join(f"{column} = ?" for column in changes)
    sql = f"UPDATE export_runs SET {assignments} WHERE id = ? AND {_OPEN}"
    return tx.execute(sql, (*changes.values(), run.id)).rowcount > 0


def _reset_retries(tx: Transaction, schedule_id: int) -> None:
    """Clear back-off and errors of the open periods.

    The next run of the job retries them.
    """
    tx.execute(
        "UPDATE export_runs SET tries = 0, next_at = NULL, holds_all = 0, error = NULL"
        f" WHERE job_id = ? AND {_OPEN}",
        (schedule_id,),
    )


def _insert_attempt(tx: Transaction, attempt: DeliveryAttempt) -> None:
    values = astuple(attempt)
    sql = f"INSERT INTO export_attempts ({_ATTEMPT_COLUMNS}) VALUES ({', '.join('?' * len(values))})"
    tx.execute(sql, values)


def _get_max_periods(schedule: ExportJob) -> int:
    if schedule.is_by_month:
        return 1
    try:
        return MAX_PERIODS if has_period_records(export_request.find_export(schedule.export)[0]) else 1
    except UnknownExport:
        # The delivery attempt reports this error.
        return MAX_PERIODS


def _iter_ended_runs(schedule: ExportJob, now: datetime) -> Iterator[ExportRun]:
    """Yield the runs of the periods that were due by `now`, newest first."""
    assert schedule.every is not None
    for period in iter_ended(schedule.every, time.fromisoformat(schedule.at), ZoneInfo(schedule.zone), now):
        yield ExportRun(job=schedule, period=period.key)


def _is_after(run: ExportRun, since: str) -> bool:
    return clock.utc_text(run.due_at) > since
