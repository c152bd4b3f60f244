"""Finding calls by any fragment of a number or a name.

`_calls_search` is an FTS5 trigram index over the numbers of a call (digits only, as received and E.164)
and a folded copy of its names. Triggers note in `_calls_search_due` which calls changed, so that no writer
can forget one; `index` takes them over. The triggers can't write the index themselves: under
`trusted_schema=OFF` SQLite 3.40 refuses FTS5 (and functions of ours) in triggers, and a first load is
faster with the index after the rows (design.md §4).
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from dataclasses import dataclass

from integration.database import Database, Transaction

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

TABLES = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS _calls_search USING fts5(text, tokenize = 'trigram');
-- serves index(): calls whose text changed since
CREATE TABLE IF NOT EXISTS _calls_search_due (id INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER IF NOT EXISTS _calls_search_insert AFTER INSERT ON _calls BEGIN
  INSERT OR IGNORE INTO _calls_search_due VALUES (NEW.id);
END;
CREATE TRIGGER IF NOT EXISTS _calls_search_update AFTER UPDATE ON _calls WHEN ({_OLD}) IS NOT ({_NEW}) BEGIN
  INSERT OR IGNORE INTO _calls_search_due VALUES (OLD.id);
  INSERT OR IGNORE INTO _calls_search_due VALUES (NEW.id);
END;
CREATE TRIGGER IF NOT EXISTS _calls_search_delete AFTER DELETE ON _calls BEGIN
  INSERT OR IGNORE INTO _calls_search_due VALUES (OLD.id);
END;
"""

CHUNK = 10_000
"""Calls indexed by one transaction, so that webhooks never wait long behind a first load."""


def index(tx: Transaction, limit: int = CHUNK) -> int:
    """Bring up to `limit` changed calls into the index; returns how many it did (0: nothing is due)."""
    due = tx.execute(
        "SELECT d.id AS due, c.* FROM _calls_search_due d LEFT JOIN _calls c ON c.id = d.id LIMIT ?", (limit,)
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
    """Numbers without plus, then folded names; a line each, so that nothing matches across two of them."""
    numbers = (str(row[name] or "").replace("+", "") for name in _NUMBERS)
    names = (fold(str(row[name] or "")) for name in _NAMES)
    return "\n".join((*numbers, *names)).replace("\0", " ")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search box asks for: every group must be found, by any of its alternatives (folded)."""

    groups: tuple[tuple[str, ...], ...]

    @property
    def indexed(self) -> tuple[tuple[str, ...], ...]:
        """Groups long enough for the trigram index in each alternative."""
        return tuple(group for group in self.groups if all(len(word) >= 3 for word in group))

    @property
    def short(self) -> tuple[tuple[str, ...], ...]:
        """Groups with an alternative under three characters: compared row by row, from a word's start."""
        return tuple(group for group in self.groups if not all(len(word) >= 3 for word in group))

    @property
    def match(self) -> str:
        """The FTS5 expression of `indexed`."""
        quoted = (
            "(" + " OR ".join('"' + word.replace('"', '""') + '"' for word in group) + ")"
            for group in self.indexed
        )
        return " AND ".join(quoted)


def wanted(query: str, calling_code: str | None) -> Wanted | None:
    """Read a search box. None for nothing to search.

    A number may be spelled with spaces, brackets, dots, slashes, a plus, `00`, or the national way;
    `calling_code` ('44') is that of the display country, for the national way.
    """
    query = query.replace("\0", " ").strip()[:200]
    if not query:
        return None
    if _NUMERIC.match(query) and any(c.isdigit() for c in query):
        return Wanted((_spellings(query, calling_code),))
    words = [fold(word.strip('"') or word) for word in query.split()]
    groups = [
        _spellings(word, calling_code) if _NUMERIC.match(word) and len(word) > 3 else (word,)
        for word in words
    ]
    return Wanted(tuple(groups)) if groups else None


def _spellings(number: str, calling_code: str | None) -> tuple[str, ...]:
    international = number.lstrip().startswith("+")
    digits = "".join(c for c in number.replace("(0)", "") if c.isdigit())
    spellings = [digits]
    if international:
        return (digits,)
    if digits.startswith("00") and len(digits) > 4:
        spellings.append(digits[2:])
    elif digits.startswith("0") and len(digits) > 3:
        # Without a country the trunk zero can only be dropped; the rest is a fragment like any other.
        spellings.append((calling_code or "") + digits[1:])
    return tuple(dict.fromkeys(spelling for spelling in spellings if spelling))
