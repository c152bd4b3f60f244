"""Tables for calls in mirror.db.

All tables except `_leg_events` and `_leg_live` can be recomputed from the other tables. Only this package
writes `_legs` and `_calls`.
"""

from __future__ import annotations

from collections.abc import Sequence

from integration.catalogue.rows import make_fields
from integration.catalogue.shapes import Resource

CALLS = Resource(
    name="call_history",
    collection="_calls",
    title="Call history",
    fields=(
        *make_fields("integer", "id"),
        *make_fields("string", "direction:code state:code outcome"),
        *make_fields("timestamp", "started_at answered_at ended_at"),
        *make_fields("string", "ended_by"),
        *make_fields("integer", "wait_seconds ivr_seconds talk_seconds hold_seconds"),
        *make_fields("boolean", "hold_incomplete"),
        *make_fields("string", "party party_e164 party_name our_number our_e164 group_kind"),
        *make_fields("integer", "group_id"),
        *make_fields("string", "group_name"),
        *make_fields("integer", "user_id"),
        *make_fields("string", "user_name extension context:code t_cause"),
        *make_fields("number", "charge:cost"),
        *make_fields("integer", "legs recordings voicemails cdrs"),
        *make_fields("string", "sources"),
        *make_fields("boolean", "unconfirmed provisional"),
    ),
    date="started_at",
)
"""Columns of `_calls` that exports may contain."""

CHANGED_LEGS = "legs"
"""Name in `_due` of the legs whose facts have changed (`mirror/derived/calls`)."""

MERGED_CALLS = """
-- One row per merged id, and per id without facts (`into_id` is NULL). Rows are never deleted.
CREATE TABLE IF NOT EXISTS _merged_calls (
    id INTEGER PRIMARY KEY, into_id INTEGER, change_no INTEGER NOT NULL
) STRICT;
-- serves readers that follow changes
CREATE INDEX IF NOT EXISTS _merged_calls_changed ON _merged_calls (change_no);
-- serves the merging of a call into which others were merged
CREATE INDEX IF NOT EXISTS _merged_calls_into ON _merged_calls (into_id) WHERE into_id IS NOT NULL;"""

