"""Erase one number from mirror.db: find and strip its records.

Records are kept, so that calls are still counted, the counts of a day still equal those of the platform,
and no record has to be read twice. Contacts are deleted. Derived tables are recomputed from the stripped
records.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from integration.catalogue import get_resource
from integration.catalogue.events import EVENT_FIELDS
from integration.catalogue.shapes import Resource
from integration.core.ids import id_list
from integration.core.json_records import JsonRecord, read_record, to_column_value
from integration.core.number_variants import ERASED, Finder
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.calls.store import CallStore
from integration.mirror.derived.registry import DERIVED
from integration.mirror.privacy import retention_rules, scrub_tables
from integration.mirror.privacy.erasure_gate import (
    LEGS_KEY,
    OWN_NUMBER_TABLES,
    PERSON_TABLES,
    is_history,
    remove_number,
    strip_record,
)
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records.rows import UpsertResult, quote_identifier
from integration.mirror.schema import list_mirrored_resources
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

BATCH_SIZE = 500
"""Number of records stripped in one transaction."""

_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"
DERIVED_TABLES = {"_calls", "_legs", "_call_ids", "_due", "media"}.union(
    *(derived.tables for derived in DERIVED)
)
"""Tables recomputed from stripped records."""
_EVENT_TABLES = frozenset({"_leg_events", "_leg_live", "_sms_events"})
"""Tables of events from webhooks and polls, which are stripped separately."""


@dataclass(slots=True)
class ErasureMatches:
    """Records and files that contain the number or belong to its calls.

    `rows`: keys by table. `legs`, `calls`: ids of the legs and calls with the number. `files`: kind, id of
    the record and path below data_dir. `event_count`: number of events from webhooks and polls.
    `other_row_count`: number of rows of other tables. `own_number_tables`: tables that list the number as the
    account's own. `has_live_call`: a call with the number has not ended. `held_legs`: legs with the number
    that are under legal hold. `held`: keys of other data under legal hold, by table; it is left unchanged.
    """

    rows: dict[str, list[Any]] = field(default_factory=dict)
    legs: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    files: list[tuple[MediaKind, int, str]] = field(default_factory=list)
    event_count: int = 0
    other_row_count: int = 0
    own_number_tables: list[str] = field(default_factory=list)
    has_live_call: bool = False
    held_legs: list[int] = field(default_factory=list)
    held: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether the mirror has no record of the number."""
        return not (any(self.rows.values()) or self.event_count or self.other_row_count or self.calls)


def find(
    connection: sqlite3.Connection,
    finder: Finder[Any],
    e164: str,
    earlier_matches: Mapping[str, Collection[Any]],
    held_records: HeldRecords,
) -> ErasureMatches:
    """Search mirror.db for records of the number and of its calls.

    Data under legal hold is in `held_legs` and `held` only. `earlier_matches`: keys by table, and legs under
    `LEGS_KEY`, that an interrupted erasure has already found.
    """
    matches = ErasureMatches()
    for resource in list_mirrored_resources():
        keys = sorted(
            {*_find_record_keys(connection, resource, finder), *earlier_matches.get(resource.table, ())}
        )
        if resource.table in OWN_NUMBER_TABLES:
            matches.own_number_tables += [resource.table] if keys else []
        elif keys:
            matches.rows[resource.table] = keys
    event_legs = _find_event_legs(connection, finder, held_records)
    legs = set(event_legs) | {
        leg
        for table, fields in LEG_FIELDS.items()
        for name in fields
        for leg in _fetch_column(
            connection, f"SELECT {name} FROM {table} WHERE id {_IN_JSON_LIST}", matches.rows.get(table)
        )
        # 0 means “no leg”. Records of many persons contain it.
        if isinstance(leg, int) and leg > 0
    }
    legs.update(earlier_matches.get(LEGS_KEY, ()))
    matches.calls = _fetch_column(
        connection,
        "SELECT id FROM _calls WHERE party_e164 = ?2 OR id IN"
        " (SELECT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?1)))",
        legs,
        e164,
    )
    matches.legs = sorted(
        legs
        | set(
            _fetch_column(
                connection, f"SELECT leg_id FROM _legs WHERE call_id {_IN_JSON_LIST}", matches.calls
            )
        )
    )
    for table, fields in LEG_FIELDS.items():
        leg_condition = " OR ".join(f"{name} IN (SELECT value FROM json_each(?1))" for name in fields)
        keys = _fetch_column(connection, f"SELECT id FROM {table} WHERE {leg_condition}", matches.legs)
        if keys := sorted({*matches.rows.get(table, ()), *keys}):
            matches.rows[table] = keys
    matches.held_legs = [leg for leg in matches.legs if leg in held_records.legs]
    _exclude_held(connection, matches, held_records)
    matches.has_live_call = bool(
        _fetch_column(
            connection, f"SELECT id FROM _calls WHERE state <> 'ended' AND id {_IN_JSON_LIST}", matches.calls
        )
    )
    matches.files = list(_list_files(connection, matches.rows))
    matches.event_count = len(event_legs)
    for table in ("_sms_events", *_list_other_tables(connection)):
        for row in scrub_tables.find_matching_rows(connection, table, finder, held_records):
            if row.is_held:
                # The key of a subresource begins with the collection and the key of its record.
                key = list(row.key.values())
                matches.held.setdefault(table, []).append(
                    f"{key[0]} {key[1]}" if table == "_below" else key[0]
                )
            elif table == "_sms_events":
                matches.event_count += 1
            else:
                matches.other_row_count += 1
    return matches


