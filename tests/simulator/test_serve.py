"""Simulator process: printed lines, HTTPS, SIGTERM, start errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.support.child_processes import PATIENCE
from tests.support.harness import ROOT, Process, wait_for

COMMAND = [sys.executable, "app.py", "simulator", "--cdrs", "100"]


@pytest.fixture
def launch():
    processes: list[Process] = []

    def start(*arguments: str) -> Process:
        processes.append(Process([*COMMAND, *arguments]))
        return processes[-1]

    yield start
    for process in processes:
        process.stop()


def read_printed_lines(process: Process) -> dict[str, str]:
    wait_for(lambda: len(process.lines) >= 6, "the lines of the simulator")
    return dict(line.split(": ", 1) for line in process.lines[:6])


def test_the_process_prints_its_url_and_credentials_and_ends_on_sigterm(launch):
    process = launch("--port", "0")
    printed = read_printed_lines(process)
    url = printed["Simulator"]
    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/v1.2")
    login = {"email": printed["Administrator"], "password": printed["Password"]}
    assert requests.post(url + "/login", json=login, timeout=30).json()["user_id"] == int(printed["User id"])
    assert (
        requests.get(url + "/me", headers={"X-Auth-Token": printed["API key"]}, timeout=30).status_code == 200
    )
    assert process.stop() == 0


def find_other_thread(process: int) -> int:
    """Return a thread of a process that is not its main thread."""
    return max(
        int(task.name) for task in Path(f"/proc/{process}/task").iterdir() if int(task.name) != process
    )


def test_a_stop_by_a_signal_that_another_thread_receives(launch):
    process = launch("--port", "0")
    read_printed_lines(process)
    os.kill(find_other_thread(process.pid), signal.SIGTERM)
    assert process.popen.wait(PATIENCE) == 0


@pytest.mark.exhaustive
def test_a_taken_port_and_invalid_options_are_errors_of_one_line(launch):
    first = launch("--no-traffic")
    port = read_printed_lines(first)["Simulator"].rsplit(":", 1)[1].split("/")[0]
    for arguments, status in ((["--port", port], 1), (["--faults", "nonsense"], 2), (["--speed", "0"], 2)):
        ended = subprocess.run(
            [*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
        )
        assert ended.returncode == status, ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1
