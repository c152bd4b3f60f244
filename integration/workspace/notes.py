"""Notes and local labels of calls.

They refer to leg ids, which a rebuilt mirror has as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from integration.core import clock
from integration.core.ids import id_list
from integration.sqlite.listing import escape_like
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY,
  leg_id INTEGER NOT NULL,
  at TEXT NOT NULL,
  person TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;
-- serves list_notes()
CREATE INDEX IF NOT EXISTS notes_by_leg ON notes (leg_id);
CREATE TABLE IF NOT EXISTS labels (
  leg_id INTEGER NOT NULL,
  label TEXT NOT NULL,
  at TEXT NOT NULL,
  person TEXT NOT NULL,
  write_result TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (leg_id, label)
) STRICT, WITHOUT ROWID;
-- serves the history's filter by label
CREATE INDEX IF NOT EXISTS labels_by_label ON labels (label, leg_id);
"""

_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"
MAX_NOTE_LENGTH = 2000
"""Largest number of characters of a note."""


def add_note(tx: Transaction, leg_id: int, person: str, text: str) -> int:
    """Add a note. Returns its id.

    A note with the text of this person's last note of the leg is not added, because a page sends a note
    twice if it received no response. Raises ValueError for an empty or too long text.
    """
    text = text.strip()
    if not text:
        raise ValueError("The note is empty. Enter a text.")
    if len(text) > MAX_NOTE_LENGTH:
        raise ValueError(f"The note has {len(text):,} characters. At most {MAX_NOTE_LENGTH:,} are possible.")
    last_note = tx.execute(
        "SELECT id, text FROM notes WHERE leg_id = ? AND person = ? ORDER BY id DESC", (leg_id, person)
    ).fetchone()
    if last_note is not None and last_note[1] == text:
        return int(last_note[0])
    cursor = tx.execute(
        "INSERT INTO notes (leg_id, at, person, text) VALUES (?, ?, ?, ?)",
        (leg_id, clock.utc_text(), person, text),
    )
    return int(cursor.lastrowid or 0)


def remove_note(tx: Transaction, leg_ids: Sequence[int], note_id: int, person: str) -> bool:
    """Delete a note by `person` on one of `leg_ids`.

    Returns False if it does not exist.
    """
    sql = f"DELETE FROM notes WHERE leg_id {_IN_JSON_LIST} AND id = ? AND person = ?"
    return tx.execute(sql, (id_list(leg_ids), note_id, person)).rowcount > 0


def add_label(tx: Transaction, leg_id: int, person: str, label: str) -> None:
    """Add a label to a call, unless it has it.

    Raises ValueError for an empty or too long label.
    """
    tx.execute(
        "INSERT OR IGNORE INTO labels (leg_id, label, at, person) VALUES (?, ?, ?, ?)",
        (leg_id, normalize_label(label), clock.utc_text(), person),
    )


def normalize_label(label: str) -> str:
    """Return a label with single spaces.

    Raises ValueError for an empty or too long label.
    """
    label = " ".join(label.split())
    if not 0 < len(label) <= 40:
        raise ValueError(f"The label has {len(label)} characters. Enter 1 to 40.")
    return label


def remove_label(tx: Transaction, leg_ids: Sequence[int], label: str) -> bool:
    sql = f"DELETE FROM labels WHERE leg_id {_IN_JSON_LIST} AND label = ?"
    return tx.execute(sql, (id_list(leg_ids), label)).rowcount > 0


