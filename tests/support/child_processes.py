"""Real processes that a test starts, waits for by conditions, and that are gone when it ends."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import fork_server

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        pause.wait(0.01)


class Running:
    """A process of ours with its output gathered line by line."""

    def __init__(self, arguments: list[str], **environ: str) -> None:
        self.process = fork_server.start_process(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._gather, args=(stream, lines), daemon=True)
            for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _gather(stream: Iterator[str], lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        """The port it says it listens on, once it is ready."""
        found: list[str] = []

        def said() -> bool:
            assert self.process.poll() is None, self.err
            found[:] = re.findall(r"Listening on https?://\S+:(\d+)", "\n".join(self.err))
            return bool(found)

        wait_for(said, f"start line in {self.err}")
        return int(found[0])

    def ended(self, seconds: float = PATIENCE) -> int:
        """Its exit status, once it has ended and all its output was read."""
        status = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(seconds)
        return status

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """`start("-m", "module", …)` runs this Python; what still runs at the end is killed with its workers."""
    running: list[Running] = []

    def begin(*arguments: object, **environ: str) -> Running:
        running.append(Running([str(argument) for argument in arguments], **environ))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            # Its worker sees the pipe close, and ends by itself.
            one.signal(signal.SIGKILL)
            one.process.wait()


def get(port: int, path: str = "/") -> str:
    """The body of one request, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def open_stream(port: int) -> socket.socket:
    """A live stream that has begun: its first bytes were read."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200 OK" in connection.recv(4096)
    return connection
