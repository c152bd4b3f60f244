-- Schema of mirror.db, printed by `python -m tests.release.schemas`.
-- The architecture says which package owns a table. Tables may change in any version.

CREATE TABLE _accepted (
    id INTEGER PRIMARY KEY, collection TEXT NOT NULL, keys TEXT, asked_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, due_at REAL NOT NULL
) STRICT;

CREATE TABLE _answers (
    target TEXT PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL, asked_at TEXT NOT NULL
) STRICT;

CREATE TABLE _applied (seq INTEGER PRIMARY KEY, result TEXT NOT NULL) STRICT;

CREATE TABLE _below (
    collection TEXT NOT NULL,
    key INTEGER NOT NULL,
    name TEXT NOT NULL,
    doc TEXT,
    read_at TEXT NOT NULL,
    PRIMARY KEY (collection, key, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE _below_due (
    collection TEXT NOT NULL,
    key INTEGER NOT NULL,
    name TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (collection, key, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE _calls (
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

CREATE VIRTUAL TABLE _calls_search USING fts5(text, tokenize = 'trigram', columnsize = 0);

CREATE TABLE _changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
    topic TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL
) STRICT;

CREATE TABLE _contact_numbers (
    e164 TEXT NOT NULL, contact_id INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (e164, contact_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE _coverage (
    collection TEXT NOT NULL,
    day TEXT NOT NULL,
    total INTEGER NOT NULL,
    ours INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    proved_at TEXT,
    cause TEXT,
    repair TEXT,
    differs_since TEXT,
    PRIMARY KEY (collection, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE _deletions (
    collection TEXT NOT NULL,
    key ANY NOT NULL,
    state TEXT NOT NULL,
    how TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (collection, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE _drift (
    collection TEXT NOT NULL,
    field TEXT NOT NULL,
    what TEXT NOT NULL,
    value TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    expected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, field, what, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE _due (
    derived TEXT NOT NULL, low ANY NOT NULL, high ANY NOT NULL, at REAL NOT NULL, PRIMARY KEY (derived, low)
) STRICT, WITHOUT ROWID;

CREATE TABLE _flagged (
    id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, at TEXT NOT NULL,
    reason TEXT NOT NULL, doc TEXT NOT NULL,
    UNIQUE (table_name, doc)
) STRICT;

CREATE TABLE _item_forms (
    table_name TEXT NOT NULL, key ANY NOT NULL, adds_fields INTEGER, read_at TEXT NOT NULL,
    links TEXT, PRIMARY KEY (table_name, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE _left_calls (
    user_id INTEGER NOT NULL, id INTEGER NOT NULL, change_no INTEGER NOT NULL, PRIMARY KEY (user_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE _leg_events (
    event_id TEXT NOT NULL, body_hash TEXT NOT NULL, leg_id INTEGER NOT NULL, root_id INTEGER,
    name TEXT NOT NULL, at TEXT NOT NULL, micros INTEGER, server TEXT, state TEXT, connected_at TEXT,
    start_time TEXT, context TEXT, destination TEXT, duration INTEGER, t_cause TEXT,
    src TEXT, src_id TEXT, src_name TEXT, dst TEXT, dst_id TEXT, dst_name TEXT,
    final INTEGER, terminated_by TEXT, dtmf_tag TEXT, dtmf_target TEXT,
    received_at REAL NOT NULL, doc TEXT NOT NULL,
    PRIMARY KEY (event_id, body_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE _leg_live (
    leg_id INTEGER PRIMARY KEY, seen_at INTEGER, doc TEXT, missing_at INTEGER, gone_at INTEGER
) STRICT;

CREATE TABLE _legs (
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

CREATE TABLE _lookups (
    kind TEXT NOT NULL,
    id INTEGER NOT NULL,
    wanted_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_at REAL,
    state TEXT NOT NULL DEFAULT 'open',
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE _media_tally (
    kind TEXT NOT NULL, state TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (kind, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE _merged_calls (
    id INTEGER PRIMARY KEY, into_id INTEGER, change_no INTEGER NOT NULL
) STRICT;

CREATE TABLE _meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;

CREATE TABLE _orders (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE _report_days (
    kind TEXT NOT NULL, day TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    calls INTEGER NOT NULL, inbound INTEGER NOT NULL, outbound INTEGER NOT NULL, answered INTEGER NOT NULL, missed INTEGER NOT NULL, voicemail INTEGER NOT NULL, abandoned INTEGER NOT NULL, in_time INTEGER NOT NULL, timed INTEGER NOT NULL, wait INTEGER NOT NULL, talks INTEGER NOT NULL, talked INTEGER NOT NULL, talk INTEGER NOT NULL, charged INTEGER NOT NULL, charge REAL NOT NULL,
    PRIMARY KEY (kind, day, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE _report_missed (
    kind TEXT NOT NULL, day TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    calls INTEGER NOT NULL, in_hour INTEGER NOT NULL, in_day INTEGER NOT NULL,
    PRIMARY KEY (kind, day, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE _sms_events (
  event_id TEXT NOT NULL,
  at TEXT NOT NULL,
  user_id ANY,
  sender TEXT NOT NULL,
  receiver TEXT NOT NULL,
  text TEXT NOT NULL,
  doc TEXT NOT NULL,
  sms_id INTEGER,
  PRIMARY KEY (event_id, sender, receiver, text)
) STRICT;

CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
) STRICT;

CREATE TABLE _walks (
    collection TEXT PRIMARY KEY,
    mark ANY,
    seen_until TEXT,
    begun_at TEXT,
    walk_key ANY,
    walk_rows INTEGER NOT NULL DEFAULT 0,
    complete_at TEXT,
    items_at TEXT,
    total INTEGER,
    last_success_at TEXT,
    last_error TEXT,
    last_error_at TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    walked_from TEXT,
    reread_at TEXT,
    off_since TEXT,
    held INTEGER,
    accepted INTEGER NOT NULL DEFAULT 0,
    form TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE _zone_offsets (
    since TEXT PRIMARY KEY, offset_seconds INTEGER NOT NULL, utc_offset TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE "aclroles" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "_name" ANY,
   "name" ANY,
   "product_code" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "calllabels" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "callmeback_cdrs" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "callmeback_settings" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "button_id" ANY,
   "culture" ANY,
   "ddi" ANY,
   "position" ANY,
   "allowed_countries" ANY,
   "name" ANY,
   "privacy_policy_url" ANY,
   "title" ANY,
   "welcome_screen_msg" ANY,
   "floating_icon" ANY,
   "show_to_allowed_countries_only" ANY,
   "max_call_rate" ANY,
   "created_at" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "callmeback_visitors" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "callmeback_websites" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "calls" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "clid" ANY,
   "context" ANY,
   "dst" ANY,
   "dst_call_id" ANY,
   "dst_codec" ANY,
   "dst_contact" ANY,
   "dst_id" ANY,
   "dst_name" ANY,
   "dst_ua" ANY,
   "queue_state" ANY,
   "referred_by" ANY,
   "src" ANY,
   "src_call_id" ANY,
   "src_codec" ANY,
   "src_contact" ANY,
   "src_id" ANY,
   "src_name" ANY,
   "src_ua" ANY,
   "connected_at" ANY,
   "start_time" ANY,
   "duration" ANY,
   "destination" ANY,
   "monitor_state" ANY,
   "parent_id" ANY,
   "state" ANY,
   "dst_connection" ANY,
   "dst_rate" ANY,
   "min_charge" ANY,
   "src_rate" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "calltracking_campaigns" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "calltracking_cdrs" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "calltracking_ddis" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "cdrs" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "duration" ANY,
   "live_id" ANY,
   "parent_live_id" ANY,
   "user_id" ANY,
   "sip_endpoint_id" ANY,
   "server_id" ANY,
   "type" ANY,
   "calldate" ANY,
   "clid" ANY,
   "src_id" ANY,
   "src_name" ANY,
   "src" ANY,
   "src_ua" ANY,
   "src_codec" ANY,
   "dst_id" ANY,
   "dst" ANY,
   "dst_name" ANY,
   "dst_ua" ANY,
   "dst_codec" ANY,
   "billsec" ANY,
   "disposition" ANY,
   "destination" ANY,
   "context" ANY,
   "rate" ANY,
   "charge" ANY,
   "t_cause" ANY,
   "info" ANY,
   "call_id" ANY,
   "root_live_id" ANY,
   "is_root" ANY,
   "labels" ANY,
   "metadata" ANY,
   "nb_notes" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "cdrs_calltracking" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "cdrs_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "chats" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "customer_id" ANY,
   "duration" ANY,
   "operator_id" ANY,
   "state" ANY,
   "website_id" ANY,
   "created_at" ANY,
   "operator_ua" ANY,
   "visitor_city" ANY,
   "visitor_country" ANY,
   "visitor_email" ANY,
   "visitor_geo" ANY,
   "visitor_id" ANY,
   "visitor_ip" ANY,
   "visitor_name" ANY,
   "visitor_referer" ANY,
   "visitor_ua" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "conferences" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "confno" ANY,
   "confno_pstn" ANY,
   "ann_join_leave" ANY,
   "monitor" ANY,
   "name" ANY,
   "pin" ANY,
   "pin_pstn" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "contacts" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "dialler_source_id" ANY,
   "nb_call_attempts" ANY,
   "outcome_id" ANY,
   "rel_user_id" ANY,
   "type" ANY,
   "user_id" ANY,
   "company" ANY,
   "email" ANY,
   "ext" ANY,
   "first_name" ANY,
   "group_name" ANY,
   "last_name" ANY,
   "mobile" ANY,
   "mobile_1" ANY,
   "mobile_2" ANY,
   "notes" ANY,
   "tel" ANY,
   "tel_1" ANY,
   "tel_2" ANY,
   "created_at" ANY,
   "global" ANY,
   "internal" ANY,
   "last_call_at" ANY,
   "next_call_at" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "ddis" (
   "id" TEXT PRIMARY KEY NOT NULL,
   "e164" ANY,
   "fax_email" ANY,
   "info" ANY,
   "name" ANY,
   "sms_email" ANY,
   "uri" ANY,
   "channels" ANY,
   "cli_prefix" ANY,
   "flag" ANY,
   "status" ANY,
   "target_id" ANY,
   "target_type" ANY,
   "cli_hide" ANY,
   "esc_enabled" ANY,
   "fax_enabled" ANY,
   "has_fax_password" ANY,
   "sms_enabled" ANY,
   "tel_verified" ANY,
   "created_at" ANY,
   "rate" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "ddis_calltracking" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "ddis_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "faxes" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "pages" ANY,
   "status" ANY,
   "type" ANY,
   "charge" ANY,
   "created_at" ANY,
   "filename" ANY,
   "from" ANY,
   "to" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "ivrs" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "final_dst_id" ANY,
   "final_dst_type" ANY,
   "language" ANY,
   "number" ANY,
   "repeats" ANY,
   "ring_time" ANY,
   "timeout" ANY,
   "ext_dialing" ANY,
   "random_choice" ANY,
   "name" ANY,
   "post_sounds" ANY,
   "random_dst" ANY,
   "sounds" ANY,
   "hash" ANY,
   "star" ANY,
   "zero" ANY,
   "one" ANY,
   "two" ANY,
   "three" ANY,
   "four" ANY,
   "five" ANY,
   "six" ANY,
   "seven" ANY,
   "eight" ANY,
   "nine" ANY,
   "one_sounds" ANY,
   "two_sounds" ANY,
   "three_sounds" ANY,
   "four_sounds" ANY,
   "five_sounds" ANY,
   "six_sounds" ANY,
   "seven_sounds" ANY,
   "eight_sounds" ANY,
   "nine_sounds" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "me" (
   "id" TEXT PRIMARY KEY NOT NULL,
   "cc" ANY,
   "cli" ANY,
   "currency_iso" ANY,
   "is_root" ANY,
   "language" ANY,
   "balance" ANY,
   "email" ANY,
   "first_name" ANY,
   "last_name" ANY,
   "customer_id" ANY,
   "sip_password" ANY,
   "sip_domain" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE media (
    kind TEXT NOT NULL,
    record_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    size INTEGER,
    sha256 TEXT,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    next_try_at REAL,
    updated_at TEXT NOT NULL,
    checked_at TEXT,
    found_at TEXT,
    finding TEXT,
    PRIMARY KEY (kind, record_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE "mediasessions" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "call_id" ANY,
   "dst_id" ANY,
   "dst_ua" ANY,
   "src_id" ANY,
   "src_ua" ANY,
   "status" ANY,
   "type" ANY,
   "created_at" ANY,
   "updated_at" ANY,
   "duration" ANY,
   "user" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "mediasessions_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "monitors" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "duration" ANY,
   "live_id" ANY,
   "sentiment" ANY,
   "sip_endpoint_id" ANY,
   "size" ANY,
   "user_id" ANY,
   "called" ANY,
   "caller" ANY,
   "context" ANY,
   "dst_id" ANY,
   "dst_name" ANY,
   "src_id" ANY,
   "summary" ANY,
   "transcript" ANY,
   "type" ANY,
   "timestamp" ANY,
   "transcript_speakers" ANY,
   "cx_score" ANY,
   "metadata" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "msdrs" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "duration" ANY,
   "media_session_id" ANY,
   "user_id" ANY,
   "call_id" ANY,
   "dst" ANY,
   "dst_id" ANY,
   "dst_ua" ANY,
   "src" ANY,
   "src_id" ANY,
   "src_ua" ANY,
   "t_cause" ANY,
   "type" ANY,
   "created_at" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "msdrs_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "pickupgroups" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "users" ANY,
   "name" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "queuegroups" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "name" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "queues" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "ann_freq" ANY,
   "final_dst_id" ANY,
   "ivr" ANY,
   "language" ANY,
   "max_callers" ANY,
   "max_wait_time" ANY,
   "moh" ANY,
   "monitor" ANY,
   "number" ANY,
   "post_call_ivr_id" ANY,
   "retry" ANY,
   "ring_strategy" ANY,
   "ring_time" ANY,
   "wrap_up_panel_timeout" ANY,
   "wrap_up_time" ANY,
   "final_dst_type" ANY,
   "caller_sounds" ANY,
   "email_missed" ANY,
   "name" ANY,
   "cli_prefix" ANY,
   "hash_to_exit" ANY,
   "hold_ann" ANY,
   "join_empty" ANY,
   "liaf" ANY,
   "pos_ann" ANY,
   "skip_busy" ANY,
   "wait_time_prefix" ANY,
   "wrap_up_panel" ANY,
   "users" ANY,
   "ddis" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "reportschedules" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "culture" ANY,
   "format" ANY,
   "report_id" ANY,
   "status" ANY,
   "created_at" ANY,
   "end_at" ANY,
   "last_run_at" ANY,
   "next_run_at" ANY,
   "start_at" ANY,
   "description" ANY,
   "emails" ANY,
   "frequency" ANY,
   "name" ANY,
   "timezone" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "reportschedules_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "ringgroups" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "final_dst_id" ANY,
   "final_dst_type" ANY,
   "moh_id" ANY,
   "number" ANY,
   "ring_time" ANY,
   "strategy" ANY,
   "cli_prefix" ANY,
   "name" ANY,
   "users" ANY,
   "ddis" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "ringgroups_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "routingrules" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "customer" ANY,
   "direction" ANY,
   "pos" ANY,
   "action" ANY,
   "destination" ANY,
   "source" ANY,
   "time_interval" ANY,
   "final_dst" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "sms" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "user_id" ANY,
   "created_at" ANY,
   "from" ANY,
   "from_id" ANY,
   "from_name" ANY,
   "message" ANY,
   "result" ANY,
   "to" ANY,
   "to_id" ANY,
   "to_name" ANY,
   "type" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "sms_cannedresponses" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "sms_dictionaries" (
   "_n" INTEGER PRIMARY KEY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "usergrouppolicies" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "color" ANY,
   "name" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "usergroups" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "color" ANY,
   "name" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "users" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "is_initial" ANY,
   "email" ANY,
   "first_name" ANY,
   "last_name" ANY,
   "roles" ANY,
   "active" ANY,
   "visited_apps" ANY,
   "is_root" ANY,
   "two_factor_auth" ANY,
   "created_at" ANY,
   "customer_id_id" ANY,
   "mobile_activated" ANY,
   "mobile" ANY,
   "ext" ANY,
   "cli" ANY,
   "esc_cli" ANY,
   "cc" ANY,
   "area_code" ANY,
   "ring_time" ANY,
   "final_dst_type" ANY,
   "final_dst_id" ANY,
   "vm_pin" ANY,
   "vm_to_email" ANY,
   "vm_emails" ANY,
   "vm_tts" ANY,
   "vm_new" ANY,
   "vm_old" ANY,
   "cw" ANY,
   "dnd" ANY,
   "rec_allowed" ANY,
   "rec_never_internal" ANY,
   "fm" ANY,
   "fm_only_direct" ANY,
   "fm_init_ring_time" ANY,
   "fm_announcement_enabled" ANY,
   "fm_confirm_required" ANY,
   "fm_allowed" ANY,
   "fm_targets" ANY,
   "fm_ring_time" ANY,
   "fm_strategy" ANY,
   "fm_final_dst_type" ANY,
   "fm_final_dst_id" ANY,
   "fm_cli" ANY,
   "nun" ANY,
   "nun_only_direct" ANY,
   "nun_ring_time" ANY,
   "monitor" ANY,
   "monitor_transcript" ANY,
   "auto_answer_header" ANY,
   "log_missed_calls" ANY,
   "language" ANY,
   "cnam" ANY,
   "email_missed" ANY,
   "call_barge_allowed" ANY,
   "transfer_cli" ANY,
   "nb_sip_locations" ANY,
   "pickup_group_id" ANY,
   "location_id" ANY,
   "vm_announcement_id" ANY,
   "fm_announcement_id" ANY,
   "legacy_api_key" ANY,
   "customer" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "vmannouncements" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "extension" ANY,
   "created_at" ANY,
   "description" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "voicemessages" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "duration" ANY,
   "extension_id" ANY,
   "folder" ANY,
   "live_id" ANY,
   "parent_live_id" ANY,
   "caller" ANY,
   "callerid" ANY,
   "dialled" ANY,
   "transcript" ANY,
   "is_new" ANY,
   "origtime" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE TABLE "webcalls" (
   "id" INTEGER PRIMARY KEY NOT NULL,
   "calldate" ANY,
   "charge" ANY,
   "from_charge" ANY,
   "from_rate" ANY,
   "to_charge" ANY,
   "to_rate" ANY,
   "from" ANY,
   "to" ANY,
   "from_duration" ANY,
   "to_duration" ANY,
   "_doc" TEXT NOT NULL,
   "_item" TEXT,
   "_first_seen" TEXT NOT NULL,
   "_last_seen" TEXT NOT NULL,
   "_source" TEXT NOT NULL,
   "_missing_since" TEXT
) STRICT;

CREATE INDEX _answers_asked_at ON _answers (asked_at);

CREATE INDEX _calls_changed ON _calls (change_no);

CREATE INDEX _calls_of_user ON _calls (user_id, started_at) WHERE user_id IS NOT NULL;

CREATE INDEX _calls_open ON _calls (state) WHERE state <> 'ended';

CREATE INDEX _calls_outcome ON _calls (outcome, started_at);

CREATE INDEX _calls_party ON _calls (coalesce(party_e164, party), started_at);

CREATE INDEX _calls_report ON _calls (started_at, direction, outcome, wait_seconds,
    talk_seconds, charge, user_id, our_e164, our_number, group_kind, group_id, group_name, party_e164);

CREATE INDEX _calls_with_voicemail ON _calls (started_at) WHERE voicemails > 0;

CREATE INDEX _contact_numbers_contact ON _contact_numbers (contact_id);

CREATE INDEX _coverage_gaps ON _coverage (collection, day) WHERE total <> ours;

CREATE INDEX _due_now ON _due (derived, low, high) WHERE at = 0;

CREATE INDEX _item_forms_adding ON _item_forms (table_name) WHERE adds_fields = 1;

CREATE INDEX _left_calls_changed ON _left_calls (user_id, change_no);

CREATE INDEX _leg_events_leg ON _leg_events (leg_id);

CREATE INDEX _legs_call ON _legs (call_id);

CREATE INDEX _legs_key ON _legs (join_key, (root_id IS NULL AND parent_id IS NULL), started)
    WHERE join_key IS NOT NULL;

CREATE INDEX _legs_key_ended ON _legs (join_key, ended) WHERE join_key IS NOT NULL;

CREATE INDEX _legs_open ON _legs (leg_id) WHERE state <> 'ENDED';

CREATE INDEX _legs_parent ON _legs (parent_id) WHERE parent_id IS NOT NULL;

CREATE INDEX _legs_room ON _legs (room) WHERE room IS NOT NULL;

CREATE INDEX _legs_root ON _legs (root_id) WHERE root_id IS NOT NULL;

CREATE INDEX _lookups_due ON _lookups (next_at) WHERE state = 'open';

CREATE INDEX _lookups_unlearnt ON _lookups (id) WHERE state = 'unlearnt';

CREATE INDEX _lookups_wanted ON _lookups (wanted_at) WHERE kind = 'leg';

CREATE INDEX _merged_calls_changed ON _merged_calls (change_no);

CREATE INDEX _merged_calls_into ON _merged_calls (into_id) WHERE into_id IS NOT NULL;

CREATE INDEX _sms_by_created ON sms (created_at);

CREATE INDEX _sms_by_message ON sms (message);

CREATE INDEX _sms_events_by_text ON _sms_events (text);

CREATE INDEX _sms_events_unmatched ON _sms_events (at) WHERE sms_id IS NULL;

CREATE INDEX cdrs_asked ON cdrs (
    dst, calldate, src, user_id, type, disposition, destination, context, billsec, duration, src_name,
    dst_name, charge, _missing_since
) WHERE _missing_since IS NULL;

CREATE INDEX cdrs_calldate ON cdrs (calldate, _missing_since);

CREATE INDEX cdrs_disposition_time ON cdrs (disposition, calldate, _missing_since);

CREATE INDEX cdrs_dst_time ON cdrs (dst, calldate, _missing_since);

CREATE INDEX cdrs_labels ON cdrs (labels, live_id)
    WHERE labels IS NOT NULL AND labels <> '[]';

CREATE INDEX cdrs_live_id ON cdrs (live_id);

CREATE INDEX cdrs_missing ON cdrs (_missing_since) WHERE _missing_since IS NOT NULL;

CREATE INDEX cdrs_noted ON cdrs (id) WHERE nb_notes > 0;

CREATE INDEX cdrs_present ON cdrs (id) WHERE _missing_since IS NULL;

CREATE INDEX cdrs_src_time ON cdrs (src, calldate, _missing_since);

CREATE INDEX cdrs_type_time ON cdrs (type, calldate, _missing_since);

CREATE INDEX cdrs_user_id ON cdrs (user_id, _missing_since);

CREATE INDEX cdrs_user_time ON cdrs (user_id, calldate, _missing_since);

CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");

CREATE INDEX media_checked ON media (checked_at) WHERE state = 'have';

CREATE INDEX media_due ON media (kind, next_try_at) WHERE state IN ('wanted', 'failed');

CREATE INDEX media_found ON media (found_at) WHERE finding IS NOT NULL;

CREATE INDEX media_wanted ON media (kind, record_id) WHERE state IN ('wanted', 'failed');

CREATE INDEX monitors_live_id ON monitors (live_id);

CREATE INDEX monitors_missing ON monitors (_missing_since) WHERE _missing_since IS NOT NULL;

CREATE INDEX monitors_present ON monitors (id) WHERE _missing_since IS NULL;

CREATE INDEX monitors_timestamp ON monitors ("timestamp", _missing_since);

CREATE INDEX monitors_user_id ON monitors (user_id, _missing_since);

CREATE INDEX monitors_user_time ON monitors (user_id, "timestamp");

CREATE INDEX sms_created_at ON sms (created_at, _missing_since);

CREATE INDEX sms_missing ON sms (_missing_since) WHERE _missing_since IS NOT NULL;

CREATE INDEX sms_present ON sms (id) WHERE _missing_since IS NULL;

CREATE INDEX sms_user_id ON sms (user_id, _missing_since);

CREATE INDEX voicemessages_extension_id ON voicemessages (extension_id, _missing_since);

CREATE INDEX voicemessages_live_id ON voicemessages (live_id);

CREATE INDEX voicemessages_missing ON voicemessages (_missing_since)
    WHERE _missing_since IS NOT NULL;

CREATE INDEX voicemessages_new ON voicemessages (id) WHERE is_new IN (1, '1', 'true');

CREATE INDEX voicemessages_origtime ON voicemessages (origtime, _missing_since);

CREATE INDEX voicemessages_parent_live_id ON voicemessages (parent_live_id);

CREATE INDEX voicemessages_present ON voicemessages (id) WHERE _missing_since IS NULL;

CREATE TRIGGER _due_callbacks__calls_delete AFTER DELETE ON _calls WHEN (1) AND OLD.id IS NOT NULL AND (OLD.id <= (SELECT high FROM _due WHERE derived = 'callbacks' AND low <= +OLD.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('callbacks', OLD.id, OLD.id, 0); END;

CREATE TRIGGER _due_callbacks__calls_insert AFTER INSERT ON _calls WHEN (1) AND NEW.id IS NOT NULL AND (NEW.id <= (SELECT high FROM _due WHERE derived = 'callbacks' AND low <= +NEW.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('callbacks', NEW.id, NEW.id, 0); END;

CREATE TRIGGER _due_callbacks__calls_update_new AFTER UPDATE OF id, direction, outcome, started_at, answered_at, talk_seconds, party, party_e164, party_name, our_number ON _calls WHEN ((1) OR (1)) AND (OLD.id, OLD.direction, OLD.outcome, OLD.started_at, OLD.answered_at, OLD.talk_seconds, OLD.party, OLD.party_e164, OLD.party_name, OLD.our_number) IS NOT (NEW.id, NEW.direction, NEW.outcome, NEW.started_at, NEW.answered_at, NEW.talk_seconds, NEW.party, NEW.party_e164, NEW.party_name, NEW.our_number) AND NEW.id IS NOT NULL AND (NEW.id <= (SELECT high FROM _due WHERE derived = 'callbacks' AND low <= +NEW.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('callbacks', NEW.id, NEW.id, 0); END;

CREATE TRIGGER _due_callbacks__calls_update_old AFTER UPDATE OF id, direction, outcome, started_at, answered_at, talk_seconds, party, party_e164, party_name, our_number ON _calls WHEN ((1) OR (1)) AND (OLD.id, OLD.direction, OLD.outcome, OLD.started_at, OLD.answered_at, OLD.talk_seconds, OLD.party, OLD.party_e164, OLD.party_name, OLD.our_number) IS NOT (NEW.id, NEW.direction, NEW.outcome, NEW.started_at, NEW.answered_at, NEW.talk_seconds, NEW.party, NEW.party_e164, NEW.party_name, NEW.our_number) AND OLD.id IS NOT NULL AND (OLD.id <= (SELECT high FROM _due WHERE derived = 'callbacks' AND low <= +OLD.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('callbacks', OLD.id, OLD.id, 0); END;

CREATE TRIGGER _due_calls__contact_numbers_delete AFTER DELETE ON _contact_numbers WHEN (1) BEGIN INSERT INTO _due SELECT 'calls', changed.key, changed.key, 0 FROM (SELECT id AS key FROM _calls WHERE coalesce(party_e164, party) = OLD.e164) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'calls' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_calls__contact_numbers_insert AFTER INSERT ON _contact_numbers WHEN (1) BEGIN INSERT INTO _due SELECT 'calls', changed.key, changed.key, 0 FROM (SELECT id AS key FROM _calls WHERE coalesce(party_e164, party) = NEW.e164) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'calls' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_calls__contact_numbers_update_new AFTER UPDATE OF e164, contact_id, name ON _contact_numbers WHEN ((1) OR (1)) AND (OLD.e164, OLD.contact_id, OLD.name) IS NOT (NEW.e164, NEW.contact_id, NEW.name) BEGIN INSERT INTO _due SELECT 'calls', changed.key, changed.key, 0 FROM (SELECT id AS key FROM _calls WHERE coalesce(party_e164, party) = NEW.e164) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'calls' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_calls__contact_numbers_update_old AFTER UPDATE OF e164, contact_id, name ON _contact_numbers WHEN ((1) OR (1)) AND (OLD.e164, OLD.contact_id, OLD.name) IS NOT (NEW.e164, NEW.contact_id, NEW.name) BEGIN INSERT INTO _due SELECT 'calls', changed.key, changed.key, 0 FROM (SELECT id AS key FROM _calls WHERE coalesce(party_e164, party) = OLD.e164) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'calls' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_calls_conferences_delete AFTER DELETE ON conferences WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_conferences_insert AFTER INSERT ON conferences WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_conferences_update_new AFTER UPDATE OF id, confno ON conferences WHEN ((1) OR (1)) AND (OLD.id, OLD.confno) IS NOT (NEW.id, NEW.confno) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_conferences_update_old AFTER UPDATE OF id, confno ON conferences WHEN ((1) OR (1)) AND (OLD.id, OLD.confno) IS NOT (NEW.id, NEW.confno) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ddis_delete AFTER DELETE ON ddis WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ddis_insert AFTER INSERT ON ddis WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ddis_update_new AFTER UPDATE OF id, e164, name ON ddis WHEN ((1) OR (1)) AND (OLD.id, OLD.e164, OLD.name) IS NOT (NEW.id, NEW.e164, NEW.name) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ddis_update_old AFTER UPDATE OF id, e164, name ON ddis WHEN ((1) OR (1)) AND (OLD.id, OLD.e164, OLD.name) IS NOT (NEW.id, NEW.e164, NEW.name) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ivrs_delete AFTER DELETE ON ivrs WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ivrs_insert AFTER INSERT ON ivrs WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ivrs_update_new AFTER UPDATE OF id, number ON ivrs WHEN ((1) OR (1)) AND (OLD.id, OLD.number) IS NOT (NEW.id, NEW.number) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ivrs_update_old AFTER UPDATE OF id, number ON ivrs WHEN ((1) OR (1)) AND (OLD.id, OLD.number) IS NOT (NEW.id, NEW.number) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_queues_delete AFTER DELETE ON queues WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_queues_insert AFTER INSERT ON queues WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_queues_update_new AFTER UPDATE OF id, number, name, ring_time, retry ON queues WHEN ((1) OR (1)) AND (OLD.id, OLD.number, OLD.name, OLD.ring_time, OLD.retry) IS NOT (NEW.id, NEW.number, NEW.name, NEW.ring_time, NEW.retry) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_queues_update_old AFTER UPDATE OF id, number, name, ring_time, retry ON queues WHEN ((1) OR (1)) AND (OLD.id, OLD.number, OLD.name, OLD.ring_time, OLD.retry) IS NOT (NEW.id, NEW.number, NEW.name, NEW.ring_time, NEW.retry) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ringgroups_delete AFTER DELETE ON ringgroups WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ringgroups_insert AFTER INSERT ON ringgroups WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ringgroups_update_new AFTER UPDATE OF id, number, name, ring_time ON ringgroups WHEN ((1) OR (1)) AND (OLD.id, OLD.number, OLD.name, OLD.ring_time) IS NOT (NEW.id, NEW.number, NEW.name, NEW.ring_time) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_ringgroups_update_old AFTER UPDATE OF id, number, name, ring_time ON ringgroups WHEN ((1) OR (1)) AND (OLD.id, OLD.number, OLD.name, OLD.ring_time) IS NOT (NEW.id, NEW.number, NEW.name, NEW.ring_time) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_users_delete AFTER DELETE ON users WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_users_insert AFTER INSERT ON users WHEN (1) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_users_update_new AFTER UPDATE OF id, ext, first_name, last_name ON users WHEN ((1) OR (1)) AND (OLD.id, OLD.ext, OLD.first_name, OLD.last_name) IS NOT (NEW.id, NEW.ext, NEW.first_name, NEW.last_name) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_calls_users_update_old AFTER UPDATE OF id, ext, first_name, last_name ON users WHEN ((1) OR (1)) AND (OLD.id, OLD.ext, OLD.first_name, OLD.last_name) IS NOT (NEW.id, NEW.ext, NEW.first_name, NEW.last_name) AND NOT EXISTS (SELECT 1 FROM _due WHERE derived = 'calls' AND low = -9223372036854775808 AND high = 9223372036854775807) BEGIN DELETE FROM _due WHERE derived = 'calls'; INSERT INTO _due VALUES ('calls', -9223372036854775808, 9223372036854775807, 0); END;

CREATE TRIGGER _due_contact_numbers_contacts_delete AFTER DELETE ON contacts WHEN (1) AND OLD.id IS NOT NULL AND (OLD.id <= (SELECT high FROM _due WHERE derived = 'contact_numbers' AND low <= +OLD.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('contact_numbers', OLD.id, OLD.id, 0); END;

CREATE TRIGGER _due_contact_numbers_contacts_insert AFTER INSERT ON contacts WHEN (1) AND NEW.id IS NOT NULL AND (NEW.id <= (SELECT high FROM _due WHERE derived = 'contact_numbers' AND low <= +NEW.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('contact_numbers', NEW.id, NEW.id, 0); END;

CREATE TRIGGER _due_contact_numbers_contacts_update_new AFTER UPDATE OF id, first_name, last_name, company, tel, tel_1, tel_2, mobile, mobile_1, mobile_2, _missing_since ON contacts WHEN ((1) OR (1)) AND (OLD.id, OLD.first_name, OLD.last_name, OLD.company, OLD.tel, OLD.tel_1, OLD.tel_2, OLD.mobile, OLD.mobile_1, OLD.mobile_2, OLD._missing_since) IS NOT (NEW.id, NEW.first_name, NEW.last_name, NEW.company, NEW.tel, NEW.tel_1, NEW.tel_2, NEW.mobile, NEW.mobile_1, NEW.mobile_2, NEW._missing_since) AND NEW.id IS NOT NULL AND (NEW.id <= (SELECT high FROM _due WHERE derived = 'contact_numbers' AND low <= +NEW.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('contact_numbers', NEW.id, NEW.id, 0); END;

CREATE TRIGGER _due_contact_numbers_contacts_update_old AFTER UPDATE OF id, first_name, last_name, company, tel, tel_1, tel_2, mobile, mobile_1, mobile_2, _missing_since ON contacts WHEN ((1) OR (1)) AND (OLD.id, OLD.first_name, OLD.last_name, OLD.company, OLD.tel, OLD.tel_1, OLD.tel_2, OLD.mobile, OLD.mobile_1, OLD.mobile_2, OLD._missing_since) IS NOT (NEW.id, NEW.first_name, NEW.last_name, NEW.company, NEW.tel, NEW.tel_1, NEW.tel_2, NEW.mobile, NEW.mobile_1, NEW.mobile_2, NEW._missing_since) AND OLD.id IS NOT NULL AND (OLD.id <= (SELECT high FROM _due WHERE derived = 'contact_numbers' AND low <= +OLD.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('contact_numbers', OLD.id, OLD.id, 0); END;

CREATE TRIGGER _due_labels_cdrs_delete AFTER DELETE ON cdrs WHEN (OLD.labels <> '[]') BEGIN INSERT INTO _due SELECT 'labels', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'labels' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_labels_cdrs_insert AFTER INSERT ON cdrs WHEN (NEW.labels <> '[]') BEGIN INSERT INTO _due SELECT 'labels', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'labels' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_labels_cdrs_update_new AFTER UPDATE OF labels ON cdrs WHEN ((OLD.labels <> '[]') OR (NEW.labels <> '[]')) AND (OLD.labels) IS NOT (NEW.labels) BEGIN INSERT INTO _due SELECT 'labels', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'labels' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_labels_cdrs_update_old AFTER UPDATE OF labels ON cdrs WHEN ((OLD.labels <> '[]') OR (NEW.labels <> '[]')) AND (OLD.labels) IS NOT (NEW.labels) BEGIN INSERT INTO _due SELECT 'labels', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'labels' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_legs__leg_events_delete AFTER DELETE ON _leg_events WHEN (1) AND OLD.leg_id IS NOT NULL AND (OLD.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +OLD.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', OLD.leg_id, OLD.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_events_insert AFTER INSERT ON _leg_events WHEN (1) AND NEW.leg_id IS NOT NULL AND (NEW.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +NEW.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', NEW.leg_id, NEW.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_events_update_new AFTER UPDATE OF event_id, name, leg_id, root_id, at, micros, server, state, connected_at, start_time, context, destination, duration, t_cause, src, src_id, src_name, dst, dst_id, dst_name, final, terminated_by, dtmf_tag, dtmf_target, doc, received_at ON _leg_events WHEN ((1) OR (1)) AND (OLD.event_id, OLD.name, OLD.leg_id, OLD.root_id, OLD.at, OLD.micros, OLD.server, OLD.state, OLD.connected_at, OLD.start_time, OLD.context, OLD.destination, OLD.duration, OLD.t_cause, OLD.src, OLD.src_id, OLD.src_name, OLD.dst, OLD.dst_id, OLD.dst_name, OLD.final, OLD.terminated_by, OLD.dtmf_tag, OLD.dtmf_target, OLD.doc, OLD.received_at) IS NOT (NEW.event_id, NEW.name, NEW.leg_id, NEW.root_id, NEW.at, NEW.micros, NEW.server, NEW.state, NEW.connected_at, NEW.start_time, NEW.context, NEW.destination, NEW.duration, NEW.t_cause, NEW.src, NEW.src_id, NEW.src_name, NEW.dst, NEW.dst_id, NEW.dst_name, NEW.final, NEW.terminated_by, NEW.dtmf_tag, NEW.dtmf_target, NEW.doc, NEW.received_at) AND NEW.leg_id IS NOT NULL AND (NEW.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +NEW.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', NEW.leg_id, NEW.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_events_update_old AFTER UPDATE OF event_id, name, leg_id, root_id, at, micros, server, state, connected_at, start_time, context, destination, duration, t_cause, src, src_id, src_name, dst, dst_id, dst_name, final, terminated_by, dtmf_tag, dtmf_target, doc, received_at ON _leg_events WHEN ((1) OR (1)) AND (OLD.event_id, OLD.name, OLD.leg_id, OLD.root_id, OLD.at, OLD.micros, OLD.server, OLD.state, OLD.connected_at, OLD.start_time, OLD.context, OLD.destination, OLD.duration, OLD.t_cause, OLD.src, OLD.src_id, OLD.src_name, OLD.dst, OLD.dst_id, OLD.dst_name, OLD.final, OLD.terminated_by, OLD.dtmf_tag, OLD.dtmf_target, OLD.doc, OLD.received_at) IS NOT (NEW.event_id, NEW.name, NEW.leg_id, NEW.root_id, NEW.at, NEW.micros, NEW.server, NEW.state, NEW.connected_at, NEW.start_time, NEW.context, NEW.destination, NEW.duration, NEW.t_cause, NEW.src, NEW.src_id, NEW.src_name, NEW.dst, NEW.dst_id, NEW.dst_name, NEW.final, NEW.terminated_by, NEW.dtmf_tag, NEW.dtmf_target, NEW.doc, NEW.received_at) AND OLD.leg_id IS NOT NULL AND (OLD.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +OLD.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', OLD.leg_id, OLD.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_live_delete AFTER DELETE ON _leg_live WHEN (OLD.seen_at IS NOT NULL OR OLD.missing_at IS NOT NULL OR OLD.gone_at IS NOT NULL) AND OLD.leg_id IS NOT NULL AND (OLD.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +OLD.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', OLD.leg_id, OLD.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_live_insert AFTER INSERT ON _leg_live WHEN (NEW.seen_at IS NOT NULL OR NEW.missing_at IS NOT NULL OR NEW.gone_at IS NOT NULL) AND NEW.leg_id IS NOT NULL AND (NEW.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +NEW.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', NEW.leg_id, NEW.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_live_update_new AFTER UPDATE OF leg_id, seen_at, doc, missing_at, gone_at ON _leg_live WHEN ((OLD.seen_at IS NOT NULL OR OLD.missing_at IS NOT NULL OR OLD.gone_at IS NOT NULL) OR (NEW.seen_at IS NOT NULL OR NEW.missing_at IS NOT NULL OR NEW.gone_at IS NOT NULL)) AND (OLD.leg_id, OLD.seen_at, OLD.doc, OLD.missing_at, OLD.gone_at) IS NOT (NEW.leg_id, NEW.seen_at, NEW.doc, NEW.missing_at, NEW.gone_at) AND NEW.leg_id IS NOT NULL AND (NEW.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +NEW.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', NEW.leg_id, NEW.leg_id, 0); END;

CREATE TRIGGER _due_legs__leg_live_update_old AFTER UPDATE OF leg_id, seen_at, doc, missing_at, gone_at ON _leg_live WHEN ((OLD.seen_at IS NOT NULL OR OLD.missing_at IS NOT NULL OR OLD.gone_at IS NOT NULL) OR (NEW.seen_at IS NOT NULL OR NEW.missing_at IS NOT NULL OR NEW.gone_at IS NOT NULL)) AND (OLD.leg_id, OLD.seen_at, OLD.doc, OLD.missing_at, OLD.gone_at) IS NOT (NEW.leg_id, NEW.seen_at, NEW.doc, NEW.missing_at, NEW.gone_at) AND OLD.leg_id IS NOT NULL AND (OLD.leg_id <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +OLD.leg_id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', OLD.leg_id, OLD.leg_id, 0); END;

CREATE TRIGGER _due_legs_cdrs_delete AFTER DELETE ON cdrs WHEN (OLD.live_id > 0) AND CAST(OLD.live_id AS INTEGER) IS NOT NULL AND (CAST(OLD.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(OLD.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(OLD.live_id AS INTEGER), CAST(OLD.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_cdrs_insert AFTER INSERT ON cdrs WHEN (NEW.live_id > 0) AND CAST(NEW.live_id AS INTEGER) IS NOT NULL AND (CAST(NEW.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(NEW.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(NEW.live_id AS INTEGER), CAST(NEW.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_cdrs_update_new AFTER UPDATE OF id, live_id, parent_live_id, root_live_id, user_id, type, calldate, clid, src_id, src_name, src, dst_id, dst, dst_name, duration, billsec, disposition, destination, context, charge, t_cause, _first_seen ON cdrs WHEN ((OLD.live_id > 0) OR (NEW.live_id > 0)) AND (OLD.id, OLD.live_id, OLD.parent_live_id, OLD.root_live_id, OLD.user_id, OLD.type, OLD.calldate, OLD.clid, OLD.src_id, OLD.src_name, OLD.src, OLD.dst_id, OLD.dst, OLD.dst_name, OLD.duration, OLD.billsec, OLD.disposition, OLD.destination, OLD.context, OLD.charge, OLD.t_cause, OLD._first_seen) IS NOT (NEW.id, NEW.live_id, NEW.parent_live_id, NEW.root_live_id, NEW.user_id, NEW.type, NEW.calldate, NEW.clid, NEW.src_id, NEW.src_name, NEW.src, NEW.dst_id, NEW.dst, NEW.dst_name, NEW.duration, NEW.billsec, NEW.disposition, NEW.destination, NEW.context, NEW.charge, NEW.t_cause, NEW._first_seen) AND CAST(NEW.live_id AS INTEGER) IS NOT NULL AND (CAST(NEW.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(NEW.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(NEW.live_id AS INTEGER), CAST(NEW.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_cdrs_update_old AFTER UPDATE OF id, live_id, parent_live_id, root_live_id, user_id, type, calldate, clid, src_id, src_name, src, dst_id, dst, dst_name, duration, billsec, disposition, destination, context, charge, t_cause, _first_seen ON cdrs WHEN ((OLD.live_id > 0) OR (NEW.live_id > 0)) AND (OLD.id, OLD.live_id, OLD.parent_live_id, OLD.root_live_id, OLD.user_id, OLD.type, OLD.calldate, OLD.clid, OLD.src_id, OLD.src_name, OLD.src, OLD.dst_id, OLD.dst, OLD.dst_name, OLD.duration, OLD.billsec, OLD.disposition, OLD.destination, OLD.context, OLD.charge, OLD.t_cause, OLD._first_seen) IS NOT (NEW.id, NEW.live_id, NEW.parent_live_id, NEW.root_live_id, NEW.user_id, NEW.type, NEW.calldate, NEW.clid, NEW.src_id, NEW.src_name, NEW.src, NEW.dst_id, NEW.dst, NEW.dst_name, NEW.duration, NEW.billsec, NEW.disposition, NEW.destination, NEW.context, NEW.charge, NEW.t_cause, NEW._first_seen) AND CAST(OLD.live_id AS INTEGER) IS NOT NULL AND (CAST(OLD.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(OLD.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(OLD.live_id AS INTEGER), CAST(OLD.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_monitors_delete AFTER DELETE ON monitors WHEN (OLD.live_id > 0) AND CAST(OLD.live_id AS INTEGER) IS NOT NULL AND (CAST(OLD.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(OLD.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(OLD.live_id AS INTEGER), CAST(OLD.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_monitors_insert AFTER INSERT ON monitors WHEN (NEW.live_id > 0) AND CAST(NEW.live_id AS INTEGER) IS NOT NULL AND (CAST(NEW.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(NEW.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(NEW.live_id AS INTEGER), CAST(NEW.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_monitors_update_new AFTER UPDATE OF id, live_id, user_id ON monitors WHEN ((OLD.live_id > 0) OR (NEW.live_id > 0)) AND (OLD.id, OLD.live_id, OLD.user_id) IS NOT (NEW.id, NEW.live_id, NEW.user_id) AND CAST(NEW.live_id AS INTEGER) IS NOT NULL AND (CAST(NEW.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(NEW.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(NEW.live_id AS INTEGER), CAST(NEW.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_monitors_update_old AFTER UPDATE OF id, live_id, user_id ON monitors WHEN ((OLD.live_id > 0) OR (NEW.live_id > 0)) AND (OLD.id, OLD.live_id, OLD.user_id) IS NOT (NEW.id, NEW.live_id, NEW.user_id) AND CAST(OLD.live_id AS INTEGER) IS NOT NULL AND (CAST(OLD.live_id AS INTEGER) <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +CAST(OLD.live_id AS INTEGER) ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('legs', CAST(OLD.live_id AS INTEGER), CAST(OLD.live_id AS INTEGER), 0); END;

CREATE TRIGGER _due_legs_voicemessages_delete AFTER DELETE ON voicemessages WHEN (1) BEGIN INSERT INTO _due SELECT 'legs', changed.key, changed.key, 0 FROM (SELECT CAST(OLD.live_id AS INTEGER) AS key UNION SELECT CAST(OLD.parent_live_id AS INTEGER)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_legs_voicemessages_insert AFTER INSERT ON voicemessages WHEN (1) BEGIN INSERT INTO _due SELECT 'legs', changed.key, changed.key, 0 FROM (SELECT CAST(NEW.live_id AS INTEGER) AS key UNION SELECT CAST(NEW.parent_live_id AS INTEGER)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_legs_voicemessages_update_new AFTER UPDATE OF id, live_id, parent_live_id ON voicemessages WHEN ((1) OR (1)) AND (OLD.id, OLD.live_id, OLD.parent_live_id) IS NOT (NEW.id, NEW.live_id, NEW.parent_live_id) BEGIN INSERT INTO _due SELECT 'legs', changed.key, changed.key, 0 FROM (SELECT CAST(NEW.live_id AS INTEGER) AS key UNION SELECT CAST(NEW.parent_live_id AS INTEGER)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_legs_voicemessages_update_old AFTER UPDATE OF id, live_id, parent_live_id ON voicemessages WHEN ((1) OR (1)) AND (OLD.id, OLD.live_id, OLD.parent_live_id) IS NOT (NEW.id, NEW.live_id, NEW.parent_live_id) BEGIN INSERT INTO _due SELECT 'legs', changed.key, changed.key, 0 FROM (SELECT CAST(OLD.live_id AS INTEGER) AS key UNION SELECT CAST(OLD.parent_live_id AS INTEGER)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'legs' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_notes__below_delete AFTER DELETE ON _below WHEN (OLD.collection = 'cdrs' AND OLD.name = 'notes') BEGIN INSERT INTO _due SELECT 'notes', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = OLD.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'notes' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_notes__below_insert AFTER INSERT ON _below WHEN (NEW.collection = 'cdrs' AND NEW.name = 'notes') BEGIN INSERT INTO _due SELECT 'notes', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = NEW.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'notes' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_notes__below_update_new AFTER UPDATE OF doc ON _below WHEN ((OLD.collection = 'cdrs' AND OLD.name = 'notes') OR (NEW.collection = 'cdrs' AND NEW.name = 'notes')) AND (OLD.doc) IS NOT (NEW.doc) BEGIN INSERT INTO _due SELECT 'notes', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = NEW.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'notes' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_notes__below_update_old AFTER UPDATE OF doc ON _below WHEN ((OLD.collection = 'cdrs' AND OLD.name = 'notes') OR (NEW.collection = 'cdrs' AND NEW.name = 'notes')) AND (OLD.doc) IS NOT (NEW.doc) BEGIN INSERT INTO _due SELECT 'notes', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = OLD.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'notes' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_recordings_media_delete AFTER DELETE ON media WHEN (OLD.kind = 'recording' AND OLD.state = 'have') BEGIN INSERT INTO _due SELECT 'recordings', changed.key, changed.key, 0 FROM (SELECT call_id AS key FROM monitors JOIN _legs ON leg_id = live_id WHERE id = OLD.record_id) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'recordings' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_recordings_media_insert AFTER INSERT ON media WHEN (NEW.kind = 'recording' AND NEW.state = 'have') BEGIN INSERT INTO _due SELECT 'recordings', changed.key, changed.key, 0 FROM (SELECT call_id AS key FROM monitors JOIN _legs ON leg_id = live_id WHERE id = NEW.record_id) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'recordings' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_recordings_media_update_new AFTER UPDATE OF state ON media WHEN ((OLD.kind = 'recording' AND OLD.state = 'have') OR (NEW.kind = 'recording' AND NEW.state = 'have')) AND (OLD.state) IS NOT (NEW.state) BEGIN INSERT INTO _due SELECT 'recordings', changed.key, changed.key, 0 FROM (SELECT call_id AS key FROM monitors JOIN _legs ON leg_id = live_id WHERE id = NEW.record_id) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'recordings' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_recordings_media_update_old AFTER UPDATE OF state ON media WHEN ((OLD.kind = 'recording' AND OLD.state = 'have') OR (NEW.kind = 'recording' AND NEW.state = 'have')) AND (OLD.state) IS NOT (NEW.state) BEGIN INSERT INTO _due SELECT 'recordings', changed.key, changed.key, 0 FROM (SELECT call_id AS key FROM monitors JOIN _legs ON leg_id = live_id WHERE id = OLD.record_id) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'recordings' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_replies__sms_events_delete AFTER DELETE ON _sms_events WHEN (1) AND OLD.at IS NOT NULL AND (OLD.at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +OLD.at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', OLD.at, OLD.at, 0); END;

CREATE TRIGGER _due_replies__sms_events_insert AFTER INSERT ON _sms_events WHEN (1) AND NEW.at IS NOT NULL AND (NEW.at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +NEW.at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', NEW.at, NEW.at, 0); END;

CREATE TRIGGER _due_replies__sms_events_update_new AFTER UPDATE OF at, sender, text ON _sms_events WHEN ((1) OR (1)) AND (OLD.at, OLD.sender, OLD.text) IS NOT (NEW.at, NEW.sender, NEW.text) AND NEW.at IS NOT NULL AND (NEW.at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +NEW.at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', NEW.at, NEW.at, 0); END;

CREATE TRIGGER _due_replies__sms_events_update_old AFTER UPDATE OF at, sender, text ON _sms_events WHEN ((1) OR (1)) AND (OLD.at, OLD.sender, OLD.text) IS NOT (NEW.at, NEW.sender, NEW.text) AND OLD.at IS NOT NULL AND (OLD.at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +OLD.at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', OLD.at, OLD.at, 0); END;

CREATE TRIGGER _due_replies_sms_delete AFTER DELETE ON sms WHEN (OLD.created_at > '' AND OLD.type IS NOT 'O') AND OLD.created_at IS NOT NULL AND (OLD.created_at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +OLD.created_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', OLD.created_at, OLD.created_at, 0); END;

CREATE TRIGGER _due_replies_sms_insert AFTER INSERT ON sms WHEN (NEW.created_at > '' AND NEW.type IS NOT 'O') AND NEW.created_at IS NOT NULL AND (NEW.created_at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +NEW.created_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', NEW.created_at, NEW.created_at, 0); END;

CREATE TRIGGER _due_replies_sms_update_new AFTER UPDATE OF created_at, "from", message, type ON sms WHEN ((OLD.created_at > '' AND OLD.type IS NOT 'O') OR (NEW.created_at > '' AND NEW.type IS NOT 'O')) AND (OLD.created_at, OLD."from", OLD.message, OLD.type) IS NOT (NEW.created_at, NEW."from", NEW.message, NEW.type) AND NEW.created_at IS NOT NULL AND (NEW.created_at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +NEW.created_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', NEW.created_at, NEW.created_at, 0); END;

CREATE TRIGGER _due_replies_sms_update_old AFTER UPDATE OF created_at, "from", message, type ON sms WHEN ((OLD.created_at > '' AND OLD.type IS NOT 'O') OR (NEW.created_at > '' AND NEW.type IS NOT 'O')) AND (OLD.created_at, OLD."from", OLD.message, OLD.type) IS NOT (NEW.created_at, NEW."from", NEW.message, NEW.type) AND OLD.created_at IS NOT NULL AND (OLD.created_at <= (SELECT high FROM _due WHERE derived = 'replies' AND low <= +OLD.created_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('replies', OLD.created_at, OLD.created_at, 0); END;

CREATE TRIGGER _due_reports__calls_delete AFTER DELETE ON _calls WHEN (1) AND OLD.started_at IS NOT NULL AND (OLD.started_at <= (SELECT high FROM _due WHERE derived = 'reports' AND low <= +OLD.started_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('reports', OLD.started_at, OLD.started_at, 0); END;

CREATE TRIGGER _due_reports__calls_insert AFTER INSERT ON _calls WHEN (1) AND NEW.started_at IS NOT NULL AND (NEW.started_at <= (SELECT high FROM _due WHERE derived = 'reports' AND low <= +NEW.started_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('reports', NEW.started_at, NEW.started_at, 0); END;

CREATE TRIGGER _due_reports__calls_update_new AFTER UPDATE OF started_at, direction, outcome, wait_seconds, talk_seconds, charge, user_id, our_e164, our_number, group_kind, group_id, group_name, party_e164, party, legs, cdrs, t_cause ON _calls WHEN ((1) OR (1)) AND (OLD.started_at, OLD.direction, OLD.outcome, OLD.wait_seconds, OLD.talk_seconds, OLD.charge, OLD.user_id, OLD.our_e164, OLD.our_number, OLD.group_kind, OLD.group_id, OLD.group_name, OLD.party_e164, OLD.party, OLD.legs, OLD.cdrs, OLD.t_cause) IS NOT (NEW.started_at, NEW.direction, NEW.outcome, NEW.wait_seconds, NEW.talk_seconds, NEW.charge, NEW.user_id, NEW.our_e164, NEW.our_number, NEW.group_kind, NEW.group_id, NEW.group_name, NEW.party_e164, NEW.party, NEW.legs, NEW.cdrs, NEW.t_cause) AND NEW.started_at IS NOT NULL AND (NEW.started_at <= (SELECT high FROM _due WHERE derived = 'reports' AND low <= +NEW.started_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('reports', NEW.started_at, NEW.started_at, 0); END;

CREATE TRIGGER _due_reports__calls_update_old AFTER UPDATE OF started_at, direction, outcome, wait_seconds, talk_seconds, charge, user_id, our_e164, our_number, group_kind, group_id, group_name, party_e164, party, legs, cdrs, t_cause ON _calls WHEN ((1) OR (1)) AND (OLD.started_at, OLD.direction, OLD.outcome, OLD.wait_seconds, OLD.talk_seconds, OLD.charge, OLD.user_id, OLD.our_e164, OLD.our_number, OLD.group_kind, OLD.group_id, OLD.group_name, OLD.party_e164, OLD.party, OLD.legs, OLD.cdrs, OLD.t_cause) IS NOT (NEW.started_at, NEW.direction, NEW.outcome, NEW.wait_seconds, NEW.talk_seconds, NEW.charge, NEW.user_id, NEW.our_e164, NEW.our_number, NEW.group_kind, NEW.group_id, NEW.group_name, NEW.party_e164, NEW.party, NEW.legs, NEW.cdrs, NEW.t_cause) AND OLD.started_at IS NOT NULL AND (OLD.started_at <= (SELECT high FROM _due WHERE derived = 'reports' AND low <= +OLD.started_at ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('reports', OLD.started_at, OLD.started_at, 0); END;

CREATE TRIGGER _due_search__below_delete AFTER DELETE ON _below WHEN (OLD.collection = 'cdrs' AND OLD.name = 'notes') BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = OLD.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search__below_insert AFTER INSERT ON _below WHEN (NEW.collection = 'cdrs' AND NEW.name = 'notes') BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = NEW.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search__below_update_new AFTER UPDATE OF doc ON _below WHEN ((OLD.collection = 'cdrs' AND OLD.name = 'notes') OR (NEW.collection = 'cdrs' AND NEW.name = 'notes')) AND (OLD.doc) IS NOT (NEW.doc) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = NEW.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search__below_update_old AFTER UPDATE OF doc ON _below WHEN ((OLD.collection = 'cdrs' AND OLD.name = 'notes') OR (NEW.collection = 'cdrs' AND NEW.name = 'notes')) AND (OLD.doc) IS NOT (NEW.doc) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id WHERE cdrs.id = OLD.key) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search__calls_delete AFTER DELETE ON _calls WHEN (1) AND OLD.id IS NOT NULL AND (OLD.id <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +OLD.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('search', OLD.id, OLD.id, 0); END;

CREATE TRIGGER _due_search__calls_insert AFTER INSERT ON _calls WHEN (1) AND NEW.id IS NOT NULL AND (NEW.id <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +NEW.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('search', NEW.id, NEW.id, 0); END;

CREATE TRIGGER _due_search__calls_update_new AFTER UPDATE OF id, party, party_e164, our_number, party_name, user_name, extension, group_name, legs, recordings, voicemails ON _calls WHEN ((1) OR (1)) AND (OLD.id, OLD.party, OLD.party_e164, OLD.our_number, OLD.party_name, OLD.user_name, OLD.extension, OLD.group_name, OLD.legs, OLD.recordings, OLD.voicemails) IS NOT (NEW.id, NEW.party, NEW.party_e164, NEW.our_number, NEW.party_name, NEW.user_name, NEW.extension, NEW.group_name, NEW.legs, NEW.recordings, NEW.voicemails) AND NEW.id IS NOT NULL AND (NEW.id <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +NEW.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('search', NEW.id, NEW.id, 0); END;

CREATE TRIGGER _due_search__calls_update_old AFTER UPDATE OF id, party, party_e164, our_number, party_name, user_name, extension, group_name, legs, recordings, voicemails ON _calls WHEN ((1) OR (1)) AND (OLD.id, OLD.party, OLD.party_e164, OLD.our_number, OLD.party_name, OLD.user_name, OLD.extension, OLD.group_name, OLD.legs, OLD.recordings, OLD.voicemails) IS NOT (NEW.id, NEW.party, NEW.party_e164, NEW.our_number, NEW.party_name, NEW.user_name, NEW.extension, NEW.group_name, NEW.legs, NEW.recordings, NEW.voicemails) AND OLD.id IS NOT NULL AND (OLD.id <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +OLD.id ORDER BY low DESC LIMIT 1)) IS NOT TRUE BEGIN INSERT INTO _due VALUES ('search', OLD.id, OLD.id, 0); END;

CREATE TRIGGER _due_search_monitors_delete AFTER DELETE ON monitors WHEN (OLD.transcript IS NOT NULL OR OLD.summary IS NOT NULL) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_monitors_insert AFTER INSERT ON monitors WHEN (NEW.transcript IS NOT NULL OR NEW.summary IS NOT NULL) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_monitors_update_new AFTER UPDATE OF live_id, transcript, summary ON monitors WHEN ((OLD.transcript IS NOT NULL OR OLD.summary IS NOT NULL) OR (NEW.transcript IS NOT NULL OR NEW.summary IS NOT NULL)) AND (OLD.live_id, OLD.transcript, OLD.summary) IS NOT (NEW.live_id, NEW.transcript, NEW.summary) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_monitors_update_old AFTER UPDATE OF live_id, transcript, summary ON monitors WHEN ((OLD.transcript IS NOT NULL OR OLD.summary IS NOT NULL) OR (NEW.transcript IS NOT NULL OR NEW.summary IS NOT NULL)) AND (OLD.live_id, OLD.transcript, OLD.summary) IS NOT (NEW.live_id, NEW.transcript, NEW.summary) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_voicemessages_delete AFTER DELETE ON voicemessages WHEN (OLD.transcript IS NOT NULL) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id, OLD.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_voicemessages_insert AFTER INSERT ON voicemessages WHEN (NEW.transcript IS NOT NULL) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id, NEW.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_voicemessages_update_new AFTER UPDATE OF live_id, parent_live_id, transcript ON voicemessages WHEN ((OLD.transcript IS NOT NULL) OR (NEW.transcript IS NOT NULL)) AND (OLD.live_id, OLD.parent_live_id, OLD.transcript) IS NOT (NEW.live_id, NEW.parent_live_id, NEW.transcript) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id, NEW.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_search_voicemessages_update_old AFTER UPDATE OF live_id, parent_live_id, transcript ON voicemessages WHEN ((OLD.transcript IS NOT NULL) OR (NEW.transcript IS NOT NULL)) AND (OLD.live_id, OLD.parent_live_id, OLD.transcript) IS NOT (NEW.live_id, NEW.parent_live_id, NEW.transcript) BEGIN INSERT INTO _due SELECT 'search', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id, OLD.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'search' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_monitors_delete AFTER DELETE ON monitors WHEN (OLD.transcript IS NOT NULL OR OLD.summary IS NOT NULL) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_monitors_insert AFTER INSERT ON monitors WHEN (NEW.transcript IS NOT NULL OR NEW.summary IS NOT NULL) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_monitors_update_new AFTER UPDATE OF live_id, transcript, summary ON monitors WHEN ((OLD.transcript IS NOT NULL OR OLD.summary IS NOT NULL) OR (NEW.transcript IS NOT NULL OR NEW.summary IS NOT NULL)) AND (OLD.live_id, OLD.transcript, OLD.summary) IS NOT (NEW.live_id, NEW.transcript, NEW.summary) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_monitors_update_old AFTER UPDATE OF live_id, transcript, summary ON monitors WHEN ((OLD.transcript IS NOT NULL OR OLD.summary IS NOT NULL) OR (NEW.transcript IS NOT NULL OR NEW.summary IS NOT NULL)) AND (OLD.live_id, OLD.transcript, OLD.summary) IS NOT (NEW.live_id, NEW.transcript, NEW.summary) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_voicemessages_delete AFTER DELETE ON voicemessages WHEN (OLD.transcript IS NOT NULL) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id, OLD.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_voicemessages_insert AFTER INSERT ON voicemessages WHEN (NEW.transcript IS NOT NULL) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id, NEW.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_voicemessages_update_new AFTER UPDATE OF live_id, parent_live_id, transcript ON voicemessages WHEN ((OLD.transcript IS NOT NULL) OR (NEW.transcript IS NOT NULL)) AND (OLD.live_id, OLD.parent_live_id, OLD.transcript) IS NOT (NEW.live_id, NEW.parent_live_id, NEW.transcript) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (NEW.live_id, NEW.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE TRIGGER _due_transcript_voicemessages_update_old AFTER UPDATE OF live_id, parent_live_id, transcript ON voicemessages WHEN ((OLD.transcript IS NOT NULL) OR (NEW.transcript IS NOT NULL)) AND (OLD.live_id, OLD.parent_live_id, OLD.transcript) IS NOT (NEW.live_id, NEW.parent_live_id, NEW.transcript) BEGIN INSERT INTO _due SELECT 'transcript', changed.key, changed.key, 0 FROM (SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN (OLD.live_id, OLD.parent_live_id)) AS changed WHERE changed.key IS NOT NULL AND (changed.key <= (SELECT high FROM _due WHERE derived = 'transcript' AND low <= +changed.key ORDER BY low DESC LIMIT 1)) IS NOT TRUE; END;

CREATE VIEW _messages AS
  SELECT 'sms ' || s.id AS key, s.id AS sms_id, s.created_at AS at,
         CASE WHEN s.type = 'O' THEN 'out' WHEN s.type = 'I' THEN 'in'
              WHEN EXISTS (SELECT 1 FROM ddis d
                            WHERE CASE WHEN d.e164 LIKE '+%' THEN substr(d.e164, 2) WHEN d.e164 LIKE '00%' THEN substr(d.e164, 3) ELSE CAST(coalesce(d.e164, '') AS TEXT) END = CASE WHEN s."from" LIKE '+%' THEN substr(s."from", 2) WHEN s."from" LIKE '00%' THEN substr(s."from", 3) ELSE CAST(coalesce(s."from", '') AS TEXT) END) THEN 'out'
              ELSE 'in' END AS direction,
         CASE WHEN s."from" LIKE '+%' THEN substr(s."from", 2) WHEN s."from" LIKE '00%' THEN substr(s."from", 3) ELSE CAST(coalesce(s."from", '') AS TEXT) END AS sender, CASE WHEN s."to" LIKE '+%' THEN substr(s."to", 2) WHEN s."to" LIKE '00%' THEN substr(s."to", 3) ELSE CAST(coalesce(s."to", '') AS TEXT) END AS receiver,
         s.message AS text, s.result AS result, s.user_id AS user_id,
         s.from_name AS from_name, s.to_name AS to_name, 'record' AS source, s._missing_since AS missing_since
    FROM sms s
  UNION ALL
  SELECT 'event ' || e.event_id, NULL, e.at, 'in', CASE WHEN e.sender LIKE '+%' THEN substr(e.sender, 2) WHEN e.sender LIKE '00%' THEN substr(e.sender, 3) ELSE CAST(coalesce(e.sender, '') AS TEXT) END, CASE WHEN e.receiver LIKE '+%' THEN substr(e.receiver, 2) WHEN e.receiver LIKE '00%' THEN substr(e.receiver, 3) ELSE CAST(coalesce(e.receiver, '') AS TEXT) END,
         e.text, NULL, e.user_id, NULL, NULL, 'webhook', NULL
    FROM _sms_events e
   WHERE e.sms_id IS NULL OR NOT EXISTS (SELECT 1 FROM sms s WHERE s.id = e.sms_id);

CREATE TRIGGER cdrs_deleted_before AFTER DELETE ON cdrs BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'cdrs';
END;

CREATE TRIGGER cdrs_missed_before AFTER UPDATE OF _missing_since ON cdrs
    WHEN new._missing_since IS NOT old._missing_since BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'cdrs';
END;

CREATE VIEW cdrs_notes AS
SELECT b.key * 65536 + e.key AS rowid, b.key * 65536 + e.key AS _n, b.key AS cdr_id, r.calldate, r.live_id,
    r.user_id AS cdr_user_id, e.value AS _doc, NULL AS _item, b.read_at AS _first_seen,
    b.read_at AS _last_seen, 'sync' AS _source, r._missing_since
FROM cdrs AS r JOIN _below AS b ON b.collection = 'cdrs' AND b.key = r.id AND b.name = 'notes'
    JOIN json_each(CASE WHEN b.doc LIKE '{%' THEN '[' || b.doc || ']' ELSE b.doc END) AS e;

CREATE TRIGGER media_tally_delete AFTER DELETE ON media BEGIN INSERT INTO _media_tally SELECT OLD.kind, OLD.state, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM _media_tally WHERE kind = OLD.kind AND state = OLD.state); UPDATE _media_tally SET files = files - 1, bytes = bytes - coalesce(OLD.size, 0) WHERE kind = OLD.kind AND state = OLD.state; END;

CREATE TRIGGER media_tally_insert AFTER INSERT ON media BEGIN INSERT INTO _media_tally SELECT NEW.kind, NEW.state, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM _media_tally WHERE kind = NEW.kind AND state = NEW.state); UPDATE _media_tally SET files = files + 1, bytes = bytes + coalesce(NEW.size, 0) WHERE kind = NEW.kind AND state = NEW.state; END;

CREATE TRIGGER media_tally_update AFTER UPDATE OF kind, state, size ON media BEGIN
  INSERT INTO _media_tally SELECT OLD.kind, OLD.state, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM _media_tally WHERE kind = OLD.kind AND state = OLD.state); UPDATE _media_tally SET files = files - 1, bytes = bytes - coalesce(OLD.size, 0) WHERE kind = OLD.kind AND state = OLD.state;
  INSERT INTO _media_tally SELECT NEW.kind, NEW.state, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM _media_tally WHERE kind = NEW.kind AND state = NEW.state); UPDATE _media_tally SET files = files + 1, bytes = bytes + coalesce(NEW.size, 0) WHERE kind = NEW.kind AND state = NEW.state;
END;

CREATE TRIGGER monitors_deleted_before AFTER DELETE ON monitors BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'monitors';
END;

CREATE TRIGGER monitors_missed_before AFTER UPDATE OF _missing_since ON monitors
    WHEN new._missing_since IS NOT old._missing_since BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'monitors';
END;

CREATE TRIGGER sms_deleted_before AFTER DELETE ON sms BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'sms';
END;

CREATE TRIGGER sms_missed_before AFTER UPDATE OF _missing_since ON sms
    WHEN new._missing_since IS NOT old._missing_since BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'sms';
END;

CREATE VIEW users_chatmsgs AS
SELECT b.key * 65536 + e.key AS rowid, b.key * 65536 + e.key AS _n, b.key AS user_id, e.value AS _doc,
    NULL AS _item, b.read_at AS _first_seen, b.read_at AS _last_seen, 'sync' AS _source,
    r._missing_since
FROM users AS r JOIN _below AS b ON b.collection = 'users' AND b.key = r.id AND b.name = 'chatmsgs'
    JOIN json_each(CASE WHEN b.doc LIKE '{%' THEN '[' || b.doc || ']' ELSE b.doc END) AS e;

CREATE VIEW v_calls AS SELECT
  c.id,
  c.direction,
  c.outcome,
  CASE WHEN c.unconfirmed AND c.state <> 'ended' THEN 'unconfirmed' ELSE c.state END AS state,
  c.started_at,
  datetime(c.started_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= c.started_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS started_local,
  (SELECT utc_offset FROM _zone_offsets WHERE since <= c.started_at ORDER BY since DESC LIMIT 1) AS utc_offset,
  c.answered_at,
  datetime(c.answered_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= c.answered_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS answered_local,
  c.ended_at,
  datetime(c.ended_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= c.ended_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS ended_local,
  c.wait_seconds,
  c.ivr_seconds,
  c.talk_seconds,
  c.hold_seconds,
  c.party,
  c.party_e164,
  c.party_name,
  c.our_number,
  c.our_e164,
  c.group_kind,
  c.group_name,
  c.user_id,
  c.user_name,
  c.extension,
  c.ended_by,
  c.t_cause,
  c.charge,
  CASE WHEN c.charge IS NOT NULL THEN CAST((SELECT currency_iso FROM me LIMIT 1) AS TEXT) END AS currency,
  c.legs,
  c.recordings,
  c.voicemails
FROM _calls AS c;

CREATE VIEW v_legs AS SELECT
  l.leg_id,
  l.call_id,
  c.started_at AS call_started_at,
  l.started_at,
  datetime(l.started_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= l.started_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS started_local,
  (SELECT utc_offset FROM _zone_offsets WHERE since <= l.started_at ORDER BY since DESC LIMIT 1) AS utc_offset,
  l.connected_at,
  datetime(l.connected_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= l.connected_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS connected_local,
  l.ended_at,
  datetime(l.ended_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= l.ended_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS ended_local,
  l.connected,
  l.context,
  l.src,
  l.src_name,
  l.dst,
  l.dst_name,
  l.user_id,
  l.user_name,
  l.extension,
  l.duration,
  l.billsec,
  l.disposition,
  l.t_cause,
  l.charge,
  CASE WHEN l.charge IS NOT NULL THEN CAST((SELECT currency_iso FROM me LIMIT 1) AS TEXT) END AS currency
FROM _legs AS l JOIN _calls AS c ON c.id = l.call_id;

CREATE VIEW v_messages AS SELECT
  m.sms_id AS id,
  m.at AS sent_at,
  CASE WHEN length(m.at) = 19 AND substr(m.at, 5, 1) = '-' THEN
    datetime(m.at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= m.at
      ORDER BY since DESC LIMIT 1) || ' seconds') END AS sent_local,
  CASE WHEN length(m.at) = 19 AND substr(m.at, 5, 1) = '-' THEN
    (SELECT utc_offset FROM _zone_offsets WHERE since <= m.at ORDER BY since DESC LIMIT 1) END AS utc_offset,
  m.direction,
  CAST(CASE m.direction WHEN 'in' THEN m.sender ELSE m.receiver END AS TEXT) AS contact,
  CAST(coalesce(
    (SELECT n.name FROM _contact_numbers AS n
     WHERE n.e164 = '+' || CASE m.direction WHEN 'in' THEN m.sender ELSE m.receiver END
     ORDER BY n.contact_id LIMIT 1),
    CASE m.direction WHEN 'in' THEN m.from_name ELSE m.to_name END) AS TEXT) AS contact_name,
  CAST(CASE m.direction WHEN 'in' THEN m.receiver ELSE m.sender END AS TEXT) AS our_number,
  CAST(m.text AS TEXT) AS text,
  CAST(m.result AS TEXT) AS result,
  CAST(m.user_id AS INTEGER) AS user_id,
  CAST(
    (SELECT CASE WHEN coalesce(u.first_name, '') = '' THEN u.last_name
                 WHEN coalesce(u.last_name, '') = '' THEN u.first_name
                 ELSE u.first_name || ' ' || u.last_name END FROM users AS u WHERE u.id = m.user_id)
    AS TEXT) AS user_name
FROM _messages AS m;

CREATE VIEW v_missed AS SELECT
  c.id,
  c.outcome,
  c.started_at,
  datetime(c.started_at, (SELECT offset_seconds FROM _zone_offsets WHERE since <= c.started_at
    ORDER BY since DESC LIMIT 1) || ' seconds') AS started_local,
  (SELECT utc_offset FROM _zone_offsets WHERE since <= c.started_at ORDER BY since DESC LIMIT 1) AS utc_offset,
  c.wait_seconds,
  c.party,
  c.party_e164,
  c.party_name,
  c.our_number,
  c.our_e164,
  c.group_kind,
  c.group_name,
  c.voicemails
FROM _calls AS c WHERE c.outcome IN ('missed', 'voicemail');

CREATE VIEW v_people AS SELECT
  u.id,
  CAST(CASE WHEN coalesce(u.first_name, '') = '' THEN u.last_name
            WHEN coalesce(u.last_name, '') = '' THEN u.first_name
            ELSE u.first_name || ' ' || u.last_name END AS TEXT) AS name,
  CAST(u.first_name AS TEXT) AS first_name,
  CAST(u.last_name AS TEXT) AS last_name,
  CAST(u.email AS TEXT) AS email,
  CAST(u.ext AS TEXT) AS extension,
  CAST(u.cli AS TEXT) AS caller_id,
  u.active IN (1, '1', 'true') AS is_active,
  u.is_root IN (1, '1', 'true') AS is_administrator,
  u.dnd IN (1, '1', 'true') AS do_not_disturb
FROM users AS u WHERE u._missing_since IS NULL;

CREATE VIEW v_recordings AS SELECT
  m.id,
  c.id AS call_id,
  m.timestamp AS recorded_at,
  CASE WHEN length(m.timestamp) = 19 AND substr(m.timestamp, 5, 1) = '-' THEN
    datetime(m.timestamp, (SELECT offset_seconds FROM _zone_offsets WHERE since <= m.timestamp
      ORDER BY since DESC LIMIT 1) || ' seconds') END AS recorded_local,
  CASE WHEN length(m.timestamp) = 19 AND substr(m.timestamp, 5, 1) = '-' THEN
    (SELECT utc_offset FROM _zone_offsets WHERE since <= m.timestamp ORDER BY since DESC LIMIT 1) END AS utc_offset,
  CASE WHEN typeof(m.duration) = 'integer' THEN m.duration END AS duration_seconds,
  c.direction,
  c.party,
  c.party_e164,
  c.party_name,
  CASE WHEN typeof(m.user_id) = 'integer' THEN m.user_id END AS user_id,
  CAST(coalesce(
    (SELECT CASE WHEN coalesce(u.first_name, '') = '' THEN u.last_name
                 WHEN coalesce(u.last_name, '') = '' THEN u.first_name
                 ELSE u.first_name || ' ' || u.last_name END FROM users AS u WHERE u.id = m.user_id),
    c.user_name) AS TEXT) AS user_name,
  CAST(m.caller AS TEXT) AS caller,
  CAST(m.called AS TEXT) AS called,
  CAST(m.transcript AS TEXT) AS transcript,
  CAST(m.summary AS TEXT) AS summary,
  CASE WHEN typeof(m.sentiment) = 'integer' THEN m.sentiment END AS sentiment,
  CASE WHEN f.state = 'have' THEN f.path END AS file,
  f.state AS file_state
FROM monitors AS m
LEFT JOIN _legs AS l ON l.leg_id = m.live_id
LEFT JOIN _calls AS c ON c.id = l.call_id
LEFT JOIN media AS f ON f.kind = 'recording' AND f.record_id = m.id;

CREATE TRIGGER voicemessages_deleted_before AFTER DELETE ON voicemessages BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'voicemessages';
END;

CREATE TRIGGER voicemessages_missed_before AFTER UPDATE OF _missing_since ON voicemessages
    WHEN new._missing_since IS NOT old._missing_since BEGIN
    UPDATE _orders SET number = number + 1 WHERE name = 'voicemessages';
END;
