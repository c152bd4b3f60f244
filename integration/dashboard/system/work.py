"""Pages and buttons of System: failed webhooks, backups, doctor, write log."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, make_response, request

from integration.access import audit
from integration.context import AppContext, app_context
from integration.core.errors import SwitchroomError
from integration.core.ids import parse_id
from integration.dashboard.site import layout
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.background_jobs import Job, ProgressCallback, current_jobs, make_progress
from integration.dashboard.site.guard import current_person, requires
from integration.inbox import replay as webhook_replay
from integration.maintenance import backup, doctor, manifest
from integration.sync.writing import write_log

blueprint = Blueprint("system_work", __name__, url_prefix="/system")

WRITE_LOG_PAGE_SIZE = 100
MAX_BACKUPS_SHOWN = 30


def start_job(name: str, action: str, work: Any) -> None:
    """Start a background job.

    The audit log records its start and its result.
    """
    context, email, address = app_context(), current_person().email, request.remote_addr or ""

    def audit_end(job: Job) -> None:
        audit.record(context.app_db, email, action, job.result, job.state, address=address)

    if current_jobs().start(name, email, work, audit_end) is not None:
        audit.record(context.app_db, email, action, result="begun", address=address)


@blueprint.post("/replay")
@requires("admin")
def replay() -> Response:
    """Reapply failed webhooks, like `switchroom replay --failed`."""
    context = app_context()

    def work(report_progress: ProgressCallback) -> str:
        progress = make_progress(report_progress, "webhooks")
        result = webhook_replay.replay(context, {"failed": True}, progress)
        return f"{result['applied']} applied, {result['failed']} failed again"

    start_job("replay", "failed webhooks replayed", work)
    return redirect_to("/system#webhooks")


@blueprint.post("/backup")
@requires("admin")
def back_up() -> Response:
    context = app_context()
    data_dir, destination = context.settings.storage.data_dir, backup.get_destination(context.settings)

    def work(report_progress: ProgressCallback) -> str:
        finished_backup = backup.create(data_dir, destination, report_progress)
        notes = (
            f"; {len(finished_backup.notes)} files with problems: {finished_backup.notes[0]}"
            if finished_backup.notes
            else ""
        )
        return (
            f"{finished_backup.path.name}: {finished_backup.files} files, "
            f"{finished_backup.bytes / 1e6:,.0f} MB{notes}"
        )

    start_job("backup", "backup", work)
    return redirect_to("/system#backups")


def list_backups(context: AppContext) -> tuple[list[dict[str, Any]], str]:
    """Return (finished backups, error).

    The error is the reason if the folder cannot be read, else ''. Backups are newest first, with name,
    made_at, version, files and bytes, or with name and error.
    """
    try:
        folders = sorted(
            backup.get_destination(context.settings).glob(backup.BACKUP_NAME_PATTERN), reverse=True
        )[:MAX_BACKUPS_SHOWN]
    except OSError as error:
        return [], error.strerror or str(error)
    finished_backups: list[dict[str, Any]] = []
    for folder in folders:
        try:
            backup_manifest = manifest.read(folder)
        except SwitchroomError as error:
            finished_backups.append({"name": folder.name, "error": str(error)})
            continue
        finished_backups.append(
            {
                "name": folder.name,
                "made_at": backup_manifest.made_at,
                "version": backup_manifest.version,
                "files": len(backup_manifest.files),
                "bytes": sum(entry.size for entry in backup_manifest.files),
            }
        )
    return finished_backups, ""


@blueprint.get("/events/<int:seq>")
@requires("supervisor")
def show_event(seq: int) -> Response:
    """Show one webhook as received."""
    row = app_context().inbox.find(seq)
    if row is None:
        abort(404)
    page = layout.render_page(
        "system", "system_event.html", event=row, body=row["body"].decode("utf-8", "replace")
    )
    response = make_response(page)
    audit.record_content(
        app_context().app_db,
        request,
        response,
        who=current_person().email,
        action="read webhook",
        subject=str(seq),
    )
    return response


@blueprint.get("/doctor")
@requires("admin")
def show_doctor() -> str:
    """Show the checks of `switchroom doctor`.

    The page is slow: the checks send requests to the platform and the public URL.
    """
    return layout.render_page(
        "system", "system_doctor.html", lines=list(doctor.check_installation(app_context().settings))
    )


@blueprint.get("/journal")
@requires("admin")
def show_write_log() -> str:
    before = request.args.get("before")
    entries = write_log.list_newest(app_context().app_db, WRITE_LOG_PAGE_SIZE + 1, parse_id(before))
    older = entries[WRITE_LOG_PAGE_SIZE - 1].id if len(entries) > WRITE_LOG_PAGE_SIZE else None
    return layout.render_page(
        "system", "system_journal.html", entries=entries[:WRITE_LOG_PAGE_SIZE], older=older, newest=not before
    )
