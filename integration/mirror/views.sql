-- Views of mirror.db for users' own SQL. Their columns are an interface: docs/sql.md describes them.
--
--     sqlite3 mirror.db < views.sql
--
-- A view contains what an administrator sees in the dashboard: no PINs, passwords and keys. It uses functions and
-- tables of every SQLite from 3.37, because any program may open the file. The first time of each view is a column of
-- an index, so that a filter by this time reads no other rows.
--
-- Local times: SQLite does not convert to named time zones. _zone_offsets has each change of the display zone's offset.
-- Fields of the platform can have any type. CAST gives them the type that docs/sql.md states; of numbers only integers
-- are shown, because CAST would make 0 of a text. Times of the platform are shown in local time only if they look like
-- one, because SQLite would read a number as a Julian day.
-- Rejected: GLOB, LIKE and trim(), because DuckDB parses the views of an attached file, and sends SQLite other operators
-- and `main.trim()`.

DROP VIEW IF EXISTS v_calls;
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

DROP VIEW IF EXISTS v_legs;
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

DROP VIEW IF EXISTS v_missed;
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

DROP VIEW IF EXISTS v_recordings;
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

DROP VIEW IF EXISTS v_messages;
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

DROP VIEW IF EXISTS v_people;
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
