"""Subresources of records, stored as received.

These are notes of a CDR, chat messages and announcements of a user. The specification documents no
fields, so they are stored as JSON text by the key of their record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integration.catalogue import get_resource
from integration.catalogue.shapes import Field, Relation, Resource
from integration.core import clock
from integration.core.errors import PlatformBroken
from integration.core.ids import id_list, parse_id
from integration.core.json_records import JsonRecord, find_item, read_item, read_page
from integration.mirror.records.rows import UpsertResult
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _below (
    collection TEXT NOT NULL,
    key INTEGER NOT NULL,
    name TEXT NOT NULL,
    doc TEXT,
    read_at TEXT NOT NULL,
    PRIMARY KEY (collection, key, name)
) STRICT, WITHOUT ROWID;
-- subresources that must be read again because their record has changed
CREATE TABLE IF NOT EXISTS _below_due (
    collection TEXT NOT NULL,
    key INTEGER NOT NULL,
    name TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (collection, key, name)
) STRICT, WITHOUT ROWID;
-- serves the search for due notes: few CDRs have notes
CREATE INDEX IF NOT EXISTS cdrs_noted ON cdrs (id) WHERE nb_notes > 0;
-- one row per note and per chat message, for exports and pages; readers refuse json_type() in views
CREATE VIEW IF NOT EXISTS cdrs_notes AS
SELECT b.key * 65536 + e.key AS rowid, b.key * 65536 + e.key AS _n, b.key AS cdr_id, r.calldate, r.live_id,
    r.user_id AS cdr_user_id, e.value AS _doc, NULL AS _item, b.read_at AS _first_seen,
    b.read_at AS _last_seen, 'sync' AS _source, r._missing_since
FROM cdrs AS r JOIN _below AS b ON b.collection = 'cdrs' AND b.key = r.id AND b.name = 'notes'
    JOIN json_each(CASE WHEN b.doc LIKE '{%' THEN '[' || b.doc || ']' ELSE b.doc END) AS e;
CREATE VIEW IF NOT EXISTS users_chatmsgs AS
SELECT b.key * 65536 + e.key AS rowid, b.key * 65536 + e.key AS _n, b.key AS user_id, e.value AS _doc,
    NULL AS _item, b.read_at AS _first_seen, b.read_at AS _last_seen, 'sync' AS _source,
    r._missing_since
FROM users AS r JOIN _below AS b ON b.collection = 'users' AND b.key = r.id AND b.name = 'chatmsgs'
    JOIN json_each(CASE WHEN b.doc LIKE '{%' THEN '[' || b.doc || ']' ELSE b.doc END) AS e;
"""

_TIME_FIELDS = ("created_at", "timestamp", "sent_at", "updated_at", "date", "at")
"""Names that the undocumented time of a note or message can have, likely ones first."""

CHAT_MESSAGES = "chatmsgs"
"""Name of the chat messages of a user, and path of the messages of all users."""

NOTES = Resource("cdr_note", "cdrs/notes", "Note of a call", (), key=None, item=False, is_listed=False)
MESSAGES = Resource(
    "chat_message", "users/chatmsgs", "Chat message", (), key=None, item=False, is_listed=False
)
ANNOUNCEMENTS = Resource(
    "user_audio", "users/audio", "Announcement of a user", (), key=None, item=False, is_listed=False
)
"""Records below others. The specification shows no fields of them."""

NOTE_ROWS = Resource(
    "cdr_note_row",
    "cdrs/notes",
    "Note of a call",
    (
        Field("cdr_id", "integer", "CDR of the note"),
        Field("calldate", "string", "time of the call, UTC"),
        Field("live_id", "integer", "leg of the call"),
        Field("cdr_user_id", "integer", "user of the call"),
    ),
    key=None,
    date="calldate",
    item=False,
    is_listed=False,
    relations=(Relation("cdr_user_id", "users"),),
    user_key="cdr_user_id",
)
"""View `cdrs_notes`: all notes, with columns of their CDRs. The fields of a note are undocumented."""
MESSAGE_ROWS = Resource(
    "chat_message_row",
    "users/chatmsgs",
    "Chat message",
    (Field("user_id", "integer", "user of the message"),),
    key=None,
    item=False,
    is_listed=False,
    relations=(Relation("user_id", "users"),),
    user_key="user_id",
)
"""View `users_chatmsgs`: the chat messages of all users, with undocumented fields."""

MAX_RECORDS_PER_RUN = 500
"""Number of records whose subresources one run requests."""


