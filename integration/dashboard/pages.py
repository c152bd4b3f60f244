"""The dashboard's pages, as a table of contents."""

from __future__ import annotations

from flask import Flask

from integration.dashboard.account import overview as account
from integration.dashboard.calls import (
    actions,
    audio,
    live,
    missed,
    reports,
    wall,
)
from integration.dashboard.calls import (
    detail as call,
)
from integration.dashboard.calls import (
    history as calls,
)
from integration.dashboard.calls import (
    saved as views,
)
from integration.dashboard.exports import preview as export
from integration.dashboard.exports import schedules as exports
from integration.dashboard.messages import contacts, messages
from integration.dashboard.settings import general as settings
from integration.dashboard.settings import people as settings_people
from integration.dashboard.site import error_pages as errors
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.dashboard.system import (
    alerts,
)
from integration.dashboard.system import (
    mirror as system_mirror,
)
from integration.dashboard.system import (
    overview as system,
)
from integration.dashboard.system import (
    work as system_work,
)

BLUEPRINTS = (
    live.blueprint,
    missed.blueprint,
    calls.blueprint,
    export.blueprint,
    exports.blueprint,
    call.blueprint,
    actions.blueprint,
    messages.blueprint,
    audio.blueprint,
    contacts.blueprint,
    reports.blueprint,
    account.blueprint,
    system.blueprint,
    views.blueprint,
    system_work.blueprint,
    system_mirror.blueprint,
    settings.blueprint,
    settings_people.blueprint,
    alerts.blueprint,
    wall.blueprint,
)


def register(app: Flask) -> None:
    """Put every page into `app`. The guard must have been installed before."""
    formats.register(app)
    shell.register(app)
    errors.register(app)
    actions.register(app)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
