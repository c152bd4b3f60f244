"""Named queries of contacts: who has a number, the list, and what was ever exchanged with a contact."""

from __future__ import annotations

import sqlite3


def of_number(connection: sqlite3.Connection, e164: str | None) -> sqlite3.Row | None:
    """The contact with this number; of several the oldest that is still on the platform."""
    if not e164:
        return None
    row: sqlite3.Row | None = connection.execute(
        "SELECT c.*, n.name AS name FROM _contact_numbers n JOIN contacts c ON c.id = n.contact_id"
        " WHERE n.e164 = ? ORDER BY c._missing_since IS NOT NULL, c.id",
        (e164,),
    ).fetchone()
    return row


def is_known(connection: sqlite3.Connection, e164: str) -> bool:
    """Whether any contact has this number."""
    return (
        connection.execute("SELECT 1 FROM _contact_numbers WHERE e164 = ? LIMIT 1", (e164,)).fetchone()
        is not None
    )
