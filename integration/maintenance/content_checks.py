"""Checks of stored content by second copies.

The content is webhooks, records, events and calls. SQLite has no checksums of its pages: a changed byte in a
value is no fault of the file, so its integrity check does not find it. All reads are short, so that the
write-ahead log of a running `serve` can shrink.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.inbox import body_check
from integration.mirror.calls.store import CallStore
from integration.mirror.derived import rebuild
from integration.mirror.derived.declaration import Rules
from integration.mirror.derived.registry import DERIVED
from integration.mirror.records import row_check
from integration.mirror.schema import list_mirrored_resources
from integration.sqlite.readers import open_readonly, read_tolerantly

BATCH_SIZE = 250
"""Rows of one read."""
LEGS_PER_BATCH = 200
"""Legs whose calls are computed from one consistent view."""
SAMPLED_LEGS = 1000
"""Legs of which `verify` computes the calls, unless it checks all."""

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
    """Checks of the content of `data_dir`.

    `sample_size` is the maximum number of rows of each table; None checks all. Samples start at a random row.
    """

    data_dir: Path
    call_store: CallStore
    rules: Rules
    sample_size: int | None = None
    progress: Progress = lambda _what, _done, _total: None

    def check_webhooks(self) -> Iterator[Finding]:
        """Compare the bodies in inbox.db with their hashes."""
        with open_readonly(self.data_dir / "inbox.db") as connection:
            total = self._count(connection, "inbox")
            position: int | None = self._sample_start(connection, "inbox", "seq", total)
            done = 0
            while position is not None and (limit := self._limit(done)):
                self.progress("webhooks", done, total)
                position, count, changed = body_check.check_bodies(connection, position, limit)
                done += count
                for body in changed:
                    yield Finding(
                        f"inbox.db: webhook {body.seq} of {body.received_at} UTC has other content than what"
                        " was received (sha256 differs)",
                        advice="A changed webhook matters for `switchroom replay` only. Backups that were"
                        " made before the change have the original.",
                    )

    def check_records(self) -> Iterator[Finding]:
        """Compare the columns of all collections with `_doc`."""
        with open_readonly(self.data_dir / "mirror.db") as connection:
            for resource in list_mirrored_resources():
                if resource.table == LIVE_TABLE:
                    continue
                total, done = row_check.count_rows(connection, resource), 0
                start = row_check.sample_rowid(connection, resource) if self._is_sampled(total) else None
                position = start
                while limit := self._limit(done):
                    self.progress(resource.collection, done, total)
                    position, count, damaged = row_check.check_rows(connection, resource, position, limit)
                    done += count
                    for row in damaged:
                        name = f"row {row.rowid}" if resource.key is None else f"record {row.key}"
                        yield Finding(
                            f"mirror.db: {name} of {resource.collection}: {row.fault}",
                            ["record", resource.collection, row.rowid],
                        )
                    if position is None:
                        break

    def check_events(self) -> Iterator[Finding]:
        """Compare the call events in mirror.db with their hashes."""
        with open_readonly(self.data_dir / "mirror.db") as connection:
            total, done = self._count(connection, "_leg_events"), 0
            position: tuple[str, str] | None = ("", "")
            if self._is_sampled(total):
                position = self._random_event(connection)
            while position is not None and (limit := self._limit(done)):
                self.progress("events", done, total)
                position, count, changed = body_check.check_events(connection, position, limit)
                done += count
                for event in changed:
                    yield Finding(
                        f"mirror.db: event {event.event_id} of leg {event.leg_id} differs from its webhook",
                        advice=REBUILD_ADVICE,
                    )

    def check_calls(self, sampled_legs: int | None) -> Iterator[Finding]:
        """Compute calls from their facts and compare them with the stored calls.

        `sampled_legs`: maximum number of legs; None computes all calls, and those of CDRs without a leg.
        """
        with open_readonly(self.data_dir / "mirror.db") as connection:
            total, done = self._count(connection, "_legs"), 0
            reported: set[int] = set()
            for batch in self._list_legs(connection, total, sampled_legs):
                self.progress("calls", done, total)
                for leg_id, fault in sorted(self._compare_calls(connection, batch).items()):
                    if leg_id not in reported:
                        reported.add(leg_id)
                        yield Finding(f"mirror.db: call of leg {leg_id}: {fault}", ["call", leg_id])
                done += len(batch)

    def check_derived(self, *, sampled: bool) -> Iterator[Finding]:
        """Compute derived rows from their sources and compare them with the stored rows."""
        with open_readonly(self.data_dir / "mirror.db") as connection:
            for done, derived in enumerate(DERIVED):
                self.progress(derived.title, done, len(DERIVED))
                for low, high in rebuild.find_differences(connection, derived, self.rules, sampled=sampled):
                    yield Finding(
                        f"mirror.db: {derived.title}: {derived.unit} {low} to {high} have other rows",
                        ["derived", derived.name, low, high],
                    )

    def _compare_calls(self, connection: sqlite3.Connection, leg_ids: list[int]) -> dict[int, str]:
        def read() -> dict[int, str]:
            directory = self.call_store.load_verified_directory(connection)
            return (
                {} if directory is None else self.call_store.find_differences(connection, leg_ids, directory)
            )

        connection.execute("BEGIN")
        try:
            return read_tolerantly(connection, read)
        finally:
            connection.execute("ROLLBACK")

    def _list_legs(
        self, connection: sqlite3.Connection, total: int, sampled_legs: int | None
    ) -> Iterator[list[int]]:
        if sampled_legs is not None and total > sampled_legs:
            for _ in range(-(-sampled_legs // LEGS_PER_BATCH)):
                yield self._fetch_ids(
                    connection,
                    "SELECT leg_id FROM _legs WHERE leg_id >="
                    " (SELECT min(leg_id) + abs(random() % (max(leg_id) - min(leg_id) + 1)) FROM _legs)"
                    " ORDER BY leg_id LIMIT ?",
                    LEGS_PER_BATCH,
                )
            return
        for sql in (
            "SELECT leg_id FROM _legs WHERE leg_id > ? ORDER BY leg_id LIMIT ?",
            "SELECT DISTINCT live_id FROM cdrs WHERE live_id > ? AND typeof(live_id) = 'integer'"
            " AND NOT EXISTS (SELECT 1 FROM _legs WHERE leg_id = cdrs.live_id) ORDER BY live_id LIMIT ?",
        ):
            position = 0
            while batch := self._fetch_ids(connection, sql, position, LEGS_PER_BATCH):
                yield batch
                position = batch[-1]

    def _limit(self, done: int) -> int:
        """Return the number of rows of the next read.

        0 at the end of a sample.
        """
        return BATCH_SIZE if self.sample_size is None else min(BATCH_SIZE, max(0, self.sample_size - done))

    def _is_sampled(self, total: int) -> bool:
        return self.sample_size is not None and total > self.sample_size

    def _sample_start(self, connection: sqlite3.Connection, table: str, key: str, total: int) -> int:
        if not self._is_sampled(total):
            return 0
        (start,) = self._fetch_ids(
            connection,
            f"SELECT min({key}) + abs(random() % (max({key}) - min({key}) + 1)) - 1 FROM {table}",  # noqa: S608
        )
        return start

    @staticmethod
    def _random_event(connection: sqlite3.Connection) -> tuple[str, str]:
        # The ids of events contain their time. A random leg is a random time.
        row = connection.execute(
            "SELECT event_id FROM _leg_events WHERE leg_id >="
            " (SELECT min(leg_id) + abs(random() % (max(leg_id) - min(leg_id) + 1)) FROM _leg_events)"
            " ORDER BY leg_id LIMIT 1"
        ).fetchone()
        return ("" if row is None else row[0], "")

    @staticmethod
    def _count(connection: sqlite3.Connection, table: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608

    @staticmethod
    def _fetch_ids(connection: sqlite3.Connection, sql: str, *parameters: int) -> list[int]:
        return [row[0] for row in connection.execute(sql, parameters)]
