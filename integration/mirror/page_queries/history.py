"""Queries of the call history: filters, pages and counts.

All queries read `_calls` (columns: mirror/calls/schema.py). Pages are cut by (started_at, id), so calls that
arrive between the requests of two pages are neither shown twice nor skipped.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count as count_up
from typing import Any, Literal

from integration.core.ids import id_list, parse_id
from integration.mirror.page_queries import search_index
from integration.mirror.page_queries.missed_calls import IS_OPEN, MissedFilter
from integration.mirror.page_queries.search_index import SearchTerms
from integration.mirror.records.rows import build_name_sql

TABLES = """
-- serves the filter "Voicemail": few calls match, so a scan by time would read all calls
CREATE INDEX IF NOT EXISTS _calls_with_voicemail ON _calls (started_at) WHERE voicemails > 0;
-- serves the calls of a platform user, and the time since which the user is free
CREATE INDEX IF NOT EXISTS _calls_of_user ON _calls (user_id, started_at) WHERE user_id IS NOT NULL;
-- serves Calls, newest first, and Reports: a covering index for every sum
CREATE INDEX IF NOT EXISTS _calls_report ON _calls (started_at, direction, outcome, wait_seconds,
    talk_seconds, charge, user_id, our_e164, our_number, group_kind, group_id, group_name, party_e164);
"""

ESTIMATED_START = (
    "coalesce(c.started_at, (SELECT min(r._first_seen, coalesce((SELECT max(b.calldate) FROM"
    " (SELECT calldate FROM cdrs WHERE id < r.id ORDER BY id DESC LIMIT 50) AS b"
    " WHERE b.calldate GLOB '[12][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9] *'), r._first_seen))"
    " FROM _legs AS l JOIN cdrs AS r ON r.live_id = +l.leg_id WHERE l.call_id = c.id ORDER BY r.id LIMIT 1))"
)
"""SQL of the start of the call `c`.

