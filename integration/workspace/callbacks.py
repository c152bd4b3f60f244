"""Call-back list: one open item per missed caller.

An item is closed when either side reaches the other. `callback_calls` has the missed calls of each caller and
the calls that reached them. `callback_following.update_from_mirror` updates it from mirror.db. Items are
computed from these calls and the actions of users. They therefore do not depend on the order in which calls
and actions arrive, and they survive a rebuild of the mirror.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.mirror.page_queries import history
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema, execute_script
from integration.sqlite.transaction import Transaction
from integration.workspace.callback_items import CallbackItem, recompute_items

if TYPE_CHECKING:
    from integration.access.visibility import Visibility

ItemAction = Literal["close", "reopen", "assign", "note"]
MAX_NOTE_LENGTH = 500
"""Characters of the note of an item."""

TABLES = """
CREATE TABLE IF NOT EXISTS callbacks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, party TEXT NOT NULL, party_name TEXT NOT NULL,
    opened_at TEXT NOT NULL, last_at TEXT NOT NULL, attempts INTEGER NOT NULL, last_call_id INTEGER NOT NULL,
    our_number TEXT, reason TEXT NOT NULL, state TEXT NOT NULL, closed_at TEXT, closed_by TEXT,
    closed_call_id INTEGER, owner TEXT, note TEXT
) STRICT;
-- serves the items of a caller
CREATE INDEX IF NOT EXISTS callbacks_party ON callbacks (party);
-- serves the work list
CREATE INDEX IF NOT EXISTS callbacks_state ON callbacks (state, last_at);

-- missed calls, and calls that reached the same caller; `item_id` is the item of a missed call
CREATE TABLE IF NOT EXISTS callback_calls (
    call_id INTEGER PRIMARY KEY, party TEXT NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL,
    our_number TEXT, party_name TEXT NOT NULL, item_id INTEGER
) STRICT;
-- serves the calls of a caller
CREATE INDEX IF NOT EXISTS callback_calls_party ON callback_calls (party);

-- actions of users; callback_deed_calls has the calls that the item had at that time
CREATE TABLE IF NOT EXISTS callback_deeds (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, deed TEXT NOT NULL, text TEXT
) STRICT;
-- serves the notifications of a user
CREATE INDEX IF NOT EXISTS callback_deeds_assigned ON callback_deeds (text, at) WHERE deed = 'assign';
CREATE TABLE IF NOT EXISTS callback_deed_calls (
    call_id INTEGER NOT NULL, deed_id INTEGER NOT NULL, PRIMARY KEY (call_id, deed_id)
) STRICT, WITHOUT ROWID;

-- one reminder of each user for a caller
CREATE TABLE IF NOT EXISTS callback_reminders (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    party TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (person_id, party)
) STRICT, WITHOUT ROWID;

