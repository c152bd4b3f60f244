"""Reports of all stored data of a telephone number."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from flask import current_app

from integration.access.people import Person
from integration.context import AppContext
from integration.core import clock
from integration.dashboard.site.background_jobs import Job, ProgressCallback, current_jobs
from integration.privacy import erase
from integration.privacy.erase import NumberReport

EXTENSION = "switchroom number reports"
KEEP_SECONDS = 3600
"""Seconds after which a report is dropped, because its data may have changed."""


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
    reports: NumberReports = current_app.extensions.setdefault(EXTENSION, NumberReports())
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
        reports.put(
            person.id,
            erase.report_number(context.settings, e164, lambda step: report_progress(step, 0, 0)),
        )
        return "done"

    is_started = current_jobs().start(_name_search(person), person.email, work, lambda _: None) is not None
    if is_started:
        reports.drop(person.id)
    return is_started


def _name_search(person: Person) -> str:
    return f"number search {person.id}"