Of a call without a time it is the latest date of the CDRs with lower ids, which ended before, at most the
arrival of its CDR. The arrival alone would make a missed call of the history a new one.
"""

MAX_INDEXED_MATCHES = 5000
"""Matches up to which a search uses the search index. With more, a page reads calls in order of `started_at`
and compares their texts, and a count with other filters considers only this many matches."""
MAX_COUNT = 100_000
"""Matching or examined calls at which counting stops. The page then shows "more than"."""
NEWEST_SPANS = 30
"""Newest spans of hours in which a page is searched first."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position before (older) or after (newer) the row at (started_at, id).

    `started_at` is '' for a call without a time.
    """

    started_at: str
    id: int
    direction: Literal["before", "after"] = "before"

    def __str__(self) -> str:
        return f"{self.started_at.replace(' ', 'T')}.{self.id}"

    @classmethod
    def parse(cls, text: str | None, direction: Literal["before", "after"]) -> Cursor | None:
        """Parse the text of `str(cursor)`. None for any other text."""
        start, separator, call_id = (text or "").rpartition(".")
        key = parse_id(call_id)
        if not separator or key is None:
            return None
        return cls(start.replace("T", " "), key, direction)


_HAS_LEG = (
    "c.id IN (SELECT value FROM json_each(?) UNION"
    " SELECT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?)))"
)


_COMPARISONS = {
    "since": "c.started_at >= ?",
    "until": "c.started_at < ?",
    "user_id": "c.user_id = ?",
    "user_scope": "c.user_id = ?",
    "account_number": "? IN (c.our_e164, c.our_number)",
    "party": "coalesce(c.party_e164, c.party) = ?",
    "min_talk_seconds": "c.talk_seconds >= ?",
    "max_talk_seconds": "coalesce(c.talk_seconds, 0) <= ?",
    "max_wait_seconds": "c.wait_seconds <= ?",
    "group": "c.group_kind || ':' || coalesce(c.group_id, c.group_name) = ?",
    "min_charge": "c.charge >= ?",
}
"""SQL of fields of `CallFilter` that are compared with one value."""
_FLAGS = {
    "has_charge": "c.charge > 0",
    "open_only": IS_OPEN,
    "has_recording": "c.recordings > 0",
    "has_voicemail": "c.voicemails > 0",
}
"""SQL of fields of `CallFilter` that are true or false."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Filter of calls. Times are UTC text (`until` exclusive), durations seconds."""

    since: str | None = None
    until: str | None = None
    search_terms: SearchTerms | None = None
    user_id: int | None = None
    account_number: str | None = None
    party: str | None = None
    direction: str | None = None
    outcome: str | None = None
    min_talk_seconds: int | None = None
    max_talk_seconds: int | None = None
    has_recording: bool = False
    has_voicemail: bool = False
    max_wait_seconds: int | None = None
    group: str | None = None
    """Kind and id (otherwise name) of a group or IVR, such as 'queue:12'."""
    country: str | None = None
    """Calling code of the outside party's number, such as '44'."""
    has_charge: bool = False
    min_charge: float | None = None
    labelled_leg_ids: str | None = None
    """JSON list of the ids of legs with the requested label."""
    noted_leg_ids: str | None = None
    """JSON list of ids of legs whose notes or labels match `search_terms`."""
    time_spans: str | None = None
    """JSON list of spans [since, until) as UTC text. A call must start in one span."""
    matched_call_ids: str | None = None
    """JSON list of matching call ids (`resolve_search`), complete if `has_all_matches`."""
    has_all_matches: bool = True
    missed: MissedFilter | None = None
    open_only: bool = False
    """A call must start during opening hours."""
    user_scope: int | None = None
    """Platform user to whose calls all results are limited (`dashboard.agents_see = own`)."""

    def without_range(self) -> CallFilter:
        """Return the filter without `since` and `until`."""
        return replace(self, since=None, until=None)

    @property
    def needs_full_scan(self) -> bool:
        """True if no index fits: all calls in range are read."""
        narrowing = (self.user_id, self.user_scope, self.party, self.time_spans, self.labelled_leg_ids)
        if any(narrowing) or self.has_voicemail or self.missed:
            return False
        return self.outcome is None or self.outcome == "internal"

    @property
    def has_only_matches(self) -> bool:
        """True if exactly the calls in `matched_call_ids` match."""
        return self.matched_call_ids is not None and not self.noted_leg_ids and not self.build_conditions()[0]

    def build_conditions(self) -> tuple[list[str], list[Any]]:
        """Return conditions on `_calls AS c` and their values, without the search."""
        conditions: list[str] = []
        values: list[Any] = []

        def add(condition: str, *bound: Any) -> None:
            conditions.append(condition)
            values.extend(bound)

        for name, condition in _COMPARISONS.items():
            if (value := getattr(self, name)) is not None:
                add(condition, value)
        for name, condition in _FLAGS.items():
            if getattr(self, name):
                add(condition)
        if self.direction is not None:
            if self.direction == "external":
                add("c.direction <> 'internal'")
            else:
                add("c.direction = ?", self.direction)
        if self.outcome == "not_talked":
            add("c.outcome IN ('missed', 'voicemail')")
        elif self.outcome == "open":
            add("c.state <> 'ended'")
        elif self.outcome is not None:
            add("c.outcome = ?", self.outcome)
        if self.country is not None:
            # No calling code is a prefix of another one.
            add("substr(c.party_e164, 1, ?) = ?", len(self.country) + 1, f"+{self.country}")
        if self.labelled_leg_ids is not None:
            add(_HAS_LEG, self.labelled_leg_ids, self.labelled_leg_ids)
        if self.time_spans is not None:
            add(
                "c.id IN (SELECT h.id FROM json_each(?) AS s JOIN _calls AS h"
                " ON h.started_at >= s.value ->> 0 AND h.started_at < s.value ->> 1)",
                self.time_spans,
            )
        if self.missed is not None:
            for condition, *bound in self.missed.build_conditions():
                add(condition, *bound)
        return conditions, values


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first, and cursors of adjacent pages, None without rows."""

    rows: list[sqlite3.Row]
    newer: Cursor | None
    older: Cursor | None


def fetch_page(
    connection: sqlite3.Connection,
    call_filter: CallFilter,
    cursor: Cursor | None = None,
    *,
    size: int,
) -> Page:
    """Return one page of `size` calls; without a cursor the newest page."""
    if call_filter.time_spans is not None and (cursor is None or cursor.direction == "before"):
        spans = [
            span
            for span in json.loads(call_filter.time_spans)
            if cursor is None or span[0] <= cursor.started_at
        ]
        if len(spans) > NEWEST_SPANS:
            newest_page = _query_page(
                connection, replace(call_filter, time_spans=json.dumps(spans[-NEWEST_SPANS:])), cursor, size
            )
            if newest_page.older is not None:
                return newest_page
    return _query_page(connection, call_filter, cursor, size)


def _query_page(
    connection: sqlite3.Connection, call_filter: CallFilter, cursor: Cursor | None, size: int
) -> Page:
    source, span_values = _build_source(call_filter)
    conditions, values = _build_conditions(connection, replace(call_filter, time_spans=None), is_ordered=True)
    ascending = cursor is not None and cursor.direction == "after"
    order = "ASC" if ascending else "DESC"
    in_order = f"ORDER BY c.started_at {order}, c.id {order}"
    rows: list[sqlite3.Row] = []
    for position, *position_values in _list_positions(cursor):
        rows += connection.execute(
            # Sorting complete rows of a search with 4,375 matches takes twice as long.
            f"SELECT c.* FROM (SELECT c.id FROM {source} WHERE {' AND '.join([*conditions, position])}"
            f" {in_order} LIMIT ?) AS page JOIN _calls AS c ON c.id = page.id {in_order}",
            [*span_values, *values, *position_values, size + 1 - len(rows)],
        )
        if len(rows) > size:
            break
    has_more = len(rows) > size
    rows = rows[:size]
    if ascending:
        rows.reverse()
    if not rows:
        return Page([], None, None)
    first, last = rows[0], rows[-1]
    has_newer = has_more if ascending else cursor is not None
    has_older = True if ascending else has_more
    return Page(
        rows,
        Cursor(first["started_at"] or "", first["id"], "after") if has_newer else None,
        Cursor(last["started_at"] or "", last["id"], "before") if has_older else None,
    )


def _list_positions(cursor: Cursor | None) -> list[tuple[Any, ...]]:
    """Return (condition, value …) of the rows after a cursor, in their order.

    Calls without a time are the oldest. They are selected separately, so that each condition is an index
    search.
    """
    if cursor is None:
        return [("true",)]
    key = (cursor.started_at, cursor.id)
    if cursor.direction == "before":
        if not cursor.started_at:
            return [("c.started_at IS NULL AND c.id < ?", cursor.id)]
        return [("(c.started_at, c.id) < (?, ?)", *key), ("c.started_at IS NULL",)]
    if not cursor.started_at:
        return [("c.started_at IS NULL AND c.id > ?", cursor.id), ("c.started_at IS NOT NULL",)]
    return [("(c.started_at, c.id) > (?, ?)", *key)]


def _build_source(call_filter: CallFilter) -> tuple[str, list[str]]:
    """Return (FROM clause, values). Time spans come first, as index ranges."""
    if call_filter.time_spans is None:
        return "_calls c", []
    span_condition = "c.started_at >= s.value ->> 0 AND c.started_at < s.value ->> 1"
    return f"json_each(?) AS s CROSS JOIN _calls AS c ON {span_condition}", [call_filter.time_spans]


def count(connection: sqlite3.Connection, call_filter: CallFilter, limit: int = MAX_COUNT) -> int:
    """Count the matching calls. Counting stops at `limit` + 1."""
    if call_filter.has_only_matches:
        return min(len(json.loads(call_filter.matched_call_ids or "")), limit + 1)
    source, span_values = _build_source(call_filter)
    conditions, values = _build_conditions(
        connection, replace(call_filter, time_spans=None), is_ordered=False
    )
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {source} {where} LIMIT ?)",
        [*span_values, *values, limit + 1],
    ).fetchone()
    return int(row[0])


def count_up_to_limit(connection: sqlite3.Connection, call_filter: CallFilter) -> tuple[int, bool]:
    """Return (number of matching calls, whether the number is complete).

    At most MAX_COUNT calls are counted or examined, because a page must not read a million rows.
    """
    is_complete = call_filter.has_all_matches
    if call_filter.search_terms is None and call_filter.needs_full_scan:
        until = "9999" if call_filter.until is None else call_filter.until
        row = connection.execute(
            "SELECT started_at FROM _calls WHERE started_at >= ? AND started_at < ?"
            " ORDER BY started_at DESC LIMIT 1 OFFSET ?",
            (call_filter.since or "", until, MAX_COUNT),
        ).fetchone()
        if row is not None:
            call_filter, is_complete = replace(call_filter, since=row[0]), False
    total = count(connection, call_filter)
    return min(total, MAX_COUNT), is_complete and total <= MAX_COUNT


def resolve_search(connection: sqlite3.Connection, call_filter: CallFilter) -> CallFilter:
    """Return the filter plus at most MAX_INDEXED_MATCHES matches, for page and count."""
    if call_filter.search_terms is None:
        return call_filter
    query, values = call_filter.search_terms.build_query()
    rows = connection.execute(f"{query} LIMIT ?", (*values, MAX_INDEXED_MATCHES + 1)).fetchall()
    matched_ids = json.dumps([row[0] for row in rows[:MAX_INDEXED_MATCHES]])
    return replace(
        call_filter, matched_call_ids=matched_ids, has_all_matches=len(rows) <= MAX_INDEXED_MATCHES
    )


def build_named_conditions(
    connection: sqlite3.Connection, call_filter: CallFilter, prefix: str
) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions of `fetch_page` and `count` with named values.

    For other queries on `_calls AS c`. The values are named '<prefix>0', '<prefix>1', ….
    """
    conditions, values = _build_conditions(connection, call_filter, is_ordered=False)
    numbers = count_up()
    # Every question mark in the conditions is a placeholder.
    named_conditions = [
        re.sub(r"\?", lambda _: f":{prefix}{next(numbers)}", condition) for condition in conditions
    ]
    return named_conditions, {f"{prefix}{number}": value for number, value in enumerate(values)}


