"""Sync policy of each collection: how and how often it is read.

The catalogue has the properties of the platform; the policies are decisions of this product. Each path that a
GET without parameters lists has an entry in PLAN, so that no collection is omitted by accident.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror.sync_state.collection_state import State
from integration.mirror.sync_state.media_files import MediaKind
from integration.settings.model import Settings

SyncKind = Literal["grows", "settings", "single", "live", "dictionary"]

WEBHOOK_SILENCE_SECONDS = 3600.0
"""Seconds within which calls without webhooks mean that webhooks are silent."""
LIST_REFRESH_SECONDS = 240.0
"""Seconds between full syncs of lists without an incremental sync.

Every change on the platform is mirrored within five minutes.
"""

DICTIONARY_REFRESH_SECONDS = 3600.0
"""Seconds between reads of dictionaries.

Their texts change only with releases of the platform.
"""

KEYLESS_ROWS_PER_INTERVAL = 20_000
"""Records of a collection without keys above which its interval grows.

Such a collection is read and stored completely each time. Each further 20,000 records add one
LIST_REFRESH_SECONDS to the interval.
"""

HOUR, DAY = 3600.0, 86400.0
"""Seconds of an hour and of a day."""
OLD_RECORD_DAYS = 35
"""Age in days above which records count as old.

Old records change rarely and are many.
"""
LONG_REFRESH_SECONDS = 0.75 * HOUR
"""Seconds between two refreshes of the last OLD_RECORD_DAYS."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Sync policy of one collection.

    kind:
        'grows': new records by incremental syncs, all records by a full sync every `sync.full_interval`.
        'settings': a full sync every LIST_REFRESH_SECONDS.
        'single': one record at the collection's path, read every LIST_REFRESH_SECONDS.
        'live': polled while calls are open or webhooks are silent, otherwise every LIST_REFRESH_SECONDS.
        'dictionary': the response of its path, of any form, read every DICTIONARY_REFRESH_SECONDS.
    reads_by_key:
        Read in the order of the key; each page begins after the last key of the previous page. False for
        collections without keys, and for text keys, whose order and comparison on the platform are not
        documented.
    interval_factor:
        Interval of incremental syncs as a multiple of `sync.recent_interval`.
    refresh:
        (seconds, days): every `seconds` the records dated within `days` are read again, because the platform
        does not report when a transcript, a folder or a note is added. Every LONG_REFRESH_SECONDS those of
        OLD_RECORD_DAYS are. None: records do not change.
    item_key:
        Property that identifies a record in its own path, if that path returns more fields than the list. The
        path is read when a record is new or changed, and for all records every `sync.full_interval`.
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
        """True if records are also read by their own paths."""
        return self.item_key is not None

    @property
    def is_history(self) -> bool:
        """True if missing records stay visible; missing settings are hidden."""
        return self.resource.history

    def full_sync_seconds(self, settings: Settings, record_count: int = 0) -> float:
        """Return the seconds between full syncs of a collection with `record_count` records."""
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
        """Return the seconds between incremental syncs.

        At most LIST_REFRESH_SECONDS, or `sync.recent_interval` if that is longer.
        """
        recent_interval = float(settings.sync.recent_interval)
        return max(recent_interval, min(LIST_REFRESH_SECONDS, self.interval_factor * recent_interval))


PLAN: dict[str, Policy] = {
    policy.collection: policy
    for policy in (
        # Syncs run in this order: the collections that users open first come first.
        Policy("calls", "live"),
        Policy("me", "single"),
        Policy("users", "settings", item_key="id"),
        Policy("queues", "settings", item_key="id"),
        Policy("ringgroups", "settings", item_key="id"),
        Policy("ddis", "settings", reads_by_key=False, item_key="e164"),
        Policy("contacts", "settings"),
        # Below 15 minutes: the refresh finds records that are listed late, with ids below the mark.
        Policy("cdrs", "grows", refresh=(HOUR / 5, 2)),
        Policy("monitors", "grows", refresh=(HOUR / 5, 2)),
        Policy("voicemessages", "grows", refresh=(HOUR / 4, 7)),
        Policy("sms", "grows", refresh=(HOUR / 2, 2)),
        Policy("faxes", "grows", interval_factor=3, refresh=(HOUR / 2, 2)),
        Policy("chats", "grows", interval_factor=3, refresh=(HOUR / 2, 2)),
        Policy("webcalls", "grows", interval_factor=3, refresh=(HOUR / 2, 2)),
        Policy("mediasessions", "grows", interval_factor=3, refresh=(HOUR / 2, 2)),
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
    """Mirrored path below each record of a collection, such as '/cdrs/{id}/notes'.

    `interval_seconds` is the interval of reads for each present record, `old_interval_seconds` that for
    records dated OLD_RECORD_DAYS ago or earlier. `count_field` is a property that is above 0 if the record
    has subresources; only such records are read.
    """

    path: str
    collection: str
    interval_seconds: float
    old_interval_seconds: float = 30 * DAY
    count_field: str | None = None

    @property
    def name(self) -> str:
        """Last part of the path: 'notes' of '/cdrs/{id}/notes'."""
        return self.path.rpartition("}/")[2]


SUBRESOURCES: dict[str, Subresource] = {
    subresource.path: subresource
    for subresource in (
        Subresource("/cdrs/{id}/notes", "cdrs", DAY, count_field="nb_notes"),
        Subresource("/users/{id}/chatmsgs", "users", HOUR),
        Subresource("/users/{id}/audio", "users", DAY),
    )
}
"""The other paths below a record return records of mirrored lists, or exist only during a call."""


NAME_COLLECTIONS = ("users", "queues", "ringgroups", "ddis", "contacts")
"""Collections with the names of pages. They are small, and are read before the histories."""

FILES_OF: dict[str, MediaKind] = {"monitors": "recording", "voicemessages": "voicemail", "faxes": "fax"}
"""Collections whose records have a file, with the kind of the file."""


def is_due(last_at: str | None, interval_seconds: float, now: datetime | None = None) -> bool:
    """Return whether the last run is at least `interval_seconds` ago.

    `last_at` is UTC text, or None without a run.
    """
    now = now or clock.now()
    # A time in the future was stored while the clock was ahead, so the work is due.
    return last_at is None or not (
        clock.utc_text(now - timedelta(seconds=interval_seconds)) < last_at <= clock.utc_text(now)
    )


def has_read_names(states: Iterable[State]) -> bool:
    """Return whether each of NAME_COLLECTIONS was read once, or at least requested without success."""
    return {state.collection for state in states if not state.awaits_first_sync}.issuperset(NAME_COLLECTIONS)


def list_history_policies() -> list[Policy]:
    return [policy for policy in PLAN.values() if policy.kind == "grows"]


def list_full_sync_policies() -> list[Policy]:
    """List the policies of collections that get full syncs."""
    return [policy for policy in PLAN.values() if policy.kind != "live"]
