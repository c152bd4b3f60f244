"""Retention: delete records, texts and files older than `retention.<kind>_days`.

The platform may still list deleted records. So each table with a limit has a gate: expired records are not
stored again, and expired texts are removed from their record.

A limit is a UTC midnight, so that complete days are kept. Data without a valid date is kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from integration.catalogue import RESOURCES, TRANSCRIPT_FIELDS
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.ids import id_list
from integration.core.json_records import JsonRecord, read_record, serialize_values
from integration.mirror.calls.writing import delete_expired_calls
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records import subresources
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.settings.model import Retention
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

ROW_KINDS = {
    "cdrs": ("cdrs",),
    "webcalls": ("cdrs",),
    "mediasessions": ("cdrs",),
    "msdrs": ("cdrs",),
    # The record of a recording is deleted when the limits of all three kinds have passed.
    "monitors": ("cdrs", "recordings", "transcripts"),
    "voicemessages": ("voicemail",),
    "sms": ("sms",),
    "faxes": ("faxes",),
    "chats": ("chats",),
}
"""Table → kinds of `retention.<kind>_days` of its rows. The longest one decides."""

FILE_KINDS: dict[MediaKind, str] = {
    "recording": "recordings",
    "voicemail": "voicemail",
    "trace": "cdrs",
    "pcap": "cdrs",
    "msdr_trace": "cdrs",
    "msdr_pcap": "cdrs",
    "fax": "faxes",
}
"""Kind of file → kind of `retention.<kind>_days`."""

OLDEST_VALID_DATE = "1990"
"""Year of the oldest valid date; earlier dates are errors of the platform."""

EXPIRED_REASON = "kept no longer by retention"
"""`last_error` in `media` of a file that retention deleted."""

ERASED_REASON = "erased"
"""`last_error` in `media` of a file that an erasure deleted."""

BATCH_SIZE = 500
"""Number of rows deleted in one transaction."""

_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"

_RESOURCES_BY_TABLE = {resource.table: resource for resource in RESOURCES if resource.table in ROW_KINDS}


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """Limits of retention: UTC times, as text, from which data is kept."""

    settings: Retention

    def for_kind(self, kind: str) -> str | None:
        """Return the limit of a kind of `retention.<kind>_days`; None keeps all data."""
        days: int = getattr(self.settings, f"{kind}_days")
        if not days:
            return None
        today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        return clock.utc_text(today - timedelta(days=days))

    def for_table(self, table: str) -> str | None:
        """Return the limit of the rows of `table`; None keeps all rows."""
        limits = [self.for_kind(kind) for kind in ROW_KINDS.get(table, ())]
        set_limits = [limit for limit in limits if limit is not None]
        return min(set_limits) if set_limits and len(set_limits) == len(limits) else None


def is_before(date: object, limit: str | None) -> bool:
    """Return whether a valid date is before `limit`.

    `limit` is UTC text; no date is before None. A text that is not a time is not a valid date.
    """
    moment = None if limit is None else clock.parse_utc(date)
    return moment is not None and limit is not None and OLDEST_VALID_DATE <= clock.utc_text(moment) < limit


def install_gates(
    mirror_db: Database,
    limits: RetentionLimits,
    held_records: HeldRecords,
    erasure_gate: ErasureGate,
) -> None:
    """Install the gates of retention, except for records under legal hold.

    The gate of files also refuses files of erased records. Call this function once, before the first write.
    """
    mirror_db.gates["media"] = partial(_check_file, mirror_db, limits, held_records, erasure_gate)
    mirror_db.gates["deletions"] = held_records.filter_deletion
    for table, resource in _RESOURCES_BY_TABLE.items():
        if limits.for_table(table) or (table in TRANSCRIPT_FIELDS and limits.for_kind("transcripts")):
            mirror_db.gates[table] = partial(_filter_record, resource, limits, held_records)
    if limits.for_table("chats"):
        mirror_db.gates["_below"] = partial(_filter_messages, limits, held_records)


def _check_file(
    mirror_db: Database,
    limits: RetentionLimits,
    held_records: HeldRecords,
    erasure_gate: ErasureGate,
    file: tuple[MediaKind, int, str],
) -> str | None:
    """Return why a file must not be stored (`last_error` of its row), or None."""
    kind, record_id, path = file
    with mirror_db.read() as connection:
        if erasure_gate.is_file_erased(connection, kind, record_id):
            return ERASED_REASON
        limit = limits.for_kind(FILE_KINDS[kind])
        if limit is None or not _get_first_path(kind) <= path < _get_end_path(kind, limit):
            return None
        is_held = held_records.is_row_held(connection, media_files.get_record_table(kind), record_id)
        return None if is_held else EXPIRED_REASON


def _filter_record(
    resource: Resource, limits: RetentionLimits, held_records: HeldRecords, record: JsonRecord
) -> JsonRecord | None:
    """Drop an expired record, and remove expired texts."""
    table, date = resource.table, record.values.get(resource.date or "")
    if held_records.is_record_held(record):
        return record
    if is_before(date, limits.for_table(table)):
        return None
    if table in TRANSCRIPT_FIELDS and is_before(date, limits.for_kind("transcripts")):
        return _clear_fields(record, TRANSCRIPT_FIELDS[table])
    return record


def _filter_messages(
    limits: RetentionLimits, held_records: HeldRecords, entry: tuple[str, int, str | None]
) -> str | None:
    """Remove expired chat messages from a subresource."""
    collection, _, doc = entry
    if collection != "users" or doc is None:
        return doc
    return _remove_old_messages(doc, limits.for_table("chats"), held_records)


def _clear_fields(record: JsonRecord, field_names: Sequence[str]) -> JsonRecord:
    """Return the record with null in the given fields."""
    if all(record.values.get(field_name) is None for field_name in field_names):
        return record
    values = {name: None if name in field_names else value for name, value in record.values.items()}
    return JsonRecord(serialize_values(values), values)


# --- deletion ------------------------------------------------------------------------------------------
# A reader finds all expired rows with one statement. The writer then only runs small deletions, and no row is
# read twice.


def find_old_texts(connection: sqlite3.Connection, table: str, limit: str) -> list[int]:
    """Return the ids of records dated before `limit` that have texts."""
    has_text = " OR ".join(f"{name} IS NOT NULL" for name in TRANSCRIPT_FIELDS[table])
    return _find_old(connection, table, limit, f"({has_text})")


def clear_texts(tx: Transaction, keys: Sequence[int], table: str) -> None:
    """Remove the texts from the columns, `_doc` and `_item` of records."""
    names = TRANSCRIPT_FIELDS[table]
    rows = tx.execute(
        f"SELECT id, _doc, _item FROM {table} WHERE id {_IN_JSON_LIST}", (id_list(keys),)
    ).fetchall()
    assignments = ", ".join(f"{name} = NULL" for name in names)
    tx.executemany(
        f"UPDATE {table} SET {assignments}, _doc = ?, _item = ? WHERE id = ?",
        [
            (
                *(
                    text and _clear_fields(read_record(text), names).text
                    for text in (row["_doc"], row["_item"])
                ),
                row["id"],
            )
            for row in rows
        ],
    )


def find_old_calls(connection: sqlite3.Connection, limit: str) -> list[int]:
    """Return calls that ended before `limit` and still have CDRs or events."""
    return _fetch_column(
        connection.execute(
            "SELECT id FROM _calls AS c WHERE started_at >= ? AND started_at < ? AND state = 'ended'"
            " AND coalesce(ended_at, started_at) < ? AND EXISTS (SELECT 1 FROM _legs AS l"
            " WHERE l.call_id = c.id AND (EXISTS (SELECT 1 FROM cdrs WHERE live_id = +l.leg_id)"
            " OR EXISTS (SELECT 1 FROM _leg_events WHERE leg_id = l.leg_id)"
            " OR EXISTS (SELECT 1 FROM _leg_live WHERE leg_id = l.leg_id))) ORDER BY started_at, id",
            (OLDEST_VALID_DATE, limit, limit),
        )
    )


def remove_calls(tx: Transaction, call_ids: Sequence[int]) -> None:
    """Delete the CDRs, events and lookups of the legs of calls. The calls follow."""
    legs = _fetch_column(
        tx.execute(f"SELECT leg_id FROM _legs WHERE call_id {_IN_JSON_LIST}", (id_list(call_ids),))
    )
    parameters = (id_list(legs),)
    _delete_rows(
        tx,
        "cdrs",
        _fetch_column(tx.execute(f"SELECT id FROM cdrs WHERE live_id {_IN_JSON_LIST}", parameters)),
    )
    tx.execute(f"DELETE FROM _leg_events WHERE leg_id {_IN_JSON_LIST}", parameters)
    tx.execute(f"DELETE FROM _leg_live WHERE leg_id {_IN_JSON_LIST}", parameters)
    tx.execute(f"DELETE FROM _lookups WHERE kind = 'leg' AND id {_IN_JSON_LIST}", parameters)
    delete_expired_calls(tx, call_ids)


def find_old_rows(connection: sqlite3.Connection, table: str, limit: str) -> list[int]:
    """Return the ids of records dated before `limit`.

    A CDR is kept as long as its call, which can end after `limit`.
    """
    has_later_call = (
        "EXISTS (SELECT 1 FROM _legs AS l JOIN _calls AS c ON c.id = l.call_id WHERE l.leg_id = cdrs.live_id"
        " AND (c.state <> 'ended' OR coalesce(c.ended_at, c.started_at) >= ?2))"
    )
    return _find_old(connection, table, limit, f"NOT {has_later_call}" if table == "cdrs" else "1")


def _find_old(connection: sqlite3.Connection, table: str, limit: str, condition: str) -> list[int]:
    date = _RESOURCES_BY_TABLE[table].date
    rows = connection.execute(
        f'SELECT id, "{date}" FROM {table} WHERE "{date}" >= ?1 AND "{date}" < ?2 AND {condition}',
        (OLDEST_VALID_DATE, limit),
    )
    return [key for key, dated_at in rows if is_before(dated_at, limit)]


def remove_rows(tx: Transaction, keys: Sequence[int], table: str) -> None:
    """Delete records, with their subresources and SMS events."""
    if table == "cdrs":
        calls = f"SELECT _legs.call_id FROM cdrs JOIN _legs ON leg_id = live_id WHERE id {_IN_JSON_LIST}"
        delete_expired_calls(tx, _fetch_column(tx.execute(calls, (id_list(keys),))))
    _delete_rows(tx, table, keys)
    if table == "sms":
        tx.execute(f"DELETE FROM _sms_events WHERE sms_id {_IN_JSON_LIST}", (id_list(keys),))


def remove_related_rows(tx: Transaction, table: str, limit: str, held_records: HeldRecords) -> None:
    """Delete expired data related to a table.

    These are rejected records, counts by day and SMS events, unless under legal hold.
    """
    _delete_unheld(tx, held_records, f"_flagged WHERE table_name = '{table}' AND at < ?", limit)
    tx.execute(
        "DELETE FROM _coverage WHERE collection = ? AND day < ? AND day <> '*'",
        (_RESOURCES_BY_TABLE[table].collection, limit[:10]),
    )
    if table == "sms":
        _delete_unheld(tx, held_records, "_sms_events WHERE at < ?", limit)


def _delete_unheld(tx: Transaction, held_records: HeldRecords, rows_sql: str, limit: str) -> None:
    """Delete rows with a column `doc`, unless it contains a held number."""
    rows = tx.execute(f"SELECT rowid, doc FROM {rows_sql}", (limit,)).fetchall()
    expired_ids = id_list([row[0] for row in rows if not held_records.is_text_held(row[1])])
    tx.execute(f"DELETE FROM {rows_sql} AND rowid {_IN_JSON_LIST}", (limit, expired_ids))


def find_users_with_old_messages(
    connection: sqlite3.Connection, limit: str, held_records: HeldRecords
) -> list[int]:
    """Return users with chat messages before `limit`, except under legal hold."""
    rows = connection.execute(
        "SELECT key, doc FROM _below WHERE collection = 'users' AND name = ? AND doc IS NOT NULL",
        (subresources.CHAT_MESSAGES,),
    )
    return [key for key, doc in rows if _remove_old_messages(doc, limit, held_records) != doc]


def delete_messages(tx: Transaction, user_id: int, limit: str, held_records: HeldRecords) -> None:
    """Delete a user's chat messages dated before `limit`, except under legal hold."""
    entry = (user_id, subresources.CHAT_MESSAGES)
    rows = tx.execute(
        "SELECT doc FROM _below WHERE collection = 'users' AND key = ? AND name = ? AND doc IS NOT NULL",
        entry,
    ).fetchall()
    for (doc,) in rows:
        tx.execute(
            "UPDATE _below SET doc = ? WHERE collection = 'users' AND key = ? AND name = ?",
            (_remove_old_messages(doc, limit, held_records), *entry),
        )


