"""Prepares large files in the background, one after another, and keeps them for a while.

XLSX and Parquet have no first byte before their last row is written: beyond MANY rows nobody waits for that
in front of a browser.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import IO, Any

from flask import Flask

from integration.access import people, rights
from integration.access.people import Person
from integration.context import House
from integration.core import clock
from integration.core.errors import QueryError, SwitchroomError
from integration.exports import export_request as asking
from integration.exports import prepared_exports
from integration.exports.formats import parquet, xlsx
from integration.exports.prepared_exports import Prepared
from integration.exports.query import Sheet, Stream
from integration.exports.selection import Selection

log = logging.getLogger(__name__)

EXTENSION = "switchroom prepared exports"
MANY = 50_000
"""Rows beyond which a file is prepared."""
FORMS = ("xlsx", "parquet")
EVERY_SECONDS = 60.0
MOST_BEGUN = 3
"""So often one is begun. What ends the process each time is not begun for ever."""
LEAST_FREE = 2 * 10**9
"""Bytes that are always left free, as by the archive (interface.md §2, recordings.max_gb)."""
_NAME = re.compile(r"([0-9]{1,18})\.(xlsx|parquet)(\.part)?")


class Ended(SwitchroomError):
    """It is not wanted any more: cancelled, or the product stops."""


class Preparer:
    """One per running product. `run()` looks after what is asked for and what is kept; returns at once."""

    def __init__(self, parts: House) -> None:
        self._parts = parts
        self._folder = parts.settings.storage.data_dir / "prepared"
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._stopping = False
        self._written: dict[int, int] = {}
        self._cancelled: set[int] = set()
        self.wake: Callable[[], None] = self.run
        """Called when something was asked for."""

    # --- asked by routes ---------------------------------------------------------------------------

    def written(self, one: Prepared) -> int:
        """Rows of it that are written so far."""
        return self._written.get(one.id, 0) if one.under_way else one.rows or 0

    def path(self, one: Prepared) -> Path:
        return self._folder / f"{one.id}.{one.form}"

    def kept_until(self, one: Prepared) -> str | None:
        """UTC text; None while there is no file."""
        ended = clock.parse_stamp(one.ended_at)
        if one.state != "done" or ended is None:
            return None
        return clock.stamp(ended + timedelta(days=self._parts.settings.exports.keep_days))

    def cancel(self, one: Prepared) -> None:
        """End it if it is under way, else remove its file."""
        if one.under_way and prepared_exports.cancel(self._parts.house, one.id):
            self._cancelled.add(one.id)
            return
        self._remove(one)

    def drop_all(self) -> int:
        """End what is under way and remove every file; returns how many of both."""
        with self._parts.house.read() as connection:
            every = prepared_exports.in_states(connection, "waiting", "running", "done")
        for one in every:
            self.cancel(one)
        return len(every)

    # --- asked by the product ----------------------------------------------------------------------

    def run(self) -> None:
        """Raises what ended the work of the last time; the next time it begins again."""
        with self._lock:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            if self._thread is None and not self._stopping:
                self._sweep()
                self._make_room()
                if self._next() is not None:
                    self._thread = threading.Thread(target=self._work, name="prepared exports", daemon=True)
                    self._thread.start()

    def stop(self, seconds: float = 0.5) -> None:
        """End what is under way; the next start begins it again."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    # --- inside ------------------------------------------------------------------------------------

    def _next(self) -> Prepared | None:
        with self._parts.house.read() as connection:
            return next(iter(prepared_exports.in_states(connection, "running", "waiting")), None)

    def _work(self) -> None:
        try:
            while (one := self._take()) is not None:
                self._prepare(one)
                self._make_room()
        except Exception as error:  # noqa: BLE001 – the next look's to tell: nobody waits for this thread
            with self._lock:
                self._thread, self._failure = None, error

    def _take(self) -> Prepared | None:
        """The next one. None ends the thread, and whatever is asked for from then on begins another."""
        with self._lock:
            one = None if self._stopping else self._next()
            if one is None:
                self._thread = None
            return one

    def _prepare(self, one: Prepared) -> None:
        house = self._parts.house
        if one.begun >= MOST_BEGUN:
            prepared_exports.failed(house, one.id, f"begun {MOST_BEGUN} times, and cut off each time")
            return
        if not prepared_exports.begin(house, one.id):
            return
        self._written[one.id] = 0
        part = self.path(one).with_name(f"{one.id}.{one.form}.part")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with part.open("wb") as file:
                rows = self._write(one, file)
            size = part.stat().st_size
            if size > self._budget:
                raise QueryError(f"{size / 1e9:,.1f} GB are more than exports.max_gb")
            part.replace(self.path(one))
            if not prepared_exports.done(house, one.id, rows, size):
                self.path(one).unlink(missing_ok=True)
        except Ended:
            log.info("export %d ends early", one.id)
        except (QueryError, rights.NotAllowed) as error:
            prepared_exports.failed(house, one.id, str(error))
        except Exception as error:
            # Nobody waits for this thread: without this the page would show it running for ever.
            log.exception("export %d", one.id)
            text = error.strerror if isinstance(error, OSError) else type(error).__name__
            prepared_exports.failed(house, one.id, f"{text}; the log says more")
        finally:
            part.unlink(missing_ok=True)
            self._written.pop(one.id, None)
            self._cancelled.discard(one.id)

    def _write(self, one: Prepared, file: IO[bytes]) -> int:
        """As whoever asked may have it now; returns the rows."""
        person = owner_of(self._parts, one)
        chosen, _ = asking.named(one.export)
        if person is not None:
            agents_see = self._parts.settings.dashboard.agents_see
            if rights.only_of(person, chosen, one.form, agents_see) != one.only_user:
                raise rights.NotAllowed("What you may see has changed since you asked; ask again")
        found = asking.selection(self._parts, one.export, one.args, one.only_user, person)
        return written(self._parts, found, one.form, file, partial(self._tell, one.id))

    def _tell(self, number: int, rows: int) -> None:
        self._written[number] = rows
        if self._stopping or number in self._cancelled:
            raise Ended
        if shutil.disk_usage(self._folder).free < LEAST_FREE:
            raise QueryError("the disk is nearly full; 2 GB are always left free")

    @property
    def _budget(self) -> float:
        return self._parts.settings.exports.max_gb * 1e9

    def _make_room(self) -> None:
        """Remove what was kept long enough, then the oldest beyond the budget."""
        with self._parts.house.read() as connection:
            kept = prepared_exports.in_states(connection, "done")
            ended = prepared_exports.in_states(connection, "failed", "cancelled")
        oldest = clock.stamp(clock.now() - timedelta(days=self._parts.settings.exports.keep_days))
        for one in [*ended, *kept]:
            if (one.ended_at or "") < oldest:
                self._remove(one)
        kept = [one for one in kept if (one.ended_at or "") >= oldest]
        while sum(one.bytes or 0 for one in kept) > self._budget:
            self._remove(kept.pop(0))

    def _sweep(self) -> None:
        """Remove files that nobody owns: a process ended while it wrote them, or a backup was restored."""
        with self._parts.house.read() as connection:
            known = {self.path(one).name for one in prepared_exports.in_states(connection, "done")}
        for path in self._folder.glob("*"):
            if _NAME.fullmatch(path.name) and path.name not in known:
                path.unlink(missing_ok=True)

    def _remove(self, one: Prepared) -> None:
        self.path(one).unlink(missing_ok=True)
        prepared_exports.forget(self._parts.house, one.id)


