"""Holder of the lock of a `data_dir`."""

from __future__ import annotations

import os
import subprocess
import sys

from integration.core.process_lock import Holder
from tests.support.harness import wait_for


def make_holder(pid: int) -> Holder:
    return Holder(pid, "serve", "2026-03-01 08:00:00")


def test_this_process_is_alive() -> None:
    assert make_holder(os.getpid()).is_alive


def test_an_ended_process_is_not_alive_before_and_after_its_parent_reads_the_status() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    holder = make_holder(process.pid)
    wait_for(lambda: not holder.is_alive, "end of the process")
    os.kill(process.pid, 0)  # Raises if the process is not a zombie any more.
    process.wait()
    assert not holder.is_alive
