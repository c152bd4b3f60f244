"""Reports of all stored data of a telephone number, in memory only.

A number that is to be erased must be in no URL, log or further table.
"""

from __future__ import annotations

from datetime import timedelta

from flask import current_app

from integration.access.people import Person
from integration.context import AppContext
from integration.core import clock
from integration.dashboard.site.background_jobs import Job, ProgressCallback, current_jobs
from integration.privacy import erase
from integration.privacy.erase import NumberReport

EXTENSION = "switchroom number reports"
KEPT = timedelta(hours=1)
"""Age at which a report is no longer shown, because its data may have changed."""


def current_reports() -> dict[int, NumberReport]:
    """Return the last report of each dashboard user of the application that serves the current request."""
    reports: dict[int, NumberReport] = current_app.extensions.setdefault(EXTENSION, {})
    return reports


def find_report(person: Person) -> NumberReport | None:
    """Return the last report of a user, unless it is too old."""
    report = current_reports().get(person.id)
    return report if report and report.found_at > clock.utc_text(clock.now() - KEPT) else None


def find_search(person: Person) -> Job | None:
    """Return the last search of a user."""
    return current_jobs().last_by_name.get(_name_search(person))


def start_search(context: AppContext, person: Person, e164: str) -> bool:
    """Start a search for the data of a number.

    Returns False if a search of this user is running.
    """
    reports = current_reports()
    reports.pop(person.id, None)

    def work(report_progress: ProgressCallback) -> str:
        reports[person.id] = erase.report_number(
            context.settings, e164, lambda step: report_progress(step, 0, 0)
        )
        return "done"

    return current_jobs().start(_name_search(person), person.email, work, lambda _: None) is not None


def _name_search(person: Person) -> str:
    return f"number search {person.id}"
