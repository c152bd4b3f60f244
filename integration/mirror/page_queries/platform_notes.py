"""Notes of calls and chat messages from the platform, for pages.

The specification shows no fields of them (docs/platform.md#7-resources), so text, time and author are found
by the names that such fields usually have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integration.catalogue.field_meanings import is_secret
from integration.core.ids import as_id, id_list
from integration.core.json_records import read_record
from integration.mirror.records.rows import build_name_sql
from integration.mirror.records.subresources import find_time, split_doc

_TEXT_FIELDS = ("text", "note", "message", "body", "content", "comment")
_AUTHOR_FIELDS = ("from", "author", "user_name", "created_by", "name")

MAX_MESSAGES = 100
"""Newest chat messages of one page."""


@dataclass(frozen=True, slots=True)
class PlatformText:
    """A note or chat message.

    `at`: UTC text, '' if unknown. `author`: '' if unknown. `leg_id`: of a note. `id`: None if unknown.
    """

    text: str
    at: str
    author: str
    leg_id: int = 0
    id: int | None = None


def list_notes(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[PlatformText]:
    """Return the notes of the CDRs of these legs, by time."""
    rows = connection.execute(
        "SELECT _doc, live_id FROM cdrs_notes WHERE live_id IN (SELECT value FROM json_each(?))"
        " ORDER BY rowid",
        (id_list(leg_ids),),
    ).fetchall()
    return _describe_all(connection, [(row["_doc"], row["live_id"]) for row in rows])


def list_messages_of_user(connection: sqlite3.Connection, user_id: int) -> list[PlatformText]:
    """Return the newest chat messages of a user, by time."""
    rows = connection.execute("SELECT _doc FROM users_chatmsgs WHERE user_id = ? ORDER BY rowid", (user_id,))
    return _describe_all(connection, [(row["_doc"], 0) for row in rows])[-MAX_MESSAGES:]


def list_messages_of_chat(connection: sqlite3.Connection, chat_id: int) -> list[PlatformText]:
    """Return the newest messages with this `chat_id`, by time.

    Several users can have the same message.
    """
    rows = connection.execute(
        "SELECT DISTINCT _doc FROM users_chatmsgs"
        " WHERE instr(_doc, '\"chat_id\"') AND json_extract(_doc, '$.chat_id') IN (?, ?) ORDER BY rowid",
        (chat_id, str(chat_id)),
    )
    return _describe_all(connection, [(row["_doc"], 0) for row in rows])[-MAX_MESSAGES:]


def list_announcements(connection: sqlite3.Connection, user_id: int) -> list[list[tuple[str, str]]]:
    """Return the announcements of a user as (field, value) pairs."""
    row = connection.execute(
        "SELECT doc FROM _below WHERE collection = 'users' AND key = ? AND name = 'audio'", (user_id,)
    ).fetchone()
    if row is None or row["doc"] is None:
        return []
    return [_list_plain_values(record.values) for record in split_doc(row["doc"])]


def _describe_all(
    connection: sqlite3.Connection, texts: Iterable[tuple[str, int | None]]
) -> list[PlatformText]:
    records = [(read_record(text).values, leg_id) for text, leg_id in texts]
    user_ids = {user_id for values, _ in records if (user_id := as_id(values.get("user_id"))) is not None}
    names = {
        row["id"]: row["name"] or ""
        for row in connection.execute(
            f"SELECT id, {build_name_sql('users')} AS name FROM users"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (id_list(user_ids),),
        )
    }
    described = [
        PlatformText(
            _find_text(values),
            find_time(values),
            _find_author(values, names),
            leg_id or 0,
            as_id(values.get("id")),
        )
        for values, leg_id in records
    ]
    return sorted(described, key=lambda entry: entry.at)


def _find_text(values: Mapping[str, Any]) -> str:
    """Return the text, otherwise all plain values."""
    for name in _TEXT_FIELDS:
        if isinstance(values.get(name), str) and values[name]:
            return str(values[name])
    return "; ".join(f"{name}: {value}" for name, value in _list_plain_values(values))


def _find_author(values: Mapping[str, Any], names: Mapping[int, str]) -> str:
    texts = (values.get(name) for name in _AUTHOR_FIELDS)
    author = next((text for text in texts if isinstance(text, str) and text), "")
    return author or names.get(as_id(values.get("user_id")) or 0, "")


def _list_plain_values(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, str(value))
        for name, value in values.items()
        if isinstance(value, str | int | float) and value != "" and not is_secret(name)
    ]
