"""Queries of recordings and voicemail messages with the state of their files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from integration.core.ids import as_id, id_list
from integration.core.number_search.reading import read_digits
from integration.mirror.page_queries import search_index
from integration.mirror.page_queries.search_index import bind_fragment, build_contains_sql
from integration.mirror.records.rows import build_name_sql
from integration.sqlite.listing import Listing, Page

AudioKind = Literal["recording", "voicemail"]
PAGE_SIZE = 100
"""Entries per page."""
MISSING_PAGE_SIZE = 500
"""Entries per page of a list of missing files, which is printed."""
_NEWEST_FIRST = Listing("-at", "-id")
WITHOUT_FILE = "missing"
"""State of a filter: the file is not in the archive, for whatever reason."""


TABLES = """
-- serves the count of new messages on every page
CREATE INDEX IF NOT EXISTS voicemessages_new ON voicemessages (id) WHERE is_new IN (1, '1', 'true');
"""


@dataclass(frozen=True, slots=True)
class MediaFilter:
    """Filter of a list.

    `text` is a fragment of a transcript, summary, name or number. `state` is a state of table `media`, or
    WITHOUT_FILE. `only_unplayed` shows only voicemail messages that are new on the platform and not in
    `played_ids`, the ids of messages that were played here. `user_id` is the platform user of the recording
    or mailbox, `account_number` a DDI of the call. `since` and `until` (exclusive) are UTC texts, the lengths
    seconds. `user_scope` limits the list to a platform user.
    """

    text: str = ""
    state: str | None = None
    only_unplayed: bool = False
    played_ids: tuple[int, ...] = ()
    user_id: int | None = None
    account_number: str | None = None
    since: str | None = None
    until: str | None = None
    min_seconds: int | None = None
    max_seconds: int | None = None
    user_scope: int | None = None


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Files of a filter in the archive.

    `items`: calls with a recording, or voice messages. `complete_items`: those with all their files. `files`:
    files in the archive. `read_files`: those that were read again after their download, at `first_read_at`
    to `last_read_at` (UTC text). `removed_items`: items without their files because of retention or an
    erasure.
    """

    items: int
    complete_items: int
    removed_items: int
    files: int
    read_files: int
    first_read_at: str | None
    last_read_at: str | None


MAILBOX_OWNER = "(u.id = v.extension_id OR u.ext = CAST(v.extension_id AS TEXT))"
"""SQL of whether the message `voicemessages v` is in the mailbox of the user `users u`.

`extension_id` is the id of a user or an extension. `list_mailbox_ids` has the same rule.
"""

_IS_NEW = "(v.is_new IN (1, '1', 'true') AND v.id NOT IN (SELECT value FROM json_each(:played)))"
_USER_NAME = build_name_sql("u")


@dataclass(frozen=True, slots=True)
class _Source:
    """SQL of one kind: columns of the list, tables, and the columns of filters.

    `item` is the id of the call of a recording, or else of the record.
    """

    columns: str
    tables: str
    record: str
    time: str
    owner: str
    dialled: str
    item: str
    text: str


_CALL_OF = "LEFT JOIN _legs l ON l.leg_id = {0}.live_id LEFT JOIN _calls c ON c.id = l.call_id"
_SOURCES: dict[AudioKind, _Source] = {
    "recording": _Source(
        columns=f"""m.id, m.timestamp AS at, m.live_id, m.duration, m.transcript, m.summary, m.sentiment,
       m.user_id, c.party, c.party_e164, c.party_name, c.direction, c.context, c.group_name, c.our_number,
       coalesce({_USER_NAME}, c.user_name) AS user_name, coalesce(u.ext, c.extension) AS extension,
       c.id AS call_id, m.caller, m.called, 0 AS is_new, m._missing_since AS missing_since,
       f.state, f.size, f.tries, f.last_error, f.path""",
        tables=f"""monitors m LEFT JOIN users u ON u.id = m.user_id {_CALL_OF.format("m")}
  LEFT JOIN media f ON f.kind = 'recording' AND f.record_id = m.id""",
        record="m",
        time="m.timestamp",
        owner="m.user_id",
        dialled="NULL",
        item="coalesce(l.call_id, -m.id)",
        text=f"""{build_contains_sql("m.transcript")} OR {build_contains_sql("m.summary")}
        OR {build_contains_sql("m.caller")} OR {build_contains_sql("m.called")}
        OR {build_contains_sql("c.party_name")} OR {build_contains_sql("c.user_name")}
        OR (:digits <> ''
            AND (m.caller LIKE '%' || :digits || '%' OR m.called LIKE '%' || :digits || '%'
                 OR c.party_e164 LIKE '%' || :digits || '%'))""",
    ),
    "voicemail": _Source(
        columns=f"""v.id, v.origtime AS at, v.live_id, v.duration, v.transcript, NULL AS summary,
       NULL AS sentiment, u.id AS user_id, coalesce(c.party, v.caller) AS party, c.party_e164, c.party_name,
       'in' AS direction, '' AS context, c.group_name, coalesce(c.our_number, v.dialled) AS our_number,
       {_USER_NAME} AS user_name, u.ext AS extension, c.id AS call_id, v.caller, v.dialled AS called,
       {_IS_NEW} AS is_new, v._missing_since AS missing_since, f.state, f.size, f.tries, f.last_error,
       f.path""",
        # Users last: their join reads every user for each message.
        tables=f"""voicemessages v {_CALL_OF.format("v")}
  LEFT JOIN media f ON f.kind = 'voicemail' AND f.record_id = v.id LEFT JOIN users u ON {MAILBOX_OWNER}""",
        record="v",
        time="v.origtime",
        owner="u.id",
        dialled="v.dialled",
        item="v.id",
        text=f"""{build_contains_sql("v.transcript")} OR {build_contains_sql("v.caller")}
        OR {build_contains_sql("v.dialled")} OR {build_contains_sql("c.party_name")}
        OR {build_contains_sql("u.first_name || ' ' || u.last_name")}
        OR (:digits <> ''
            AND (v.caller LIKE '%' || :digits || '%' OR c.party_e164 LIKE '%' || :digits || '%'))""",
    ),
}


