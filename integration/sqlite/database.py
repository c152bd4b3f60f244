"""SQLite database with one writer thread; all other connections are read-only.

inbox.db, mirror.db and house.db are each a `Database`. Only its writer writes *and* checkpoints: SQLite
before 3.51.3 can lose committed pages when a commit races a checkpoint from another connection.
Jobs queued while a transaction is synced share the next one (group commit), each in a savepoint, so that a
failed job does not affect the others. Bulk jobs run in steps between them (job_queue.py). Callers get
results, and listeners changes, only after COMMIT.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeVar

from integration.core import clock
from integration.core.errors import StorageBroken, StorageBusy, StorageDamaged, StorageError, StorageFull
from integration.sqlite import write_jobs
from integration.sqlite.damage import DamageWatch
from integration.sqlite.errors import is_damage, translate_error
from integration.sqlite.job_queue import JobQueue
from integration.sqlite.readers import ReaderPool
from integration.sqlite.replaced_files import OpenFiles
from integration.sqlite.transaction import Change, Gate, Hook, Transaction
from integration.sqlite.wal import WriteAheadLog
from integration.sqlite.write_jobs import Job, Pending

log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")

BUSY_SECONDS = 3.0
"""Seconds that a write waits for the lock of another program."""
LISTENER_ERROR_SECONDS = 3600.0
"""Seconds for which a listener's failure is shown in the health report."""

CACHE_KIB = 16 * 1024
"""Page cache in KiB. SQLite's default is DEFAULT_KIB.

The initial sync of 300,000 CDRs with their calls takes 78 s instead of 88 s: fewer pages of indexes are read
again and written to the WAL before a commit. 32 MiB were no faster.
"""
DEFAULT_KIB = 2000


