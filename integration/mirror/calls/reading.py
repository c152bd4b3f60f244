"""Facts of legs, and what we know of our own people and groups, read from mirror.db.

Collection tables keep values as they came (mirror/schema.py): a drifted one ('4278000101' for a number, a
number for text) is read for what it plainly means, and is None where it means nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from math import isfinite

import orjson

from integration.core.phone_numbers import Numbers
from integration.core.timestamps import seconds
from integration.mirror.calls.directory import Directory, Group, Person
from integration.mirror.calls.facts import CallEvent, Cdr, Heard, LegFacts, Recording, Sighting, Voicemail

EVENT_COLUMNS = (
    "event_id, name, leg_id, root_id, at, micros, server, state, connected_at, start_time, context, "
    "destination, duration, t_cause, src, src_id, src_name, dst, dst_id, dst_name, final, terminated_by, "
    "dtmf_tag, dtmf_target, doc"
)
_FINAL = 20
CDR_COLUMNS = (
    "id, live_id, parent_live_id, root_live_id, user_id, type, calldate, clid, src_id, src_name, src, "
    "dst_id, dst, dst_name, duration, billsec, disposition, destination, context, charge, t_cause, "
    "_first_seen"
)
"""Of a record, in the order of `Cdr`."""


def whole(value: object) -> int | None:
    """An integer that fits a column, from a number or digits."""
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
        if not text.removeprefix("-").isdecimal():
            return None
        value = int(text) if len(text) < 20 else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def text(value: object) -> str | None:
    """Text of a scalar, storable; None for null and for ''."""
    if value is None:
        return None
    told = value if isinstance(value, str) else str(value)
    if not told:
        return None
    return told if told.isascii() else told.encode("utf-8", "replace").decode()


def span(value: object) -> int:
    """A duration in seconds; 0 for none and for what can't be one."""
    seconds_ = whole(value) or 0
    return seconds_ if 0 <= seconds_ < 10**9 else 0


def number(value: object) -> float | None:
    """A number, also one written as text (observed.md §4, charge)."""
    if not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def ids_json(ids: Iterable[int]) -> str:
    """For `IN (SELECT value FROM json_each(?))` on a column of our own."""
    return json.dumps(list(ids))


def _drifted(ids: Sequence[int]) -> str:
    """The same for a collection's column, where an id may stand as text."""
    return json.dumps([*ids, *map(str, ids)])


def facts_of(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, LegFacts]:
    """All that is known of the legs `ids`, each with an entry."""
    legs = {id_: LegFacts(id_) for id_ in ids}
    own, any_type = ids_json(ids), _drifted(ids)
    for row in connection.execute(
        f"SELECT received_at, {EVENT_COLUMNS} FROM _leg_events"
        " WHERE leg_id IN (SELECT value FROM json_each(?))",
        (own,),
    ):
        received, *values = tuple(row)
        if values[_FINAL] is not None:
            values[_FINAL] = bool(values[_FINAL])
        event = CallEvent(*values)
        legs[event.leg_id or 0].events.append(Heard(event, received))
    for leg_id, seen_at, doc, missing_at, gone_at in connection.execute(
        "SELECT leg_id, seen_at, doc, missing_at, gone_at FROM _leg_live"
        " WHERE leg_id IN (SELECT value FROM json_each(?))",
        (own,),
    ):
        leg = legs[leg_id]
        leg.missing, leg.gone = missing_at, gone_at
        if seen_at is not None:
            leg.sighting = sighting(seen_at, _record(doc))
    for row in connection.execute(
        f"SELECT {CDR_COLUMNS} FROM cdrs WHERE live_id IN (SELECT value FROM json_each(?))", (any_type,)
    ):
        cdr = _cdr(row)
        legs[cdr.live_id].cdrs.append(cdr)
    for id_, live_id, parent in connection.execute(
        "SELECT id, live_id, parent_live_id FROM voicemessages"
        " WHERE live_id IN (SELECT value FROM json_each(?1))"
        " UNION SELECT id, live_id, parent_live_id FROM voicemessages"
        " WHERE parent_live_id IN (SELECT value FROM json_each(?1))",
        (any_type,),
    ):
        message = Voicemail(id_, whole(live_id), whole(parent))
        for leg_id in {message.leg_id or 0, message.parent or 0} & legs.keys():
            legs[leg_id].voicemails.append(message)
    for id_, live_id, user_id in connection.execute(
        "SELECT id, live_id, user_id FROM monitors WHERE live_id IN (SELECT value FROM json_each(?))",
        (any_type,),
    ):
        recording = Recording(id_, whole(live_id) or 0, whole(user_id))
        legs[recording.leg_id].recordings.append(recording)
    return legs


