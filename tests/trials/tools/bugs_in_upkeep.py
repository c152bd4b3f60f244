"""Bugs in start, migrations, backups and reports, for `seeded_bug.py`."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from integration.core import clock, process_lock
from integration.core.errors import NewerDatabase
from integration.core.number_search.wide_search import WideSearch
from integration.core.scheduler import Scheduler
from integration.mirror import migrations as mirror_migrations
from integration.privacy import final_check
from integration.server import early_inbox
from integration.sqlite import database_files, migrations

Patch = Callable[[Any, str, object], object]
STEP_SECONDS, STEP_LINE = 0.1, "migration step"
"""Duration of a slow step of a migration, in which the trial kills the process; beginning of its line."""
REWRITE_SECONDS, REWRITE_STEP = 12.0, "rewrite of all CDRs"


def rewrite_all_cdrs(patch: Patch) -> None:
    """Add a migration step that rewrites each CDR, and takes REWRITE_SECONDS at least; no bug."""

    def rewrite(schema: Any) -> None:
        begun = time.monotonic()
        schema.execute("UPDATE cdrs SET _source = _source || ''")
        time.sleep(max(0.0, begun + REWRITE_SECONDS - time.monotonic()))

    patch(mirror_migrations, "MIGRATIONS", {**mirror_migrations.MIGRATIONS, REWRITE_STEP: rewrite})


def start_all_jobs(patch: Patch) -> None:
    """Run each job at the start, also those whose first run is an hour later; no bug."""
    every = Scheduler.every
    patch(
        Scheduler,
        "every",
        lambda *arguments, **options: every(*arguments, **{**options, "first_after": 0.0}),
    )


def search_files_in_worker(patch: Patch) -> None:
    """Open all files, also the databases, in the process that erases a number."""

    def search_files(
        paths: Iterable[Path], numbers: Iterable[str], *_ids: object, **_options: object
    ) -> list[Path]:
        searches = [WideSearch(e164) for e164 in numbers]
        return [path for path in paths if any(search.is_in_file(path) for search in searches)]

    patch(final_check, "search_files", search_files)


def receive_last(patch: Patch) -> None:
    """Store webhooks only when the whole product has started."""
    patch(early_inbox, "open_inbox_early", lambda *_arguments: None)


def slow_migrations(patch: Patch) -> None:
    """Print a line at each step of a migration, which takes 0.1 s; no bug."""

    make_migrations = migrations.make_migrations

    def make_slow_migrations(name: str) -> Any:
        class SlowMigrations(type(make_migrations(name))):  # type: ignore[misc]
            def __call__(self, **options: Any) -> Any:
                register = super().__call__(**options)

                def add(step: Callable[[Any], None]) -> Any:
                    def run(schema: Any) -> None:
                        step(schema)
                        print(f"{STEP_LINE} {options['name']}", flush=True)
                        time.sleep(STEP_SECONDS)

                    return register(run)

                return add

        return SlowMigrations(name)

    patch(migrations, "make_migrations", make_slow_migrations)


def commit_each_step(patch: Patch) -> None:
    """Commit after each step of a migration."""
    migrate = migrations.migrate

    def migrate_in_steps(connection: Any, name: str, steps: Any, create: Any) -> None:
        for count in range(len(steps)):
            # A file with later steps is of no older version.
            with suppress(NewerDatabase):
                migrate(connection, name, dict(list(steps.items())[:count]), lambda _schema: None)
        migrate(connection, name, steps, create)

    patch(migrations, "migrate", migrate_in_steps)


def open_newer_files(patch: Patch) -> None:
    """Open databases of a newer version."""
    read_recorded_steps = migrations.read_recorded_steps

    def read_known(connection: sqlite3.Connection, name: str) -> set[str] | None:
        steps = read_recorded_steps(connection, name)
        return steps and {step for step in steps if not step.startswith("newer")}

    patch(migrations, "read_recorded_steps", read_known)


def copy_incompletely(patch: Patch) -> None:
    """Leave out every tenth webhook of a backup."""
    copy_database = database_files.copy_database

    def copy(source: Path, target: Path, *arguments: Any) -> None:
        copy_database(source, target, *arguments)
        if source.name == "inbox.db":
            with closing(sqlite3.connect(target)) as connection:
                connection.execute("DELETE FROM inbox WHERE seq % 10 = 0")
                connection.commit()

    patch(database_files, "copy_database", copy)


def skip_process_lock(patch: Patch) -> None:
    """Let any number of processes use one data_dir."""

    def acquire(_data_dir: Path, _purpose: str) -> process_lock.Lock:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
        return process_lock.Lock(descriptor)

    patch(process_lock, "acquire", acquire)


def begin_days_in_utc(patch: Patch) -> None:
    """Let the days of reports begin at midnight UTC, whatever the zone."""
    midnight = clock.midnight
    patch(clock, "midnight", lambda day, _zone: midnight(day, ZoneInfo("UTC")))
