"""Child processes of a test. They are killed at its end."""

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
from collections.abc import Callable, Iterator

import pytest

from tests.support.harness import ROOT, wait_for

__all__ = ["PATIENCE", "ROOT", "Running", "get", "open_stream", "start", "wait_for"]

PATIENCE = 60.0
"""Seconds until a wait fails."""


class Running:
    """A child process.

    Its output is read line by line into `out` and `err`.
    """

    def __init__(self, arguments: list[str], **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
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
        """Port in the process's start line. Waits for the line."""
        found: list[str] = []

        def has_started() -> bool:
            assert self.process.poll() is None, self.err
            found[:] = re.findall(r"Listening on https?://\S+:(\d+)", "\n".join(self.err))
            return bool(found)

        wait_for(has_started, f"start line in {self.err}")
        return int(found[0])

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait until the process has ended and its output was read.

        Returns the exit status.
        """
        status = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(seconds)
        return status

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Run this Python interpreter with arguments: `start("-m", "module", …)`.

    Processes that run at the end of the test are killed.
    """
    running: list[Running] = []

    def begin(*arguments: object, **environ: str) -> Running:
        running.append(Running([str(argument) for argument in arguments], **environ))
        return running[-1]

    yield begin
    for child in running:
        if child.process.poll() is None:
            # A worker ends automatically when the pipe to its supervisor closes.
            child.signal(signal.SIGKILL)
            child.process.wait()


def get(port: int, path: str = "/") -> str:
    """Return the body of a response. Each request uses a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def open_stream(port: int) -> socket.socket:
    """Open a live stream and read its first bytes."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200 OK" in connection.recv(4096)
    return connection
