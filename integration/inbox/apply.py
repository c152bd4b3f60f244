"""Apply stored webhooks to the mirror.

The effects of webhooks and their seqs in table `_applied` are written in one transaction of mirror.db, so
`_applied` is the authority on what was applied. The status in inbox.db is committed afterwards. After a crash
between the two commits the next start applies the webhook again. An event that cannot be applied does not
block the next.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from integration.core import clock
from integration.core.errors import StorageError
from integration.core.json_records import JsonRecord
from integration.inbox.interpret import Event, RecordingReady, UnknownEvent, interpret, parse_body
from integration.inbox.store import Inbox, Status, StoredWebhook
from integration.mirror.calls import live_table
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import CallStore
from integration.mirror.page_queries import messages
from integration.mirror.records import schema_drift
from integration.mirror.sync_state import collection_state, lookup_queue
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

BATCH_SIZE = 256
"""Maximum number of webhooks of one transaction."""

BURST_WEBHOOKS = 8
"""Webhooks received during a batch above which the applier pauses.

Receiving and applying share one interpreter, and acknowledgements take precedence.
"""
PAUSE_FACTOR = 12.0
"""Length of a pause as a multiple of the last batch's duration.

With 6 and at most 0.5 s, a webhook of a burst took a tenth more CPU time.
"""
MAX_PAUSE_SECONDS = 1.0
MAX_YIELD_SECONDS = 10
"""Seconds after which a webhook is applied without pauses, which limits the delay in a long burst."""
MAX_DELAY_SECONDS = 60
"""Seconds after which a webhook that is not applied fails the health check."""
_UNAPPLIED = "status = 'new' AND status <> 'done'"
"""SQL condition. Its second half is that of the partial index."""
END_EVENTS = frozenset({"call.hangup", "call.missed"})
"""Events that report the end of a leg.

They request a lookup of its CDR.
"""


@dataclass(frozen=True, slots=True)
class _ParsedWebhook:
    """Stored webhook with its parsed body and its event.

    `record` is None if the body is not a JSON object. `problem` is the reason why there is no event.
    """

    row: StoredWebhook
    record: JsonRecord | None = None
    event: Event | None = None
    problem: str | None = None


class Applier:
    """Applies stored webhooks.

    A watched thread calls `run()` after each commit of the inbox. `on_lookup_needed()` is called after call
    events and after events of recordings, whose CDRs and recordings are requested from the platform.
    """

    def __init__(
        self,
        inbox: Inbox,
        mirror_db: Database,
        call_store: CallStore,
        on_lookup_needed: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._mirror_db = mirror_db
        self._call_store = call_store
        self._on_lookup_needed = on_lookup_needed
        self._drift = schema_drift.EventDriftDetector()
        self._stop = threading.Event()
        self._caught_up = False
        self._position = 0

    def stop(self) -> None:
        """Make `run()` return after the current batch.

        The next start applies the remaining webhooks.
        """
        self._stop.set()

    def run(self) -> None:
        """Apply all webhooks that are stored and not applied.

        Raises StorageError; webhooks that are not applied then are applied by a later run.
        """
        if not self._caught_up:
            try:
                self._catch_up()
            except sqlite3.Error as error:
                # The error of the attached mirror.db was reported as one of inbox.db.
                self._mirror_db.damage_watch.inspect(error)
                raise
            self._caught_up = True
        while not self._stop.is_set() and (rows := self._inbox.list_after(self._position, BATCH_SIZE)):
            started_at, received_before = clock.monotonic(), self._inbox.received_count
            self._apply_rows(rows)
            self._position = rows[-1].seq
            received = self._inbox.received_count - received_before
            self._stop.wait(get_pause(received, clock.monotonic() - started_at, rows[0].received_at))

    def reapply(self, seqs: Sequence[int]) -> int:
        """Apply the webhooks `seqs` again, whatever their status.

        Returns the number that did not fail.
        """
        applied = 0
        for start in range(0, len(seqs), BATCH_SIZE):
            statuses = self._apply_rows(self._inbox.load_rows(seqs[start : start + BATCH_SIZE]))
            applied += len(statuses) - statuses.count("failed")
        return applied

    def _catch_up(self) -> None:
        """Apply the webhooks that earlier processes left unapplied, anywhere in the inbox."""
        pending = self._inbox.list_unapplied(self._mirror_db.path)
        for start in range(0, len(pending), BATCH_SIZE):
            if self._stop.is_set():
                return
            self._apply_rows(self._inbox.load_rows(pending[start : start + BATCH_SIZE]))
        with self._mirror_db.read() as connection:
            last_applied = read_last_applied(connection)
        self._position = max(self._position, pending[-1] if pending else 0, last_applied)

    def _apply_rows(self, rows: Sequence[StoredWebhook]) -> list[Status]:
        """Apply `rows` in one transaction.

        If the transaction fails, each row is applied in a separate transaction. Raises StorageError.
        """
        webhooks = [_parse_row(row) for row in rows]
        try:
            statuses = self._mirror_db.write(lambda tx: self._apply_effects(tx, webhooks))
            results = [
                (webhook.row.seq, status, webhook.problem)
                for webhook, status in zip(webhooks, statuses, strict=True)
            ]
        except StorageError:
            raise
        except Exception:
            log.exception("a batch of webhooks could not be applied together")
            results = [self._apply_alone(webhook) for webhook in webhooks]
        self._inbox.record_results(results)
        if any(isinstance(webhook.event, CallEvent | RecordingReady) for webhook in webhooks):
            self._on_lookup_needed()
        return [status for _, status, _ in results]

    def _apply_alone(self, webhook: _ParsedWebhook) -> tuple[int, Status, str | None]:
        try:
            (status,) = self._mirror_db.write(lambda tx: self._apply_effects(tx, [webhook]))
        except StorageError:
            raise
        except Exception as error:
            # An event may raise any error: record it in the row and continue with the next event.
            log.exception("webhook %s could not be applied", webhook.row.seq)
            self._mirror_db.write(lambda tx: _record_results(tx, [(webhook.row.seq, "failed")]))
            return webhook.row.seq, "failed", f"{type(error).__name__}: {error}"
        return webhook.row.seq, status, webhook.problem

    def _apply_effects(self, tx: Transaction, webhooks: Sequence[_ParsedWebhook]) -> list[Status]:
        """Write the effects of events to the mirror; enqueue their lookups."""
        call_events = [webhook.event for webhook in webhooks if isinstance(webhook.event, CallEvent)]
        self._call_store.add_events(tx, call_events)
        for event in {event.leg_id: event for event in call_events}.values():
            live_table.apply_event(tx, event)
        if call_times := [
            # An event that was delivered late describes the calls of its own time.
            min(webhook.event.event_time, webhook.row.received_at)
            for webhook in webhooks
            if isinstance(webhook.event, CallEvent)
        ]:
            collection_state.record_event(tx, live_table.COLLECTION, max(call_times))
        for event in call_events:
            if event.name in END_EVENTS and event.leg_id is not None:
                lookup_queue.enqueue_leg(tx, event.leg_id, event.event_time)
        for webhook in webhooks:
            if isinstance(webhook.event, messages.SmsReceived):
                messages.add_event(tx, webhook.event)
            elif isinstance(webhook.event, RecordingReady):
                lookup_queue.enqueue_recording(tx, webhook.event.leg_id, webhook.event.monitor_id)
        self._drift.check_events(
            tx,
            [
                (webhook.row.event_name, webhook.record)
                for webhook in webhooks
                if webhook.event is not None and webhook.record is not None
            ],
        )
        statuses = [_find_status(webhook) for webhook in webhooks]
        _record_results(
            tx, [(webhook.row.seq, status) for webhook, status in zip(webhooks, statuses, strict=True)]
        )
        return statuses


def get_pause(received: int, seconds: float, oldest_received_at: str) -> float:
    """Return the seconds that the applier pauses after a batch.

    `received`: webhooks received during the batch; `seconds`: its duration; `oldest_received_at`: UTC text.
    """
    is_late = oldest_received_at <= clock.utc_text(clock.unix() - MAX_YIELD_SECONDS)
    if received <= BURST_WEBHOOKS or is_late:
        return 0.0
    return min(PAUSE_FACTOR * seconds, MAX_PAUSE_SECONDS)


def read_last_applied(connection: sqlite3.Connection) -> int:
    """Return the highest seq in `_applied` of mirror.db, or 0."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM _applied").fetchone()[0])


