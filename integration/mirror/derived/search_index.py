"""Search index of calls: fragments of numbers, names, transcripts and notes.

`_calls_search` is an FTS5 trigram index. It contains the numbers of a call (without plus, as received and in
E.164) and a folded copy of its names, of the transcripts of its recordings and voicemail messages, and of its
notes on the platform.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from integration.mirror.derived.declaration import (
    CALL_IDS,
    JOIN_RANGES,
    Derived,
    Range,
    Rows,
    Rules,
    Source,
    Target,
    to_json,
)
from integration.mirror.page_queries.search_index import (
    NAME_COLUMNS,
    NOTES,
    NUMBER_COLUMNS,
    PADDING,
    TRANSCRIPTS,
    fold,
)

VERSION = 2
"""Increased when the texts have another form."""

TABLES = """
-- columnsize 0: lengths of texts would serve a rank only
CREATE VIRTUAL TABLE IF NOT EXISTS _calls_search USING fts5(text, tokenize = 'trigram', columnsize = 0);
-- Twice as many parts as usual stay apart: an initial sync stores 15 % faster, a search takes 0.02 ms more.
INSERT INTO _calls_search (_calls_search, rank) VALUES ('automerge', 8);
"""

CALLS_OF_LEGS = "SELECT DISTINCT call_id AS key FROM _legs WHERE leg_id IN ({})"
TRANSCRIPT_SOURCES = (
    Source(
        "monitors",
        ("live_id", "transcript", "summary"),
        CALLS_OF_LEGS.format("{row}.live_id"),
        "{row}.transcript IS NOT NULL OR {row}.summary IS NOT NULL",
    ),
    Source(
        "voicemessages",
        ("live_id", "parent_live_id", "transcript"),
        CALLS_OF_LEGS.format("{row}.live_id, {row}.parent_live_id"),
        "{row}.transcript IS NOT NULL",
    ),
)
"""A transcript arrives after its call, and retention deletes it earlier."""
NOTE_SOURCE = Source(
    "_below",
    ("doc",),
    "SELECT DISTINCT leg.call_id AS key FROM cdrs JOIN _legs AS leg ON leg.leg_id = cdrs.live_id"
    " WHERE cdrs.id = {row}.key",
    "{row}.collection = 'cdrs' AND {row}.name = 'notes'",
)


def compute_texts(connection: sqlite3.Connection, ranges: Sequence[Range], _rules: Rules) -> list[Rows]:
    """Return the indexed texts of calls."""
    columns = ", ".join(f"c.{name}" for name in (*NUMBER_COLUMNS, *NAME_COLUMNS))
    calls = connection.execute(
        f"SELECT c.id, {columns}, {TRANSCRIPTS}, {NOTES}"
        f" FROM {JOIN_RANGES.format(table='_calls AS c', key='c.id')}",
        (to_json(ranges),),
    )
    return [Rows(TARGET, ranges, {(row[0], _build_text(row[1:-2], row[-2:])) for row in calls})]


def _build_text(values: Sequence[object], spoken_texts: Sequence[str | None]) -> str:
    """Return the indexed text: numbers without plus, folded names, transcripts and notes.

    Each value has a line of its own, so that no search matches across two values. The line of a number is
    empty if it is written as its E.164 form, which follows. Two PADDING characters
    precede each word of numbers and names. The first one or two letters of a word are then part of a trigram,
    so the index also finds searches of one or two letters at the start of words.
    """
    texts = [str(value or "") for value in values]
    numbers = [number.replace("+", "") for number in texts[: len(NUMBER_COLUMNS)]]
    if numbers[0] == numbers[1]:
        numbers[0] = ""
    lines = [
        " ".join([f"{PADDING}{PADDING}{word}" for word in text.split()])
        for text in (*numbers, *map(fold, texts[len(NUMBER_COLUMNS) :]))
    ]
    # Transcripts have no padding, because it would be most of their index. Searches of one or two letters do
    # not find transcripts.
    return "\n".join([*lines, *(fold(text) for text in spoken_texts if text)])


TARGET = Target(
    "_calls_search",
    ("rowid", "text"),
    ("rowid",),
    f"SELECT s.rowid, s.text FROM {JOIN_RANGES.format(table='_calls_search AS s', key='s.rowid')}",
)

SEARCH = Derived(
    "search",
    "Search index",
    "calls",
    keys=CALL_IDS,
    sources=(
        Source(
            "_calls",
            ("id", *NUMBER_COLUMNS, *NAME_COLUMNS, "legs", "recordings", "voicemails"),
            "{row}.id",
        ),
        *TRANSCRIPT_SOURCES,
        NOTE_SOURCE,
    ),
    tables=("_calls_search",),
    compute=compute_texts,
    describe_rules=lambda _rules: VERSION,
    in_transaction=50,
)
