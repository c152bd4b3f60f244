"""What is kept here no longer: records, texts and files older than `retention.*` allows.

The platform may go on listing what was removed here. So a gate stands before each table that has a limit:
what is too old is not stored again, and a text that is too old is taken out of its record.

A limit is a midnight (UTC), so that what is kept are whole days. What has no valid date is kept.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.json_records import Document, read_object
from integration.mirror.calls.store import CallStore
from integration.mirror.hooks import LEG_FIELDS
from integration.mirror.privacy.erasure_gate import Erased
from integration.mirror.privacy.held_records import Held
from integration.mirror.sync_state import media_files as media
from integration.mirror.sync_state.media_files import Kind
from integration.settings.model import Retention
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

ROWS = {
    "cdrs": ("cdrs",),
    "webcalls": ("cdrs",),
    "mediasessions": ("cdrs",),
    "msdrs": ("cdrs",),
    # The record of a recording goes when nothing of it is kept any more.
    "monitors": ("cdrs", "recordings", "transcripts"),
    "voicemessages": ("voicemail",),
    "sms": ("sms",),
    "faxes": ("faxes",),
    "chats": ("chats",),
}
"""Table → the kinds that hold its rows; the longest decides."""

TEXTS = {"monitors": ("transcript", "summary", "transcript_speakers"), "voicemessages": ("transcript",)}

FILES: dict[Kind, str] = {
    "recording": "recordings",
    "voicemail": "voicemail",
    "trace": "cdrs",
    "pcap": "cdrs",
    "msdr_trace": "cdrs",
    "msdr_pcap": "cdrs",
    "fax": "faxes",
}
"""Kind of file → the kind that holds it."""

EXPIRED = "kept no longer by retention"
"""`last_error` in `media` of a file that was removed here."""

ERASED_FILE = "erased"
"""The same of one that a person wanted erased."""

OLDEST = "1990"
"""What is dated before is a mistake of the platform's."""

SLICE = 500
"""Rows removed in one transaction."""

_AMONG = "IN (SELECT value FROM json_each(?))"

_TABLES = {resource.table: resource for resource in RESOURCES if resource.table in ROWS}


@dataclass(frozen=True, slots=True)
class Limits:
    """From which moment (UTC text) things are kept; None: all of them."""

    settings: Retention

    def of(self, kind: str) -> str | None:
        """By a kind of interface.md §2, such as 'sms'."""
        days: int = getattr(self.settings, f"{kind}_days")
        if not days:
            return None
        today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        return clock.stamp(today - timedelta(days=days))

    def rows(self, table: str) -> str | None:
        limits = [self.of(kind) for kind in ROWS.get(table, ())]
        known = [limit for limit in limits if limit is not None]
        return min(known) if known and len(known) == len(limits) else None


def guard(mirror: Database, limits: Limits, held: Held | None = None, erased: Erased | None = None) -> None:
    """From now on, let nothing in that is too old to be kept, unless it is under legal hold, and no file of
    what was erased. Once, before the first write."""
    held, erased = held or Held(), erased or Erased(None)
    mirror.gates["media"] = _Files(mirror, limits, held, erased)
    mirror.gates["deletions"] = held.spared_keys
    for table, resource in _TABLES.items():
        if limits.rows(table) or (table in TEXTS and limits.of("transcripts")):
            mirror.gates[table] = _Gate(resource, limits, held)


class _Files:
    """Before files: why one may not be here, `last_error` of its row; None where it may."""

    def __init__(self, mirror: Database, limits: Limits, held: Held, erased: Erased) -> None:
        self._mirror, self._limits, self._held, self._erased = mirror, limits, held, erased

    def __call__(self, file: tuple[Kind, int, str]) -> str | None:
        kind, record_id, path = file
        with self._mirror.read() as connection:
            if self._erased.file(connection, kind, record_id):
                return ERASED_FILE
            if not is_over(kind, path, self._limits):
                return None
            return None if self._held.row(connection, media.table_of(kind), record_id) else EXPIRED


class _Gate:
    def __init__(self, resource: Resource, limits: Limits, held: Held) -> None:
        self._table, self._date, self._limits = resource.table, resource.date or "", limits
        self._held = held

    def __call__(self, document: Document) -> Document | None:
        date = document.values.get(self._date)
        if self._held.document(document):
            return document
        if _before(date, self._limits.rows(self._table)):
            return None
        if self._table in TEXTS and _before(date, self._limits.of("transcripts")):
            return _without(document, TEXTS[self._table])
        return document