def _exclude_held(connection: sqlite3.Connection, matches: ErasureMatches, held_records: HeldRecords) -> None:
    """Move the matches under legal hold to `held`."""
    if not held_records:
        return
    matches.calls = held_records.exclude_held_calls(connection, matches.calls)
    matches.legs = [leg for leg in matches.legs if leg not in held_records.legs]
    for resource in list_mirrored_resources():
        keys = matches.rows.get(resource.table, [])
        held_keys = held_records.find_held_keys(connection, resource.table, keys, resource.key or "_n")
        if held_keys:
            matches.held[resource.table] = sorted(held_keys)
            matches.rows[resource.table] = [key for key in keys if key not in held_keys]


def strip(
    mirror_db: Database,
    matches: ErasureMatches,
    finder: Finder[Any],
    call_store: CallStore,
    held_records: HeldRecords,
) -> None:
    """Strip the matches of `find` in small transactions. Raises StorageError."""

    def split_into_batches(keys: list[Any]) -> Iterator[list[Any]]:
        for begin in range(0, len(keys), BATCH_SIZE):
            yield keys[begin : begin + BATCH_SIZE]

    by_table = {resource.table: resource for resource in list_mirrored_resources()}
    for legs in split_into_batches(matches.legs):
        mirror_db.write(lambda tx, legs=legs: _strip_events(tx, legs, finder, held_records))  # type: ignore[misc]
    for table, keys in sorted(matches.rows.items(), key=lambda item: item[0] not in PERSON_TABLES):
        for batch in split_into_batches(keys):
            mirror_db.write(
                lambda tx, batch=batch, resource=by_table[table]: _strip_records(  # type: ignore[misc]
                    tx, resource, batch, finder
                )
            )
    # The fields of an event can have other names than documented, so its text is removed with the number.
    mirror_db.write(
        lambda tx: scrub_tables.scrub_table(tx, "_sms_events", finder, held_records, deletes_rows=True)
    )
    for legs in split_into_batches(matches.legs):
        mirror_db.write(lambda tx, legs=legs: call_store.refresh(tx, legs))  # type: ignore[misc]
    with mirror_db.read() as connection:
        other_tables = _list_other_tables(connection)
    for table in other_tables:
        mirror_db.write(
            lambda tx, table=table: scrub_tables.scrub_table(tx, table, finder, held_records)  # type: ignore[misc]
        )


def remove_files(mirror_db: Database, data_dir: Path, matches: ErasureMatches) -> None:
    """Delete the files of the matches permanently. Raises OSError, StorageError."""
    for kind in get_args(MediaKind):
        if files := [(record_id, path) for file_kind, record_id, path in matches.files if file_kind == kind]:
            retention_rules.remove_files(mirror_db, data_dir, kind, files, retention_rules.ERASED_REASON)


def list_erased_paths(connection: sqlite3.Connection) -> list[str]:
    """Return the paths below data_dir of all files that erasures deleted."""
    rows = connection.execute("SELECT path FROM media WHERE last_error = ?", (retention_rules.ERASED_REASON,))
    return [row[0] for row in rows if row[0]]


def optimize_search_index(tx: Transaction) -> None:
    """Merge the search index. Until then it contains trigrams of removed texts."""
    tx.execute("INSERT INTO _calls_search (_calls_search) VALUES ('optimize')")


# --- finding -------------------------------------------------------------------------------------------


def _get_key_column(resource: Resource) -> str:
    return quote_identifier(resource.key or "_n")


def _find_record_keys(connection: sqlite3.Connection, resource: Resource, finder: Finder[Any]) -> list[Any]:
    rows = connection.execute(
        f"SELECT {_get_key_column(resource)}, _doc, _item FROM {quote_identifier(resource.table)}"
    )
    return [
        row[0]
        for row in rows
        if finder.contains_number(row[1]) or (row[2] and finder.contains_number(row[2]))
    ]


def _find_event_legs(
    connection: sqlite3.Connection, finder: Finder[Any], held_records: HeldRecords
) -> list[int]:
    """Return the leg ids of events with the number, one per event.

    Events that name a held number are left out.
    """
    rows = connection.execute(
        "SELECT leg_id, doc FROM _leg_events"
        " UNION ALL SELECT leg_id, doc FROM _leg_live WHERE doc IS NOT NULL"
    )
    return [leg for leg, doc in rows if finder.contains_number(doc) and not held_records.is_text_held(doc)]


