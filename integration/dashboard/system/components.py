"""Names and problems of components on the System page.

/readyz and the log use the names of the health checks; pages use these titles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integration.sync.reading.call_assembly import JOB_NAME as CALL_ASSEMBLY
from integration.sync.reading.deletions import health_check_name

MAX_LISTED = 5
"""Failing components that the top of the page lists. The table of components has all of them."""

_SYNC_PREFIX = "look-back "
_PLATFORM, _LISTENERS = "platform", "listeners of "
_TITLES = {
    CALL_ASSEMBLY: "Call assembly",
    "accepted deletions": "Pending deletions",
    "archive checks": "File verification",
    "call-back list": "Call-back list",
    "call timers": "Timers",
    "clockwork": "Scheduler",
    "content of databases": "Database verification",
    "exports under way": "Running exports",
    "keep-alive": "Phone system session",
    "look-ups": "Call record lookups",
    "proofs": "Completeness checks",
    "re-reads": "Refreshes",
    "release of memory": "Memory",
    "report sums": "Report totals",
    "schedules of exports": "Export schedules",
    "stop watcher": "Stop signal",
    "walks": "Full syncs",
    "webhook delay": "Webhook delay",
    "webhooks applied": "Webhook processing",
    "work left by a command": "Interrupted commands",
}


@dataclass(frozen=True, slots=True)
class Component:
    """Health check with its title. `check` is its entry in `Health.report`."""

    title: str
    check: Mapping[str, Any]

    @property
    def has_problem(self) -> bool:
        return self.check["state"] in ("failing", "stalled")


def list_components(report: Mapping[str, Any]) -> list[Component]:
    """Return the components of a health report, those with a problem first."""
    components = [Component(make_title(name), check) for name, check in report["checks"].items()]
    return sorted(components, key=lambda component: not component.has_problem)


def list_problems(report: Mapping[str, Any], held_collections: list[str]) -> list[Component]:
    """Return the components with a problem.

    The page lists held deletions with buttons of their own.
    """
    held_checks = {health_check_name(collection) for collection in held_collections}
    remaining = {name: check for name, check in report["checks"].items() if name not in held_checks}
    return [component for component in list_components({"checks": remaining}) if component.has_problem]


def make_title(name: str) -> str:
    """Return the title of a health check."""
    if name.startswith(_SYNC_PREFIX):
        return f"{name.removeprefix(_SYNC_PREFIX)} sync"
    if name.startswith(_LISTENERS):
        return f"Database events ({name.removeprefix(_LISTENERS)})"
    if name.startswith(_PLATFORM):
        return f"Phone system{name.removeprefix(_PLATFORM)}"
    return _TITLES.get(name, name if name.endswith(".db") else name[:1].upper() + name[1:])
