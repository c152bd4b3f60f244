"""The application with scheduled exports of a supervisor in Berlin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.access import people
from integration.core import clock
from integration.exports import jobs
from integration.exports.jobs import ExportJob
from integration.exports.runner import ExportRunner
from integration.mirror.sync_state import collection_state, completeness
from integration.sqlite.transaction import Transaction
from tests.support.application import DEFAULTS, TestApp
from tests.support.clock import Clock
from tests.support.fake_exchange import FakeExchange
from tests.support.people import BOB


class ScheduledExports(TestApp):
    """Application whose export schedules belong to Bob."""

    def __init__(self, data_dir: Path, clock: Clock, **settings: str) -> None:
        own = {"storage__data_dir": str(data_dir), "dashboard__timezone": "Europe/Berlin"}
        super().__init__({**DEFAULTS, **own, **settings}, FakeExchange(), clock)
        self.data_dir = data_dir
        self.add(BOB)

    @property
    def runner(self) -> ExportRunner:
        return self.context.export_runner

    # --- the mirror --------------------------------------------------------------------------------

    def put_cdrs(self, *times: str, first: int = 1) -> None:
        """Mirror a CDR at each of `times` (UTC)."""
        records = ({"id": first + n, "calldate": at, "src": "1"} for n, at in enumerate(times))
        self.put("cdrs", *records, complete=False)

    def finish_sync(self, collection: str = "cdrs") -> None:
        """Finish a full sync of `collection` now."""

        def work(tx: Transaction) -> None:
            collection_state.begin_full_sync(tx, collection)
            collection_state.finish_full_sync(tx, collection, None, None, clock.utc_text())

        self.mirror_db.write(work)

    def count_day(self, day: str, total: int = 1, mirrored: int = 1, collection: str = "cdrs") -> None:
        """Store the record counts of a day.

        `total`: on the platform. `mirrored`: in the mirror.
        """
        self.mirror_db.write(lambda tx: completeness.save_day(tx, collection, day, total, mirrored))

    # --- schedules ---------------------------------------------------------------------------------

    def schedule(self, name: str = "Every day", **changed: Any) -> ExportJob:
        """Create a daily export of CDRs into a folder, with `changed` fields."""
        bob = people.find(self.app_db, BOB.email)
        assert bob is not None
        values: dict[str, Any] = {
            "name": name, "who": BOB.email, "person_id": bob.id, "export": "cdrs", "form": "csv",
            "args": {"columns": "id,calldate"}, "every": "day", "at": "02:30", "zone": "Europe/Berlin",
        }  # fmt: skip
        number = jobs.save_schedule(self.app_db, ExportJob(**{**values, **changed}))
        with self.app_db.read() as connection:
            found = jobs.find_schedule(connection, number)
        assert found is not None
        return found

    def deliver(self, *schedules: ExportJob) -> None:
        """Deliver due exports of `schedules`, or of all without arguments.

        Paused schedules are skipped.
        """
        with self.app_db.read() as connection:
            stored = jobs.list_schedules(connection)
        self.runner.open_due_periods()
        for schedule in schedules or stored:
            self.runner.do_due_runs(schedule.id)

    def crash_after_delivery(self) -> None:
        """Deliver, and abort before the delivery is recorded."""

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(jobs, "mark_delivered", crash)
            with pytest.raises(KeyboardInterrupt):
                self.deliver()

    def attempts(self, schedule: ExportJob) -> list[tuple[str, str, str]]:
        """Period, state and result of each attempt, oldest first."""
        with self.app_db.read() as connection:
            found = jobs.list_attempts(connection, schedule.id)
        return [(attempt.period, attempt.state, attempt.result) for attempt in reversed(found)]

    def exported_files(self, place: str = "") -> dict[str, str]:
        """Contents of exported files by name, in the subfolder `place`."""
        folder = self.data_dir / "exports" / place
        return {path.name: path.read_bytes().decode() for path in sorted(folder.glob("*")) if path.is_file()}


@pytest.fixture
def make_exporting(tmp_path: Path, movable_clock: Clock) -> Iterator[Callable[..., ScheduledExports]]:
    """Function that creates applications, at 12:00 UTC on 18 November 2026."""
    movable_clock.freeze("2026-11-18 12:00:00")
    apps: list[ScheduledExports] = []

    def make(**settings: str) -> ScheduledExports:
        folder = tmp_path / f"data{len(apps)}"
        apps.append(ScheduledExports(folder, movable_clock, **settings))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def exporting(make_exporting: Callable[..., ScheduledExports]) -> ScheduledExports:
    return make_exporting()
