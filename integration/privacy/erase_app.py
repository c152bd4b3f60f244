"""Erase a number from house.db.

Call-back items and notes of its calls are deleted. In other tables the number is removed from the text.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from integration.core.ids import id_list
from integration.core.number_variants import Finder
from integration.mirror.privacy import scrub_tables
from integration.sqlite.transaction import Transaction
from integration.workspace.callback_items import recompute_items

_IN_LIST = "IN (SELECT value FROM json_each(?))"
_FREE_TEXT_COLUMNS = {
    "journal": ("body", "result"),
    "alert_log": ("subject", "body"),
    "alert_findings": ("text",),
    "notes": ("text",),
}
"""Columns with texts that may also name the person with the number."""
_SPECIAL_TABLES = frozenset(
    {"callbacks", "callback_calls", "callback_deeds", "erasures", "erased_records", "legal_holds"}
)


def find(
    connection: sqlite3.Connection,
    finder: Finder[Any],
    e164: str,
    leg_ids: Collection[int],
    call_ids: Collection[int],
) -> dict[str, int]:
    """Return the numbers of matching entries by label, without zeros."""
    counts = {
        "call-back items": len(_find_item_ids(connection, finder, e164, call_ids)),
        "notes": connection.execute(
            f"SELECT count(*) FROM notes WHERE leg_id {_IN_LIST}", (id_list(leg_ids),)
        ).fetchone()[0],
        "entries of logs, saved views, settings": sum(
            sum(1 for _ in scrub_tables.find_matching_rows(connection, table, finder))
            for table in _list_other_tables(connection)
        ),
    }
    return {description: count for description, count in counts.items() if count}


def erase(
    tx: Transaction, finder: Finder[Any], e164: str, leg_ids: Collection[int], call_ids: Collection[int]
) -> None:
    """Erase the number in the transaction `tx`.

    The arguments are those of `find`.
    """
    connection = tx.connection
    item_ids = json.dumps(_find_item_ids(connection, finder, e164, call_ids))
    matching_calls = [
        (row[0], row[1])
        for row in tx.execute("SELECT call_id, party FROM callback_calls").fetchall()
        if row[1] == e164 or row[0] in call_ids or finder.contains_number(row[1])
    ]
    matching_ids = json.dumps([call for call, _ in matching_calls])
    tx.execute(
        "DELETE FROM callback_deeds WHERE id IN"
        f" (SELECT deed_id FROM callback_deed_calls WHERE call_id {_IN_LIST})",
        (matching_ids,),
    )
    tx.execute(f"DELETE FROM callback_deed_calls WHERE call_id {_IN_LIST}", (matching_ids,))
    tx.execute(f"DELETE FROM callback_calls WHERE call_id {_IN_LIST}", (matching_ids,))
    tx.execute(f"DELETE FROM callbacks WHERE id {_IN_LIST}", (item_ids,))
    for party in {party for _, party in matching_calls}:
        recompute_items(tx, party)
    tx.execute(f"DELETE FROM notes WHERE leg_id {_IN_LIST}", (id_list(leg_ids),))
    for table in [*_list_other_tables(connection), "callbacks", "callback_deeds"]:
        if table == "idempotency":
            # Delete the stored response: a repeated write must not get a response with missing parts.
            for key, _ in list(scrub_tables.find_matching_rows(connection, table, finder)):
                condition = " AND ".join(f"{name} IS ?" for name in key)
                tx.execute(f"DELETE FROM idempotency WHERE {condition}", tuple(key.values()))
            continue
        scrub_tables.scrub_table(tx, table, finder, _FREE_TEXT_COLUMNS.get(table, ()))


def _find_item_ids(
    connection: sqlite3.Connection, finder: Finder[Any], e164: str, call_ids: Collection[int]
) -> list[int]:
    return [
        row[0]
        for row in connection.execute("SELECT id, party, last_call_id FROM callbacks")
        if row[1] == e164 or row[2] in call_ids or finder.contains_number(row[1])
    ]


def _list_other_tables(connection: sqlite3.Connection) -> list[str]:
    return [table for table in scrub_tables.list_tables(connection) if table not in _SPECIAL_TABLES]