def list_notes(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[sqlite3.Row]:
    """Return the notes of these legs, oldest first.

    Columns: id, leg_id, at, person, text.
    """
    sql = f"SELECT * FROM notes WHERE leg_id {_IN_JSON_LIST} ORDER BY at, id"
    return connection.execute(sql, (id_list(leg_ids),)).fetchall()


def set_write_result(tx: Transaction, leg_ids: Sequence[int], label: str, write_result: str) -> None:
    """Store the result of sending a label to the platform."""
    sql = f"UPDATE labels SET write_result = ? WHERE leg_id {_IN_JSON_LIST} AND label = ?"
    tx.execute(sql, (write_result, id_list(leg_ids), normalize_label(label)))


def list_labels(connection: sqlite3.Connection, leg_ids: Sequence[int]) -> list[sqlite3.Row]:
    """Return the labels of these legs in alphabetical order.

    Columns: leg_id, label, write_result.
    """
    sql = (
        f"SELECT leg_id, label, write_result FROM labels WHERE leg_id {_IN_JSON_LIST} ORDER BY label, leg_id"
    )
    return connection.execute(sql, (id_list(leg_ids),)).fetchall()


def list_labels_since(connection: sqlite3.Connection, since: str) -> list[tuple[int, str]]:
    """Return (leg id, label) of the labels added since `since` (UTC text)."""
    rows = connection.execute("SELECT leg_id, label FROM labels WHERE at >= ?", (since,))
    return [(row[0], row[1]) for row in rows]


def load_all_labels(connection: sqlite3.Connection) -> dict[int, list[str]]:
    """Return the labels of all legs by leg id."""
    labels: dict[int, list[str]] = {}
    for row in connection.execute("SELECT leg_id, label FROM labels ORDER BY leg_id, label"):
        labels.setdefault(row["leg_id"], []).append(row["label"])
    return labels


def list_label_usage(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the usage of every label, in alphabetical order.

    Columns: label, calls, last_at (UTC text).
    """
    return connection.execute(
        "SELECT label, count(*) AS calls, max(at) AS last_at FROM labels GROUP BY label"
        " ORDER BY label COLLATE NOCASE"
    ).fetchall()


def rename_label(tx: Transaction, label: str, new_label: str) -> None:
    """Rename a label on all calls.

    An existing label with the new name is merged.

    Raises ValueError for an empty or too long name.
    """
    new_label = normalize_label(new_label)
    if new_label == label:
        return
    tx.execute(
        "INSERT OR IGNORE INTO labels (leg_id, label, at, person)"
        " SELECT leg_id, ?, at, person FROM labels WHERE label = ?",
        (new_label, label),
    )
    delete_label(tx, label)


def delete_label(tx: Transaction, label: str) -> None:
    """Remove a label from all calls."""
    tx.execute("DELETE FROM labels WHERE label = ?", (label,))


def add_write_result_column(schema: Schema) -> None:
    """Migration: add the column `write_result` to the labels."""
    table = schema.table("labels")
    if table.exists() and "write_result" not in table.columns_dict:
        table.add_column("write_result", str, not_null_default="")


MAX_LEGS = 5000
"""Largest number of matching notes and labels of a search, newest first."""


def find_legs_with_label(connection: sqlite3.Connection, label: str) -> list[int]:
    """Return the ids of the legs with a label."""
    return [row[0] for row in connection.execute("SELECT leg_id FROM labels WHERE label = ?", (label,))]


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[sqlite3.Row]:
    """Return notes that contain every word of `query`, newest first.

    Columns: leg_id, text, person, at (UTC text). Only the first 10 words count.
    """
    condition, patterns = _match_words(query)
    return connection.execute(
        f"SELECT leg_id, text, person, at FROM notes WHERE {condition} ORDER BY at DESC LIMIT ?",
        (*patterns, limit),
    ).fetchall()


def search_legs(connection: sqlite3.Connection, query: str) -> list[int]:
    """Return the ids of legs with a matching note or label.

    A note or label matches if it contains every word of `query`; only the first 10 words count.
    """
    condition, patterns = _match_words(query)
    rows = connection.execute(
        "SELECT leg_id FROM (SELECT leg_id, text, at FROM notes"
        f" UNION ALL SELECT leg_id, label, at FROM labels) WHERE {condition} ORDER BY at DESC LIMIT ?",
        (*patterns, MAX_LEGS),
    )
    return sorted({row[0] for row in rows})


def _match_words(query: str) -> tuple[str, list[str]]:
    """Return the condition for texts with every word of `query`, and its values. No words match no text."""
    patterns = [f"%{escape_like(word)}%" for word in query.split()[:10]]
    return " AND ".join("text LIKE ? ESCAPE '\\'" for _ in patterns) or "0", patterns
