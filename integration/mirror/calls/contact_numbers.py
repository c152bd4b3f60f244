"""Whose number is whose: every number of every contact, in E.164, so that a call finds its name quickly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from integration.core.phone_numbers import Numbers
from integration.mirror.calls.reading import ids_json, text
from integration.sqlite.transaction import Transaction

CHUNK = 1000


def names(tx: Transaction, e164s: Iterable[str]) -> dict[str, str]:
    """E.164 → the contact's name. Of several contacts with one number the oldest counts."""
    rows = tx.execute(
        "SELECT e164, name FROM _contact_numbers WHERE e164 IN (SELECT value FROM json_each(?))"
        " ORDER BY contact_id DESC",
        (json.dumps(list(e164s)),),
    )
    return {row[0]: row[1] for row in rows}


def renew(tx: Transaction, contact_ids: Sequence[int], numbers: Numbers) -> None:
    """Read the numbers of these contacts again; calls with a number won or lost are due at once."""
    for begin in range(0, len(contact_ids), CHUNK):
        _renew(tx, ids_json(contact_ids[begin : begin + CHUNK]), numbers)


def _renew(tx: Transaction, ids: str, numbers: Numbers) -> None:
    before = {
        tuple(row)
        for row in tx.execute(
            "SELECT e164, contact_id, name FROM _contact_numbers"
            " WHERE contact_id IN (SELECT value FROM json_each(?))",
            (ids,),
        )
    }
    after: set[tuple[str, int, str]] = set()
    for contact_id, first, last, company, *raws in tx.execute(
        "SELECT id, first_name, last_name, company, tel, tel_1, tel_2, mobile, mobile_1, mobile_2"
        " FROM contacts WHERE _missing_since IS NULL AND id IN (SELECT value FROM json_each(?))",
        (ids,),
    ):
        name = " ".join(filter(None, (text(first), text(last)))) or text(company) or ""
        after |= {
            (e164, contact_id, name) for raw in raws if name and (e164 := numbers.e164(text(raw))) is not None
        }
    tx.executemany(
        "DELETE FROM _contact_numbers WHERE e164 = ? AND contact_id = ?",
        [(e164, contact_id) for e164, contact_id, _ in before - after],
    )
    tx.executemany("INSERT OR REPLACE INTO _contact_numbers VALUES (?, ?, ?)", sorted(after - before))
    changed = {row[0] for row in before ^ after}
    tx.execute(
        "UPDATE _calls SET due_at = 0 WHERE coalesce(party_e164, party) IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(changed)),),
    )
