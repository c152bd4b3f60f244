"""Route `/exports/<resource>.<suffix>`: download the filtered records as a file (docs/exports.md)."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from integration.access import audit
from integration.access.export_caller import ExportAuthenticator
from integration.context import AppContext
from integration.exports import export_request, job_routes
from integration.exports.formats import FORMATS
from integration.exports.jobs import find_export_jobs
from integration.exports.query import ChunkedFile, mark_if_truncated

NAME = "exports"
BROWSER_ROWS = 5_000
"""Rows above which a file is prepared in the background for a dashboard user.

An XLSX file of 20,000 rows takes up to a minute on a busy computer.
"""


def make_blueprint(context: AppContext) -> Blueprint:
    """Create the blueprint `exports`.

    It is exempt from the login check: its routes accept a dashboard user with the right `export`, or a key.
    """
    blueprint = Blueprint(NAME, __name__)
    exports = ExportRoutes(context)
    rule = f"/exports/<path:name>.<any({','.join(FORMATS)}):form>"
    blueprint.add_url_rule(rule, "export", job_routes.handle_errors(exports.respond), methods=["GET", "HEAD"])
    job_routes.add_routes(blueprint, context)
    return blueprint


class ExportRoutes:
    """View function of exports. One instance per application."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._authenticator = ExportAuthenticator(context)

    def respond(self, name: str, form: str) -> BaseResponse:
        target, _ = export_request.find_export(name)
        caller = self._authenticator.identify(target, FORMATS[form].right)
        args = parse_args(request.args)
        selection = export_request.build_selection(
            self._context, name, args, caller.visibility, caller.person
        )
        chunks = export_request.open_chunks(self._context, selection, form, args)
        background_above = FORMATS[form].background_above
        if background_above is not None and caller.person is not None:
            background_above = min(background_above, BROWSER_ROWS)
        if background_above is not None and request.method != "HEAD":
            export_jobs = find_export_jobs(current_app)
            if export_jobs is not None and chunks.row_count > background_above:
                chunks.close()
                return job_routes.start_job(
                    self._context,
                    export_jobs,
                    caller,
                    name,
                    form,
                    export_request.freeze_days(self._context.settings, args),
                    chunks.row_count,
                )
            chunks.prefetch()
        if request.method != "HEAD":
            audit.record(
                self._context.app_db,
                caller.name,
                "export",
                f"{export_request.canonical_name(name)}.{form}",
                f"{chunks.row_count} rows",
                address=request.remote_addr or "",
            )
        return _build_download(chunks, form)


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
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Export-Rows"] = str(chunks.row_count)
    return response
