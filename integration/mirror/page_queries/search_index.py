"""Finding calls by any fragment of a number, a name, or what was said.

`_calls_search` is an FTS5 trigram index over the numbers of a call (digits only, as received and E.164)
and a folded copy of its names and of the transcripts of its recordings and voice messages. Triggers note
in `_calls_search_due` which calls changed, so that no writer can forget one; `index` takes them over. The
triggers can't write the index themselves: under
`trusted_schema=OFF` SQLite 3.40 refuses FTS5 (and functions of ours) in triggers, and a first load is
faster with the index after the rows (design.md §4).
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from dataclasses import dataclass

from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

_NUMERIC = re.compile(r"^[\d\s+().\-/]+$")


def fold(text: str) -> str:
    """`text` as the index holds it: decomposed (NFKD), without accents, casefolded; 'Müller' → 'muller'."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).casefold()


_NUMBERS = ("party", "party_e164", "our_number")
_NAMES = ("party_name", "user_name", "extension", "group_name")
_INDEXED = ("id", *_NUMBERS, *_NAMES)
_OLD = ", ".join(f"OLD.{name}" for name in _INDEXED)
_NEW = ", ".join(f"NEW.{name}" for name in _INDEXED)


def _due(row: str) -> str:
    """Without OR IGNORE: a clause of the statement that fires a trigger takes the place of those inside."""
    return (
        f"INSERT INTO _calls_search_due SELECT {row}.id"
        f" WHERE NOT EXISTS (SELECT 1 FROM _calls_search_due WHERE id = {row}.id);"
    )


def _told_by(table: str, legs: tuple[str, ...], texts: tuple[str, ...]) -> str:
    """Triggers: what was said in a call arrives after the call."""
    due = (
        "INSERT INTO _calls_search_due SELECT DISTINCT call_id FROM _legs WHERE leg_id IN"
        f" ({', '.join(f'NEW.{leg}' for leg in legs)}) AND call_id NOT IN (SELECT id FROM _calls_search_due);"
    )
    said = " OR ".join(f"NEW.{text} IS NOT NULL" for text in texts)
    other = " OR ".join(f"NEW.{text} IS NOT OLD.{text}" for text in texts)
    return (
        f"CREATE TRIGGER IF NOT EXISTS _{table}_search_insert AFTER INSERT ON {table}"
        f" WHEN {said} BEGIN {due} END;\n"
        f"CREATE TRIGGER IF NOT EXISTS _{table}_search_update AFTER UPDATE OF {', '.join(texts)} ON {table}"
        f" WHEN {other} BEGIN {due} END;"
    )