-- Missed calls before `since` create no items.
CREATE TABLE IF NOT EXISTS callback_start (
    one INTEGER PRIMARY KEY CHECK (one = 0), since TEXT NOT NULL
) STRICT;
"""


def drop_position(schema: Schema) -> None:
    """Migration: keep the start of the list, and drop its position in the change log of mirror.db."""
    if "callback_position" in schema.table_names():
        execute_script(schema, TABLES)
        schema.execute("INSERT INTO callback_start SELECT one, since FROM callback_position")
        schema.execute("DROP TABLE callback_position")


# --- queries of pages ----------------------------------------------------------------------------------


def list_items(
    connection: sqlite3.Connection,
    state: str = "open",
    period: tuple[str, str] | None = None,
    limit: int | None = None,
    before: tuple[str, int] | None = None,
) -> list[CallbackItem]:
    """Return the items in `state` 'open' or 'closed', latest attempt first.

    `period` selects the items with an attempt between two times (UTC text), both included; `before` those
    after the item with this last attempt and id.
    """
    begin, end = period or ("", "~")
    rows = connection.execute(
        "SELECT * FROM callbacks AS item WHERE state = ? AND last_at >= ? AND opened_at <= ?"
        " AND (? OR EXISTS (SELECT 1 FROM callback_calls AS call WHERE call.party = item.party"
        " AND call.item_id = item.id AND call.at BETWEEN ? AND ?)) AND (last_at, id) < (?, ?)"
        " ORDER BY last_at DESC, id DESC LIMIT ?",
        (
            *(state, begin, end, period is None, begin, end),
            *(before or ("~", 0)),
            -1 if limit is None else limit,
        ),
    )
    return [CallbackItem(*row) for row in rows]


def list_opened_since(connection: sqlite3.Connection, since: str) -> list[CallbackItem]:
    """Return the open and closed items from `since` (UTC text)."""
    rows = connection.execute("SELECT * FROM callbacks WHERE opened_at >= ? AND last_at >= ?", (since, since))
    return [CallbackItem(*row) for row in rows]


def find_item(connection: sqlite3.Connection, item_id: int) -> CallbackItem | None:
    row = connection.execute("SELECT * FROM callbacks WHERE id = ?", (item_id,)).fetchone()
    return None if row is None else CallbackItem(*row)


def find_open_item(connection: sqlite3.Connection, party: str | None) -> CallbackItem | None:
    """Return the open item of a caller.

    `party`: the number in E.164 or as received.
    """
    row = connection.execute(
        "SELECT * FROM callbacks WHERE party = ? AND state = 'open' ORDER BY id DESC", (party,)
    ).fetchone()
    return None if row is None else CallbackItem(*row)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Assignment of an item to a user by another user.

    `at`: UTC text.
    """

    at: str
    who: str
    item: CallbackItem


def list_assignments(connection: sqlite3.Connection, owner: str, since: str, limit: int) -> list[Assignment]:
    """Return assignments to `owner` by other users, newest first.

    `since`: UTC text.
    """
    rows = connection.execute(
        "SELECT DISTINCT d.at, d.who, i.* FROM callback_deeds AS d"
        " JOIN callback_deed_calls AS dc ON dc.deed_id = d.id JOIN callback_calls AS c USING (call_id)"
        " JOIN callbacks AS i ON i.id = c.item_id"
        " WHERE d.deed = 'assign' AND d.text = ? AND d.at >= ? AND d.who <> d.text"
        " ORDER BY d.id DESC LIMIT ?",
        (owner, since, limit),
    )
    return [Assignment(row[0], row[1], CallbackItem(*row[2:])) for row in rows]


