"""`erase NUMBER`: finds all that tells of a number, and takes it out of everything.

The order is fixed. What keeps the number out from now on is written down first; so whatever arrives, and
whenever this is killed, nothing comes back, and the same command again does the rest:

    noted → webhooks → records, calls, files → notes, call-back items, logs → prepared exports → files of the
    databases, each written anew → read again for anything left → done
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.access import audit
from integration.context import House
from integration.core import clock
from integration.core.errors import PlatformBroken, StorageFull, SwitchroomError
from integration.core.json_records import read_object
from integration.core.number_variants import Finder, finder, pattern, spellings
from integration.inbox import store as inbox_store
from integration.maintenance import backup
from integration.maintenance.manifest import DATABASES
from integration.mirror.page_queries import search_index as search
from integration.mirror.privacy import erase_mirror as erasing
from integration.mirror.privacy.erasure_gate import LEGS, Erased, stripped, unreadable
from integration.mirror.privacy.held_records import Held
from integration.privacy import erase_app as house_erasing
from integration.privacy import erasures, holds
from integration.server.control_channel import Arguments, Handler, Progress, Result
from integration.settings.data_dir_secrets import erasure_key
from integration.sqlite import database_files
from integration.sqlite.database import Database

ERASE = "erase"
WHO = "command line"

ROUNDS = 3
"""What was on its way when the first began is found by the second."""

WORDS = {
    "cdrs": "CDRs",
    "monitors": "recordings",
    "voicemessages": "voicemail messages",
    "sms": "SMS",
    "faxes": "faxes",
    "contacts": "contacts (removed)",
}


class UnderHold(SwitchroomError):
    """Nothing was erased: somebody's hold forbids it."""


@dataclass(slots=True)
class Traces:
    """All that was found of one number. `seqs` are webhooks; `house` counts what only we know, in words."""

    mirror: erasing.Found
    seqs: list[int]
    house: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """For people: what, and how many; nothing that there is none of."""
        rows = {WORDS.get(table, table): len(keys) for table, keys in self.mirror.rows.items()}
        found = {
            "calls": len(self.mirror.calls),
            **rows,
            "files (removed)": len(self.mirror.files),
            "webhooks as received": len(self.seqs),
            "what webhooks and polls told": self.mirror.told,
            "other rows of mirror.db": self.mirror.elsewhere,
            **self.house,
        }
        return {what: number for what, number in found.items() if number}


def look(
    mirror: sqlite3.Connection,
    inbox: sqlite3.Connection,
    house: sqlite3.Connection,
    e164: str,
    *,
    repeated: bool = True,
) -> Traces:
    """Read all three databases for traces of a number. `repeated`: what an erasure that was broken off has
    left is among them. Changes nothing."""
    wanted = finder([e164])
    found = erasing.find(mirror, wanted, e164, erasures.unfinished(house) if repeated else {})
    seqs = inbox_store.naming(inbox, wanted.names, frozenset(found.legs))
    return Traces(found, seqs, house_erasing.find(house, wanted, e164, found.legs, frozenset(found.calls)))


def survey(data_dir: Path, e164: str) -> tuple[Traces, str | None]:
    """What there is of a number, and why it may not be erased now, beside whoever writes. Raises
    StorageError."""
    with ExitStack() as stack:
        house, mirror, inbox = (
            stack.enter_context(database_files.look_at(data_dir / name)) for name in DATABASES
        )
        for connection in (house, mirror, inbox):
            connection.execute("BEGIN")
        traces = look(mirror, inbox, house, e164)
        return traces, refusal(traces, e164, held_now(house, mirror, Held()))


def refusal(traces: Traces, e164: str, held: Held) -> str | None:
    """Why it may not be erased now; None where it may."""
    if e164 in held.numbers or held.legs.intersection(traces.mirror.legs):
        return (
            f"{e164} is under legal hold, or a call with it is: `switchroom hold --list`; nothing was erased"
        )
    if traces.mirror.own:
        return (
            f"{e164} is a number of your own (it stands in {', '.join(traces.mirror.own)}); take it out there"
            " first; nothing was erased"
        )
    if traces.mirror.going_on:
        return f"a call with {e164} is going on; try again when it is over; nothing was erased"
    return None


def held_now(house: sqlite3.Connection, mirror: sqlite3.Connection, held: Held) -> Held:
    """`held`, as it is by house.db."""
    every = holds.all_of(house)
    held.look(
        mirror,
        [one.what for one in every if one.kind == "number"],
        [int(one.what) for one in every if one.kind == "call"],
    )
    return held


def handler(
    parts: House, erased: Erased, held: Held, drop_exports: Callable[[], int]
) -> Mapping[str, Handler]:
    """`erase` {number: E.164}. Its result: `removed` counts by kind, `left` places by database file that
    still have its digits, `backups` names that hold it still."""

    one_at_a_time = threading.Lock()

    def erase(arguments: Arguments, progress: Progress) -> Result:
        if not one_at_a_time.acquire(blocking=False):
            raise SwitchroomError("another number is being erased; try again when that is done")
        try:
            return _Erasing(parts, erased, held, drop_exports, arguments["number"], progress).run()
        finally:
            one_at_a_time.release()

    return {ERASE: erase}


