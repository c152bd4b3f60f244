"""Read the facts of legs and the directory from mirror.db.

Collection tables store values as received (mirror/schema.py). Values of another type are converted if
possible ('4278000101' for a number, a number for text); otherwise they are read as None.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from math import isfinite

import orjson

from integration.core.ids import as_id, id_list
from integration.core.phone_numbers import PhoneNumbers
from integration.core.timestamps import parse_seconds
from integration.mirror.calls.directory import Directory, Group, Person
from integration.mirror.calls.facts import (
    EARLIEST_SECONDS,
    CallEvent,
    Cdr,
    LegFacts,
    ReceivedEvent,
    Recording,
    Sighting,
    Voicemail,
)
from integration.mirror.calls.legs import Leg

EVENT_FIELDS = tuple(field.name for field in fields(CallEvent))
EVENT_COLUMNS = ", ".join("at" if name == "event_time" else name for name in EVENT_FIELDS)
"""Columns of `_leg_events` in the order of the fields of `CallEvent`."""
_FINAL_INDEX = EVENT_FIELDS.index("final")
CDR_COLUMNS = (
    "id", "live_id", "parent_live_id", "root_live_id", "user_id", "type", "calldate", "clid", "src_id",
    "src_name", "src", "dst_id", "dst", "dst_name", "duration", "billsec", "disposition", "destination",
    "context", "charge", "t_cause", "_first_seen",
)  # fmt: skip
"""Columns of `cdrs` in the order of the fields of `Cdr`."""
_CDR_INTEGERS, _CDR_TEXTS = slice(0, 5), slice(7, 14)
"""Positions of columns with integers, and of columns with texts, in CDR_COLUMNS."""
DIRECTORY_COLUMNS = {
    "conferences": ("confno",),
    "ddis": ("e164", "name"),
    "ivrs": ("number",),
    "queues": ("number", "name", "ring_time", "retry"),
    "ringgroups": ("number", "name", "ring_time"),
    "users": ("ext", "first_name", "last_name"),
}
"""Columns of the directory by table, besides `id`."""


def parse_int(value: object) -> int | None:
    """Return `as_id` of a field, ignoring white space around digits."""
    return as_id(value.strip() if isinstance(value, str) else value)


def parse_text(value: object) -> str | None:
    """Return a scalar as text; None for null and ''.

    Lone surrogates are replaced, because SQLite cannot store them.
    """
    if value is None:
        return None
    string = value if isinstance(value, str) else str(value)
    if not string:
        return None
    return string if string.isascii() else string.encode("utf-8", "replace").decode()


def parse_duration(value: object) -> int:
    """Return a duration in seconds; 0 for values outside 0 to 10^9."""
    duration = value if value.__class__ is int else parse_int(value) or 0
    return duration if 0 <= duration < 10**9 else 0


def parse_number(value: object) -> float | None:
    """Return a finite number, also from text (docs/platform.md#4-types, charge)."""
    if value is None or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if isfinite(parsed) else None


def _list_as_stored(connection: sqlite3.Connection, table: str, columns: str, ids: Sequence[int]) -> str:
    """Return `id_list` of ids of legs as `columns` have them: the platform writes numbers, text is accepted.

    To look up the texts as well took 4 % of the time of an initial sync.
    """
    has_text = any(
        connection.execute(f"SELECT 1 FROM {table} WHERE {column} >= '' LIMIT 1").fetchone()
        for column in columns.split(", ")
    )
    return id_list([*ids, *map(str, ids)] if has_text else ids)


def load_facts(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> dict[int, LegFacts]:
    """Read all facts of the legs `leg_ids`.

    Legs without facts get an empty entry.
    """
    facts_by_leg = {id_: LegFacts(id_) for id_ in leg_ids}
    ids_list = id_list(leg_ids)
    for row in connection.execute(
        f"SELECT received_at, {EVENT_COLUMNS} FROM _leg_events"
        " WHERE leg_id IN (SELECT value FROM json_each(?))",
        (ids_list,),
    ):
        received_at, *values = tuple(row)
        if values[_FINAL_INDEX] is not None:
            values[_FINAL_INDEX] = bool(values[_FINAL_INDEX])
        event = CallEvent(*values)
        facts_by_leg[event.leg_id or 0].events.append(ReceivedEvent(event, received_at))
    for leg_id, seen_at, doc, missing_at, gone_at in connection.execute(
        "SELECT leg_id, seen_at, doc, missing_at, gone_at FROM _leg_live"
        " WHERE leg_id IN (SELECT value FROM json_each(?))",
        (ids_list,),
    ):
        leg = facts_by_leg[leg_id]
        leg.missing_at, leg.not_found_at = missing_at, gone_at
        if seen_at is not None:
            leg.sighting = make_sighting(seen_at, _parse_record(doc))
    for cdr in _load_cdrs(connection, leg_ids):
        facts_by_leg[cdr.live_id].cdrs.append(cdr)
    for message in _load_messages(connection, leg_ids):
        for leg_id in {message.leg_id or 0, message.parent_id or 0} & facts_by_leg.keys():
            facts_by_leg[leg_id].voicemails.append(message)
    for recording in _load_recordings(connection, leg_ids):
        facts_by_leg[recording.leg_id].recordings.append(recording)
    return facts_by_leg


def add_messages_of_absent_legs(connection: sqlite3.Connection, legs: Sequence[Leg]) -> None:
    """Add the voicemail messages that name the root or parent of `legs`.

    Only roots and parents without facts of their own: others have the message themselves.
    """
    names_by_leg = {leg.id: {leg.root_id or 0, leg.parent_id or 0} for leg in legs}
    names = set().union(*names_by_leg.values()) - names_by_leg.keys() - {0}
    # Few have a message. Only then their other facts are read.
    if not names or not _load_messages(connection, list(names)):
        return
    facts_by_name = load_facts(connection, list(names))
    absent_ids = {id_ for id_, facts in facts_by_name.items() if facts.is_empty}
    for leg in legs:
        for id_ in names_by_leg[leg.id] & absent_ids:
            leg.voicemails |= {message.id for message in facts_by_name[id_].voicemails}


def _load_messages(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[Voicemail]:
    """Read the messages that name legs."""
    rows = connection.execute(
        "SELECT id, live_id, parent_live_id FROM voicemessages"
        " WHERE live_id IN (SELECT value FROM json_each(?1))"
        " UNION SELECT id, live_id, parent_live_id FROM voicemessages"
        " WHERE parent_live_id IN (SELECT value FROM json_each(?1))",
        (_list_as_stored(connection, "voicemessages", "live_id, parent_live_id", leg_ids),),
    )
    return [Voicemail(id_, parse_int(live_id), parse_int(parent)) for id_, live_id, parent in rows]


def _load_cdrs(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[Cdr]:
    """Read the CDRs of legs."""
    rows = connection.execute(
        f"SELECT {', '.join(CDR_COLUMNS)} FROM cdrs WHERE live_id IN (SELECT value FROM json_each(?))",
        (_list_as_stored(connection, "cdrs", "live_id", leg_ids),),
    )
    return [_make_cdr(row) for row in rows]


def _load_recordings(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[Recording]:
    """Read the recordings of legs."""
    rows = connection.execute(
        "SELECT id, live_id, user_id FROM monitors WHERE live_id IN (SELECT value FROM json_each(?))",
        (_list_as_stored(connection, "monitors", "live_id", leg_ids),),
    )
    return [Recording(id_, parse_int(live_id) or 0, parse_int(user_id)) for id_, live_id, user_id in rows]


def _parse_record(doc: str) -> dict[str, object]:
    try:
        record = orjson.loads(doc)
    except orjson.JSONDecodeError:
        # orjson rejects lone surrogates and numbers beyond 64 bits, which are stored as received
        # (core/json_records.py).
        record = json.loads(doc)
    return record if isinstance(record, dict) else {}


def _make_cdr(row: Sequence[object]) -> Cdr:
    """Convert a row with CDR_COLUMNS.

    Values of the usual types are converted here and not by a function of their own, because this runs for
    each of a million records. A damaged text is read with lone surrogates.
    """
    numbers = [
        value if value.__class__ is int or value is None else parse_int(value) for value in row[_CDR_INTEGERS]
    ]
    texts = [
        value if value.__class__ is str and value and value.isascii() else parse_text(value)
        for value in row[_CDR_TEXTS]
    ]
    clid, src_id, src_name, src, dst_id, dst, dst_name = texts
    id_, leg_id, parent, root, user_id = numbers
    kind, calldate = row[5], row[6]
    duration, billsec, disposition, destination, context, charge, cause, received_at = row[14:]
    return Cdr(
        id_ or 0, leg_id or 0, parent or None, root or None, user_id or None, parse_text(kind),
        _parse_calldate(calldate), clid, src_id, src_name, src, dst_id, dst, dst_name,
        parse_duration(duration), parse_duration(billsec), parse_text(disposition), parse_text(destination),
        parse_text(context), parse_number(charge), parse_text(cause), _parse_receipt(received_at),
    )  # fmt: skip


def _parse_calldate(value: object) -> int | None:
    """Return Unix seconds of a time, or of Unix seconds as a number or text of ten digits."""
    seconds = parse_seconds(value)
    if seconds is None:
        number = parse_int(value) or 0
        return number if EARLIEST_SECONDS <= number < 10 * EARLIEST_SECONDS else None
    return seconds


_parse_receipt = lru_cache(maxsize=64)(parse_seconds)
"""`parse_seconds` for times that many rows share."""


_SIGHTING_TEXTS = (
    "state", "context", "destination", "src", "src_id", "src_name", "dst", "dst_id", "dst_name", "clid",
)  # fmt: skip


def make_sighting(seen_at: int, record: dict[str, object]) -> Sighting:
    """Convert a record of `/calls` (specification, Live call).

    `seen_at` is the time of the poll. The times of the result are Unix seconds.
    """
    return Sighting(
        seen_at=seen_at,
        started=_parse_unix_seconds(record.get("start_time")),
        connected_at=_parse_unix_seconds(record.get("connected_at")),
        parent_id=parse_int(record.get("parent_id")) or None,
        # The specification lists this number among prices. Only a time shows a connection.
        dst_connection=(parse_number(record.get("dst_connection")) or 0) > EARLIEST_SECONDS,
        **{name: parse_text(record.get(name)) for name in _SIGHTING_TEXTS},
    )


def _parse_unix_seconds(value: object) -> int | None:
    seconds = parse_int(value) or parse_seconds(value)
    return seconds if seconds is not None and seconds >= EARLIEST_SECONDS else None


Rows = Mapping[str, list[sqlite3.Row]]
"""Rows of the tables of DIRECTORY_COLUMNS: the id and these columns."""


def load_directory(connection: sqlite3.Connection, phone_numbers: PhoneNumbers) -> Directory:
    """Read the users, groups, machine numbers and DDIs of the account.

    Includes records that are missing on the platform, because past calls refer to them.
    """
    return _build_directory(_read_directory(connection), phone_numbers)


def _read_directory(connection: sqlite3.Connection) -> Rows:
    return {
        table: connection.execute(f"SELECT id, {', '.join(columns)} FROM {table}").fetchall()
        for table, columns in DIRECTORY_COLUMNS.items()
    }


def _build_directory(rows: Rows, phone_numbers: PhoneNumbers) -> Directory:
    people = [
        Person(id_, parse_text(ext), " ".join(filter(None, (parse_text(first), parse_text(last)))))
        for id_, ext, first, last in rows["users"]
    ]
    groups = [
        Group("ringgroup", id_, parse_text(number), parse_text(name) or "", parse_int(ring))
        for id_, number, name, ring in rows["ringgroups"]
    ]
    groups += [
        Group("queue", id_, parse_text(number), parse_text(name) or "", parse_int(retry) or parse_int(ring))
        for id_, number, name, ring, retry in rows["queues"]
    ]
    machine_numbers = [
        str(number)
        for table in ("ivrs", "conferences")
        for _, number in rows[table]
        if number not in (None, "")
    ]
    ddis = {
        e164: parse_text(name) or ""
        for _, raw, name in rows["ddis"]
        if (e164 := phone_numbers.to_e164(parse_text(raw))) is not None
    }
    return Directory.build(people, groups, machine_numbers, ddis)


class DirectoryCache:
    """Directory of the last load by the writer."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._directory = Directory()

    def load(self, connection: sqlite3.Connection, phone_numbers: PhoneNumbers) -> Directory:
        """Return the present directory."""
        rows = _read_directory(connection)
        if rows != self._rows:
            self._directory, self._rows = _build_directory(rows, phone_numbers), rows
        return self._directory
