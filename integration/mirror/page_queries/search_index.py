"""Search index of calls: fragments of numbers, names, transcripts and notes.

`_calls_search` is an FTS5 trigram index. It contains the numbers of a call (without plus, as received and in
E.164) and a folded copy of its names, of the transcripts of its recordings and voicemail messages, and of its
notes on the platform.
Triggers record changed calls in `_calls_search_due`, so every writer is covered; `index_changed_calls`
updates the index. Triggers cannot write the index: with `trusted_schema=OFF` SQLite 3.40 rejects FTS5 and
application-defined functions in triggers. An initial sync is also faster if the index is written after the
rows.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from integration.core.ids import id_list
from integration.core.number_search.reading import read_number
from integration.core.number_variants import MIN_DIGITS
from integration.sqlite.database import Database
from integration.sqlite.listing import escape_like
from integration.sqlite.schema import Schema
from integration.sqlite.step_size import StepSize
from integration.sqlite.transaction import Transaction


def fold(text: str) -> str:
    """Fold a text for the index ('Müller' → 'muller').

    The result is NFKD, without accents and casefolded.
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).casefold()


def build_contains_sql(column: str) -> str:
    """Return SQL that is true for texts with the fragment of `bind_fragment`, ignoring case and accents.

    `contains_folded` is a function of `mirror/query/functions`.
    """
    # A text with more bytes than letters has other letters than ASCII. For all others LIKE is enough, at a
    # quarter of the cost of a function call.
    return (
        f"({column} LIKE :like ESCAPE '\\' OR (length(CAST({column} AS BLOB)) > length({column})"
        f" AND contains_folded({column}, :folded)))"
    )


def bind_fragment(text: str) -> dict[str, str]:
    """Return the values of `build_contains_sql`."""
    return {"like": f"%{escape_like(text.strip())}%", "folded": fold(text.strip())}


_NUMBER_COLUMNS = ("party", "party_e164", "our_number")
_NAME_COLUMNS = ("party_name", "user_name", "extension", "group_name")
_NAME_LINES = len(_NUMBER_COLUMNS) + len(_NAME_COLUMNS)
"""Lines of an indexed text before the transcripts."""
_INDEXED_COLUMNS = ("id", *_NUMBER_COLUMNS, *_NAME_COLUMNS)
_OLD_VALUES = ", ".join(f"OLD.{name}" for name in _INDEXED_COLUMNS)
_NEW_VALUES = ", ".join(f"NEW.{name}" for name in _INDEXED_COLUMNS)
_VALUES_CHANGED = f"({_OLD_VALUES}) IS NOT ({_NEW_VALUES})"


def _build_due_insert(row: str) -> str:
    """Return trigger SQL that records a changed call unless it is recorded.

    It has no OR IGNORE, because the conflict clause of the statement that fires a trigger overrides the
    clauses inside.
    """
    return (
        f"INSERT INTO _calls_search_due SELECT {row}.id"
        f" WHERE NOT EXISTS (SELECT 1 FROM _calls_search_due WHERE id = {row}.id);"
    )


def _build_transcript_triggers(
    table: str, leg_columns: tuple[str, ...], text_columns: tuple[str, ...]
) -> str:
    """Return triggers that record the calls of changed transcripts.

    A transcript arrives after its call and can be deleted before it, so changes of `_calls` are not enough.
    """

    def build_due_insert(row: str) -> str:
        return (
            "INSERT INTO _calls_search_due SELECT DISTINCT call_id FROM _legs WHERE leg_id IN"
            f" ({', '.join(f'{row}.{leg}' for leg in leg_columns)})"
            " AND call_id NOT IN (SELECT id FROM _calls_search_due);"
        )

    def build_condition(row: str) -> str:
        return " OR ".join(f"{row}.{text} IS NOT NULL" for text in text_columns)

    is_changed = " OR ".join(f"NEW.{text} IS NOT OLD.{text}" for text in text_columns)
    return (
        f"CREATE TRIGGER IF NOT EXISTS _{table}_search_insert AFTER INSERT ON {table}"
        f" WHEN {build_condition('NEW')} BEGIN {build_due_insert('NEW')} END;\n"
        f"CREATE TRIGGER IF NOT EXISTS _{table}_search_update AFTER UPDATE OF {', '.join(text_columns)}"
        f" ON {table}"
        f" WHEN {is_changed} BEGIN {build_due_insert('NEW')} END;\n"
        f"CREATE TRIGGER IF NOT EXISTS _{table}_search_delete AFTER DELETE ON {table}"
        f" WHEN {build_condition('OLD')} BEGIN {build_due_insert('OLD')} END;"
    )


