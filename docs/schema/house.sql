-- Schema of house.db, printed by `python -m tests.release.schemas`.
-- The architecture says which package owns a table. Tables may change in any version.

CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;

CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
) STRICT;

CREATE TABLE alert_findings (
    rule_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    text TEXT NOT NULL,
    href TEXT NOT NULL,
    began_at TEXT NOT NULL,
    told_at TEXT,
    PRIMARY KEY (rule_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE alert_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    rule_id INTEGER NOT NULL,
    rule TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('alert', 'recovered', 'test')),
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    channel TEXT NOT NULL CHECK (channel IN ('notice', 'email', 'post', 'apprise')),
    target TEXT NOT NULL,
    place INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'failed')),
    tries INTEGER NOT NULL,
    next_at TEXT,
    tried_at TEXT,
    error TEXT
) STRICT;

CREATE TABLE alert_rules (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    condition TEXT NOT NULL,
    threshold INTEGER NOT NULL,
    notice INTEGER NOT NULL CHECK (notice IN (0, 1)),
    emails TEXT NOT NULL,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    days TEXT NOT NULL,
    begins TEXT NOT NULL,
    ends TEXT NOT NULL,
    quiet_from TEXT NOT NULL,
    quiet_to TEXT NOT NULL,
    cooldown INTEGER NOT NULL,
    paused_at TEXT,
    created_at TEXT NOT NULL,
    minutes INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    queue_id INTEGER,
    only_open INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE announcement_files (
    announcement_id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    person TEXT NOT NULL,
    content_type TEXT NOT NULL,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE app_changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key INTEGER NOT NULL, at TEXT
) STRICT;

CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account BLOB,
    address BLOB NOT NULL,
    at REAL NOT NULL
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    about TEXT NOT NULL,
    result TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;

CREATE TABLE callback_calls (
    call_id INTEGER PRIMARY KEY, party TEXT NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL,
    our_number TEXT, party_name TEXT NOT NULL, item_id INTEGER
) STRICT;

CREATE TABLE callback_deed_calls (
    call_id INTEGER NOT NULL, deed_id INTEGER NOT NULL, PRIMARY KEY (call_id, deed_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE callback_deeds (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, deed TEXT NOT NULL, text TEXT
) STRICT;

CREATE TABLE callback_reminders (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    party TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (person_id, party)
) STRICT, WITHOUT ROWID;

CREATE TABLE callback_start (
    one INTEGER PRIMARY KEY CHECK (one = 0), since TEXT NOT NULL
) STRICT;

CREATE TABLE callbacks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, party TEXT NOT NULL, party_name TEXT NOT NULL,
    opened_at TEXT NOT NULL, last_at TEXT NOT NULL, attempts INTEGER NOT NULL, last_call_id INTEGER NOT NULL,
    our_number TEXT, reason TEXT NOT NULL, state TEXT NOT NULL, closed_at TEXT, closed_by TEXT,
    closed_call_id INTEGER, owner TEXT, note TEXT
) STRICT;

CREATE TABLE closed_days (day TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE column_sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id INTEGER REFERENCES people (id) ON DELETE SET NULL,
    export TEXT NOT NULL,
    name TEXT NOT NULL,
    columns TEXT NOT NULL,
    shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
    at TEXT NOT NULL,
    UNIQUE (person_id, export, name)
) STRICT;

CREATE TABLE devices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    login_at REAL NOT NULL,
    UNIQUE (token_hash, person_id)
) STRICT;

CREATE TABLE erased_records (
    name TEXT NOT NULL, key ANY NOT NULL, PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    digests TEXT NOT NULL UNIQUE,
    lengths TEXT NOT NULL,
    done_at TEXT,
    removed TEXT,
    report TEXT
) STRICT;

CREATE TABLE event_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    subscription_id INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    event_at TEXT NOT NULL,
    kind TEXT NOT NULL,
    event TEXT,
    purpose TEXT NOT NULL CHECK (purpose IN ('delivery', 'replay', 'test')),
    state TEXT NOT NULL CHECK (state IN ('delivered', 'failed', 'set aside')),
    status INTEGER,
    response TEXT NOT NULL,
    error TEXT,
    seconds REAL NOT NULL
) STRICT;

