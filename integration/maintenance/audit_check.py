"""Check of the audit log for tampering."""

from __future__ import annotations

import hmac
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from integration.access.audit_trail import chain
from integration.access.audit_trail.chain import AuditChain, ChainEnds

MAX_FAULTS = 20
"""Maximum number of lines about tampering."""

_COLUMNS = ", ".join(chain.COLUMNS)


@dataclass(slots=True)
class AuditCheck:
    """Result of a check.

    `faults`: a line for each sign of tampering, at most MAX_FAULTS. `notes`: legitimate changes.
    """

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(connection: sqlite3.Connection, key: bytes | None) -> AuditCheck:
    """Check the audit log of house.db.

    `key`: content of the file audit-key, None without it.
    """
    check = AuditCheck()
    if not _has_chain(connection):
        check.notes.append("audit log: written by a version without hashes; `switchroom serve` adds them")
        return check
    ends = chain.load_ends(connection)
    if ends is None:
        if connection.execute("SELECT 1 FROM audit WHERE hash IS NOT NULL").fetchone():
            check.faults.append("audit log: the ends of the chain were deleted")
        return check
    if key is None:
        check.faults.append(
            "audit log: data_dir/audit-key is missing, so changes cannot be found; restore it from a backup"
        )
        return check
    faults = list(_find_faults(connection, AuditChain(key), ends, check.notes))
    check.faults = faults[:MAX_FAULTS]
    if len(faults) > MAX_FAULTS:
        check.faults.append(f"audit log: {len(faults) - MAX_FAULTS:,} more entries differ")
    return check


def _find_faults(
    connection: sqlite3.Connection, audit_chain: AuditChain, ends: ChainEnds, notes: list[str]
) -> Iterator[str]:
    seal = connection.execute("SELECT seal FROM audit_chain").fetchone()[0]
    if not hmac.compare_digest(seal, audit_chain.seal(ends)):
        yield "audit log: the ends of the chain were changed, or audit-key is not the key of this log"
    if ends.anchor_id:
        notes.append(f"audit log: entries up to {ends.anchor_id} were deleted by retention")
    rewritten_ids = _list_rewritten(connection, audit_chain)
    link, previous_id, erased_count = ends.anchor_link, ends.anchor_id, 0
    for *values, entry_hash, stored_link, erased_hash in connection.execute(
        f"SELECT {_COLUMNS}, hash, link, erased_hash FROM audit ORDER BY id"  # noqa: S608
    ):
        entry_id = values[0]
        if stored_link is None or stored_link != audit_chain.link(link, entry_hash or ""):
            yield (
                f"audit log: entry {entry_id} does not follow entry {previous_id}: entries were deleted,"
                " inserted or changed"
            )
        if entry_hash != audit_chain.hash_entry(values):
            if entry_id in rewritten_ids and erased_hash == audit_chain.hash_erased(values):
                erased_count += 1
            else:
                yield f"audit log: entry {entry_id} was changed"
        link, previous_id = stored_link or link, entry_id
    if (previous_id, link) != (ends.head_id, ends.head_link):
        yield f"audit log: entries after {previous_id} were deleted; the last one was {ends.head_id}"
    if erased_count:
        notes.append(f"audit log: {erased_count:,} entries were rewritten by erasures")


def _list_rewritten(connection: sqlite3.Connection, audit_chain: AuditChain) -> set[int]:
    """Return the ids that unchanged entries name as rewritten by an erasure."""
    rows = connection.execute(
        f"SELECT {_COLUMNS}, hash FROM audit WHERE what = ?",  # noqa: S608
        (chain.REWRITTEN,),
    )
    return {
        int(number)
        for *values, entry_hash in rows
        if entry_hash == audit_chain.hash_entry(values)
        for number in re.findall(r"[0-9]+", values[4].partition(":")[2])
    }


def _has_chain(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'audit_chain'").fetchone()
    return tables is not None
