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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.access import audit
from integration.context import AppContext
from integration.core import clock
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.core.errors import StorageFull, SwitchroomError
from integration.core.number_variants import variants
from integration.maintenance import backup
from integration.maintenance.manifest import DATABASES
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.erasure_gate import LEGS_KEY
from integration.mirror.privacy.held_records import HeldRecords
from integration.privacy import copies, erasures, final_check, finder, holds
from integration.privacy.copies import CopyKind, DataCopy
from integration.privacy.finder import FoundData
from integration.privacy.holds import refresh_held
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.readers import open_readonly
from integration.sqlite.transaction import Transaction

MAX_PASSES = 3
"""Largest number of passes. The second finds data that arrived while the first began."""


@dataclass(frozen=True, slots=True)
class NumberReport:
    """Stored data of a number.

    `counts` and `held` are those of `FoundData`; `copies`: copies of the data folder with the number, with
    their kinds; `backups`: those that may contain it. `refusal` is the reason why the number cannot be
    erased, or None. `found_at`: UTC text.
    """

    e164: str
    counts: dict[str, int]
    held: dict[str, list[Any]]
    copies: dict[str, CopyKind]
    backups: list[str]
    refusal: str | None
    found_at: str

    @property
    def is_empty(self) -> bool:
        return not self.counts and not self.held and not self.copies


def report_number(settings: Settings, e164: str, on_step: Callable[[str], None]) -> NumberReport:
    """Find all data of a number. Read-only; can run while `serve` runs. Raises StorageError and OSError."""
    data_dir = settings.storage.data_dir
    on_step("databases")
    with open_snapshots(data_dir) as connections:
        held_records = refresh_held(connections["house.db"], connections["mirror.db"], HeldRecords())
        unfinished = erasures.list_unfinished_records(connections["house.db"])
        found = finder.find(connections, e164, held_records, unfinished)
    on_step("copies and backups")
    found_copies = [copy for copy in copies.find_copies(data_dir) if copy.contains_number(e164)]
    return NumberReport(
        e164,
        found.counts,
        found.held,
        {copy.get_name(data_dir): copy.kind for copy in found_copies if not copy.is_backup},
        list_backups(settings, found_copies),
        find_refusal(found, e164, held_records),
        clock.utc_text(),
    )


@contextmanager
def open_snapshots(data_dir: Path) -> Iterator[dict[str, sqlite3.Connection]]:
    """Open a read-only snapshot of each database, by name. Raises StorageError."""
    with ExitStack() as stack:
        connections = {name: stack.enter_context(open_readonly(data_dir / name)) for name in DATABASES}
        for connection in connections.values():
            connection.execute("BEGIN")
        yield connections


def find_refusal(found: FoundData, e164: str, held_records: HeldRecords) -> str | None:
    """Return why a number cannot be erased now; None if it can."""
    if e164 in held_records.numbers or found.held_legs:
        return f"{e164} or a call with it is under legal hold. Nothing was erased. Release the hold first."
    if found.own_number_tables:
        return (
            f"{e164} is a number of the account, listed in {', '.join(found.own_number_tables)}."
            " Nothing was erased. Remove the number there first."
        )
    if found.has_live_call:
        return f"A call with {e164} is in progress. Nothing was erased. Try again after the call has ended."
    return None


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
        return _Erasure(context, arguments, progress).run()
    finally:
        erasures.running.release()


def list_backups(settings: Settings, found_copies: list[DataCopy]) -> list[str]:
    """List the backups that may contain a number: those of `found_copies`, and all of the backup folder."""
    data_dir, destination = settings.storage.data_dir, backup.get_destination(settings)
    names = [copy.get_name(data_dir) for copy in found_copies if copy.is_backup]
    if destination.resolve().is_relative_to(data_dir.resolve()):
        return names
    return names + sorted(str(path) for path in destination.glob(backup.BACKUP_NAME_PATTERN))