CREATE TABLE event_subscriptions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    url TEXT NOT NULL,
    kinds TEXT NOT NULL,
    with_parties INTEGER NOT NULL CHECK (with_parties IN (0, 1)),
    secret TEXT NOT NULL,
    old_secret TEXT,
    old_secret_until TEXT,
    created_at TEXT NOT NULL,
    cursor TEXT NOT NULL,
    delivered_at TEXT,
    states_since TEXT,
    states_after INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    failing_since TEXT,
    next_at TEXT,
    error TEXT,
    disabled_at TEXT
) STRICT;

CREATE TABLE export_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    period TEXT NOT NULL,
    at TEXT NOT NULL,
    file TEXT NOT NULL,
    rows INTEGER,
    bytes INTEGER,
    state TEXT NOT NULL,
    result TEXT NOT NULL
) STRICT;

CREATE TABLE export_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    export TEXT NOT NULL,
    form TEXT NOT NULL,
    args TEXT NOT NULL,
    who TEXT NOT NULL,
    person_id INTEGER,
    owner TEXT NOT NULL DEFAULT '',
    only_user INTEGER,
    target TEXT NOT NULL CHECK (target IN ('download', 'folder', 'email', 'put')),
    place TEXT NOT NULL DEFAULT '',
    secret TEXT NOT NULL DEFAULT '',
    every TEXT CHECK (every IN ('day', 'week', 'month')),
    name TEXT NOT NULL DEFAULT '',
    file TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL DEFAULT '',
    zone TEXT NOT NULL DEFAULT '',
    wait_hours INTEGER NOT NULL DEFAULT 0,
    incomplete INTEGER NOT NULL DEFAULT 0 CHECK (incomplete IN (0, 1)),
    since TEXT NOT NULL DEFAULT '',
    paused_at TEXT,
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE export_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    period TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled', 'skipped')),
    tries INTEGER NOT NULL DEFAULT 0,
    next_at TEXT,
    holds_all INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    waits_for TEXT,
    partial_at TEXT,
    redeliveries INTEGER NOT NULL DEFAULT 0,
    at_once INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    rows INTEGER,
    bytes INTEGER,
    ended_at TEXT,
    UNIQUE (job_id, period)
) STRICT;

CREATE TABLE heard (
    voicemail_id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    person TEXT NOT NULL
) STRICT;

CREATE TABLE idempotency (
    who TEXT NOT NULL,
    key_hash BLOB NOT NULL,
    request_hash BLOB NOT NULL,
    at REAL NOT NULL,
    status INTEGER,
    content_type TEXT,
    body BLOB,
    PRIMARY KEY (who, key_hash)
) STRICT;

CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    address TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    body TEXT,
    status INTEGER,
    result TEXT,
    seconds REAL
) STRICT;

CREATE TABLE keys (
    user_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'write')),
    collections TEXT,
    platform_user_id INTEGER,
    secret_hash BLOB NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    used_at REAL,
    revoked_at TEXT,
    expires_at TEXT,
    networks TEXT NOT NULL DEFAULT '[]',
    requests_per_minute INTEGER,
    rights TEXT NOT NULL DEFAULT '["export", "recordings"]',
    used_from TEXT,
    old_secret_hash BLOB,
    old_secret_until TEXT
) STRICT;

CREATE TABLE labels (
  leg_id INTEGER NOT NULL,
  label TEXT NOT NULL,
  at TEXT NOT NULL,
  person TEXT NOT NULL,
  write_result TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (leg_id, label)
) STRICT, WITHOUT ROWID;

