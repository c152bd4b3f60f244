"""Calls that have changed after a change number, in the order of their last changes.

A call that was merged can be separated later, and one that left a user can come back. It is then listed as
present alone.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.mirror.page_queries.history import build_call_id_sql

_PRESENT_ID = build_call_id_sql("gone.id")

_CHANGED = f"""
SELECT change_no, id, 1, NULL FROM _calls WHERE change_no > :after AND change_no <= :up_to
UNION ALL
SELECT change_no, id, 0, {_PRESENT_ID} FROM _merged_calls AS gone
 WHERE change_no > :after AND change_no <= :up_to AND NOT EXISTS (SELECT 1 FROM _calls WHERE id = gone.id)
ORDER BY change_no LIMIT :limit
"""

# With the plus SQLite reads the few calls after a recent number, instead of all calls of the user.
_CHANGED_OF_USER = f"""
SELECT change_no, id, 1, NULL FROM _calls
 WHERE change_no > :after AND change_no <= :up_to AND +user_id = :user
UNION ALL
SELECT gone.change_no, gone.id, 0, present.id FROM _left_calls AS gone
  LEFT JOIN _calls AS present ON present.id = {_PRESENT_ID} AND present.user_id = :user
 WHERE gone.user_id = :user AND gone.change_no > :after AND gone.change_no <= :up_to
   AND NOT EXISTS (SELECT 1 FROM _calls WHERE id = gone.id AND user_id = :user)
ORDER BY change_no LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call at its last change.

    `is_present`: False for an id that is no call any more, or not one of the reader's user. `merged_into` is
    then the call that has its legs, if the reader sees it.
    """

    change_no: int
    id: int
    is_present: bool
    merged_into: int | None


def list_changed(
    connection: sqlite3.Connection, after: int, up_to: int, user_scope: int | None, limit: int
) -> list[ChangedCall]:
    """Return the first `limit` calls whose last change is after the number `after`, and at most `up_to`.

    Each call is returned once. A reader that takes these calls, and removes those that are not present, has
    exactly the present calls, with `user_scope` those of this platform user.
    """
    values = {"after": after, "up_to": up_to, "user": user_scope, "limit": limit}
    rows = connection.execute(_CHANGED if user_scope is None else _CHANGED_OF_USER, values)
    return [ChangedCall(row[0], row[1], bool(row[2]), row[3]) for row in rows]


def find_last_change(connection: sqlite3.Connection, up_to: int, user_id: int) -> int:
    """Return the number of the last change of a call of a platform user, at most `up_to`; 0 without one."""
    last = [
        f"coalesce((SELECT change_no FROM {table} WHERE user_id = :user AND change_no <= :up_to"
        " ORDER BY change_no DESC LIMIT 1), 0)"
        for table in ("_calls", "_left_calls")
    ]
    row = connection.execute(f"SELECT max({', '.join(last)})", {"user": user_id, "up_to": up_to}).fetchone()
    return int(row[0])
