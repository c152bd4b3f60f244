"""`erase NUMBER`: find and erase all data of a telephone number.

The order is fixed. The erasure is recorded first, which activates the erasure gate. Data that arrives later,
or after the process was killed, is therefore stripped, and a repeat of the command completes the erasure:

    erasure recorded → webhooks → records, calls, files → notes, call-back items, logs → prepared exports →
    VACUUM of the databases → search for remaining digits → done
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.access import audit
from integration.catalogue.events import EVENT_FIELDS
from integration.context import AppContext
from integration.core import clock
from integration.core.commands import Arguments, Progress, Result, command
from integration.core.errors import PlatformBroken, StorageFull, SwitchroomError
from integration.core.json_records import read_record
from integration.core.number_variants import Finder, compile_pattern, make_finder, variants
from integration.inbox import store as inbox_store
from integration.maintenance import backup
from integration.maintenance.manifest import DATABASES
from integration.mirror.page_queries import search_index
from integration.mirror.privacy import erase_mirror
from integration.mirror.privacy.erasure_gate import (
    LEGS_KEY,
    remove_number_from_bytes,
    strip_record,
)
from integration.mirror.privacy.held_records import HeldRecords
from integration.privacy import erase_app, erasures, holds
from integration.settings.data_dir_secrets import load_erasure_key
from integration.sqlite import damage, database_files
from integration.sqlite.database import Database
from integration.sqlite.readers import open_readonly

ACTOR = "command line"

MAX_PASSES = 3
"""Largest number of passes. The second finds data that arrived while the first began."""

TABLE_LABELS = {
    "cdrs": "CDRs",
    "monitors": "recordings",
    "voicemessages": "voicemail messages",
    "sms": "SMS",
    "faxes": "faxes",
    "contacts": "contacts (removed)",
}
"""Labels of tables in the result of `erase`."""


class ErasureRefused(SwitchroomError):
    """Refusal of an erasure.

    Reasons: a legal hold, a number of the account, or a live call.
    """


@dataclass(slots=True)
class Traces:
    """Data of one number.

    `app_counts` has the numbers of entries in house.db by label.
    """

    mirror_traces: erase_mirror.ErasureMatches
    webhook_seqs: list[int]
    app_counts: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of entries by label, without zeros."""
        rows = {TABLE_LABELS.get(table, table): len(keys) for table, keys in self.mirror_traces.rows.items()}
        counts = {
            "calls": len(self.mirror_traces.calls),
            **rows,
            "files (removed)": len(self.mirror_traces.files),
            "webhooks as received": len(self.webhook_seqs),
            "call events of webhooks and polls": self.mirror_traces.event_count,
            "other rows of mirror.db": self.mirror_traces.other_row_count,
            **self.app_counts,
        }
        return {label: number for label, number in counts.items() if number}


def find_traces(
    mirror_connection: sqlite3.Connection,
    inbox_connection: sqlite3.Connection,
    app_connection: sqlite3.Connection,
    e164: str,
    *,
    include_unfinished: bool = True,
) -> Traces:
    """Search all three databases for data of a number. Changes nothing.

    With `include_unfinished` the result includes the records of an interrupted erasure.
    """
    finder_of_number = make_finder([e164])
    mirror_traces = erase_mirror.find(
        mirror_connection,
        finder_of_number,
        e164,
        erasures.list_unfinished_records(app_connection) if include_unfinished else {},
    )
    webhook_seqs = inbox_store.find_mentions(
        inbox_connection, finder_of_number.contains_number, frozenset(mirror_traces.legs)
    )
    return Traces(
        mirror_traces,
        webhook_seqs,
        erase_app.find(
            app_connection, finder_of_number, e164, mirror_traces.legs, frozenset(mirror_traces.calls)
        ),
    )


def preview(data_dir: Path, e164: str) -> tuple[Traces, str | None]:
    """Return the data of a number, and the reason for a refusal.

    The reason is None if the number can be erased. Read-only; can run while `serve` runs. Raises
    StorageError.
    """
    with ExitStack() as stack:
        app_connection, mirror_connection, inbox_connection = (
            stack.enter_context(open_readonly(data_dir / name)) for name in DATABASES
        )
        for connection in (app_connection, mirror_connection, inbox_connection):
            connection.execute("BEGIN")
        traces = find_traces(mirror_connection, inbox_connection, app_connection, e164)
        return traces, find_refusal(
            traces, e164, refresh_held(app_connection, mirror_connection, HeldRecords())
        )


