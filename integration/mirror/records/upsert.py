"""Upsert records into the collection tables. All sources use this module.

The newer read wins: a record requested before `_last_seen` of its row, or not after `_missing_since`, is
ignored. Data derived from rows (calls from CDRs, threads from SMS) is updated by the database's hooks in
the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from types import NoneType
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.ids import MAX_ID, as_id, id_list, parse_id
from integration.core.json_records import (
    JsonRecord,
    escape_surrogates,
    read_record,
    serialize_values,
    to_column_value,
)
from integration.mirror.records import item_forms, record_order
from integration.mirror.records.rows import Key, Source, UpsertResult, get_key_type, quote_identifier
from integration.sqlite.readers import read_tolerantly
from integration.sqlite.transaction import Transaction

BATCH_SIZE = 5000
"""Number of records read, and written, by one statement."""

_STORABLE_TYPES = frozenset({NoneType, bool, int, float, str})


def upsert(
    tx: Transaction,
    resource: Resource,
    records: Iterable[JsonRecord],
    *,
    source: Source,
    requested_at: str,
) -> UpsertResult:
    """Store `records` of `resource`.

    `requested_at`: start of the request that returned them (UTC text). A record without a usable key is
    stored in `_flagged`, never dropped. Of two records with the same key the later one in `records` is
    stored.
    """
    result = UpsertResult()
    gate = tx.gates.get(resource.table)
    iterator = iter(records) if gate is None else filter(None, map(gate, records))
    while chunk := list(islice(iterator, BATCH_SIZE)):
        _upsert_chunk(tx, resource, chunk, source, requested_at, result)
    if result.changed:
        for hook in tx.hooks.get(resource.table, ()):
            hook(tx, result)
    return result


def replace_all(
    tx: Transaction, resource: Resource, records: Sequence[JsonRecord], *, source: Source, requested_at: str
) -> UpsertResult:
    """Replace all rows of a collection without keys by a complete response.

    A record with the same text as a stored one keeps its `_first_seen`. `inserted` of the result has
    positions in `records`; `updated` is empty, because without keys a changed record is a deleted and a new
    one.
    """
    table, result = quote_identifier(resource.table), UpsertResult()
    if (gate := tx.gates.get(resource.table)) is not None:
        records = [gated for record in records if (gated := gate(record)) is not None]
    first_seen_by_text: dict[str, list[str]] = {}
    stored_texts = []
    sql = f"SELECT _doc, _first_seen FROM {table} ORDER BY _n"
    for row in read_tolerantly(tx.connection, lambda: tx.execute(sql).fetchall()):
        first_seen_by_text.setdefault(row[0], []).append(row[1])
        stored_texts.append(row[0])
    texts = [escape_surrogates(record.text) for record in records]
    if texts == stored_texts:
        tx.execute(f"UPDATE {table} SET _last_seen = ?", (requested_at,))
        result.unchanged = len(texts)
        return result
    rows: list[tuple[Any, ...]] = []
    for record, text in zip(records, texts, strict=True):
        row = _make_row(resource, record, source, requested_at, None)
        if first_seen_by_text.get(text):
            row[-3] = first_seen_by_text[text].pop()
            result.unchanged += 1
        else:
            result.inserted.append(len(rows))
        rows.append(tuple(row))
    tx.execute(f"DELETE FROM {table}")
    tx.executemany(_build_insert_sql(resource), rows)
    return result


def store_item(
    tx: Transaction, resource: Resource, record: JsonRecord, *, source: Source, requested_at: str
) -> None:
    """Store the form that the record's own path returns.

    Without additional fields it is the list form and is stored as such; otherwise it is stored in `_item`.
    The newer read wins. A record without a row is inserted in both forms.
    """
    received = record
    record = remove_sip_credentials(resource, record)
    gate = tx.gates.get(resource.table)
    if gate is not None and (record := gate(record)) is None:
        return
    key = get_usable_key(resource, record)
    if key is None:
        _store_flagged(tx, resource, record, requested_at)
        return
    row = tx.execute(
        "SELECT _doc, _missing_since, _source, max(_last_seen, coalesce((SELECT read_at FROM _item_forms"
        " WHERE table_name = ?1 AND key = ?2), '')) AS read_at"
        f" FROM {quote_identifier(resource.table)} WHERE {quote_identifier(resource.key or '')} = ?2",
        (resource.table, key),
    ).fetchone()
    list_form, adds_fields = record, None
    if row is None:
        list_form = item_forms.derive_list_form(tx, resource, record)
        adds_fields = True if list_form is not record else None
    else:
        if _is_outdated(requested_at, row["read_at"], row["_missing_since"]):
            return
        stored_form = read_record(row["_doc"])
        if row["_source"] == "webhook":
            # A webhook has fewer fields than the list, so the record is nearer to the list form.
            values = {**stored_form.values, **record.values}
            list_form = JsonRecord(serialize_values(values), values)
        elif adds_fields := not record.values.keys() <= stored_form.values.keys():
            list_form = JsonRecord(row["_doc"], stored_form.values)
        else:
            list_form = item_forms.fit_to_list(row["_doc"], record)
    if row is None or row["_missing_since"] is not None or not adds_fields:
        upsert(tx, resource, [list_form], source=source, requested_at=requested_at)
    item_forms.store(
        tx,
        resource,
        key,
        escape_surrogates(record.text),
        adds_fields=adds_fields,
        read_at=requested_at,
        # Links of a changed record may contain what was removed from it.
        links=received.links if record.text == received.text else None,
    )


def delete_rows(tx: Transaction, resource: Resource, keys: Iterable[Key]) -> None:
    """Delete rows: ended live calls, and records deleted on the platform."""
    key_list = list(keys)
    tx.execute(
        f"DELETE FROM {quote_identifier(resource.table)} WHERE {quote_identifier(resource.key or '')}"
        " IN (SELECT value FROM json_each(?))",
        (id_list(key_list),),
    )
    item_forms.delete(tx, resource, key_list)


def get_usable_key(resource: Resource, record: JsonRecord) -> Key | None:
    """Return the key in the type of its column, or None.

    None if the value does not identify exactly one row.
    """
    value = record.values.get(resource.key or "")
    if value is None or isinstance(value, bool | list | dict):
        return None
    if get_key_type(resource) == "TEXT":
        return str(to_column_value(value))
    if isinstance(value, str):
        key = parse_id(value)
        return key if value == str(key) else None
    return as_id(value)


def list_usable_keys(resource: Resource, records: Iterable[JsonRecord]) -> list[Key | None]:
    """Return `get_usable_key` of each record, with a fast path for plain integers."""
    name, is_integer_key = resource.key or "", get_key_type(resource) == "INTEGER"
    keys: list[Key | None] = []
    for record in records:
        value = record.values.get(name)
        is_plain_integer = is_integer_key and value.__class__ is int and -MAX_ID <= value <= MAX_ID
        keys.append(value if is_plain_integer else get_usable_key(resource, record))
    return keys


def remove_sip_credentials(resource: Resource, record: JsonRecord) -> JsonRecord:
    """Return a record of `/me` without its SIP credentials.

    They are never stored. Records of other collections are returned unchanged.
    """
    if resource.table != "me":
        return record
    values = {name: value for name, value in record.values.items() if not name.startswith("sip_")}
    if len(values) == len(record.values):
        return record
    return JsonRecord(serialize_values(values), values)


def _upsert_chunk(
    tx: Transaction,
    resource: Resource,
    chunk: list[JsonRecord],
    source: Source,
    requested_at: str,
    result: UpsertResult,
) -> None:
    records_by_key: dict[Key, JsonRecord] = {}
    if resource.table == "me":
        chunk = [remove_sip_credentials(resource, record) for record in chunk]
    for key, record in zip(list_usable_keys(resource, chunk), chunk, strict=True):
        if key is None:
            _store_flagged(tx, resource, record, requested_at)
            result.flagged += 1
        else:
            records_by_key[key] = record
    stored_rows = _fetch_stored_rows(tx, resource, list(records_by_key))
    new_records: dict[Key, JsonRecord] = {}
    changed_records: dict[Key, JsonRecord] = {}
    unchanged_keys: list[Key] = []
    for key, record in records_by_key.items():
        stored_row = stored_rows.get(key)
        if stored_row is not None and _is_outdated(requested_at, stored_row[1], stored_row[2]):
            result.outdated += 1
        elif stored_row is not None and stored_row[0] == record.text and stored_row[2] is None:
            unchanged_keys.append(key)
        else:
            (result.inserted if stored_row is None else result.updated).append(key)
            result.changed.append(record)
            (new_records if stored_row is None else changed_records)[key] = record
    result.unchanged += len(unchanged_keys)
    if new_records:
        record_order.record_insert(tx, resource.table, new_records)
        # New and changed records have separate statements: for an upsert SQLite prepares to undo each row.
        _write_rows(tx, _build_insert_sql(resource), resource, new_records, source, requested_at)
    if changed_records:
        if source in ("sync", "read"):
            item_forms.compare_with_list(tx, resource, changed_records)
        _write_rows(tx, _build_upsert_sql(resource), resource, changed_records, source, requested_at)
    if unchanged_keys:
        tx.execute(
            f"UPDATE {quote_identifier(resource.table)} SET _last_seen = ? "
            f"WHERE {quote_identifier(resource.key or '')} IN (SELECT value FROM json_each(?))",
            (requested_at, id_list(unchanged_keys)),
        )


def _is_outdated(requested_at: str, last_seen: str, missing_since: str | None) -> bool:
    """Return whether the stored row is newer than the record."""
    return last_seen > requested_at or (missing_since or "") >= requested_at


def _fetch_stored_rows(
    tx: Transaction, resource: Resource, keys: list[Key]
) -> dict[Key, tuple[str, str, str | None]]:
    key = quote_identifier(resource.key or "")
    sql = (
        f"SELECT {key}, _doc, _last_seen, _missing_since FROM {quote_identifier(resource.table)} "
        f"WHERE {key} IN (SELECT value FROM json_each(?))"
    )

    def read() -> dict[Key, tuple[str, str, str | None]]:
        return {row[0]: (row[1], row[2], row[3]) for row in tx.execute(sql, (id_list(keys),))}

    # A damaged text must not stop the sync that replaces it.
    return read_tolerantly(tx.connection, read)


def _write_rows(
    tx: Transaction,
    sql: str,
    resource: Resource,
    records_by_key: dict[Key, JsonRecord],
    source: Source,
    requested_at: str,
) -> None:
    names = [f.name for f in resource.fields]
    key_index, bookkeeping = names.index(resource.key or ""), (requested_at, requested_at, source)
    get_all = itemgetter(*names, names[0])  # With a single name it would return no tuple.
    rows = []
    # In order: by descending key, as history is read, SQLite would leave half of each page empty.
    for key, record in sorted(records_by_key.items(), key=itemgetter(0)):
        try:
            *row, _ = get_all(record.values)
        except KeyError:
            row = [record.values.get(name) for name in names]
        # Values of these types need no conversion. SQLite rejects those that it cannot store.
        if not _STORABLE_TYPES.issuperset(map(type, row)):
            row = [value if type(value) in _STORABLE_TYPES else to_column_value(value) for value in row]
        row[key_index] = key
        rows.append((*row, record.text, *bookkeeping))
    try:
        tx.executemany(sql, rows)
    except (OverflowError, UnicodeEncodeError):
        # An integer beyond 64 bits or a lone surrogate. Rows before it are already written, so upsert.
        exact_rows = [
            _make_row(resource, records_by_key[key], source, requested_at, key) for key in records_by_key
        ]
        tx.executemany(_build_upsert_sql(resource), exact_rows)


def _make_row(
    resource: Resource,
    record: JsonRecord,
    source: Source,
    requested_at: str,
    key: Key | None,
) -> list[Any]:
    values = record.values
    row = [key if f.name == resource.key else to_column_value(values.get(f.name)) for f in resource.fields]
    return [*row, escape_surrogates(record.text), requested_at, requested_at, source]


def _list_columns(resource: Resource) -> Iterator[str]:
    for f in resource.fields:
        yield f.name
    yield from ("_doc", "_first_seen", "_last_seen", "_source")


def _build_insert_sql(resource: Resource) -> str:
    """Return the SQL of a row. OR FAIL: see `calls/schema`. A CDR takes 12 µs instead of 20."""
    names = list(_list_columns(resource))
    placeholders = ", ".join("?" * len(names))
    return (
        f"INSERT OR FAIL INTO {quote_identifier(resource.table)} ({', '.join(map(quote_identifier, names))})"
        f" VALUES ({placeholders})"
    )


def _build_upsert_sql(resource: Resource) -> str:
    updated_columns = [name for name in _list_columns(resource) if name not in (resource.key, "_first_seen")]
    assignments = ", ".join(
        f"{quote_identifier(name)} = excluded.{quote_identifier(name)}" for name in updated_columns
    )
    return (
        f"{_build_insert_sql(resource)} "
        f"ON CONFLICT ({quote_identifier(resource.key or '')}) "
        f"DO UPDATE SET {assignments}, _missing_since = NULL,"
        # The item form belongs to the list form; it is read again when that has changed.
        " _item = CASE WHEN _doc = excluded._doc THEN _item END"
    )


def _store_flagged(tx: Transaction, resource: Resource, record: JsonRecord, flagged_at: str) -> None:
    tx.execute(
        "INSERT OR IGNORE INTO _flagged (table_name, at, reason, doc) VALUES (?, ?, ?, ?)",
        (resource.table, flagged_at, "no usable key", escape_surrogates(record.text)),
    )
