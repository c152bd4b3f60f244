"""Routes of export jobs, accessible only to the job's owner.

GET     /exports/prepared/<id>        progress as JSON; `file` is the path of the file
GET     /exports/prepared/<id>/file   the file; supports Range
DELETE  /exports/prepared/<id>        cancel the job or remove its file; needs a key
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from flask import Blueprint, current_app, jsonify, redirect, request
from werkzeug.wrappers import Response

from integration.access import audit, browser, content_audit
from integration.access.export_caller import ExportAuthenticator, ExportCaller
from integration.access.visibility import NotAllowed
from integration.context import AppContext
from integration.core.api_responses import ApiError, build_error_response, send_file
from integration.core.errors import DomainError, QueryError
from integration.exports import export_request, prepared_exports
from integration.exports.export_request import UnknownExport
from integration.exports.formats import FORMATS
from integration.exports.jobs import ExportJobs, find_export_jobs
from integration.exports.prepared_exports import ExportJob

P = ParamSpec("P")

RETRY_AFTER_SECONDS = 2
"""Seconds that clients should wait between polls of a job."""
EXPORTS_PAGE = "/exports"


def add_routes(blueprint: Blueprint, context: AppContext) -> None:
    """Add the routes to `blueprint`.

    The blueprint is exempt from the login check, because the routes authenticate.
    """
    routes = _Routes(context)
    for rule, view, methods in (
        ("/exports/prepared/<int:number>", routes.show_status, ["GET", "HEAD"]),
        ("/exports/prepared/<int:number>/file", routes.file, ["GET", "HEAD"]),
        ("/exports/prepared/<int:number>", routes.remove, ["DELETE"]),
    ):
        blueprint.add_url_rule(rule, view.__name__, handle_errors(view), methods=methods)


def start_job(
    context: AppContext,
    export_jobs: ExportJobs,
    caller: ExportCaller,
    name: str,
    form: str,
    args: dict[str, str],
    rows: int,
) -> Response:
    """Start an export job.

    Redirect a browser to the page Exports; send a client 202 and the job's URL.
    """
    export_name = export_request.canonical_name(name)
    target, _ = export_request.find_export(name)
    try:
        job = prepared_exports.add(
            context.app_db,
            owner=caller.owner,
            who=caller.name,
            person_id=caller.person.id if caller.person else None,
            export=name,
            form=form,
            args=args,
            only_user=caller.visibility.scope_of(target),
            total=rows,
        )
    except DomainError as error:
        return build_error_response(429, str(error), headers={"Retry-After": "60"})
    file_name = f"{export_name}.{form}"
    audit.record(
        context.app_db,
        caller.name,
        "export requested",
        file_name,
        f"{rows} rows",
        address=request.remote_addr or "",
    )
    export_jobs.request_run()
    if caller.person is not None and "text/html" in request.headers.get("Accept", ""):
        return redirect(EXPORTS_PAGE, 303)
    response = jsonify(describe_job(export_jobs, job))
    response.status_code = 202
    response.headers["Location"] = f"/exports/prepared/{job.id}"
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def describe_job(export_jobs: ExportJobs, job: ExportJob) -> dict[str, Any]:
    """Return the JSON status of a job.

    `total` is the row count at the request until the job is complete.
    """
    return {
        "id": job.id,
        "export": job.export,
        "form": job.form,
        "state": job.state,
        "done": export_jobs.rows_written(job),
        "total": job.total if job.rows is None else job.rows,
        "bytes": job.bytes,
        "error": job.error,
        "file": f"/exports/prepared/{job.id}/file",
        "created_at": job.created_at,
        "kept_until": export_jobs.expires_at(job),
    }


class _Routes:
    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._authenticator = ExportAuthenticator(context)

    def show_status(self, number: int) -> Response:
        export_jobs, job, _ = self._find_own(number)
        response = jsonify(describe_job(export_jobs, job))
        response.headers["Cache-Control"] = "no-store"
        if job.is_active:
            response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response

    def file(self, number: int) -> Response:
        export_jobs, job, caller = self._find_own(number)
        path = export_jobs.path(job)
        if job.state != "done":
            raise ApiError(409, f"This export is {job.state}. It has a file only in the state done.")
        if not path.is_file():
            raise ApiError(410, "The file of this export was removed. Request the export again.")
        name = f"{export_request.canonical_name(job.export)}.{job.form}"
        file_name = export_request.make_file_name(
            self._context, job.export, job.args, caller.visibility, caller.person
        )
        response = send_file(
            path,
            mimetype=FORMATS[job.form].mime,
            as_attachment=True,
            download_name=f"{file_name}.{job.form}",
            max_age=0,
        )
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Export-Rows"] = str(job.rows)
        content_audit.record_content(
            self._context.app_db,
            request,
            response,
            who=caller.name,
            action="export",
            subject=f"{name}, prepared export {number}",
            result=f"{job.rows} rows",
        )
        return response

    def remove(self, number: int) -> Response:
        if not self._authenticator.has_key:
            # Another site can make a browser send its session. The dashboard's button is a form with a token.
            status = 403 if browser.browser_token(request) else 401
            raise ApiError(
                status, "A key is required: HTTP Basic with user_id:secret, or the header X-Auth-Token."
            )
        export_jobs, job, _ = self._find_own(number)
        export_jobs.cancel(job)
        return Response(status=204)

    def _find_own(self, number: int) -> tuple[ExportJobs, ExportJob, ExportCaller]:
        """Return a job of the caller.

        Raises ApiError 404 if the caller does not own it, 403 if the caller's access to its records has
        changed, and the errors of `ExportAuthenticator.identify`.
        """
        export_jobs = find_export_jobs(current_app)
        with self._context.app_db.read() as connection:
            job = prepared_exports.find(connection, number)
        # Do not reveal which jobs exist: for an unknown job check the access to cdrs, which every user with
        # the right to export has.
        target, _ = export_request.find_export(job.export if job else "cdrs")
        caller = self._authenticator.identify(target, FORMATS[job.form].right if job else None)
        if job is None or export_jobs is None or job.owner != caller.owner:
            raise ApiError(404, f"You have no export with the number {number}.")
        if job.only_user != caller.visibility.scope_of(target):
            raise ApiError(
                403, "Your access rights have changed since you requested this export. Request it again."
            )
        return export_jobs, job, caller


def handle_errors(view: Callable[P, Response]) -> Callable[P, Response]:
    """Wrap `view` and convert its errors into responses.

    A browser without a session is redirected to the login.
    """

    def respond(*args: P.args, **kwargs: P.kwargs) -> Response:
        try:
            return view(*args, **kwargs)
        except ApiError as api_error:
            if api_error.status == 401 and "text/html" in request.headers.get("Accept", ""):
                return redirect("/login", 302)
            return api_error.to_response()
        except UnknownExport as error:
            return build_error_response(404, str(error))
        except NotAllowed as error:
            return build_error_response(403, str(error))
        except QueryError as error:
            return build_error_response(400, str(error))

    return respond
