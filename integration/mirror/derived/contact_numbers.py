"""Contacts' telephone numbers, in E.164, for names of callers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from integration.core.ids import id_list
from integration.mirror.derived.declaration import (
    JOIN_RANGES,
    Derived,
    Range,
    Rows,
    Rules,
    Source,
    Target,
    to_json,
)
from integration.mirror.page_queries.contacts import NUMBER_FIELDS

READER_VERSION = 4
"""Increased when `PhoneNumbers` reads other texts as numbers."""

_COLUMNS = ("id", "first_name", "last_name", "company", *NUMBER_FIELDS)

TABLES = """
-- Every number of every contact, for names of parties.
CREATE TABLE IF NOT EXISTS _contact_numbers (
    e164 TEXT NOT NULL, contact_id INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (e164, contact_id)
) STRICT, WITHOUT ROWID;
-- serves the update of a contact's numbers
CREATE INDEX IF NOT EXISTS _contact_numbers_contact ON _contact_numbers (contact_id);
"""


def find_names(connection: sqlite3.Connection, e164s: Iterable[str]) -> dict[str, str]:
    """Map E.164 numbers to names of contacts.

    If several contacts have a number, the contact with the lowest id is used.
    """
    rows = connection.execute(
        "SELECT e164, name FROM _contact_numbers WHERE e164 IN (SELECT value FROM json_each(?))"
        " ORDER BY contact_id DESC",
        (id_list(e164s),),
    )
    return {row[0]: row[1] for row in rows}


def compute_numbers(connection: sqlite3.Connection, ranges: Sequence[Range], rules: Rules) -> list[Rows]:
    """Return the numbers of contacts that are on the platform and have a name."""
    contacts = connection.execute(
        f"SELECT {', '.join(f'c.{name}' for name in _COLUMNS)}"
        f" FROM {JOIN_RANGES.format(table='contacts AS c', key='c.id')} WHERE c._missing_since IS NULL",
        (to_json(ranges),),
    )
    rows = set()
    for contact_id, *values in contacts:
        first_name, last_name, company, *numbers = (str(value or "") for value in values)
        name = " ".join(filter(None, (first_name, last_name))) or company
        rows |= {
            (e164, contact_id, name)
            for number in numbers
            if name and (e164 := rules.phone_numbers.to_e164(number)) is not None
        }
    return [Rows(TARGET, ranges, rows)]


TARGET = Target(
    "_contact_numbers",
    ("e164", "contact_id", "name"),
    ("e164", "contact_id"),
    f"SELECT n.* FROM {JOIN_RANGES.format(table='_contact_numbers AS n', key='n.contact_id')}",
)

CONTACT_NUMBERS = Derived(
    "contact_numbers",
    "Numbers of contacts",
    "contacts",
    keys=("SELECT id FROM contacts WHERE id",),
    sources=(Source("contacts", (*_COLUMNS, "_missing_since"), "{row}.id"),),
    tables=("_contact_numbers",),
    compute=compute_numbers,
    describe_rules=lambda rules: (READER_VERSION, rules.phone_numbers.country),
    # All: the names must be stored before calls are computed.
    in_transaction=1_000_000,
)
