"""Downloads of a dashboard user, without the files."""

from __future__ import annotations

from typing import Any

from integration.access.people import Person
from integration.core import clock
from integration.exports import jobs
from integration.exports.jobs import ExportJob, ExportRun
from integration.sqlite.database import Database


def add_download(app_db: Database, person: Person, total: int = 60_000, **changed: Any) -> ExportRun:
    """Add a download of CDRs, with `changed` fields of its job."""
    values = {"export": "cdrs", "args": {}, "who": person.email, "person_id": person.id, **changed}
    return jobs.add_download(app_db, ExportJob(owner=f"person {person.id}", **values), total)


def finish_download(app_db: Database, run: ExportRun, rows: int, size: int) -> None:
    """Record that a file of `size` bytes was written."""
    jobs.mark_running(app_db, run, None)
    jobs.mark_delivered(app_db, run, run.make_attempt(clock.now(), "delivered", "", rows=rows, size=size))
