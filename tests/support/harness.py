"""The product and the simulator as real processes, for end-to-end tests, trials and benchmarks.

Everything listens on loopback, on ports the system chose. Only processes started here are ever ended.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support import fork_server

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9/v1.2"
"""A platform that is away: nothing listens on the discard port."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def keep_port() -> socket.socket:
    """A socket that keeps a free port while it is open: the system gives it to nobody who asks for one or
    connects. Whoever names it and sets SO_REUSEADDR, as servers do, may listen on it."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Ask again until `condition` gives something true. Raises TimeoutError naming `what`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        try:
            found = condition()
        except (OSError, http.client.HTTPException):
            found = None
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        pause.wait(0.02)


def alive(pid: int) -> bool:
    """Whether process `pid` runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Process:
    """A child process whose output is kept in memory, line by line."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str] | None = None) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHROOM_")}
        self.lines: list[str] = []
        self.popen = fork_server.start_process(
            arguments,
            cwd=ROOT,
            env={**kept, "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def line(self, prefix: str, seconds: float = 240) -> str:
        """The rest of the first line that begins with `prefix`, once it was printed."""

        def found() -> list[str]:
            if self.popen.poll() is not None:
                raise RuntimeError(f"ended with {self.popen.returncode}:\n{self.output}")
            return [line[len(prefix) :].strip() for line in list(self.lines) if line.startswith(prefix)]

        return str(wait_for(found, f"a line {prefix!r}", seconds)[0])

    def stop(self, seconds: float = 30) -> int:
        """SIGTERM, then the exit status. Raises subprocess.TimeoutExpired when it does not end."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        status = self.popen.wait(seconds)
        self._reader.join(30)
        return status

    def kill(self) -> None:
        for child in [*children(self.pid), self.pid]:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.popen.wait(30)


class Client:
    """A small HTTP client for one origin; a connection for each request."""

    def __init__(self, origin: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(origin)
        self.host, self.port, self.secure = parts.hostname, parts.port, parts.scheme == "https"
        self.context = context

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection: http.client.HTTPConnection
        if self.secure:
            connection = http.client.HTTPSConnection(
                self.host or "", self.port, timeout=60, context=self.context
            )
        else:
            connection = http.client.HTTPConnection(self.host or "", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def json(
        self, method: str, path: str, payload: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        body = None if payload is None else json.dumps(payload).encode()
        status, content, _ = self.ask(
            method, path, body, {"Content-Type": "application/json", **(headers or {})}
        )
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content else None


class Simulator(Process):
    """`switchroom simulator` as its own process."""

    def __init__(self, *options: str) -> None:
        super().__init__([sys.executable, "app.py", "simulator", "--port", "0", *options])
        self.url = self.line("Simulator: ")
        self.client = Client(self.url)
        self.base = urlsplit(self.url).path
        self.user_id = self.line("User id: ")
        self.api_key = self.line("API key: ")

    def control(self, method: str, what: str, payload: Any = None) -> Any:
        """One of the simulator's own endpoints, under `/_simulator/`."""
        return self.client.json(method, f"/_simulator/{what}", payload)


class Product(Process):
    """`switchroom serve` as its own processes, on a data_dir of its own."""

    def __init__(
        self,
        data_dir: Path,
        *,
        base_url: str = NOWHERE,
        user_id: str = "1000001",
        api_key: str = "0" * 40,
        port: int | None = None,
        program: tuple[str, ...] = ("app.py",),
        context: ssl.SSLContext | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: str,
    ) -> None:
        self.data_dir = data_dir
        # Others ask for free ports before this one listens, and whenever it is down.
        self._kept = keep_port() if port is None else None
        self.port = self._kept.getsockname()[1] if self._kept else port
        scheme = "https" if "server__tls_cert" in settings else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.client = Client(self.url, context)
        environment = {
            **(environment or {}),
            "SWITCHROOM_CONFIG": os.devnull,
            "SWITCHROOM_PLATFORM__BASE_URL": base_url,
            "SWITCHROOM_PLATFORM__USER_ID": user_id,
            "SWITCHROOM_PLATFORM__API_KEY": api_key,
            "SWITCHROOM_STORAGE__DATA_DIR": str(data_dir),
            "SWITCHROOM_SERVER__PORT": str(self.port),
            **{f"SWITCHROOM_{key.upper()}": value for key, value in settings.items()},
        }
        self.environment = environment
        super().__init__([sys.executable, *program, "serve"], environment)
        self.ready()

    def ready(self, seconds: float = 240) -> None:
        """Wait until `/readyz` is 200."""

        def ok() -> bool:
            if self.popen.poll() is not None:
                raise RuntimeError(f"serve ended with {self.popen.returncode}:\n{self.output}")
            return self.client.ask("GET", "/readyz")[0] == 200

        wait_for(ok, f"readiness of {self.url}", seconds)

    @property
    def webhook_path(self) -> str:
        return "/webhooks/" + (self.data_dir / "webhook-secret").read_text().strip()

    @property
    def worker(self) -> int | None:
        """Pid of the worker; None while there is none."""
        pids = children(self.pid)
        return pids[0] if pids else None

    def command(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command of the product with this one's settings."""
        return fork_server.run_process(
            [sys.executable, "app.py", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdin=stdin or "",
        )


@contextmanager
def installed(
    data_dir: Path, *options: str, base: str = "/v1.2", **settings: str
) -> Iterator[tuple[Simulator, Product]]:
    """A simulator with these options and the product with these settings before it, both gone afterwards.

    `base` is the path under which the product asks the platform, and answers itself.
    """
    simulator = Simulator(*options)
    try:
        product = Product(
            data_dir,
            base_url=simulator.url.replace("/v1.2", base),
            user_id=simulator.user_id,
            api_key=simulator.api_key,
            sync__max_requests_per_minute="100000",
            **settings,
        )
        try:
            yield simulator, product
        finally:
            product.stop()
    finally:
        simulator.stop()