def fetch_page(
    connection: sqlite3.Connection,
    kind: AudioKind,
    media_filter: MediaFilter,
    cursor: str | None = None,
) -> Page:
    """Return one page of recordings or voicemail messages, newest first.

    Columns: id, at (UTC text), duration, transcript, summary, sentiment, is_new; call_id, the parties, group
    and number of the call; user_id, user_name and extension of the owner; of the file state (`wanted`,
    `have`, `failed`, `gone`; None: not requested), size, tries, last_error, path (relative to data_dir).
    """
    source = _SOURCES[kind]
    where, values = _build_where(kind, media_filter)
    if count_by_state(connection, kind).get(media_filter.state or "", 0) > MAX_CANDIDATES:
        # With = SQLite reads and sorts all files of the state, with IS the records in their order.
        where = where.replace("f.state = :state", "f.state IS :state")
    candidate_ids = _find_candidates(connection, media_filter.text) if kind == "recording" else None
    if candidate_ids is not None:
        where = f"{_CANDIDATE_CONDITION} AND {where}"
    return _NEWEST_FIRST.fetch_page(
        connection,
        f"SELECT {source.columns} FROM {source.tables} WHERE {where}",
        {**values, "among": candidate_ids},
        cursor,
        MISSING_PAGE_SIZE if media_filter.state == WITHOUT_FILE else PAGE_SIZE,
    )


def count_files(
    connection: sqlite3.Connection, kind: AudioKind, media_filter: MediaFilter, removal_reasons: Sequence[str]
) -> FileCounts:
    """Return the files of a period: how many are in the archive, and when the scrub read them again.

    `removal_reasons`: values of `last_error` of files that were deleted here on purpose. Reads every
    record of the filter: 3,400 in 8 ms.
    """
    source = _SOURCES[kind]
    where, values = _build_where(kind, media_filter)
    row = connection.execute(
        "SELECT count(*), coalesce(sum(present), 0), coalesce(sum(removed AND NOT present), 0),"
        " coalesce(sum(files), 0), coalesce(sum(reads), 0),"
        " min(first_at), max(last_at) FROM (SELECT min(present) AS present, sum(present) AS files,"
        " max(removed) AS removed,"
        " count(read_at) AS reads, min(read_at) AS first_at, max(read_at) AS last_at FROM ("
        # A download counts as a check, so a later check is one that read the file again.
        f"SELECT {source.item} AS item, f.state IS 'have' AS present,"
        " f.state IS 'gone' AND f.last_error IN (SELECT value FROM json_each(:reasons)) AS removed,"
        " CASE WHEN f.state = 'have' AND f.checked_at > f.updated_at THEN f.checked_at END AS read_at"
        f" FROM {source.tables} WHERE {where}) GROUP BY item)",
        {**values, "reasons": json.dumps(removal_reasons)},
    ).fetchone()
    return FileCounts(*row)


def _build_where(kind: AudioKind, media_filter: MediaFilter) -> tuple[str, dict[str, Any]]:
    """Return conditions on the tables of `_SOURCES` and their values."""
    source = _SOURCES[kind]
    digits = read_digits(media_filter.text)
    is_missing = media_filter.state == WITHOUT_FILE
    conditions = {
        f"({source.text})": bool(media_filter.text.strip()),
        f"{source.owner} = :scope": media_filter.user_scope is not None,
        f"{source.owner} = :user": media_filter.user_id is not None,
        f"(c.our_e164 = :line OR c.our_number = :line OR {source.dialled} = :line)": (
            media_filter.account_number is not None
        ),
        f"{source.time} >= :since": media_filter.since is not None,
        f"{source.time} < :until": media_filter.until is not None,
        f"CAST({source.record}.duration AS INTEGER) >= :shortest": media_filter.min_seconds is not None,
        f"CAST({source.record}.duration AS INTEGER) <= :longest": media_filter.max_seconds is not None,
        "f.state IS NOT 'have'": is_missing,
        "f.state = :state": media_filter.state is not None and not is_missing,
        _IS_NEW: media_filter.only_unplayed and kind == "voicemail",
    }
    return " AND ".join([condition for condition, is_set in conditions.items() if is_set] or ["true"]), {
        **bind_fragment(media_filter.text),
        "digits": digits if len(digits) > 1 else "",
        "scope": media_filter.user_scope,
        "user": media_filter.user_id,
        "line": media_filter.account_number,
        "since": media_filter.since,
        "until": media_filter.until,
        "shortest": media_filter.min_seconds,
        "longest": media_filter.max_seconds,
        "state": media_filter.state,
        "played": json.dumps(media_filter.played_ids),
    }


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
