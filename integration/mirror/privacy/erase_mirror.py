"""One number out of mirror.db: what tells of it is found, and stripped of it.

The records stay, so that calls are still counted, days still agree with the platform's own counts, and
nothing has to be learnt again; contacts go. What is derived from them is derived anew.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from integration.catalogue.shapes import Resource
from integration.core.json_records import Document, column_value, read_object
from integration.core.number_variants import ERASED, Finder
from integration.mirror.calls.store import CallStore
from integration.mirror.hooks import LEG_FIELDS
from integration.mirror.privacy import retention_rules as expiry
from integration.mirror.privacy import scrub_tables as sweeping
from integration.mirror.privacy.erasure_gate import LEGS, OWN, PERSONS, dumped, is_history, stripped, without
from integration.mirror.records import promoted_fields as promoted
from integration.mirror.records.rows import Upserted, quote
from integration.mirror.schema import mirrored
from integration.mirror.sync_state import media_files as media
from integration.mirror.sync_state.media_files import Kind
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

SLICE = 500

_AMONG = "IN (SELECT value FROM json_each(?))"
_DERIVED = frozenset({"_calls", "_legs", "_call_ids", "_contact_numbers", "_report_days", "media"})
"""Made anew from what is stripped."""
_TOLD = frozenset({"_leg_events", "_leg_live", "_sms_events"})
"""What webhooks and polls told, with a way of its own."""


@dataclass(slots=True)
class Found:
    """`rows`: keys by table; `legs` and `calls` of the person; `files` with their path below data_dir; `told`
    counts what webhooks and polls told, `elsewhere` rows of other tables. `own`: tables that have the number
    as ours; `going_on`: a call with it is."""

    rows: dict[str, list[Any]] = field(default_factory=dict)
    legs: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    files: list[tuple[Kind, int, str]] = field(default_factory=list)
    told: int = 0
    elsewhere: int = 0
    own: list[str] = field(default_factory=list)
    going_on: bool = False

    @property
    def empty(self) -> bool:
        return not (any(self.rows.values()) or self.told or self.elsewhere or self.calls)


def find(
    connection: sqlite3.Connection, finder: Finder[Any], e164: str, also: Mapping[str, Collection[Any]]
) -> Found:
    """Read all of mirror.db for what names the number, or belongs to a call with it. `also`: records (and
    `LEGS`) that an erasure which was broken off has found already."""
    found = Found()
    for resource in mirrored():
        keys = sorted({*_naming(connection, resource, finder), *also.get(resource.table, ())})
        if resource.table in OWN:
            found.own += [resource.table] if keys else []
        elif keys:
            found.rows[resource.table] = keys
    told = {row[0] for row in _events(connection, finder)} | {row[0] for row in _live(connection, finder)}
    legs = told | {
        leg
        for table, fields in LEG_FIELDS.items()
        for name in fields
        for leg in _column(connection, f"SELECT {name} FROM {table} WHERE id {_AMONG}", found.rows.get(table))
        # 0 stands for no leg in records of many people.
        if isinstance(leg, int) and leg > 0
    }
    legs.update(also.get(LEGS, ()))
    found.calls = _column(
        connection,
        "SELECT id FROM _calls WHERE party_e164 = ?2 OR id IN"
        " (SELECT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?1)))",
        legs,
        e164,
    )
    found.legs = sorted(
        legs | set(_column(connection, f"SELECT leg_id FROM _legs WHERE call_id {_AMONG}", found.calls))
    )
    for table, fields in LEG_FIELDS.items():
        among = " OR ".join(f"{name} IN (SELECT value FROM json_each(?1))" for name in fields)
        keys = _column(connection, f"SELECT id FROM {table} WHERE {among}", found.legs)
        if keys := sorted({*found.rows.get(table, ()), *keys}):
            found.rows[table] = keys
    found.going_on = bool(
        _column(connection, f"SELECT id FROM _calls WHERE state <> 'ended' AND id {_AMONG}", found.calls)
    )
    found.files = list(_files(connection, found.rows))
    found.told = sum(1 for _ in _events(connection, finder)) + sum(1 for _ in _live(connection, finder))
    found.told += sum(1 for _ in sweeping.naming(connection, "_sms_events", finder))
    for table in _others(connection):
        found.elsewhere += sum(1 for _ in sweeping.naming(connection, table, finder))
    return found


def strip(mirror: Database, found: Found, finder: Finder[Any], store: CallStore) -> None:
    """Take out what `find` found, in small transactions. Raises StorageError."""

    def slices(keys: list[Any]) -> Iterator[list[Any]]:
        for begin in range(0, len(keys), SLICE):
            yield keys[begin : begin + SLICE]

    by_table = {resource.table: resource for resource in mirrored()}
    for legs in slices(found.legs):
        mirror.write(lambda tx, legs=legs: _strip_told(tx, legs, finder))  # type: ignore[misc]
    for table, keys in sorted(found.rows.items(), key=lambda item: item[0] not in PERSONS):
        for some in slices(keys):
            mirror.write(lambda tx, some=some, of=by_table[table]: _strip(tx, of, some, finder, store))  # type: ignore[misc]
    mirror.write(lambda tx: sweeping.sweep(tx, "_sms_events", finder))
    for legs in slices(found.legs):
        mirror.write(lambda tx, legs=legs: store.refresh(tx, legs))  # type: ignore[misc]
    with mirror.read() as connection:
        others = _others(connection)
    for table in others:
        mirror.write(lambda tx, table=table: sweeping.sweep(tx, table, finder))  # type: ignore[misc]


def remove_files(mirror: Database, data_dir: Path, found: Found) -> None:
    """The files of what was found, for good. Raises OSError, StorageError."""
    for kind in get_args(Kind):
        if due := [(record_id, path) for of, record_id, path in found.files if of == kind]:
            expiry.remove_files(mirror, data_dir, kind, due, expiry.ERASED_FILE)


def tidy_index(tx: Transaction) -> None:
    """Merge the search index: until then it holds what was taken out of it, trigram by trigram."""
    tx.execute("INSERT INTO _calls_search (_calls_search) VALUES ('optimize')")


# --- finding -------------------------------------------------------------------------------------------


def _key(resource: Resource) -> str:
    return quote(resource.key or "_n")


def _naming(connection: sqlite3.Connection, resource: Resource, finder: Finder[Any]) -> list[Any]:
    rows = connection.execute(f"SELECT {_key(resource)}, _doc, _item FROM {quote(resource.table)}")
    return [row[0] for row in rows if finder.names(row[1]) or (row[2] and finder.names(row[2]))]


def _events(connection: sqlite3.Connection, finder: Finder[Any]) -> Iterator[tuple[int]]:
    for leg, doc in connection.execute("SELECT leg_id, doc FROM _leg_events"):
        if finder.names(doc):
            yield (leg,)


def _live(connection: sqlite3.Connection, finder: Finder[Any]) -> Iterator[tuple[int]]:
    for leg, doc in connection.execute("SELECT leg_id, doc FROM _leg_live WHERE doc IS NOT NULL"):
        if finder.names(doc):
            yield (leg,)


def _files(connection: sqlite3.Connection, rows: dict[str, list[Any]]) -> Iterator[tuple[Kind, int, str]]:
    for kind in get_args(Kind):
        keys = rows.get(media.table_of(kind))
        if keys:
            for row in connection.execute(
                "SELECT record_id, path FROM media WHERE kind = ? AND state <> 'gone'"
                f" AND record_id {_AMONG}",
                (kind, dumped(keys)),
            ):
                yield kind, row[0], row[1]


def _others(connection: sqlite3.Connection) -> list[str]:
    known = {resource.table for resource in mirrored()} | _DERIVED | _TOLD
    return [table for table in sweeping.tables(connection) if table not in known]


def _column(connection: sqlite3.Connection, sql: str, among: Any, *more: Any) -> list[Any]:
    return [row[0] for row in connection.execute(sql, (dumped(sorted(among or ())), *more))]


# --- stripping -----------------------------------------------------------------------------------------


def _strip(tx: Transaction, of: Resource, keys: list[Any], finder: Finder[Any], store: CallStore) -> None:
    if of.table in PERSONS:
        tx.execute(f"DELETE FROM {quote(of.table)} WHERE {_key(of)} {_AMONG}", (dumped(keys),))
        tx.execute(f"DELETE FROM _below WHERE collection = ? AND key {_AMONG}", (of.collection, dumped(keys)))
        store.contacts_changed(tx, keys)
        return
    columns = [field.name for field in of.fields if field.name != of.key] + list(promoted.columns(tx, of))
    sets = ", ".join(f"{quote(name)} = ?" for name in (*columns, "_doc", "_item"))
    changed: list[Document] = []
    for key, doc, item in tx.execute(
        f"SELECT {_key(of)}, _doc, _item FROM {quote(of.table)} WHERE {_key(of)} {_AMONG}", (dumped(keys),)
    ).fetchall():
        document = _cleared(of, doc, finder)
        changed.append(document)
        values = [column_value(document.values.get(name)) for name in columns]
        tx.execute(
            f"UPDATE {quote(of.table)} SET {sets} WHERE {_key(of)} = ?",
            (*values, document.text, item and _cleared(of, item, finder).text, key),
        )
    tx.execute(f"DELETE FROM _below WHERE collection = ? AND key {_AMONG}", (of.collection, dumped(keys)))
    for hook in tx.hooks.get(of.table, ()):
        hook(tx, Upserted(updated=list(keys), changed=changed))


def _cleared(of: Resource, text: str, finder: Finder[Any]) -> Document:
    if is_history(of):
        return stripped(read_object(text), finder.names)
    return read_object(without(text, finder))


def _strip_told(tx: Transaction, legs: list[int], finder: Finder[Any]) -> None:
    rows = tx.execute(
        f"SELECT event_id, body_hash, src, dst, doc FROM _leg_events WHERE leg_id {_AMONG}", (dumped(legs),)
    ).fetchall()
    for event_id, body_hash, src, dst, doc in rows:
        text = stripped(read_object(doc), finder.names).text
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        tx.execute(
            # An event that was told twice, differing in what is gone, is told once.
            "UPDATE OR REPLACE _leg_events SET event_id = ?, body_hash = ?, src = ?, dst = ?,"
            " src_name = NULL, dst_name = NULL, dtmf_tag = NULL, doc = ?"
            " WHERE event_id = ? AND body_hash = ?",
            (
                f"sha256:{digest}" if event_id.startswith("sha256:") else event_id,
                digest[:32],
                *(ERASED if side and finder.names(side) else side for side in (src, dst)),
                text,
                event_id,
                body_hash,
            ),
        )
    for leg, doc in tx.execute(
        f"SELECT leg_id, doc FROM _leg_live WHERE doc IS NOT NULL AND leg_id {_AMONG}", (dumped(legs),)
    ).fetchall():
        text = stripped(read_object(doc), finder.names).text
        tx.execute("UPDATE _leg_live SET doc = ? WHERE leg_id = ?", (text, leg))
