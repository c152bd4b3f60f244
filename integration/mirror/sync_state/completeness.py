"""The ledger of completeness: per collection and day, how many records the platform counts and how many are
here, and when the two last agreed.

`day` is a UTC day 'YYYY-MM-DD' by the collection's date property, or WHOLE for all of it, dated or not. A
proof that failed to come about changes nothing: `proved_at` moves only when both counts agree.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror.sync_state.collection_state import LIVE, count_rows
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _coverage (
    collection TEXT NOT NULL,
    day TEXT NOT NULL,
    total INTEGER NOT NULL,
    ours INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    proved_at TEXT,
    cause TEXT,
    repair TEXT,
    PRIMARY KEY (collection, day)
) STRICT, WITHOUT ROWID;
-- serves the ledger: days on which the two differ
CREATE INDEX IF NOT EXISTS _coverage_gaps ON _coverage (collection, day) WHERE total <> ours;
"""

WHOLE = "*"


@dataclass(frozen=True, slots=True)
class Day:
    """One day of one collection. `total` on the platform and `ours` here when last asked; `proved_at` when
    they last agreed (UTC text, None: never); `cause` why they differ, `repair` what was done about it."""

    collection: str
    day: str
    total: int
    ours: int
    asked_at: str
    proved_at: str | None
    cause: str | None
    repair: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """How completely one collection is here.

    `complete_at`: when a walk last read all of it (None: never); `total` and `rows`: the platform's count
    then and ours now; `off`: since when the platform refuses it; `held`: deletions that wait for a person;
    `days`: UTC days that were asked for, `first` the oldest of them; `proved`: those that agree;
    `proved_at`: when the most recent proof was; `gaps`: those that don't agree, newest first.
    """

    collection: str
    title: str
    rows: int
    total: int | None
    complete_at: str | None
    off: str | None = None
    held: int | None = None
    days: int = 0
    proved: int = 0
    first: str | None = None
    proved_at: str | None = None
    gaps: list[Day] = field(default_factory=list)

    @property
    def live(self) -> bool:
        """Whether it lists what goes on now."""
        return self.collection in LIVE

    @property
    def whole(self) -> bool:
        """Whether nothing is known to be missing, and all of it was read once."""
        return self.complete_at is not None and self.off is None and not self.gaps


def ledger(connection: sqlite3.Connection) -> list[Line]:
    """Every collection that is mirrored, in the catalogue's order."""
    states = {row["collection"]: row for row in connection.execute("SELECT * FROM _walks")}
    days = {
        row["collection"]: row
        for row in connection.execute(
            "SELECT collection, count(*) AS days, sum(total = ours) AS proved, min(day) AS first, "
            "max(proved_at) AS proved_at FROM _coverage WHERE day <> ? GROUP BY collection",
            (WHOLE,),
        )
    }
    lines = []
    for of in (row for row in RESOURCES if row.listed and row.collection in states):
        state, counted = states[of.collection], days.get(of.collection)
        lines.append(
            Line(
                of.collection,
                of.title,
                count_rows(connection, of),
                state["total"],
                state["complete_at"],
                state["off_since"],
                state["held"],
                counted["days"] if counted else 0,
                counted["proved"] if counted else 0,
                counted["first"] if counted else None,
                counted["proved_at"] if counted else None,
                gaps(connection, of.collection),
            )
        )
    return lines


def gaps(connection: sqlite3.Connection, collection: str) -> list[Day]:
    """Days on which platform and mirror differ, newest first."""
    rows = connection.execute(
        "SELECT * FROM _coverage WHERE collection = ? AND total <> ours ORDER BY day DESC", (collection,)
    )
    return [Day(*row) for row in rows]


def days(connection: sqlite3.Connection, collection: str) -> list[Day]:
    """All that is known of a collection, newest day first."""
    rows = connection.execute("SELECT * FROM _coverage WHERE collection = ? ORDER BY day DESC", (collection,))
    return [Day(*row) for row in rows]


def asked(connection: sqlite3.Connection, collection: str) -> dict[str, str]:
    """Day → when it was last asked for."""
    rows = connection.execute("SELECT day, asked_at FROM _coverage WHERE collection = ?", (collection,))
    return {row[0]: row[1] for row in rows}


def between(connection: sqlite3.Connection, of: Resource, lo: str, hi: str) -> int:
    """Present rows dated in `[lo, hi)` (UTC text), but those that a person keeps against the platform."""
    row = connection.execute(
        f'SELECT count(*) FROM "{of.table}" AS t WHERE "{of.date}" >= ? AND "{of.date}" < ? '
        "AND _missing_since IS NULL AND NOT EXISTS (SELECT 1 FROM _deletions AS d WHERE d.collection = ? "
        f"AND d.key = t.\"{of.key}\" AND d.state = 'kept')",
        (lo, hi, of.collection),
    ).fetchone()
    return int(row[0])


def kept(connection: sqlite3.Connection, of: Resource) -> int:
    """Rows that a person keeps against the platform."""
    row = connection.execute(
        f'SELECT count(*) FROM _deletions AS d JOIN "{of.table}" AS t ON t."{of.key}" = d.key '
        "WHERE d.collection = ? AND d.state = 'kept' AND t._missing_since IS NULL",
        (of.collection,),
    ).fetchone()
    return int(row[0])


def oldest(connection: sqlite3.Connection, of: Resource, since: str | None = None) -> str | None:
    """The date of the oldest present row that has one, from `since` (UTC text) on; what is dated before 1990
    is a mistake."""
    row = connection.execute(
        f'SELECT min("{of.date}") FROM "{of.table}" WHERE "{of.date}" >= ? AND _missing_since IS NULL',
        (since or "1990",),
    ).fetchone()
    return None if row[0] is None else str(row[0])


def note(
    tx: Transaction,
    collection: str,
    day: str,
    total: int,
    ours: int,
    cause: str | None = None,
    repair: str | None = None,
) -> None:
    """What asking for a day told. A repair is remembered until the next difference."""
    now = clock.stamp()
    tx.execute(
        "INSERT INTO _coverage VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (collection, day) DO UPDATE SET "
        "total = excluded.total, ours = excluded.ours, asked_at = excluded.asked_at, "
        "proved_at = coalesce(excluded.proved_at, proved_at), cause = excluded.cause, "
        "repair = coalesce(excluded.repair, CASE WHEN excluded.total = excluded.ours THEN repair END)",
        (collection, day, total, ours, now, now if total == ours else None, cause, repair),
    )
