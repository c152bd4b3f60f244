"""What is known no longer of numbers that were erased, and the doors that keep it out.

A number is known by a keyed hash of its digits only. Records and webhooks that name it and are dated before
its erasure are stripped before they are stored: what stays is what counts a call – ids, times, durations,
codes, numbers of ours – with `erased` in the place of the number and nothing in the place of names and texts.
What is dated later is another story, and kept whole.
"""

from __future__ import annotations

import hmac
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core import json_records as documents
from integration.core.errors import PlatformBroken
from integration.core.json_records import Document, Raw, as_text, read_object
from integration.core.number_variants import ERASED, Finder
from integration.core.phone_numbers import clid_number
from integration.mirror.sync_state.media_files import Kind, table_of
from integration.sqlite.database import Database

LEGS = "legs"
"""Among the erased records: legs, by number, of which webhooks may come again."""

PERSONS = frozenset({"contacts"})
"""Tables whose record is about the person alone: it goes as a whole."""

OWN = frozenset({"ddis", "users", "me"})
"""Tables whose numbers are ours."""

_NUMBERS = frozenset(
    {
        "src",
        "dst",
        "from",
        "to",
        "from_no",
        "to_no",
        "caller",
        "called",
        "callerid",
        "dialled",
        "number",
        "e164",
        "extension",
        "ext",
        "ddi",
    }
)
_CODES = frozenset(
    {
        "type",
        "disposition",
        "destination",
        "context",
        "state",
        "status",
        "result",
        "direction",
        "event_name",
        "nome_do_evento",
        "t_cause",
        "terminated_by",
    }
)
_ID = re.compile(r"(^|_)(id|ids|seq)$")

Names = Callable[[str], bool]


def is_history(resource: Resource) -> bool:
    """Whether its records tell what happened, rather than how something is set up."""
    return resource.key is None or resource.table in _HISTORY


_HISTORY = frozenset(
    {
        "calls",
        "cdrs",
        "webcalls",
        "mediasessions",
        "msdrs",
        "monitors",
        "voicemessages",
        "sms",
        "faxes",
        "chats",
    }
)


def stripped(document: Document, names: Names) -> Document:
    """The record with what counts, and nothing of the person."""
    values = {name: _kept(name, value, names) for name, value in document.values.items()}
    return Document(as_text(values), values)


def _kept(name: str, value: Any, names: Names) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ERASED if name in _NUMBERS and names(str(value)) else _number(name, value, names)
    if not isinstance(value, str) or isinstance(value, Raw):
        return None
    if names(value):
        return ERASED if name in _NUMBERS else None
    if name == "clid":
        return value if clid_number(value) and not re.search(r"[^\W\d_]", value) else None
    plain = name in _CODES or name in _NUMBERS or (_ID.search(name) and "contact" not in value.casefold())
    return value if plain or clock.parse_stamp(value) is not None else None


def _number(name: str, value: float, names: Names) -> Any:
    return None if not _ID.search(name) and names(str(value)) else value


def without(text: str, finder: Finder[Any]) -> str:
    """Any text without the number: JSON stays JSON, where a string or key that names it is `erased` as a
    whole, and a number null."""
    if text[:1] in ("{", "["):
        try:
            return documents.rewritten(text, finder.names, ERASED, _ID)
        except PlatformBroken:
            pass
    return finder.without(text, ERASED)


def unreadable(body: bytes, finder: Finder[Any]) -> bytes:
    """Bytes that are no JSON object, without the number."""
    return finder.without(body.decode("latin-1"), ERASED).encode("latin-1")


