"""Jobs of the writer: functions with their items and futures."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from integration.sqlite.transaction import Transaction


@dataclass(slots=True)
class Job:
    """Item for a function, with the future of its result."""

    work: Callable[[Transaction, list[Any]], Sequence[Any]]
    """Processes the items of adjacent jobs with this function in one call; returns a result for each."""
    item: Any
    future: Future[Any]


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
