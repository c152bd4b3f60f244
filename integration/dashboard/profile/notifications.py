"""Page of notifications: what happened for a user."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.core import clock
from integration.dashboard.site import form_responses, formats, layout, news
from integration.dashboard.site.guard import current_person
from integration.workspace import person_settings

blueprint = Blueprint("notifications", __name__)


@blueprint.get("/notifications")
def index() -> str:
    days: dict[str, list[news.Notification]] = {}
    for entry in news.list_notifications(app_context(), current_person(), layout.get_visibility()):
        days.setdefault(formats.day_of(entry.at), []).append(entry)
    return layout.render_page(
        "notifications", "notifications.html", days=list(days.items()), period=news.PERIOD
    )


@blueprint.post("/notifications/seen")
def mark_seen() -> Response:
    """Mark all notifications up to `until` as seen.

    `until`: the time of the page that showed them, as UTC text.
    """
    until, now = request.form.get("until", ""), clock.utc_text()
    # An invalid or future time counts as now.
    seen = min(until, now) if clock.parse_utc(until) else now
    person_settings.save(app_context().app_db, current_person().id, "notifications seen", seen)
    return form_responses.respond_done("Marked as seen.", "/notifications")