def _build_conditions(
    connection: sqlite3.Connection, call_filter: CallFilter, *, is_ordered: bool
) -> tuple[list[str], list[Any]]:
    """Return all conditions and values, with the cheaper way to search."""
    conditions, values = call_filter.build_conditions()
    if call_filter.search_terms is None:
        return conditions, values
    if call_filter.matched_call_ids is not None and (call_filter.has_all_matches or not is_ordered):
        condition = "c.id IN (SELECT value FROM json_each(?))"
        search_values = [call_filter.matched_call_ids]
    elif is_ordered and (
        not call_filter.has_all_matches
        or search_index.has_more_matches(connection, call_filter.search_terms, MAX_INDEXED_MATCHES)
    ):
        condition, search_values = call_filter.search_terms.build_text_condition(
            "(SELECT s.text FROM _calls_search s WHERE s.rowid = c.id)"
        )
    else:
        query, search_values = call_filter.search_terms.build_query()
        condition = f"c.id IN ({query})"
    if call_filter.noted_leg_ids is not None:
        condition = f"({condition} OR {_HAS_LEG})"
        search_values += [call_filter.noted_leg_ids, call_filter.noted_leg_ids]
    return [*conditions, condition], [*values, *search_values]


# --- around one call ---------------------------------------------------------------------------------


