"""`erase NUMBER`: find and erase all data of a telephone number.

The order is fixed. The erasure is recorded first, which activates the erasure gate. Data that arrives later,
or after the process was killed, is therefore stripped, and a repeat of the command completes the erasure:

    erasure recorded → webhooks → records, calls, files → notes, call-back items, logs → prepared exports →
    copies of data_dir → VACUUM of the databases → wide search of everything → done

Data under legal hold is left unchanged and listed.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.access import audit
from integration.catalogue.events import EVENT_FIELDS
from integration.context import AppContext
from integration.core import clock
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.core.errors import PlatformBroken, StorageFull, SwitchroomError
from integration.core.json_records import read_record_bytes
from integration.core.number_variants import ERASED, Finder, make_finder, variants
from integration.maintenance import backup
from integration.maintenance.manifest import DATABASES
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.privacy import erase_mirror
from integration.mirror.privacy.erasure_gate import (
    LEGS_KEY,
    strip_record,
)
from integration.mirror.privacy.held_records import HeldRecords
from integration.privacy import copies, erase_app, erasures, final_check, holds
from integration.privacy.copies import DataCopy
from integration.privacy.traces import Traces, find_traces
from integration.settings.data_dir_secrets import load_erasure_key
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.readers import open_readonly

MAX_PASSES = 3
"""Largest number of passes. The second finds data that arrived while the first began."""


class ErasureRefused(SwitchroomError):
    """Refusal of an erasure.

    Reasons: a legal hold, a number of the account, or a live call.
    """


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
        held_records = refresh_held(app_connection, mirror_connection, HeldRecords())
        traces = find_traces(mirror_connection, inbox_connection, app_connection, e164, held_records)
        return traces, find_refusal(traces, e164, held_records)


def find_refusal(traces: Traces, e164: str, held_records: HeldRecords) -> str | None:
    """Return why a number cannot be erased now; None if it can."""
    if e164 in held_records.numbers or traces.mirror_traces.held_legs:
        return f"{e164} or a call with it is under legal hold. Nothing was erased. Release the hold first."
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


@command("number.erase")
def erase(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Erase {number}, in E.164, for the actor {who}.

    Erasures do not run concurrently. The result has `removed` and `left` (numbers of entries by label),
    `held` (keys of data under legal hold, by label), `possibly_left` (places in which a wider search found
    the digits), and paths with the number: `removed_copies` and `held_copies` of data_dir, `backups`,
    `delivered` (exports).
    """
    if not erasures.running.acquire(blocking=False):
        raise SwitchroomError("Another erasure is running. Try again after it has finished.")
    try:
        return _Erasure(context, arguments["number"], arguments.get("who") or COMMAND_LINE, progress).run()
    finally:
        erasures.running.release()


def list_backups(settings: Settings, e164: str) -> list[str]:
    """List the backups that may contain the number.

    They are those of the backup folder, and those anywhere in data_dir that contain it. Raises OSError.
    """
    data_dir, destination = settings.storage.data_dir, backup.get_destination(settings)
    names = [
        str(copy.path.relative_to(data_dir))
        for copy in copies.find_copies(data_dir)
        if copy.is_backup and copy.contains_number(e164)
    ]
    if destination.resolve().is_relative_to(data_dir.resolve()):
        return names
    return names + sorted(str(path) for path in destination.glob(backup.BACKUP_NAME_PATTERN))


@dataclass(slots=True)
class _Copies:
    removed: list[DataCopy] = field(default_factory=list)
    held: list[DataCopy] = field(default_factory=list)
    backups: list[DataCopy] = field(default_factory=list)


