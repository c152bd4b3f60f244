"""Limit of large response bodies in memory: one at a time in the process.

A body and its records take several times its bytes. Reads that run beside each other would add up.
"""

from __future__ import annotations

import threading
from types import TracebackType

from integration.core import clock

FREE_BYTES = 8 * 1024 * 1024
"""Bytes of a body that are read without the place."""

_place = threading.Lock()


class LargeBodyTurn:
    """Context that takes the only place for a large body, and releases it at its end.

    Its owner must not wait for the request budget: readers that hold a slot of the budget wait for the place.
    """

    def __init__(self) -> None:
        self._is_held = False

    def wait(self) -> float:
        """Take the place, unless this turn has it. Returns the seconds that it took."""
        if self._is_held:
            return 0.0
        began = clock.monotonic()
        _place.acquire()
        self._is_held = True
        return clock.monotonic() - began

    def __enter__(self) -> LargeBodyTurn:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._is_held:
            self._is_held = False
            _place.release()
