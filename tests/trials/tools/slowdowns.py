"""Slowdowns of the product, which the bounds of the benchmarks must detect."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from integration.exports.formats import csv
from integration.facade import reads
from integration.inbox import store
from integration.mirror.page_queries import history
from integration.server.worker import Worker
from integration.sync.reading import full_sync

Patch = Callable[[Any, str, object], object]


def slow_receipt(patch: Patch) -> None:
    """Delay each webhook by 0.1 s before it is stored."""
    _delay(patch, store.Inbox, "receive", 0.1)


def growing_receipt(patch: Patch) -> None:
    """Spend more CPU time for each webhook than for the one before."""
    receive, numbers = store.Inbox.receive, count()

    def receive_slowly(*arguments: Any, **options: Any) -> Any:
        sum(range(next(numbers) ** 3 // 200_000))
        return receive(*arguments, **options)

    patch(store.Inbox, "receive", receive_slowly)


def slow_facade(patch: Patch) -> None:
    """Delay each list of the facade by 1.5 s."""
    _delay(patch, reads, "read_collection", 1.5)


def slow_csv(patch: Patch) -> None:
    """Delay each export by 5 s."""
    _delay(patch, csv, "chunks", 5.0)


def slow_pages(patch: Patch) -> None:
    """Delay each page of the call history by 1 s."""
    _delay(patch, history, "fetch_page", 1.0)


def slow_start(patch: Patch) -> None:
    """Delay each start of the worker by 8 s."""
    _delay(patch, Worker, "load", 8.0)


def slow_sync(patch: Patch) -> None:
    """Delay each full sync by 30 s."""
    _delay(patch, full_sync, "run_full_sync", 30.0)


def _delay(patch: Patch, target: Any, name: str, seconds: float) -> None:
    function = getattr(target, name)

    def run_slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return function(*arguments, **options)

    patch(target, name, run_slowly)
