"""OUR policy for each collection: whether it grows, how it is read, how often. The facts are the catalogue's.

Every collection that a GET without parameters lists stands here: in PLAN, or in NOT_MIRRORED_YET.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.mirror.media import Kind as MediaKind
from integration.settings import Settings

Kind = Literal["grows", "settings", "single", "live"]

SETTINGS_SECONDS = 240.0
"""What the API lists is here within five minutes: lists without a look-back are read whole that often."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How one collection is kept.

    `kind`: 'grows' – new records by look-back every `sync.recent_interval`, all by a walk every
    `sync.full_interval`; 'settings' – all of it every SETTINGS_SECONDS; 'single' – one record at the
    collection's path, as often; 'live' – polled while calls are open.
    `by_key`: read in the order of its key, each page beginning after the last key of the one before; False
    for keys that are text, whose order and comparison on the platform nobody documents.
    `items`: a record's own path answers with more than the list, and is read too.
    """

    collection: str
    kind: Kind
    by_key: bool = True
    items: bool = False

    @property
    def resource(self) -> Resource:
        return resource(self.collection)

    def walk_seconds(self, settings: Settings) -> float:
        """Seconds between complete readings."""
        full = float(settings.sync.full_interval)
        return full if self.kind == "grows" else min(full, SETTINGS_SECONDS)


PLAN: dict[str, Policy] = {
    policy.collection: policy
    for policy in (
        # What people look at first comes first.
        Policy("calls", "live"),
        Policy("me", "single"),
        Policy("users", "settings", items=True),
        Policy("queues", "settings", items=True),
        Policy("ringgroups", "settings", items=True),
        Policy("ddis", "settings", by_key=False),
        Policy("contacts", "settings"),
        Policy("cdrs", "grows"),
        Policy("monitors", "grows"),
        Policy("voicemessages", "grows"),
        Policy("sms", "grows"),
    )
}

NOT_MIRRORED_YET = frozenset(
    {
        "aclroles",
        "callmeback/cdrs",
        "callmeback/settings",
        "callmeback/visitors",
        "callmeback/websites",
        "calllabels",
        "calltracking/campaigns",
        "calltracking/cdrs",
        "calltracking/ddis",
        "cdrs/calltracking",
        "chats",
        "conferences",
        "ddis/calltracking",
        "faxes",
        "ivrs",
        "mediasessions",
        "msdrs",
        "pickupgroups",
        "queuegroups",
        "reportschedules",
        "routingrules",
        "sms/cannedresponses",
        "usergrouppolicies",
        "usergroups",
        "vmannouncements",
        "webcalls",
    }
)


FILES_OF: dict[str, MediaKind] = {"monitors": "recording", "voicemessages": "voicemail"}
"""Collections whose records have a file."""


def growing() -> list[Policy]:
    return [policy for policy in PLAN.values() if policy.kind == "grows"]


def walked() -> list[Policy]:
    """Everything that is read completely from time to time."""
    return [policy for policy in PLAN.values() if policy.kind != "live"]
