"""Item forms: records as their own paths return them, in column `_item`.

`_item` is kept only if it has fields that the list form (`_doc`) lacks, and only until the list form changes.
Table `_item_forms` stores when the own path of a record was last read, whether it added fields, and the links
that the platform sent with it. A record whose own path adds nothing is therefore not read by it repeatedly.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource
from integration.core.ids import id_list
from integration.core.json_records import JsonRecord, read_record, serialize_values
from integration.mirror.records import single_record
from integration.mirror.records.rows import Key, quote_identifier
from integration.mirror.records.single_record import StoredRecord
from integration.sqlite.readers import read_tolerantly
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _item_forms (
    table_name TEXT NOT NULL, key ANY NOT NULL, adds_fields INTEGER, read_at TEXT NOT NULL,
    links TEXT, PRIMARY KEY (table_name, key)
) STRICT, WITHOUT ROWID;
-- serves is_unread and find_oldest_read
CREATE INDEX IF NOT EXISTS _item_forms_adding ON _item_forms (table_name) WHERE adds_fields = 1;
"""
"""SQL script of the table.

`adds_fields`: 1 if the own path returned fields that the list lacks, 0 if not, NULL if the list form was not
read yet. `read_at`: start of the last request of the own path (UTC text). `links`: JSON object; NULL if the
platform sent none, or the list form has changed since.
"""


SAMPLE_SIZE = 50
"""Number of newest item forms in which `adds_field` looks for a documented field."""


def is_unread(connection: sqlite3.Connection, resource: Resource, record: StoredRecord) -> bool:
    """Return whether the own path can return more than the mirror.

    A record that was never read by its own path is judged by the catalogue and by other records.
    """
    if record.item is not None or record.item_adds_fields is False:
        return False
    if record.item_adds_fields or resource.has_item_only_fields:
        return True
    row = connection.execute(
        "SELECT 1 FROM _item_forms INDEXED BY _item_forms_adding WHERE table_name = ? AND adds_fields = 1"
        " LIMIT 1",
        (resource.table,),
    ).fetchone()
    return row is not None


def find_oldest_read(connection: sqlite3.Connection, resource: Resource) -> str | None:
    """Return the oldest read of an item form, as UTC text."""
    row = connection.execute(
        "SELECT min(read_at) FROM _item_forms INDEXED BY _item_forms_adding"
        " WHERE table_name = ? AND adds_fields = 1",
        (resource.table,),
    ).fetchone()
    return None if row is None else row[0]


def can_see(resource: Resource, hidden_fields: Collection[str]) -> bool:
    """Return whether item forms are visible where these fields are hidden.

    A viewer from whom a field of item forms is hidden, other than a secret, sees nothing of them.
    """
    return not any(
        field.item_only and field.name in hidden_fields and not is_secret(field.name)
        for field in resource.fields
    )


def adds_field(connection: sqlite3.Connection, resource: Resource, name: str) -> bool:
    """Return whether item forms have the field `name`, and list forms do not.

    A field that the documentation shows in lists is looked for in the texts of SAMPLE_SIZE records only,
    because filters use such fields most.
    """
    field = resource.field(name)
    if name == resource.key:
        return False
    is_sampled = field is not None and not field.item_only
    path, is_listed = (
        f'$."{name}"',
        "instr(_doc, ?3) > 0" if is_sampled else "json_type(_doc, ?4) IS NOT NULL",
    )
    row = connection.execute(
        "SELECT 1 FROM (SELECT key FROM _item_forms INDEXED BY _item_forms_adding"
        " WHERE table_name = ?1 AND adds_fields = 1 ORDER BY key DESC LIMIT ?2) AS forms"
        f" CROSS JOIN {quote_identifier(resource.table)} AS t"
        f" ON t.{quote_identifier(resource.key or '_n')} = forms.key"
        # instr comes first, because it is several times cheaper than parsing each record.
        f" WHERE NOT {is_listed} AND instr(_item, ?3) > 0 AND json_type(_item, ?4) IS NOT NULL LIMIT 1",
        (resource.table, SAMPLE_SIZE if is_sampled else -1, f'"{name}":', path),
    ).fetchone()
    return row is not None


def list_adding_keys(tx: Transaction, resource: Resource, keys: Collection[Key]) -> list[Key]:
    """Return the keys whose own paths added fields."""
    rows = tx.execute(
        "SELECT key FROM _item_forms WHERE table_name = ? AND adds_fields = 1"
        " AND key IN (SELECT value FROM json_each(?))",
        (resource.table, id_list(keys)),
    )
    return [row[0] for row in rows]