class Erased:
    """The erasures in force. `key` is None where data_dir has lost it: then only what was found at the time
    is known, by its id. Thread-safe: what is added is swapped in whole."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._since: dict[bytes, str] = {}
        self._lengths: set[int] = set()
        self._finder: Finder[str] = Finder((), lambda _digits: None)
        self.records: dict[str, set[Any]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._since)

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def set_key(self, key: bytes) -> None:
        """The first erasure made one."""
        self._key = key

    def digest(self, digits: str) -> bytes:
        """What stands for the digits in house.db. Raises ValueError without a key."""
        if self._key is None:
            raise ValueError("there is no key")
        return hmac.digest(self._key, digits.encode(), "sha256")[:16]

    def add(
        self, at: str, digests: Iterable[bytes], lengths: Iterable[int], records: Iterable[tuple[str, Any]]
    ) -> None:
        """A number erased at `at` (UTC text), and the records that told of it: (table, key)."""
        for table, key in records:
            self.records[table].add(key)
        since = self._since | {digest: max(at, self._since.get(digest, "")) for digest in digests}
        self._since, self._lengths = since, self._lengths.union(lengths)
        if self._key is not None:
            # The numbers of an office repeat.
            look_up = lru_cache(maxsize=50_000)(lambda digits: since.get(self.digest(digits)))
            self._finder = Finder(self._lengths, look_up)

    def _names(self, text: str) -> bool:
        return self._finder.names(text)

    def _told(self, text: str, at: object) -> bool:
        """Whether it names a number that was erased later than `at`, UTC text; None: whenever."""
        return any(not isinstance(at, str) or at <= since for _, _, since in self._finder.find(text))

    # --- doors -------------------------------------------------------------------------------------

    def guard(self, mirror: Database) -> None:
        """From now on let nothing into `mirror` that was erased. Safe to call again."""
        for resource in RESOURCES:
            before = mirror.gates.get(resource.table)
            if not isinstance(before, _Door):
                mirror.gates[resource.table] = _Door(self, resource, before)
        mirror.gates["_below"] = self._below
        mirror.gates["_answers"] = self._answer

    def document(self, resource: Resource, document: Document) -> Document | None:
        """What of a record may be stored."""
        known = document.values.get(resource.key or "") in self.records.get(resource.table, ())
        if not known:
            if resource.key is not None and (resource.date is None or not is_history(resource)):
                # What has no date can only be known by its id: it was entered, or began, since.
                return document
            if not self._told(document.text, document.values.get(resource.date or "")):
                return document
        if resource.table in PERSONS:
            return None
        if is_history(resource):
            return stripped(document, self._names)
        return read_object(without(document.text, self._finder))

    def webhook(self, body: bytes) -> bytes:
        """A webhook's body as it may be stored."""
        if not self:
            return body
        try:
            told = read_object(body.decode("utf-8-sig"))
        except (UnicodeDecodeError, PlatformBroken):
            return unreadable(body, self._finder)
        at = told.values.get("event_time")
        known = self._is_leg(told.values.get("call_id")) or self._told(told.text, at)
        return stripped(told, self._names).text.encode() if known else body

    def file(self, connection: sqlite3.Connection, kind: Kind, record_id: int) -> bool:
        """Whether a file belongs to a record that was erased, or came stripped since."""
        if not self:
            return False
        table = table_of(kind)
        if record_id in self.records.get(table, ()):
            return True
        row = connection.execute(f"SELECT _doc FROM {table} WHERE id = ?", (record_id,)).fetchone()
        return row is not None and f'"{ERASED}"' in row[0]

    def _is_leg(self, leg: object) -> bool:
        digits = str(leg)
        return digits.isascii() and digits.isdigit() and int(digits) in self.records.get(LEGS, ())

    def _below(self, of: tuple[str, Any, str | None]) -> str | None:
        collection, key, doc = of
        table = collection.replace("/", "_")
        return None if doc is None or key in self.records.get(table, ()) else without(doc, self._finder)

    def _answer(self, body: bytes) -> bytes | None:
        return None if self._names(body.decode("utf-8", "replace")) else body


class _Door:
    """Before a table: what was there before first, then ours."""

    def __init__(
        self, erased: Erased, resource: Resource, before: Callable[[Document], Document | None] | None
    ) -> None:
        self._erased, self._resource, self._before = erased, resource, before

    def __call__(self, document: Document) -> Document | None:
        kept = document if self._before is None else self._before(document)
        return None if kept is None else self._erased.document(self._resource, kept)


def dumped(values: Iterable[Any]) -> str:
    """For `json_each(?)`."""
    return json.dumps(list(values))
