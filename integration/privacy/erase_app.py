"""One number out of house.db: call-back items and notes of its calls go, elsewhere it is taken out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from integration.core.number_variants import Finder
from integration.mirror.privacy import scrub_tables as sweeping
from integration.sqlite.transaction import Transaction
from integration.workspace.callback_items import recompute

_AMONG = "IN (SELECT value FROM json_each(?))"
_WHOLE = {
    "journal": ("body", "result"),
    "alert_log": ("subject", "body"),
    "alert_findings": ("text",),
    "notes": ("text",),
}
"""Texts that name whom the number belongs to, beside it."""
_OWN_WAY = frozenset(
    {"callbacks", "callback_calls", "callback_deeds", "erasures", "erased_records", "legal_holds"}
)


def find(
    connection: sqlite3.Connection,
    finder: Finder[Any],
    e164: str,
    legs: Collection[int],
    calls: Collection[int],
) -> dict[str, int]:
    """What there is, in words: how many."""
    found = {
        "call-back items": len(_items(connection, finder, e164, calls)),
        "notes": connection.execute(
            f"SELECT count(*) FROM notes WHERE leg_id {_AMONG}", (json.dumps(list(legs)),)
        ).fetchone()[0],
        "entries of logs, saved views, settings": sum(
            sum(1 for _ in sweeping.naming(connection, table, finder)) for table in _others(connection)
        ),
    }
    return {what: number for what, number in found.items() if number}


def erase(
    tx: Transaction, finder: Finder[Any], e164: str, legs: Collection[int], calls: Collection[int]
) -> None:
    """In one transaction. The same arguments as `find`."""
    connection = tx.connection
    items = json.dumps(_items(connection, finder, e164, calls))
    theirs = [
        (row[0], row[1])
        for row in tx.execute("SELECT call_id, party FROM callback_calls").fetchall()
        if row[1] == e164 or row[0] in calls or finder.names(row[1])
    ]
    gone = json.dumps([call for call, _ in theirs])
    tx.execute(
        "DELETE FROM callback_deeds WHERE id IN"
        f" (SELECT deed_id FROM callback_deed_calls WHERE call_id {_AMONG})",
        (gone,),
    )
    tx.execute(f"DELETE FROM callback_deed_calls WHERE call_id {_AMONG}", (gone,))
    tx.execute(f"DELETE FROM callback_calls WHERE call_id {_AMONG}", (gone,))
    tx.execute(f"DELETE FROM callbacks WHERE id {_AMONG}", (items,))
    for party in {party for _, party in theirs}:
        recompute(tx, party)
    tx.execute(f"DELETE FROM notes WHERE leg_id {_AMONG}", (json.dumps(list(legs)),))
    for table in [*_others(connection), "callbacks", "callback_deeds"]:
        if table == "idempotency":
            # A repeat must not get half an answer.
            for key, _ in list(sweeping.naming(connection, table, finder)):
                where = " AND ".join(f"{name} IS ?" for name in key)
                tx.execute(f"DELETE FROM idempotency WHERE {where}", tuple(key.values()))
            continue
        sweeping.sweep(tx, table, finder, _WHOLE.get(table, ()))


def _items(
    connection: sqlite3.Connection, finder: Finder[Any], e164: str, calls: Collection[int]
) -> list[int]:
    return [
        row[0]
        for row in connection.execute("SELECT id, party, last_call_id FROM callbacks")
        if row[1] == e164 or row[2] in calls or finder.names(row[1])
    ]


def _others(connection: sqlite3.Connection) -> list[str]:
    return [table for table in sweeping.tables(connection) if table not in _OWN_WAY]
