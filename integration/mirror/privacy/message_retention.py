"""Retention of chat messages, stored in one JSON array per user."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from integration.core import clock
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records import subresources
from integration.sqlite.transaction import Transaction

OLDEST_VALID_DATE = "1990"
"""Year of the oldest valid date; earlier dates are errors of the platform."""


def is_before(date: object, limit: str | None) -> bool:
    """Return whether a valid date is before `limit`.

    `limit` is UTC text; no date is before None. A text that is not a time is not a valid date.
    """
    moment = None if limit is None else clock.parse_utc(date)
    return moment is not None and limit is not None and OLDEST_VALID_DATE <= clock.utc_text(moment) < limit


class MessageGate:
    """Gate of subresources: removes expired chat messages before they are stored.

    `find_limit` returns the UTC time from which records of a table are kept, None for all.
    """

    def __init__(self, find_limit: Callable[[str], str | None], held_records: HeldRecords) -> None:
        self._find_limit, self._held_records = find_limit, held_records

    def __call__(self, entry: tuple[str, int, str | None]) -> str | None:
        collection, _, doc = entry
        if collection != "users" or doc is None:
            return doc
        return _remove_expired(doc, self._find_limit("chats"), self._held_records)


def find_users(connection: sqlite3.Connection, limit: str, held_records: HeldRecords) -> list[int]:
    """Return users with chat messages before `limit`, except under legal hold."""
    rows = connection.execute(
        "SELECT key, doc FROM _below WHERE collection = 'users' AND name = ? AND doc IS NOT NULL",
        (subresources.CHAT_MESSAGES,),
    )
    return [key for key, doc in rows if _remove_expired(doc, limit, held_records) != doc]


def delete_messages(tx: Transaction, user_id: int, limit: str, held_records: HeldRecords) -> None:
    """Delete a user's chat messages dated before `limit`, except under legal hold."""
    entry = (user_id, subresources.CHAT_MESSAGES)
    rows = tx.execute(
        "SELECT doc FROM _below WHERE collection = 'users' AND key = ? AND name = ? AND doc IS NOT NULL",
        entry,
    ).fetchall()
    for (doc,) in rows:
        tx.execute(
            "UPDATE _below SET doc = ? WHERE collection = 'users' AND key = ? AND name = ?",
            (_remove_expired(doc, limit, held_records), *entry),
        )


def _remove_expired(doc: str, limit: str | None, held_records: HeldRecords) -> str:
    """Return a JSON array without the expired messages.

    One object is returned unchanged.
    """
    if not doc.startswith("["):
        return doc
    texts = [
        record.text
        for record in subresources.split_doc(doc)
        if not is_before(subresources.find_time(record.values), limit)
        or held_records.is_text_held(record.text)
    ]
    return f"[{','.join(texts)}]"
