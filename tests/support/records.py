"""Records, events, files and computed calls in the mirror of an application."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from integration.catalogue import get_resource
from integration.context import AppContext
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.mirror.records import single_record
from integration.mirror.records.upsert import replace_all, upsert
from integration.mirror.sync_state import collection_state, media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.support.people import CALLER

ACCOUNT_NUMBER = "442079460002"
"""A telephone number of the account."""

_CALL: dict[str, Any] = {
    "direction": "in", "state": "ended", "unconfirmed": 0, "provisional": 0, "outcome": "answered",
    "hold_incomplete": 0, "party": CALLER, "party_e164": f"+{CALLER}", "party_name": "",
    "our_number": ACCOUNT_NUMBER, "our_e164": f"+{ACCOUNT_NUMBER}",
    "legs": 1, "recordings": 0, "voicemails": 0, "cdrs": 1,
    "sources": "cdr", "change_no": 0, "wait_seconds": 7, "talk_seconds": 60,
}  # fmt: skip

_LEG: dict[str, Any] = {
    "started": 0, "side": "in", "state": "ENDED", "connected": 1, "inferred": 0, "voicemails": 0,
    "sources": "cdr",
}  # fmt: skip


class Records:
    """Mixin of `TestApp`: fills the mirror."""

    context: AppContext

    def put(self, collection: str, *records: dict[str, Any], complete: bool = True) -> None:
        """Mirror `records`; with `complete` as a finished full sync of the collection."""
        put_records(self.context.mirror_db, collection, *records, complete=complete)

    def insert(self, table: str, **values: Any) -> None:
        """Insert a row that no upsert stores, such as a computed call."""
        if not table.startswith("_") and table != "media":
            now = clock.utc_text()
            values = {"_doc": "{}", "_first_seen": now, "_last_seen": now, "_source": "sync", **values}
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        sql = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'

        def work(tx: Transaction) -> None:
            tx.execute(sql, list(values.values()))
            # Calls that `call` inserted have no facts, and would be deleted.
            tx.execute("DELETE FROM _due WHERE derived IN ('legs', 'calls') AND at = 0")

        self.context.mirror_db.write(work)

    def call(self, number: int, started_at: str, **values: Any) -> None:
        """Insert a computed call.

        Tests of pages use calls of every form. To compute these, a test would need webhooks or CDRs of all
        legs. Storing a record with the `live_id` of the call would recompute it: such records need `insert`.
        """
        moments = {"started_at": started_at, "state_since": started_at}
        if values.get("state", "ended") == "ended":
            moments["ended_at"] = started_at
        self.insert("_calls", **{**_CALL, "id": number, **moments, **values})

    def leg(self, number: int, **values: Any) -> None:
        """Insert a leg of a call that `call` inserted."""
        self.insert("_legs", **{**_LEG, "leg_id": number, "call_id": number, **values})

    def event(self, name: str, leg: int, at: str, **values: Any) -> None:
        """Apply a webhook of a call, as the inbox does."""
        body = {
            "id": f"t.{leg}.{name}.{at}",
            "event_name": name,
            "event_time": at,
            "call_id": leg,
            "start_time": at,
            "context": "LOCAL_USER",
            "destination": "in",
            "src": CALLER,
            "src_id": "0",
            "dst": ACCOUNT_NUMBER,
            "dst_id": "10002",
            "dst_name": "Ann Example",
            **values,
        }
        self.context.inbox.receive(json.dumps(body).encode()).result(30)
        self.apply_webhooks()

    def apply_webhooks(self) -> None:
        """Apply the webhooks that the inbox holds."""
        self.context.applier.run()

    def archive(self, kind: MediaKind, number: int, content: bytes) -> Path:
        """Add a record's file to the archive, as a download does.

        Returns its path.
        """
        with self.context.mirror_db.read() as connection:
            file = media_files.find(connection, kind, number)
        if file is None:
            now = clock.utc_text()
            relative_path = media_files.relative_path(kind, number, now)
            file = media_files.MediaFile(kind, number, relative_path, None, 0)
            self.insert(
                "media", kind=kind, record_id=number, path=relative_path, state="wanted", updated_at=now
            )
        path = self.context.settings.storage.data_dir / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        self.context.mirror_db.write(lambda tx: media_files.mark_present(tx, file, len(content), digest))
        return path


def put_records(
    mirror_db: Database, collection: str, *records: dict[str, Any], complete: bool = False
) -> None:
    """Mirror `records`; with `complete` as a finished full sync of the collection."""
    resource = get_resource(collection)
    documents = [JsonRecord(json.dumps(record, separators=(",", ":")), record) for record in records]

    def work(tx: Transaction) -> None:
        store = upsert if resource.key is not None else replace_all
        store(tx, resource, documents, source="sync", requested_at=clock.utc_text())
        if complete:
            collection_state.begin_full_sync(tx, collection)
            collection_state.finish_full_sync(tx, collection, None, len(documents))

    mirror_db.write(work)


def find_record(mirror_db: Database, collection: str, key: int) -> dict[str, Any] | None:
    """Return a mirrored record, or None if it is absent or missing."""
    with mirror_db.read() as connection:
        found = single_record.find_record(connection, get_resource(collection), key)
    return None if found is None or found.is_missing else json.loads(found.doc)


def list_writes(app_db: Database) -> list[dict[str, Any]]:
    """Rows of the write log, oldest first."""
    with app_db.read() as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM journal ORDER BY id")]
