"""OUR policy for each collection: how it is kept, how often it is read, how far back, at what cost. The facts
are the catalogue's.

Every path that a GET without parameters lists has an entry in PLAN, and every path below a record one in
BELOW: no collection is kept or left by accident.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.mirror.sync_state.media_files import Kind as MediaKind
from integration.settings.model import Settings

Kind = Literal["grows", "settings", "single", "live", "dictionary"]

SETTINGS_SECONDS = 240.0
"""What the API lists is here within five minutes: lists without a look-back are read whole that often."""

DICTIONARY_SECONDS = 3600.0
"""Words for codes are the platform's own and change with its releases."""

RAW_ROWS = 20_000
"""A collection without keys can only be read and stored whole: beyond so many records so much more rarely."""

HOUR, DAY = 3600.0, 86400.0
OLD_DAYS = 35
"""Records dated earlier change rarely, and they are many."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How one collection is kept.

    `kind`: 'grows' – new records by look-backs, all by a walk every `sync.full_interval`; 'settings' – all of
    it every SETTINGS_SECONDS; 'single' – one record at the collection's path, as often; 'live' – polled while
    calls are open, else as often as settings; 'dictionary' – whatever its path answers, every
    DICTIONARY_SECONDS.
    `by_key`: read in the order of its key, each page beginning after the last key of the one before; False
    for keys that are text, whose order and comparison on the platform nobody documents, and without keys.
    `pace`: look-backs come every so many `sync.recent_interval`s.
    `reread`: (seconds, days): so often what is dated within so many days is read again, since nothing tells
    when a transcript, a folder or a note was added. None: such records don't change.
    `own_form`: the property that names the record in its own path, where that answers with more than the
    list; read when a record is new or changed, and for all every `sync.full_interval`.
    """

    collection: str
    kind: Kind
    by_key: bool = True
    pace: int = 1
    reread: tuple[float, int] | None = None
    own_form: str | None = None

    @property
    def resource(self) -> Resource:
        return resource(self.collection)

    @property
    def items(self) -> bool:
        """Whether records are read by their own paths, too."""
        return self.own_form is not None

    @property
    def history(self) -> bool:
        """History stays visible when the platform has it no longer; settings are hidden."""
        return self.kind == "grows"

    def walk_seconds(self, settings: Settings, records: int = 0) -> float:
        """Seconds between complete readings of so many `records`."""
        full = float(settings.sync.full_interval)
        if self.kind == "grows":
            return full
        if self.kind == "dictionary":
            return min(full, DICTIONARY_SECONDS)
        times = max(1, math.ceil(records / RAW_ROWS)) if self.resource.key is None else 1
        return min(full, SETTINGS_SECONDS * times)

    def look_back_seconds(self, settings: Settings) -> float:
        """Seconds between look-backs: never more than SETTINGS_SECONDS unless the settings say so."""
        recent = float(settings.sync.recent_interval)
        return max(recent, min(SETTINGS_SECONDS, self.pace * recent))


PLAN: dict[str, Policy] = {
    policy.collection: policy
    for policy in (
        # What people look at first comes first.
        Policy("calls", "live"),
        Policy("me", "single"),
        Policy("users", "settings", own_form="id"),
        Policy("queues", "settings", own_form="id"),
        Policy("ringgroups", "settings", own_form="id"),
        Policy("ddis", "settings", by_key=False, own_form="e164"),
        Policy("contacts", "settings"),
        # One that comes late, behind higher ids, is attached within a quarter of an hour.
        Policy("cdrs", "grows", reread=(HOUR / 5, 2)),
        Policy("monitors", "grows", reread=(HOUR / 5, 2)),
        Policy("voicemessages", "grows", reread=(HOUR / 4, 7)),
        Policy("sms", "grows", reread=(HOUR, 2)),
        Policy("faxes", "grows", pace=3, reread=(HOUR, 2)),
        Policy("chats", "grows", pace=3, reread=(HOUR, 2)),
        Policy("webcalls", "grows", pace=3, reread=(HOUR, 2)),
        Policy("mediasessions", "grows", pace=3, reread=(HOUR, 2)),
        Policy("msdrs", "grows", pace=3),
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
        Policy("callmeback/websites", "settings", by_key=False),
        Policy("callmeback/visitors", "settings", by_key=False),
        Policy("callmeback/cdrs", "settings", by_key=False),
        Policy("calltracking/ddis", "settings", by_key=False),
        Policy("calltracking/cdrs", "settings", by_key=False),
        Policy("cdrs/calltracking", "settings", by_key=False),
        Policy("ddis/calltracking", "settings", by_key=False),
        Policy("cdrs/dictionaries", "dictionary", by_key=False),
        Policy("sms/dictionaries", "dictionary", by_key=False),
        Policy("ddis/dictionaries", "dictionary", by_key=False),
        Policy("ringgroups/dictionaries", "dictionary", by_key=False),
        Policy("msdrs/dictionaries", "dictionary", by_key=False),
        Policy("mediasessions/dictionaries", "dictionary", by_key=False),
        Policy("reportschedules/dictionaries", "dictionary", by_key=False),
    )
}


@dataclass(frozen=True, slots=True)
class Below:
    """A path below each record of a collection, such as '/cdrs/{id}/notes'.

    `seconds`: so often it is read for every present record, `old_seconds` for those dated OLD_DAYS ago or
    earlier; None: it is not kept, and `why` not. `where` is a property that must be above 0 for a record to
    have any; only the records it is true of are read.
    """

    path: str
    collection: str
    seconds: float | None = None
    old_seconds: float = 30 * DAY
    where: str | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """'notes' of '/cdrs/{id}/notes'."""
        return self.path.rpartition("}/")[2]


BELOW: dict[str, Below] = {
    below.path: below
    for below in (
        Below("/cdrs/{id}/notes", "cdrs", seconds=DAY, where="nb_notes"),
        Below("/users/{id}/chatmsgs", "users", seconds=HOUR),
        Below("/users/{id}/audio", "users", seconds=DAY),
        Below("/users/{id}/contacts", "users", why="the same contacts as /contacts lists"),
        Below("/users/{id}/cdrs", "users", why="the same CDRs as /cdrs lists"),
        Below("/users/{id}/calls", "users", why="the same live calls as /calls lists"),
        Below("/contacts/{id}/cdrs", "contacts", why="the same CDRs as /cdrs lists"),
        Below("/calls/{id}/trace", "calls", why="asked for while a call lasts; /cdrs/{id}.trace stays"),
        Below("/calls/{id}/monitors", "calls", why="the same recordings as /monitors lists"),
        Below("/users/{id}/smsthreads/{from}/{to}", "users", why="made of the SMS that /sms lists"),
        Below("/users/{id}/sms/threads/{from}/{to}", "users", why="made of the SMS that /sms lists"),
    )
}


FILES_OF: dict[str, MediaKind] = {"monitors": "recording", "voicemessages": "voicemail", "faxes": "fax"}
"""Collections whose records have a file."""


def growing() -> list[Policy]:
    return [policy for policy in PLAN.values() if policy.kind == "grows"]


def walked() -> list[Policy]:
    """Everything that is read completely from time to time."""
    return [policy for policy in PLAN.values() if policy.kind != "live"]