def _remove_old_messages(doc: str, limit: str | None, held_records: HeldRecords) -> str:
    """Return a JSON array without the expired messages. One object is returned unchanged."""
    if not doc.startswith("["):
        return doc
    texts = [
        record.text
        for record in subresources.split_doc(doc)
        if not is_before(subresources.find_time(record.values), limit)
        or held_records.is_text_held(record.text)
    ]
    return f"[{','.join(texts)}]"


def _delete_rows(tx: Transaction, table: str, keys: Sequence[int]) -> None:
    """Delete rows with their subresources and deletion entries.

    Rows of `media` are deleted too, except those of stored files.
    """
    resource, keys_json = _RESOURCES_BY_TABLE[table], id_list(keys)
    tx.execute(f"DELETE FROM {table} WHERE id {_IN_JSON_LIST}", (keys_json,))
    tx.execute(
        f"DELETE FROM _below WHERE collection = ? AND key {_IN_JSON_LIST}", (resource.collection, keys_json)
    )
    tx.execute(
        f"DELETE FROM _deletions WHERE collection = ? AND key {_IN_JSON_LIST}",
        (resource.collection, keys_json),
    )
    for kind in FILE_KINDS:
        if media_files.get_record_table(kind) == table:
            tx.execute(
                f"DELETE FROM media WHERE kind = ? AND state <> 'have' AND record_id {_IN_JSON_LIST}",
                (kind, keys_json),
            )


