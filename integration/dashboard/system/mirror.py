"""System pages about the mirror: day counts, verification, deletions."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from integration.catalogue import UnknownResource, get_resource
from integration.catalogue.collection_titles import get_title
from integration.catalogue.shapes import Resource
from integration.context import app_context
from integration.core.errors import SwitchroomError
from integration.dashboard.site import layout
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.background_jobs import ProgressCallback, make_progress
from integration.dashboard.site.guard import requires
from integration.dashboard.system.work import start_job
from integration.mirror.sync_state import completeness
from integration.sync import commands
from integration.sync.plan import PLAN
from integration.sync.reading import deletions, verify_coverage

blueprint = Blueprint("system_mirror", __name__, url_prefix="/system")


@blueprint.get("/coverage/<path:collection>")
def show_days(collection: str) -> str:
    """Show the counted days of a collection, newest first."""
    target = _require_mirrored(collection)
    with app_context().mirror_db.read() as connection:
        counted_days = completeness.list_days(connection, target.collection)
    return layout.render_page(
        "system", "system_coverage.html", collection=target.collection, days=counted_days
    )


@blueprint.post("/prove")
@requires("admin")
def verify_completeness() -> Response:
    """Verify all collections, like `switchroom verify --coverage`."""
    context = app_context()

    def work(report_progress: ProgressCallback) -> str:
        progress = make_progress(report_progress)
        results = verify_coverage.verify_completeness(context, {"resources": list(PLAN)}, progress)["proofs"]
        differing = [result for result in results if not result["complete"]]
        with context.mirror_db.read() as connection:
            gaps = {one.collection for one in completeness.list_differences(connection) if one.is_gap}
        rechecks = [one for one in differing if not one["error"] and one["collection"] not in gaps]
        summary = f"{len(results) - len(differing)} of {len(results)} collections complete"
        summary += f", {sum(result['days'] for result in results):,} days compared"
        for label, found in (
            ("checked again in a minute", rechecks),
            ("incomplete", [result for result in differing if result not in rechecks]),
        ):
            titles = ", ".join(get_title(get_resource(result["collection"])) for result in found)
            summary += f"; {label}: {titles}" if titles else ""
        return summary

    start_job("prove", "completeness checked", work)
    return redirect_to("/system#coverage")


@blueprint.post("/deletions/accept")
@requires("admin")
def accept_deletions() -> Response:
    """Accept the held deletions of a collection, like `switchroom sync --accept-deletions`."""
    context = app_context()
    target = _require_mirrored(request.form.get("collection", ""))
    arguments = {"resources": [target.collection], "full": True, "files": False, "accept": True}

    def work(report_progress: ProgressCallback) -> str:
        progress = make_progress(report_progress)
        result = commands.sync(context, arguments, progress)["rows"][0]
        if result["error"]:
            raise SwitchroomError(f"Cannot sync “{get_title(target)}”: {result['error']}")
        return f"{get_title(target)}: {result['gone']:,} marked as deleted."

    start_job("deletions", f"deletions in {target.collection} accepted", work)
    return redirect_to("/system#deletions")


@blueprint.post("/deletions/undo")
@requires("admin")
def undo_deletions() -> Response:
    """Restore the deleted records of a collection and keep held ones.

    Does the same as `switchroom sync undo-deletions`.
    """
    context = app_context()
    target = _require_mirrored(request.form.get("collection", ""))
    if target.key is None:
        abort(404)

    def work(_report_progress: ProgressCallback) -> str:
        restored = deletions.restore_deleted(context, PLAN[target.collection])
        outcome = f"{restored:,} restored" if restored else "the missing records stay here"
        return f"{get_title(target)}: {outcome}."

    start_job("deletions", f"deletions in {target.collection} undone", work)
    return redirect_to("/system#deletions")


def _require_mirrored(name: str) -> Resource:
    try:
        target = get_resource(name)
    except UnknownResource:
        abort(404)
    if target.collection not in PLAN:
        abort(404)
    return target
