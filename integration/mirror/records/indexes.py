"""Indexes for queries on growing collections (mirror/query/query.py)."""

from __future__ import annotations

import re
from functools import partial

from integration.mirror.records.rows import quote_identifier
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

INDEXES = """
-- serves the default order, deep pages of it and the count of present records
CREATE INDEX IF NOT EXISTS cdrs_present ON cdrs (id) WHERE _missing_since IS NULL;
CREATE INDEX IF NOT EXISTS monitors_present ON monitors (id) WHERE _missing_since IS NULL;
CREATE INDEX IF NOT EXISTS sms_present ON sms (id) WHERE _missing_since IS NULL;
CREATE INDEX IF NOT EXISTS voicemessages_present ON voicemessages (id) WHERE _missing_since IS NULL;
-- serves the total of a collection without a filter (all rows minus the missing ones)
CREATE INDEX IF NOT EXISTS cdrs_missing ON cdrs (_missing_since) WHERE _missing_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS monitors_missing ON monitors (_missing_since) WHERE _missing_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS sms_missing ON sms (_missing_since) WHERE _missing_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS voicemessages_missing ON voicemessages (_missing_since)
    WHERE _missing_since IS NOT NULL;
-- serves time windows, sort by time and their totals (_missing_since makes the index cover the count)
CREATE INDEX IF NOT EXISTS cdrs_calldate ON cdrs (calldate, _missing_since);
CREATE INDEX IF NOT EXISTS monitors_timestamp ON monitors ("timestamp", _missing_since);
CREATE INDEX IF NOT EXISTS sms_created_at ON sms (created_at, _missing_since);
CREATE INDEX IF NOT EXISTS voicemessages_origtime ON voicemessages (origtime, _missing_since);
-- serves groups, and filters on common fields of CDRs: a scan of the index reads an eighth of the table
CREATE INDEX IF NOT EXISTS cdrs_asked ON cdrs (
    dst, calldate, src, user_id, type, disposition, destination, context, billsec, duration, src_name,
    dst_name, charge, _missing_since
) WHERE _missing_since IS NULL;
-- serve filters by user, number, direction and disposition within a time range, sorted by time
CREATE INDEX IF NOT EXISTS cdrs_user_time ON cdrs (user_id, calldate, _missing_since);
CREATE INDEX IF NOT EXISTS cdrs_src_time ON cdrs (src, calldate, _missing_since);
CREATE INDEX IF NOT EXISTS cdrs_dst_time ON cdrs (dst, calldate, _missing_since);
CREATE INDEX IF NOT EXISTS cdrs_type_time ON cdrs (type, calldate, _missing_since);
CREATE INDEX IF NOT EXISTS cdrs_disposition_time ON cdrs (disposition, calldate, _missing_since);
-- serves the recordings of a user, newest first
CREATE INDEX IF NOT EXISTS monitors_user_time ON monitors (user_id, "timestamp");
-- serves filters by user, user scopes, /users/{id}/cdrs.csv
CREATE INDEX IF NOT EXISTS cdrs_user_id ON cdrs (user_id, _missing_since);
CREATE INDEX IF NOT EXISTS monitors_user_id ON monitors (user_id, _missing_since);
CREATE INDEX IF NOT EXISTS sms_user_id ON sms (user_id, _missing_since);
-- serves user scopes on voicemail
CREATE INDEX IF NOT EXISTS voicemessages_extension_id ON voicemessages (extension_id, _missing_since);
"""
"""SQL script of the indexes. schema.py runs it after the tables exist."""

_STATEMENT = re.compile(r"CREATE INDEX IF NOT EXISTS (\w+) ON (\w+)[^;]*;")


def drop_of_empty_table(tx: Transaction, table: str) -> None:
    """Drop the indexes of a table without rows, so that an initial sync does not update them.

    `*_present` stay: `query/positions` names them. Until `build` other queries read the entire table. If the
    process ends before, the next start builds them. At 100,000 CDRs an index then takes 0.1 s, and all of
    them half the time of their updates.
    """
    if tx.execute(f"SELECT 1 FROM {quote_identifier(table)} LIMIT 1").fetchone() is None:
        for name in _list_statements(table).keys() - {f"{table}_present"}:
            tx.execute(f"DROP INDEX IF EXISTS {name}")


def build(mirror_db: Database, table: str) -> None:
    """Create the missing indexes of a table, each in one step of a bulk job."""
    statements = _list_statements(table).values()
    if statements:
        mirror_db.write_bulk([partial(Transaction.execute, sql=sql) for sql in statements])


def _list_statements(table: str) -> dict[str, str]:
    """Return the statements that create the indexes of a table, by name."""
    return {match[1]: match[0] for match in _STATEMENT.finditer(INDEXES) if match[2] == table}