def due(
    connection: sqlite3.Connection,
    collection: str,
    name: str,
    positive_field: str | None,
    read_before: str,
    *,
    old_read_before: str,
    old_date_limit: str,
) -> list[int]:
    """Return keys of present records with a due subresource `name`.

    A subresource is due if its record has changed since it was read (`register_hook`); these come first. It
    is also due if it was not read since `read_before` (UTC text): records never read before others, those
    with the highest key first. A record dated before `old_date_limit` is due only if its last read was
    before `old_read_before`. `positive_field`: only records in which this field is above 0. At most
    MAX_RECORDS_PER_RUN keys. Raises ValueError if the collection has no such field.
    """
    parent = get_resource(collection)
    if positive_field is not None and parent.field(positive_field) is None:
        raise ValueError(f"{parent.name} has no field {positive_field!r}")
    count_condition = f'AND r."{positive_field}" > 0' if positive_field is not None else ""
    limit = f'CASE WHEN r."{parent.date}" < ? THEN ? ELSE ? END' if parent.date else "?"
    changed_rows = connection.execute(
        f'SELECT r."{parent.key}" FROM _below_due AS d JOIN "{parent.table}" AS r ON r."{parent.key}" = d.key'
        " WHERE d.collection = ? AND d.name = ? AND r._missing_since IS NULL ORDER BY d.key DESC LIMIT ?",
        (collection, name, MAX_RECORDS_PER_RUN),
    )
    keys = [row[0] for row in changed_rows]
    rows = connection.execute(
        f'SELECT r."{parent.key}" FROM "{parent.table}" AS r LEFT JOIN _below AS b '
        f'ON b.collection = ? AND b.key = r."{parent.key}" AND b.name = ? '
        # The plus keeps SQLite from using the index of all present records.
        f"WHERE +r._missing_since IS NULL {count_condition} AND (b.read_at IS NULL OR b.read_at < {limit}) "
        f'ORDER BY b.read_at, r."{parent.key}" DESC LIMIT ?',
        (
            collection,
            name,
            *([old_date_limit, old_read_before, read_before] if parent.date else [read_before]),
            MAX_RECORDS_PER_RUN,
        ),
    )
    return list(dict.fromkeys([*keys, *(row[0] for row in rows)]))[:MAX_RECORDS_PER_RUN]


def register_hook(mirror_db: Database) -> None:
    """Make the notes of a changed CDR due.

    Call this function once. The platform reports a new, changed or deleted note only by the field `nb_notes`
    of its CDR. Notes that were never read are due without this.
    """

    def hook(tx: Transaction, result: UpsertResult) -> None:
        if result.updated:
            tx.execute(
                "INSERT OR REPLACE INTO _below_due SELECT collection, key, name, ? FROM _below"
                " WHERE collection = 'cdrs' AND name = 'notes' AND key IN (SELECT value FROM json_each(?))",
                (clock.utc_text(), id_list(result.updated)),
            )

    mirror_db.hooks.setdefault("cdrs", []).append(hook)


def store(tx: Transaction, collection: str, key: int, name: str, doc: str | None, read_at: str) -> None:
    """Store a subresource.

    `doc` is the received JSON array or object; None if the platform has none for this record.
    """
    gate = tx.gates.get("_below")
    if gate is not None:
        doc = gate((collection, key, doc))
    tx.execute(
        "INSERT INTO _below VALUES (?, ?, ?, ?, ?) ON CONFLICT (collection, key, name) DO UPDATE SET "
        "doc = excluded.doc, read_at = excluded.read_at",
        (collection, key, name, doc, read_at),
    )
    # A request in the second of the change may have been answered before it.
    tx.execute(
        "DELETE FROM _below_due WHERE collection = ? AND key = ? AND name = ? AND changed_at < ?",
        (collection, key, name, read_at),
    )


@dataclass(frozen=True, slots=True)
class StoredSubresource:
    """A subresource in the mirror.

    `doc`: JSON array of records, or one JSON object; None if the platform has none. `read_at`: UTC text.
    """

    doc: str | None
    read_at: str


def find(connection: sqlite3.Connection, collection: str, key: int, name: str) -> StoredSubresource | None:
    """Return a subresource, such as find(connection, 'cdrs', 7, 'notes').

    None if it was never read.
    """
    row = connection.execute(
        "SELECT doc, read_at FROM _below WHERE collection = ? AND key = ? AND name = ?",
        (collection, key, name),
    ).fetchone()
    return None if row is None else StoredSubresource(row["doc"], row["read_at"])


def extract_doc(body: bytes) -> str | None:
    """Return the records of a response as JSON array or object.

    None if the response is one page of several. Raises PlatformBroken if it is not JSON.
    """
    try:
        if find_item(body) is not None:
            return read_item(body).text
        page = read_page(body)
    except PlatformBroken:
        return read_item(body).text
    if page.too_large or (page.total is not None and page.total != len(page.records)):
        return None
    return "[" + ",".join(record.text for record in page.records) + "]"


def split_doc(doc: str) -> list[JsonRecord]:
    """Return the records of a stored subresource.

    One object counts as one record.
    """
    return list(read_page(b'{"data":%b}' % doc.encode("utf-8", "surrogatepass")).records)


def find_time(values: Mapping[str, Any]) -> str:
    """Return the time of a note or message as UTC text."""
    texts = (values.get(name) for name in _TIME_FIELDS)
    return next((text for text in texts if isinstance(text, str) and clock.parse_utc(text)), "")


def delete_changed(tx: Transaction, path: str) -> None:
    """Delete the subresources that a write to `path` changes.

    A write to '/users/7/audio' changes one; '/chatmsgs/5,6' changes the messages of unknown users.
    """
    segments = path.strip("/").split("/")
    if segments[0] == CHAT_MESSAGES:
        tx.execute("DELETE FROM _below WHERE name = ?", (CHAT_MESSAGES,))
    elif len(segments) > 2 and (key := parse_id(segments[1])) is not None:
        tx.execute(
            "DELETE FROM _below WHERE collection = ? AND key = ? AND name = ?",
            (segments[0], key, segments[2]),
        )
