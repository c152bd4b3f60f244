"""Named queries of recordings and voice messages: lists with the state of their files, newest first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from integration.mirror.page_queries import search_index as search

AudioKind = Literal["recording", "voicemail"]
Place = tuple[str, int]
"""Where a page ended: time (text UTC) and id of its last row."""

PAGE = 24


TABLES = """
-- serves the count of new messages on every page
CREATE INDEX IF NOT EXISTS voicemessages_new ON voicemessages (id) WHERE is_new IN (1, '1', 'true');
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list shows. `text` is a fragment of a transcript, summary, name or number; `state` one of the
    archive's; `new` only voice messages nobody listened to: neither where the platform looks nor
    here (`heard`, their ids)."""

    text: str = ""
    state: str | None = None
    new: bool = False
    heard: tuple[int, ...] = ()
    only_user: int | None = None


_RECORDINGS = """
SELECT m.id, m.timestamp AS at, m.live_id, m.duration, m.transcript, m.summary, m.sentiment, m.user_id,
       c.party, c.party_e164, c.party_name, c.direction, c.context, c.user_name, c.extension, c.id AS call_id,
       m.caller, m.called, 0 AS is_new, m._missing_since AS missing_since,
       f.state, f.size, f.tries, f.last_error, f.path
  FROM monitors m
  LEFT JOIN _legs l ON l.leg_id = m.live_id LEFT JOIN _calls c ON c.id = l.call_id
  LEFT JOIN media f ON f.kind = 'recording' AND f.record_id = m.id
 WHERE (:only IS NULL OR m.user_id = :only)
   AND {among}
   AND (:text = '' OR m.transcript LIKE :like ESCAPE '\\' OR m.summary LIKE :like ESCAPE '\\'
        OR m.caller LIKE :like ESCAPE '\\' OR m.called LIKE :like ESCAPE '\\'
        OR c.party_name LIKE :like ESCAPE '\\' OR c.user_name LIKE :like ESCAPE '\\'
        OR (:digits <> '' AND (m.caller LIKE '%' || :digits || '%' OR m.called LIKE '%' || :digits || '%')))
   AND (:state IS NULL OR f.state = :state)
   AND (:at IS NULL OR m.timestamp < :at OR (m.timestamp = :at AND m.id < :id))
 ORDER BY m.timestamp DESC, m.id DESC LIMIT :limit
"""

_NEW = "(v.is_new IN (1, '1', 'true') AND v.id NOT IN (SELECT value FROM json_each(:heard)))"
_VOICEMAIL = f"""
SELECT v.id, v.origtime AS at, v.live_id, v.duration, v.transcript, NULL AS summary, NULL AS sentiment,
       u.id AS user_id, coalesce(c.party, v.caller) AS party, c.party_e164, c.party_name,
       'in' AS direction, '' AS context,
       trim(coalesce(u.first_name, '') || ' ' || coalesce(u.last_name, '')) AS user_name, u.ext AS extension,
       c.id AS call_id, v.caller, v.dialled AS called, {_NEW} AS is_new,
       v._missing_since AS missing_since, f.state, f.size, f.tries, f.last_error, f.path
  FROM voicemessages v
  LEFT JOIN users u ON u.id = v.extension_id OR u.ext = CAST(v.extension_id AS TEXT)
  LEFT JOIN _legs l ON l.leg_id = v.live_id LEFT JOIN _calls c ON c.id = l.call_id
  LEFT JOIN media f ON f.kind = 'voicemail' AND f.record_id = v.id
 WHERE (:only IS NULL OR u.id = :only)
   AND (:text = '' OR v.transcript LIKE :like ESCAPE '\\' OR v.caller LIKE :like ESCAPE '\\'
        OR v.dialled LIKE :like ESCAPE '\\' OR c.party_name LIKE :like ESCAPE '\\'
        OR u.first_name || ' ' || u.last_name LIKE :like ESCAPE '\\'
        OR (:digits <> '' AND v.caller LIKE '%' || :digits || '%'))
   AND (:state IS NULL OR f.state = :state)
   AND (NOT :new OR {_NEW})
   AND (:at IS NULL OR v.origtime < :at OR (v.origtime = :at AND v.id < :id))
 ORDER BY v.origtime DESC, v.id DESC LIMIT :limit
