"""Measurements of processes and of HTTP requests."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.harness import ROOT, Client, Process, children, free_port, wait_for
from tests.trials.tools.processes import read_peak_memory, read_present_memory

BIN = Path(sys.executable).parent
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Run:
    """Elapsed seconds, CPU seconds and peak memory in MB of a process and its children."""

    seconds: float
    cpu: float
    megabytes: float


def run_process(
    command: Sequence[str], out: Path | None = None, environment: Mapping[str, str] | None = None
) -> Run:
    """Run a process, its standard output in `out`.

    Raises CalledProcessError for another status than 0.
    """
    with open(out or os.devnull, "wb") as file:
        begun = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, env=environment)
        watch = _PeakMemory(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return Run(seconds, usage.ru_utime + usage.ru_stime, watch.stop())


class _PeakMemory:
    """Peak memory of a process, and of it together with its children.

    `getrusage` would count that of its parent before the exec.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._ended = pid, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            together = sum(map(read_present_memory, read_family(self._pid)))
            self._peak = max(self._peak, read_peak_memory(self._pid), together)

    def stop(self) -> float:
        self._ended.set()
        self._thread.join()
        return self._peak


def read_memory(pids: Sequence[int]) -> float:
    """Return the memory of related processes in MB.

    Shared pages count once (PSS).
    """
    total = 0.0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return total


def read_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_thread_cpu(pid: int) -> float:
    """Return the CPU seconds of the threads of a process that run now, to the nanosecond."""
    total = 0.0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            continue
    return total


def read_family(pid: int) -> list[int]:
    """Return a process and its children."""
    return [pid, *children(pid)]


def drop_from_page_cache(folder: Path) -> None:
    """Remove the databases of a folder from the system's page cache.

    Pages that a process maps stay.
    """
    for path in folder.glob("*.db*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


class Requests:
    """Requests, each over a connection that is opened before its measurement.

    A server may close a connection that is not used for some seconds. `pid`: server process whose CPU time is
    measured with each request.
    """

    def __init__(self, port: int, headers: Mapping[str, str] | None = None, pid: int | None = None) -> None:
        self._port, self._headers, self._pid = port, dict(headers or {}), pid
        self.cpu: list[float] = []
        """CPU milliseconds of the server during each measured request, its background work included."""

    def get(self, path: str) -> bytes:
        """Return the body. Raises AssertionError for another status than 200."""
        with self._connect() as connection:
            return self._get(connection, path)

    def measure(self, path: str) -> float:
        """Return the milliseconds until the last byte."""
        with self._connect() as connection:
            spent = read_thread_cpu(self._pid) if self._pid else 0.0
            begun = time.perf_counter()
            self._get(connection, path)
            seconds = time.perf_counter() - begun
            if self._pid:
                self.cpu.append(max(0.0, read_thread_cpu(self._pid) - spent) * 1000)
        return seconds * 1000

    def measure_stream(self, path: str) -> tuple[float, float]:
        """Return the milliseconds until the first and the last byte."""
        with self._connect() as connection:
            begun = time.perf_counter()
            response = self._request(connection, path)
            response.read(1)
            first = time.perf_counter() - begun
            while response.read(1 << 20):
                pass
            return first * 1000, (time.perf_counter() - begun) * 1000

    @contextmanager
    def _connect(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with closing(connection):
            yield connection

    def _get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        return self._request(connection, path).read()

    def _request(self, connection: http.client.HTTPConnection, path: str) -> http.client.HTTPResponse:
        connection.request("GET", path, headers=self._headers)
        response = connection.getresponse()
        assert response.status == 200, (path, response.status, response.read(300))
        return response


@contextmanager
def run_server(
    arguments: list[str], port: int, environment: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run a server until the end of the block."""
    process = Process(arguments, environment or {})
    client = Client(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: client.send("GET", "/")[0] in (200, 404), f"a response of {arguments}", 120)
        yield process
    finally:
        process.stop()


@contextmanager
def run_granian(app: str, environment: Mapping[str, str] | None = None, threads: int = 256) -> Iterator[int]:
    """Serve a WSGI application by the product's server. Yields the port."""
    port = free_port()
    command = [str(BIN / "granian"), "--interface", "wsgi", "--port", str(port), "--no-access-log"]
    with run_server([*command, "--blocking-threads", str(threads), app], port, environment):
        yield port


@contextmanager
def run_datasette(path: Path) -> Iterator[int]:
    """Serve a database by Datasette. Yields the port."""
    port = free_port()
    command = [str(BIN / "datasette"), "serve", str(path), "--port", str(port)]
    settings = {"max_returned_rows": "5000", "sql_time_limit_ms": "60000", "max_csv_mb": "0",
                "facet_suggest_time_limit_ms": "1", "num_sql_threads": "1"}  # fmt: skip
    for name, value in settings.items():
        command += ["--setting", name, value]
    with run_server(command, port):
        yield port
