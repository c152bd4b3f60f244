"""Chain of keyed hashes over the entries of the audit log.

Each entry stores a keyed hash of its content, and its link: a keyed hash of the previous link and this hash.
The row of `audit_chain` has the last link, and the anchor: the link of the last entry that retention deleted.
An entry that is changed, deleted, inserted or moved without the key breaks the chain. An erasure replaces
texts, keeps hash and link, and stores the hash of the new content in `erased_hash`.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from integration.sqlite.transaction import Gate, Transaction

GATE = "audit"
"""Name of the chain in `Database.gates` of house.db."""

REWRITTEN = "audit entries rewritten"
"""Action of the entry that names the entries which an erasure changed."""

TABLES = """
CREATE TABLE IF NOT EXISTS audit_chain (
    one INTEGER PRIMARY KEY CHECK (one = 0),
    head_id INTEGER NOT NULL,
    head_link TEXT NOT NULL,
    anchor_id INTEGER NOT NULL,
    anchor_link TEXT NOT NULL,
    seal TEXT NOT NULL
) STRICT;
"""

COLUMNS = ("id", "at", "who", "what", "about", "result", "address")
"""Columns of an entry that its hash covers."""


@dataclass(frozen=True, slots=True)
class ChainEnds:
    """Ids and links of head and anchor.

    The head is the last entry, the anchor the last deleted one (id 0 without one).
    """

    head_id: int
    head_link: str
    anchor_id: int
    anchor_link: str


class AuditChain:
    """Computes the hashes of the audit log with the key of `data_dir/audit-key`."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.publish: Callable[[Mapping[str, object]], None] | None = None
        """Receives each entry after its commit, on the writer thread; must not block."""
        self.start_link = self._compute("start", "")

    def hash_entry(self, values: Sequence[object]) -> str:
        """Return the hash of an entry. `values`: those of COLUMNS."""
        return self._compute("entry", json.dumps(list(values)))

    def hash_erased(self, values: Sequence[object]) -> str:
        """Return the hash of an entry after an erasure.

        `values`: those of COLUMNS.
        """
        return self._compute("erased", json.dumps(list(values)))

    def link(self, previous_link: str, entry_hash: str) -> str:
        """Return the link of an entry."""
        return self._compute("link", previous_link + entry_hash)

    def seal(self, ends: ChainEnds) -> str:
        """Return the hash of the ends.

        Without it the last entries could be deleted.
        """
        return self._compute(
            "ends", json.dumps([ends.head_id, ends.head_link, ends.anchor_id, ends.anchor_link])
        )

    def __call__(self, entry: tuple[Transaction, Sequence[object]]) -> tuple[int, str, str]:
        """Return id, hash and link of the next entry.

        `entry`: the transaction, and the values of COLUMNS without the id.
        """
        tx, values = entry
        ends = self.load_or_start(tx)
        entry_id = ends.head_id + 1
        entry_hash = self.hash_entry([entry_id, *values])
        link = self.link(ends.head_link, entry_hash)
        self._store(tx, ChainEnds(entry_id, link, ends.anchor_id, ends.anchor_link))
        return entry_id, entry_hash, link

    def move_anchor(self, tx: Transaction, last_deleted_id: int, link: str) -> None:
        """Store the link of the last entry that retention deletes."""
        ends = self.load_or_start(tx)
        self._store(tx, ChainEnds(ends.head_id, ends.head_link, last_deleted_id, link))

    def load_or_start(self, tx: Transaction) -> ChainEnds:
        """Return the stored ends; start the chain if there are none."""
        return load_ends(tx.connection) or self._start(tx)

    def _start(self, tx: Transaction) -> ChainEnds:
        """Chain the entries that were stored by a version without a chain."""
        link, last_id = self.start_link, 0
        for row in tx.execute(f"SELECT {', '.join(COLUMNS)} FROM audit ORDER BY id").fetchall():
            entry_hash = self.hash_entry(tuple(row))
            link, last_id = self.link(link, entry_hash), row[0]
            tx.execute("UPDATE audit SET hash = ?, link = ? WHERE id = ?", (entry_hash, link, last_id))
        # Ids are never used twice, also if retention deleted all entries.
        used = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'audit'").fetchone()
        ends = ChainEnds(max(last_id, used[0] if used else 0), link, 0, self.start_link)
        self._store(tx, ends)
        return ends

    def _store(self, tx: Transaction, ends: ChainEnds) -> None:
        tx.execute(
            "INSERT OR REPLACE INTO audit_chain VALUES (0, ?, ?, ?, ?, ?)",
            (ends.head_id, ends.head_link, ends.anchor_id, ends.anchor_link, self.seal(ends)),
        )

    def _compute(self, kind: str, text: str) -> str:
        return hmac.digest(self._key, f"{kind}:{text}".encode("utf-8", "surrogatepass"), "sha256").hex()


def find_chain(gates: Mapping[str, Gate]) -> AuditChain | None:
    """Return the chain of house.db, None without one."""
    gate = gates.get(GATE)
    return gate if isinstance(gate, AuditChain) else None


def load_ends(connection: sqlite3.Connection) -> ChainEnds | None:
    """Return the stored ends; None before the first chained entry."""
    row = connection.execute("SELECT head_id, head_link, anchor_id, anchor_link FROM audit_chain").fetchone()
    return ChainEnds(*row) if row is not None else None