def _before(date: object, limit: str | None) -> bool:
    return limit is not None and isinstance(date, str) and OLDEST <= date < limit


def _without(document: Document, texts: Sequence[str]) -> Document:
    """The same record with null where the texts were."""
    if all(document.values.get(text) is None for text in texts):
        return document
    values = {name: None if name in texts else value for name, value in document.values.items()}
    return Document(json.dumps(values, separators=(",", ":"), ensure_ascii=False), values)


# --- removing ------------------------------------------------------------------------------------------
# What is due is found by a reader, all of it in one go, so that the writer is only asked for small removals
# and nothing is looked at twice.


def old_texts(connection: sqlite3.Connection, table: str, limit: str) -> list[int]:
    """Records dated before `limit` that have a text still."""
    date = _TABLES[table].date
    there = " OR ".join(f"{name} IS NOT NULL" for name in TEXTS[table])
    return _column(
        connection.execute(
            f'SELECT id FROM {table} WHERE "{date}" >= ? AND "{date}" < ? AND ({there})', (OLDEST, limit)
        )
    )


def clear_texts(tx: Transaction, keys: Sequence[int], table: str) -> None:
    names = TEXTS[table]
    found = tx.execute(
        f"SELECT id, _doc, _item FROM {table} WHERE id {_AMONG}", (json.dumps(keys),)
    ).fetchall()
    cleared = ", ".join(f"{name} = NULL" for name in names)
    tx.executemany(
        f"UPDATE {table} SET {cleared}, _doc = ?, _item = ? WHERE id = ?",
        [
            (
                *(text and _without(read_object(text), names).text for text in (row["_doc"], row["_item"])),
                row["id"],
            )
            for row in found
        ],
    )


def old_calls(connection: sqlite3.Connection, limit: str) -> list[int]:
    """Calls that were over before `limit` and of which CDRs, webhooks or polls tell still."""
    return _column(
        connection.execute(
            "SELECT id FROM _calls AS c WHERE started_at >= ? AND started_at < ? AND state = 'ended'"
            " AND coalesce(ended_at, started_at) < ? AND EXISTS (SELECT 1 FROM _legs AS l"
            " WHERE l.call_id = c.id AND (EXISTS (SELECT 1 FROM cdrs WHERE live_id = +l.leg_id)"
            " OR EXISTS (SELECT 1 FROM _leg_events WHERE leg_id = l.leg_id)"
            " OR EXISTS (SELECT 1 FROM _leg_live WHERE leg_id = l.leg_id)))",
            (OLDEST, limit, limit),
        )
    )


def remove_calls(tx: Transaction, calls: Sequence[int], store: CallStore) -> None:
    """With all that CDRs, webhooks and polls told of their legs."""
    legs = _column(tx.execute(f"SELECT leg_id FROM _legs WHERE call_id {_AMONG}", (json.dumps(calls),)))
    which = (json.dumps(legs),)
    _delete(tx, "cdrs", _column(tx.execute(f"SELECT id FROM cdrs WHERE live_id {_AMONG}", which)))
    tx.execute(f"DELETE FROM _leg_events WHERE leg_id {_AMONG}", which)
    tx.execute(f"DELETE FROM _leg_live WHERE leg_id {_AMONG}", which)
    tx.execute(f"DELETE FROM _lookups WHERE kind = 'leg' AND id {_AMONG}", which)
    store.refresh(tx, legs)


def old_rows(connection: sqlite3.Connection, table: str, limit: str) -> list[int]:
    """Records dated before `limit`. A CDR stays as long as its call, which may have ended later."""
    date = _TABLES[table].date
    alone = (
        " AND NOT EXISTS (SELECT 1 FROM _legs AS l JOIN _calls AS c ON c.id = l.call_id"
        " WHERE l.leg_id = cdrs.live_id AND (c.state <> 'ended' OR coalesce(c.ended_at, c.started_at) >= ?2))"
        if table == "cdrs"
        else ""
    )
    return _column(
        connection.execute(
            f'SELECT id FROM {table} WHERE "{date}" >= ?1 AND "{date}" < ?2{alone}', (OLDEST, limit)
        )
    )


def remove_rows(tx: Transaction, keys: Sequence[int], table: str, store: CallStore) -> None:
    _delete(tx, table, keys, store)
    if table == "sms":
        tx.execute(f"DELETE FROM _sms_events WHERE sms_id {_AMONG}", (json.dumps(keys),))


