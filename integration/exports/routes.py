"""Routes of exports, for a dashboard session or a key (docs/exports.md).

GET     /exports/<name>.<format>      the filtered records; a large file is prepared in the background
GET     /exports/prepared/<id>        progress of a download as JSON; `file` is the path of the file
GET     /exports/prepared/<id>/file   the file; supports Range
DELETE  /exports/prepared/<id>        cancel the download or remove its file; needs a key

Downloads are accessible only to their owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify, redirect, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from integration.access import audit, browser, export_caller
from integration.access.export_caller import ExportCaller
from integration.access.rights import has
from integration.access.visibility import NotAllowed
from integration.context import app_context
from integration.core.api_responses import ApiError, build_error_response, send_file
from integration.core.errors import DomainError, QueryError
from integration.exports import export_request, jobs
from integration.exports.export_request import UnknownExport
from integration.exports.formats import FORMATS
from integration.exports.jobs import ExportJob, ExportRun
from integration.exports.query import ChunkedFile, mark_if_truncated
from integration.exports.runner import ExportRunner

BROWSER_ROWS = 5_000
"""Rows above which a file is prepared in the background for a dashboard user.

An XLSX file of 20,000 rows takes up to a minute on a busy computer.
"""
RETRY_AFTER_SECONDS = 2
"""Seconds that clients should wait between polls of a download."""

blueprint = Blueprint("exports", __name__)
"""Exempt from the login check: its routes accept a dashboard user with the right `export`, or a key."""


@blueprint.get(f"/exports/<path:name>.<any({','.join(FORMATS)}):form>")
def export(name: str, form: str) -> BaseResponse:
    target, _ = export_request.find_export(name)
    caller = export_caller.identify(app_context(), target, FORMATS[form].right)
    args = parse_args(request.args)
    selection = export_request.build_selection(app_context(), name, args, caller.visibility, caller.person)
    chunks = export_request.open_chunks(app_context(), selection, form, args)
    file_name = f"{chunks.name}.{form}"
    background_above = FORMATS[form].background_above
    if background_above is not None and caller.person is not None:
        background_above = min(background_above, BROWSER_ROWS)
    if background_above is not None and request.method != "HEAD":
        if chunks.row_count > background_above:
            chunks.close()
            job = ExportJob(
                export=name,
                form=form,
                args=export_request.freeze_days(app_context().settings, args),
                who=caller.name,
                person_id=caller.person.id if caller.person else None,
                owner=caller.owner,
                only_user=caller.visibility.scope_of(target),
            )
            return _add_download(job, file_name, chunks.row_count)
        chunks.prefetch()
    if request.method != "HEAD":
        _audit(caller.name, "export", file_name, args, chunks.row_count)
    return _build_download(chunks, form)


@blueprint.get("/exports/prepared/<int:number>")
def show_status(number: int) -> BaseResponse:
    run, _ = _find_own(number)
    response = jsonify(_describe(app_context().export_runner, run))
    response.headers["Cache-Control"] = "no-store"
    if run.is_active:
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


@blueprint.get("/exports/prepared/<int:number>/file")
def file(number: int) -> BaseResponse:
    run, caller = _find_own(number)
    job, path = run.job, app_context().export_runner.path(run)
    if run.state != "done":
        raise ApiError(409, f"This export is {run.state}. It has a file only in the state done.")
    if not path.is_file():
        raise ApiError(410, "The file of this export was removed. Request the export again.")
    name = f"{jobs.SUBJECT_DATA}-{number}"
    if job.export != jobs.SUBJECT_DATA:
        name = export_request.make_file_name(
            app_context(), job.export, job.args, caller.visibility, caller.person
        )
    file_name = f"{name}.{job.form}"
    response = send_file(
        path,
        mimetype=FORMATS[job.form].mime,
        as_attachment=True,
        download_name=file_name,
        max_age=0,
    )
    _set_file_headers(response, run.rows)
    limits = export_request.describe_limits(app_context(), job.args)
    audit.record_content(
        app_context().app_db,
        request,
        response,
        who=caller.name,
        action="export",
        subject=f"{file_name}{limits}, prepared export {number}",
        result=f"{run.rows:,} rows",
    )
    return response


@blueprint.delete("/exports/prepared/<int:number>")
def remove(number: int) -> BaseResponse:
    if not export_caller.has_key():
        # Another site can make a browser send its session. The dashboard's button is a form with a token.
        status = 403 if browser.browser_token(request) else 401
        raise ApiError(
            status, "A key is required: HTTP Basic with user_id:secret, or the header X-Auth-Token."
        )
    run, _ = _find_own(number)
    app_context().export_runner.cancel(run)
    return Response(status=204)


def _add_download(job: ExportJob, file_name: str, rows: int) -> BaseResponse:
    """Redirect a browser to the page Exports; send a client 202 and the URL of the download."""
    try:
        run = jobs.add_download(app_context().app_db, job, rows)
    except DomainError as error:
        return build_error_response(429, str(error), headers={"Retry-After": "60"})
    _audit(job.who, "export requested", file_name, job.args, rows)
    app_context().export_runner.request_run()
    if job.person_id is not None and "text/html" in request.headers.get("Accept", ""):
        return redirect("/exports", 303)
    response = jsonify(_describe(app_context().export_runner, run))
    response.status_code = 202
    response.headers["Location"] = f"/exports/prepared/{run.id}"
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def _audit(who: str, action: str, file_name: str, args: Mapping[str, str], rows: int) -> None:
    about = file_name + export_request.describe_limits(app_context(), args)
    address = request.remote_addr or ""
    audit.record(app_context().app_db, who, action, about, f"{rows:,} rows", address=address)


def _find_own(number: int) -> tuple[ExportRun, ExportCaller]:
    """Return a download of the caller.

    Raises ApiError 404 if the caller does not own it, 403 if the caller's access to its records has
    changed, and the errors of `export_caller.identify`.
    """
    with app_context().app_db.read() as connection:
        run = jobs.find_download(connection, number)
    # Do not reveal which downloads exist: for an unknown one check the access to cdrs, which every user
    # with the right to export has.
    is_subject_data = run is not None and run.job.export == jobs.SUBJECT_DATA
    target, _ = export_request.find_export(run.job.export if run and not is_subject_data else "cdrs")
    caller = export_caller.identify(app_context(), target, FORMATS[run.job.form].right if run else None)
    if (
        run is None
        or run.job.owner != caller.owner
        or (is_subject_data and not (caller.person and has(caller.person, "admin")))
    ):
        raise ApiError(404, f"You have no export with the number {number}.")
    if run.job.only_user != caller.visibility.scope_of(target):
        raise ApiError(
            403, "Your access rights have changed since you requested this export. Request it again."
        )
    return run, caller


def parse_args(args: MultiDict[str, str]) -> dict[str, str]:
    """Return parameters by name.

    A form sends `columns` once per checkbox, a link once with commas.
    """
    return {**args.to_dict(), "columns": ",".join(args.getlist("columns"))}


def _build_download(chunks: ChunkedFile, form: str) -> Response:
    """Build the download response.

    `X-Export-Rows` is the number of rows, counted in the same snapshot before the first byte. A client can
    compare it with the file to detect truncation. HEAD returns only the headers.
    """
    response = Response(mark_if_truncated(chunks), content_type=FORMATS[form].mime)
    response.call_on_close(chunks.close)
    response.headers["Content-Disposition"] = f'attachment; filename="{chunks.name}.{form}"'
    _set_file_headers(response, chunks.row_count)
    return response


def _set_file_headers(response: BaseResponse, rows: int | None) -> None:
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Export-Rows"] = str(rows)


def _describe(runner: ExportRunner, run: ExportRun) -> dict[str, Any]:
    """Return the JSON status of a download.

    `total` is the row count at the request until the file is complete.
    """
    return {
        "id": run.id,
        "export": run.job.export,
        "form": run.job.form,
        "state": run.state,
        "done": runner.rows_written(run),
        "total": run.total if run.rows is None else run.rows,
        "bytes": run.bytes,
        "error": run.error,
        "file": f"/exports/prepared/{run.id}/file",
        "created_at": run.job.created_at,
        "kept_until": runner.expires_at(run),
    }


@blueprint.errorhandler(ApiError)
def _handle_api_error(error: ApiError) -> BaseResponse:
    """Redirect a browser without a session to the login."""
    if error.status == 401 and "text/html" in request.headers.get("Accept", ""):
        return redirect("/login", 302)
    return error.to_response()


@blueprint.errorhandler(UnknownExport)
@blueprint.errorhandler(NotAllowed)
@blueprint.errorhandler(QueryError)
def _handle_refusal(error: UnknownExport | NotAllowed | QueryError) -> BaseResponse:
    status = 404 if isinstance(error, UnknownExport) else 403 if isinstance(error, NotAllowed) else 400
    return build_error_response(status, str(error))
