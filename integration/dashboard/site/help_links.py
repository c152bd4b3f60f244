"""Page of the documentation site that explains a page of the dashboard."""

from __future__ import annotations

HELP_PAGES = {
    "/": "agents.html",
    "/live": "agents.html#watch-live-calls",
    "/missed": "agents.html#call-back-missed-callers",
    "/calls": "agents.html#find-a-call",
    "/calls/labels": "agents.html#add-a-note-or-a-label",
    "/messages": "agents.html#read-and-send-text-messages",
    "/voicemail": "agents.html#listen-to-voicemail",
    "/recordings": "agents.html#play-a-recording",
    "/contacts": "agents.html#find-a-contact",
    "/dial": "agents.html#start-a-call",
    "/profile": "access.html",
    "/login/second-factor": "access.html#second-factor",
    "/notifications": "alerts.html",
    "/reports": "reports.html",
    "/reports/missed": "reports.html#missed-calls",
    "/exports": "exports.html",
    "/exports/schedules": "exports.html#schedules",
    "/account": "account.html",
    "/privacy": "privacy.html",
    "/privacy/holds": "privacy.html#keep-records-for-a-dispute",
    "/privacy/retention": "privacy.html#delete-old-data",
    "/privacy/audit": "privacy.html#see-what-was-done",
    "/settings": "back-office.html#add-people-and-keys",
    "/settings/connection": "alerts.html#mail-server",
    "/settings/outgoing": "events.html",
    "/settings/hours": "hours.html",
    "/settings/text-back": "text-back.html",
    "/settings/screens": "owners.html#put-figures-on-a-screen",
    "/system": "troubleshooting.html",
    "/system/alerts": "alerts.html",
    "/system/coverage": "sync.html#completeness",
    "/system/doctor": "troubleshooting.html",
}
"""Page and anchor by the first segments of a path."""


def find_help_page(path: str) -> str:
    """Return the help page of the dashboard page at `path`.

    Pages without an entry have that of the page above them.
    """
    while path not in HELP_PAGES:
        path = path.rpartition("/")[0] or "/"
    return f"/help/{HELP_PAGES[path]}"
