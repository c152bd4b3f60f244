"""Pages of legal holds and erasures."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.privacy.number_reports import find_report, start_search
from integration.dashboard.privacy.numbers import parse_number
from integration.dashboard.site import formats, layout
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.background_jobs import NO_PROGRESS
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import current_person, requires
from integration.privacy import erasures, holds

blueprint = Blueprint("privacy_holds", __name__, url_prefix="/privacy")

HOLDS_PATH = "/privacy/holds"


@blueprint.get("/holds")
@requires("admin")
def show_holds() -> str:
    return _render_holds()


@blueprint.post("/holds")
@requires("admin")
def set_hold() -> Response | tuple[str, int]:
    """Set a legal hold on `what`, like `switchroom hold`.

    `what`: a number, or the id of a call.
    """
    try:
        kind, subject = holds.parse_subject(request.form.get("what", ""), parse_number)
    except DomainError as refusal:
        return _render_holds(refused=str(refusal)), 400
    try:
        _run(holds.set_hold, kind, subject, reason=request.form.get("reason", ""))
    except DomainError as refusal:
        shown = formats.national(subject) if kind == "number" else subject
        return _render_holds(refused=str(refusal).replace(subject, shown)), 400
    return redirect_to(HOLDS_PATH, f"{_name(kind, subject)} is now under legal hold.")


@blueprint.post("/holds/<int:number>/release")
@requires("admin")
@requires_confirmation()
def release_hold(number: int) -> Response:
    with app_context().app_db.read() as connection:
        hold = next((hold for hold in holds.list_all(connection) if hold.id == number), None)
    if hold is None:
        return redirect_to(HOLDS_PATH, "This hold was already released.")
    _run(holds.release_hold, hold.kind, hold.what)
    return redirect_to(HOLDS_PATH, f"{_name(hold.kind, hold.what)} is no longer under legal hold.")


@blueprint.get("/erasures")
@requires("admin")
def show_erasures() -> str:
    with app_context().app_db.read() as connection:
        return layout.render_page(
            "privacy",
            "privacy_erasures.html",
            erasures=erasures.list_all(connection),
            is_running=erasures.running.locked(),
        )


def _run(command: Any, kind: str, what: str, **arguments: str) -> None:
    """Run a command of holds, and renew the report of the number."""
    context, person = app_context(), current_person()
    actor = {"who": person.email, "address": request.remote_addr or ""}
    command(context, {"kind": kind, "what": what, **actor, **arguments}, NO_PROGRESS)
    report = find_report(person)
    if report is not None:
        start_search(context, person, report.e164)


def _name(kind: str, what: str) -> str:
    return f"Call {what}" if kind == "call" else formats.national(what)


def _render_holds(**values: Any) -> str:
    with app_context().app_db.read() as connection:
        return layout.render_page(
            "privacy",
            "privacy_holds.html",
            holds=holds.list_all(connection),
            max_reason=holds.MAX_REASON_LENGTH,
            **values,
        )
