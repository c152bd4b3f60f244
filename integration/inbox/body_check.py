"""Find webhooks whose stored bytes have changed, and their intact copies.

`body_hash` is the sha256 of the body as received or erased. mirror.db has a second copy of call events, with
its hash.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from integration.core.errors import PlatformBroken
from integration.core.ids import id_list
from integration.core.json_records import read_record
from integration.inbox.interpret import interpret, parse_body
from integration.inbox.store import Inbox
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import hash_payload
from integration.sqlite.readers import read_tolerantly

_COMPARED_FIELDS = ("leg_id", "root_id", "state")
"""Columns of an event that every version reads from its payload in the same way."""


@dataclass(frozen=True, slots=True)
class ChangedBody:
    """Webhook whose body differs from its hash. `received_at`: UTC text."""

    seq: int
    received_at: str


@dataclass(frozen=True, slots=True)
class ChangedEvent:
    """Stored call event whose payload differs from its hash or its columns."""

    event_id: str
    body_hash: str
    leg_id: int


def check_bodies(
    connection: sqlite3.Connection, after: int, limit: int
) -> tuple[int | None, int, list[ChangedBody]]:
    """Check at most `limit` webhooks of inbox.db with a seq above `after`.

    Returns the last seq (None without a webhook), their number and the changed ones.
    """
    last_seq, count, changed = None, 0, list[ChangedBody]()
    for seq, received_at, body, body_hash in connection.execute(
        "SELECT seq, received_at, body, body_hash FROM inbox WHERE seq > ? ORDER BY seq LIMIT ?",
        (after, limit),
    ):
        last_seq, count = seq, count + 1
        if hashlib.sha256(body).digest() != body_hash:
            changed.append(ChangedBody(seq, received_at))
    return last_seq, count, changed


def check_events(
    connection: sqlite3.Connection, after: tuple[str, str], limit: int
) -> tuple[tuple[str, str] | None, int, list[ChangedEvent]]:
    """Check at most `limit` call events with keys above `after`.

    Returns the last key (None without an event), their number and the changed ones.
    """
    rows = _load_events(
        connection, "(event_id, body_hash) > (?, ?) ORDER BY event_id, body_hash LIMIT ?", (*after, limit)
    )
    last_key = None if not rows else (rows[-1][0], rows[-1][1])
    return last_key, len(rows), _select_changed(rows)


def find_changed_events(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[ChangedEvent]:
    """Check the events of the legs `leg_ids`."""
    condition = "leg_id IN (SELECT value FROM json_each(?))"
    return _select_changed(_load_events(connection, condition, (id_list(leg_ids),)))


def find_original_body(mirror: sqlite3.Connection, event_id: str, body_hash: bytes) -> bytes | None:
    """Return the body with this hash, composed from the event in mirror.db.

    mirror.db has the values of the body, not its white space and escapes. The hash decides which notation the
    platform used.
    """

    def read() -> list[str]:
        return [
            row[0] for row in mirror.execute("SELECT doc FROM _leg_events WHERE event_id = ?", (event_id,))
        ]

    bodies = (body for doc in read_tolerantly(mirror, read) for body in _compose_bodies(doc))
    return next((body for body in bodies if hashlib.sha256(body).digest() == body_hash), None)


def restore_body(inbox: Inbox, seq: int, body: bytes) -> None:
    """Replace a changed body by the body that was received."""
    digest = hashlib.sha256(body).digest()
    inbox.database.write(
        lambda tx: tx.execute(
            "UPDATE inbox SET body = ? WHERE seq = ? AND body_hash = ?", (body, seq, digest)
        )
    )


def find_original_event(inbox: Inbox, event_id: str, body_hash: str) -> CallEvent | None:
    """Return the event of an intact webhook, or None.

    Of several webhooks with this id, the one with the same payload.
    """
    with inbox.database.read() as connection:
        rows = connection.execute(
            "SELECT event_name, received_at, body, body_hash FROM inbox WHERE event_id = ?", (event_id,)
        ).fetchall()
    events = []
    for name, received_at, body, digest in rows:
        record = parse_body(body) if hashlib.sha256(body).digest() == digest else None
        if record is not None:
            event = interpret(record, received_at, event_id, name)
            if isinstance(event, CallEvent):
                events.append(event)
    matching = [event for event in events if hash_payload(event.doc) == body_hash]
    # With one webhook, the hash itself was changed.
    return matching[0] if matching else events[0] if len(events) == 1 else None


def _load_events(
    connection: sqlite3.Connection, condition: str, parameters: Sequence[object]
) -> list[tuple[Any, ...]]:
    columns = ", ".join(("event_id", "body_hash", "name", "at", "doc", *_COMPARED_FIELDS))
    sql = f"SELECT {columns} FROM _leg_events WHERE {condition}"  # noqa: S608
    return read_tolerantly(connection, lambda: list(map(tuple, connection.execute(sql, parameters))))


def _select_changed(rows: Sequence[tuple[Any, ...]]) -> list[ChangedEvent]:
    return [
        ChangedEvent(event_id, body_hash, values[0])
        for event_id, body_hash, name, at, doc, *values in rows
        if not _is_event_intact(event_id, body_hash, name, at, doc, values)
    ]


def _is_event_intact(
    event_id: str, body_hash: str, name: str, at: str, doc: str, values: Sequence[object]
) -> bool:
    if hash_payload(doc) != body_hash:
        return False
    try:
        event = interpret(read_record(doc), at, event_id, name)
    except (ValueError, PlatformBroken):
        return False
    return isinstance(event, CallEvent) and [getattr(event, name) for name in _COMPARED_FIELDS] == list(
        values
    )


def _compose_bodies(doc: str) -> Iterator[bytes]:
    """Yield the notations of a JSON text that encoders of JSON produce."""
    try:
        values = json.loads(doc)
    except ValueError:
        return
    texts = [doc]
    for separators in ((",", ":"), (", ", ": ")):
        texts += [
            json.dumps(values, separators=separators, ensure_ascii=is_ascii) for is_ascii in (True, False)
        ]
    for text in texts:
        yield text.encode("utf-8", "surrogatepass")
        yield text.replace("/", "\\/").encode("utf-8", "surrogatepass")
