"""Find the data of one telephone number in house.db, mirror.db and inbox.db."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from integration.catalogue.collection_titles import get_title
from integration.core.number_variants import make_finder
from integration.inbox import store as inbox_store
from integration.mirror.privacy import erase_mirror
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.schema import list_mirrored_resources
from integration.privacy import erase_app, erasures

TABLE_LABELS = {resource.table: get_title(resource) for resource in list_mirrored_resources()} | {
    "cdrs": "CDRs",
    "monitors": "recordings",
    "voicemessages": "voicemail messages",
    "sms": "SMS",
    "faxes": "faxes",
    "mediasessions": "media sessions",
    "msdrs": "media session detail records",
    "contacts": "contacts (removed)",
    "_sms_events": "events of SMS",
    "_below": "notes or messages below",
    "journal": "write log",
    "audit": "audit log",
    "notes": "notes",
    "callbacks": "call-back items",
    "callback_calls": "calls of call-back items",
    "callback_deeds": "actions on call-back items",
    "alert_log": "notification log",
}
"""Labels of tables in the result of `erase`."""
WEBHOOKS, OTHER_MIRROR_ROWS = "webhooks as received", "other rows of mirror.db"


@dataclass(slots=True)
class Traces:
    """Data of one number.

    `held_seqs`: webhooks under legal hold, which are not in `webhook_seqs`.
    """

    mirror_traces: erase_mirror.ErasureMatches
    webhook_seqs: list[int]
    app_traces: erase_app.AppMatches
    held_seqs: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is left to erase."""
        return self.mirror_traces.is_empty and not self.webhook_seqs and not self.app_traces.counts

    @property
    def held(self) -> dict[str, list[Any]]:
        """Keys of the data under legal hold, by label."""
        held: dict[str, list[Any]] = {}
        for others, by_table in (
            (OTHER_MIRROR_ROWS, self.mirror_traces.held),
            (erase_app.OTHER_ROWS, self.app_traces.held),
        ):
            for table, keys in by_table.items():
                label = TABLE_LABELS.get(table, others).removesuffix(" (removed)")
                held[label] = sorted([*held.get(label, ()), *keys])
        return held | ({WEBHOOKS: self.held_seqs} if self.held_seqs else {})

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of entries by label, without zeros."""
        rows = {TABLE_LABELS.get(table, table): len(keys) for table, keys in self.mirror_traces.rows.items()}
        counts = {
            "calls": len(self.mirror_traces.calls),
            **rows,
            "files (removed)": len(self.mirror_traces.files),
            WEBHOOKS: len(self.webhook_seqs),
            "call events of webhooks and polls": self.mirror_traces.event_count,
            OTHER_MIRROR_ROWS: self.mirror_traces.other_row_count,
            **self.app_traces.counts,
        }
        return {label: number for label, number in counts.items() if number}


def find_traces(
    mirror_connection: sqlite3.Connection,
    inbox_connection: sqlite3.Connection,
    app_connection: sqlite3.Connection,
    e164: str,
    held_records: HeldRecords,
    *,
    include_unfinished: bool = True,
) -> Traces:
    """Search three databases for data of a number. Changes nothing.

    With `include_unfinished` the result includes the records of an interrupted erasure.
    """
    finder_of_number = make_finder([e164])
    mirror_traces = erase_mirror.find(
        mirror_connection,
        finder_of_number,
        e164,
        erasures.list_unfinished_records(app_connection) if include_unfinished else {},
        held_records,
    )
    held_seqs: list[int] = []
    webhook_seqs: list[int] = []
    for seq, call_id, body in inbox_store.find_mentions(
        inbox_connection, finder_of_number.contains_number_in_bytes, frozenset(mirror_traces.legs)
    ):
        (held_seqs if held_records.is_webhook_held(call_id, body) else webhook_seqs).append(seq)
    app_traces = erase_app.find(
        app_connection,
        finder_of_number,
        e164,
        mirror_traces.legs,
        frozenset(mirror_traces.calls),
        held_records,
    )
    return Traces(mirror_traces, webhook_seqs, app_traces, held_seqs)
