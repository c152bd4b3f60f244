"""`serve`: the process that holds lock, port and settings, and keeps one worker alive.

It stays free of heavy imports, because the worker is forked from it and because it must not fail. Granian
serves; its supervisor is used with four differences: the listening socket is opened here (`port.py`), a
worker that dies is replaced for as long as it takes, a stop reaches the worker by a pipe before the
signal does, and SIGHUP never starts a second worker beside the first (it would be a second writer).
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from granian._granian import SocketHolder
from granian.constants import Interfaces, SSLProtocols
from granian.log import LogLevels
from granian.log import logger as granian_log
from granian.server.common import AbstractServer
from granian.server.mp import MPServer

from integration.core import clock
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.server import port
from integration.server.run_command import acquire_for_serve
from integration.server.tenant import is_same_customer
from integration.server.worker import FACTORY, Worker
from integration.settings.data_dir_secrets import claim_data_dir
from integration.settings.model import Settings, list_warnings
from integration.web import BLOCKING_THREADS

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 8192
"""Granian's back-pressure counts connections, idle ones too: far above the threads, or 320 idle browsers
would keep webhooks out."""

KILL_SECONDS = 9
"""The net under a worker that does not stop: it bounds itself to less (`worker.py`)."""

MAX_RESTART_DELAY = 10.0
"""Between workers that die before they are ready; one that was ready is replaced at once."""

LOW_DISK_BYTES = 2 * 1024**3


def serve(
    settings: Settings, *, factory: str = FACTORY, write_line: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT; returns after a clean stop.

    `write_line` gets the start lines, a line each. Raises ConfigurationError and SwitchroomError for whatever
    keeps it from starting.
    """
    write_line = write_line or _print_to_stderr
    os.umask(0o077)
    for line in list_warnings(settings):
        write_line(f"warning: {line}")
    data_dir = settings.storage.data_dir
    check_data_dir(data_dir, write_line)
    _raise_file_limit()
    lock = acquire_for_serve(data_dir, write_line)
    try:
        claim_data_dir(settings, lambda: is_same_customer(settings))
        listener = port.listen(settings.server.host, settings.server.port)
        # Links name the port: for port 0, the one that was found.
        server = settings.server.model_copy(update={"port": listener.getsockname()[1]})
        settings = settings.model_copy(update={"server": server})
        _Supervisor(settings, factory, listener, write_line).run()
    finally:
        lock.release()


