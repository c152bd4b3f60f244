"""Turns of the full syncs of a collection.

A job and a command never read it completely at the same time. Both would share the stored start and
position, so that records that one of them has read would count as missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading.page_store import Tally

CANCELLATION_CHECK_SECONDS = 0.2
"""Seconds between two checks whether a waiting full sync is cancelled."""

_running: set[tuple[Path, str]] = set()
"""Running full syncs: mirror.db and collection."""
_turn_ended = threading.Condition()


@contextmanager
def take_turn(context: SyncContext, policy: Policy, tally: Tally) -> Iterator[None]:
    """Wait until no other full sync of the collection runs. Raises Interrupted."""
    name = (context.mirror_db.path, policy.collection)
    with _turn_ended:
        while name in _running:
            _turn_ended.wait(CANCELLATION_CHECK_SECONDS)
            tally.raise_if_cancelled()
        _running.add(name)
    try:
        yield
    finally:
        with _turn_ended:
            _running.remove(name)
            _turn_ended.notify_all()
