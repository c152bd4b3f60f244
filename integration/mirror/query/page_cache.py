"""What makes pages and totals cheap that are asked for again: what the last answer found, while it holds.

Clients that collect a collection ask for page after page with the same filter. The key that a page ended with
spares the next one from skipping all records before it, and the total needs to be counted once. Both hold
exactly as long as the collection's version does, which stands in the same snapshot as the records. Places in
the whole collection, without a filter, hold longer: a record behind all others moves none of them.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import orjson

from integration.mirror.query.query import Query
from integration.mirror.records.rows import Key
from integration.sqlite.transaction import Transaction

GROWING = ("cdrs", "monitors", "sms", "voicemessages")
"""Collections large enough for it to matter."""


FEW = 5000
"""So many keys of records that match are looked for first, in no order, and kept: a filter that no index
serves is compared once, for the total and for every page in any order, and with the entries of an index where
one has what it compares. Where more match, this was in vain, for FEW / matches of what a count costs."""

STEP = 5000
"""Records between two places that are noted on the way to a deep page."""


def _triggers(table: str) -> str:
    # A look-back stamps what it saw again: that changes no answer, so it must not make a new version.
    # Of what is inserted `inserting` tells: triggers for each row would double the price of a first load.
    told = "new._doc IS NOT old._doc OR new._missing_since IS NOT old._missing_since"
    return f"""
INSERT OR IGNORE INTO _versions VALUES ('{table}', 0);
DROP TRIGGER IF EXISTS {table}_inserted;
CREATE TRIGGER IF NOT EXISTS {table}_deleted AFTER DELETE ON {table} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
CREATE TRIGGER IF NOT EXISTS {table}_changed AFTER UPDATE ON {table} WHEN {told} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
INSERT OR IGNORE INTO _orders VALUES ('{table}', 0);
DROP TRIGGER IF EXISTS {table}_inserted_before;
CREATE TRIGGER IF NOT EXISTS {table}_deleted_before AFTER DELETE ON {table} BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = '{table}';
END;
CREATE TRIGGER IF NOT EXISTS {table}_missed_before AFTER UPDATE OF _missing_since ON {table}
    WHEN new._missing_since IS NOT old._missing_since BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = '{table}';
