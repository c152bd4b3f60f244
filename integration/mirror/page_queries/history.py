"""Named queries of the history: one row per call, filtered, paged by key, counted.

Everything reads `_calls` (see mirror/calls/store.py for its columns). Paging is by (started_at, id), so
that calls which arrive between two pages are neither shown twice nor skipped.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass, replace
from itertools import count as count_up
from typing import Any, Literal

from integration.mirror.page_queries import search_index as search
from integration.mirror.page_queries.search_index import Wanted

TABLES = (
    search.TABLES
    + """
-- serves the chip "Voicemail"; few calls have one, so that reading in order would read them all
CREATE INDEX IF NOT EXISTS _calls_with_voicemail ON _calls (started_at) WHERE voicemails > 0;
-- serves a person's calls, and since when they are free
CREATE INDEX IF NOT EXISTS _calls_by_user ON _calls (user_id, started_at);
-- serves Reports: every sum is read from this index alone
CREATE INDEX IF NOT EXISTS _calls_report ON _calls (started_at, direction, outcome, wait_seconds,
    talk_seconds, charge, user_id, our_e164, our_number, group_kind, group_id, group_name, party_e164);
"""
)

PAGE = 50
MANY = 5000
"""Above so many matches of a search the order is read from the index on started_at and each row compared, and
other filters are counted among so many only."""
COUNTED = 100_000
"""Counting stops here, at so many calls that match or that have to be
read; the page says 'more than'."""
SPANS = 30
"""Spans of hours that a page is looked for in first: the newest."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place between two rows: the row at (started_at, id), read on `before` (older) or `after` (newer)."""

    started_at: str
    id: int
    way: Literal["before", "after"] = "before"

    def __str__(self) -> str:
        return f"{self.started_at.replace(' ', 'T')}.{self.id}"

    @classmethod
    def read(cls, text: str | None, way: Literal["before", "after"]) -> Cursor | None:
        """The cursor that `str()` wrote; None for anything else."""
        started, dot, number = (text or "").rpartition(".")
        if not dot or not number.isdecimal() or len(number) > 18:
            return None
        return cls(started.replace("T", " "), int(number), way)


_OF_LEGS = (
    "c.id IN (SELECT value FROM json_each(?) UNION"
    " SELECT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?)))"
)


@dataclass(frozen=True, slots=True)
class CallFilter:
    """What history shows. Times are text UTC, `until` exclusive; durations seconds of talk."""

    since: str | None = None
    until: str | None = None
    wanted: Wanted | None = None
    user_id: int | None = None
    our_number: str | None = None
    party: str | None = None
    direction: str | None = None
    outcome: str | None = None
    at_least: int | None = None
    at_most: int | None = None
    recorded: bool = False
    voicemail: bool = False
    waited_at_most: int | None = None
    group: str | None = None
    """'queue:12': kind and id (else name) of a ring group, queue or IVR."""
    country: str | None = None
    """Calling code of the outside number: '44'."""
    charged: bool = False
    charge_at_least: float | None = None
    labelled: str | None = None
    """JSON: ids of legs that carry the label asked for."""
    noted: str | None = None
    """JSON: ids of legs whose notes or labels have what `wanted` looks for."""
    hours: str | None = None
    """JSON: spans of UTC text [[since, until), …], of which the call began in one."""
    found: str | None = None
    """JSON: ids of calls that have what `wanted` looks for (`searched`): some; all if `found_all`."""
    found_all: bool = True
    only_user: int | None = None
    """Narrows to the calls of this platform user, whatever else is asked (`dashboard.agents_see = own`)."""

    def without_range(self) -> CallFilter:
        return replace(self, since=None, until=None)

    @property
    def unserved(self) -> bool:
        """Whether no index leads to these calls, so that all of the range have to be read."""
        if self.user_id or self.only_user or self.party or self.hours or self.labelled or self.voicemail:
            return False
        return self.outcome is None or self.outcome == "internal"

    def where(self) -> tuple[list[str], list[Any]]:
        """Conditions on `c` and their values, the search apart."""
        conditions: list[str] = []
        values: list[Any] = []

        def add(condition: str, *bound: Any) -> None:
            conditions.append(condition)
            values.extend(bound)

        if self.since is not None:
            add("c.started_at >= ?", self.since)
        if self.until is not None:
            add("c.started_at < ?", self.until)
        if self.user_id is not None:
            add("c.user_id = ?", self.user_id)
        if self.only_user is not None:
            add("c.user_id = ?", self.only_user)
        if self.our_number is not None:
            add("(c.our_e164 = ? OR c.our_number = ?)", self.our_number, self.our_number)
        if self.party is not None:
            add("coalesce(c.party_e164, c.party) = ?", self.party)
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
        if self.at_least is not None:
            add("c.talk_seconds >= ?", self.at_least)
        if self.at_most is not None:
            add("coalesce(c.talk_seconds, 0) <= ?", self.at_most)
        if self.waited_at_most is not None:
            add("c.wait_seconds <= ?", self.waited_at_most)
        if self.group is not None:
            add("c.group_kind || ':' || coalesce(c.group_id, c.group_name) = ?", self.group)
        if self.country is not None:
            # No calling code begins with another one.
            add("substr(c.party_e164, 1, ?) = ?", len(self.country) + 1, f"+{self.country}")
        if self.charged:
            add("c.charge > 0")
        if self.charge_at_least is not None:
            add("c.charge >= ?", self.charge_at_least)
        if self.labelled is not None:
            add(_OF_LEGS, self.labelled, self.labelled)
        if self.hours is not None:
            add(
                "c.id IN (SELECT h.id FROM json_each(?) AS s JOIN _calls AS h"
                " ON h.started_at >= s.value ->> 0 AND h.started_at < s.value ->> 1)",
                self.hours,
            )
        if self.recorded:
            add("c.recordings > 0")
        if self.voicemail:
            add("c.voicemails > 0")
        return conditions, values


