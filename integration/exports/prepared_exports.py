"""Table of export jobs: owner, parameters, state and file.

The state `running` survives the end of the process: the next process starts the job again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS prepared_exports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    who TEXT NOT NULL,
    person_id INTEGER,
    export TEXT NOT NULL,
    form TEXT NOT NULL,
    args TEXT NOT NULL,
    only_user INTEGER,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
    total INTEGER NOT NULL,
    begun INTEGER NOT NULL DEFAULT 0,
    rows INTEGER,
    bytes INTEGER,
    error TEXT,
    created_at TEXT NOT NULL,
    ended_at TEXT
) STRICT;
"""

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
MAX_ACTIVE_PER_OWNER = 5
"""Largest number of waiting and running jobs of one owner."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """An export job. Times are UTC text.

    Only `owner` can access the file: 'person ID', 'key USER_ID' or 'platform user …'. `only_user` is the
    platform user of the owner's user scope. `total` is the number of rows at the request; `rows` and `bytes`
    describe the file. `begun` counts the starts.
    """

    id: int
    owner: str
    who: str
    person_id: int | None
    export: str
    form: str
    args: Mapping[str, str]
    only_user: int | None
    state: JobState
    total: int
    begun: int
    rows: int | None
    bytes: int | None
    error: str | None
    created_at: str
    ended_at: str | None

    @property
    def is_active(self) -> bool:
        return self.state in ("waiting", "running")


def add(
    app_db: Database,
    *,
    owner: str,
    who: str,
    person_id: int | None,
    export: str,
    form: str,
    args: Mapping[str, str],
    only_user: int | None,
    total: int,
) -> ExportJob:
    """Add a job, or return an equal active job of the owner.

    Jobs are equal if export, format and parameters are. Raises DomainError if the owner has
    MAX_ACTIVE_PER_OWNER active jobs.
    """
    args_json = json.dumps({name: args[name] for name in sorted(args) if args[name]})

    def work(tx: Transaction) -> ExportJob:
        active_jobs = [job for job in list_of_owner(tx.connection, owner) if job.is_active]
        for job in active_jobs:
            if (job.export, job.form, dict(job.args)) == (export, form, json.loads(args_json)):
                return job
        if len(active_jobs) >= MAX_ACTIVE_PER_OWNER:
            raise DomainError(
                f"{MAX_ACTIVE_PER_OWNER} of your exports are already being prepared. Try again when one is"
                " complete."
            )
        row = tx.execute(
            "INSERT INTO prepared_exports"
            " (owner, who, person_id, export, form, args, only_user, state, total, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
            (owner, who, person_id, export, form, args_json, only_user, total, clock.utc_text()),
        )
        new_job = find(tx.connection, int(row.lastrowid or 0))
        assert new_job is not None
        return new_job

    return app_db.write(work)


def find(connection: sqlite3.Connection, job_id: int) -> ExportJob | None:
    row = connection.execute("SELECT * FROM prepared_exports WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else _from_row(row)


def list_of_owner(connection: sqlite3.Connection, owner: str) -> list[ExportJob]:
    """Return the jobs of an owner, newest first."""
    rows = connection.execute("SELECT * FROM prepared_exports WHERE owner = ? ORDER BY id DESC", (owner,))
    return [_from_row(row) for row in rows]


def list_in_states(connection: sqlite3.Connection, *states: JobState) -> list[ExportJob]:
    """Return the jobs in any of `states`, oldest first."""
    placeholders = ", ".join("?" * len(states))
    rows = connection.execute(
        f"SELECT * FROM prepared_exports WHERE state IN ({placeholders}) ORDER BY id", states
    )
    return [_from_row(row) for row in rows]


def count_by_state(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of jobs by state."""
    rows = connection.execute("SELECT state, count(*) FROM prepared_exports GROUP BY state")
    return dict(tuple(row) for row in rows)


def mark_running(app_db: Database, job_id: int) -> bool:
    """Mark a job as running and count the start.

    Returns False if it was cancelled.
    """
    return _change_state(app_db, job_id, "running", ("waiting", "running"), starts=1)


def mark_done(app_db: Database, job_id: int, rows: int, size: int) -> bool:
    """Mark a job as done. Returns False if it was cancelled."""
    return _change_state(app_db, job_id, "done", ("running",), rows=rows, size=size)


def mark_failed(app_db: Database, job_id: int, error: str) -> None:
    _change_state(app_db, job_id, "failed", ("waiting", "running"), error=error)


def mark_cancelled(app_db: Database, job_id: int) -> bool:
    return _change_state(app_db, job_id, "cancelled", ("waiting", "running"))


def delete(app_db: Database, job_id: int) -> None:
    app_db.write(lambda tx: tx.execute("DELETE FROM prepared_exports WHERE id = ?", (job_id,)))


def _change_state(
    app_db: Database,
    job_id: int,
    state: JobState,
    allowed_states: tuple[JobState, ...],
    *,
    starts: int = 0,
    rows: int | None = None,
    size: int | None = None,
    error: str | None = None,
) -> bool:
    ended_at = None if state == "running" else clock.utc_text()
    placeholders = ", ".join("?" * len(allowed_states))
    return app_db.write(
        lambda tx: (
            tx.execute(
                "UPDATE prepared_exports SET state = ?, begun = begun + ?, rows = ?, bytes = ?, error = ?,"
                f" ended_at = ? WHERE id = ? AND state IN ({placeholders})",
                (state, starts, rows, size, error, ended_at, job_id, *allowed_states),
            ).rowcount
            > 0
        )
    )


def _from_row(row: sqlite3.Row) -> ExportJob:
    return ExportJob(**{**dict(row), "args": json.loads(row["args"])})