END;
"""


TABLES = """
CREATE TABLE IF NOT EXISTS _versions (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS _orders (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
""" + "".join(_triggers(table) for table in GROWING)
"""`_versions`: a number for each growing collection, another one whenever its records are. `_orders`: another
one only when the place of a record in the order of ids is."""


def inserting(tx: Transaction, table: str, keys: Collection[Key]) -> None:
    """Records with these keys are about to be inserted; the one door for rows calls it (upsert.py)."""
    if table not in GROWING or not keys:
        return
    tx.execute("UPDATE _versions SET number = number + 1 WHERE name = ?", (table,))
    tx.execute(
        f"UPDATE _orders SET number = number + 1 WHERE name = ? AND (SELECT max(id) FROM {table}) > ?",
        (table, min(keys)),
    )


_KEPT = 200
_PLACES_KEPT = 5000


class _Places:
    """Keys in order, or (value, key) of a sorted column, by how many records there are up to each."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._keys: dict[int, Any] = {}

    def near(self, count: int) -> tuple[Any, int] | None:
        """The last one known with at most `count` records up to it, and how many those are."""
        at = bisect_right(self._counts, count)
        return (self._keys[self._counts[at - 1]], self._counts[at - 1]) if at else None

    def note(self, count: int, key: Any) -> None:
        if count not in self._keys and len(self._counts) < _PLACES_KEPT:
            insort(self._counts, count)
            self._keys[count] = key


class Shortcuts:
    """One per mirror.db and process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: OrderedDict[Any, int] = OrderedDict()
        self._places: OrderedDict[Any, _Places] = OrderedDict()
        self._few: OrderedDict[Any, str | None] = OrderedDict()

    def total(self, connection: sqlite3.Connection, question: Query) -> int:
        """As `question.total(connection)`."""
        version = _number(connection, "_versions", question)
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

    def _note_total(self, connection: sqlite3.Connection, question: Query, count: int) -> None:
        """A page that is not full ends what matches: nothing is left to count."""
        version = _number(connection, "_versions", question)
        if version is not None and count < question.limit and (count or question.page == 1):
            with self._lock:
                _keep(self._totals, (version, _same(question)), (question.page - 1) * question.limit + count)

    def _narrowed(self, connection: sqlite3.Connection, question: Query) -> Query:
        """The question, with the keys of what matches where those are few."""
        version = _number(connection, "_versions", question)
        if version is None or not question.conditions:
            return question
        asked = (version, _same(replace(question, group_by=None)))
        with self._lock:
            known, among = asked in self._few, self._few.get(asked)
        if not known:
            found = question.keys(connection, FEW)
            among = None if found is None else found[0]
            with self._lock:
                _keep(self._few, asked, among)
                if found is not None:
                    _keep(self._totals, asked, found[1])
        return replace(question, among=among)

    def _groups(self, connection: sqlite3.Connection, question: Query) -> list[bytes]:
        texts, total = question.groups(connection)
        version = _number(connection, "_versions", question)
        if version is not None and total is not None:
            with self._lock:
                _keep(self._totals, (version, _same(question)), total)
        return texts

    def texts(self, connection: sqlite3.Connection, question: Query) -> list[bytes]:
        """As `question.texts(connection)`."""
        question = self._narrowed(connection, question)
        if question.group_by is not None:
            return self._groups(connection, question)
        places = self._places_of(connection, question)
        placed = self._placed(connection, question, places)
        texts = placed.texts(connection)
        if placed.behind is not None and len(texts) < question.limit:
            # Nulls come last in descending order, and are not found behind a value.
            texts = question.texts(connection)
        self._note_total(connection, question, len(texts))
        if places is not None and len(texts) == question.limit:
            key = orjson.loads(texts[-1]).get(question.resource.key)
            if question.in_key_order:
                self._note_end(places, question, key)
            elif (value := question.value_of(connection, key)) is not None:
                self._note_end(places, question, (value, key))
        return texts

    def joined(self, connection: sqlite3.Connection, question: Query) -> bytes:
        """The records of `texts`, comma-separated."""
        if not question.in_key_order:
            return b",".join(self.texts(connection, question))
        question = self._narrowed(connection, question)
        places = self._places_of(connection, question)
        body, count, key = self._placed(connection, question, places).joined(connection)
        self._note_total(connection, question, count)
        if places is not None and count == question.limit:
            self._note_end(places, question, key)
        return body

    def _placed(self, connection: sqlite3.Connection, question: Query, places: _Places | None) -> Query:
        """The question, begun at the nearest place that is known."""
        if places is None:
            return question
        before = (question.page - 1) * question.limit
        if not question.in_key_order:
            with self._lock:
                near = places.near(before)
            return question if near is None else replace(question, behind=(*near[0], near[1]))
        self._walk(connection, question, places, before)
        with self._lock:
            start = places.near(before)
        return replace(
            question, start=start, dense=start is not None and self._is_dense(connection, question)
        )

    def _is_dense(self, connection: sqlite3.Connection, question: Query) -> bool:
        """Whether a tenth of the collection matches. Not for the last page: behind it nothing might."""
        if not question.conditions:
            return False
        matching = self.total(connection, question)
        if question.page * question.limit > matching:
            return False
        return matching * 10 >= self.total(connection, Query(question.resource))

    def _note_end(self, places: _Places, question: Query, key: object) -> None:
        with self._lock:
            places.note(question.page * question.limit, key)

    def _places_of(self, connection: sqlite3.Connection, question: Query) -> _Places | None:
        if not question.in_key_order and not question.in_column_order:
            return None
        descending = question.descending and question.sort is not None
        column = None if question.in_key_order else question.sort
        plain = not question.conditions and not question.missing and not descending and column is None
        number = _number(connection, "_orders" if plain else "_versions", question)
        if number is None:
            return None
        asked = (number, plain, _same(question), column, descending)
        with self._lock:
            places = self._places.get(asked) or _Places()
            _keep(self._places, asked, places)
        return places

    def _walk(self, connection: sqlite3.Connection, question: Query, places: _Places, before: int) -> None:
        """Note places on the way to a deep page of the whole collection: the index is read once, not for
        every such page. With a filter, what was found on the way would cost as much as the page."""
        if question.conditions or question.missing:
            return
        while True:
            with self._lock:
                start = places.near(before)
            count = (start[1] if start else 0) + STEP
            if count > before:
                return
            key = question.key_behind(connection, start, STEP)
            if key is None:
                return
            with self._lock:
                places.note(count, key)
                if places.near(count) != (key, count):
                    return


def _number(connection: sqlite3.Connection, table: str, question: Query) -> tuple[str, int] | None:
    """The collection's number in this snapshot; None where it is not counted."""
    if question.resource.table not in GROWING:
        return None
    row = connection.execute(
        f"SELECT number FROM {table} WHERE name = ?", (question.resource.table,)
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
