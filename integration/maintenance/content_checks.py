"""Checks of stored content by second copies.

The content is webhooks, records, events and derived rows, such as calls. SQLite has no checksums of its
pages: a changed byte in a value is no fault of the file, so its integrity check does not find it. All reads
are short, so that the write-ahead log of a running `serve` can shrink.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from integration.mirror.calls.store import hash_payload
from integration.mirror.derived import rebuild
from integration.mirror.derived.declaration import Rules
from integration.mirror.derived.registry import DERIVED
from integration.mirror.records.row_check import RowCheck
from integration.mirror.records.rows import quote_identifier
from integration.mirror.schema import list_mirrored_resources
from integration.sqlite.readers import open_readonly, read_tolerantly

BATCH_SIZE = 250
"""Rows of one read."""

LIVE_TABLE = "calls"
"""Table of live calls, which webhooks change without a complete record. It is rebuilt by each poll."""

REBUILD_ADVICE = (
    "Stop Switchroom, rename mirror.db and start Switchroom: it builds a new file from the stored webhooks"
    " and the platform."
)
"""What to do about damage of mirror.db that is not repaired."""

Progress = Callable[[str, int, int], None]
Target = list[Any]
"""Damaged data that `content_repair` can repair, as JSON: its kind, then its key."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check.

    `target` is None if only a user can repair it; `advice` states how, if it is no part of `text`.
    """

    text: str
    target: Target | None = None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ContentChecks:
    """Checks of the content of `data_dir`."""

    data_dir: Path
    rules: Rules
    progress: Progress = lambda _what, _done, _total: None

    def check_webhooks(self) -> Iterator[Finding]:
        """Compare the bodies in inbox.db with their hashes."""

        def check(seq: int, received_at: str, body: bytes, body_hash: bytes) -> Finding | None:
            if hashlib.sha256(body).digest() == body_hash:
                return None
            return Finding(
                f"inbox.db: webhook {seq} of {received_at} UTC has other content than what was received"
                " (sha256 differs)",
                advice="A changed webhook matters for `switchroom replay` only. Backups that were made before"
                " the change have the original.",
            )

        with open_readonly(self.data_dir / "inbox.db") as connection:
            columns = ("received_at", "body", "body_hash")
            yield from self._check_rows(connection, "webhooks", "inbox", ("seq",), columns, check)

    def check_records(self) -> Iterator[Finding]:
        """Compare the columns of all collections with `_doc`."""

        def check(row_check: RowCheck, collection: str, rowid: int, *cells: Any) -> Finding | None:
            if (fault := row_check.find_fault(*cells)) is None:
                return None
            name = row_check.describe_row(rowid, *cells[2:])
            return Finding(f"mirror.db: {name} of {collection}: {fault}", ["record", collection, rowid])

        with open_readonly(self.data_dir / "mirror.db") as connection:
            for resource in list_mirrored_resources():
                if resource.table != LIVE_TABLE:
                    row_check, name = RowCheck(connection, resource), resource.collection
                    check_row = partial(check, row_check, name)
                    table = quote_identifier(resource.table)
                    yield from self._check_rows(
                        connection, name, table, ("rowid",), row_check.columns, check_row
                    )

    def check_events(self) -> Iterator[Finding]:
        """Compare the call events in mirror.db with their hashes."""

        def check(event_id: str, body_hash: str, leg_id: int, doc: str) -> Finding | None:
            if hash_payload(doc) == body_hash:
                return None
            text = f"mirror.db: event {event_id} of leg {leg_id} differs from its webhook"
            return Finding(text, advice=REBUILD_ADVICE)

        with open_readonly(self.data_dir / "mirror.db") as connection:
            keys = ("event_id", "body_hash")
            yield from self._check_rows(connection, "events", "_leg_events", keys, ("leg_id", "doc"), check)

    def check_derived(self, *, sampled: bool) -> Iterator[Finding]:
        """Compute derived rows from their sources and compare them with the stored rows."""
        with open_readonly(self.data_dir / "mirror.db") as connection:
            for derived in DERIVED:
                progress = partial(self.progress, derived.title)
                for low, high in rebuild.find_differences(
                    connection, derived, self.rules, sampled=sampled, progress=progress
                ):
                    yield Finding(
                        f"mirror.db: {derived.title}: {derived.unit} {low} to {high} have other rows",
                        ["derived", derived.name, low, high],
                    )

    def _check_rows(
        self,
        connection: sqlite3.Connection,
        title: str,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        check: Callable[..., Finding | None],
    ) -> Iterator[Finding]:
        """Yield the findings of `check(*row)` for the rows of a table, in the order of `keys`."""
        total = int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608
        position, done = None, 0
        order = ", ".join(keys)
        condition = f"({order}) > ({', '.join('?' * len(keys))})"

        def read() -> tuple[tuple[Any, ...] | None, int, list[Finding]]:
            last, count, findings = None, 0, list[Finding]()
            for row in connection.execute(
                f"SELECT {', '.join((*keys, *columns))} FROM {table}"  # noqa: S608
                f" WHERE {condition if position else 'TRUE'} ORDER BY {order} LIMIT ?",
                (*(position or ()), BATCH_SIZE),
            ):
                last, count = tuple(row[: len(keys)]), count + 1
                if (finding := check(*row)) is not None:
                    findings.append(finding)
            return last, count, findings

        while True:
            self.progress(title, done, total)
            position, count, findings = read_tolerantly(connection, read)
            yield from findings
            done += count
            if position is None:
                return
