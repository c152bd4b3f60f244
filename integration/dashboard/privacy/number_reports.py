"""Reports of all stored data of a telephone number."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from flask import current_app

from integration.access.people import Person
from integration.context import AppContext
from integration.core import clock
from integration.dashboard.site.background_jobs import Job, ProgressCallback, current_jobs
from integration.privacy import erase
from integration.privacy.copies import find_copies

EXTENSION = "switchroom number reports"
KEEP_SECONDS = 3600
"""Seconds after which a report is dropped, because its data may have changed."""


@dataclass(frozen=True, slots=True)
class NumberReport:
    """Stored data of a number.

    `counts` and `held` are those of `Traces`; `copies` and `backups` are paths with the number. `refusal` is
    the reason why the number cannot be erased, or None. `found_at`: UTC text.
    """

    e164: str
    counts: dict[str, int]
    held: dict[str, list[Any]]
    copies: list[str]
    backups: list[str]
    refusal: str | None
    found_at: str

    @property
    def is_empty(self) -> bool:
        return not self.counts and not self.held and not self.copies


@dataclass(slots=True)
class NumberReports:
    """The last report of each dashboard user, in memory only.

    A number that is to be erased must be in no URL, log or further table.
    """

    _reports: dict[int, tuple[float, NumberReport]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, person_id: int, report: NumberReport) -> None:
        with self._lock:
            self._reports[person_id] = (clock.monotonic(), report)

    def find(self, person_id: int) -> NumberReport | None:
        """Return the report of a user.

        None if there is none, or if it is older than KEEP_SECONDS.
        """
        with self._lock:
            stored_at, report = self._reports.get(person_id, (0.0, None))
            if report is not None and clock.monotonic() - stored_at > KEEP_SECONDS:
                del self._reports[person_id]
                return None
            return report

    def drop(self, person_id: int) -> None:
        with self._lock:
            self._reports.pop(person_id, None)

    def drop_number(self, e164: str) -> None:
        """Drop the reports of a number for all users."""
        with self._lock:
            self._reports = {
                person_id: entry for person_id, entry in self._reports.items() if entry[1].e164 != e164
            }


def current_reports() -> NumberReports:
    """Return the reports of the application that serves the current request."""
    reports = current_app.extensions.setdefault(EXTENSION, NumberReports())
    assert isinstance(reports, NumberReports)
    return reports


def find_search(person: Person) -> Job | None:
    """Return the last search of a user."""
    return current_jobs().last_by_name.get(_name_search(person))


def start_search(context: AppContext, person: Person, e164: str) -> bool:
    """Start a search for the data of a number.

    Returns False if a search of this user is running.
    """
    reports = current_reports()

    def work(report_progress: ProgressCallback) -> str:
        report_progress("databases", 0, 0)
        traces, refusal = erase.preview(context.settings.storage.data_dir, e164)
        report_progress("copies and backups", 0, 0)
        data_dir = context.settings.storage.data_dir
        copies = [
            str(copy.path.relative_to(data_dir))
            for copy in find_copies(data_dir)
            if not copy.is_backup and copy.contains_number(e164)
        ]
        backups = erase.list_backups(context.settings, e164)
        reports.put(
            person.id,
            NumberReport(e164, traces.counts, traces.held, copies, backups, refusal, clock.utc_text()),
        )
        return "done"

    is_started = current_jobs().start(_name_search(person), person.email, work, lambda _: None) is not None
    if is_started:
        reports.drop(person.id)
    return is_started


def _name_search(person: Person) -> str:
    return f"number search {person.id}"
