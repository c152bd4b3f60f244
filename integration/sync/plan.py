"""OUR policy for each collection: how it is kept, how often it is read, how far back, at what cost. The facts
are the catalogue's.

Every path that a GET without parameters lists has an entry in PLAN, and every path below a record one in
SUBRESOURCES: no collection is kept or left by accident.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror.sync_state.media_files import MediaKind
from integration.settings.model import Settings

SyncKind = Literal["grows", "settings", "single", "live", "dictionary"]

LIST_REFRESH_SECONDS = 240.0
"""What the API lists is here within five minutes: lists without a look-back are read whole that often."""

DICTIONARY_REFRESH_SECONDS = 3600.0
"""Words for codes are the platform's own and change with its releases."""

KEYLESS_ROWS_PER_INTERVAL = 20_000
"""A collection without keys can only be read and stored whole: beyond so many records so much more rarely."""

HOUR, DAY = 3600.0, 86400.0
OLD_RECORD_DAYS = 35
"""Records dated earlier change rarely, and they are many."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How one collection is kept.

    `kind`: 'grows' – new records by look-backs, all by a walk every `sync.full_interval`; 'settings' – all of
    it every LIST_REFRESH_SECONDS; 'single' – one record at the collection's path, as often; 'live' – polled
    while calls are open, else as often as settings; 'dictionary' – whatever its path answers, every
    DICTIONARY_REFRESH_SECONDS. `reads_by_key`: read in the order of its key, each page beginning after the
    last key of the one before; False for keys that are text, whose order and comparison on the platform
    nobody documents, and without keys. `interval_factor`: look-backs come every so many
    `sync.recent_interval`s. `refresh`: (seconds, days): so often what is dated within so many days is read
    again, since nothing tells when a transcript, a folder or a note was added. None: such records don't
    change. `item_key`: the property that names the record in its own path, where that answers with more than
    the list; read when a record is new or changed, and for all every `sync.full_interval`.
    """

    collection: str
    kind: SyncKind
    reads_by_key: bool = True
    interval_factor: int = 1
    refresh: tuple[float, int] | None = None
    item_key: str | None = None

    @property
    def resource(self) -> Resource:
        return get_resource(self.collection)

    @property
    def reads_items(self) -> bool:
        """Whether records are read by their own paths, too."""
        return self.item_key is not None

    @property
    def is_history(self) -> bool:
        """History stays visible when the platform has it no longer; settings are hidden."""
        return self.resource.history

    def full_sync_seconds(self, settings: Settings, record_count: int = 0) -> float:
        """Seconds between complete readings of so many `record_count`."""
        full_interval = float(settings.sync.full_interval)
        if self.kind == "grows":
            return full_interval
        if self.kind == "dictionary":
            return min(full_interval, DICTIONARY_REFRESH_SECONDS)
        factor = (
            max(1, math.ceil(record_count / KEYLESS_ROWS_PER_INTERVAL)) if self.resource.key is None else 1
        )
        return min(full_interval, LIST_REFRESH_SECONDS * factor)

    def incremental_sync_seconds(self, settings: Settings) -> float:
        """Seconds between look-backs: never more than LIST_REFRESH_SECONDS unless the settings say so."""
        recent_interval = float(settings.sync.recent_interval)
        return max(recent_interval, min(LIST_REFRESH_SECONDS, self.interval_factor * recent_interval))


