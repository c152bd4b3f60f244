"""Names and problems of components on the System page.

/readyz and the log use the names of the health checks; pages use these titles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from integration.catalogue import get_resource
from integration.catalogue.collection_titles import get_title
from integration.sync.jobs import INCREMENTAL_SYNC_PREFIX
from integration.sync.reading import deletions

MAX_LISTED = 5
"""Failing components that the top of the page lists. The table of components has all of them."""

_PLATFORM, _LISTENERS, _CONTENT = "platform", "listeners of ", "content of "
_PLATFORM_CHECKS = frozenset(
    {
        _PLATFORM,
        "live calls",
        "lists",
        "keep-alive",
        "lookups",
        "refreshes",
        "full syncs",
        "completeness checks",
    }
)
"""Checks of jobs that need nothing but the platform."""
_TITLES = {
    "accepted deletions": "Pending deletions",
    "archive checks": "File verification",
    "call-back list": "Call-back list",
    "call timers": "Timers",
    "clockwork": "Scheduler",
    "derived tables": "Calls, search index and report totals",
    "content of databases": "Database verification",
    "exports under way": "Running exports",
    "keep-alive": "Phone system session",
    "lookups": "Call record lookups",
    "release of memory": "Memory",
    "schedules of exports": "Export schedules",
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


def list_components(checks: Mapping[str, Any]) -> list[Component]:
    """Return the components of checks of health, those with a problem first."""
    components = [Component(make_title(name), check) for name, check in checks.items()]
    return sorted(components, key=lambda component: not component.has_problem)


def list_problems(
    checks: Mapping[str, Any],
    failing_collections: Collection[str],
    *,
    has_platform_problem: bool,
) -> list[Component]:
    """Return the components with a problem, without those shown otherwise.

    The page lists held deletions with buttons of their own, failing collections, and a platform that is
    unreachable or requested a pause (`has_platform_problem`), which makes every sync fail.
    """
    other_checks = {f"{INCREMENTAL_SYNC_PREFIX}{collection}" for collection in failing_collections}
    other_checks.add(deletions.HEALTH_CHECK)
    remaining = {
        name: check
        for name, check in checks.items()
        if name not in other_checks
        and not (
            has_platform_problem and (name in _PLATFORM_CHECKS or name.startswith(INCREMENTAL_SYNC_PREFIX))
        )
    }
    return [component for component in list_components(remaining) if component.has_problem]


def make_title(name: str) -> str:
    """Return the title of a health check."""
    if name.startswith(INCREMENTAL_SYNC_PREFIX):
        return f"Sync of {get_title(get_resource(name.removeprefix(INCREMENTAL_SYNC_PREFIX)))}"
    if name.startswith(_LISTENERS):
        return f"Database events ({name.removeprefix(_LISTENERS)})"
    if name.endswith(".db") and name.startswith(_CONTENT):
        return f"Content ({name.removeprefix(_CONTENT)})"
    if name.startswith(_PLATFORM):
        return f"Phone system{name.removeprefix(_PLATFORM)}"
    return _TITLES.get(name, name if name.endswith(".db") else name[:1].upper() + name[1:])
