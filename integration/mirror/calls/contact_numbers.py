"""Index of contacts' telephone numbers, in E.164, for names of callers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from integration.core.ids import id_list
from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.calls.reading import parse_text
from integration.mirror.page_queries.contacts import NUMBER_FIELDS
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

BATCH_SIZE = 1000
"""Contacts read by one query."""

READER_VERSION = 3
"""Increased when `PhoneNumbers` reads other texts as numbers."""
_READER_KEY = "reader of contacts' numbers"
"""Key in `_meta` of the version and country with which the stored numbers were read."""


def find_names(tx: Transaction, e164s: Iterable[str]) -> dict[str, str]:
    """Map E.164 numbers to names of contacts.

    If several contacts have a number, the contact with the lowest id is used.
    """
    rows = tx.execute(
        "SELECT e164, name FROM _contact_numbers WHERE e164 IN (SELECT value FROM json_each(?))"
        " ORDER BY contact_id DESC",
        (id_list(e164s),),
    )
    return {row[0]: row[1] for row in rows}


def update_all(mirror_db: Database, phone_numbers: PhoneNumbers) -> None:
    """Update the stored numbers of all contacts if their reader or its country has changed."""
    reader = f"{READER_VERSION} {phone_numbers.country}"
    with mirror_db.read() as connection:
        row = connection.execute("SELECT value FROM _meta WHERE key = ?", (_READER_KEY,)).fetchone()
        if row is not None and row[0] == reader:
            return
        ids = [row[0] for row in connection.execute("SELECT id FROM contacts ORDER BY id")]
    batches = [ids[begin : begin + BATCH_SIZE] for begin in range(0, len(ids), BATCH_SIZE)]
    mirror_db.write_bulk(
        [partial(refresh_numbers, contact_ids=batch, phone_numbers=phone_numbers) for batch in batches]
    )
    mirror_db.write(
        lambda tx: tx.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (_READER_KEY, reader))
    )


def refresh_numbers(tx: Transaction, contact_ids: Sequence[int], phone_numbers: PhoneNumbers) -> None:
    """Update the stored numbers of these contacts.

    Calls with an added, removed or renamed number become due at once.
    """
    for begin in range(0, len(contact_ids), BATCH_SIZE):
        _refresh_batch(tx, id_list(contact_ids[begin : begin + BATCH_SIZE]), phone_numbers)


def _refresh_batch(tx: Transaction, ids: str, phone_numbers: PhoneNumbers) -> None:
    old_rows = {
        tuple(row)
        for row in tx.execute(
            "SELECT e164, contact_id, name FROM _contact_numbers"
            " WHERE contact_id IN (SELECT value FROM json_each(?))",
            (ids,),
        )
    }
    new_rows: set[tuple[str, int, str]] = set()
    for contact_id, first_name, last_name, company, *raw_numbers in tx.execute(
        f"SELECT id, first_name, last_name, company, {', '.join(NUMBER_FIELDS)}"
        " FROM contacts WHERE _missing_since IS NULL AND id IN (SELECT value FROM json_each(?))",
        (ids,),
    ):
        name = (
            " ".join(filter(None, (parse_text(first_name), parse_text(last_name))))
            or parse_text(company)
            or ""
        )
        new_rows |= {
            (e164, contact_id, name)
            for raw in raw_numbers
            if name and (e164 := phone_numbers.to_e164(parse_text(raw))) is not None
        }
    tx.executemany(
        "DELETE FROM _contact_numbers WHERE e164 = ? AND contact_id = ?",
        [(e164, contact_id) for e164, contact_id, _ in old_rows - new_rows],
    )
    tx.executemany("INSERT OR REPLACE INTO _contact_numbers VALUES (?, ?, ?)", sorted(new_rows - old_rows))
    changed = {row[0] for row in old_rows ^ new_rows}
    tx.execute(
        "UPDATE _calls SET due_at = 0 WHERE coalesce(party_e164, party) IN (SELECT value FROM json_each(?))",
        (id_list(sorted(changed)),),
    )