def find_old_files(connection: sqlite3.Connection, kind: MediaKind, limit: str) -> list[tuple[int, str]]:
    """Return stored and pending files dated before `limit`.

    The result has the id of the record and the path below data_dir.
    """
    rows = connection.execute(
        "SELECT record_id, path FROM media WHERE kind = ? AND state <> 'gone' AND path >= ? AND path < ?",
        (kind, _get_first_path(kind), _get_end_path(kind, limit)),
    )
    return [(row[0], row[1]) for row in rows]


def _get_first_path(kind: MediaKind) -> str:
    return f"{media_files.FOLDERS[kind]}/{OLDEST_VALID_DATE}"


def _get_end_path(kind: MediaKind, limit: str) -> str:
    return f"{media_files.FOLDERS[kind]}/{limit[:10].replace('-', '/')}"


def find_refusal_reason(mirror_db: Database, kind: MediaKind, record_id: int, path: str) -> str | None:
    """Return why a file must not be stored, or None.

    The reason is EXPIRED_REASON or ERASED_REASON. `path` is below data_dir.
    """
    gate = mirror_db.gates.get("media")
    return None if gate is None else gate((kind, record_id, path))


def remove_files(
    mirror_db: Database,
    data_dir: Path,
    kind: MediaKind,
    files: Sequence[tuple[int, str]],
    reason: str = EXPIRED_REASON,
) -> None:
    """Delete files, then mark their rows. Raises OSError.

    If the process is killed in between, the next run repeats the deletion.
    """
    for _, path in files:
        # `relative_path` builds paths of folder, date and id only (promise S13), never with '..'.
        if ".." not in Path(path).parts:
            (data_dir / path).unlink(missing_ok=True)
    mirror_db.write(
        lambda tx: tx.executemany(
            "UPDATE media SET state = 'gone', size = NULL, sha256 = NULL, next_try_at = NULL, last_error = ?,"
            " updated_at = ? WHERE kind = ? AND record_id = ?",
            [(reason, clock.utc_text(), kind, record_id) for record_id, _ in files],
        )
    )


def _fetch_column(cursor: sqlite3.Cursor) -> list[int]:
    return [row[0] for row in cursor.fetchall()]
