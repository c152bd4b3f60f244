"""Search of calls by fragments of numbers, names, transcripts and notes.

`mirror/derived/search_index` builds the index, `_calls_search`, in which this module searches.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import filterfalse

from integration.core.ids import id_list
from integration.core.number_search.reading import read_number
from integration.core.number_variants import MIN_DIGITS
from integration.sqlite.listing import escape_like


def fold(text: str) -> str:
    """Fold a text for the index ('Müller' → 'muller').

    The result is NFKD, without accents and casefolded.
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(filterfalse(unicodedata.combining, decomposed)).casefold()


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


NUMBER_COLUMNS = ("party", "party_e164", "our_number")
NAME_COLUMNS = ("party_name", "user_name", "extension", "group_name")
_NAME_LINES = len(NUMBER_COLUMNS) + len(NAME_COLUMNS)
"""Lines of an indexed text before the transcripts."""

_NAMES = f"""coalesce((
  WITH RECURSIVE source(text) AS (SELECT {{text}}), line(number, position) AS (SELECT 0, 0
    UNION ALL SELECT number + 1, position + instr(substr(text, position + 1), char(10)) FROM line, source
     WHERE number < {_NAME_LINES} AND instr(substr(text, position + 1), char(10)))
  SELECT substr(text, 1, position) FROM line, source WHERE number = {_NAME_LINES}), {{text}})"""
"""SQL for the part of an indexed text without transcripts and notes."""

TRANSCRIPTS = """CASE WHEN c.recordings > 0 OR c.voicemails > 0 THEN (
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

NOTES = """(SELECT group_concat(t.atom, char(10)) FROM _legs AS l JOIN cdrs AS r ON r.live_id = +l.leg_id
  JOIN _below AS b ON b.collection = 'cdrs' AND b.key = r.id AND b.name = 'notes'
  JOIN json_tree(b.doc) AS t ON t.type = 'text' WHERE l.call_id = c.id)"""
"""SQL for the texts of the notes of a call on the platform, or NULL."""

PADDING = "\x1f"
"""Character that pads words to the length of a trigram. Removed from searches."""


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
            has_number = " OR ".join(f"instr(c.{name}, ?)" for name in NUMBER_COLUMNS for _ in group)
            condition = (
                f"(EXISTS (SELECT 1 FROM _calls AS c WHERE c.id = s.rowid AND ({has_number})) OR {condition})"
            )
            values = [*(word for _ in NUMBER_COLUMNS for word in group), *values]
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
        f"SELECT c.id, {TRANSCRIPTS} AS transcripts, {NOTES} AS notes FROM _calls AS c"
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
