"""Queries of faxes, newest first."""

from __future__ import annotations

import json
import sqlite3

from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.page_queries.messages import CONTACT_MATCHES, bind_contact_search, build_digits_sql
from integration.sqlite.listing import Listing, Page

_SENDER, _RECEIVER = build_digits_sql('f."from"'), build_digits_sql('f."to"')
_IS_OUTBOUND = f"EXISTS (SELECT 1 FROM ddis d WHERE {build_digits_sql('d.e164')} = {_SENDER})"
_FAXES = f"""SELECT * FROM (
  SELECT f.id, f.created_at AS at, CASE WHEN {_IS_OUTBOUND} THEN 'out' ELSE 'in' END AS direction,
         {_SENDER} AS sender, {_RECEIVER} AS receiver,
         CASE WHEN {_IS_OUTBOUND} THEN {_RECEIVER} ELSE {_SENDER} END AS contact,
         f.pages, f.status, f._missing_since AS missing_since,
         CASE WHEN typeof(f.charge) IN ('real', 'integer') THEN f.charge END AS charge
    FROM faxes f)"""
_FAX_SEARCH = f"""{_FAXES}
 WHERE (:text = '' OR {CONTACT_MATCHES}
        OR (:digits <> '' AND (sender LIKE '%' || :digits || '%' OR receiver LIKE '%' || :digits || '%')))"""
_NEWEST_FIRST = Listing("-at", "-id")


def fetch_page(
    connection: sqlite3.Connection,
    phone_numbers: PhoneNumbers,
    search_text: str = "",
    cursor: str | None = None,
    size: int = 50,
) -> Page:
    """Return one page of faxes.

    Columns: id, at (UTC text), direction ('in', 'out'), sender, receiver and contact (digits), pages, status
    (the platform's code), charge, missing_since. `search_text` is a fragment of a number or of a contact's
    name.
    """
    return _NEWEST_FIRST.fetch_page(
        connection,
        _FAX_SEARCH,
        bind_contact_search(search_text, phone_numbers),
        cursor,
        size,
    )


def list_with_contacts(
    connection: sqlite3.Connection, contacts: list[str], before: str | None, limit: int
) -> list[sqlite3.Row]:
    """Return the last faxes with any of these numbers, newest first.

    Numbers are digits, `before` is UTC text. The columns are those of `fetch_page`.
    """
    return connection.execute(
        f"{_FAXES} WHERE contact IN (SELECT value FROM json_each(?)) AND (? IS NULL OR at < ?)"
        " ORDER BY at DESC, id DESC LIMIT ?",
        (json.dumps(contacts), before, before, limit),
    ).fetchall()


def find_last_received_at(connection: sqlite3.Connection, since: str) -> str | None:
    """Return the time of the last fax received after `since`, or None.

    Both times are UTC text.
    """
    row = connection.execute(
        f"SELECT max(f.created_at) FROM faxes f WHERE f.created_at > ? AND NOT {_IS_OUTBOUND}", (since,)
    ).fetchone()
    return row[0] if row else None
