"""Stored webhooks → the mirror: claim, interpret, write the effects and the applied seq in one transaction.

`_applied` in mirror.db is the only truth about what was applied; a crash between the two commits is healed
by claiming again at the next start. One event that can't be applied never holds up the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from integration.core import clock
from integration.core.errors import PlatformBroken, StorageError
from integration.inbox.interpret import Event, RecordingReady, SmsReceived, Unknown, interpret
from integration.inbox.store import Inbox, Row, Status
from integration.mirror.calls import live_table as live_calls
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import CallStore
from integration.mirror.page_queries import messages
from integration.mirror.records import schema_drift as drift
from integration.mirror.sync_state import lookup_queue as lookups
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

BATCH = 256

BURST = 8
"""Webhooks received during a batch from which on they pour in, and acknowledging them goes first."""
REST = 6.0
"""While they do: rest this many times as long as the batch took. One interpreter does both."""
LONGEST_REST = 0.5
ENDS = frozenset({"call.hangup", "call.missed"})


@dataclass(frozen=True, slots=True)
class _Read:
    """A stored webhook and what it tells; neither event nor problem: it is no JSON object."""

    seq: int
    event: Event | None
    problem: str | None


class Applier:
    """Applies what the inbox holds. `run()` does what there is to do; a watched thread calls it after each
    commit of the inbox.

    `on_wish()` is called when something is to be fetched from the platform (a CDR, a recording).
    """

    def __init__(
        self,
        inbox: Inbox,
        mirror: Database,
        calls: CallStore,
        on_wish: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._mirror = mirror
        self._calls = calls
        self._on_wish = on_wish
        self._drift = drift.Told()
        self._stop = threading.Event()
        self._caught_up = False
        self._position = 0

    def stop(self) -> None:
        """Have `run()` end after the batch at hand. What is left is claimed at the next start."""
        self._stop.set()

    def run(self) -> None:
        """Apply everything stored so far. Raises StorageError; nothing is lost by it, only not done yet."""
        if not self._caught_up:
            self._catch_up()
            self._caught_up = True
        while not self._stop.is_set() and (rows := self._inbox.after(self._position, BATCH)):
            began, received = clock.monotonic(), self._inbox.received
            self._apply_rows(rows)
            self._position = rows[-1].seq
            if self._inbox.received - received > BURST:
                self._stop.wait(min(REST * (clock.monotonic() - began), LONGEST_REST))

    def again(self, seqs: Sequence[int]) -> int:
        """Apply these once more, whatever became of them (`replay`). Returns how many did not fail."""
        done = 0
        for begin in range(0, len(seqs), BATCH):
            statuses = self._apply_rows(self._inbox.rows(seqs[begin : begin + BATCH]))
            done += len(statuses) - statuses.count("failed")
        return done

    def _catch_up(self) -> None:
        """What an earlier run stored and did not apply, wherever in the inbox it stands."""
        pending = self._inbox.unapplied(self._mirror.path)
        for begin in range(0, len(pending), BATCH):
            if self._stop.is_set():
                return
            self._apply_rows(self._inbox.rows(pending[begin : begin + BATCH]))
        self._position = max(self._position, pending[-1] if pending else 0, self._last_applied())

    def _last_applied(self) -> int:
        with self._mirror.read() as connection:
            return int(connection.execute("SELECT coalesce(max(seq), 0) FROM _applied").fetchone()[0])

    def _apply_rows(self, rows: Sequence[Row]) -> list[Status]:
        """All in one transaction; if one of them is at fault, each in a savepoint of its own."""
        read = [_Read(row.seq, *_read(row)) for row in rows]
        try:
            statuses = self._mirror.write(lambda tx: self._effects(tx, read))
            results = [(one.seq, status, one.problem) for one, status in zip(read, statuses, strict=True)]
        except StorageError:
            raise
        except Exception:
            log.exception("a batch of webhooks could not be applied together")
            results = [self._alone(one) for one in read]
        self._inbox.mark(results)
        if any(isinstance(one.event, CallEvent | RecordingReady) for one in read):
            self._on_wish()
        return [status for _, status, _ in results]

    def _alone(self, one: _Read) -> tuple[int, Status, str | None]:
        try:
            (status,) = self._mirror.write(lambda tx: self._effects(tx, [one]))
        except StorageError:
            raise
        except Exception as error:
            # Whatever an event's content does to us, its row says so and the next one goes on.
            log.exception("webhook %s could not be applied", one.seq)
            self._mirror.write(lambda tx: _note(tx, [(one.seq, "failed")]))
            return one.seq, "failed", f"{type(error).__name__}: {error}"
        return one.seq, status, one.problem

    def _effects(self, tx: Transaction, read: Sequence[_Read]) -> list[Status]:
        """What the events change in the mirror, and what is to be fetched because of them."""
        told = [one.event for one in read if isinstance(one.event, CallEvent)]
        self._calls.add_events(tx, told)
        for event in {event.leg_id: event for event in told}.values():
            live_calls.told(tx, event)
        for event in told:
            if event.name in ENDS and event.leg_id is not None:
                lookups.want(tx, event.leg_id, event.at)
        for one in read:
            if isinstance(one.event, SmsReceived):
                messages.add_event(tx, one.event)
            elif isinstance(one.event, RecordingReady):
                lookups.want_recording(tx, one.event.leg_id, one.event.monitor_id)
        events = [one.event for one in read]
        self._drift.look(
            tx, [e.doc for e in events if isinstance(e, CallEvent | SmsReceived | RecordingReady)]
        )
        statuses = [_status(one) for one in read]
        _note(tx, [(one.seq, status) for one, status in zip(read, statuses, strict=True)])
        return statuses


def _note(tx: Transaction, results: Sequence[tuple[int, Status]]) -> None:
    """In the transaction of the effects: the only truth about what was applied."""
    tx.executemany("INSERT OR REPLACE INTO _applied (seq, result) VALUES (?, ?)", results)


def _status(one: _Read) -> Status:
    if one.event is None:
        return "unreadable" if one.problem is None else "failed"
    return "unknown" if isinstance(one.event, Unknown) else "done"


def _read(row: Row) -> tuple[Event | None, str | None]:
    try:
        return interpret(row.body, row.received_at, row.event_id), None
    except PlatformBroken:
        return None, None
    except ValueError as error:
        return None, str(error)
    except Exception as error:
        # As in `_alone`: a body that we stumble over must not stand before all that come after it.
        log.exception("webhook %s could not be read", row.seq)
        return None, f"{type(error).__name__}: {error}"
