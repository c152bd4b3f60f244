"""Product and simulator as processes, for tests, trials and benchmarks.

All servers listen on loopback, on ports that the system chose. Only processes started here are ended.
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

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9/v1.2"
"""URL of an unreachable platform: no server listens on the discard port."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def keep_port() -> socket.socket:
    """Return a socket that reserves a free port while it is open.

    The system does not assign the port to other sockets. A server that sets SO_REUSEADDR can listen on it.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


def make_environment(
    data_dir: Path,
    base_url: str = NOWHERE,
    user_id: str = "1000001",
    api_key: str = "0" * 40,
    **settings: str,
) -> dict[str, str]:
    """Return environment variables of the product; `section__key` adds one setting."""
    return {
        "SWITCHROOM_CONFIG": os.devnull,
        "SWITCHROOM_PLATFORM__BASE_URL": base_url,
        "SWITCHROOM_PLATFORM__USER_ID": user_id,
        "SWITCHROOM_PLATFORM__API_KEY": api_key,
        "SWITCHROOM_STORAGE__DATA_DIR": str(data_dir),
        **{f"SWITCHROOM_{key.upper()}": value for key, value in settings.items()},
    }


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Call `condition` until it returns a true value. Returns that value.

    OSError and HTTPException count as false. Raises TimeoutError, which names `what`, after `seconds`.
    """
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
    """Whether process `pid` runs. A zombie does not run."""
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
    """A child process. Its output is stored in `lines`."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str] | None = None) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHROOM_")}
        self.lines: list[str] = []
        self.popen = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env={**kept, "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
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
        """Wait for a line that begins with `prefix`. Returns its remainder."""

        def found() -> list[str]:
            if self.popen.poll() is not None:
                raise RuntimeError(f"ended with {self.popen.returncode}:\n{self.output}")
            return [line[len(prefix) :].strip() for line in list(self.lines) if line.startswith(prefix)]

        return str(wait_for(found, f"a line {prefix!r}", seconds)[0])

    def stop(self, seconds: float = 30) -> int:
        """Send SIGTERM. Returns the exit status.

        Raises subprocess.TimeoutExpired if the process does not end within `seconds`.
        """
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        status = self.popen.wait(seconds)
        self._reader.join(30)
        return status

    def kill(self) -> None:
        """Send SIGKILL to the process and its children."""
        for child in [*children(self.pid), self.pid]:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.popen.wait(30)


class Client:
    """HTTP client for one origin. Each request uses a new connection."""

    def __init__(self, origin: str, context: ssl.SSLContext | None = None) -> None:
        url = urlsplit(origin)
        self.host, self.port, self.secure = url.hostname, url.port, url.scheme == "https"
        self.context = context

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        address: str | None = None,
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        """Send a request, from `address`. Returns status, body and headers."""
        connection: http.client.HTTPConnection
        source = None if address is None else (address, 0)
        if self.secure:
            connection = http.client.HTTPSConnection(
                self.host or "", self.port, timeout=60, source_address=source, context=self.context
            )
        else:
            connection = http.client.HTTPConnection(
                self.host or "", self.port, timeout=60, source_address=source
            )
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def json(
        self, method: str, path: str, payload: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Send a request with a JSON body. Returns the parsed response.

        Raises AssertionError for a status of 400 or higher.
        """
        body = None if payload is None else json.dumps(payload).encode()
        status, content, _ = self.send(
            method, path, body, {"Content-Type": "application/json", **(headers or {})}
        )
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content else None


class Simulator(Process):
    """`switchroom simulator` as a process."""

    def __init__(self, *options: str) -> None:
        super().__init__([sys.executable, "app.py", "simulator", "--port", "0", *options])
        self.url = self.line("Simulator: ")
        self.client = Client(self.url)
        self.base = urlsplit(self.url).path
        self.user_id = self.line("User id: ")
        self.api_key = self.line("API key: ")

    def control(self, method: str, what: str, payload: Any = None) -> Any:
        """Send a request to a control endpoint of the simulator, below `/_simulator/`."""
        return self.client.json(method, f"/_simulator/{what}", payload)


class Product(Process):
    """`switchroom serve` as a process, ready after the constructor returns."""

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
        # Reserve the port: other processes may request one before this one listens, and while it is down.
        self._kept = keep_port() if port is None else None
        self.port = self._kept.getsockname()[1] if self._kept else port
        scheme = "https" if "server__tls_cert" in settings else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.client = Client(self.url, context)
        account = base_url, user_id, api_key
        own = make_environment(data_dir, *account, server__port=str(self.port), **settings)
        self.environment = {**(environment or {}), **own}
        self._arguments = [sys.executable, *program, "serve"]
        self.start()

    def start(self) -> None:
        """Start `serve`.

        After `kill` it has the same port and settings as before.
        """
        super().__init__(self._arguments, self.environment)
        self.ready()

    def ready(self, seconds: float = 240) -> None:
        """Wait until `/readyz` returns 200."""

        def ok() -> bool:
            if self.popen.poll() is not None:
                raise RuntimeError(f"serve ended with {self.popen.returncode}:\n{self.output}")
            return self.client.send("GET", "/readyz")[0] == 200

        wait_for(ok, f"readiness of {self.url}", seconds)

    @property
    def webhook_path(self) -> str:
        return "/webhooks/" + (self.data_dir / "webhook-secret").read_text().strip()

    @property
    def worker(self) -> int | None:
        """Process id of the worker, None while no worker runs."""
        pids = children(self.pid)
        return pids[0] if pids else None

    def command(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the product with the same settings."""
        return subprocess.run(
            [sys.executable, "app.py", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def run_installation(
    data_dir: Path, *options: str, base: str = "/v1.2", **settings: str
) -> Iterator[tuple[Simulator, Product]]:
    """Run a simulator with `options`, and the product with `settings`.

    `base` is the base path of the platform's URLs and of the facade. Both processes are stopped at the end.
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
