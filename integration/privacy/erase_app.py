"""Erase a number from house.db.

Call-back items and notes of its calls are deleted. In other tables the number is removed from the text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from integration.core.ids import id_list
from integration.core.number_variants import Finder
from integration.mirror.privacy import scrub_tables
from integration.mirror.privacy.held_records import HeldRecords
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
OTHER_ROWS = "entries of logs, saved views, settings"
_SPECIAL_TABLES = frozenset(
    {"callbacks", "callback_calls", "callback_deeds", "erasures", "erased_records", "legal_holds"}
)


@dataclass(slots=True)
class AppMatches:
    """Entries of house.db with the number.

    `item_ids`: call-back items. `call_ids`: calls of the call-back list, `action_ids`: their actions.
    `note_ids`: notes of its calls. `other_row_count`: rows of other tables. `held`: keys of rows under legal
    hold, by table; they are left unchanged.
    """

    item_ids: list[int] = field(default_factory=list)
    call_ids: list[int] = field(default_factory=list)
    parties: set[str] = field(default_factory=set)
    action_ids: list[int] = field(default_factory=list)
    note_ids: list[int] = field(default_factory=list)
    other_row_count: int = 0
    held: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of entries by label, without zeros."""
        counts = {
            "call-back items": len(self.item_ids),
            "notes": len(self.note_ids),
            OTHER_ROWS: self.other_row_count,
        }
        return {label: number for label, number in counts.items() if number}


def find(
    connection: sqlite3.Connection,
    finder: Finder[Any],
    e164: str,
    leg_ids: Collection[int],
    call_ids: Collection[int],
    held_records: HeldRecords,
) -> AppMatches:
    """Search house.db for entries with the number, or of its calls."""
    matches = AppMatches()

    def select(table: str, key: str, condition: Callable[[dict[str, Any]], bool]) -> Iterator[dict[str, Any]]:
        for row in connection.execute(f"SELECT * FROM {table}"):
            values = dict(zip(row.keys(), row, strict=True))
            if condition(values):
                if held_records.are_values_held(values):
                    matches.held.setdefault(table, []).append(values[key])
                else:
                    yield values

    def is_party(values: dict[str, Any]) -> bool:
        return values["party"] == e164 or finder.contains_number(values["party"])

    items = select("callbacks", "id", lambda row: is_party(row) or row["last_call_id"] in call_ids)
    matches.item_ids = [row["id"] for row in items]
    calls = list(select("callback_calls", "call_id", lambda row: is_party(row) or row["call_id"] in call_ids))
    matches.call_ids = [row["call_id"] for row in calls]
    matches.parties = {row["party"] for row in calls}
    matches.note_ids = [row["id"] for row in select("notes", "id", lambda row: row["leg_id"] in leg_ids)]
    action_ids = {
        row[0]
        for row in connection.execute(
            f"SELECT deed_id FROM callback_deed_calls WHERE call_id {_IN_LIST}", (id_list(matches.call_ids),)
        )
    }
    matches.action_ids = [
        row["id"] for row in select("callback_deeds", "id", lambda row: row["id"] in action_ids)
    ]
    for table in _list_other_tables(connection):
        for row in scrub_tables.find_matching_rows(connection, table, finder, held_records):
            if not row.is_held:
                matches.other_row_count += 1
            elif (key := next(iter(row.key.values()))) not in matches.held.setdefault(table, []):
                matches.held[table].append(key)
    return matches


def erase(tx: Transaction, finder: Finder[Any], matches: AppMatches, held_records: HeldRecords) -> None:
    """Erase the matches of `find` in the transaction `tx`."""
    call_ids, action_ids = id_list(matches.call_ids), id_list(matches.action_ids)
    tx.execute(f"DELETE FROM callback_deeds WHERE id {_IN_LIST}", (action_ids,))
    tx.execute(f"DELETE FROM callback_deed_calls WHERE deed_id {_IN_LIST}", (action_ids,))
    tx.execute(f"DELETE FROM callback_calls WHERE call_id {_IN_LIST}", (call_ids,))
    tx.execute(f"DELETE FROM callbacks WHERE id {_IN_LIST}", (id_list(matches.item_ids),))
    for party in matches.parties:
        recompute_items(tx, party)
    tx.execute(f"DELETE FROM notes WHERE id {_IN_LIST}", (id_list(matches.note_ids),))
    for table in [*_list_other_tables(tx.connection), "callbacks", "callback_deeds"]:
        scrub_tables.scrub_table(
            tx,
            table,
            finder,
            held_records,
            erased_columns=_FREE_TEXT_COLUMNS.get(table, ()),
            # A repeated write must not get a response with missing parts.
            deletes_rows=table == "idempotency",
        )


def _list_other_tables(connection: sqlite3.Connection) -> list[str]:
    return [table for table in scrub_tables.list_tables(connection) if table not in _SPECIAL_TABLES]