def store(
    tx: Transaction,
    resource: Resource,
    key: Key,
    text: str,
    *,
    adds_fields: bool | None,
    read_at: str,
    links: str | None,
) -> None:
    """Store the response of a record's own path.

    `_item` becomes `text` if it adds fields, otherwise null. `links`: JSON object that the platform sent.
    """
    tx.execute(
        f"UPDATE {quote_identifier(resource.table)} SET _item = ?"
        f" WHERE {quote_identifier(resource.key or '')} = ?",
        (text if adds_fields else None, key),
    )
    tx.execute(
        "INSERT INTO _item_forms (table_name, key, adds_fields, read_at, links) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (table_name, key) DO UPDATE SET"
        " adds_fields = excluded.adds_fields, read_at = excluded.read_at, links = excluded.links",
        (resource.table, key, adds_fields, read_at, links),
    )


def clear(tx: Transaction, resource: Resource, keys: Collection[Key]) -> None:
    """Clear `_item` of records that a write changed."""
    tx.execute(
        f"UPDATE {quote_identifier(resource.table)} SET _item = NULL WHERE _item IS NOT NULL"
        f" AND {quote_identifier(resource.key or '')} IN (SELECT value FROM json_each(?))",
        (id_list(keys),),
    )


def delete(tx: Transaction, resource: Resource, keys: Collection[Key]) -> None:
    """Delete what is stored about the item forms of deleted rows."""
    tx.execute(
        "DELETE FROM _item_forms WHERE table_name = ? AND key IN (SELECT value FROM json_each(?))",
        (resource.table, id_list(keys)),
    )


def compare_with_list(tx: Transaction, resource: Resource, list_forms: Mapping[Key, JsonRecord]) -> None:
    """Record whether own paths add fields to new list forms.

    Stored links are cleared, because they can lead to other records now.
    Call this function before the rows change: the item form of a record without `_item` is its `_doc`, if the
    list form was not read yet.
    """
    table, key_column = quote_identifier(resource.table), quote_identifier(resource.key or "")
    sql = (
        f"SELECT forms.key AS key, coalesce(_item, _doc) AS item FROM _item_forms AS forms"
        f" JOIN {table} ON {table}.{key_column} = forms.key"
        " WHERE forms.table_name = ? AND forms.key IN (SELECT value FROM json_each(?))"
        # A damaged text must not stop the sync that replaces it.
        " AND (forms.adds_fields IS NULL OR _item IS NOT NULL) AND json_valid(coalesce(_item, _doc))"
    )
    rows = read_tolerantly(
        tx.connection, lambda: tx.execute(sql, (resource.table, id_list(list_forms))).fetchall()
    )
    tx.executemany(
        "UPDATE _item_forms SET adds_fields = ? WHERE table_name = ? AND key = ?",
        [
            (_adds_fields(read_record(row["item"]), list_forms[row["key"]]), resource.table, row["key"])
            for row in rows
        ],
    )
    tx.execute(
        "UPDATE _item_forms SET links = NULL WHERE links IS NOT NULL AND table_name = ?"
        " AND key IN (SELECT value FROM json_each(?))",
        (resource.table, id_list(list_forms)),
    )


# --- list forms ----------------------------------------------------------------------------------------


def derive_list_form(tx: Transaction, resource: Resource, record: JsonRecord) -> JsonRecord:
    """Return a record without a row in the form of its list.

    These are the fields of the newest listed record, otherwise those that the catalogue does not restrict to
    the own path. A resource without a second form is returned unchanged.
    """
    if not (resource.has_item_only_fields or any(relation.is_includable for relation in resource.relations)):
        return record
    newest = single_record.find_newest(tx.connection, resource)
    item_only_fields = {field.name for field in resource.fields if field.item_only}
    values = {
        name: value
        for name, value in record.values.items()
        if (name in newest if newest is not None else name not in item_only_fields)
    }
    return record if len(values) == len(record.values) else JsonRecord(serialize_values(values), values)


def fit_to_list(stored_text: str, record: JsonRecord) -> JsonRecord:
    """Return `record` with the fields of the stored list form.

    Fields that `record` lacks keep their stored values.
    """
    stored_values = read_record(stored_text).values
    if list(stored_values) == list(record.values):
        return record
    values = {name: record.values.get(name, value) for name, value in stored_values.items()}
    text = serialize_values(values)
    return JsonRecord(stored_text if text == serialize_values(stored_values) else text, values)


def _adds_fields(item_form: JsonRecord, list_form: JsonRecord) -> bool:
    return not item_form.values.keys() <= list_form.values.keys()
