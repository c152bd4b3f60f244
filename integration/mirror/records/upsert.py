"""The one door for rows of collection tables, whatever their source.

Older loses: a record asked for before the row was last seen, or by the second in which it was found gone,
changes nothing. What else depends on a row (calls on CDRs, threads on SMS) is brought up to date by the
database's hooks, in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import NoneType
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.json_records import Document, as_text, column_value, read_object
from integration.mirror.query import page_cache as shortcuts
from integration.mirror.records import promoted_fields as promoted
from integration.mirror.records.rows import Key, Source, Upserted, key_type, quote
from integration.sqlite.transaction import Transaction

CHUNK = 5000
"""Records that are looked up, and written, by one statement."""

_AS_IT_IS = frozenset({NoneType, bool, int, float, str})


def upsert(
    tx: Transaction,
    resource: Resource,
    documents: Iterable[Document],
    *,
    source: Source,
    asked_at: str,
    later: bool = False,
) -> Upserted:
    """Store `documents` of `resource`, as read by a request begun at `asked_at` (UTC text). `later`: they are
    history, whose calls may be put together when there is time.

    A record without a usable key is kept in `_flagged`, never dropped (interface.md §6, Mirror). Of two
    records with one key the later in `documents` counts.
    """
    outcome, extra = Upserted(later=later), promoted.columns(tx, resource)
    gate = tx.gates.get(resource.table)
    iterator = iter(documents) if gate is None else filter(None, map(gate, documents))
    while chunk := list(islice(iterator, CHUNK)):
        _upsert_chunk(tx, resource, chunk, source, asked_at, outcome, extra)
    if outcome.changed:
        for hook in tx.hooks.get(resource.table, ()):
            hook(tx, outcome)
    return outcome


def replace_all(
    tx: Transaction, resource: Resource, documents: Sequence[Document], *, source: Source, asked_at: str
) -> Upserted:
    """Store a collection whose records have no key: the complete answer takes the place of the last.

    A record that reads as one before did keeps its `_first_seen`. `updated` of the outcome is empty: without
    keys a changed record is one gone and one new.
    """
    table, outcome = quote(resource.table), Upserted()
    if (gate := tx.gates.get(resource.table)) is not None:
        documents = [kept for document in documents if (kept := gate(document)) is not None]
    extra = promoted.columns(tx, resource)
    before: dict[str, list[str]] = {}
    order = []
    for row in tx.execute(f"SELECT _doc, _first_seen FROM {table} ORDER BY _n"):
        before.setdefault(row[0], []).append(row[1])
        order.append(row[0])
    texts = [_storable(document.text) for document in documents]
    if texts == order:
        tx.execute(f"UPDATE {table} SET _last_seen = ?", (asked_at,))
        outcome.unchanged = len(texts)
        return outcome
    rows: list[tuple[Any, ...]] = []
    for document, text in zip(documents, texts, strict=True):
        row = _exact(resource, document, source, asked_at, None, extra)
        if before.get(text):
            row[-3] = before[text].pop()
            outcome.unchanged += 1
        else:
            outcome.inserted.append(len(rows))
        rows.append(tuple(row))
    tx.execute(f"DELETE FROM {table}")
    tx.executemany(_insert_sql(resource, extra), rows)
    return outcome


def put_item(
    tx: Transaction, resource: Resource, document: Document, *, source: Source, asked_at: str
) -> None:
    """Keep the form in which the record's own path answers, beside the one its collection lists."""
    document = without_secrets(resource, document)
    gate = tx.gates.get(resource.table)
    if gate is not None and (document := gate(document)) is None:
        return
    key = usable_key(resource, document)
    if key is None:
        _flag(tx, resource, document, asked_at, "no usable key")
        return
    known = tx.execute(
        f"SELECT 1 FROM {quote(resource.table)} WHERE {quote(resource.key or '')} = ?", (key,)
    ).fetchone()
    if known is None:
        upsert(tx, resource, [document], source=source, asked_at=asked_at)
    tx.execute(
        f"UPDATE {quote(resource.table)} SET _item = ? WHERE {quote(resource.key or '')} = ?",
        (document.text, key),
    )


def delete_rows(tx: Transaction, resource: Resource, keys: Iterable[Key]) -> None:
    """Take rows out of a table: ended live calls, and what a write deleted on the platform."""
    tx.executemany(
        f"DELETE FROM {quote(resource.table)} WHERE {quote(resource.key or '')} = ?", [(key,) for key in keys]
    )