"""


def page(
    connection: sqlite3.Connection,
    kind: AudioKind,
    wanted: Wanted,
    before: Place | None = None,
    limit: int = PAGE,
) -> list[sqlite3.Row]:
    """Rows of one page: id, at, duration, transcript, summary, sentiment, is_new; the call's call_id and
    parties; of the file state ('wanted', 'have', 'failed', 'gone', None: not asked for), size, tries,
    last_error, path (relative to data_dir)."""
    plain = wanted.text.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    digits = "".join(c for c in wanted.text if c.isdigit())
    at, number = before or (None, None)
    among = _among(connection, wanted.text) if kind == "recording" else None
    recordings = _RECORDINGS.format(among="1" if among is None else _AMONG)
    return connection.execute(
        recordings if kind == "recording" else _VOICEMAIL,
        {
            "among": among,
            "only": wanted.only_user,
            "text": plain,
            "like": f"%{plain}%",
            "digits": digits.lstrip("0") if len(digits) > 2 else "",
            "state": wanted.state,
            "new": wanted.new,
            "heard": json.dumps(wanted.heard),
            "at": at,
            "id": number,
            "limit": limit,
        },
    ).fetchall()


_AMONG = "m.id IN (SELECT value FROM json_each(:among))"
FEW = 2000


def _among(connection: sqlite3.Connection, text: str) -> str | None:
    """JSON: the only recordings that may have `text`, by the index of calls; None where that would be many,
    or a word is too short for it. Reading all recordings takes seconds."""
    asked = search.wanted(text, None)
    if asked is None or min(len(word) for word in text.split()) < 3 or search.common(connection, asked, FEW):
        return None
    rows = connection.execute(
        "SELECT m.id FROM _calls_search s JOIN _legs l ON l.call_id = s.rowid"
        " JOIN monitors m ON m.live_id = +l.leg_id WHERE s._calls_search MATCH ?"
        # Of no call that we know: without its id, or from before the oldest call that is kept.
        " UNION SELECT id FROM monitors WHERE live_id IS NULL OR live_id = 0"
        " UNION SELECT id FROM monitors"
        "  WHERE timestamp < (SELECT coalesce(min(started_at), '9999') FROM _calls)",
        (asked.match,),
    )
    return json.dumps([row[0] for row in rows])


def states(connection: sqlite3.Connection, kind: AudioKind) -> dict[str, int]:
    """How many files are in which state."""
    return dict(
        tuple(row)
        for row in connection.execute(
            "SELECT state, files FROM _media_tally WHERE kind = ? AND files > 0", (kind,)
        )
    )


def count_new(connection: sqlite3.Connection, only_user: int | None, heard: Sequence[int]) -> int:
    """Voice messages nobody listened to, there or here (`heard`); of one user's mailbox or of all."""
    # The plus keeps the planner from voicemessages_present, which has every message; every page asks this.
    row = connection.execute(
        f"SELECT count(*) FROM voicemessages v WHERE {_NEW}"
        " AND +v._missing_since IS NULL AND (:only IS NULL OR v.extension_id = :only"
        " OR EXISTS (SELECT 1 FROM users u WHERE u.id = :only AND u.ext = CAST(v.extension_id AS TEXT)))",
        {"only": only_user, "heard": json.dumps(list(heard))},
    ).fetchone()
    return int(row[0])


def heard_folder(connection: sqlite3.Connection) -> str | None:
    """The folder that heard messages of this account lie in and new ones don't; None while nothing tells.
    What the platform's folders are is not documented."""
    row = connection.execute(
        "SELECT folder FROM voicemessages WHERE is_new IN (0, '0', 'false') AND folder IS NOT NULL"
        " AND folder NOT IN (SELECT folder FROM voicemessages"
        "                     WHERE is_new IN (1, '1', 'true') AND folder IS NOT NULL)"
        " GROUP BY folder ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    return str(row[0]) if row is not None else None
