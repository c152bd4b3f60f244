"""Page Retention: limits, and what a run with them deletes."""

from __future__ import annotations

from flask import Blueprint, request

from integration.context import app_context
from integration.dashboard.site import layout
from integration.dashboard.site.guard import requires
from integration.privacy import retention as retention_job
from integration.settings.model import Retention

blueprint = Blueprint("privacy_retention", __name__, url_prefix="/privacy")

READ_SECONDS = 20.0
"""Seconds after which the count is aborted: with a short limit it reads the entire history."""
MAX_DAYS = 36_500

LABELS = {
    "cdrs": "Call records",
    "recordings": "Recordings",
    "transcripts": "Transcripts and summaries",
    "sms": "SMS",
    "voicemail": "Voicemail",
    "faxes": "Faxes",
    "chats": "Chats",
    "inbox": "Webhooks as received",
    "audit": "Audit log",
    "logs": "Change, notification and export logs",
}
"""Labels of the kinds of `retention.<kind>_days`."""


@blueprint.get("/retention")
@requires("admin")
def index() -> str:
    """Show the limits and what the next run deletes.

    With `kind` and `days`: what a run with this other limit would delete.
    """
    retention = app_context().settings.retention
    kind, days = request.args.get("kind", ""), request.args.get("days", type=int)
    is_trial = kind in LABELS and days is not None and 0 < days <= MAX_DAYS
    if is_trial:
        retention = Retention.model_validate({f"{kind}_days": days})
    counts = retention_job.count_all(app_context(), retention, READ_SECONDS)
    return layout.render_page(
        "privacy",
        "privacy_retention.html",
        labels=LABELS,
        days_by_kind=app_context().settings.retention.model_dump(),
        counts=counts,
        trial=(kind, days) if is_trial else None,
        max_days=MAX_DAYS,
    )
