"""Page Privacy: all data of a telephone number, legal hold and erasure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import IO, Any

from flask import Blueprint, Response, make_response, request

from integration.access.export_caller import owner_name
from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.privacy.number_reports import (
    current_reports,
    find_report,
    find_search,
    start_search,
)
from integration.dashboard.site import formats, layout
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.background_jobs import ProgressCallback, current_jobs, make_progress
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action, current_person, requires
from integration.exports.jobs import SUBJECT_DATA, ExportJob
from integration.privacy import erase, holds
from integration.privacy.subject_file import write_subject_file
from integration.settings.model import Settings

blueprint = Blueprint("privacy", __name__, url_prefix="/privacy")

ERASURE_JOB = "erasure"
REFRESH_SECONDS = 2
"""Seconds between reloads of the page while a search or an erasure runs."""


@blueprint.get("")
@requires("admin")
def index() -> Response:
    return _render_page()


@blueprint.post("/find")
@requires("admin")
def find() -> Response:
    """Search for the data of `number`. The number is in no URL."""
    try:
        e164 = parse_number(request.form.get("number", ""))
    except DomainError as refusal:
        return _refuse(str(refusal))
    if not start_search(app_context(), current_person(), e164):
        message = "Another number is still being searched for. Try again when its report is here."
        return _refuse(message, 409, entered=request.form["number"][:40])
    return redirect_to("/privacy")


@blueprint.post("/clear")
@requires("admin")
def clear() -> Response:
    current_reports().pop(current_person().id, None)
    return redirect_to("/privacy")


@blueprint.post("/erase")
@requires("admin")
@requires_confirmation()
def start_erasure() -> Response:
    """Erase the number of the report, like `switchroom erase NUMBER --yes`.

    The user enters the number once more.
    """
    context, person, reports = app_context(), current_person(), current_reports()
    report = find_report(person)
    if report is None:
        return _refuse("Search for the number first.")
    if context.phone_numbers.to_e164(request.form.get("number", "")) != report.e164:
        shown_number = formats.national(report.e164)
        return _refuse(f"The numbers differ. Nothing was erased. Enter {shown_number} to erase it.")
    arguments = {"number": report.e164, "who": person.email, "address": request.remote_addr or ""}

    def work(report_progress: ProgressCallback) -> str:
        result = erase.erase(context, arguments, make_progress(report_progress))
        for person_id, shown in list(reports.items()):
            if shown.e164 == arguments["number"]:
                reports.pop(person_id, None)
        state = "incomplete, erase the number again" if result["left"] else "complete"
        count = sum(result["removed"].values())
        return f"Erasure {result['erasure']} is {state}: {count:,} records, files and log entries erased."

    # The audit log gets its entries from the erasure itself.
    if current_jobs().start(ERASURE_JOB, person.email, work, lambda _: None) is None:
        return _refuse("Another erasure is running. Wait until it is complete.", 409)
    return redirect_to("/privacy")


@blueprint.post("/file")
@requires("admin")
@requires("export")
@requires("recordings")
@requires_confirmation()
def start_file() -> Response:
    """Start a download with all data of the report's number."""
    context, person = app_context(), current_person()
    report = find_report(person)
    if report is None:
        return _refuse("Search for the number first.")
    write = partial(_write_file, context.settings, report.e164, shows_others="hide" not in request.form)
    job = ExportJob(
        export=SUBJECT_DATA,
        form="zip",
        args={},
        who=person.email,
        person_id=person.id,
        owner=owner_name(person),
    )
    try:
        context.export_runner.add_download(job, sum(report.counts.values()), write)
    except DomainError as refusal:
        return _refuse(str(refusal), 429)
    audit_action("export requested", "data of a number")
    return redirect_to("/exports")


def _write_file(
    settings: Settings, e164: str, file: IO[bytes], on_progress: Callable[[int], None], *, shows_others: bool
) -> int:
    counts = write_subject_file(settings, e164, file, shows_others=shows_others, on_progress=on_progress)
    return sum(counts.values())


def parse_number(text: str) -> str:
    """Return the number in E.164. Raises DomainError for an invalid one."""
    e164 = app_context().phone_numbers.to_e164(text.strip())
    if e164 is None:
        raise DomainError(
            f"“{text.strip()[:40]}” isn’t a phone number. Enter it with its country code, such as"
            " +442079460001."
        )
    return e164


def _render_page(**values: Any) -> Response:
    context, person = app_context(), current_person()
    report, search = find_report(person), find_search(person)
    erasure = current_jobs().last_by_name.get(ERASURE_JOB)
    with context.app_db.read() as connection:
        held_numbers = {hold.what for hold in holds.list_all(connection) if hold.kind == "number"}
    response = make_response(
        layout.render_page(
            "privacy",
            "privacy.html",
            report=report,
            number_search=search,
            erasure=erasure,
            is_held=report is not None and report.e164 in held_numbers,
            max_reason=holds.MAX_REASON_LENGTH,
            **values,
        )
    )
    if any(job is not None and job.state == "running" for job in (search, erasure)):
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


def _refuse(message: str, status: int = 400, **values: Any) -> Response:
    response = _render_page(refused=message, **values)
    response.status_code = status
    return response
