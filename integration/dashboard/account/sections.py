"""Groups of collections on the Account pages."""

from __future__ import annotations

from collections.abc import Mapping

from integration.access.visibility import SECTIONS, Section, Visibility

GROUP_DESCRIPTIONS: Mapping[str, str] = {
    "People": "Who works here, and whom they know",
    "Numbers": "What people dial to reach you",
    "Queues and groups": "Where callers wait, and whose phones ring",
    "Routing": "What happens to a call before somebody answers",
    "History": "Every call, recording and message, as the platform recorded it",
    "Call tracking and widgets": "Calls that your websites and campaigns bring",
    "Dictionaries": "What the codes in records mean, as far as the platform tells",
    "Settings": "The account itself, and what is chosen from elsewhere",
}


def sections_by_group(visibility: Visibility) -> dict[str, list[Section]]:
    """The sections that a person may open, by group in order; without empty groups."""
    groups: dict[str, list[Section]] = {group: [] for group in GROUP_DESCRIPTIONS}
    for section in SECTIONS.values():
        if visibility.can_open(section):
            groups[section.group].append(section)
    return {group: sections for group, sections in groups.items() if sections}
