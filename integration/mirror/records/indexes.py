"""Indexes for queries on growing collections (mirror/query/query.py)."""

from __future__ import annotations

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
DROP INDEX IF EXISTS cdrs_narrow;
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
