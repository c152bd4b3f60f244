"""Exports page: the user's export jobs and the schedules that deliver files.

/exports                              own export jobs; for supervisors also the schedules
/exports/prepared/<id>/remove         (POST) cancel an export job, or remove its file
/exports/schedules/new?export=NAME    a new schedule, with the parameters of an export
/exports/schedules/<id>               one schedule: its form and the log of its deliveries
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from flask import Blueprint, abort, make_response, redirect, request
from werkzeug.wrappers import Response

from integration.access.export_caller import owner_name
from integration.access.rights import EXPORTS_ONLY, has
from integration.catalogue import RESOURCES
from integration.context import app_context
from integration.core import clock
from integration.core.calendar_periods import FREQUENCIES
from integration.core.errors import DomainError, QueryError
from integration.dashboard.exports import export_filter, schedule_form
from integration.dashboard.exports.schedule_form import ALERTS
from integration.dashboard.site import edit_versions, layout
from integration.dashboard.site.confirmation import has_new_secret, requires_confirmation
from integration.dashboard.site.guard import audit_action, current_person, requires
from integration.exports import delivery, export_request, formats, jobs
from integration.exports.formats.format import SEPARATORS
from integration.exports.jobs import ALERT_ADDRESSES, ExportJob
from integration.exports.presets import PRESETS
from integration.exports.routes import BROWSER_ROWS, parse_args
from integration.exports.selection import normalize_file_name
from integration.mirror.page_queries import history
from integration.outbound import mail_server
from integration.privacy import erasures
from integration.workspace import saved

blueprint = Blueprint("schedules", __name__, url_prefix="/exports")

AUDIT_VERBS = {"pause": "paused", "resume": "resumed", "run": "run by hand", "remove": "removed"}
REFRESH_SECONDS = 2
ALERT_LABEL = "the addresses of alerts.urls"
TARGET_LABELS = {"folder": "a folder", "email": "e-mail addresses", "put": "an HTTPS URL"}


def requires_export_supervisor(view: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a view: require the role supervisor and the right export.

    Supervisors manage all schedules, because schedules serve the business and not one user.
    """
    return requires("supervisor")(requires("export")(wraps(view)(view)))


# --- export jobs -----------------------------------------------------------------------------------------


@blueprint.get("")
@requires("export")
def index() -> Response:
    context, person = app_context(), current_person()
    runner = context.export_runner
    kept_since = clock.utc_text(clock.unix() - 86400 * context.settings.exports.keep_days)
    with context.app_db.read() as connection:
        downloads = jobs.list_downloads(connection, owner_name(person))
        erased_at = erasures.find_removal_of_exports(connection, kept_since)
        schedule_lines = jobs.list_statuses(connection, clock.now()) if has(person, "supervisor") else []
    page = layout.render_page(
        "exports",
        "exports.html",
        mine=[
            (run, _summarize(run.job), runner.rows_written(run), runner.expires_at(run)) for run in downloads
        ],
        lines=schedule_lines,
        # Pages of other roles lead to the collections.
        collections=[resource for resource in RESOURCES if resource.is_listed and resource.table != "me"]
        if person.role == EXPORTS_ONLY and has(person, "other_exports")
        else [],
        presets=[
            preset for preset in PRESETS.values() if layout.get_visibility().can_export(preset.resource)
        ],
        ranges={label: urlencode(limits) for label, limits in export_filter.list_ranges().items() if limits},
        every=jobs.FREQUENCY_LABELS,
        forms={form: entry.label for form, entry in formats.SCHEDULED_FORMATS.items()},
        background_above=BROWSER_ROWS,
        background_formats=[
            entry for entry in formats.list_by_page_order() if entry.background_above is not None
        ],
        keep_days=context.settings.exports.keep_days,
        erased_at=erased_at,
    )
    response = make_response(page)
    if any(run.is_active for run in downloads):
        # Shows progress without JavaScript.
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