@dataclass(frozen=True, slots=True)
class Page:
    """Rows newest first, and the cursors to the pages around them (None: there is nothing that way)."""

    rows: list[sqlite3.Row]
    newer: Cursor | None
    older: Cursor | None


def page(
    connection: sqlite3.Connection, asked: CallFilter, cursor: Cursor | None = None, size: int = PAGE
) -> Page:
    """One page of calls. Without a cursor the newest."""
    if asked.hours is not None and (cursor is None or cursor.way == "before"):
        spans = [span for span in json.loads(asked.hours) if cursor is None or span[0] <= cursor.started_at]
        if len(spans) > SPANS:
            newest = _page(connection, replace(asked, hours=json.dumps(spans[-SPANS:])), cursor, size)
            if newest.older is not None:
                return newest
    return _page(connection, asked, cursor, size)


def _page(connection: sqlite3.Connection, asked: CallFilter, cursor: Cursor | None, size: int) -> Page:
    source, spans = _source(asked)
    conditions, values = _matching(connection, replace(asked, hours=None), ordered=True)
    ascending = cursor is not None and cursor.way == "after"
    if cursor is not None:
        conditions.append(f"(c.started_at, c.id) {'>' if ascending else '<'} (?, ?)")
        values += [cursor.started_at, cursor.id]
    order = "ASC" if ascending else "DESC"
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = connection.execute(
        f"SELECT c.* FROM {source} {where} ORDER BY c.started_at {order}, c.id {order} LIMIT ?",
        [*spans, *values, size + 1],
    ).fetchall()
    more = len(rows) > size
    rows = rows[:size]
    if ascending:
        rows.reverse()
    if not rows:
        return Page([], None, None)
    first, last = rows[0], rows[-1]
    has_newer = more if ascending else cursor is not None
    has_older = True if ascending else more
    return Page(
        rows,
        Cursor(first["started_at"], first["id"], "after") if has_newer else None,
        Cursor(last["started_at"], last["id"], "before") if has_older else None,
    )


def _source(asked: CallFilter) -> tuple[str, list[str]]:
    """Where calls are read from, and its values. Spans of hours lead: each is a piece of an index."""
    if asked.hours is None:
        return "_calls c", []
    within = "c.started_at >= s.value ->> 0 AND c.started_at < s.value ->> 1"
    return f"json_each(?) AS s CROSS JOIN _calls AS c ON {within}", [asked.hours]


def count(connection: sqlite3.Connection, asked: CallFilter, limit: int = COUNTED) -> int:
    """How many calls match; counting stops at `limit` + 1."""
    source, spans = _source(asked)
    conditions, values = _matching(connection, replace(asked, hours=None), ordered=False)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {source} {where} LIMIT ?)",
        [*spans, *values, limit + 1],
    ).fetchone()
    return int(row[0])


def count_some(connection: sqlite3.Connection, asked: CallFilter) -> tuple[int, bool]:
    """How many calls match, and whether that is all of them: no page waits for a million rows to be read."""
    whole = asked.found_all
    if asked.wanted is None and asked.unserved:
        until = "9999" if asked.until is None else asked.until
        row = connection.execute(
            "SELECT started_at FROM _calls WHERE started_at >= ? AND started_at < ?"
            " ORDER BY started_at DESC LIMIT 1 OFFSET ?",
            (asked.since or "", until, COUNTED),
        ).fetchone()
        if row is not None:
            asked, whole = replace(asked, since=row[0]), False
    number = count(connection, asked)
    return min(number, COUNTED), whole and number <= COUNTED