PLAN: dict[str, Policy] = {
    policy.collection: policy
    for policy in (
        # What people look at first comes first.
        Policy("calls", "live"),
        Policy("me", "single"),
        Policy("users", "settings", item_key="id"),
        Policy("queues", "settings", item_key="id"),
        Policy("ringgroups", "settings", item_key="id"),
        Policy("ddis", "settings", reads_by_key=False, item_key="e164"),
        Policy("contacts", "settings"),
        # One that comes late, behind higher ids, is attached within a quarter of an hour.
        Policy("cdrs", "grows", refresh=(HOUR / 5, 2)),
        Policy("monitors", "grows", refresh=(HOUR / 5, 2)),
        Policy("voicemessages", "grows", refresh=(HOUR / 4, 7)),
        Policy("sms", "grows", refresh=(HOUR, 2)),
        Policy("faxes", "grows", interval_factor=3, refresh=(HOUR, 2)),
        Policy("chats", "grows", interval_factor=3, refresh=(HOUR, 2)),
        Policy("webcalls", "grows", interval_factor=3, refresh=(HOUR, 2)),
        Policy("mediasessions", "grows", interval_factor=3, refresh=(HOUR, 2)),
        Policy("msdrs", "grows", interval_factor=3),
        Policy("ivrs", "settings"),
        Policy("routingrules", "settings"),
        Policy("conferences", "settings"),
        Policy("pickupgroups", "settings"),
        Policy("queuegroups", "settings"),
        Policy("usergroups", "settings"),
        Policy("usergrouppolicies", "settings"),
        Policy("aclroles", "settings"),
        Policy("vmannouncements", "settings"),
        Policy("calllabels", "settings"),
        Policy("sms/cannedresponses", "settings"),
        Policy("reportschedules", "settings"),
        Policy("callmeback/settings", "settings"),
        Policy("calltracking/campaigns", "settings"),
        Policy("callmeback/websites", "settings", reads_by_key=False),
        Policy("callmeback/visitors", "settings", reads_by_key=False),
        Policy("callmeback/cdrs", "settings", reads_by_key=False),
        Policy("calltracking/ddis", "settings", reads_by_key=False),
        Policy("calltracking/cdrs", "settings", reads_by_key=False),
        Policy("cdrs/calltracking", "settings", reads_by_key=False),
        Policy("ddis/calltracking", "settings", reads_by_key=False),
        Policy("cdrs/dictionaries", "dictionary", reads_by_key=False),
        Policy("sms/dictionaries", "dictionary", reads_by_key=False),
        Policy("ddis/dictionaries", "dictionary", reads_by_key=False),
        Policy("ringgroups/dictionaries", "dictionary", reads_by_key=False),
        Policy("msdrs/dictionaries", "dictionary", reads_by_key=False),
        Policy("mediasessions/dictionaries", "dictionary", reads_by_key=False),
        Policy("reportschedules/dictionaries", "dictionary", reads_by_key=False),
    )
}


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below each record of a collection, such as '/cdrs/{id}/notes'.

    `interval_seconds`: so often it is read for every present record, `old_interval_seconds` for those dated
    OLD_RECORD_DAYS ago or earlier; None: it is not kept, and `exclusion_reason` says why not. `count_field`
    is a property that must be above 0 for a record to have any; only the records it is true of are read.
    """

    path: str
    collection: str
    interval_seconds: float | None = None
    old_interval_seconds: float = 30 * DAY
    count_field: str | None = None
    exclusion_reason: str = ""

    @property
    def name(self) -> str:
        """'notes' of '/cdrs/{id}/notes'."""
        return self.path.rpartition("}/")[2]


SUBRESOURCES: dict[str, Subresource] = {
    below.path: below
    for below in (
        Subresource("/cdrs/{id}/notes", "cdrs", interval_seconds=DAY, count_field="nb_notes"),
        Subresource("/users/{id}/chatmsgs", "users", interval_seconds=HOUR),
        Subresource("/users/{id}/audio", "users", interval_seconds=DAY),
        Subresource("/users/{id}/contacts", "users", exclusion_reason="the same contacts as /contacts lists"),
        Subresource("/users/{id}/cdrs", "users", exclusion_reason="the same CDRs as /cdrs lists"),
        Subresource("/users/{id}/calls", "users", exclusion_reason="the same live calls as /calls lists"),
        Subresource("/contacts/{id}/cdrs", "contacts", exclusion_reason="the same CDRs as /cdrs lists"),
        Subresource(
            "/calls/{id}/trace",
            "calls",
            exclusion_reason="asked for while a call lasts; /cdrs/{id}.trace stays",
        ),
        Subresource(
            "/calls/{id}/monitors", "calls", exclusion_reason="the same recordings as /monitors lists"
        ),
        Subresource(
            "/users/{id}/smsthreads/{from}/{to}", "users", exclusion_reason="made of the SMS that /sms lists"
        ),
        Subresource(
            "/users/{id}/sms/threads/{from}/{to}", "users", exclusion_reason="made of the SMS that /sms lists"
        ),
    )
}


FILES_OF: dict[str, MediaKind] = {"monitors": "recording", "voicemessages": "voicemail", "faxes": "fax"}
"""Collections whose records have a file."""


def is_due(last_at: str | None, interval_seconds: float, now: datetime | None = None) -> bool:
    """Whether a run at `last_at` (UTC text) is at least `interval_seconds` ago."""
    now = now or clock.now()
    # A time in the future was written by a clock that was ahead.
    return last_at is None or not (
        clock.utc_text(now - timedelta(seconds=interval_seconds)) < last_at <= clock.utc_text(now)
    )


def list_history_policies() -> list[Policy]:
    return [policy for policy in PLAN.values() if policy.kind == "grows"]


def list_full_sync_policies() -> list[Policy]:
    """Everything that is read completely from time to time."""
    return [policy for policy in PLAN.values() if policy.kind != "live"]