def usable_key(resource: Resource, document: Document) -> Key | None:
    """The record's key in its column's type; None where it has none that names exactly one row."""
    value = document.values.get(resource.key or "")
    if value is None or isinstance(value, bool | list | dict):
        return None
    if key_type(resource) == "TEXT":
        return str(column_value(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and value == str(int(value)):
        value = int(value)
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def usable_keys(resource: Resource, documents: Iterable[Document]) -> list[Key | None]:
    """`usable_key` of each."""
    name, whole = resource.key or "", key_type(resource) == "INTEGER"
    found: list[Key | None] = []
    for document in documents:
        value = document.values.get(name)
        plain = whole and value.__class__ is int and -(2**63) <= value < 2**63
        found.append(value if plain else usable_key(resource, document))
    return found


def without_secrets(resource: Resource, document: Document) -> Document:
    """`/me` without its SIP credentials, which are never stored (interface.md §6, Mirror)."""
    if resource.table != "me":
        return document
    kept = {name: value for name, value in document.values.items() if not name.startswith("sip_")}
    if len(kept) == len(document.values):
        return document
    return Document(as_text(kept), kept)


def _upsert_chunk(
    tx: Transaction,
    resource: Resource,
    chunk: list[Document],
    source: Source,
    asked_at: str,
    outcome: Upserted,
    extra: Sequence[str],
) -> None:
    keyed: dict[Key, Document] = {}
    if resource.table == "me":
        chunk = [without_secrets(resource, document) for document in chunk]
    for key, document in zip(usable_keys(resource, chunk), chunk, strict=True):
        if key is None:
            _flag(tx, resource, document, asked_at, "no usable key")
            outcome.flagged += 1
        else:
            keyed[key] = document
    stored = _stored(tx, resource, list(keyed))
    new: dict[Key, Document] = {}
    other: dict[Key, Document] = {}
    same: list[Key] = []
    for key, document in keyed.items():
        before = stored.get(key)
        if before is not None and (before[1] > asked_at or (before[2] or "") >= asked_at):
            outcome.outdated += 1
        elif before is not None and before[0] == document.text and before[2] is None:
            same.append(key)
        else:
            (outcome.inserted if before is None else outcome.updated).append(key)
            outcome.changed.append(document)
            (new if before is None else other)[key] = document
    outcome.unchanged += len(same)
    if new:
        shortcuts.inserting(tx, resource.table, new)
        # Not one statement for both: what may turn out an update makes SQLite ready to undo each row.
        _write(tx, _insert_sql(resource, extra), resource, new, source, asked_at, extra)
    if other:
        _write(tx, _upsert_sql(resource, extra), resource, other, source, asked_at, extra)
    if same:
        tx.execute(
            f"UPDATE {quote(resource.table)} SET _last_seen = ? "
            f"WHERE {quote(resource.key or '')} IN (SELECT value FROM json_each(?))",
            (asked_at, json.dumps(same)),
        )


def _stored(tx: Transaction, resource: Resource, keys: list[Key]) -> dict[Key, tuple[str, str, str | None]]:
    key = quote(resource.key or "")
    rows = tx.execute(
        f"SELECT {key}, _doc, _last_seen, _missing_since FROM {quote(resource.table)} "
        f"WHERE {key} IN (SELECT value FROM json_each(?))",
        (json.dumps(keys),),
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def _write(
    tx: Transaction,
    sql: str,
    resource: Resource,
    fresh: dict[Key, Document],
    source: Source,
    asked_at: str,
    extra: Sequence[str],
) -> None:
    names = [*(f.name for f in resource.fields), *extra]
    place, told = names.index(resource.key or ""), (asked_at, asked_at, source)
    rows = []
    for key, document in fresh.items():
        # What nearly all values are needs no look at each: SQLite itself refuses the others.
        row = [
            value if value.__class__ in _AS_IT_IS else column_value(value)
            for value in map(document.values.get, names)
        ]
        row[place] = key
        rows.append((*row, document.text, *told))
    try:
        tx.executemany(sql, rows)
    except (OverflowError, UnicodeEncodeError):
        # An integer beyond 64 bits, a lone surrogate. What stands before it is written already.
        exact = [_exact(resource, fresh[key], source, asked_at, key, extra) for key in fresh]
        tx.executemany(_upsert_sql(resource, extra), exact)


def _exact(
    resource: Resource,
    document: Document,
    source: Source,
    asked_at: str,
    key: Key | None,
    extra: Sequence[str],
) -> list[Any]:
    values = document.values
    row = [key if f.name == resource.key else column_value(values.get(f.name)) for f in resource.fields]
    row += [column_value(values.get(name)) for name in extra]
    return [*row, _storable(document.text), asked_at, asked_at, source]


def _storable(text: str) -> str:
    """Lone surrogates can't be UTF-8; escaped they are the same JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(read_object(text).values, separators=(",", ":"))
    return text


def _columns(resource: Resource, extra: Sequence[str]) -> Iterator[str]:
    for f in resource.fields:
        yield f.name
    yield from extra
    yield from ("_doc", "_first_seen", "_last_seen", "_source")


def _insert_sql(resource: Resource, extra: Sequence[str]) -> str:
    names = list(_columns(resource, extra))
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {quote(resource.table)} ({', '.join(map(quote, names))}) VALUES ({marks})"


def _upsert_sql(resource: Resource, extra: Sequence[str]) -> str:
    changing = [name for name in _columns(resource, extra) if name not in (resource.key, "_first_seen")]
    assignments = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in changing)
    return (
        f"{_insert_sql(resource, extra)} ON CONFLICT ({quote(resource.key or '')}) "
        f"DO UPDATE SET {assignments}, _missing_since = NULL"
    )


def _flag(tx: Transaction, resource: Resource, document: Document, at: str, reason: str) -> None:
    tx.execute(
        "INSERT OR IGNORE INTO _flagged (table_name, at, reason, doc) VALUES (?, ?, ?, ?)",
        (resource.table, at, reason, _storable(document.text)),
    )
