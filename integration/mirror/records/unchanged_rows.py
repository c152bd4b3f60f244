"""Rows that still hold exactly the records of a page.

A page with the same bytes need not be parsed and stored, if each of its rows is still as the page has it. A
webhook, a write, an erasure or another sync may have changed or deleted a row, so the rows themselves are
compared, in the transaction that marks them as seen.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from integration.catalogue.shapes import Resource
from integration.core.ids import id_list
from integration.core.json_records import JsonRecord
from integration.mirror.records.rows import Key, quote_identifier
from integration.mirror.records.upsert import list_usable_keys
from integration.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that are confirmed together.

    `keys` are in the order of the page, `digest` is a hash of the records in the order of their keys.
    """

    keys: Sequence[Key]
    digest: bytes


def make_group(resource: Resource, records: Sequence[JsonRecord]) -> RowGroup | None:
    """Make the group of `records`.

    Returns None for records that cannot be confirmed by their rows: without usable keys, with equal keys, or
    with text that is stored in another form.
    """
    texts_by_key: dict[Key, str] = {}
    for key, record in zip(list_usable_keys(resource, records), records, strict=True):
        if key is not None:
            texts_by_key[key] = record.text
    if len(texts_by_key) != len(records):
        return None
    keys = list(texts_by_key)
    try:
        digest = _hash_texts(texts_by_key[key] for key in sorted(keys))
    except UnicodeEncodeError:
        return None
    numbers = [key for key in keys if isinstance(key, int)]
    # Eight bytes for an id; a list of numbers takes 36.
    return RowGroup(array("q", numbers) if len(numbers) == len(keys) else tuple(keys), digest)


def confirm_rows(tx: Transaction, resource: Resource, group: RowGroup, *, requested_at: str) -> bool:
    """Mark the rows of `group` as seen at `requested_at` (UTC text).

    Returns False, and changes nothing, if a row is missing or has other content.
    """
    table, key = quote_identifier(resource.table), quote_identifier(resource.key or "")
    ids = id_list(group.keys)
    rows = tx.execute(
        f"SELECT _doc FROM {table} WHERE {key} IN (SELECT value FROM json_each(?))"
        f" AND _missing_since IS NULL ORDER BY {key}",
        (ids,),
    )
    if _hash_texts(row[0] for row in rows) != group.digest:
        return False
    tx.execute(
        f"UPDATE {table} SET _last_seen = ? WHERE {key} IN (SELECT value FROM json_each(?))"
        " AND _last_seen < ?",
        (requested_at, ids, requested_at),
    )
    return True


def _hash_texts(texts: Iterable[str]) -> bytes:
    result = blake2b(digest_size=16)
    for text in texts:
        result.update(text.encode())
        result.update(b"\0")
    return result.digest()