TABLES = f"""
-- One row per call.* webhook. `doc` is the payload as received.
CREATE TABLE IF NOT EXISTS _leg_events (
    event_id TEXT NOT NULL, body_hash TEXT NOT NULL, leg_id INTEGER NOT NULL, root_id INTEGER,
    name TEXT NOT NULL, at TEXT NOT NULL, micros INTEGER, server TEXT, state TEXT, connected_at TEXT,
    start_time TEXT, context TEXT, destination TEXT, duration INTEGER, t_cause TEXT,
    src TEXT, src_id TEXT, src_name TEXT, dst TEXT, dst_id TEXT, dst_name TEXT,
    final INTEGER, terminated_by TEXT, dtmf_tag TEXT, dtmf_target TEXT,
    received_at REAL NOT NULL, doc TEXT NOT NULL,
    PRIMARY KEY (event_id, body_hash)
) STRICT, WITHOUT ROWID;
-- serves the facts of a leg
CREATE INDEX IF NOT EXISTS _leg_events_leg ON _leg_events (leg_id);

-- One row per leg: newest poll of /calls that listed it (or first that showed its end), newest poll that did
-- not, newest 404 of its path.
CREATE TABLE IF NOT EXISTS _leg_live (
    leg_id INTEGER PRIMARY KEY, seen_at INTEGER, doc TEXT, missing_at INTEGER, gone_at INTEGER
) STRICT;

-- One row per leg, computed from its facts. `started` is 0 without a time; `started_at` is then NULL.
CREATE TABLE IF NOT EXISTS _legs (
    leg_id INTEGER PRIMARY KEY, call_id INTEGER NOT NULL, root_id INTEGER, parent_id INTEGER,
    join_key TEXT, started INTEGER NOT NULL, ended INTEGER, window INTEGER,
    side TEXT NOT NULL, state TEXT NOT NULL, started_at TEXT, connected INTEGER NOT NULL,
    connected_at TEXT, ended_at TEXT, inferred INTEGER NOT NULL,
    final INTEGER, context TEXT, group_kind TEXT, group_id INTEGER,
    src TEXT, src_name TEXT, dst TEXT, dst_id TEXT, dst_name TEXT,
    user_id INTEGER, user_name TEXT, extension TEXT, t_cause TEXT,
    duration INTEGER, billsec INTEGER, charge REAL, disposition TEXT,
    voicemails INTEGER NOT NULL, sources TEXT NOT NULL, room TEXT
) STRICT;
-- serves the legs of a call
CREATE INDEX IF NOT EXISTS _legs_call ON _legs (call_id);
-- serve the joins by root, by parent, and by caller and group (without root and parent, and with one of them)
CREATE INDEX IF NOT EXISTS _legs_root ON _legs (root_id) WHERE root_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS _legs_parent ON _legs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS _legs_key ON _legs (join_key, (root_id IS NULL AND parent_id IS NULL), started)
    WHERE join_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS _legs_key_ended ON _legs (join_key, ended) WHERE join_key IS NOT NULL;
-- serves `conferences.py`: legs in one conference
CREATE INDEX IF NOT EXISTS _legs_room ON _legs (room) WHERE room IS NOT NULL;
-- serves the live poll: legs that have not ended
CREATE INDEX IF NOT EXISTS _legs_open ON _legs (leg_id) WHERE state <> 'ENDED';

{MERGED_CALLS}
-- Calls that a platform user had, and that were merged, deleted, or moved to another user.
CREATE TABLE IF NOT EXISTS _left_calls (
    user_id INTEGER NOT NULL, id INTEGER NOT NULL, change_no INTEGER NOT NULL, PRIMARY KEY (user_id, id)
) STRICT, WITHOUT ROWID;
-- serves readers with a user scope that follow changes
CREATE INDEX IF NOT EXISTS _left_calls_changed ON _left_calls (user_id, change_no);

-- One row per call, for pages, reports and exports.
CREATE TABLE IF NOT EXISTS _calls (
    id INTEGER PRIMARY KEY, direction TEXT NOT NULL, state TEXT NOT NULL, unconfirmed INTEGER NOT NULL,
    provisional INTEGER NOT NULL, outcome TEXT, started_at TEXT, answered_at TEXT, state_since TEXT,
    ended_at TEXT, ended_by TEXT, wait_seconds INTEGER, ivr_seconds INTEGER, talk_seconds INTEGER,
    hold_seconds INTEGER, hold_incomplete INTEGER NOT NULL, party TEXT NOT NULL, party_e164 TEXT,
    party_name TEXT NOT NULL, our_number TEXT, our_e164 TEXT, group_kind TEXT, group_id INTEGER,
    group_name TEXT, user_id INTEGER, user_name TEXT, extension TEXT, context TEXT, t_cause TEXT,
    charge REAL, legs INTEGER NOT NULL, recordings INTEGER NOT NULL, voicemails INTEGER NOT NULL,
    cdrs INTEGER NOT NULL, sources TEXT NOT NULL, change_no INTEGER NOT NULL,
    -- 1: the end was past when the call was first stored, so its facts are no events (call_events.py)
    is_past INTEGER NOT NULL DEFAULT 0
) STRICT;
-- serves Live
CREATE INDEX IF NOT EXISTS _calls_open ON _calls (state) WHERE state <> 'ended';
-- serves Missed, reports
CREATE INDEX IF NOT EXISTS _calls_outcome ON _calls (outcome, started_at);
-- serves readers that follow changes
CREATE INDEX IF NOT EXISTS _calls_changed ON _calls (change_no);
-- serves all calls with one party: call-backs, the page of a call, contacts
CREATE INDEX IF NOT EXISTS _calls_party ON _calls (coalesce(party_e164, party), started_at);

-- serve the records of a leg
CREATE INDEX IF NOT EXISTS cdrs_live_id ON cdrs (live_id);
CREATE INDEX IF NOT EXISTS monitors_live_id ON monitors (live_id);
CREATE INDEX IF NOT EXISTS voicemessages_live_id ON voicemessages (live_id);
CREATE INDEX IF NOT EXISTS voicemessages_parent_live_id ON voicemessages (parent_live_id);
"""

# Rejected: OR REPLACE, because it deletes and rewrites every index entry, and upserts. With OR FAIL SQLite
# does not copy each touched page of a table with triggers for a rollback of the single row. These copies took
# more than half of the time per row of `_calls`. A failed job is rolled back completely (database.py). The
# conflict clause of the statement overrides the clauses inside triggers, so triggers must work without one.


def build_insert_sql(table: str, columns: Sequence[str]) -> str:
    """Return SQL that inserts a row with `columns`."""
    return f"INSERT OR FAIL INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def build_update_sql(table: str, columns: Sequence[str]) -> str:
    """Return SQL that updates a row by its first column.

    Parameters: the other columns in order, then the first column.
    """
    key, *value_columns = columns
    return f"UPDATE OR FAIL {table} SET {', '.join(f'{name} = ?' for name in value_columns)} WHERE {key} = ?"
