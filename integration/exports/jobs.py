"""Prepares large files in the background, one after another, and keeps them for a while.

Some formats have no first byte before their last row is written: beyond `Format.background_above` rows nobody
waits for that in front of a browser.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import IO

from flask import Flask

from integration.access import people, visibility
from integration.access.people import Person
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import QueryError, SwitchroomError
from integration.exports import export_request, prepared_exports
from integration.exports.formats import FORMATS
from integration.exports.prepared_exports import ExportJob
from integration.exports.query import ExportQuery, ExportStream
from integration.exports.selection import Selection

log = logging.getLogger(__name__)

EXTENSION = "switchroom prepared exports"
JOB_NAME = "prepared exports"
"""Name of the job and of its health check."""
CHECK_SECONDS = 60.0
MAX_ATTEMPTS = 3
"""So often one is begun. What ends the process each time is not begun for ever."""
MIN_FREE_BYTES = 2 * 10**9
"""Bytes that are always left free, as by the archive (`recordings.max_gb`)."""
_FILE_NAME = re.compile(r"[0-9]{1,18}\.([a-z0-9]+)(\.part)?")


class JobCancelled(SwitchroomError):
    """It is not wanted any more: cancelled, or the product stops."""


class ExportJobs:
    """Writes the requested files one after another; one per running product."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._folder = context.settings.storage.data_dir / "prepared"
        self._rows_written: dict[int, int] = {}
        self._cancelled: set[int] = set()

    def schedule(self) -> None:
        self._context.scheduler.every(
            JOB_NAME, CHECK_SECONDS, self.run, executor="exports", is_watched=True, retries=True
        )

    def request_run(self) -> None:
        """Write the exports that were requested just now. Returns at once."""
        self._context.scheduler.nudge(JOB_NAME)

    # --- asked by routes ---------------------------------------------------------------------------

    def rows_written(self, job: ExportJob) -> int:
        """Rows of it that are written so far."""
        return self._rows_written.get(job.id, 0) if job.is_active else job.rows or 0

    def path(self, job: ExportJob) -> Path:
        return self._folder / f"{job.id}.{job.form}"

    def expires_at(self, job: ExportJob) -> str | None:
        """UTC text; None while there is no file."""
        ended = clock.parse_utc(job.ended_at)
        if job.state != "done" or ended is None:
            return None
        return clock.utc_text(ended + timedelta(days=self._context.settings.exports.keep_days))

    def cancel(self, job: ExportJob) -> None:
        """End it if it is under way, else remove its file."""
        if job.is_active and prepared_exports.mark_cancelled(self._context.app_db, job.id):
            self._cancelled.add(job.id)
            return
        self._remove_job(job)

    def remove_all(self) -> int:
        """End what is under way and remove every file; returns how many of both."""
        with self._context.app_db.read() as connection:
            jobs = prepared_exports.list_in_states(connection, "waiting", "running", "done")
        for job in jobs:
            self.cancel(job)
        return len(jobs)

    # --- the job -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Write what is requested, until nothing is left or the product stops; remove what is outdated."""
        self._remove_orphans()
        self._remove_expired()
        while (job := self._find_next()) is not None and not self._is_stopping:
            self._run_job(job)
            self._remove_expired()

    @property
    def _is_stopping(self) -> bool:
        return self._context.scheduler.stopping.is_set()

    def _find_next(self) -> ExportJob | None:
        with self._context.app_db.read() as connection:
            return next(iter(prepared_exports.list_in_states(connection, "running", "waiting")), None)

    def _run_job(self, job: ExportJob) -> None:
        app_db = self._context.app_db
        if job.begun >= MAX_ATTEMPTS:
            prepared_exports.mark_failed(app_db, job.id, f"begun {MAX_ATTEMPTS} times, and cut off each time")
            return
        if not prepared_exports.mark_running(app_db, job.id):
            return
        self._rows_written[job.id] = 0
        part_path = self.path(job).with_name(f"{job.id}.{job.form}.part")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with part_path.open("wb") as file:
                rows = self._write_file(job, file)
            size = part_path.stat().st_size
            if size > self._max_bytes:
                raise QueryError(f"{size / 1e9:,.1f} GB are more than exports.max_gb")
            part_path.replace(self.path(job))
            if not prepared_exports.mark_done(app_db, job.id, rows, size):
                self.path(job).unlink(missing_ok=True)
        except JobCancelled:
            log.info("export %d ends early", job.id)
        except (QueryError, visibility.NotAllowed) as error:
            prepared_exports.mark_failed(app_db, job.id, str(error))
        except Exception as error:
            # No caller waits for the result: without this the page would show the job running for ever.
            log.exception("export %d", job.id)
            text = error.strerror if isinstance(error, OSError) else type(error).__name__
            prepared_exports.mark_failed(app_db, job.id, f"{text}; the log says more")
        finally:
            part_path.unlink(missing_ok=True)
            self._rows_written.pop(job.id, None)
            self._cancelled.discard(job.id)

    def _write_file(self, job: ExportJob, file: IO[bytes]) -> int:
        """Write what the owner may have now; returns the rows."""
        person = find_owner(self._context, job)
        target, _ = export_request.find_export(job.export)
        viewer = visibility.of(person, self._context.settings.dashboard.agents_see)
        if person is None:
            viewer = viewer.limited_to(job.only_user)
        else:
            viewer.check_export(target, FORMATS[job.form].right)
            if viewer.scope_of(target) != job.only_user:
                raise visibility.NotAllowed("What you may see has changed since you asked; ask again")
        selection = export_request.build_selection(self._context, job.export, job.args, viewer, person)
        return write_export(self._context, selection, job.form, file, partial(self._report_progress, job.id))

    def _report_progress(self, job_id: int, rows: int) -> None:
        self._rows_written[job_id] = rows
        self._context.health.beat(JOB_NAME)
        if self._is_stopping or job_id in self._cancelled:
            raise JobCancelled
        if shutil.disk_usage(self._folder).free < MIN_FREE_BYTES:
            raise QueryError("the disk is nearly full; 2 GB are always left free")

    @property
    def _max_bytes(self) -> float:
        return self._context.settings.exports.max_gb * 1e9

    def _remove_expired(self) -> None:
        """Remove what was kept long enough, then the oldest beyond the budget."""
        with self._context.app_db.read() as connection:
            finished = prepared_exports.list_in_states(connection, "done")
            unsuccessful = prepared_exports.list_in_states(connection, "failed", "cancelled")
        cutoff = clock.utc_text(clock.now() - timedelta(days=self._context.settings.exports.keep_days))
        for job in [*unsuccessful, *finished]:
            if (job.ended_at or "") < cutoff:
                self._remove_job(job)
        finished = [job for job in finished if (job.ended_at or "") >= cutoff]
        while sum(job.bytes or 0 for job in finished) > self._max_bytes:
            self._remove_job(finished.pop(0))

    def _remove_orphans(self) -> None:
        """Remove files that nobody owns: a process ended while it wrote them, or a backup was restored."""
        with self._context.app_db.read() as connection:
            stored_names = {
                self.path(job).name for job in prepared_exports.list_in_states(connection, "done")
            }
        for path in self._folder.glob("*"):
            name = _FILE_NAME.fullmatch(path.name)
            if name is not None and name[1] in FORMATS and path.name not in stored_names:
                path.unlink(missing_ok=True)

    def _remove_job(self, job: ExportJob) -> None:
        self.path(job).unlink(missing_ok=True)
        prepared_exports.delete(self._context.app_db, job.id)


