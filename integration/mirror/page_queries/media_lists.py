"""Named queries of recordings and voice messages: lists with the state of their files, newest first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from integration.core import number_variants
from integration.core.ids import id_list
from integration.mirror.page_queries import search_index
from integration.sqlite.listing import Listing, Page, escape_like

AudioKind = Literal["recording", "voicemail"]
PAGE_SIZE = 24
_NEWEST_FIRST = Listing("-at", "-id")


TABLES = """
-- serves the count of new messages on every page
CREATE INDEX IF NOT EXISTS voicemessages_new ON voicemessages (id) WHERE is_new IN (1, '1', 'true');
"""


@dataclass(frozen=True, slots=True)
class MediaFilter:
    """What a list shows. `text` is a fragment of a transcript, summary, name or number; `state` one of the
    archive's; `only_unplayed` only voice messages nobody listened to: neither where the platform looks nor
    here (`played_ids`, their ids)."""

    text: str = ""
    state: str | None = None
    only_unplayed: bool = False
    played_ids: tuple[int, ...] = ()
    user_scope: int | None = None


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
"""

_IS_NEW = "(v.is_new IN (1, '1', 'true') AND v.id NOT IN (SELECT value FROM json_each(:heard)))"
_VOICEMAIL = f"""
SELECT v.id, v.origtime AS at, v.live_id, v.duration, v.transcript, NULL AS summary, NULL AS sentiment,
       u.id AS user_id, coalesce(c.party, v.caller) AS party, c.party_e164, c.party_name,
       'in' AS direction, '' AS context,
       trim(coalesce(u.first_name, '') || ' ' || coalesce(u.last_name, '')) AS user_name, u.ext AS extension,
       c.id AS call_id, v.caller, v.dialled AS called, {_IS_NEW} AS is_new,
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
   AND (NOT :new OR {_IS_NEW})
"""


def fetch_page(
    connection: sqlite3.Connection,
    kind: AudioKind,
    media_filter: MediaFilter,
    cursor: str | None = None,
) -> Page:
    """One page. Columns: id, at, duration, transcript, summary, sentiment, is_new; the call's call_id and
    parties; of the file state ('wanted', 'have', 'failed', 'gone', None: not asked for), size, tries,
    last_error, path (relative to data_dir)."""
    escaped_text = escape_like(media_filter.text.strip())
    digits = number_variants.digits(media_filter.text)
    candidate_ids = _find_candidates(connection, media_filter.text) if kind == "recording" else None
    recordings_sql = _RECORDINGS.format(among="1" if candidate_ids is None else _CANDIDATE_CONDITION)
    return _NEWEST_FIRST.fetch_page(
        connection,
        recordings_sql if kind == "recording" else _VOICEMAIL,
        {
            "among": candidate_ids,
            "only": media_filter.user_scope,
            "text": escaped_text,
            "like": f"%{escaped_text}%",
            "digits": digits.lstrip("0") if len(digits) > 2 else "",
            "state": media_filter.state,
            "new": media_filter.only_unplayed,
            "heard": json.dumps(media_filter.played_ids),
        },
        cursor,
        PAGE_SIZE,
    )


_CANDIDATE_CONDITION = "m.id IN (SELECT value FROM json_each(:among))"
MAX_CANDIDATES = 2000


def _find_candidates(connection: sqlite3.Connection, text: str) -> str | None:
    """JSON: the only recordings that may have `text`, by the index of calls; None where that would be many,
    or a word is too short for it. Reading all recordings takes seconds."""
    terms = search_index.parse_search(text, None)
    if (
        terms is None
        or min(len(word) for word in text.split()) < 3
        or search_index.has_more_matches(connection, terms, MAX_CANDIDATES)
    ):
        return None
    rows = connection.execute(
        "SELECT m.id FROM _calls_search s JOIN _legs l ON l.call_id = s.rowid"
        " JOIN monitors m ON m.live_id = +l.leg_id WHERE s._calls_search MATCH ?"
        # Of no call that we know: without its id, or from before the oldest call that is kept.
        " UNION SELECT id FROM monitors WHERE live_id IS NULL OR live_id = 0"
        " UNION SELECT id FROM monitors"
        "  WHERE timestamp < (SELECT coalesce(min(started_at), '9999') FROM _calls)",
        (terms.fts_query,),
    )
    return json.dumps([row[0] for row in rows])


def count_by_state(connection: sqlite3.Connection, kind: AudioKind) -> dict[str, int]:
    """How many files are in which state."""
    return dict(
        tuple(row)
        for row in connection.execute(
            "SELECT state, files FROM _media_tally WHERE kind = ? AND files > 0", (kind,)
        )
    )


def count_unplayed(connection: sqlite3.Connection, user_scope: int | None, played_ids: Sequence[int]) -> int:
    """Voice messages nobody listened to, there or here (`played_ids`); of one user's mailbox or of all."""
    # The plus keeps the planner from voicemessages_present, which has every message; every page asks this.
    row = connection.execute(
        f"SELECT count(*) FROM voicemessages v WHERE {_IS_NEW}"
        " AND +v._missing_since IS NULL AND (:only IS NULL OR v.extension_id = :only"
        " OR EXISTS (SELECT 1 FROM users u WHERE u.id = :only AND u.ext = CAST(v.extension_id AS TEXT)))",
        {"only": user_scope, "heard": id_list(played_ids)},
    ).fetchone()
    return int(row[0])


def find_played_folder(connection: sqlite3.Connection) -> str | None:
    """The folder that heard messages of this account lie in and new ones don't; None while nothing tells.
    What the platform's folders are is not documented."""
    row = connection.execute(
        "SELECT folder FROM voicemessages WHERE is_new IN (0, '0', 'false') AND folder IS NOT NULL"
        " AND folder NOT IN (SELECT folder FROM voicemessages"
        "                     WHERE is_new IN (1, '1', 'true') AND folder IS NOT NULL)"
        " GROUP BY folder ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    return str(row[0]) if row is not None else None
