-- Schema of inbox.db, printed by `python -m tests.release.schemas`.
-- The architecture says which package owns a table. Tables may change in any version.

CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;

CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
) STRICT;

CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    received_at TEXT NOT NULL,
    event_name TEXT,
    call_id ANY,
    body BLOB NOT NULL,
    status TEXT NOT NULL DEFAULT 'new',
    deliveries INTEGER NOT NULL DEFAULT 1,
    error TEXT,
    applied_at TEXT,
    flagged INTEGER NOT NULL DEFAULT 0,
    body_hash BLOB NOT NULL,
    UNIQUE (event_id, body_hash)
) STRICT;

CREATE TABLE losses (
    found_at TEXT NOT NULL, fault TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");

CREATE INDEX inbox_troubled ON inbox (status) WHERE status <> 'done';
