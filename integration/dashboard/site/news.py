"""Notifications of a user: voicemail, call-backs, reminders, exports."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta

from integration.access.export_caller import owner_name
from integration.access.people import Person
from integration.access.rights import has
from integration.access.visibility import Visibility
from integration.context import AppContext
from integration.core import clock
from integration.core.phone_numbers import is_withheld
from integration.dashboard.site import formats
from integration.dashboard.site.person_names import person_name
from integration.exports import jobs as export_jobs
from integration.mirror.page_queries import media_lists, phones
from integration.workspace import callbacks, person_settings

PERIOD = timedelta(days=14)
"""Age limit of notifications."""
MAX_SHOWN = 100
"""Notifications of each kind."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification.

    `at`: UTC text. `icon`: name of a symbol. `party`: number of the caller to call back, '' for others.
    """

    at: str
    icon: str
    title: str
    details: str
    path: str
    party: str
    is_new: bool


def list_notifications(context: AppContext, person: Person, viewer: Visibility) -> list[Notification]:
    """Return the notifications of a user, newest first."""
    since = clock.utc_text(clock.now() - PERIOD)
    found: list[tuple[str, str, str, str, str, str]] = []
    with context.app_db.read() as app_connection, context.mirror_db.read() as mirror_connection:
        looked_at = person_settings.load(app_connection, person.id, "notifications seen") or person.created_at
        phone = phones.find_own_phone(mirror_connection, person.platform_user_id, person.email)
        if phone is not None and has(person, "recordings"):
            found += [
                (row["at"], "voicemail", f"Voicemail from {_name_caller(row)}",
                 formats.duration(row["duration"]), f"/voicemail#voicemail-{row['id']}", row["caller"] or "")
                for row in media_lists.list_received_voicemail(mirror_connection, phone.id, since, MAX_SHOWN)
            ]  # fmt: skip
        assignments = callbacks.list_assignments(app_connection, person.email, since, MAX_SHOWN)
        visible_items = callbacks.select_visible(
            mirror_connection, viewer, [assignment.item for assignment in assignments]
        )
        visible_ids = {item.id for item in visible_items}
        found += [
            (entry.at, "missed", f"Call-back assigned to you: {formats.party_name(entry.item)}",
             f"by {person_name(entry.who)}", f"/missed?mine=1#item-{entry.item.id}", entry.item.party)
            for entry in assignments
            if entry.item.id in visible_ids
        ]  # fmt: skip
        reminders = callbacks.list_due_reminders(app_connection, person.id, since, clock.utc_text())
        seen_items = callbacks.select_visible(
            mirror_connection, viewer, [reminder.item for reminder in reminders]
        )
        found += [
            (entry.at, "bell", f"Reminder: call {formats.party_name(entry.item)} back", "",
             f"/missed#item-{entry.item.id}", entry.item.party)
            for entry in reminders
            if entry.item in seen_items
        ]  # fmt: skip
        if has(person, "export"):
            found += [
                (run.ended_at or "", "download",
                 f"Export {'ready' if run.state == 'done' else 'failed'}: {run.job.title}",
                 run.error or f"{formats.thousands(run.rows)} rows", "/exports", "")
                for run in export_jobs.list_downloads(app_connection, owner_name(person))
                if run.state in ("done", "failed") and (run.ended_at or "") >= since
            ]  # fmt: skip
    found.sort(reverse=True)
    return [Notification(*entry, is_new=entry[0] > looked_at) for entry in found]


def _name_caller(row: sqlite3.Row) -> str:
    number = "a withheld number" if is_withheld(row["caller"]) else formats.national(row["caller"])
    return str(row["party_name"] or "") or number
