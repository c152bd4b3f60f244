"""Simulator as a separate process, which ends on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from typing import Any

from integration.simulator import embed

SIGNAL_POLL_SECONDS = 0.5
"""Maximum seconds from a signal to the stop."""


def run(**options: Any) -> None:
    """Run a simulator until SIGTERM or SIGINT.

    `options` are those of `embed.start`. The URL and the credentials of two users are printed on standard
    output.
    """
    stop_requested = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop_requested.set())
    simulator = embed.start(**options)
    admin, ordinary = simulator.admin, simulator.ordinary_user
    print(f"Simulator: {simulator.url}")
    print(f"Administrator: {admin.email}")
    print(f"Password: {admin.password}")
    print(f"User id: {admin.id}")
    print(f"API key: {admin.api_key}")
    print(f"Ordinary user: {ordinary.email} {ordinary.password} {ordinary.id} {ordinary.api_key}", flush=True)
    # With a time limit: the handler runs on this thread, which a signal to another thread does not wake.
    while not stop_requested.wait(SIGNAL_POLL_SECONDS):
        pass
    simulator.stop()
