"""Page of notifications: what happened for a user."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.wrappers import Response

from integration.context import app_context
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
    person_settings.record_look(app_context().app_db, current_person().id, request.form.get("until", ""))
    return form_responses.respond_done("Marked as seen.", "/notifications")
