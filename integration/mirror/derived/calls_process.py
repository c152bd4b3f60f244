"""A second process that computes calls for the writer of mirror.db.

Most of an initial sync is the computation of calls, and one process computes on one core. So the second one
computes the calls of the oldest legs, while the first computes those of the newest and writes both. It only
reads. Between its reading and the writing of a call other calls may be written: a call is written unless one
of them may share its legs. The legs of the others are then due again.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from integration.core import clock
from integration.core.errors import StorageError
from integration.core.phone_numbers import PhoneNumbers
from integration.core.process_memory import exempt_loaded_objects
from integration.mirror.calls.affected_legs import LEG_COLUMNS
from integration.mirror.calls.computed_calls import ComputedCalls
from integration.mirror.calls.joins import MAX_JOIN_SECONDS
from integration.mirror.calls.leg_view import ReferenceData
from integration.mirror.calls.reading import load_directory
from integration.mirror.calls.rules import CallRules
from integration.mirror.derived import contact_numbers, due
from integration.mirror.derived.calls import LEGS, compute_batch, split_legs, store_calls
from integration.mirror.derived.declaration import Range, Rules
from integration.sqlite.database import Database
from integration.sqlite.readers import open_readonly, read_tolerantly
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

MAX_REQUESTS = 3
"""Requests that are with the process at once: one is computed, one is written, one waits."""
LEGS_PER_REQUEST = 400
"""Legs of a request. Their calls are written in 10 ms, for which a webhook may have to wait."""
RESPONSE_SECONDS = 60.0
"""Seconds without a response after which the process is ended, once nothing else is left to do."""
NICENESS = 10
"""Priority of the process, below that of the first one, which receives webhooks and serves pages."""

_CALL, _ROOT, _PARENT, _KEY, _STARTED, _ROOM = map(
    LEG_COLUMNS.index, ("call_id", "root_id", "parent_id", "join_key", "started", "room")
)


class Request(NamedTuple):
    """Legs whose calls are to be computed. `now`: Unix seconds."""

    ranges: Sequence[Range]
    phone_country: str | None
    call_rules: CallRules
    now: float


def compute_response(connection: sqlite3.Connection, request: Request) -> list[ComputedCalls]:
    """Compute the calls of a request from one view of mirror.db."""

    def compute() -> list[ComputedCalls]:
        phone_numbers = _make_phone_numbers(request.phone_country)
        directory = load_directory(connection, phone_numbers)
        reference_data = ReferenceData(directory, phone_numbers, {}, request.call_rules)
        batches = split_legs(connection, request.ranges)
        return [compute_batch(connection, batch, reference_data, request.now) for batch in batches]

    connection.execute("BEGIN")
    try:
        return read_tolerantly(connection, compute)
    finally:
        connection.execute("ROLLBACK")


_make_phone_numbers = lru_cache(maxsize=1)(PhoneNumbers)


class WrittenLegs:
    """Legs that were written, by what connects other legs with them (docs/calls.md#joining-legs)."""

    def __init__(self, all_computed: Sequence[ComputedCalls]) -> None:
        self._ids = set[int]()
        self._ids_without_facts = set[int]()
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        self._rooms = set[str]()
        for computed in all_computed:
            self.add(computed)

    def add(self, computed: ComputedCalls) -> None:
        """Add legs, as they are and as they were."""
        self._ids_without_facts |= computed.ids_without_facts
        removed_ids = computed.ids_without_facts & computed.stored_leg_rows.keys()
        stored_rows = [computed.stored_leg_rows.get(id_) for id_ in (*computed.leg_rows, *removed_ids)]
        for row in filter(None, (*computed.leg_rows.values(), *stored_rows)):
            self._ids.update(filter(None, (row[0], row[_CALL], row[_ROOT], row[_PARENT])))
            if row[_KEY] is not None:
                self._starts[row[_KEY]].append(row[_STARTED])
            if row[_ROOM] is not None:
                self._rooms.add(row[_ROOM])

    def find_outdated(self, computed: ComputedCalls) -> set[int]:
        """Return the legs of calls that may be others, because they were computed without these legs."""
        ids = self._ids
        outdated_ids = {
            id_
            for id_, row in computed.leg_rows.items()
            if id_ in ids
            or row[_ROOT] in ids
            or row[_PARENT] in ids
            or (row[_KEY] in self._starts and self._is_near(row[_KEY], row[_STARTED]))
            or row[_ROOM] in self._rooms
        }
        outdated_ids |= computed.leg_rows.keys() & self._ids_without_facts
        outdated_ids |= computed.ids_without_facts & ids
        for call in computed.joined_calls if outdated_ids else ():
            if not outdated_ids.isdisjoint(call.leg_ids):
                outdated_ids.update(call.leg_ids)
        return outdated_ids

    def _is_near(self, key: str, started: int) -> bool:
        return any(abs(start - started) <= MAX_JOIN_SECONDS for start in self._starts[key])


class Channel(Protocol):
    """Way to the process that responds to requests, in their order."""

    def send(self, request: Request) -> None: ...

    def has_response(self, seconds: float) -> bool:
        """Wait for a response, or for the end of the process."""
        ...

    def receive(self) -> list[ComputedCalls]:
        """Return the next response. Raises EOFError if the process has ended."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Sent:
    """Request without a response. `written`: what may have been written since the process has read."""

    slot: int
    request: Request
    written: WrittenLegs


@dataclass
class RequestedCalls:
    """Requests of the writer, and the writing of their responses."""

    channel: Channel | None
    """None after the process has ended."""
    rules: Rules
    _sent: deque[_Sent] = field(default_factory=deque)
    _uncommitted: list[ComputedCalls] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        return bool(self._sent)

    def write_next(self, tx: Transaction) -> bool:
        """Write the calls of a response and send requests. Returns whether there was a response."""
        has_response = self.channel is not None and self.is_waiting and self.channel.has_response(0)
        if has_response:
            self._write_response(tx)
        while self.channel is not None and len(self._sent) < MAX_REQUESTS:
            slot = min({*range(1, MAX_REQUESTS + 1)} - {sent.slot for sent in self._sent})
            ranges = due.take_oldest(tx, LEGS, LEGS_PER_REQUEST, slot)
            if not ranges:
                break
            rules = self.rules
            request = Request(ranges, rules.phone_numbers.country, rules.calls, clock.unix())
            # The process may read before this transaction is committed.
            self._sent.append(_Sent(slot, request, WrittenLegs(self._uncommitted)))
            self.channel.send(request)
        return has_response

    def wait(self, should_continue: Callable[[], bool]) -> bool:
        """Wait for a response, on another thread than the writer's. Returns whether there is one."""
        deadline = clock.monotonic() + RESPONSE_SECONDS
        while self.channel is not None and should_continue():
            if self.channel.has_response(0.5):
                return True
            if clock.monotonic() > deadline:
                log.warning("the second process that computes calls does not respond; it is ended")
                break
        return False

    def record_written(self, tx: Transaction, computed: ComputedCalls) -> None:
        """Record calls that a transaction is about to write."""
        for sent in self._sent:
            sent.written.add(computed)
        self._uncommitted.append(computed)
        tx.after_commit(self._uncommitted.clear)

    def end(self, tx: Transaction) -> None:
        """End the process. The legs of requests without a response are due again."""
        if self.channel is not None:
            self.channel.close()
        self.channel = None
        self._sent.clear()
        due.take_back(tx, LEGS)

    def _write_response(self, tx: Transaction) -> None:
        assert self.channel is not None
        try:
            response = self.channel.receive()
        except (EOFError, OSError):
            log.warning("the second process that computes calls has ended; the first one continues alone")
            self.end(tx)
            return
        sent = self._sent.popleft()
        due.finish(tx, LEGS, sent.slot)
        if not all(_has_current_names(tx, computed) for computed in response):
            due.mark(tx, LEGS.name, sent.request.ranges)
            return
        for computed in response:
            outdated_ids = sent.written.find_outdated(computed)
            due.mark(tx, LEGS.name, [(id_, id_) for id_ in sorted(outdated_ids)])
            store_calls(tx, computed.without(outdated_ids), self.rules, sent.request.now)


def _has_current_names(tx: Transaction, computed: ComputedCalls) -> bool:
    """Return whether the contacts of the calls have the names that were found.

    A change of a name makes only calls due that are stored; one of the directory makes all calls due.
    """
    numbers = {row.party_e164 for row in computed.rows if row.party_e164 is not None}
    names = contact_numbers.find_names(tx.connection, numbers)
    return all(names.get(number) == computed.contact_names.get(number) for number in numbers)


@contextmanager
def open_process(mirror_db: Database, rules: Rules) -> Iterator[RequestedCalls | None]:
    """Run the process during the block. None on a computer with one core, or if another block has it."""
    if len(os.sched_getaffinity(0)) < 2 or not _process_lock.acquire(blocking=False):
        yield None
        return
    try:
        channel = _ProcessChannel(mirror_db.path)
    except OSError as error:
        _process_lock.release()
        log.warning("no second process computes calls: %s", error)
        yield None
        return
    requested_calls = RequestedCalls(channel, rules)
    rules.call_listeners.append(requested_calls.record_written)
    try:
        yield requested_calls
    finally:
        rules.call_listeners.remove(requested_calls.record_written)
        # If nothing can be written, `take_back` does it later.
        with suppress(StorageError):
            mirror_db.write(requested_calls.end)
        channel.close()
        _process_lock.release()


def take_back(mirror_db: Database) -> None:
    """Make due again what was requested of a process that has ended. Raises StorageError."""
    if not _process_lock.locked():
        mirror_db.write(lambda tx: due.take_back(tx, LEGS))


_process_lock = threading.Lock()


class _ProcessChannel:
    """Pipes to a process that runs `main`. A response begins with its size, in eight bytes."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", __name__, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def send(self, request: Request) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # `receive` finds that the process has ended.
            self._process.stdin.write(pickle.dumps(request))

    def has_response(self, seconds: float) -> bool:
        assert self._process.stdout is not None
        return bool(wait([self._process.stdout.fileno()], seconds))

    def receive(self) -> list[ComputedCalls]:
        size = int.from_bytes(self._read(8))
        response: list[ComputedCalls] = pickle.loads(self._read(size))
        return response

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        content = bytearray()
        while len(content) < size:
            part = self._process.stdout.read(size - len(content))
            if not part:
                raise EOFError
            content += part
        return bytes(content)


def main(path: Path, requests: BinaryIO, responses: BinaryIO) -> None:
    """Respond to requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the first one decides.
    with suppress(OSError):
        os.nice(NICENESS)
    exempt_loaded_objects()

    def send(content: bytes) -> None:
        responses.write(len(content).to_bytes(8) + content)
        responses.flush()

    # A pipe holds less than a response until the other process reads it, so a thread writes.
    with open_readonly(path) as connection, ThreadPoolExecutor(1) as sending, suppress(EOFError):
        while True:
            response = compute_response(connection, pickle.load(requests))
            sending.submit(send, pickle.dumps(response, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
