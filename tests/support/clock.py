"""Wall clock and monotonic clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from integration.core import clock


class Clock:
    """Replacement for the functions of `integration.core.clock`.

    After each move both clocks run at normal speed; `freeze` stops the wall clock.
    """

    def __init__(self) -> None:
        self._real = clock.unix, clock.monotonic
        self._ahead = self._passed = 0.0
        self._frozen_at: float | None = None
        self._stopped_at: float | None = None
        self._is_installed = False

    def unix(self) -> float:
        """Unix seconds."""
        return self._real[0]() + self._ahead if self._frozen_at is None else self._frozen_at

    def monotonic(self) -> float:
        return (self._real[1]() if self._stopped_at is None else self._stopped_at) + self._passed

    def advance(self, seconds: float = 0.0, **units: float) -> None:
        """Move both clocks by `seconds` plus `timedelta(**units)`.

        A negative time sets the wall clock back; the monotonic clock never goes back.
        """
        self.set(self.unix() + seconds + timedelta(**units).total_seconds())

    def set(self, moment: str | float) -> None:
        """Move the wall clock to `moment`: Unix seconds, or text in UTC.

        The monotonic clock moves with it, but never back.
        """
        now = self.unix()
        difference = to_unix(moment) - now
        self._ahead += difference
        self._passed += max(0.0, difference)
        if self._frozen_at is not None:
            self._frozen_at = now + difference
        if not self._is_installed:
            self._is_installed = True
            clock.unix, clock.monotonic = self.unix, self.monotonic

    def freeze(self, moment: str | float | None = None) -> None:
        """Stop the wall clock, at `moment` if given.

        `advance` and `set` still move it.
        """
        self.set(self.unix() if moment is None else moment)
        self._frozen_at = self.unix() if moment is None else to_unix(moment)

    def stop(self) -> None:
        """Stop both clocks. `advance` and `set` still move them."""
        self.freeze()
        self._stopped_at = self._real[1]()

    def restore(self) -> None:
        """Return to the real time."""
        clock.unix, clock.monotonic = self._real
        self._is_installed = False
        self._ahead = self._passed = 0.0
        self._frozen_at = self._stopped_at = None


def to_unix(moment: str | float) -> float:
    """Unix seconds of a text in UTC."""
    if isinstance(moment, str):
        return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    return moment


def ago(seconds: float = 0.0, **units: float) -> str:
    """Return the time `seconds` plus `timedelta(**units)` ago, as text in UTC."""
    return clock.utc_text(clock.now() - timedelta(seconds=seconds, **units))


@pytest.fixture
def movable_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    # `monkeypatch` restores the real time even if a test has patched the clock as well.
    for name in ("unix", "monotonic"):
        monkeypatch.setattr(clock, name, getattr(clock, name))
    movable = Clock()
    yield movable
    movable.restore()


@pytest.fixture
def frozen_clock(movable_clock: Clock) -> Clock:
    """A clock whose wall time moves by `advance` and `set` only."""
    movable_clock.freeze(1_790_000_000.0)
    return movable_clock


@pytest.fixture
def stopped_clock(movable_clock: Clock) -> Clock:
    """Clock whose times move only by `advance` and `set`."""
    movable_clock.stop()
    return movable_clock
