"""Jobs of the writer: functions with their items and pending results."""

from __future__ import annotations

import sqlite3
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Generic, TypeVar

from integration.sqlite.transaction import Transaction

T = TypeVar("T")


class Pending(Generic[T]):
    """Pending result of a job.

    The writer sets it once, and any thread may await it. It has some of the methods of
    `concurrent.futures.Future`, without its condition and callbacks. These took 35 of the 260 µs of CPU time
    that a webhook needed with 32 connections.
    """

    __slots__ = ("_error", "_is_set", "_result", "_unset")

    def __init__(self) -> None:
        self._unset = allocate_lock()
        """Held until the result is set."""
        self._unset.acquire()
        self._is_set = False
        self._error: BaseException | None = None

    def set_result(self, result: T) -> None:
        self._result = result
        self._is_set = True
        self._unset.release()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._is_set = True
        self._unset.release()

    def done(self) -> bool:
        """Return whether the job has its result or error."""
        return self._is_set

    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise the error of the job.

        `timeout`: seconds; None waits without a limit. Raises TimeoutError.
        """
        if not self._unset.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError(f"The job has no result after {timeout} s.")
        # For other threads, and for a second call.
        self._unset.release()
        if self._error is not None:
            raise self._error
        return self._result


@dataclass(slots=True)
class Job:
    """Item for a function, with its pending result."""

    work: Callable[[Transaction, list[Any]], Sequence[Any]]
    """Processes the items of adjacent jobs with this function in one call; returns a result for each."""
    item: Any
    pending: Pending[Any]


get_work = attrgetter("work")


def run_single(tx: Transaction, callables: list[Callable[[Transaction], Any]]) -> Sequence[Any]:
    """Run the only callable of a job."""
    (work,) = callables
    return (work(tx),)


def exclusive_marker(_: Transaction, callables: list[Callable[[sqlite3.Connection], Any]]) -> Sequence[Any]:
    """Mark jobs that run outside a transaction (`Database.run_exclusive`). Never called."""
    raise RuntimeError(f"{callables} must run outside a transaction.")


def bulk_marker(_: Transaction, steps: list[Iterator[Callable[[Transaction], Any]]]) -> Sequence[Any]:
    """Mark jobs whose item has steps (`Database.write_bulk`). Never called."""
    raise RuntimeError(f"The steps {steps} must run one by one.")


def group_runs(jobs: list[Job]) -> list[list[Job]]:
    """Group adjacent jobs by whether they run in or outside a transaction."""
    return [list(group) for _, group in groupby(jobs, key=lambda job: job.work is exclusive_marker)]
