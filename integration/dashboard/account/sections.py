"""Group and title of each collection on the Account pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from integration.access.visibility import Visibility
from integration.catalogue import RESOURCES, get_resource
from integration.catalogue.collection_titles import get_title
from integration.catalogue.field_labels import DESTINATION_TYPES
from integration.catalogue.shapes import Resource

GROUPS = (
    "People",
    "Numbers",
    "Queues and groups",
    "Routing",
    "History",
    "Call tracking and widgets",
    "Code lists",
    "Settings",
)
"""In the order of the overview."""

_COLLECTIONS: Mapping[str, tuple[str, ...]] = {
    "People": ("users", "contacts", "usergroups", "pickupgroups", "aclroles", "usergrouppolicies"),
    "Numbers": ("ddis", "ddis/calltracking", "conferences"),
    "Queues and groups": ("queues", "ringgroups", "queuegroups"),
    "Routing": ("routingrules", "ivrs", "vmannouncements"),
    "History": (
        "cdrs", "calls", "monitors", "voicemessages", "sms", "faxes", "chats", "webcalls", "mediasessions",
        "msdrs",
    ),
    "Call tracking and widgets": (
        "calltracking/campaigns", "calltracking/ddis", "calltracking/cdrs", "cdrs/calltracking",
        "callmeback/settings", "callmeback/websites", "callmeback/visitors", "callmeback/cdrs",
    ),
    "Settings": ("me", "calllabels", "sms/cannedresponses", "reportschedules"),
}  # fmt: skip
"""By group, in order. Collections that are not listed are under Code lists or Settings."""


@dataclass(frozen=True, slots=True)
class Section:
    """One collection on the Account pages."""

    resource: Resource
    group: str

    @property
    def collection(self) -> str:
        return self.resource.collection

    @property
    def title(self) -> str:
        return get_title(self.resource)

    @property
    def path(self) -> str:
        return f"/account/{self.collection}"

    @property
    def destination_codes(self) -> list[str]:
        """Codes of this collection as the destination of a number."""
        return [code for code, (name, _) in DESTINATION_TYPES.items() if name == self.collection]


def _build_sections() -> dict[str, Section]:
    resources = {row.collection: row for row in RESOURCES if row.is_listed}
    groups = {collection: group for group, names in _COLLECTIONS.items() for collection in names}
    for collection in resources:
        is_dictionary = collection.endswith("/dictionaries")
        groups.setdefault(collection, "Code lists" if is_dictionary else "Settings")
    return {
        collection: Section(resources[collection], group)
        for collection, group in groups.items()
        if collection in resources
    }


SECTIONS: Mapping[str, Section] = _build_sections()
"""By collection, in the order of the overview."""


FORM_SECTIONS: Mapping[str, Section] = {
    "callmeback/buttons": Section(get_resource("callmeback/buttons"), "Call tracking and widgets"),
    "chatmsgs": Section(
        Resource("chat_message", "chatmsgs", "Chat message", (), key=None, item=False, is_listed=False),
        "History",
    ),
}
"""Collections that have forms, but no list: the platform does not list them."""


def sections_by_group(visibility: Visibility) -> dict[str, list[Section]]:
    """Return the sections that a viewer can open, by group.

    Empty groups are omitted.
    """
    groups: dict[str, list[Section]] = {group: [] for group in GROUPS}
    for section in SECTIONS.values():
        if visibility.can_open(section.resource):
            groups[section.group].append(section)
    return {group: sections for group, sections in groups.items() if sections}
