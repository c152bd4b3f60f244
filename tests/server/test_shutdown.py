"""Pipe by which the supervisor stops a worker."""

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


def test_the_watch_reports_a_heartbeat_a_stop_request_and_a_closed_pipe(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "TICK_MILLISECONDS", 5)
    alive, stop_requested, orphaned = threading.Event(), threading.Event(), threading.Event()
    thread = shutdown.watch_stop_pipe(pipe[0], stop_requested.set, orphaned.set, alive.set)
    assert alive.wait(30)
    assert not stop_requested.is_set()
    os.write(pipe[1], b"x")
    assert stop_requested.wait(30)
    alive.clear()
    assert alive.wait(30), "heartbeats continue while the worker stops"
    assert not orphaned.is_set()
    os.close(pipe[1])
    assert orphaned.wait(30)
    thread.join(30)