_NOTE_TRIGGERS = "".join(
    f"CREATE TRIGGER IF NOT EXISTS _below_search_{event.lower()} AFTER {event} ON _below"
    f" WHEN {row}.collection = 'cdrs' AND {row}.name = 'notes'{condition} BEGIN"
    " INSERT INTO _calls_search_due SELECT DISTINCT leg.call_id FROM cdrs JOIN _legs AS leg"
    f" ON leg.leg_id = cdrs.live_id WHERE cdrs.id = {row}.key"
    " AND leg.call_id NOT IN (SELECT id FROM _calls_search_due); END;\n"
    for event, row, condition in (
        ("INSERT", "NEW", ""),
        ("UPDATE", "NEW", " AND NEW.doc IS NOT OLD.doc"),
        ("DELETE", "OLD", ""),
    )
)
"""Triggers that record the calls of changed notes."""

TABLES = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS _calls_search USING fts5(text, tokenize = 'trigram');
-- serves index_changed_calls(): calls whose text changed since the last run
CREATE TABLE IF NOT EXISTS _calls_search_due (id INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER IF NOT EXISTS _calls_search_insert AFTER INSERT ON _calls BEGIN {_build_due_insert("NEW")} END;
CREATE TRIGGER IF NOT EXISTS _calls_search_update AFTER UPDATE ON _calls WHEN {_VALUES_CHANGED} BEGIN
  {_build_due_insert("OLD")}
  {_build_due_insert("NEW")}
END;
CREATE TRIGGER IF NOT EXISTS _calls_search_delete AFTER DELETE ON _calls BEGIN {_build_due_insert("OLD")} END;
{_build_transcript_triggers("monitors", ("live_id",), ("transcript", "summary"))}
{_build_transcript_triggers("voicemessages", ("live_id", "parent_live_id"), ("transcript",))}
{_NOTE_TRIGGERS}
"""

_TRANSCRIPTS = """CASE WHEN c.recordings > 0 OR c.voicemails > 0 THEN (
  SELECT group_concat(transcript, char(10)) FROM (
    SELECT coalesce(m.transcript, '') || ' ' || coalesce(m.summary, '') AS transcript
      FROM _legs l JOIN monitors m ON m.live_id = +l.leg_id WHERE l.call_id = c.id
    UNION SELECT v.transcript FROM _legs l JOIN voicemessages v ON v.live_id = +l.leg_id
     WHERE l.call_id = c.id
    UNION SELECT v.transcript FROM _legs l JOIN voicemessages v ON v.parent_live_id = +l.leg_id
     WHERE l.call_id = c.id)) END"""
"""SQL for the transcripts of a call, or NULL. Few calls have transcripts.

The plus removes the affinity of `leg_id`. With the affinity SQLite would convert every `live_id` (type ANY)
for the comparison and read all of them for each call.
"""

_NOTES = """(SELECT group_concat(t.atom, char(10)) FROM _legs AS l JOIN cdrs AS r ON r.live_id = +l.leg_id
  JOIN _below AS b ON b.collection = 'cdrs' AND b.key = r.id AND b.name = 'notes'
  JOIN json_tree(b.doc) AS t ON t.type = 'text' WHERE l.call_id = c.id)"""
"""SQL for the texts of the notes of a call on the platform, or NULL."""

_NAMES = f"""coalesce((
  WITH RECURSIVE source(text) AS (SELECT {{text}}), line(number, position) AS (SELECT 0, 0
    UNION ALL SELECT number + 1, position + instr(substr(text, position + 1), char(10)) FROM line, source
     WHERE number < {_NAME_LINES} AND instr(substr(text, position + 1), char(10)))
  SELECT substr(text, 1, position) FROM line, source WHERE number = {_NAME_LINES}), {{text}})"""
"""SQL for the part of an indexed text without transcripts and notes."""

PADDING = "\x1f"
"""Character that pads words to the length of a trigram. Removed from searches."""

BATCH_SIZE, STEPS_PER_RUN = 1000, 10
"""Most calls indexed by one step, and steps that may share a transaction. Slow steps have fewer calls."""


def index_stored_notes(schema: Schema) -> None:
    """Migration: record the calls whose notes are not indexed."""
    names = schema.table_names()
    if "_calls_search_due" in names and "_below" in names:
        schema.execute(
            "INSERT OR IGNORE INTO _calls_search_due SELECT leg.call_id FROM _below AS b"
            " JOIN cdrs ON cdrs.id = b.key JOIN _legs AS leg ON leg.leg_id = cdrs.live_id"
            " WHERE b.collection = 'cdrs' AND b.name = 'notes' AND b.doc IS NOT NULL"
        )


def index_deleted_transcripts(schema: Schema) -> None:
    """Migration: index calls with texts again, because deleted transcripts are still indexed."""
    if "_calls_search_due" in schema.table_names():
        schema.execute(
            "INSERT OR IGNORE INTO _calls_search_due SELECT rowid FROM _calls_search"
            " WHERE length(text) - length(replace(text, char(10), '')) >= ?",
            (_NAME_LINES,),
        )


def index_changed_calls(tx: Transaction, limit: int = BATCH_SIZE) -> int:
    """Index up to `limit` changed calls; return how many (0: none due)."""
    rows = tx.execute(
        f"SELECT d.id AS due, c.*, {_TRANSCRIPTS} AS transcripts, {_NOTES} AS notes"
        " FROM _calls_search_due d LEFT JOIN _calls c ON c.id = d.id LIMIT ?",
        (limit,),
    ).fetchall()
    if not rows:
        return 0
    call_ids = [(row["due"],) for row in rows]
    tx.executemany("DELETE FROM _calls_search WHERE rowid = ?", call_ids)
    tx.executemany(
        "INSERT INTO _calls_search (rowid, text) VALUES (?, ?)",
        [(row["id"], _build_text(row)) for row in rows if row["id"] is not None],
    )
    tx.executemany("DELETE FROM _calls_search_due WHERE id = ?", call_ids)
    return len(rows)


def index_all_due(mirror_db: Database) -> None:
    """Index all changed calls in short transactions.

    Writes nothing if no call is due.
    """
    step_size = StepSize(BATCH_SIZE)

    def step(tx: Transaction) -> int:
        with step_size.measure(limit := step_size.value):
            return index_changed_calls(tx, limit)

    while True:
        with mirror_db.read() as connection:
            if connection.execute("SELECT 1 FROM _calls_search_due LIMIT 1").fetchone() is None:
                return
        mirror_db.write_bulk([step] * STEPS_PER_RUN)


def _build_text(row: sqlite3.Row) -> str:
    """Return the indexed text: numbers without plus, folded names, transcripts.

    Each value has a line of its own, so that no search matches across two values. Two PADDING characters
    precede each word of numbers and names. The first one or two letters of a word are then part of a trigram,
    so the index also finds searches of one or two letters at the start of words.
    """
    values = [str(row[name] or "").replace("+", "") for name in _NUMBER_COLUMNS]
    values += [fold(str(row[name] or "")) for name in _NAME_COLUMNS]
    lines = [" ".join(f"{PADDING}{PADDING}{word}" for word in value.split()) for value in values]
    # Transcripts have no padding, because it would be most of their index. Searches of one or two letters do
    # not find transcripts.
    return "\n".join([*lines, *(fold(row[name]) for name in ("transcripts", "notes") if row[name])])


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """Parsed search text.

    Every group must match by at least one of its alternatives. Alternatives are folded. Those of one or two
    characters get padding in front, so that they match only at the start of a word: FTS5 finds nothing
    shorter than a trigram. With `names_only` transcripts and notes on the platform, which follow them in the
    index, do not match.
    """

    groups: tuple[tuple[str, ...], ...]
    names_only: bool = False

    def matches(self, text: str) -> bool:
        """Return whether an indexed text matches every group."""
        return all(any(word in text for word in group) for group in self.groups)

    def build_text_condition(self, text: str) -> tuple[str, list[str]]:
        """Return (condition, values).

        The SQL expression `text` must match every group.
        """
        text = _NAMES.format(text=text) if self.names_only else text
        groups = ("(" + " OR ".join(f"instr({text}, ?)" for _ in group) + ")" for group in self.groups)
        return " AND ".join(groups), [word for group in self.groups for word in group]

    def build_query(self) -> tuple[str, list[str]]:
        """Return (SQL, values) that select the `id` of each matching call.

        The ids are in the order of the index. Any other order would read the entire index.
        """
        ends = SearchTerms(tuple(tuple(dict.fromkeys(map(_get_end, group))) for group in self.groups))
        query = "SELECT s.rowid AS id FROM _calls_search AS s WHERE s._calls_search MATCH ?"
        if ends == self:
            return query, [self._fts_query]
        condition, values = self.build_text_condition("s.text")
        if len(self.groups) == 1:
            # Page and sums read the calls anyway, so the texts are read of the other matches only.
            (group,) = self.groups
            has_number = " OR ".join(f"instr(c.{name}, ?)" for name in _NUMBER_COLUMNS for _ in group)
            condition = (
                f"(EXISTS (SELECT 1 FROM _calls AS c WHERE c.id = s.rowid AND ({has_number})) OR {condition})"
            )
            values = [*(word for _ in _NUMBER_COLUMNS for word in group), *values]
        return f"{query} AND {condition}", [ends._fts_query, *values]

    @property
    def _fts_query(self) -> str:
        return " AND ".join(
            "(" + " OR ".join('"' + word.replace('"', '""') + '"' for word in group) + ")"
            for group in self.groups
        )


INDEXED_DIGITS = 6
"""Last digits of a number that are searched in the index; the texts found are compared with all digits.

FTS5 compares the positions of each trigram. At a million CDRs a number of 12 digits with 4,375 calls takes
92 ms, its last 6 digits 18 ms, and 24 ms more with the comparison.
"""


def _get_end(word: str) -> str:
    return word[-INDEXED_DIGITS:] if word.isdecimal() else word


def load_texts(connection: sqlite3.Connection, call_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Return the indexed texts of calls: (numbers and names, transcripts and notes)."""
    rows = connection.execute(
        "SELECT rowid AS id, text FROM _calls_search WHERE rowid IN (SELECT value FROM json_each(?))",
        (id_list(call_ids),),
    )
    texts = {}
    for row in rows:
        lines = str(row["text"]).split("\n")
        texts[row["id"]] = ("\n".join(lines[:_NAME_LINES]), "\n".join(lines[_NAME_LINES:]))
    return texts


def find_matching_lines(
    connection: sqlite3.Connection, call_ids: Sequence[int], terms: SearchTerms
) -> dict[int, str]:
    """Return by call the line of a transcript or note that a search matches, as received.

    Calls that match by their numbers and names are omitted.
    """
    if terms.names_only:
        return {}
    spoken = [id_ for id_, (names, _) in load_texts(connection, call_ids).items() if not terms.matches(names)]
    rows = connection.execute(
        f"SELECT c.id, {_TRANSCRIPTS} AS transcripts, {_NOTES} AS notes FROM _calls AS c"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        (id_list(spoken),),
    )
    words = [word for group in terms.groups for word in group]
    lines = {}
    for row in rows:
        texts = "\n".join(filter(None, (row["notes"], row["transcripts"])))
        line = next((line for line in texts.split("\n") if any(word in fold(line) for word in words)), None)
        if line is not None:
            lines[row["id"]] = line
    return lines


def has_more_matches(connection: sqlite3.Connection, search_terms: SearchTerms, limit: int) -> bool:
    """Return whether more than `limit` calls match.

    If so, reading calls in order and comparing their texts finds a page faster.
    """
    query, values = search_terms.build_query()
    (count,) = connection.execute(f"SELECT count(*) FROM ({query} LIMIT ?)", (*values, limit + 1)).fetchone()
    return bool(count > limit)


def parse_search(search_text: str, calling_code: str | None) -> SearchTerms | None:
    """Parse a search text. None if there is nothing to search.

    Numbers may have spaces, brackets, dots, slashes, a plus, `00` or the national form. `calling_code` is the
    code of the display country for the national form, such as '44'. At most 200 characters are used.
    """
    search_text = search_text.replace("\0", " ").replace(PADDING, " ").strip()[:200]
    if not search_text:
        return None
    if read_number(search_text):
        return SearchTerms((_pad_words(_list_variants(search_text, calling_code)),))
    groups = []
    for word in search_text.split():
        folded = fold(word.strip('"') or word)
        is_numeric = len(word) > 3 and read_number(word) is not None
        groups.append(_pad_words(_list_variants(word, calling_code) if is_numeric else (folded,)))
    return SearchTerms(tuple(groups))


def _pad_words(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(PADDING * (3 - len(word)) + word for word in words)


def _list_variants(number: str, calling_code: str | None) -> tuple[str, ...]:
    written = read_number(number.replace("(0)", "")) or read_number(number)
    if written is None:
        return ()
    digits = written.number.removeprefix("+")
    variants = [digits]
    international = digits[2:] if digits.startswith("00") and len(digits) > 4 else digits
    if calling_code and len(international) - len(calling_code) >= MIN_DIGITS:
        # A platform may store the national form. Both forms contain the digits after the calling code.
        national = international.removeprefix(calling_code)
        variants += [national] if national != international else []
    if digits != written.number:
        return tuple(variants)
    if international != digits:
        variants.append(international)
    elif digits.startswith("0") and len(digits) > (1 if calling_code else 3):
        # Without a country only the trunk zero is removed; the remaining digits are searched as a fragment.
        variants.append((calling_code or "") + digits[1:])
    return tuple(dict.fromkeys(variant for variant in variants if variant))