def _list_files(
    connection: sqlite3.Connection, rows: dict[str, list[Any]]
) -> Iterator[tuple[MediaKind, int, str]]:
    for kind in get_args(MediaKind):
        keys = rows.get(media_files.get_record_table(kind))
        if keys:
            for row in connection.execute(
                "SELECT record_id, path FROM media WHERE kind = ? AND state <> 'gone'"
                f" AND record_id {_IN_JSON_LIST}",
                (kind, id_list(keys)),
            ):
                yield kind, row[0], row[1]


def _list_other_tables(connection: sqlite3.Connection) -> list[str]:
    handled_tables = (
        {resource.table for resource in list_mirrored_resources()} | DERIVED_TABLES | _EVENT_TABLES
    )
    return [table for table in scrub_tables.list_tables(connection) if table not in handled_tables]


def _fetch_column(connection: sqlite3.Connection, sql: str, ids: Any, *parameters: Any) -> list[Any]:
    return [row[0] for row in connection.execute(sql, (id_list(sorted(ids or ())), *parameters))]


# --- stripping -----------------------------------------------------------------------------------------


def _strip_records(tx: Transaction, resource: Resource, keys: list[Any], finder: Finder[Any]) -> None:
    if resource.table in PERSON_TABLES:
        tx.execute(
            f"DELETE FROM {quote_identifier(resource.table)}"
            f" WHERE {_get_key_column(resource)} {_IN_JSON_LIST}",
            (id_list(keys),),
        )
        tx.execute(
            f"DELETE FROM _below WHERE collection = ? AND key {_IN_JSON_LIST}",
            (resource.collection, id_list(keys)),
        )
        return
    columns = [field.name for field in resource.fields if field.name != resource.key]
    assignments = ", ".join(f"{quote_identifier(name)} = ?" for name in (*columns, "_doc", "_item"))
    changed: list[JsonRecord] = []
    for key, doc, item in tx.execute(
        f"SELECT {_get_key_column(resource)}, _doc, _item FROM {quote_identifier(resource.table)}"
        f" WHERE {_get_key_column(resource)} {_IN_JSON_LIST}",
        (id_list(keys),),
    ).fetchall():
        record = _strip_text(resource, doc, finder)
        changed.append(record)
        values = [to_column_value(record.values.get(name)) for name in columns]
        tx.execute(
            f"UPDATE {quote_identifier(resource.table)} SET {assignments}"
            f" WHERE {_get_key_column(resource)} = ?",
            (*values, record.text, item and _strip_text(resource, item, finder).text, key),
        )
    tx.execute(
        f"DELETE FROM _below WHERE collection = ? AND key {_IN_JSON_LIST}",
        (resource.collection, id_list(keys)),
    )
    for hook in tx.hooks.get(resource.table, ()):
        hook(tx, UpsertResult(updated=list(keys), changed=changed))


def _strip_text(resource: Resource, text: str, finder: Finder[Any]) -> JsonRecord:
    if is_history(resource):
        return strip_record(read_record(text), resource.fields, finder.contains_number)
    return read_record(remove_number(text, finder))


def _strip_events(tx: Transaction, legs: list[int], finder: Finder[Any], held_records: HeldRecords) -> None:
    rows = tx.execute(
        f"SELECT event_id, body_hash, src, dst, doc FROM _leg_events WHERE leg_id {_IN_JSON_LIST}",
        (id_list(legs),),
    ).fetchall()
    for event_id, body_hash, src, dst, doc in rows:
        if held_records.is_text_held(doc):
            continue
        text = strip_record(read_record(doc), EVENT_FIELDS, finder.contains_number).text
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        tx.execute(
            # Two events that differ only in the erased values become equal. OR REPLACE keeps one of them.
            "UPDATE OR REPLACE _leg_events SET event_id = ?, body_hash = ?, src = ?, dst = ?,"
            " src_name = NULL, dst_name = NULL, dtmf_tag = NULL, doc = ?"
            " WHERE event_id = ? AND body_hash = ?",
            (
                f"sha256:{digest}" if event_id.startswith("sha256:") else event_id,
                digest[:32],
                *(ERASED if number and finder.contains_number(number) else number for number in (src, dst)),
                text,
                event_id,
                body_hash,
            ),
        )
    live_call_fields = get_resource("calls").fields
    for leg, doc in tx.execute(
        f"SELECT leg_id, doc FROM _leg_live WHERE doc IS NOT NULL AND leg_id {_IN_JSON_LIST}",
        (id_list(legs),),
    ).fetchall():
        if held_records.is_text_held(doc):
            continue
        text = strip_record(read_record(doc), live_call_fields, finder.contains_number).text
        tx.execute("UPDATE _leg_live SET doc = ? WHERE leg_id = ?", (text, leg))