def find_owner(context: AppContext, job: ExportJob) -> Person | None:
    """The person it is prepared for; None for a key. Raises NotAllowed for one who is gone."""
    if job.person_id is None:
        return None
    person = people.get(context.app_db, job.person_id)
    if person is None:
        raise visibility.NotAllowed(f"{job.who} is gone")
    return person


def write_export(
    context: AppContext, selection: Selection, form: str, file: IO[bytes], on_progress: Callable[[int], None]
) -> int:
    """Write the whole file; `on_progress` is called with the number of rows written. Returns the rows.

    Raises QueryError.
    """
    write_file = FORMATS[form].write
    if write_file is None:
        raise QueryError(f"{form}: this format is not prepared in the background")

    def write(connection: Connection, export_query: ExportQuery) -> Iterator[bytes]:
        write_file(connection, replace(export_query, on_progress=on_progress), selection, file)
        yield b""

    stream = ExportStream(context.mirror_db.read, selection, write)
    stream.prefetch()
    stream.close()
    return stream.row_count


def find_export_jobs(app: Flask) -> ExportJobs | None:
    """The application's; None where nothing is prepared in the background."""
    export_jobs = app.extensions.get(EXTENSION)
    assert export_jobs is None or isinstance(export_jobs, ExportJobs)
    return export_jobs
