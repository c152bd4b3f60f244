"""Export jobs: write large exports in the background, one at a time.

Their files are kept until `exports.keep_days` or `exports.max_gb` is exceeded. Some formats can send no byte
before the last row is written, so exports of more than `Format.background_above` rows would leave a browser
without a response for minutes.
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
from integration.settings.values import MIN_FREE_BYTES, MIN_FREE_TEXT

log = logging.getLogger(__name__)

EXTENSION = "switchroom prepared exports"
JOB_NAME = "prepared exports"
"""Name of the job and of its health check."""
CHECK_SECONDS = 60.0
"""Seconds between runs of the job."""
MAX_ATTEMPTS = 3
"""Largest number of starts of an export. An export that crashes the process is not retried for ever."""
_FILE_NAME = re.compile(r"[0-9]{1,18}\.([a-z0-9]+)(\.part)?")


class JobCancelled(SwitchroomError):
    """The export job was cancelled, or the process stops."""


class ExportJobs:
    """Export jobs of an app context. Files are written one after another."""

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
        """Start a run for newly requested exports. Returns immediately."""
        self._context.scheduler.nudge(JOB_NAME)

    # --- called by routes --------------------------------------------------------------------------

    def rows_written(self, job: ExportJob) -> int:
        """Return the number of rows written so far."""
        return self._rows_written.get(job.id, 0) if job.is_active else job.rows or 0

    def path(self, job: ExportJob) -> Path:
        return self._folder / f"{job.id}.{job.form}"

    def expires_at(self, job: ExportJob) -> str | None:
        """Return the time at which the file is removed, as UTC text.

        Returns None without a file.
        """
        ended = clock.parse_utc(job.ended_at)
        if job.state != "done" or ended is None:
            return None
        return clock.utc_text(ended + timedelta(days=self._context.settings.exports.keep_days))

    def cancel(self, job: ExportJob) -> None:
        """Cancel an active job; otherwise delete the job and its file."""
        if job.is_active and prepared_exports.mark_cancelled(self._context.app_db, job.id):
            self._cancelled.add(job.id)
            return
        self._remove_job(job)

    def remove_all(self) -> int:
        """Cancel active jobs and delete finished ones with their files.

        Returns the number of both.
        """
        with self._context.app_db.read() as connection:
            jobs = prepared_exports.list_in_states(connection, "waiting", "running", "done")
        for job in jobs:
            self.cancel(job)
        return len(jobs)

    # --- the job -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Remove expired files and write all requested exports, unless the process stops."""
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
            prepared_exports.mark_failed(
                app_db,
                job.id,
                f"The export was started {MAX_ATTEMPTS} times and interrupted each time. Request it again.",
            )
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
                raise QueryError(
                    f"The file has {size / 1e9:,.1f} GB, more than exports.max_gb. Narrow the filter or raise"
                    " the setting."
                )
            part_path.replace(self.path(job))
            if not prepared_exports.mark_done(app_db, job.id, rows, size):
                self.path(job).unlink(missing_ok=True)
        except JobCancelled:
            log.info("export %d cancelled", job.id)
        except (QueryError, visibility.NotAllowed) as error:
            prepared_exports.mark_failed(app_db, job.id, str(error))
        except Exception as error:
            # No caller receives the error: without this the page would show the job as running for ever.
            log.exception("export %d failed", job.id)
            text = error.strerror if isinstance(error, OSError) else type(error).__name__
            prepared_exports.mark_failed(app_db, job.id, f"{text}. The log of the server has the details.")
        finally:
            part_path.unlink(missing_ok=True)
            self._rows_written.pop(job.id, None)
            self._cancelled.discard(job.id)

    def _write_file(self, job: ExportJob, file: IO[bytes]) -> int:
        """Write the records that the owner may export at present.

        Returns the number of rows.
        """
        person = find_owner(self._context, job)
        target, _ = export_request.find_export(job.export)
        viewer = visibility.of(person, self._context.settings.dashboard.agents_see)
        if person is None:
            viewer = viewer.limited_to(job.only_user)
        else:
            viewer.check_export(target, FORMATS[job.form].right)
            if viewer.scope_of(target) != job.only_user:
                raise visibility.NotAllowed(
                    "Your access rights have changed since you requested this export. Request it again."
                )
        selection = export_request.build_selection(self._context, job.export, job.args, viewer, person)
        return write_export(self._context, selection, job.form, file, partial(self._report_progress, job.id))

    def _report_progress(self, job_id: int, rows: int) -> None:
        self._rows_written[job_id] = rows
        self._context.health.beat(JOB_NAME)
        if self._is_stopping or job_id in self._cancelled:
            raise JobCancelled
        if shutil.disk_usage(self._folder).free < MIN_FREE_BYTES:
            raise QueryError(
                f"The disk is nearly full: {MIN_FREE_TEXT} always stay free. Free disk space and try again."
            )

    @property
    def _max_bytes(self) -> float:
        return self._context.settings.exports.max_gb * 1e9

    def _remove_expired(self) -> None:
        """Remove jobs older than `exports.keep_days`, then the oldest files beyond `exports.max_gb`."""
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
        """Remove files without a finished job.

        A crash or a restored backup leaves such files.
        """
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
    """Return the dashboard user who owns the job; None for a key.

    Raises NotAllowed for a deleted user.
    """
    if job.person_id is None:
        return None
    person = people.get(context.app_db, job.person_id)
    if person is None:
        raise visibility.NotAllowed(f"The dashboard user {job.who} was removed.")
    return person


def write_export(
    context: AppContext, selection: Selection, form: str, file: IO[bytes], on_progress: Callable[[int], None]
) -> int:
    """Write a complete export to `file`. Returns the number of rows.

    `on_progress` receives the number of rows written so far. Raises QueryError.
    """
    write_file = FORMATS[form].write
    if write_file is None:
        raise QueryError(f"The format {form} cannot be prepared in the background.")

    def write(connection: Connection, export_query: ExportQuery) -> Iterator[bytes]:
        write_file(connection, replace(export_query, on_progress=on_progress), selection, file)
        yield b""

    stream = ExportStream(context.mirror_db.read, selection, write)
    stream.prefetch()
    stream.close()
    return stream.row_count


def find_export_jobs(app: Flask) -> ExportJobs | None:
    """Return the export jobs of the application; None if it has none."""
    export_jobs = app.extensions.get(EXTENSION)
    assert export_jobs is None or isinstance(export_jobs, ExportJobs)
    return export_jobs