def describe_delay(inbox: Inbox) -> str | None:
    """Return the problem of a webhook older than MAX_DELAY_SECONDS, or None."""
    before = clock.utc_text(clock.unix() - MAX_DELAY_SECONDS)
    with inbox.database.read() as connection:
        row = _find_oldest_unapplied(connection)
    if row is None or row["received_at"] >= before:
        return None
    return (
        f"Webhook {row['seq']} of {row['received_at']} UTC is stored but not applied after"
        f" {MAX_DELAY_SECONDS} s. If this does not change within minutes, run"
        f" `switchroom replay --since '{row['received_at']}'`."
    )


@dataclass(frozen=True, slots=True)
class InboxBacklog:
    """Stored webhooks that are not applied.

    `oldest_received_at` is UTC text; None without one.
    """

    count: int
    oldest_received_at: str | None


def read_backlog(inbox: Inbox) -> InboxBacklog:
    """Count the webhooks that are not applied."""
    with inbox.database.read() as connection:
        count = connection.execute(f"SELECT count(*) FROM inbox WHERE {_UNAPPLIED}").fetchone()[0]  # noqa: S608
        row = _find_oldest_unapplied(connection)
    return InboxBacklog(int(count), None if row is None else row["received_at"])


def _find_oldest_unapplied(connection: sqlite3.Connection) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        f"SELECT seq, received_at FROM inbox WHERE {_UNAPPLIED} ORDER BY seq LIMIT 1"  # noqa: S608
    ).fetchone()
    return row


def _record_results(tx: Transaction, results: Sequence[tuple[int, Status]]) -> None:
    """Record results in `_applied`, in the transaction of the effects."""
    tx.executemany("INSERT OR REPLACE INTO _applied (seq, result) VALUES (?, ?)", results)


def _find_status(webhook: _ParsedWebhook) -> Status:
    if webhook.event is None:
        return "unreadable" if webhook.problem is None else "failed"
    return "unknown" if isinstance(webhook.event, UnknownEvent) else "done"


def _parse_row(row: StoredWebhook) -> _ParsedWebhook:
    record = None
    try:
        record = parse_body(row.body)
        if record is None:
            return _ParsedWebhook(row)
        return _ParsedWebhook(row, record, interpret(record, row.received_at, row.event_id, row.event_name))
    except ValueError as error:
        return _ParsedWebhook(row, record, problem=str(error))
    except Exception as error:
        # As in `_apply_alone`: a body that raises an error must not block later webhooks.
        log.exception("webhook %s could not be interpreted", row.seq)
        return _ParsedWebhook(row, record, problem=f"{type(error).__name__}: {error}")
