"""Queries of recordings and voicemail messages with the state of their files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from integration.core.ids import as_id, id_list
from integration.core.number_search.reading import read_digits
from integration.mirror.page_queries import search_index
from integration.sqlite.listing import Listing, Page, escape_like

AudioKind = Literal["recording", "voicemail"]
PAGE_SIZE = 24
"""Entries per page."""
_NEWEST_FIRST = Listing("-at", "-id")


TABLES = """
-- serves the count of new messages on every page
CREATE INDEX IF NOT EXISTS voicemessages_new ON voicemessages (id) WHERE is_new IN (1, '1', 'true');
"""


@dataclass(frozen=True, slots=True)
class MediaFilter:
    """Filter of a list.

    `text` is a fragment of a transcript, summary, name or number. `state` is a state of table `media`.
    `only_unplayed` shows only voicemail messages that are new on the platform and not in `played_ids`, the
    ids of messages that were played here. `user_scope` limits the list to a platform user.
    """

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

MAILBOX_OWNER = "(u.id = v.extension_id OR u.ext = CAST(v.extension_id AS TEXT))"
"""SQL of whether the message `voicemessages v` is in the mailbox of the user `users u`.

`extension_id` is the id of a user or an extension. `list_mailbox_ids` has the same rule.
"""

_IS_NEW = "(v.is_new IN (1, '1', 'true') AND v.id NOT IN (SELECT value FROM json_each(:played)))"
_VOICEMAIL = f"""
SELECT v.id, v.origtime AS at, v.live_id, v.duration, v.transcript, NULL AS summary, NULL AS sentiment,
       u.id AS user_id, coalesce(c.party, v.caller) AS party, c.party_e164, c.party_name,
       'in' AS direction, '' AS context,
       trim(coalesce(u.first_name, '') || ' ' || coalesce(u.last_name, '')) AS user_name, u.ext AS extension,
       c.id AS call_id, v.caller, v.dialled AS called, {_IS_NEW} AS is_new,
       v._missing_since AS missing_since, f.state, f.size, f.tries, f.last_error, f.path
  FROM voicemessages v
  LEFT JOIN users u ON {MAILBOX_OWNER}
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
    """Return one page of recordings or voicemail messages, newest first.

    Columns: id, at (UTC text), duration, transcript, summary, sentiment, is_new; call_id and the parties of
    the call; of the file state (`wanted`, `have`, `failed`, `gone`; None: not requested), size, tries,
    last_error, path (relative to data_dir).
    """
    escaped_text = escape_like(media_filter.text.strip())
    digits = read_digits(media_filter.text)
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
            "digits": digits if len(digits) > 1 else "",
            "state": media_filter.state,
            "new": media_filter.only_unplayed,
            "played": json.dumps(media_filter.played_ids),
        },
        cursor,
        PAGE_SIZE,
    )


_CANDIDATE_CONDITION = "m.id IN (SELECT value FROM json_each(:among))"
MAX_CANDIDATES = 2000
"""Matching calls up to which the search index selects recordings."""


def _find_candidates(connection: sqlite3.Connection, text: str) -> str | None:
    """Return a JSON list of the recordings that may contain `text`.

    Uses the search index, because reading all recordings takes seconds. None if more than MAX_CANDIDATES
    calls match or a word has fewer than 3 characters.
    """
    terms = search_index.parse_search(text, None)
    if (
        terms is None
        or min(len(word) for word in text.split()) < 3
        or search_index.has_more_matches(connection, terms, MAX_CANDIDATES)
    ):
        return None
    query, values = terms.build_query()
    rows = connection.execute(
        f"SELECT m.id FROM ({query}) AS s JOIN _legs l ON l.call_id = s.id"
        " JOIN monitors m ON m.live_id = +l.leg_id"
        # Recordings without a stored call: without leg id, or older than the oldest stored call.
        " UNION SELECT id FROM monitors WHERE live_id IS NULL OR live_id = 0"
        " UNION SELECT id FROM monitors"
        "  WHERE timestamp < (SELECT coalesce(min(started_at), '9999') FROM _calls)",
        values,
    )
    return json.dumps([row[0] for row in rows])


def count_by_state(connection: sqlite3.Connection, kind: AudioKind) -> dict[str, int]:
    """Return the number of files by state."""
    return dict(
        tuple(row)
        for row in connection.execute(
            "SELECT state, files FROM _media_tally WHERE kind = ? AND files > 0", (kind,)
        )
    )


def list_mailbox_ids(connection: sqlite3.Connection, user_id: int) -> list[int]:
    """Return the values of `extension_id` in the mailbox of a platform user."""
    rows = connection.execute("SELECT ext FROM users WHERE id = ?", (user_id,))
    return [user_id, *(extension for row in rows if (extension := as_id(row[0])) is not None)]


def count_unplayed(connection: sqlite3.Connection, user_scope: int | None, played_ids: Sequence[int]) -> int:
    """Count voicemail messages that no user has played.

    Counts messages that are new on the platform and not in `played_ids`. `user_scope` limits the count to the
    mailbox of a platform user.
    """
    # Every page runs this query. The plus excludes the index voicemessages_present, which has every message.
    row = connection.execute(
        f"SELECT count(*) FROM voicemessages v WHERE {_IS_NEW}"
        " AND +v._missing_since IS NULL AND (:only IS NULL"
        f" OR EXISTS (SELECT 1 FROM users u WHERE u.id = :only AND {MAILBOX_OWNER}))",
        {"only": user_scope, "played": id_list(played_ids)},
    ).fetchone()
    return int(row[0])


def list_received_voicemail(
    connection: sqlite3.Connection, user_id: int, since: str, limit: int
) -> list[sqlite3.Row]:
    """Return the messages in the mailbox of a platform user, newest first.

    `since`: UTC text. Columns: id, at, duration (seconds), caller, party_name.
    """
    return connection.execute(
        "SELECT v.id, v.origtime AS at, v.duration, v.caller, c.party_name FROM voicemessages v"
        " LEFT JOIN _legs l ON l.leg_id = v.live_id LEFT JOIN _calls c ON c.id = l.call_id"
        " WHERE v.origtime >= :since AND +v._missing_since IS NULL"
        f" AND EXISTS (SELECT 1 FROM users u WHERE u.id = :user AND {MAILBOX_OWNER})"
        " ORDER BY v.origtime DESC, v.id DESC LIMIT :limit",
        {"since": since, "user": user_id, "limit": limit},
    ).fetchall()


def find_played_folder(connection: sqlite3.Connection) -> str | None:
    """Return the folder of played messages, or None.

    The platform's folders are not documented. The folder is therefore derived from the stored messages: the
    one with most played messages and no new message.
    """
    row = connection.execute(
        "SELECT folder FROM voicemessages WHERE is_new IN (0, '0', 'false') AND folder IS NOT NULL"
        " AND folder NOT IN (SELECT folder FROM voicemessages"
        "                     WHERE is_new IN (1, '1', 'true') AND folder IS NOT NULL)"
        " GROUP BY folder ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    return str(row[0]) if row is not None else None