CREATE TABLE legal_holds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('number', 'call')),
    what TEXT NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (kind, what)
) STRICT;

CREATE TABLE login_mails (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    person_id INTEGER REFERENCES people (id) ON DELETE CASCADE,
    account BLOB,
    details TEXT NOT NULL,
    created_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_at REAL NOT NULL,
    error TEXT
) STRICT;

CREATE TABLE mail_server (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    is_encrypted INTEGER NOT NULL CHECK (is_encrypted IN (0, 1)),
    user TEXT,
    password TEXT,
    sender TEXT NOT NULL
) STRICT;

CREATE TABLE notes (
  id INTEGER PRIMARY KEY,
  leg_id INTEGER NOT NULL,
  at TEXT NOT NULL,
  person TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE opening_hours (
    line TEXT NOT NULL, valid_from TEXT NOT NULL, week TEXT NOT NULL, PRIMARY KEY (line, valid_from)
) STRICT, WITHOUT ROWID;

CREATE TABLE opening_hours_source (
    one INTEGER PRIMARY KEY CHECK (one = 0), usual_hours TEXT NOT NULL,
    country TEXT NOT NULL DEFAULT '', region TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE opt_outs (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, number TEXT NOT NULL, word TEXT NOT NULL,
    at TEXT NOT NULL, removed_at TEXT
) STRICT;

CREATE TABLE people (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'agent', 'supervisor', 'admin')),
    platform_user_id INTEGER,
    password TEXT,
    created_at TEXT NOT NULL,
    password_at TEXT,
    login_at TEXT,
    rights TEXT NOT NULL DEFAULT '{}',
    exports_rights TEXT
) STRICT;

CREATE TABLE person_settings (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    setting TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (person_id, setting)
) STRICT, WITHOUT ROWID;