@blueprint.post("/prepared/<int:number>/remove")
@requires("export")
def remove_file(number: int) -> Response:
    context = app_context()
    with context.app_db.read() as connection:
        run = jobs.find_download(connection, number)
    if run is None or run.job.owner != owner_name(current_person()):
        abort(404)
    context.export_runner.cancel(run)
    return redirect("/exports", 303)


# --- schedules -------------------------------------------------------------------------------------------


@blueprint.get("/schedules/new")
@requires_export_supervisor
def new() -> str:
    export = _require_export(request.args.get("export"))
    args = {"headings": "words", **parse_args(request.args)}
    empty = schedule_form.make_empty(app_context(), export, args)
    title = _list_exports(export)[export]
    empty = replace(empty, name=title, file=normalize_file_name(title))
    return _render_form(empty, draft=schedule_form.make_draft(empty, request.args))


@blueprint.post("/schedules/new")
@requires_export_supervisor
@requires_confirmation(has_new_secret)
def create() -> Response | tuple[str, int]:
    context = app_context()
    draft = schedule_form.make_empty(context, _require_export(request.form.get("export")), {})
    try:
        schedule = schedule_form.parse_form(context, current_person(), request.form, draft)
        number = jobs.save_schedule(context.app_db, schedule)
    except DomainError as refusal:
        return _render_form(draft, refused=str(refusal), given=request.form), 400
    _audit_schedule("schedule added", schedule)
    return redirect(f"/exports/schedules/{number}", 303)


@blueprint.get("/schedules/<int:number>")
@requires_export_supervisor
def show(number: int) -> Response:
    schedule = _require_schedule(number)
    context = app_context()
    with context.app_db.read() as connection:
        attempts = jobs.list_attempts(connection, number)
        open_runs = jobs.list_open_runs(connection, number)
        status = jobs.compute_status(connection, schedule, clock.now())
    draft = schedule_form.make_draft(schedule, request.args)
    page = _render_form(schedule, draft=draft, attempts=attempts, open_deliveries=open_runs, line=status)
    response = make_response(page)
    if any(run.at_once and not run.error for run in open_runs):
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


@blueprint.post("/schedules/<int:number>")
@requires_export_supervisor
@requires_confirmation(has_new_secret)
def save(number: int) -> Response | tuple[str, int]:
    old_schedule, context = _require_schedule(number), app_context()
    try:
        _require_export(old_schedule.export)
        new_schedule = schedule_form.parse_form(context, current_person(), request.form, old_schedule)
        if edit_versions.is_outdated(_shown_values(new_schedule), _shown_values(old_schedule)):
            return _render_form(old_schedule, refused=edit_versions.OUTDATED, given=request.form), 409
        jobs.save_schedule(context.app_db, new_schedule)
    except DomainError as refusal:
        return _render_form(old_schedule, refused=str(refusal), given=request.form), 400
    _audit_schedule("schedule changed", new_schedule)
    app_context().export_runner.request_run()
    return redirect(f"/exports/schedules/{number}", 303)


@blueprint.post("/schedules/<int:number>/<any(pause,resume,run,remove):action>")
@requires_export_supervisor
def act(number: int, action: str) -> Response:
    schedule, app_db = _require_schedule(number), app_context().app_db
    if action == "pause":
        jobs.pause(app_db, number)
    elif action == "resume":
        jobs.resume(app_db, number)
    elif action == "run":
        # The schedule runs with the rights of its owner, so this user gains no access.
        jobs.request_redelivery(app_db, number, jobs.find_last_ended(schedule, clock.now()).key)
    else:
        jobs.remove(app_db, number)
    _audit_schedule(f"schedule {AUDIT_VERBS[action]}", schedule)
    app_context().export_runner.request_run()
    return redirect("/exports" if action == "remove" else f"/exports/schedules/{number}", 303)


# --- helpers ---------------------------------------------------------------------------------------------


def _summarize(job: ExportJob) -> str:
    """Return the period and the filters of a download; '' if they are not valid any more."""
    context = app_context()
    with context.mirror_db.read() as connection:
        users = history.list_users(connection)
    with suppress(QueryError):
        selection = export_request.build_selection(
            context, job.export, job.args, layout.get_visibility(), current_person()
        )
        return selection.summarize(users)
    return ""