class _Erasure:
    def __init__(self, context: AppContext, arguments: Arguments, progress: Progress) -> None:
        self._context, self._e164, self._progress = context, arguments["number"], progress
        self._who, self._address = arguments.get("who") or COMMAND_LINE, arguments.get("address", "")
        self._erasure_gate, self._held_records = context.erasure_gate, context.held_records
        self._app_db, self._data_dir = context.app_db, context.settings.storage.data_dir
        self._databases: tuple[Database, ...] = (context.app_db, context.mirror_db, context.inbox.database)

    def run(self) -> Result:
        holds.refresh(self._context)
        # First, because the search takes minutes in millions of records.
        self._check_space()
        found = self._find(include_unfinished=True)
        refusal = find_refusal(found, self._e164, self._held_records)
        if refusal is not None:
            self._audit("erasure refused", "a number", "legal hold, or in use")
            raise SwitchroomError(refusal)
        erasure_id = self._begin_erasure(found)
        removed, held = found.counts, found.held
        for _ in range(MAX_PASSES):
            self._erase(found)
            found = self._find()
            if not found.counts:
                break
            self._store_record_ids(found)
        # Notes of its calls are not found later: they need not contain the number.
        held |= {label: keys for label, keys in found.held.items() if len(keys) >= len(held.get(label, ()))}
        if removed_count := self._context.export_runner.remove_all():
            removed[erasures.REMOVED_EXPORTS] = removed_count
        removed_copies, held_copies, backups = self._remove_copies()
        if removed_copies:
            removed["copies of the data folder (removed)"] = len(removed_copies)
        for database in self._databases:
            self._progress(doing=f"rewriting {database.name}")
            database.run_exclusive(_vacuum_database)
        left = found.counts
        delivered, places = self._find_places([*held_copies, *backups])
        report = {
            "held": held,
            "possibly_left": places,
            "delivered": delivered,
            "removed_copies": [copy.get_name(self._data_dir) for copy in removed_copies],
            "held_copies": [copy.get_name(self._data_dir) for copy in held_copies],
            "backups": list_backups(
                self._context.settings, [copy for copy in backups if copy.contains_number(self._e164)]
            ),
        }
        self._app_db.write(lambda tx: erasures.finish(tx, erasure_id, removed, report) if not left else None)
        outcome = f"not all of it: {left}"
        if not left:
            outcome = f"{sum(removed.values()):,} records, files and log entries"
        if held or held_copies:
            outcome += f"; {sum(map(len, held.values())) + len(held_copies)} kept by legal holds"
        if places:
            outcome += f"; possibly left in {len(places)} places"
        self._audit("number erased", f"erasure {erasure_id}", outcome)
        return {"erasure": erasure_id, "removed": removed, "left": left, **report}

    def _audit(self, action: str, about: str, result: str) -> None:
        audit.record(self._app_db, self._who, action, about, result, address=self._address)

    def _remove_copies(self) -> tuple[list[DataCopy], list[DataCopy], list[DataCopy]]:
        """Delete copies with the number; return them, copies with held data, and backups, which stay."""
        removed, held, backups = [], [], []
        sql = "SELECT path FROM media WHERE last_error = ? AND path <> ''"
        with self._context.mirror_db.read() as connection:
            erased_paths = [row[0] for row in connection.execute(sql, (retention_rules.ERASED_REASON,))]
        for copy in copies.find_copies(self._data_dir):
            self._progress(doing=f"searching {copy.path.name}")
            has_erased_file = any((copy.path / path).exists() for path in erased_paths)
            if copy.is_backup:
                backups.append(copy)
            elif not has_erased_file and not copy.contains_number(self._e164):
                continue
            elif copy.has_held_data(self._held_records):
                held.append(copy)
            else:
                copy.delete()
                removed.append(copy)
        return removed, held, backups

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

    def _find(self, *, include_unfinished: bool = False) -> FoundData:
        """Search for the number; with `include_unfinished` also for records of an interrupted erasure."""
        self._progress(doing="reading all three databases")
        with ExitStack() as stack:
            connections = {
                database.name: stack.enter_context(database.read(full_scan=True))
                for database in self._databases
            }
            unfinished = (
                erasures.list_unfinished_records(connections["house.db"]) if include_unfinished else {}
            )
            return finder.find(connections, self._e164, self._held_records, unfinished)

    def _check_space(self) -> None:
        """Raise StorageFull without space for a VACUUM of the largest database."""
        needed_bytes = 2 * max(database.path.stat().st_size for database in self._databases)
        free_bytes = shutil.disk_usage(self._context.settings.storage.data_dir).free
        if free_bytes < needed_bytes:
            raise StorageFull(
                f"Rewriting the databases needs {needed_bytes / 1e9:,.1f} GB of free disk space, but only"
                f" {free_bytes / 1e9:,.1f} GB are free. Nothing was erased. Free disk space and try again."
            )

    def _begin_erasure(self, found: FoundData) -> int:
        number_variants, started_at = variants(self._e164), clock.utc_text()
        self._erasure_gate.create_key(self._data_dir)
        digests = [self._erasure_gate.digest(digits) for digits in number_variants]
        lengths = {len(digits) for digits in number_variants}
        erasure_id = self._context.app_db.write(
            lambda tx: erasures.begin(tx, started_at, self._who, digests, lengths)
        )
        self._erasure_gate.add(started_at, digests, lengths, ())
        self._store_record_ids(found)
        return erasure_id

    def _store_record_ids(self, found: FoundData) -> None:
        records = [(table, key) for table, keys in found.list_record_keys().items() for key in keys]
        records += [(LEGS_KEY, leg) for leg in found.legs]
        self._context.app_db.write(lambda tx: erasures.add_records(tx, records))
        self._erasure_gate.add("", (), (), records)

    def _erase(self, found: FoundData) -> None:
        context, mirror_db = self._context, self._context.mirror_db
        for database in (context.inbox.database, mirror_db, context.app_db):
            finder.erase_rows(
                database, found, self._e164, self._held_records, lambda label: self._progress(doing=label)
            )
        for kind in {kind for kind, _, _ in found.files}:
            files = [(record_id, path) for file_kind, record_id, path in found.files if file_kind == kind]
            retention_rules.remove_files(
                mirror_db, self._data_dir, kind, files, retention_rules.ERASED_REASON
            )
        rebuild_due(mirror_db, context.rules)
        mirror_db.write(_optimize_search_index)


def _vacuum_database(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _optimize_search_index(tx: Transaction) -> None:
    """Merge the search index. Until then it contains trigrams of removed texts."""
    tx.execute("INSERT INTO _calls_search (_calls_search) VALUES ('optimize')")
