"""Checklist of a new installation on Live, for administrators.

It ends when all steps are done, or for the user who dismisses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, Response

from integration.access import people
from integration.access.people import Person
from integration.access.rights import has
from integration.context import AppContext, app_context
from integration.dashboard.site import layout
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.guard import current_person, requires
from integration.maintenance import backup
from integration.mirror.sync_state import collection_state
from integration.settings.demo_marker import is_demo
from integration.workspace import person_settings

blueprint = Blueprint("first_steps", __name__)


@dataclass(frozen=True, slots=True)
class Step:
    """Step of the checklist.

    `path` is the page on which a user completes it. `obstacle`: what makes it impossible now, or ''.
    """

    label: str
    path: str
    is_done: bool
    obstacle: str = ""


def list_steps(context: AppContext, person: Person) -> list[Step]:
    """Return the steps for a user.

    The list is empty for other users than administrators, after the dismissal, and if all steps are done.
    """
    if not has(person, "admin"):
        return []
    with context.app_db.read() as connection:
        if person_settings.load(connection, person.id, "first steps"):
            return []
    with context.mirror_db.read() as connection:
        synced_at = collection_state.get_state(connection, "cdrs").last_success_at
        cause = layout.describe_outage(connection)[0] if layout.unreachable_since(connection) else ""
    # The simulated platform of a demo sends webhooks to this computer.
    has_address = context.settings.server.public_url or is_demo(context.settings)
    needs_https = "" if has_address else "Needs HTTPS: set server.public_url"
    steps = [
        Step("Connect the phone system", "/system", synced_at is not None, cause),
        Step("Set up webhooks", "/settings/connection#webhook", context.inbox.has_received(), needs_https),
        Step("Make a first backup", "/system#backups", _has_backup(context)),
        Step("Invite a colleague", "/settings/people", len(people.list_all(context.app_db)) > 1),
    ]
    return [] if all(step.is_done for step in steps) else steps


@blueprint.post("/live/first-steps/dismiss")
@requires("admin")
def dismiss() -> Response:
    person_settings.save(app_context().app_db, current_person().id, "first steps", "dismissed")
    return redirect_to("/live")


def _has_backup(context: AppContext) -> bool:
    try:
        return any(backup.get_destination(context.settings).glob(backup.BACKUP_NAME_PATTERN))
    except OSError:
        # System reports a folder that cannot be read.
        return False
