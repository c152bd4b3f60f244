"""Registration of all dashboard pages."""

from __future__ import annotations

from flask import Flask
from werkzeug.routing import IntegerConverter, Map

from integration.core.ids import MAX_ID
from integration.dashboard.account import blocking
from integration.dashboard.account import overview as account_overview
from integration.dashboard.calls import (
    actions,
    audio,
    calls_in_progress,
    detail,
    history,
    live,
    missed,
    report_labels,
    report_missed,
    report_summary,
    reports,
    saved,
    wall,
)
from integration.dashboard.exports import preview, schedules
from integration.dashboard.messages import contacts, messages
from integration.dashboard.privacy import audit_log, holds_and_erasures, numbers, retention
from integration.dashboard.profile import notifications, own_login, second_factor
from integration.dashboard.settings import connection, hours, keys, outgoing, page, people, screens, text_back
from integration.dashboard.site import error_pages, first_steps, formats, layout, palette, person_names
from integration.dashboard.system import alerts, mirror, work
from integration.dashboard.system import overview as system_overview

BLUEPRINTS = (
    live.blueprint,
    first_steps.blueprint,
    missed.blueprint,
    history.blueprint,
    preview.blueprint,
    schedules.blueprint,
    detail.blueprint,
    actions.blueprint,
    messages.blueprint,
    audio.blueprint,
    contacts.blueprint,
    reports.blueprint,
    report_missed.blueprint,
    report_labels.blueprint,
    report_summary.blueprint,
    account_overview.blueprint,
    system_overview.blueprint,
    saved.blueprint,
    work.blueprint,
    mirror.blueprint,
    page.blueprint,
    people.blueprint,
    connection.blueprint,
    keys.blueprint,
    outgoing.blueprint,
    screens.blueprint,
    hours.blueprint,
    text_back.blueprint,
    alerts.blueprint,
    wall.blueprint,
    own_login.blueprint,
    second_factor.blueprint,
    notifications.blueprint,
    palette.blueprint,
    numbers.blueprint,
    holds_and_erasures.blueprint,
    retention.blueprint,
    audit_log.blueprint,
)


class IdConverter(IntegerConverter):
    """Converter of `<int:…>` in URLs that accepts ASCII digits up to `MAX_ID`.

    Werkzeug's converter accepts digits of every script, for example `٣`, and numbers that SQLite rejects.
    """

    regex = "[0-9]+"

    def __init__(self, map: Map) -> None:
        super().__init__(map, max=MAX_ID)


def register(app: Flask) -> None:
    """Register all pages in `app`. The guard must already be installed."""
    formats.register(app)
    layout.register(app)
    error_pages.register(app)
    actions.register(app)
    calls_in_progress.register(app)
    blocking.register(app)
    person_names.register(app)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