TABLES = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS _calls_search USING fts5(text, tokenize = 'trigram');
-- serves index(): calls whose text changed since
CREATE TABLE IF NOT EXISTS _calls_search_due (id INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER IF NOT EXISTS _calls_search_insert AFTER INSERT ON _calls BEGIN {_due("NEW")} END;
CREATE TRIGGER IF NOT EXISTS _calls_search_update AFTER UPDATE ON _calls WHEN ({_OLD}) IS NOT ({_NEW}) BEGIN
  {_due("OLD")}
  {_due("NEW")}
END;
CREATE TRIGGER IF NOT EXISTS _calls_search_delete AFTER DELETE ON _calls BEGIN {_due("OLD")} END;
{_told_by("monitors", ("live_id",), ("transcript", "summary"))}
{_told_by("voicemessages", ("live_id", "parent_live_id"), ("transcript",))}
"""

_SAID = """CASE WHEN c.recordings > 0 OR c.voicemails > 0 THEN (
  SELECT group_concat(said, char(10)) FROM (
    SELECT coalesce(m.transcript, '') || ' ' || coalesce(m.summary, '') AS said
      FROM _legs l JOIN monitors m ON m.live_id = +l.leg_id WHERE l.call_id = c.id
    UNION SELECT v.transcript FROM _legs l JOIN voicemessages v ON v.live_id = +l.leg_id
     WHERE l.call_id = c.id
    UNION SELECT v.transcript FROM _legs l JOIN voicemessages v ON v.parent_live_id = +l.leg_id
     WHERE l.call_id = c.id)) END"""
"""What was said in a call, for the few that have it. The plus takes the affinity from a leg's id, for which
SQLite would have to convert every `live_id` (ANY) before it compares, and read them all for each call."""

MARK = "\x1f"

CHUNK = 10_000
"""Calls indexed by one transaction, so that webhooks never wait long behind a first load."""


def index(tx: Transaction, limit: int = CHUNK) -> int:
    """Bring up to `limit` changed calls into the index; returns how many it did (0: nothing is due)."""
    due = tx.execute(
        f"SELECT d.id AS due, c.*, {_SAID} AS said"
        " FROM _calls_search_due d LEFT JOIN _calls c ON c.id = d.id LIMIT ?",
        (limit,),
    ).fetchall()
    if not due:
        return 0
    gone = [(row["due"],) for row in due]
    tx.executemany("DELETE FROM _calls_search WHERE rowid = ?", gone)
    tx.executemany(
        "INSERT INTO _calls_search (rowid, text) VALUES (?, ?)",
        [(row["id"], _text(row)) for row in due if row["id"] is not None],
    )
    tx.executemany("DELETE FROM _calls_search_due WHERE id = ?", gone)
    return len(due)


def catch_up(mirror: Database) -> None:
    """Index whatever is due, in short transactions. Does nothing (and writes nothing) if nothing is."""
    while True:
        with mirror.read() as connection:
            if connection.execute("SELECT 1 FROM _calls_search_due LIMIT 1").fetchone() is None:
                return
        mirror.write(index)


def _text(row: sqlite3.Row) -> str:
    """Numbers without plus, then folded names; a line each, so that nothing matches across two of them.

    Two marks stand before each word: with them a word's first one or two letters are a trigram too, and
    what is shorter than a trigram is found at the start of words by the same index.
    """
    parts = [str(row[name] or "").replace("+", "") for name in _NUMBERS]
    parts += [fold(str(row[name] or "")) for name in _NAMES]
    lines = [" ".join(f"{MARK}{MARK}{word}" for word in part.split()) for part in parts]
    # Without marks: nobody looks for a single letter in a conversation, and they would be most of its index.
    return "\n".join([*lines, fold(row["said"])] if row["said"] else lines)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search box asks for: every group must be found, by any of its alternatives (folded, and padded
    with marks to the length of a trigram)."""

    groups: tuple[tuple[str, ...], ...]

    @property
    def match(self) -> str:
        """The FTS5 expression."""
        return " AND ".join(
            "(" + " OR ".join('"' + word.replace('"', '""') + '"' for word in group) + ")"
            for group in self.groups
        )


def common(connection: sqlite3.Connection, wanted: Wanted, many: int) -> bool:
    """Whether more calls than `many` match, so that reading in order and comparing reaches a page sooner."""
    found = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM _calls_search WHERE _calls_search MATCH ? LIMIT ?)",
        (wanted.match, many + 1),
    ).fetchone()[0]
    return bool(found > many)


def wanted(query: str, calling_code: str | None) -> Wanted | None:
    """Read a search box. None for nothing to search.

    A number may be spelled with spaces, brackets, dots, slashes, a plus, `00`, or the national way;
    `calling_code` ('44') is that of the display country, for the national way.
    """
    query = query.replace("\0", " ").replace(MARK, " ").strip()[:200]
    if not query:
        return None
    if _NUMERIC.match(query) and any(c.isdigit() for c in query):
        return Wanted((_padded(_spellings(query, calling_code)),))
    groups = []
    for word in query.split():
        plain = fold(word.strip('"') or word)
        numeric = len(word) > 3 and _NUMERIC.match(word)
        groups.append(_padded(_spellings(word, calling_code) if numeric else (plain,)))
    return Wanted(tuple(groups))


def _padded(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(MARK * (3 - len(word)) + word for word in words)


def _spellings(number: str, calling_code: str | None) -> tuple[str, ...]:
    international = number.lstrip().startswith("+")
    digits = "".join(c for c in number.replace("(0)", "") if c.isdigit())
    spellings = [digits]
    if international:
        return (digits,)
    if digits.startswith("00") and len(digits) > 4:
        spellings.append(digits[2:])
    elif digits.startswith("0") and len(digits) > (1 if calling_code else 3):
        # Without a country the trunk zero can only be dropped; the rest is a fragment like any other.
        spellings.append((calling_code or "") + digits[1:])
    return tuple(dict.fromkeys(spelling for spelling in spellings if spelling))
