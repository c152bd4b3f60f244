"""Changes of house.db that programs follow: labels, notes, and openings and closings of call-backs.

Triggers number them in the transaction of the change. `announce` announces them in mirror.db, with the last
announced number in the same transaction. So a crash between both files repeats or loses none.
"""

from __future__ import annotations

import sqlite3

from integration.core import clock
from integration.core.ids import id_list
from integration.mirror.calls.writing import renew_calls
from integration.mirror.page_queries.history import build_call_id_sql
from integration.mirror.records import change_log
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

BATCH_SIZE = 500
"""Changes that one transaction announces at most."""

KEPT = 10_000
"""Announced changes that are kept, because a power failure can lose the last commits of mirror.db."""

_LAST_NUMBER = "number of house.db"

TABLES = """
-- `key`: the leg of labels and notes, otherwise the item. `at`: when the item was opened or closed.
CREATE TABLE IF NOT EXISTS app_changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key INTEGER NOT NULL, at TEXT
) STRICT;
CREATE TRIGGER IF NOT EXISTS label_added AFTER INSERT ON labels
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('labels', NEW.leg_id); END;
CREATE TRIGGER IF NOT EXISTS label_removed AFTER DELETE ON labels
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('labels', OLD.leg_id); END;
CREATE TRIGGER IF NOT EXISTS label_changed AFTER UPDATE OF label ON labels WHEN OLD.label <> NEW.label
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('labels', NEW.leg_id); END;
CREATE TRIGGER IF NOT EXISTS note_added AFTER INSERT ON notes
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('notes', NEW.leg_id); END;
CREATE TRIGGER IF NOT EXISTS note_removed AFTER DELETE ON notes
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('notes', OLD.leg_id); END;
CREATE TRIGGER IF NOT EXISTS note_changed AFTER UPDATE OF text ON notes WHEN OLD.text <> NEW.text
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('notes', NEW.leg_id); END;
CREATE TRIGGER IF NOT EXISTS callback_opened AFTER INSERT ON callbacks
    BEGIN INSERT INTO app_changes (kind, key, at) VALUES ('callback.opened', NEW.id, NEW.opened_at); END;
CREATE TRIGGER IF NOT EXISTS callback_inserted_closed AFTER INSERT ON callbacks WHEN NEW.state = 'closed'
    BEGIN INSERT INTO app_changes (kind, key, at) VALUES ('callback.closed', NEW.id, NEW.closed_at); END;
CREATE TRIGGER IF NOT EXISTS callback_changed AFTER UPDATE OF state ON callbacks WHEN OLD.state <> NEW.state
    BEGIN INSERT INTO app_changes (kind, key, at) VALUES (
        iif(NEW.state = 'open', 'callback.opened', 'callback.closed'), NEW.id, NEW.closed_at); END;
CREATE TRIGGER IF NOT EXISTS callback_removed AFTER DELETE ON callbacks WHEN OLD.state = 'open'
    BEGIN INSERT INTO app_changes (kind, key) VALUES ('callback.closed', OLD.id); END;
"""
"""SQL script. The tables of the triggers must exist."""


def get_newest(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, 0 without one."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'app_changes'").fetchone()
    return 0 if row is None else int(row[0])


def follow_file(app_db: Database, mirror_db: Database) -> None:
    """Skip what was changed before a new mirror.db. An older copy of house.db continues at its own number."""
    with app_db.read() as connection:
        newest = get_newest(connection)

    def limit(tx: Transaction) -> None:
        announced = _get_announced(tx.connection)
        if announced is None or announced > newest:
            _set_announced(tx, newest)

    mirror_db.write(limit)


def announce(app_db: Database, mirror_db: Database) -> None:
    """Announce the changes that are not announced yet.

    Calls with changed labels or notes get a new number. An opening or closing that happened more than 12
    hours ago, such as those of an initial sync, is not announced.
    """
    while True:
        with mirror_db.read() as mirror, app_db.read() as app:
            announced = _get_announced(mirror)
            rows = app.execute(
                "SELECT number, kind, key, at FROM app_changes WHERE number > ? ORDER BY number LIMIT ?",
                (announced or 0, BATCH_SIZE),
            ).fetchall()
        if not rows:
            return
        mirror_db.write(lambda tx, rows=rows: _announce(tx, rows))  # type: ignore[misc]
        last = rows[-1]["number"] - KEPT
        app_db.write(lambda tx, last=last: tx.execute("DELETE FROM app_changes WHERE number <= ?", (last,)))  # type: ignore[misc]


def _announce(tx: Transaction, rows: list[sqlite3.Row]) -> None:
    for kind in ("labels", "notes"):
        leg_ids = id_list({row["key"] for row in rows if row["kind"] == kind})
        calls = tx.execute(
            f"SELECT DISTINCT coalesce({build_call_id_sql('value')}, value) FROM json_each(?)",
            (leg_ids,),
        )
        renew_calls(tx, [row[0] for row in calls], kind)
    limit = change_log.find_first_event_time(tx.connection, clock.unix())
    for row in rows:
        if row["kind"].startswith("callback") and (row["at"] or "~") >= limit:
            tx.announce("callback", row["key"], {"event": row["kind"], "number": row["number"]})
    _set_announced(tx, rows[-1]["number"])


def _get_announced(mirror: sqlite3.Connection) -> int | None:
    row = mirror.execute("SELECT value FROM _meta WHERE key = ?", (_LAST_NUMBER,)).fetchone()
    return None if row is None else int(row[0])


def _set_announced(tx: Transaction, number: int) -> None:
    tx.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (_LAST_NUMBER, str(number)))