class _Erasing:
    def __init__(
        self,
        parts: House,
        erased: Erased,
        held: Held,
        drop_exports: Callable[[], int],
        e164: str,
        progress: Progress,
    ) -> None:
        self._parts, self._erased, self._held, self._e164 = parts, erased, held, e164
        self._drop_exports = drop_exports
        self._progress = progress
        self._finder: Finder[Any] = finder([e164])
        self._databases: tuple[Database, ...] = (parts.house, parts.mirror, parts.inbox.database)

    def run(self) -> Result:
        traces = self._look(repeated=True)
        with self._parts.house.read() as house, self._parts.mirror.read() as mirror:
            why = refusal(traces, self._e164, held_now(house, mirror, self._held))
        if why is not None:
            audit.record(self._parts.house, WHO, "erasure refused", "a number", "legal hold, or in use")
            raise UnderHold(why)
        self._room()
        number = self._note(traces)
        removed = traces.counts
        for _ in range(ROUNDS):
            self._take_out(traces)
            traces = self._look()
            if traces.mirror.empty and not traces.seqs and not traces.house:
                break
            self._remember(traces)
        removed |= {"prepared exports (removed)": dropped} if (dropped := self._drop_exports()) else {}
        self._write_anew()
        left = self._left()
        self._parts.house.write(lambda tx: erasures.finish(tx, number, removed) if not left else None)
        audit.record(
            self._parts.house, WHO, "number erased", f"erasure {number}",
            f"{sum(removed.values()):,} places" if not left else f"not all of it: {left}",
        )  # fmt: skip
        backups = [path.name for path in sorted(backup.destination(self._parts.settings).glob(backup.NAMES))]
        return {"erasure": number, "removed": removed, "left": left, "backups": backups}

    def _look(self, *, repeated: bool = False) -> Traces:
        parts = self._parts
        self._progress(doing="reading all three databases")
        with (
            parts.mirror.read(whole=True) as mirror,
            parts.inbox.database.read(whole=True) as inbox,
            parts.house.read() as house,
        ):
            return look(mirror, inbox, house, self._e164, repeated=repeated)

    def _room(self) -> None:
        """Raises StorageFull where a database could not be written anew."""
        need = 2 * max(database.path.stat().st_size for database in self._databases)
        free = shutil.disk_usage(self._parts.settings.storage.data_dir).free
        if free < need:
            raise StorageFull(
                f"{need / 1e9:,.1f} GB of free disk are needed to write the databases anew, there are"
                f" {free / 1e9:,.1f}; nothing was erased"
            )

    def _note(self, traces: Traces) -> int:
        ways, at = spellings(self._e164), clock.stamp()
        if not self._erased.has_key:
            key = erasure_key(self._parts.settings.storage.data_dir, make=True)
            assert key is not None
            self._erased.set_key(key)
        digests = [self._erased.digest(digits) for digits in ways]
        lengths = {len(digits) for digits in ways}
        number = self._parts.house.write(lambda tx: erasures.begin(tx, at, WHO, digests, lengths))
        self._erased.add(at, digests, lengths, ())
        self._remember(traces)
        self._erased.guard(self._parts.mirror)
        self._parts.inbox.redact = self._erased.webhook
        return number

    def _remember(self, traces: Traces) -> None:
        records = [(table, key) for table, keys in traces.mirror.rows.items() for key in keys]
        records += [(LEGS, leg) for leg in traces.mirror.legs]
        self._parts.house.write(lambda tx: erasures.remember(tx, records))
        self._erased.add("", (), (), records)

    def _take_out(self, traces: Traces) -> None:
        parts, found = self._parts, traces.mirror
        self._progress(doing="webhooks")
        parts.inbox.rewrite(traces.seqs, self._body)
        self._progress(doing="records")
        erasing.strip(parts.mirror, found, self._finder, parts.calls)
        erasing.remove_files(parts.mirror, parts.settings.storage.data_dir, found)
        search.catch_up(parts.mirror)
        parts.mirror.write(erasing.tidy_index)
        self._progress(doing="notes, call-back items, logs")
        calls = frozenset(found.calls)
        parts.house.write(lambda tx: house_erasing.erase(tx, self._finder, self._e164, found.legs, calls))

    def _body(self, body: bytes) -> bytes:
        try:
            return stripped(read_object(body.decode("utf-8-sig")), self._finder.names).text.encode()
        except (UnicodeDecodeError, PlatformBroken):
            return unreadable(body, self._finder)

    def _write_anew(self) -> None:
        for database in self._databases:
            self._progress(doing=f"writing {database.name} anew")
            database.aside(_vacuum)

    def _left(self) -> dict[str, int]:
        wanted = pattern(self._e164)
        found: dict[str, int] = {}
        for database in self._databases:
            for path in (database.path, database.path.with_name(f"{database.name}-wal")):
                if number := database_files.count(path, wanted):
                    found[path.name] = number
        return found


def _vacuum(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
