"""Queries of the page Missed: calls to missed callers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping


def find_last_attempts(
    connection: sqlite3.Connection, missed_at: Mapping[str, str]
) -> dict[str, sqlite3.Row]:
    """Return the latest outbound call to each missed caller.

    The call is live or ended, and began after the caller was missed.

    `missed_at`: UTC text by telephone number, in E.164 or as received. Callers without such a call are
    omitted.
    """
    rows = connection.execute(
        "SELECT p.value ->> 0 AS caller, c.* FROM json_each(?) AS p CROSS JOIN _calls AS c"
        " ON coalesce(c.party_e164, c.party) = p.value ->> 0 AND c.started_at >= p.value ->> 1"
        " WHERE c.direction = 'out' ORDER BY c.started_at, c.id",
        (json.dumps(list(missed_at.items())),),
    )
    return {row["caller"]: row for row in rows}