CREATE TABLE recovery_codes (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    code_hash BLOB NOT NULL,
    PRIMARY KEY (person_id, code_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE remembered (
    secret_hash BLOB PRIMARY KEY,
    source TEXT NOT NULL CHECK (source IN ('login', 'shown')),
    user_id TEXT,
    user_part TEXT,
    administrator INTEGER,
    checked_at REAL NOT NULL,
    used_at REAL NOT NULL,
    ended_at REAL
) STRICT;

CREATE TABLE second_factors (
    person_id INTEGER PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    secret TEXT NOT NULL,
    enabled_at REAL,
    used_step INTEGER NOT NULL
) STRICT;

CREATE TABLE seen_threads (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    contact TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (person_id, contact)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    created_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    confirmed_at REAL NOT NULL DEFAULT 0,
    factor_at REAL
) STRICT;

CREATE TABLE sessions_ended_by_admin (
    token_hash BLOB PRIMARY KEY,
    ended_at REAL NOT NULL
) STRICT;

CREATE TABLE setup_links (
    token_hash BLOB PRIMARY KEY,
    person_id INTEGER REFERENCES people (id) ON DELETE CASCADE,
    created_at REAL NOT NULL,
    is_reset INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE text_back_calls (
    call_id INTEGER PRIMARY KEY, at TEXT NOT NULL, number TEXT NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;

CREATE TABLE text_back_rules (
    id INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT NOT NULL, while_line TEXT NOT NULL, template_id INTEGER,
    text TEXT NOT NULL, delay INTEGER NOT NULL, sender TEXT NOT NULL, countries TEXT NOT NULL,
    sending_since TEXT
) STRICT;

CREATE TABLE text_back_state (
    one INTEGER PRIMARY KEY CHECK (one = 0), texts INTEGER NOT NULL, resumed_at TEXT NOT NULL,
    pause_reason TEXT
) STRICT;

CREATE TABLE views (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    page TEXT NOT NULL,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    shared INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (person_id, page, name)
) STRICT;

CREATE TABLE wallboards (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    level_target INTEGER NOT NULL,
    wait_target INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    seen_at REAL,
    callback_target INTEGER
) STRICT;

CREATE INDEX alert_log_rule ON alert_log (rule_id, at);

CREATE INDEX alert_log_tried ON alert_log (channel, tried_at);

CREATE INDEX alert_log_waiting ON alert_log (channel, next_at) WHERE state = 'waiting';

CREATE INDEX attempts_account ON attempts (account, at);

CREATE INDEX attempts_address ON attempts (address, at);

CREATE INDEX audit_at ON audit (at);

CREATE INDEX callback_calls_party ON callback_calls (party);

CREATE INDEX callback_deeds_assigned ON callback_deeds (text, at) WHERE deed = 'assign';

CREATE INDEX callbacks_party ON callbacks (party);

CREATE INDEX callbacks_state ON callbacks (state, last_at);

CREATE UNIQUE INDEX column_sets_shared ON column_sets (export, name) WHERE shared;

CREATE INDEX devices_person ON devices (person_id);

CREATE INDEX event_attempts_at ON event_attempts (at);

CREATE INDEX event_attempts_events ON event_attempts (subscription_id, event_id);

CREATE INDEX event_attempts_set_aside ON event_attempts (id) WHERE state = 'set aside';

CREATE INDEX export_attempts_of ON export_attempts (schedule_id, id);

CREATE INDEX export_runs_open ON export_runs (job_id) WHERE state IN ('waiting', 'running');

CREATE INDEX idempotency_at ON idempotency (at);

CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");

CREATE UNIQUE INDEX keys_name ON keys (name) WHERE revoked_at IS NULL;

CREATE INDEX labels_by_label ON labels (label, leg_id);

CREATE INDEX notes_by_leg ON notes (leg_id);

CREATE INDEX remembered_used ON remembered (used_at);

CREATE INDEX sessions_person ON sessions (person_id);

CREATE INDEX setup_links_person ON setup_links (person_id);

CREATE INDEX text_back_calls_at ON text_back_calls (at);

CREATE TRIGGER callback_changed AFTER UPDATE OF state ON callbacks WHEN OLD.state <> NEW.state
    BEGIN INSERT INTO app_changes (kind, key, at) VALUES (
        iif(NEW.state = 'open', 'callback.opened', 'callback.closed'), NEW.id, NEW.closed_at); END;

CREATE TRIGGER callback_inserted_closed AFTER INSERT ON callbacks WHEN NEW.state = 'closed'
    BEGIN INSERT INTO app_changes (kind, key, at) VALUES ('callback.closed', NEW.id, NEW.closed_at); END;

CREATE TRIGGER callback_opened AFTER INSERT ON callbacks
    BEGIN INSERT INTO app_changes (kind, key, at) VALUES ('callback.opened', NEW.id, NEW.opened_at); END;

CREATE TRIGGER callback_removed AFTER DELETE ON callbacks WHEN OLD.state = 'open'
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('callback.closed', OLD.id); END;

CREATE TRIGGER column_sets_of_the_gone BEFORE DELETE ON people BEGIN
    DELETE FROM column_sets WHERE person_id = OLD.id AND NOT shared;
END;

CREATE TRIGGER label_added AFTER INSERT ON labels
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('labels', NEW.leg_id); END;

CREATE TRIGGER label_changed AFTER UPDATE OF label ON labels WHEN OLD.label <> NEW.label
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('labels', NEW.leg_id); END;

CREATE TRIGGER label_removed AFTER DELETE ON labels
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('labels', OLD.leg_id); END;

CREATE TRIGGER note_added AFTER INSERT ON notes
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('notes', NEW.leg_id); END;

CREATE TRIGGER note_changed AFTER UPDATE OF text ON notes WHEN OLD.text <> NEW.text
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('notes', NEW.leg_id); END;

CREATE TRIGGER note_removed AFTER DELETE ON notes
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('notes', OLD.leg_id); END;