def build_call_id_sql(id_sql: str) -> str:
    """Return SQL of the present call of an id, or NULL.

    `id_sql`: SQL of the id of a leg, the root of legs, or a call that is present or was merged.
    """
    return (
        f"coalesce((SELECT call_id FROM _legs WHERE leg_id = {id_sql}),"
        f" (SELECT id FROM _calls WHERE id = {id_sql}),"
        f" (SELECT min(call_id) FROM _legs WHERE root_id = {id_sql}),"
        " (SELECT into_id FROM _merged_calls AS merged"
        f" WHERE merged.id = {id_sql} AND into_id IN (SELECT id FROM _calls)))"
    )


IS_CALL_OF_ID = f"c.id = {build_call_id_sql('ids.value')}"
"""SQL of whether the call `c` has the present or former id `ids.value`."""


def find(connection: sqlite3.Connection, call_id: int) -> sqlite3.Row | None:
    """Return the call with this present or former id, or None."""
    return find_all(connection, [call_id]).get(call_id)


def find_all(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, sqlite3.Row]:
    """Return calls by ids of legs, and by present or former ids of calls. Unknown ids are omitted."""
    rows = connection.execute(
        f"SELECT c.*, ids.value AS former_id FROM json_each(?) AS ids JOIN _calls AS c ON {IS_CALL_OF_ID}",
        (id_list(ids),),
    )
    return {row["former_id"]: row for row in rows}


def list_earlier_calls(
    connection: sqlite3.Connection,
    party_e164: str | None,
    before: str,
    excluded_id: int,
    limit: int = 5,
    *,
    user_scope: int | None,
) -> list[sqlite3.Row]:
    """Return the last calls with an outside party, newest first.

    Calls that started after `before` (UTC text) are excluded. `user_scope` limits the calls to those of a
    platform user.
    """
    if not party_e164:
        return []
    return connection.execute(
        "SELECT * FROM _calls WHERE coalesce(party_e164, party) = ? AND started_at <= ? AND id <> ?"
        " AND (? IS NULL OR user_id = ?) ORDER BY started_at DESC LIMIT ?",
        (party_e164, before, excluded_id, user_scope, user_scope, limit),
    ).fetchall()


def find_last_attempts(
    connection: sqlite3.Connection, missed_at: Mapping[str, str]
) -> dict[str, sqlite3.Row]:
    """Return the latest outbound call to each missed caller.

    The call is live or ended, and began after the caller was missed.

    `missed_at`: UTC text by telephone number, in E.164 or as received. Callers without such a call are
    omitted.
    """
    rows = connection.execute(
        "SELECT p.value ->> 0 AS caller, c.* FROM json_each(?) AS p CROSS JOIN _calls AS c"
        " ON coalesce(c.party_e164, c.party) = p.value ->> 0 AND c.started_at >= p.value ->> 1"
        " WHERE c.direction = 'out' ORDER BY c.started_at, c.id",
        (json.dumps(list(missed_at.items())),),
    )
    return {row["caller"]: row for row in rows}


def list_users(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the platform users by name; `gone` is 1 for missing users."""
    return connection.execute(
        f"SELECT id, coalesce({build_name_sql('users')}, '') AS name, ext,"
        " _missing_since IS NOT NULL AS gone FROM users ORDER BY name COLLATE NOCASE, id"
    ).fetchall()


def list_account_numbers(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the account's DDIs for a filter. Columns: e164 (as received), name."""
    return connection.execute("SELECT e164, name FROM ddis ORDER BY e164").fetchall()
