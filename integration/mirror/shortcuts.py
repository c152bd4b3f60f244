"""What makes pages and totals cheap that are asked for again: what the last answer found, while it holds.

Clients that collect a collection ask for page after page with the same filter. The key that a page ended with
spares the next one from skipping all records before it, and the total needs to be counted once. Both hold
exactly as long as the collection's version does, which stands in the same snapshot as the records.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import orjson

from integration.mirror.query import Query

GROWING = ("cdrs", "monitors", "sms", "voicemessages")
"""Collections large enough for it to matter."""


def _triggers(table: str) -> str:
    # A look-back stamps what it saw again: that changes no answer, so it must not make a new version.
    told = "new._doc IS NOT old._doc OR new._missing_since IS NOT old._missing_since"
    return f"""
INSERT OR IGNORE INTO _versions VALUES ('{table}', 0);
CREATE TRIGGER IF NOT EXISTS {table}_inserted AFTER INSERT ON {table} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
CREATE TRIGGER IF NOT EXISTS {table}_deleted AFTER DELETE ON {table} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
CREATE TRIGGER IF NOT EXISTS {table}_changed AFTER UPDATE ON {table} WHEN {told} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
"""


TABLES = """
CREATE TABLE IF NOT EXISTS _versions (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
""" + "".join(_triggers(table) for table in GROWING)
"""`_versions`: a number for each growing collection, another one whenever its records are."""

_KEPT = 200
_PAGES_KEPT = 2000


class Shortcuts:
    """One per mirror.db and process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: OrderedDict[Any, int] = OrderedDict()
        self._ends: OrderedDict[Any, dict[int, Any]] = OrderedDict()

    def total(self, connection: sqlite3.Connection, question: Query) -> int:
        """As `question.total(connection)`."""
        version = _version(connection, question)
        if version is None:
            return question.total(connection)
        asked = (version, _same(question))
        with self._lock:
            known = self._totals.get(asked)
        if known is None:
            known = question.total(connection)
            with self._lock:
                _keep(self._totals, asked, known)
        return known

    def texts(self, connection: sqlite3.Connection, question: Query) -> list[bytes]:
        """As `question.texts(connection)`."""
        version = _version(connection, question) if question.in_key_order else None
        if version is None:
            return question.texts(connection)
        asked = (version, _same(question), question.descending and question.sort is not None, question.limit)
        with self._lock:
            ends = self._ends.get(asked, {})
            near = max((page for page in ends if page < question.page), default=None)
            start = None if near is None else (ends[near], near)
        texts = replace(question, start=start).texts(connection)
        if len(texts) == question.limit:
            end = orjson.loads(texts[-1]).get(question.resource.key)
            with self._lock:
                ends = self._ends.get(asked, {})
                if len(ends) < _PAGES_KEPT:
                    _keep(self._ends, asked, {**ends, question.page: end})
        return texts


def _version(connection: sqlite3.Connection, question: Query) -> tuple[str, int] | None:
    """The collection's version in this snapshot; None where it is not counted."""
    if question.resource.table not in GROWING:
        return None
    row = connection.execute(
        "SELECT number FROM _versions WHERE name = ?", (question.resource.table,)
    ).fetchone()
    return None if row is None else (question.resource.table, row[0])


def _same(question: Query) -> str:
    """What decides which records match."""
    return repr((question.conditions, question.group_by, question.missing, question.hidden and 1))


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