def check_data_dir(data_dir: Path, write_line: Callable[[str], None]) -> None:
    """Make the folder if it is missing, and see that it can be written. Raises SwitchroomError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=data_dir) as probe:
            probe.write(bytes(1024 * 1024))
            probe.flush()
            os.fsync(probe.fileno())
        free = shutil.disk_usage(data_dir).free
    except OSError as error:
        raise SwitchroomError(
            f"storage.data_dir: {data_dir.absolute()}: can't be written: {error.strerror};"
            " make room or give it to this user, or choose another folder"
        ) from error
    if free < LOW_DISK_BYTES:
        write_line(
            f"warning: storage.data_dir: only {free // 1024**2} MB are free; recordings stop below 2 GB"
        )


class _Supervisor(MPServer):
    """Granian's server with our socket, our stop and our respawning."""

    def __init__(
        self, settings: Settings, factory: str, listener: socket.socket, write_line: Callable[[str], None]
    ) -> None:
        # Lock, stop pipe and socket reach the worker by inheritance; Python 3.14 no longer forks by default.
        multiprocessing.set_start_method("fork", force=True)
        server = settings.server
        try:
            super().__init__(
                target="",
                address=server.host,
                port=listener.getsockname()[1],
                interface=Interfaces.WSGI,
                workers=1,
                blocking_threads=BLOCKING_THREADS,
                backlog=port.BACKLOG,
                backpressure=MAX_CONNECTIONS,
                workers_kill_timeout=KILL_SECONDS,
                log_level=LogLevels.warning,
                log_dictconfig={
                    "handlers": {},
                    "loggers": {"_granian": {"level": "WARNING"}, "granian.access": {"level": "WARNING"}},
                },
                ssl_cert=server.tls_cert,
                ssl_key=server.tls_key,
                # Its default of 1.3 would keep out senders that have only 1.2.
                ssl_protocol_min=SSLProtocols.tls12,
            )
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                [f"server.tls_cert: with server.tls_key this is no usable pair: {error}"]
            ) from error
        self._settings = settings
        self._factory = factory
        self._listener: socket.socket | None = listener
        self._write_line = write_line
        self._url = port.build_url(listener, server.tls_cert is not None)
        self._stop_read, self._stop_write = os.pipe()
        self._status_read, self._status_write = os.pipe()
        self._status_changed = threading.Condition()
        self._has_been_ready = False
        self._ready_pids: set[int] = set()
        self._refusals: dict[int, tuple[list[str], int]] = {}
        self._is_stop_sent = False

    def run(self) -> None:
        """Serve until a stop is asked for. Raises what kept the first worker from starting."""
        # What happens to a dead worker is told below, in words that say what is done about it.
        granian_log.addFilter(lambda record: not record.getMessage().startswith("Unexpected exit"))
        threading.Thread(target=self._read_statuses, name="worker status", daemon=True).start()
        # Not MPServer.serve: it only warns about the number of threads.
        try:
            server: Any = AbstractServer
            server.serve(self, self._worker_main, Worker, wrap_loader=False)
        except SystemExit:
            # Granian exits 1 where a worker ended before it was told to, as Ctrl-C may have it.
            if not self.interrupt_signal:
                raise
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    # --- in the worker, after the fork -------------------------------------------------------------

    def _worker_main(self, worker_id: int, *arguments: Any) -> None:
        """What the forked process runs: the product behind Granian's worker, until that has drained."""
        os.close(self._stop_write)
        os.close(self._status_read)
        worker = Worker(self._settings, self._factory, self._stop_read, self._status_write)

        def load() -> Callable[..., Any]:
            application = worker.load()
            # Granian has a descriptor of its own, which it closes when it stops accepting.
            if self._listener is not None:
                self._listener.close()
            return application

        name, _, *rest = arguments
        try:
            MPServer._spawn_wsgi_worker(worker_id, name, load, *rest)
        except Exception:
            log.exception("the server failed")
            os._exit(1)
        worker.finish()

    # --- Granian's places that are ours ------------------------------------------------------------

    def _init_shared_socket(self) -> None:
        assert self._listener is not None
        self._ssp = None
        self._sso = None
        # As Granian pickles it: descriptor, whether it is a Unix socket, backlog.
        make_holder: Any = SocketHolder
        self._shd = make_holder(os.dup(self._listener.fileno()), False, port.BACKLOG)

    def _drop_shared_socket(self) -> None:
        self._shd = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def startup(self, spawn_target: Any, target_loader: Any) -> None:
        previous_handler = signal.getsignal(signal.SIGHUP)
        self.on_startup(
            lambda: (
                signal.signal(signal.SIGHUP, previous_handler) if previous_handler == signal.SIG_IGN else None
            )
        )
        super().startup(spawn_target, target_loader)  # type: ignore[no-untyped-call]

    def signal_handler_interrupt(self, *_: Any, **__: Any) -> None:
        self._send_stop()
        super().signal_handler_interrupt()  # type: ignore[no-untyped-call]

    def signal_handler_reload(self, *_: Any, **__: Any) -> None:
        self.signal_handler_interrupt()

    def _send_stop(self) -> None:
        if not self._is_stop_sent:
            self._is_stop_sent = True
            os.write(self._stop_write, b"x")

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace a dead worker, at once if it had been ready, until a stop is asked for."""
        restart_delay = 0.0
        while True:
            self.main_loop_interrupt.wait()
            if self.interrupt_signal:
                return
            self.main_loop_interrupt.clear()
            if not self.interrupt_children:
                continue
            self.interrupt_children.clear()
            dead_worker = self.wrks[0]
            self._raise_refusal(dead_worker)
            lifetime = clock.monotonic() - dead_worker.birth
            restart_delay = (
                0.0
                if dead_worker.inner.pid in self._ready_pids
                else min(MAX_RESTART_DELAY, restart_delay * 2 or 0.1)
            )
            self._ready_pids.discard(dead_worker.inner.pid)
            log.error(
                "the worker (process %s) ended with status %s after %.1f s; starting another%s",
                dead_worker.inner.pid,
                dead_worker.inner.exitcode,
                lifetime,
                f" in {restart_delay:.1f} s" if restart_delay else "",
            )
            if restart_delay and self.main_loop_interrupt.wait(restart_delay) and self.interrupt_signal:
                return
            self.wrks.clear()
            self._spawn_workers(spawn_target, target_loader)  # type: ignore[no-untyped-call]

    def _raise_refusal(self, dead_worker: Any) -> None:
        """End with the reason, if the very first worker said that it can't start; a later one is replaced."""
        if dead_worker.inner.exitcode is None or dead_worker.inner.exitcode < 0:
            return
        with self._status_changed:
            self._status_changed.wait_for(
                lambda: dead_worker.inner.pid in self._refusals, 1.0 if not self._has_been_ready else 0.0
            )
            refusal = self._refusals.pop(dead_worker.inner.pid, None)
        if refusal is None:
            return
        lines, status = refusal
        if self._has_been_ready:
            for line in lines:
                log.error("%s", line)
            return
        self.wrks.clear()
        self._drop_shared_socket()
        raise ConfigurationError(lines) if status == 2 else SwitchroomError("\n".join(lines))

    def _read_statuses(self) -> None:
        """Read what workers say of themselves: `{"pid", "ready"}` or `{"pid", "refused": [line], "exit"}`."""
        with os.fdopen(self._status_read, encoding="utf-8", closefd=False) as lines:
            for line in lines:
                message = json.loads(line)
                with self._status_changed:
                    if message.get("ready"):
                        is_first, self._has_been_ready = not self._has_been_ready, True
                        self._ready_pids.add(message["pid"])
                        self._write_line(f"Listening on {self._url}" if is_first else "The worker is back")
                    else:
                        self._refusals[message["pid"]] = (message["refused"], message["exit"])
                    self._status_changed.notify_all()


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target_limit = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < target_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target_limit, hard))


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
