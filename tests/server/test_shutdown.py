"""The watch for a worker's end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from integration.server import shutdown


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    before = signal.set_wakeup_fd(-1)
    ends = os.pipe()
    yield ends
    signal.set_wakeup_fd(before)
    os.close(ends[0])


def test_it_tells_that_it_lives_what_is_asked_and_that_nobody_holds_the_other_end(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "TICK_MILLISECONDS", 5)
    alive, asked, orphaned = threading.Event(), threading.Event(), threading.Event()
    thread = shutdown.watch_stop_pipe(pipe[0], asked.set, orphaned.set, alive.set)
    assert alive.wait(30)
    assert not asked.is_set()
    os.write(pipe[1], b"x")
    assert asked.wait(30)
    alive.clear()
    assert alive.wait(30), "it watches on while the worker stops"
    assert not orphaned.is_set()
    os.close(pipe[1])
    assert orphaned.wait(30)
    thread.join(30)
