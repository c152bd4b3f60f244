"""What programs read of a call besides its row: labels of the platform, notes, transcripts and stored audio.

A change renews the number of the call. Local labels and notes are in house.db (`workspace/app_changes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from integration.core.ids import id_list
from integration.mirror.calls.writing import renew_calls
from integration.mirror.derived.declaration import (
    CALL_IDS,
    JOIN_RANGES,
    Derived,
    Range,
    Rules,
    Source,
    to_json,
)
from integration.mirror.derived.search_index import CALLS_OF_LEGS, NOTE_SOURCE, TRANSCRIPT_SOURCES
from integration.sqlite.transaction import Transaction

_WITH_DETAIL = {
    "transcript": "SELECT call_id FROM _legs JOIN monitors ON live_id = +leg_id"
    " WHERE call_id IN (SELECT value FROM json_each(?1)) AND coalesce(transcript, summary) IS NOT NULL"
    " UNION SELECT call_id FROM _legs JOIN voicemessages"
    " ON live_id = +leg_id OR parent_live_id = +leg_id"
    " WHERE call_id IN (SELECT value FROM json_each(?1)) AND transcript IS NOT NULL",
    "recordings": "SELECT call_id FROM _legs JOIN monitors ON live_id = +leg_id"
    " CROSS JOIN media AS f ON f.kind = 'recording' AND f.record_id = monitors.id AND f.state = 'have'"
    " WHERE call_id IN (SELECT value FROM json_each(?1))",
}
"""SQL of those calls that have a detail. Others have lost it by retention, which is no event.

Without the plus SQLite converts each `live_id` (type ANY) for the comparison, and scans the table. Without
CROSS it reads all stored recordings.
"""


def _renew(name: str, tx: Transaction, ranges: Sequence[Range], _rules: Rules) -> None:
    calls = JOIN_RANGES.format(table="_calls", key="_calls.id")
    rows = tx.execute(f"SELECT _calls.id FROM {calls}", (to_json(ranges),))
    call_ids = [row[0] for row in rows.fetchall()]
    sql = _WITH_DETAIL.get(name)
    with_detail = call_ids if sql is None else [row[0] for row in tx.execute(sql, (id_list(call_ids),))]
    renew_calls(tx, call_ids, name, event_ids=frozenset(with_detail))


def _declare(name: str, title: str, *sources: Source) -> Derived:
    """Declare a detail. `name` is its entry in `changed` of an event."""
    rebuild = partial(_renew, name)
    return Derived(name, title, "calls", CALL_IDS, sources, rebuild=rebuild, in_transaction=50)


CALL_DETAILS = (
    _declare(
        "labels",
        "Labels of calls",
        Source("cdrs", ("labels",), CALLS_OF_LEGS.format("{row}.live_id"), "{row}.labels <> '[]'"),
    ),
    _declare("notes", "Notes of calls", NOTE_SOURCE),
    _declare("transcript", "Transcripts of calls", *TRANSCRIPT_SOURCES),
    _declare(
        "recordings",
        "Stored audio of calls",
        Source(
            "media",
            ("state",),
            "SELECT call_id AS key FROM monitors JOIN _legs ON leg_id = live_id WHERE id = {row}.record_id",
            "{row}.kind = 'recording' AND {row}.state = 'have'",
        ),
    ),
)