def count_open(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM callbacks WHERE state = 'open'").fetchone()[0])


def compute_fingerprint(connection: sqlite3.Connection) -> tuple[int, ...]:
    """Return values that change with every automatic change of the open list.

    They are the number of items, the newest item id and the number of all attempts.
    """
    row = connection.execute(
        "SELECT count(*), coalesce(max(id), 0), coalesce(sum(attempts), 0) FROM callbacks"
        " WHERE state = 'open'"
    ).fetchone()
    return tuple(row)


# --- items that a viewer can see and change ------------------------------------------------------------
# Pages, buttons, counts and drawers select items here, so that they agree.


def select_visible(
    mirror_connection: sqlite3.Connection, viewer: Visibility, items: Iterable[CallbackItem]
) -> list[CallbackItem]:
    """Return the items that `viewer` sees, in the same order.

    The last missed call decides. An item whose call is not in the mirror has no known owner, so a viewer with
    a user scope does not see it.
    """
    if viewer.user_scope is None:
        return list(items)
    items = list(items)
    calls = history.find_all(mirror_connection, [item.last_call_id for item in items])
    return [
        item
        for item in items
        if item.last_call_id in calls and viewer.can_see_callback(calls[item.last_call_id]["user_id"])
    ]


def find_visible(
    app_connection: sqlite3.Connection,
    mirror_connection: sqlite3.Connection,
    viewer: Visibility,
    item_id: int,
) -> CallbackItem | None:
    """Return an item by id.

    None if it does not exist or the viewer does not see it.
    """
    item = find_item(app_connection, item_id)
    return next(iter(select_visible(mirror_connection, viewer, [item] if item else [])), None)


def find_visible_open(
    app_connection: sqlite3.Connection,
    mirror_connection: sqlite3.Connection,
    viewer: Visibility,
    party: str | None,
) -> CallbackItem | None:
    """Return the open item of a caller, if the viewer sees one.

    `party`: the number in E.164 or as received.
    """
    item = find_open_item(app_connection, party)
    return next(iter(select_visible(mirror_connection, viewer, [item] if item else [])), None)


def count_visible_open(
    app_connection: sqlite3.Connection, mirror_connection: sqlite3.Connection, viewer: Visibility
) -> int:
    """Return the number of open items that the viewer sees."""
    if viewer.user_scope is None:
        return count_open(app_connection)
    return len(select_visible(mirror_connection, viewer, list_items(app_connection)))


# --- reminders of users --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reminder:
    """Reminder of an open item. `at`: UTC text."""

    at: str
    item: CallbackItem


def save_reminder(app_db: Database, person_id: int, party: str, at: str) -> None:
    """Set the reminder of a caller.

    It replaces an earlier one of the same user.
    """
    app_db.write(
        lambda tx: tx.execute(
            "INSERT OR REPLACE INTO callback_reminders VALUES (?, ?, ?)", (person_id, party, at)
        )
    )


def load_reminders(connection: sqlite3.Connection, person_id: int) -> dict[str, str]:
    """Return the reminder times of a user, by caller."""
    rows = connection.execute("SELECT party, at FROM callback_reminders WHERE person_id = ?", (person_id,))
    return {row[0]: row[1] for row in rows}


def list_due_reminders(
    connection: sqlite3.Connection, person_id: int, since: str, until: str
) -> list[Reminder]:
    """Return the reminders of open items from `since` to `until` (UTC text)."""
    return [
        Reminder(at, item)
        for party, at in load_reminders(connection, person_id).items()
        if since <= at <= until and (item := find_open_item(connection, party)) is not None
    ]


# --- actions of users ----------------------------------------------------------------------------------


class ItemChanged(SwitchroomError):
    """Another user has changed the owner or the note of an item.

    `current`: its stored value.
    """

    def __init__(self, current: str) -> None:
        super().__init__(f"The value is now {current!r}.")
        self.current = current


def record_action(
    app_db: Database, item_id: int, who: str, action: ItemAction, text: str = "", *, shown: str | None = None
) -> bool:
    """Apply an action of a user to an item.

    Returns False if the item does not exist.

    `text` is the note (close, note) or the new owner (assign); an empty one removes it. `reopen` has no
    effect while the caller has a newer open item.

    `shown` is the owner (assign) or note (note) that `who` saw. Raises ItemChanged if another user has
    replaced it. The check and the change are one transaction, so of two simultaneous changes one is refused.
    """

    def work(tx: Transaction) -> bool:
        stored = find_item(tx.connection, item_id)
        if stored is None:
            return False
        current = (stored.note if action == "note" else stored.owner) or ""
        if shown is not None and current not in ("", who, shown, text.strip()):
            raise ItemChanged(current)
        _insert_action(tx, stored, who, action, text)
        return True

    return app_db.write(work)


def describe_action(item_id: int, action: ItemAction, text: str) -> tuple[str, str]:
    """Return action and object of the entry in the audit log. It names a new owner, but no note."""
    owner = f" to {text or 'no user'}" if action == "assign" else ""
    return f"call-back {action}", f"item {item_id}{owner}"


def announce_action(mirror_db: Database, item_id: int, action: ItemAction) -> None:
    """Announce an action to open pages, through the change log, which is part of the mirror."""
    mirror_db.write(lambda tx: tx.announce("callback", item_id, {"done": action}))


def _insert_action(tx: Transaction, item: CallbackItem, who: str, action: ItemAction, text: str) -> None:
    action_id = tx.execute(
        "INSERT INTO callback_deeds (at, who, deed, text) VALUES (?, ?, ?, ?)",
        (clock.utc_text(), who, action, text.strip() or None),
    ).lastrowid
    tx.execute(
        "INSERT INTO callback_deed_calls SELECT call_id, ? FROM callback_calls WHERE item_id = ?",
        (action_id, item.id),
    )
    recompute_items(tx, item.party)
