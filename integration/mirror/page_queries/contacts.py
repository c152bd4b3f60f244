"""Queries of contacts: lookup by number, list, calls with a contact."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.catalogue import get_resource
from integration.core.number_search.reading import read_digits
from integration.mirror.page_queries.search_index import bind_fragment, build_contains_sql
from integration.mirror.records.rows import build_name_sql
from integration.sqlite.listing import Listing, Page


def find_by_number(connection: sqlite3.Connection, e164: str | None) -> sqlite3.Row | None:
    """Return the contact with this number.

    If several contacts have the number, contacts that are on the platform take precedence, then the lowest
    id.
    """
    if not e164:
        return None
    row: sqlite3.Row | None = connection.execute(
        "SELECT c.*, n.name AS name FROM _contact_numbers n JOIN contacts c ON c.id = n.contact_id"
        " WHERE n.e164 = ? ORDER BY c._missing_since IS NOT NULL, c.id",
        (e164,),
    ).fetchone()
    return row


_NAME = f"coalesce({build_name_sql('contacts')}, nullif(company, ''), 'Contact ' || id)"
_BY_NAME = Listing("sorted", "id")
NUMBER_FIELDS = tuple(
    sorted(
        (field.name for field in get_resource("contacts").fields if field.meaning == "contact_phone"),
        key=lambda name: not name.startswith("tel"),
    )
)
"""Fields of a contact with telephone numbers, landlines (`tel…`) before mobiles."""
_ALL_NUMBERS = " || ' ' || ".join(f"coalesce({name}, '')" for name in NUMBER_FIELDS)
_IS_VISIBLE = (
    "(:only IS NULL OR user_id = :only OR \"global\" IN (1, '1', 'true')) AND _missing_since IS NULL"
)


def fetch_page(
    connection: sqlite3.Connection,
    search_text: str = "",
    *,
    user_scope: int | None = None,
    cursor: str | None = None,
    size: int = 50,
) -> Page:
    """Return one page of contacts, sorted by name.

    `search_text` is a fragment of a name, company, e-mail address or number. `user_scope` limits the page to
    shared contacts and contacts of this platform user.
    """
    return _BY_NAME.fetch_page(
        connection,
        f"SELECT * FROM (SELECT *, {_NAME} AS name, {_NAME} COLLATE NOCASE AS sorted FROM contacts"
        f" WHERE {_IS_VISIBLE}) WHERE (:text = '' OR {build_contains_sql('name')}"
        f" OR {build_contains_sql('company')} OR {build_contains_sql('email')}"
        f" OR (:digits <> '' AND ({_ALL_NUMBERS} LIKE '%' || :digits || '%' OR id IN"
        " (SELECT contact_id FROM _contact_numbers WHERE e164 LIKE '%' || :digits || '%'))))",
        {
            "only": user_scope,
            "text": search_text.strip(),
            **bind_fragment(search_text),
            "digits": read_digits(search_text),
        },
        cursor,
        size,
    )


def find(
    connection: sqlite3.Connection, contact_id: int, user_scope: int | None = None
) -> sqlite3.Row | None:
    """Return a contact by id.

    None if the contact is missing on the platform or outside `user_scope`.
    """
    row: sqlite3.Row | None = connection.execute(
        f"SELECT *, {_NAME} AS name FROM contacts WHERE id = :id AND {_IS_VISIBLE}",
        {"id": contact_id, "only": user_scope},
    ).fetchone()
    return row


def list_numbers(connection: sqlite3.Connection, contact_id: int) -> list[str]:
    """Return the contact's numbers in E.164."""
    return [
        row["e164"]
        for row in connection.execute(
            "SELECT e164 FROM _contact_numbers WHERE contact_id = ? ORDER BY e164", (contact_id,)
        )
    ]


MAX_COUNTED_CALLS = 5000
"""Latest calls of each number that `summarize_calls` reads: 10 ms."""


@dataclass(frozen=True, slots=True)
class CallSummary:
    """Calls with a contact.

    `calls`: their number; above MAX_COUNTED_CALLS there may be more. `user_name`: the user with most of them,
    '' without one; `user_calls`: how many, of `calls_with_users`. `last_at`: UTC text of the last call, None
    if unknown.
    """

    calls: int
    user_name: str
    user_calls: int
    calls_with_users: int
    last_at: str | None


def summarize_calls(
    connection: sqlite3.Connection, numbers: Sequence[str], user_scope: int | None = None
) -> CallSummary:
    """Return how many calls with these numbers there are, with whom most of them, and the last one.

    `user_scope` limits the calls to those of a platform user.
    """
    # A select for each number reads the index by number and time; IN would sort all calls.
    latest_calls = " UNION ALL ".join(
        f"SELECT * FROM (SELECT user_id, user_name, started_at FROM _calls"
        f" WHERE coalesce(party_e164, party) = ?{number} AND (?1 IS NULL OR user_id = ?1)"
        " ORDER BY started_at DESC LIMIT ?2)"
        for number in range(3, 3 + len(numbers))
    )
    rows = connection.execute(
        f"SELECT coalesce({build_name_sql('u')}, c.user_name, '') AS name, count(*) AS calls,"
        " max(c.started_at) AS last_at"
        f" FROM ({latest_calls}) AS c LEFT JOIN users u ON u.id = c.user_id"
        " GROUP BY name ORDER BY calls DESC, name",
        (user_scope, MAX_COUNTED_CALLS + 1, *numbers),
    ).fetchall()
    named = [row for row in rows if row["name"]]
    return CallSummary(
        sum(row["calls"] for row in rows),
        named[0]["name"] if named else "",
        named[0]["calls"] if named else 0,
        sum(row["calls"] for row in named),
        max((row["last_at"] for row in rows if row["last_at"]), default=None),
    )


def list_calls(
    connection: sqlite3.Connection,
    numbers: list[str],
    *,
    before: str | None,
    user_scope: int | None,
    limit: int,
) -> list[sqlite3.Row]:
    """Return the last calls with any of these numbers, newest first.

    `before` is UTC text. Calls without a time are the oldest. Column `said` has the transcripts of the call's
    voicemail messages.
    """
    placeholders = ", ".join("?" * len(numbers))
    return connection.execute(
        "SELECT c.*, (SELECT group_concat(v.transcript, ' ') FROM _legs l JOIN voicemessages v"
        "   ON v.live_id = +l.leg_id WHERE l.call_id = c.id AND c.voicemails > 0) AS said FROM _calls c"
        f" WHERE coalesce(c.party_e164, c.party) IN ({placeholders}) AND (? IS NULL OR c.started_at < ?"
        " OR c.started_at IS NULL)"
        " AND (? IS NULL OR c.user_id = ?) ORDER BY c.started_at DESC LIMIT ?",
        (*numbers, before, before, user_scope, user_scope, limit),
    ).fetchall()
