"""Exports: files that are prepared for oneself, and schedules that deliver files.

/exports                              one's own prepared files; the schedules, for supervisors
/exports/prepared/<id>/remove         (POST) end it, or remove its file
/exports/schedules/new?export=NAME    a new schedule, with the parameters of an export
/exports/schedules/<id>               one schedule: its form and the log of its deliveries
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Blueprint, abort, current_app, make_response, redirect, request
from werkzeug.wrappers import Response

from integration.access import rights
from integration.access.export_caller import owner_name
from integration.access.rights import NotAllowed
from integration.context import this_house
from integration.core import clock
from integration.core.refused import Refused
from integration.dashboard.exports import schedule_form
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import audited, current_person, needs
from integration.exports import (
    deliveries as export_deliveries,
)
from integration.exports import (
    delivery,
    prepared_exports,
)
from integration.exports import (
    export_request as asking,
)
from integration.exports import (
    schedule_runner as owing,
)
from integration.exports import (
    schedule_status as overview,
)
from integration.exports import (
    schedule_table as export_schedules,
)
from integration.exports.export_request import NoSuchExport
from integration.exports.jobs import preparer_of
from integration.exports.prepared_exports import Prepared
from integration.exports.presets import PRESETS
from integration.exports.routes import asked_for
from integration.exports.schedule_table import Schedule
from integration.exports.schedules import WAKE
from integration.workspace import column_sets
from integration.workspace import saved_views as views

blueprint = Blueprint("schedules", __name__, url_prefix="/exports")

DONE = {"pause": "paused", "resume": "resumed", "run": "run by hand", "remove": "removed"}
FOLLOW_SECONDS = 2
TARGETS = {"folder": "a folder on this machine", "email": "e-mail", "put": "an HTTPS address (PUT)"}
FORMS = {
    "xlsx": "Excel", "csv": "CSV", "jsonl": "JSON Lines", "parquet": "Parquet", "zip": "ZIP with audio"
}  # fmt: skip


def supervises(view: Callable[..., Any]) -> Callable[..., Any]:
    """A view for who supervises and may export: schedules speak for the business, not for a person."""
    return needs("supervisor")(needs("export")(wraps(view)(view)))


# --- prepared files --------------------------------------------------------------------------------------


@blueprint.get("")
@needs("export")
def index() -> Response:
    house, person, preparer = this_house(), current_person(), preparer_of(current_app)
    with house.house.read() as connection:
        mine = prepared_exports.of_owner(connection, owner_name(person)) if preparer else []
        lines = overview.lines(connection, clock.now()) if person.may("supervisor") else []
    page = shell.page(
        "system",
        "exports.html",
        mine=[
            (one, overview.title(one.export), preparer.written(one), preparer.kept_until(one))
            for one in mine
            if preparer is not None
        ],
        lines=lines,
        presets=PRESETS.values(),
        every=overview.EVERY,
        targets=TARGETS,
        forms=FORMS,
        keep_days=house.settings.exports.keep_days,
    )
    response = make_response(page)
    if any(one.under_way for one in mine):
        # Without a script: the page follows what is being prepared.
        response.headers["Refresh"] = str(FOLLOW_SECONDS)
    return response


@blueprint.post("/prepared/<int:number>/remove")
@needs("export")
def remove_file(number: int) -> Response:
    preparer = preparer_of(current_app)
    with this_house().house.read() as connection:
        one: Prepared | None = prepared_exports.find(connection, number)
    if one is None or preparer is None or one.owner != owner_name(current_person()):
        abort(404)
    preparer.cancel(one)
    return redirect("/exports", 303)


# --- schedules -------------------------------------------------------------------------------------------


@blueprint.get("/schedules/new")
@supervises
def new() -> str:
    export = _reached(request.args.get("export"))
    return _form(schedule_form.empty(this_house(), export, asked_for(request.args)))


@blueprint.post("/schedules/new")
@supervises
def create() -> Response | tuple[str, int]:
    house = this_house()
    before = schedule_form.empty(house, _reached(request.form.get("export")), {})
    try:
        wanted = schedule_form.read(house, current_person(), request.form, before)
        number = export_schedules.add(house.house, wanted)
    except Refused as refusal:
        return _form(before, refused=str(refusal), given=request.form), 400
    _note("schedule added", wanted)
    return redirect(f"/exports/schedules/{number}", 303)


@blueprint.get("/schedules/<int:number>")
@supervises
def show(number: int) -> Response:
    schedule = _known(number)
    house = this_house()
    with house.house.read() as connection:
        attempts = export_deliveries.attempts(connection, number, overview.LOG_LINES)
        standings = [
            one for one in export_deliveries.standings(connection, number).values() if one.state == "open"
        ]
        line = overview.line(connection, schedule, clock.now())
    page = _form(schedule, attempts=attempts, standings=standings, line=line)
    response = make_response(page)
    if any(one.at_once and not one.error for one in standings):
        response.headers["Refresh"] = str(FOLLOW_SECONDS)
    return response


@blueprint.post("/schedules/<int:number>")
@supervises
def save(number: int) -> Response | tuple[str, int]:
    before, house = _known(number), this_house()
    try:
        _reached(before.export)
        wanted = schedule_form.read(house, current_person(), request.form, before)
        export_schedules.change(house.house, wanted)
    except Refused as refusal:
        return _form(before, refused=str(refusal), given=request.form), 400
    _note("schedule changed", wanted)
    _wake()
    return redirect(f"/exports/schedules/{number}", 303)


@blueprint.post("/schedules/<int:number>/<any(pause,resume,run,remove):deed>")
@supervises
def act(number: int, deed: str) -> Response:
    schedule, house = _known(number), this_house().house
    if deed == "pause":
        export_schedules.pause(house, number)
    elif deed == "resume":
        export_schedules.resume(house, number)
    elif deed == "run":
        # It runs in the name of whoever made it, so that this gives nobody more than they have.
        export_deliveries.deliver_again(house, number, owing.newest(schedule, clock.now()).key)
    else:
        export_schedules.remove(house, number)
    _note(f"schedule {DONE[deed]}", schedule)
    _wake()
    return redirect("/exports" if deed == "remove" else f"/exports/schedules/{number}", 303)


# --- inside ----------------------------------------------------------------------------------------------


def _form(schedule: Schedule, **shown: Any) -> str:
    person, house = current_person(), this_house()
    with house.house.read() as connection:
        sets = column_sets.known(connection, asking.filed_under(schedule.export), person.id)
        saved = views.saved(connection, person.id, "calls")
    chosen, preset = asking.named(schedule.export)
    of_calls = preset is not None and (preset.own_table or chosen.field("live_id") is not None)
    return shell.page(
        "system",
        "export_schedule.html",
        **{"given": None, "attempts": [], "standings": [], "line": None, "refused": None, **shown},
        one=schedule,
        place=schedule_form.masked_place(schedule),
        title=overview.title(schedule.export),
        presets=PRESETS.values(),
        grows=owing.grows(chosen),
        forms={form: FORMS[form] for form in schedule_form.forms_of(schedule.export, person)},
        every=overview.EVERY,
        targets=TARGETS,
        sets=sets,
        views=[(view.name, schedule_form.without_days(view.query)) for view in saved] if of_calls else [],
        of_calls=of_calls,
        base=delivery.base_folder(house.settings),
        mail=house.settings.smtp.host is not None,
    )


def _reached(export: str | None) -> str:
    """The name of an export that the person may have. Aborts with 404, 403."""
    name = export or "call-history"
    try:
        chosen, _ = asking.named(name)
        rights.only_of(current_person(), chosen, "csv", this_house().settings.dashboard.agents_see)
    except NoSuchExport:
        abort(404)
    except NotAllowed as reason:
        abort(403, str(reason))
    return asking.filed_under(name)


def _known(number: int) -> Schedule:
    with this_house().house.read() as connection:
        found = export_schedules.find(connection, number)
    if found is None:
        abort(404)
    return found


def _note(what: str, schedule: Schedule) -> None:
    about = f"{schedule.name}: {schedule.export}.{schedule.form} to {schedule.target} {schedule.shown_place}"
    audited(what, about)


def _wake() -> None:
    wake = current_app.extensions.get(WAKE)
    if wake is not None:
        wake()
