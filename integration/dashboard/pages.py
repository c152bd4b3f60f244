"""The dashboard's pages, as a table of contents."""

from __future__ import annotations

from flask import Flask

from integration.dashboard import (
    account,
    actions,
    alerts,
    audio,
    call,
    calls,
    contacts,
    errors,
    export,
    exports,
    formats,
    live,
    messages,
    missed,
    reports,
    settings,
    settings_people,
    shell,
    system,
    system_mirror,
    system_work,
    views,
    wall,
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