class _Erasure:
    def __init__(self, context: AppContext, e164: str, who: str, progress: Progress) -> None:
        self._context, self._e164, self._who, self._progress = context, e164, who, progress
        self._erasure_gate, self._held_records = context.erasure_gate, context.held_records
        self._finder: Finder[Any] = make_finder([e164])
        self._app_db, self._data_dir = context.app_db, context.settings.storage.data_dir
        self._databases: tuple[Database, ...] = (context.app_db, context.mirror_db, context.inbox.database)

    def run(self) -> Result:
        with (
            self._context.app_db.read() as app_connection,
            self._context.mirror_db.read() as mirror_connection,
        ):
            refresh_held(app_connection, mirror_connection, self._held_records)
        # First, because the search takes minutes in millions of records.
        self._check_space()
        traces = self._find_traces(include_unfinished=True)
        refusal = find_refusal(traces, self._e164, self._held_records)
        if refusal is not None:
            audit.record(self._app_db, self._who, "erasure refused", "a number", "legal hold, or in use")
            raise ErasureRefused(refusal)
        erasure_id = self._begin_erasure(traces)
        removed, held = traces.counts, traces.held
        for _ in range(MAX_PASSES):
            self._remove_traces(traces)
            traces = self._find_traces()
            if traces.is_empty:
                break
            self._store_record_ids(traces)
        # Notes of its calls are not found later: they need not contain the number.
        held |= {label: keys for label, keys in traces.held.items() if len(keys) >= len(held.get(label, ()))}
        if removed_count := self._context.export_runner.remove_all():
            removed["prepared exports (removed)"] = removed_count
        all_copies = self._remove_copies()
        if all_copies.removed:
            removed["copies of the data folder (removed)"] = len(all_copies.removed)
        self._vacuum_databases()
        left = traces.counts
        delivered, places = self._find_places([*all_copies.held, *all_copies.backups])
        report = {
            "held": held,
            "possibly_left": places,
            "delivered": delivered,
            "removed_copies": self._name(all_copies.removed),
            "held_copies": self._name(all_copies.held),
            "backups": list_backups(self._context.settings, self._e164),
        }
        self._app_db.write(lambda tx: erasures.finish(tx, erasure_id, removed, report) if not left else None)
        outcome = f"{sum(removed.values()):,} places" if not left else f"not all of it: {left}"
        if held or all_copies.held:
            outcome += f"; {sum(map(len, held.values())) + len(all_copies.held)} kept by legal holds"
        if places:
            outcome += f"; possibly left in {len(places)} places"
        audit.record(self._app_db, self._who, "number erased", f"erasure {erasure_id}", outcome)
        return {"erasure": erasure_id, "removed": removed, "left": left, **report}

    def _remove_copies(self) -> _Copies:
        """Delete copies with the number, except backups and held copies."""
        found = _Copies()
        erased_paths = self._list_erased_paths()
        for copy in copies.find_copies(self._data_dir):
            self._progress(doing=f"searching {copy.path.name}")
            has_erased_file = any((copy.path / path).exists() for path in erased_paths)
            if copy.is_backup:
                found.backups.append(copy)
            elif not has_erased_file and not copy.contains_number(self._e164):
                continue
            elif copy.has_held_data(self._held_records):
                found.held.append(copy)
            else:
                copy.delete()
                found.removed.append(copy)
        return found

    def _list_erased_paths(self) -> list[str]:
        with self._context.mirror_db.read() as connection:
            return erase_mirror.list_erased_paths(connection)

    def _find_places(self, known_copies: list[DataCopy]) -> tuple[list[str], list[str]]:
        """Return delivered exports, and other places, that possibly contain the number."""
        places = final_check.find_places(
            self._databases,
            self._data_dir,
            self._e164,
            self._held_records,
            [copy.path for copy in known_copies],
            lambda step: self._progress(doing=step),
        )
        delivered = [place for place in places if place.startswith("exports/")]
        return delivered, [place for place in places if place not in delivered]

    def _name(self, found: list[DataCopy]) -> list[str]:
        return [str(copy.path.relative_to(self._data_dir)) for copy in found]

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
                self._held_records,
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
            lambda tx: erasures.begin(tx, started_at, self._who, digests, lengths)
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
        held_records = self._held_records
        erase_mirror.strip(context.mirror_db, mirror_traces, self._finder, context.call_store, held_records)
        erase_mirror.remove_files(context.mirror_db, context.settings.storage.data_dir, mirror_traces)
        rebuild_due(context.mirror_db, context.rules)
        context.mirror_db.write(erase_mirror.optimize_search_index)
        self._progress(doing="notes, call-back items, logs")
        context.app_db.write(lambda tx: erase_app.erase(tx, self._finder, traces.app_traces, held_records))

    def _strip_body(self, body: bytes) -> bytes:
        try:
            event = read_record_bytes(body)
            return strip_record(event, EVENT_FIELDS, self._finder.contains_number).text.encode()
        except PlatformBroken:
            return self._finder.replace_numbers_in_bytes(body, ERASED)

    def _vacuum_databases(self) -> None:
        for database in self._databases:
            self._progress(doing=f"rewriting {database.name}")
            database.run_exclusive(_vacuum_database)


def _vacuum_database(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
