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


Place = tuple[str, int]
"""Where a page of the list ended: the name it is ordered by, and the id."""

_NAME = (
    "coalesce(nullif(trim(coalesce(first_name, '') || ' ' || coalesce(last_name, '')), ''),"
    " nullif(company, ''), 'Contact ' || id)"
)
NUMBERS = ("tel", "tel_1", "tel_2", "mobile", "mobile_1", "mobile_2")
_ANY_NUMBER = " || ' ' || ".join(f"coalesce({name}, '')" for name in NUMBERS)
_SEEN = "(:only IS NULL OR user_id = :only OR \"global\" IN (1, '1', 'true')) AND _missing_since IS NULL"


def page(
    connection: sqlite3.Connection,
    find: str = "",
    *,
    only_user: int | None = None,
    after: Place | None = None,
    limit: int = 50,
) -> list[sqlite3.Row]:
    """Contacts by name. `find` is a fragment of a name, company, address or number; `only_user` leaves the
    shared ones and that user's own."""
    plain = find.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    digits = "" if any(c.isalpha() for c in find) else "".join(c for c in find if c.isdigit())
    name, number = after or (None, None)
    return connection.execute(
        f"SELECT * FROM (SELECT *, {_NAME} AS name, {_NAME} COLLATE NOCASE AS sorted FROM contacts"
        f" WHERE {_SEEN}) WHERE (:text = '' OR name LIKE :like ESCAPE '\\'"
        " OR company LIKE :like ESCAPE '\\' OR email LIKE :like ESCAPE '\\'"
        f" OR (:digits <> '' AND {_ANY_NUMBER} LIKE '%' || :digits || '%'))"
        " AND (:after IS NULL OR sorted > :after COLLATE NOCASE"
        "      OR (sorted = :after COLLATE NOCASE AND id > :id))"
        " ORDER BY sorted, id LIMIT :limit",
        {
            "only": only_user,
            "text": plain,
            "like": f"%{plain}%",
            "digits": digits.lstrip("0") if len(digits) > 1 else "",
            "after": name,
            "id": number,
            "limit": limit,
        },
    ).fetchall()


def find(connection: sqlite3.Connection, number: int, only_user: int | None = None) -> sqlite3.Row | None:
    """The contact with this id, if it is on the platform and the person may see it."""
    row: sqlite3.Row | None = connection.execute(
        f"SELECT *, {_NAME} AS name FROM contacts WHERE id = :id AND {_SEEN}",
        {"id": number, "only": only_user},
    ).fetchone()
    return row


def numbers_of(connection: sqlite3.Connection, contact_id: int) -> list[str]:
    """The contact's numbers, E.164."""
    return [
        row["e164"]
        for row in connection.execute(
            "SELECT e164 FROM _contact_numbers WHERE contact_id = ? ORDER BY e164", (contact_id,)
        )
    ]


def calls_with(
    connection: sqlite3.Connection,
    e164: list[str],
    *,
    before: str | None,
    only_user: int | None,
    limit: int,
) -> list[sqlite3.Row]:
    """The last calls with any of these numbers, before a time (UTC text), newest first; with what was left
    on voicemail in the call as `said`."""
    marks = ", ".join("?" * len(e164))
    return connection.execute(
        "SELECT c.*, (SELECT group_concat(v.transcript, ' ') FROM _legs l JOIN voicemessages v"
        "   ON v.live_id = +l.leg_id WHERE l.call_id = c.id AND c.voicemails > 0) AS said FROM _calls c"
        f" WHERE coalesce(c.party_e164, c.party) IN ({marks}) AND (? IS NULL OR c.started_at < ?)"
        " AND (? IS NULL OR c.user_id = ?) ORDER BY c.started_at DESC LIMIT ?",
        (*e164, before, before, only_user, only_user, limit),
    ).fetchall()
