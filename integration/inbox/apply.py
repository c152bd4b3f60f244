"""Stored webhooks → the mirror: claim, interpret, write the effects and the applied seq in one transaction.

`_applied` in mirror.db is the only truth about what was applied; a crash between the two commits is healed
by claiming again at the next start. One event that can't be applied never holds up the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from integration.database import Database, Transaction
from integration.errors import PlatformBroken, StorageError
from integration.inbox.interpret import Event, RecordingReady, SmsReceived, interpret
from integration.inbox.store import Inbox, Row, Status
from integration.mirror import live_calls, lookups, messages
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import CallStore

log = logging.getLogger(__name__)

BATCH = 64
ENDS = frozenset({"call.hangup", "call.missed"})


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
            self._apply_rows(rows)
            self._position = rows[-1].seq

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
        """Each row in a savepoint of its own; rows that queue together share a transaction."""
        wishes = False
        pending = []
        for row in rows:
            event, problem = _read(row)
            wishes |= isinstance(event, CallEvent | RecordingReady)
            pending.append((row, problem, self._mirror.submit(self._job(row.seq, event, problem))))
        results: list[tuple[int, Status, str | None]] = []
        for row, problem, future in pending:
            try:
                results.append((row.seq, future.result(), problem))
            except StorageError:
                raise
            except Exception as error:
                # Whatever an event's content does to us, the row says so and the next one goes on.
                log.exception("webhook %s could not be applied", row.seq)
                text = f"{type(error).__name__}: {error}"
                self._mirror.write(self._failed(row.seq))
                results.append((row.seq, "failed", text))
        self._inbox.mark(results)
        if wishes:
            self._on_wish()
        return [status for _, status, _ in results]

    def _job(self, seq: int, event: Event | None, problem: str | None) -> Callable[[Transaction], Status]:
        def job(tx: Transaction) -> Status:
            status = self._effects(tx, event) if event is not None else _without_event(problem)
            tx.execute("INSERT OR REPLACE INTO _applied (seq, result) VALUES (?, ?)", (seq, status))
            return status

        return job

    def _failed(self, seq: int) -> Callable[[Transaction], None]:
        def job(tx: Transaction) -> None:
            tx.execute("INSERT OR REPLACE INTO _applied (seq, result) VALUES (?, 'failed')", (seq,))

        return job

    def _effects(self, tx: Transaction, event: Event) -> Status:
        """What the event changes in the mirror, and what is to be fetched because of it."""
        if isinstance(event, CallEvent):
            self._calls.add_event(tx, event)
            live_calls.told(tx, event)
            if event.name in ENDS and event.leg_id is not None:
                lookups.want(tx, event.leg_id, event.at)
        elif isinstance(event, SmsReceived):
            messages.add_event(tx, event)
        elif isinstance(event, RecordingReady):
            if event.leg_id is not None or event.monitor_id is not None:
                lookups.want_recording(tx, event.leg_id, event.monitor_id)
        else:
            return "unknown"
        return "done"


def _read(row: Row) -> tuple[Event | None, str | None]:
    try:
        return interpret(row.body, row.received_at, row.event_id), None
    except PlatformBroken:
        return None, None
    except ValueError as error:
        return None, str(error)


def _without_event(problem: str | None) -> Status:
    return "unreadable" if problem is None else "failed"
