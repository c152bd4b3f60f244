"""Changes of the order of records in growing collections, which invalidate positions (query/positions.py)."""

from __future__ import annotations

from collections.abc import Collection

from integration.mirror.records.rows import Key
from integration.sqlite.transaction import Transaction

ORDERED_TABLES = ("cdrs", "monitors", "sms", "voicemessages")
"""Tables with positions: collections with many pages, whose keys are ids."""


def _build_triggers(table: str) -> str:
    # `record_insert` counts insertions: a trigger per row would double the cost of an initial sync.
    return f"""
INSERT OR IGNORE INTO _orders VALUES ('{table}', 0);
CREATE TRIGGER IF NOT EXISTS {table}_deleted_before AFTER DELETE ON {table} BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = '{table}';
END;
CREATE TRIGGER IF NOT EXISTS {table}_missed_before AFTER UPDATE OF _missing_since ON {table}
    WHEN new._missing_since IS NOT old._missing_since BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = '{table}';
END;
"""


TABLES = """
CREATE TABLE IF NOT EXISTS _orders (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
""" + "".join(_build_triggers(table) for table in ORDERED_TABLES)
"""SQL script of the table and its triggers.

One number per table, increased when the position of a record in the order of ids changes.
"""


def record_insert(tx: Transaction, table: str, keys: Collection[Key]) -> None:
    """Increase the number of `table` before `upsert` inserts `keys`.

    Keys above the highest id of the table move no other record.
    """
    if table in ORDERED_TABLES and keys:
        tx.execute(
            f"UPDATE _orders SET number = number + 1 WHERE name = ? AND (SELECT max(id) FROM {table}) > ?",
            (table, min(keys)),
        )