def _shown_values(schedule: ExportJob) -> ExportJob:
    """Return the schedule without values that the form does not show."""
    shown = replace(schedule, place=schedule.display_place, secret="", who="", person_id=None)
    return replace(shown, since="", paused_at=None, created_at="")


def _render_form(schedule: ExportJob, *, draft: ExportJob | None = None, **values: Any) -> str:
    """Render the form of a schedule. `draft` has its unsaved values."""
    person, context = current_person(), app_context()
    given = values.get("given") or {}
    draft = draft or schedule_form.make_draft(schedule, given)
    with context.app_db.read() as connection:
        saved_sets = saved.all_of(
            connection, saved.COLUMN_SETS, export_request.canonical_name(schedule.export), person.id
        )
        visible_views = saved.all_of(connection, saved.VIEWS, "calls", person.id)
    resource, preset = export_request.find_export(schedule.export)
    next_delivery = jobs.find_next_due(draft, clock.now())
    next_at = next_delivery.due_at.astimezone(ZoneInfo(draft.zone))
    is_call_export = export_filter.accepts_calls(resource, preset)
    return layout.render_page(
        "exports",
        "export_schedule.html",
        **{"given": None, "attempts": [], "open_deliveries": [], "line": None, "refused": None, **values},
        # Not a macro: its result is escaped, and equals no value of an option with “&”.
        was=lambda name, otherwise: given.get(name, otherwise),
        one=draft,
        next=next_delivery,
        next_at=clock.add_zone(f"{next_at:%A} {next_at.day} {next_at:%B %Y, %H:%M}", draft.zone),
        exports=_list_exports(schedule.export),
        place=schedule_form.mask_place(schedule),
        version=edit_versions.make_record_version(_shown_values(schedule)),
        title=schedule.title,
        grows=jobs.has_period_records(resource),
        forms=schedule_form.list_form_choices(resource, person),
        form_choice=f"{draft.form}{schedule_form.BY_MONTH if draft.is_by_month else ''}",
        every={frequency: frequency for frequency in FREQUENCIES},
        targets=TARGET_LABELS | ({ALERTS: ALERT_LABEL} if context.settings.alerts.urls else {}),
        target=ALERTS if draft.place == ALERT_ADDRESSES else draft.target,
        sets=dict.fromkeys(
            [*export_request.list_ready_sets(schedule.export), *(saved_set.name for saved_set in saved_sets)]
        ),
        view_words=schedule_form.describe_filter(context, draft, "view") if is_call_export else "",
        filter_words=schedule_form.describe_filter(context, draft, "filter"),
        column_words=schedule_form.list_headings_in_words(context, draft),
        views=[
            (saved_view.name, schedule_form.remove_days(saved_view.content)) for saved_view in visible_views
        ]
        if is_call_export
        else [],
        of_calls=is_call_export,
        separators=SEPARATORS,
        base=delivery.base_folder(context.settings),
        mail=mail_server.load(context.settings, context.app_db),
        public_url=context.settings.server.public_url,
    )


def _list_exports(export: str) -> dict[str, str]:
    """Return titles of the exports that the current user may schedule.

    `export` is always included.
    """
    viewer, titles = layout.get_visibility(), {export: ExportJob(export=export, args={}).title}
    for preset in PRESETS.values():
        if viewer.can_export(preset.resource):
            titles[preset.name] = preset.title
    return titles


def _require_export(export: str | None) -> str:
    """Return the canonical name of an export that the user may schedule."""
    name = export or "call-history"
    export_filter.require_export(name)
    return export_request.canonical_name(name)


def _require_schedule(number: int) -> ExportJob:
    with app_context().app_db.read() as connection:
        schedule = jobs.find_schedule(connection, number)
    if schedule is None:
        abort(404)
    return schedule


def _audit_schedule(action: str, schedule: ExportJob) -> None:
    content = f"{schedule.title} ({formats.SCHEDULED_FORMATS[schedule.form].label})"
    audit_action(action, f"{schedule.name}: {content} to {schedule.target} {schedule.display_place}".strip())