def owner_of(parts: House, one: Prepared) -> Person | None:
    """The person it is prepared for; None for a key. Raises NotAllowed for one who is gone."""
    if one.person_id is None:
        return None
    person = people.get(parts.house, one.person_id)
    if person is None:
        raise rights.NotAllowed(f"{one.who} is gone")
    return person


def written(parts: House, found: Selection, form: str, file: IO[bytes], tell: Callable[[int], None]) -> int:
    """Write the whole file; `tell` hears how many rows are written. Returns the rows. Raises QueryError."""

    def write(connection: Connection, sheet: Sheet) -> Iterator[bytes]:
        if form == "xlsx":
            xlsx.write(connection, _watched(sheet, tell), found, file)
        else:
            parquet.write(connection, _watched(sheet, tell), file)
        yield b""

    stream = Stream(parts.mirror.read, found, write)
    stream.begin()
    stream.close()
    return stream.rows


@dataclass(frozen=True, slots=True)
class _Watched(Sheet):
    tell: Callable[[int], object] = int

    def rows(self, connection: Connection, at_once: int = 2000) -> Iterator[list[tuple[Any, ...]]]:
        count = 0
        for batch in Sheet.rows(self, connection, at_once):
            yield batch
            count += len(batch)
            self.tell(count)


def _watched(sheet: Sheet, tell: Callable[[int], object]) -> Sheet:
    return _Watched(**{one.name: getattr(sheet, one.name) for one in fields(Sheet)}, tell=tell)


def preparer_of(app: Flask) -> Preparer | None:
    """The application's; None where nothing is prepared in the background."""
    found = app.extensions.get(EXTENSION)
    assert found is None or isinstance(found, Preparer)
    return found
