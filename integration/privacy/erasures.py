"""Numbers that were erased: a keyed hash of each, so that what comes again is known, and none can be read.

The key stands in a file of its own beside the databases. `erased_records` names what told of the number, by
ids alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from integration.core import clock
from integration.mirror.privacy.erasure_gate import Erased
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS erasures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    digests TEXT NOT NULL UNIQUE,
    lengths TEXT NOT NULL,
    done_at TEXT,
    removed TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS erased_records (
    name TEXT NOT NULL, key ANY NOT NULL, PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Erasure:
    """`at` when it was asked for, `done_at` when nothing was left (None: broken off); UTC text. `removed`
    counts by kind."""

    id: int
    at: str
    who: str
    done_at: str | None
    removed: dict[str, int]


def begin(tx: Transaction, at: str, who: str, digests: Iterable[bytes], lengths: Iterable[int]) -> int:
    """Note that a number is to be erased, with all that is dated up to `at`. Returns the erasure's id; that
    of the same number is the same."""
    known = json.dumps(sorted(digest.hex() for digest in digests))
    tx.execute(
        "INSERT INTO erasures (at, who, digests, lengths) VALUES (?, ?, ?, ?) ON CONFLICT (digests)"
        " DO UPDATE SET at = excluded.at, who = excluded.who, done_at = NULL",
        (at, who, known, json.dumps(sorted(lengths))),
    )
    return int(tx.execute("SELECT id FROM erasures WHERE digests = ?", (known,)).fetchone()[0])


def remember(tx: Transaction, records: Iterable[tuple[str, Any]]) -> None:
    """These told of an erased number: (table, key)."""
    tx.executemany("INSERT OR IGNORE INTO erased_records VALUES (?, ?)", list(records))


def finish(tx: Transaction, number: int, removed: Mapping[str, int]) -> None:
    tx.execute(
        "UPDATE erasures SET done_at = ?, removed = ? WHERE id = ?",
        (clock.stamp(), json.dumps(dict(removed)), number),
    )


def all_of(connection: sqlite3.Connection) -> list[Erasure]:
    """The newest first."""
    rows = connection.execute("SELECT id, at, who, done_at, removed FROM erasures ORDER BY id DESC")
    return [Erasure(row[0], row[1], row[2], row[3], json.loads(row[4] or "{}")) for row in rows]


def unfinished(connection: sqlite3.Connection) -> dict[str, set[Any]]:
    """Records that an erasure found which was broken off: keys by table. Those of the others are among them:
    they are stripped already. None where all were finished."""
    if not has_tables(connection) or all(one.done_at for one in all_of(connection)):
        return {}
    found: dict[str, set[Any]] = {}
    for name, key in connection.execute("SELECT name, key FROM erased_records"):
        found.setdefault(name, set()).add(key)
    return found


def has_tables(connection: sqlite3.Connection) -> bool:
    """False for a house.db from before there were erasures, which a command looks at."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'erasures'").fetchone() is not None


def load(connection: sqlite3.Connection, erased: Erased) -> None:
    """Let `erased` know of all of them."""
    erased.add("", (), (), ((row[0], row[1]) for row in connection.execute("SELECT * FROM erased_records")))
    for at, digests, lengths in connection.execute("SELECT at, digests, lengths FROM erasures"):
        erased.add(at, map(bytes.fromhex, json.loads(digests)), json.loads(lengths), ())