def searched(connection: sqlite3.Connection, asked: CallFilter) -> CallFilter:
    """`asked` with what the index of texts found, so that page and count need not both look there: all of it,
    or some where that is much."""
    if asked.wanted is None:
        return asked
    rows = connection.execute(
        # In the order of the index: the other way round it would be read whole.
        "SELECT rowid FROM _calls_search WHERE _calls_search MATCH ? LIMIT ?",
        (asked.wanted.match, MANY + 1),
    ).fetchall()
    found = json.dumps([row[0] for row in rows[:MANY]])
    return replace(asked, found=found, found_all=len(rows) <= MANY)


def matching(
    connection: sqlite3.Connection, asked: CallFilter, prefix: str
) -> tuple[list[str], dict[str, Any]]:
    """What `page` and `count` compare, for whoever reads the same calls in another form: conditions on
    `_calls AS c` whose values are named '<prefix>0', '<prefix>1', …"""
    conditions, values = _matching(connection, asked, ordered=False)
    places = count_up()
    # No condition holds a question mark that isn't a place for a value.
    named = [re.sub(r"\?", lambda _: f":{prefix}{next(places)}", condition) for condition in conditions]
    return named, {f"{prefix}{number}": value for number, value in enumerate(values)}


def _matching(
    connection: sqlite3.Connection, asked: CallFilter, *, ordered: bool
) -> tuple[list[str], list[Any]]:
    """Conditions and values for `asked`, with the cheaper of two ways to search."""
    conditions, values = asked.where()
    if asked.wanted is None:
        return conditions, values
    found: list[Any] = []
    if asked.found is not None and (asked.found_all or not ordered):
        condition = "c.id IN (SELECT value FROM json_each(?))"
        found.append(asked.found)
    elif ordered and (not asked.found_all or search.common(connection, asked.wanted, MANY)):
        text = "(SELECT s.text FROM _calls_search s WHERE s.rowid = c.id)"
        groups = []
        for group in asked.wanted.groups:
            groups.append("(" + " OR ".join(f"instr({text}, ?)" for _ in group) + ")")
            found += group
        condition = " AND ".join(groups)
    else:
        condition = "c.id IN (SELECT rowid FROM _calls_search WHERE _calls_search MATCH ?)"
        found.append(asked.wanted.match)
    if asked.noted is not None:
        condition = f"({condition} OR {_OF_LEGS})"
        found += [asked.noted, asked.noted]
    conditions.append(condition)
    values += found
    return conditions, values


# --- around one call ---------------------------------------------------------------------------------


def find(connection: sqlite3.Connection, number: int) -> sqlite3.Row | None:
    """The call that `number` leads to: its own id, or any id it ever had."""
    row = connection.execute("SELECT * FROM _calls WHERE id = ?", (number,)).fetchone()
    if row is None:
        row = connection.execute(
            "SELECT c.* FROM _call_ids i JOIN _calls c ON c.id = i.call_id WHERE i.id = ?", (number,)
        ).fetchone()
    found: sqlite3.Row | None = row
    return found


def earlier(
    connection: sqlite3.Connection,
    party_e164: str | None,
    before: str,
    but: int,
    limit: int = 5,
    *,
    only_user: int | None,
) -> list[sqlite3.Row]:
    """The last calls with an outside number before `before` (text UTC), newest first; with `only_user` those
    of this user of the platform."""
    if not party_e164:
        return []
    return connection.execute(
        "SELECT * FROM _calls WHERE coalesce(party_e164, party) = ? AND started_at <= ? AND id <> ?"
        " AND (? IS NULL OR user_id = ?) ORDER BY started_at DESC LIMIT ?",
        (party_e164, before, but, only_user, only_user, limit),
    ).fetchall()


def people(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """The account's people for a filter: id, name, ext; `gone`: no longer on the platform."""
    return connection.execute(
        "SELECT id, trim(coalesce(first_name, '') || ' ' || coalesce(last_name, '')) AS name, ext,"
        " _missing_since IS NOT NULL AS gone FROM users ORDER BY name COLLATE NOCASE, id"
    ).fetchall()


def numbers(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """The account's own numbers for a filter: e164 as the platform writes it, name."""
    return connection.execute("SELECT e164, name FROM ddis ORDER BY e164").fetchall()
