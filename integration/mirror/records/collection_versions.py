"""Version numbers of collections that grow: a cached page is valid while its version is."""

from __future__ import annotations

from collections.abc import Collection

from integration.mirror.records.rows import Key
from integration.sqlite.transaction import Transaction

CACHED_TABLES = ("cdrs", "monitors", "sms", "voicemessages")
"""Collections large enough for it to matter."""


def _build_triggers(table: str) -> str:
    # A look-back stamps what it saw again: that changes no answer, so it must not make a new version.
    # Of what is inserted `record_insert` tells: triggers for each row would double the price of a first load.
    change_condition = "new._doc IS NOT old._doc OR new._missing_since IS NOT old._missing_since"
    return f"""
INSERT OR IGNORE INTO _versions VALUES ('{table}', 0);
DROP TRIGGER IF EXISTS {table}_inserted;
CREATE TRIGGER IF NOT EXISTS {table}_deleted AFTER DELETE ON {table} BEGIN
    UPDATE _versions SET number = number + 1 WHERE name = '{table}';
END;
CREATE TRIGGER IF NOT EXISTS {table}_changed AFTER UPDATE ON {table} WHEN {change_condition} BEGIN
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
"""`_versions`: a number for each growing collection, another one whenever its records are. `_orders`: another
one only when the place of a record in the order of ids is."""


def record_insert(tx: Transaction, table: str, keys: Collection[Key]) -> None:
    """Records with these keys are about to be inserted; the one door for rows calls it (upsert.py)."""
    if table not in CACHED_TABLES or not keys:
        return
    tx.execute("UPDATE _versions SET number = number + 1 WHERE name = ?", (table,))
    tx.execute(
        f"UPDATE _orders SET number = number + 1 WHERE name = ? AND (SELECT max(id) FROM {table}) > ?",
        (table, min(keys)),
    )