def leftovers(tx: Transaction, table: str, limit: str, held: Held) -> None:
    """What is noted beside a table's rows: unusable records, proofs of days, what only webhooks told."""
    flagged = tx.execute(
        "SELECT id, doc FROM _flagged WHERE table_name = ? AND at < ?", (table, limit)
    ).fetchall()
    due = [row["id"] for row in flagged if not held.text(row["doc"])]
    tx.execute(f"DELETE FROM _flagged WHERE id {_AMONG}", (json.dumps(due),))
    tx.execute(
        "DELETE FROM _coverage WHERE collection = ? AND day < ? AND day <> '*'",
        (_TABLES[table].collection, limit[:10]),
    )
    if table == "sms":
        told = tx.execute("SELECT rowid AS number, doc FROM _sms_events WHERE at < ?", (limit,)).fetchall()
        due = [row["number"] for row in told if not held.text(row["doc"])]
        tx.execute(f"DELETE FROM _sms_events WHERE rowid {_AMONG}", (json.dumps(due),))


def _delete(tx: Transaction, table: str, keys: Sequence[int], store: CallStore | None = None) -> None:
    """Rows by their ids, what lies below and beside them, and calls as they are without them."""
    resource, which = _TABLES[table], json.dumps(keys)
    fields = LEG_FIELDS.get(table, ()) if store is not None else ()
    legs = [
        leg
        for field in fields
        for leg in _column(tx.execute(f'SELECT "{field}" FROM {table} WHERE id {_AMONG}', (which,)))
        if isinstance(leg, int)
    ]
    tx.execute(f"DELETE FROM {table} WHERE id {_AMONG}", (which,))
    tx.execute(f"DELETE FROM _below WHERE collection = ? AND key {_AMONG}", (resource.collection, which))
    tx.execute(f"DELETE FROM _deletions WHERE collection = ? AND key {_AMONG}", (resource.collection, which))
    for kind in FILES:
        if media.record_path(kind, 0).split("/")[1] == table:
            tx.execute(
                f"DELETE FROM media WHERE kind = ? AND state <> 'have' AND record_id {_AMONG}", (kind, which)
            )
    if store is not None and legs:
        store.refresh(tx, legs)


def is_over(kind: Kind, path: str, limits: Limits) -> bool:
    """Whether the file at `path` (below data_dir) is dated too early to be kept."""
    limit = limits.of(FILES[kind])
    return limit is not None and _first(kind) <= path < _end(kind, limit)


def files(connection: sqlite3.Connection, kind: Kind, limit: str) -> list[tuple[int, str]]:
    """Files dated before `limit` that are here or wanted: the record's id, path below data_dir."""
    found = connection.execute(
        "SELECT record_id, path FROM media WHERE kind = ? AND state <> 'gone' AND path >= ? AND path < ?",
        (kind, _first(kind), _end(kind, limit)),
    )
    return [(row[0], row[1]) for row in found]


def _first(kind: Kind) -> str:
    return f"{media.FOLDERS[kind]}/{OLDEST}"


def _end(kind: Kind, limit: str) -> str:
    return f"{media.FOLDERS[kind]}/{limit[:10].replace('-', '/')}"


def refusal(mirror: Database, kind: Kind, record_id: int, path: str) -> str | None:
    """EXPIRED or ERASED_FILE where a file (at `path` below data_dir) may not be here."""
    gate = mirror.gates.get("media")
    return None if gate is None else gate((kind, record_id, path))


def remove_files(
    mirror: Database, data_dir: Path, kind: Kind, due: Sequence[tuple[int, str]], why: str = EXPIRED
) -> None:
    """The file first, then the row: a kill between leaves what the next run does again. Raises OSError."""
    for _, path in due:
        # By its own making a path holds no more than the folder, a date and a number (promise S13).
        if ".." not in Path(path).parts:
            (data_dir / path).unlink(missing_ok=True)
    mirror.write(
        lambda tx: tx.executemany(
            "UPDATE media SET state = 'gone', size = NULL, sha256 = NULL, next_try_at = NULL, last_error = ?,"
            " updated_at = ? WHERE kind = ? AND record_id = ?",
            [(why, clock.stamp(), kind, record_id) for record_id, _ in due],
        )
    )


def _column(cursor: sqlite3.Cursor) -> list[int]:
    return [row[0] for row in cursor.fetchall()]