def find_refusal(traces: Traces, e164: str, held_records: HeldRecords) -> str | None:
    """Return why a number cannot be erased now; None if it can."""
    if e164 in held_records.numbers or held_records.legs.intersection(traces.mirror_traces.legs):
        return (
            f"{e164} or a call with it is under legal hold. Nothing was erased."
            " `switchroom hold --list` lists the holds."
        )
    if traces.mirror_traces.own_number_tables:
        return (
            f"{e164} is a number of the account, listed in"
            f" {', '.join(traces.mirror_traces.own_number_tables)}. Nothing was erased."
            " Remove the number there first."
        )
    if traces.mirror_traces.has_live_call:
        return f"A call with {e164} is in progress. Nothing was erased. Try again after the call has ended."
    return None


def refresh_held(
    app_connection: sqlite3.Connection, mirror_connection: sqlite3.Connection, held_records: HeldRecords
) -> HeldRecords:
    """Reload `held_records` with the legal holds of house.db, and return it."""
    all_holds = holds.list_all(app_connection)
    held_records.load(
        mirror_connection,
        [hold.what for hold in all_holds if hold.kind == "number"],
        [int(hold.what) for hold in all_holds if hold.kind == "call"],
    )
    return held_records


_erasure_lock = threading.Lock()


@command("number.erase")
def erase(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Erase {number}, in E.164. Erasures do not run concurrently.

    The result has `removed` (numbers of entries by label), `left` (numbers of places that still contain the
    digits, by database file) and `backups` (names of existing backups and of damaged
    databases that were put aside, which may contain the number).
    """
    if not _erasure_lock.acquire(blocking=False):
        raise SwitchroomError("Another erasure is running. Try again after it has finished.")
    try:
        return _Erasure(context, arguments["number"], progress).run()
    finally:
        _erasure_lock.release()


class _Erasure:
    def __init__(self, context: AppContext, e164: str, progress: Progress) -> None:
        self._context, self._e164, self._progress = context, e164, progress
        self._erasure_gate, self._held_records = context.erasure_gate, context.held_records
        self._finder: Finder[Any] = make_finder([e164])
        self._databases: tuple[Database, ...] = (context.app_db, context.mirror_db, context.inbox.database)

    def run(self) -> Result:
        traces = self._find_traces(include_unfinished=True)
        with (
            self._context.app_db.read() as app_connection,
            self._context.mirror_db.read() as mirror_connection,
        ):
            refusal = find_refusal(
                traces, self._e164, refresh_held(app_connection, mirror_connection, self._held_records)
            )
        if refusal is not None:
            audit.record(self._context.app_db, ACTOR, "erasure refused", "a number", "legal hold, or in use")
            raise ErasureRefused(refusal)
        self._check_space()
        erasure_id = self._begin_erasure(traces)
        removed = traces.counts
        for _ in range(MAX_PASSES):
            self._remove_traces(traces)
            traces = self._find_traces()
            if traces.mirror_traces.is_empty and not traces.webhook_seqs and not traces.app_counts:
                break
            self._store_record_ids(traces)
        if removed_count := self._context.remove_prepared_exports():
            removed["prepared exports (removed)"] = removed_count
        self._vacuum_databases()
        remaining = self._count_remaining()
        self._context.app_db.write(
            lambda tx: erasures.finish(tx, erasure_id, removed) if not remaining else None
        )
        audit.record(
            self._context.app_db, ACTOR, "number erased", f"erasure {erasure_id}",
            f"{sum(removed.values()):,} places" if not remaining else f"not all of it: {remaining}",
        )  # fmt: skip
        backups = [
            path.name
            for path in sorted(
                backup.get_destination(self._context.settings).glob(backup.BACKUP_NAME_PATTERN)
            )
        ]
        backups += [path.name for path in damage.list_put_aside(self._context.settings.storage.data_dir)]
        return {"erasure": erasure_id, "removed": removed, "left": remaining, "backups": backups}

    def _find_traces(self, *, include_unfinished: bool = False) -> Traces:
        context = self._context
        self._progress(doing="reading all three databases")
        with (
            context.mirror_db.read(full_scan=True) as mirror_connection,
            context.inbox.database.read(full_scan=True) as inbox_connection,
            context.app_db.read() as app_connection,
        ):
            return find_traces(
                mirror_connection,
                inbox_connection,
                app_connection,
                self._e164,
                include_unfinished=include_unfinished,
            )

    def _check_space(self) -> None:
        """Raise StorageFull without space for a VACUUM of the largest database."""
        needed_bytes = 2 * max(database.path.stat().st_size for database in self._databases)
        free_bytes = shutil.disk_usage(self._context.settings.storage.data_dir).free
        if free_bytes < needed_bytes:
            raise StorageFull(
                f"Rewriting the databases needs {needed_bytes / 1e9:,.1f} GB of free disk space, but only"
                f" {free_bytes / 1e9:,.1f} GB are free. Nothing was erased. Free disk space and try again."
            )

    def _begin_erasure(self, traces: Traces) -> int:
        number_variants, started_at = variants(self._e164), clock.utc_text()
        if not self._erasure_gate.has_key:
            key = load_erasure_key(self._context.settings.storage.data_dir, create=True)
            assert key is not None
            self._erasure_gate.set_key(key)
        digests = [self._erasure_gate.digest(digits) for digits in number_variants]
        lengths = {len(digits) for digits in number_variants}
        erasure_id = self._context.app_db.write(
            lambda tx: erasures.begin(tx, started_at, ACTOR, digests, lengths)
        )
        self._erasure_gate.add(started_at, digests, lengths, ())
        self._store_record_ids(traces)
        self._erasure_gate.install(self._context.mirror_db)
        self._context.inbox.redact = self._erasure_gate.filter_webhook
        return erasure_id

    def _store_record_ids(self, traces: Traces) -> None:
        records = [(table, key) for table, keys in traces.mirror_traces.rows.items() for key in keys]
        records += [(LEGS_KEY, leg) for leg in traces.mirror_traces.legs]
        self._context.app_db.write(lambda tx: erasures.add_records(tx, records))
        self._erasure_gate.add("", (), (), records)

    def _remove_traces(self, traces: Traces) -> None:
        context, mirror_traces = self._context, traces.mirror_traces
        self._progress(doing="webhooks")
        context.inbox.rewrite_bodies(traces.webhook_seqs, self._strip_body)
        self._progress(doing="records")
        erase_mirror.strip(context.mirror_db, mirror_traces, self._finder, context.call_store)
        erase_mirror.remove_files(context.mirror_db, context.settings.storage.data_dir, mirror_traces)
        search_index.index_all_due(context.mirror_db)
        context.mirror_db.write(erase_mirror.optimize_search_index)
        self._progress(doing="notes, call-back items, logs")
        calls = frozenset(mirror_traces.calls)
        context.app_db.write(
            lambda tx: erase_app.erase(tx, self._finder, self._e164, mirror_traces.legs, calls)
        )

    def _strip_body(self, body: bytes) -> bytes:
        try:
            event = read_record(body.decode("utf-8-sig"))
            return strip_record(event, EVENT_FIELDS, self._finder.contains_number).text.encode()
        except (UnicodeDecodeError, PlatformBroken):
            return remove_number_from_bytes(body, self._finder)

    def _vacuum_databases(self) -> None:
        for database in self._databases:
            self._progress(doing=f"rewriting {database.name}")
            database.run_exclusive(_vacuum_database)

    def _count_remaining(self) -> dict[str, int]:
        digit_pattern = compile_pattern(self._e164)
        remaining: dict[str, int] = {}
        for database in self._databases:
            for path in (database.path, database.path.with_name(f"{database.name}-wal")):
                if count := database_files.count_matches(path, digit_pattern):
                    remaining[path.name] = count
        return remaining


def _vacuum_database(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
