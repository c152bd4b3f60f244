"""Version numbers of growing collections, which invalidate cached pages."""

from __future__ import annotations

from collections.abc import Collection

from integration.mirror.records.rows import Key
from integration.sqlite.transaction import Transaction

CACHED_TABLES = ("cdrs", "monitors", "sms", "voicemessages")
"""Tables with version numbers: collections large enough for cached pages to pay."""


def _build_triggers(table: str) -> str:
    # An incremental sync updates `_last_seen` of records that it reads repeatedly. This changes no response,
    # so it must not change the version.
    # `record_insert` counts insertions: a trigger per row would double the cost of an initial sync.
    change_condition = " OR ".join(
        f"new.{column} IS NOT old.{column}" for column in ("_doc", "_item", "_missing_since")
    )
    return f"""
INSERT OR IGNORE INTO _versions VALUES ('{table}', 0);
DROP TRIGGER IF EXISTS {table}_inserted;
CREATE TRIGGER IF NOT EXISTS {table}_deleted AFTER DELETE ON {table} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
DROP TRIGGER IF EXISTS {table}_changed;
CREATE TRIGGER IF NOT EXISTS {table}_updated AFTER UPDATE ON {table} WHEN {change_condition} BEGIN
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
""" + "".join(_build_triggers(table) for table in CACHED_TABLES)
"""SQL script of the version tables and their triggers.

`_versions`: one number per table of CACHED_TABLES, increased whenever a record changes. `_orders`: the same,
increased only when the position of a record in the order of ids changes.
"""


def record_insert(tx: Transaction, table: str, keys: Collection[Key]) -> None:
    """Increase the version of `table` before `upsert` inserts `keys`.

    Keys above the highest id of the table move no other record, so the number in `_orders` stays.
    """
    if table not in CACHED_TABLES or not keys:
        return
    tx.execute("UPDATE _versions SET number = number + 1 WHERE name = ?", (table,))
    tx.execute(
        f"UPDATE _orders SET number = number + 1 WHERE name = ? AND (SELECT max(id) FROM {table}) > ?",
        (table, min(keys)),
    )