def _record(doc: str) -> dict[str, object]:
    try:
        record = orjson.loads(doc)
    except orjson.JSONDecodeError:
        # Kept as received: a lone surrogate, a number beyond 64 bits (documents.py).
        record = json.loads(doc)
    return record if isinstance(record, dict) else {}


def _cdr(row: Sequence[object]) -> Cdr:
    """Of a row with the columns of CDR_COLUMNS. By position: this is done for each of a million records."""
    id_, leg_id, parent, root, user_id, kind, calldate, clid, src_id, src_name, src, *rest = row
    dst_id, dst, dst_name, duration, billsec, disposition, destination, context, charge, cause, known = rest
    return Cdr(
        whole(id_) or 0, whole(leg_id) or 0, whole(parent) or None, whole(root) or None,
        whole(user_id) or None, text(kind), seconds(calldate), text(clid), text(src_id), text(src_name),
        text(src), text(dst_id), text(dst), text(dst_name), span(duration), span(billsec), text(disposition),
        text(destination), text(context), number(charge), text(cause), seconds(known),
    )  # fmt: skip


def sighting(seen: int, record: dict[str, object]) -> Sighting:
    """A live call as `/calls` shows it (specification, Live call). Its times are Unix seconds."""
    return Sighting(
        seen=seen,
        state=text(record.get("state")),
        started=_unix(record.get("start_time")),
        connected=_unix(record.get("connected_at")),
        parent=whole(record.get("parent_id")) or None,
        context=text(record.get("context")),
        destination=text(record.get("destination")),
        src=text(record.get("src")),
        src_id=text(record.get("src_id")),
        src_name=text(record.get("src_name")),
        dst=text(record.get("dst")),
        dst_id=text(record.get("dst_id")),
        dst_name=text(record.get("dst_name")),
        clid=text(record.get("clid")),
        dst_connection=bool(number(record.get("dst_connection"))),
    )


def _unix(value: object) -> int | None:
    return whole(value) or seconds(value)


def directory(connection: sqlite3.Connection, numbers: Numbers) -> Directory:
    """Our people, groups, machines and numbers, those gone from the platform too: history names them."""
    tables = _tables(connection)
    people = [
        Person(id_, text(ext), " ".join(filter(None, (text(first), text(last)))))
        for id_, ext, first, last in connection.execute("SELECT id, ext, first_name, last_name FROM users")
    ]
    groups = [
        Group("ringgroup", id_, text(number_), text(name) or "", whole(ring))
        for id_, number_, name, ring in connection.execute(
            "SELECT id, number, name, ring_time FROM ringgroups"
        )
    ]
    groups += [
        Group("queue", id_, text(number_), text(name) or "", whole(retry) if whole(retry) else whole(ring))
        for id_, number_, name, ring, retry in connection.execute(
            "SELECT id, number, name, ring_time, retry FROM queues"
        )
    ]
    machines: list[str] = []
    if "ivrs" in tables:
        machines += [str(row[0]) for row in connection.execute("SELECT number FROM ivrs WHERE number <> ''")]
    if "conferences" in tables:
        machines += [
            str(row[0]) for row in connection.execute("SELECT confno FROM conferences WHERE confno <> ''")
        ]
    ddis = {
        e164: text(name) or ""
        for raw, name in connection.execute("SELECT e164, name FROM ddis")
        if (e164 := numbers.e164(text(raw))) is not None
    }
    return Directory.of(people, groups, machines, ddis)


def directory_version(connection: sqlite3.Connection) -> tuple[object, ...]:
    """Changes whenever one of the directory's tables may have: cheap, these are small."""
    present = _tables(connection)
    version: list[object] = []
    for table in sorted(present & {"users", "queues", "ringgroups", "ddis", "ivrs", "conferences"}):
        version += connection.execute(f"SELECT count(*), max(_last_seen) FROM {table}").fetchone()
    return tuple(version)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