class Database:
    """SQLite file with a single writer.

    `prepare(connection)` creates or migrates the schema, once, on the writer's connection, before the
    first job. `synchronous`: FULL for data that cannot be rebuilt, NORMAL for data that can be fetched again.
    `group_size`: maximum number of jobs in a transaction. `register_functions(connection)` adds SQL functions
    to each connection. `on_commit(changes)` is called on the writer thread after each commit with announced
    changes. `on_broken(error)` is called once, when the disk or the writer has failed. The process must then
    restart, because a handle whose sync failed is not reliable (promise P18). `on_damaged(reason)` is called
    once, when a check has confirmed invalid pages in the file; reads and writes of other pages continue.
    """

    def __init__(
        self,
        path: Path,
        *,
        prepare: Callable[[sqlite3.Connection], None],
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        group_size: int = 64,
        register_functions: Callable[[sqlite3.Connection], None] | None = None,
        on_commit: Callable[[list[Change]], None] | None = None,
        on_broken: Callable[[BaseException], None] | None = None,
        on_damaged: Callable[[str], None] | None = None,
    ) -> None:
        self.path = path
        self.name = path.name
        self.on_commit = on_commit
        self.on_broken = on_broken
        self.hooks: dict[str, list[Hook]] = {}
        self.gates: dict[str, Gate] = {}
        self.before_commit: Callable[[Transaction], None] = lambda _transaction: None
        """Called at the end of each transaction, on the writer thread; may write."""
        self._jobs = JobQueue(group_size)
        self.damage_watch = DamageWatch(path, on_damaged, self._mark_broken, self.find_replaced_files)
        self._readers = ReaderPool(path, register_functions, self.damage_watch.inspect)
        self._closed = threading.Event()
        self._broken: BaseException | None = None
        self._queue_lock = threading.Lock()
        """Held while a job or the end marker is queued: no job may follow the end marker."""
        self._listener_error: tuple[float, str] | None = None
        self._writer, self._wal = _open_writer(path, synchronous, prepare, register_functions)
        self._open_files, self._is_saved = OpenFiles(path), False
        self._thread = threading.Thread(target=self._run, name=f"writer {self.name}", daemon=True)
        self._thread.start()

    # --- writing -----------------------------------------------------------------------------------

    def submit(self, work: Callable[[Transaction], T]) -> Pending[T]:
        """Queue `work` for the writer. Raises nothing.

        The pending result is set after COMMIT, or the error; StorageError on a closed or broken database.
        """
        return self._enqueue(write_jobs.run_single, work)

    def submit_grouped(self, work: Callable[[Transaction, list[S]], Sequence[T]], item: S) -> Pending[T]:
        """Queue `item` for one call of `work` with all adjacent items.

        `work(transaction, items)` returns a result for each item, in order. The number of its statements
        should not grow with the items: each statement releases the GIL and must acquire it in competition
        with all waiting requests. If `work` raises, it is called for each item alone. The result is set
        as by `submit`.
        """
        return self._enqueue(work, item)

    def _enqueue(self, work: Callable[[Transaction, list[Any]], Sequence[Any]], item: Any) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        with self._queue_lock:
            if not self._closed.is_set() and self._broken is None:
                self._jobs.put(Job(work, item, pending))
                return pending
        pending.set_exception(self._broken_error())
        return pending

    def write(self, work: Callable[[Transaction], T], timeout: float | None = None) -> T:
        """Run `work` in the writer's next transaction; return the durable result.

        `timeout`: seconds; None waits without a limit. Must not be called in a write job, which would wait
        for itself. Raises StorageBusy, StorageFull, StorageBroken, TimeoutError (`work` may still run later),
        and the errors of `work`.
        """
        self._refuse_writer_thread()
        return self.submit(work).result(timeout)

    def write_bulk(self, steps: Iterable[Callable[[Transaction], T]]) -> list[T]:
        """Run `steps` in order and return their durable results.

        For work that may take long, such as storing history. Jobs of `write` and `submit` go first: they wait
        for one step at most, which should take less than 50 ms. The steps share transactions while no other
        job waits, so a failed step undoes some steps before it; each step must leave the database in a valid
        state. Raises StorageError, and the errors of a step.
        """
        self._refuse_writer_thread()
        results: list[T] = []
        self._enqueue(write_jobs.bulk_marker, (iter(steps), results)).result()
        return results

    def run_exclusive(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writer's connection, outside any transaction, in queue order.

        For operations on the entire file, such as VACUUM. Later writes wait for the end. Raises StorageError,
        and the errors of `work`.
        """
        result: T = self._enqueue(write_jobs.exclusive_marker, work).result()
        return result

    @property
    def is_healthy(self) -> bool:
        """False after the writer failed or ended: no write becomes durable."""
        return self._broken is None and self._thread.is_alive()

    @property
    def listener_error(self) -> str | None:
        """Error of a listener within the last LISTENER_ERROR_SECONDS, else None.

        Listeners are not called a second time for a commit.
        """
        if (
            self._listener_error is None
            or clock.monotonic() - self._listener_error[0] > LISTENER_ERROR_SECONDS
        ):
            return None
        return self._listener_error[1]

    @property
    def damage(self) -> str | None:
        """Confirmed damage of the file's content, else None."""
        return self.damage_watch.reason

    def close(self) -> None:
        """Run the queued jobs, then close all connections. Safe to call twice."""
        with self._queue_lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._jobs.put_end()
        self._thread.join()
        self._readers.close()
        if self._is_saved or self._open_files.find_replaced():
            self._save()
            return
        # Last, because only a connection that can write removes the -wal file.
        self._writer.close()

    def find_replaced_files(self) -> list[Path]:
        """Return the files that another program deleted or replaced, see `replaced_files.py`."""
        replaced = self._open_files.find_replaced()
        return [] if self._closed.is_set() else replaced

    def save_replaced_files(self) -> None:
        """End writing, and save all commits although files were replaced. Waits for readers.

        The process must then end without `close`. Raises sqlite3.Error and OSError.
        """
        with self._queue_lock:
            names = ", ".join(path.name for path in self.find_replaced_files())
            self._broken = StorageBroken(f"another program has deleted or replaced {names}")
            self._jobs.put_end()
        self._thread.join()
        self._save()

    def _save(self) -> None:
        while not self._is_saved:
            self._is_saved = self._open_files.save(self._writer)

    # --- reading -----------------------------------------------------------------------------------

    def read(
        self, seconds: float | None = None, *, full_scan: bool = False
    ) -> AbstractContextManager[sqlite3.Connection]:
        """Open a read-only connection with one consistent view for the block.

        Rows are `sqlite3.Row`. After `seconds` of CPU time of this thread in the block, its statements are
        aborted with sqlite3.OperationalError 'interrupted'. `full_scan`: an entire table will be read, so its
        pages are not mapped into the memory of the process.
        """
        return self._readers.read(seconds, full_scan)

    # --- internal ----------------------------------------------------------------------------------

    def _refuse_writer_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("write() was called in a write job. Use the Transaction of the job.")

    def _broken_error(self) -> StorageError:
        if self._broken is not None:
            return StorageBroken(f"{self.name}: writing failed ({self._broken}). Restart Switchroom.")
        return StorageError(f"{self.name} is closed, because this process is stopping.")

    def _run(self) -> None:
        while (jobs := self._jobs.take_group()) is not None:
            try:
                for group in write_jobs.group_runs(jobs):
                    if self._broken is None:
                        self._run_group(group)
                if self._broken is None:
                    self._wal.checkpoint_if_due(is_job_waiting=self._jobs.has_arrivals)
            except BaseException as error:
                # The outcome of the transaction is unknown. Fail all waiting jobs, or their callers block for
                # ever.
                log.exception("%s: the writer failed", self.name)
                self._mark_broken(error)
            if self._broken is not None:
                self._fail_jobs(jobs)
                return

    def _run_group(self, group: list[Job]) -> None:
        if group[0].work is write_jobs.exclusive_marker:
            self._run_exclusive_jobs(group)
        elif group[0].work is write_jobs.bulk_marker:
            self._run_bulk_steps(group[0])
        else:
            self._commit(group)

    def _run_bulk_steps(self, job: Job) -> None:
        """Run steps in one transaction until a job or read arrives."""
        steps, results = job.item
        transaction = Transaction(self._writer, self.hooks, self.gates)
        step_results, is_finished = list[Any](), True
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            for step in steps:
                step_results.append(step(transaction))
                if self._jobs.must_bulk_yield:
                    is_finished = False
                    break
            self.before_commit(transaction)
            self._writer.execute("COMMIT")
        except BaseException as problem:  # noqa: BLE001 – an error of a step must not end the writer
            self._rollback()
            self._jobs.remove_bulk()
            if isinstance(problem, sqlite3.Error) and self._affects_all_jobs(problem):
                job.pending.set_exception(self._handle_failure(problem))
            else:
                job.pending.set_exception(self._translate_damage(problem))
            return
        results.extend(step_results)
        self._publish(transaction)
        if is_finished:
            self._jobs.remove_bulk()
            job.pending.set_result(None)

    def _run_exclusive_jobs(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                result = job.item(self._writer)
            except sqlite3.Error as error:
                job.pending.set_exception(self._handle_failure(error))
            except BaseException as problem:  # noqa: BLE001 – an error of the job must not end the writer
                job.pending.set_exception(problem)
            else:
                job.pending.set_result(result)

    def _commit(self, jobs: list[Job]) -> None:
        """Run `jobs` in one transaction; set their results after COMMIT."""
        outcomes: list[tuple[Any, BaseException | None]] = []
        transaction = Transaction(self._writer, self.hooks, self.gates)
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            if len(jobs) == 1:
                outcomes = self._run_alone(jobs[0], transaction)
            else:
                for work, same_work in groupby(jobs, key=write_jobs.get_work):
                    outcomes += self._run_in_savepoint(work, [job.item for job in same_work], transaction)
            self.before_commit(transaction)
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            failure = self._handle_failure(error)
            for job in jobs:
                if isinstance(failure, StorageDamaged) and len(jobs) > 1:
                    self._commit([job])  # Only some of the jobs need the invalid page.
                else:
                    job.pending.set_exception(failure)
            return
        self._publish(transaction)
        for job, (result, problem) in zip(jobs, outcomes, strict=True):
            if problem is None:
                job.pending.set_result(result)
            else:
                job.pending.set_exception(problem)

    def _run_alone(self, job: Job, transaction: Transaction) -> list[tuple[Any, BaseException | None]]:
        """Run the only job of a transaction without a savepoint.

        For a savepoint SQLite stores the previous content of each page, which slows down bulk loads.
        """
        try:
            (result,) = job.work(transaction, [job.item])
        except BaseException as problem:
            if self._affects_all_jobs(problem):
                raise
            self._writer.execute("ROLLBACK")
            self._writer.execute("BEGIN IMMEDIATE")
            transaction.changes.clear()
            transaction._after_commit_actions.clear()
            return [(None, self._translate_damage(problem))]
        return [(result, None)]

    def _affects_all_jobs(self, problem: BaseException) -> bool:
        """Return whether an error affects all jobs; an invalid page does not."""
        if not isinstance(problem, sqlite3.Error):
            return False
        return isinstance(translate_error(problem, self.path), StorageFull | StorageBroken | StorageBusy)

    def _run_in_savepoint(
        self,
        work: Callable[[Transaction, list[Any]], Sequence[Any]],
        items: list[Any],
        transaction: Transaction,
    ) -> list[tuple[Any, BaseException | None]]:
        """Run all items in one savepoint; after a failure, each alone."""
        if work is write_jobs.run_single and len(items) > 1:
            return [
                outcome for item in items for outcome in self._run_in_savepoint(work, [item], transaction)
            ]
        self._writer.execute("SAVEPOINT job")
        change_count, earlier_actions = len(transaction.changes), dict(transaction._after_commit_actions)
        try:
            results = work(transaction, items)
            outcomes: list[tuple[Any, BaseException | None]] = [
                (result, None) for _, result in zip(items, results, strict=True)
            ]
        except BaseException as problem:
            if self._affects_all_jobs(problem):
                raise
            self._writer.execute("ROLLBACK TO job")
            self._writer.execute("RELEASE job")
            del transaction.changes[change_count:]
            transaction._after_commit_actions = earlier_actions
            if len(items) == 1:
                return [(None, self._translate_damage(problem))]
            return [
                outcome for item in items for outcome in self._run_in_savepoint(work, [item], transaction)
            ]
        self._writer.execute("RELEASE job")
        return outcomes

    def _publish(self, transaction: Transaction) -> None:
        """Run the actions of a committed transaction and announce its changes."""
        for action in transaction._after_commit_actions:
            self._notify(action)
        if transaction.changes and self.on_commit is not None:
            listener, changes = self.on_commit, transaction.changes
            self._notify(lambda: listener(changes))

    def _notify(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            # The commit is durable already, so the error of a listener must not fail the jobs.
            log.exception("%s: a listener failed after commit", self.name)
            description = (
                f"at {clock.utc_text()} UTC a listener failed after a commit: {type(error).__name__}: {error}"
            )
            self._listener_error = clock.monotonic(), description

    def _rollback(self) -> None:
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._mark_broken(error)

    def _handle_failure(self, error: sqlite3.Error) -> StorageError:
        """Report a failed disk or a damaged file, and return the StorageError."""
        failure = translate_error(error, self.path)
        if isinstance(failure, StorageBroken):
            self._mark_broken(error)
        self.damage_watch.inspect(error, is_writer=True)
        return failure

    def _translate_damage(self, problem: BaseException) -> BaseException:
        """Return `problem`, or the StorageDamaged for an invalid page."""
        return self._handle_failure(problem) if is_damage(problem) else problem

    def _mark_broken(self, error: BaseException) -> None:
        with self._queue_lock:
            self._broken = error
        log.critical("%s: writing failed: %s", self.name, error)
        if self.on_broken is not None:
            self.on_broken(error)

    def _fail_jobs(self, jobs: list[Job]) -> None:
        """Fail `jobs` and all queued jobs: no write can become durable."""
        for job in (*jobs, *self._jobs.drain()):
            if not job.pending.done():
                job.pending.set_exception(self._broken_error())


def _open_writer(
    path: Path,
    synchronous: str,
    prepare: Callable[[sqlite3.Connection], None],
    register_functions: Callable[[sqlite3.Connection], None] | None,
) -> tuple[sqlite3.Connection, WriteAheadLog]:
    """Open the only connection that writes the file, and its WAL.

    `prepare(connection)` creates or migrates the schema. Raises StorageError.
    """
    try:
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        if register_functions:
            register_functions(connection)
        prepare(connection)
        return connection, WriteAheadLog(connection, path)
    except sqlite3.Error as error:
        if is_damage(error):  # A later close would remove the -wal of the file that replaces this one.
            connection.close()
        raise translate_error(error, path) from error


@contextmanager
def bulk_cache(database: Database) -> Iterator[None]:
    """Give the writer a page cache of CACHE_KIB during the block. Raises StorageError.

    With two blocks at the same time, the end of the first one returns the memory.
    """
    database.run_exclusive(_grow)
    try:
        yield
    finally:
        # The error of the block, or of the next write, states why the database is closed.
        with suppress(StorageError):
            database.run_exclusive(_shrink)


def _grow(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")


def _shrink(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size=-{DEFAULT_KIB}")
    connection.execute("PRAGMA shrink_memory")
