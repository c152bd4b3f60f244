"""Supervisor of `serve`: holds lock, port and settings, restarts the worker.

The supervisor imports no heavy modules, because the worker is forked from it and because it must not fail.
The HTTP server is Granian. Its supervisor is used with five differences: the listening socket is opened here
(`port.py`); a dead worker is replaced without a limit of attempts; a stop reaches the worker by a pipe before
the signal, and no ended worker is killed; SIGHUP never starts a second worker beside the first, which would
be a second writer.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.log import LogLevels
from granian.log import logger as granian_log
from granian.server.common import AbstractServer
from granian.server.mp import MPServer

from integration.core import clock
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.maintenance import start_conditions
from integration.server import port
from integration.server.run_command import acquire_for_serve
from integration.server.service_manager import ServiceManager
from integration.server.start_responder import StartResponder
from integration.server.tenant import is_same_customer
from integration.server.worker import EXIT_START_FAILED, FACTORY, Worker
from integration.settings.data_dir_secrets import claim_data_dir
from integration.settings.model import Settings, list_warnings
from integration.web import BLOCKING_THREADS

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 8192
"""Maximum number of connections, which Granian counts for back-pressure, including idle ones.

Far above the number of threads, or 320 idle browsers would block webhooks.
"""

KILL_SECONDS = 15
"""Seconds after which a worker that does not stop is killed.

A worker limits itself to half of it (`worker.py`); on a busy computer it needs more. systemd kills the
service after 20 s (`deploy/systemd`).
"""
STATUS_POLL_SECONDS = 0.01
"""Seconds between two checks of the exit status of an ended worker."""

SIGNAL_POLL_SECONDS = 0.5
"""Maximum seconds from a signal to its handler."""

MAX_RESTART_DELAY = 10.0
"""Maximum seconds before a worker that died before it was ready is replaced.

A worker that was ready is replaced at once.
"""


def serve(
    settings: Settings, *, factory: str = FACTORY, write_line: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. Returns after a clean stop.

    `write_line` receives each line of the start. Raises ConfigurationError and SwitchroomError if the product
    cannot start.
    """
    write_line = write_line or _print_to_stderr
    os.umask(0o077)
    for line in list_warnings(settings):
        write_line(f"warning: {line}")
    data_dir = settings.storage.data_dir
    start_conditions.enforce(settings, write_line)
    create_data_dir(data_dir)
    _raise_file_limit()
    lock = acquire_for_serve(data_dir, write_line)
    try:
        claim_data_dir(settings, lambda: is_same_customer(settings))
        listener = port.listen(settings.server.host, settings.server.port)
        # Links contain the port: for port 0, the port that the system selected.
        server = settings.server.model_copy(update={"port": listener.getsockname()[1]})
        settings = settings.model_copy(update={"server": server})
        _Supervisor(settings, factory, listener, write_line, ServiceManager()).run()
    finally:
        lock.release()


def create_data_dir(data_dir: Path) -> None:
    """Create `data_dir` if it is missing. Raises SwitchroomError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SwitchroomError(
            f"storage.data_dir: {data_dir.absolute()} cannot be created: {error.strerror}. "
            "Give this user access, or choose another folder."
        ) from error


class _Supervisor(MPServer):
    """Granian's server with another listening socket, stop and restart of workers."""

    def __init__(
        self,
        settings: Settings,
        factory: str,
        listener: socket.socket,
        write_line: Callable[[str], None],
        service_manager: ServiceManager,
    ) -> None:
        # The worker inherits lock, stop pipe and socket; Python 3.14 no longer forks by default.
        multiprocessing.set_start_method("fork", force=True)
        server = settings.server
        try:
            super().__init__(
                target="",
                address=server.host,
                port=listener.getsockname()[1],
                interface=Interfaces.WSGI,
                # Granian has no deadlines for HTTP/2, and its streams keep their threads after a hang-up.
                http=HTTPModes.http1,
                workers=1,
                blocking_threads=BLOCKING_THREADS,
                backlog=port.BACKLOG,
                backpressure=MAX_CONNECTIONS,
                log_level=LogLevels.warning,
                log_dictconfig={
                    "handlers": {},
                    "loggers": {"_granian": {"level": "WARNING"}, "granian.access": {"level": "WARNING"}},
                },
                ssl_cert=server.tls_cert,
                ssl_key=server.tls_key,
                # The default of 1.3 would refuse senders that support only 1.2.
                ssl_protocol_min=SSLProtocols.tls12,
            )
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                [f"server.tls_cert and server.tls_key are not a valid pair: {error}"]
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
        self._refusals: dict[int, tuple[list[str], int, bool]] = {}
        """Lines, exit status, and whether no other worker could start either, by process."""
        self._is_stop_sent = False
        self._service_manager = service_manager
        self._is_worker_alive = threading.Event()

    def run(self) -> None:
        """Serve until a stop is requested.

        Raises the error of a first worker that cannot start.
        """
        # `_serve_loop` logs dead workers, with the time of the restart.
        granian_log.addFilter(lambda record: not record.getMessage().startswith("Unexpected exit"))
        threading.Thread(target=self._read_statuses, name="worker status", daemon=True).start()
        if (interval := self._service_manager.interval_seconds) is not None:
            threading.Thread(
                target=self._report_alive, args=(interval,), name="watchdog", daemon=True
            ).start()
        # Not MPServer.serve, which only adds a warning about the number of threads.
        try:
            server: Any = AbstractServer
            server.serve(self, self._worker_main, Worker, wrap_loader=False)
        except SystemExit:
            # Granian exits with 1 if a worker ended before the stop request, as after Ctrl-C.
            if not self.interrupt_signal:
                raise
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    # --- in the worker, after the fork -------------------------------------------------------------

    def _worker_main(self, worker_id: int, *arguments: Any) -> None:
        """Run the product behind Granian's worker, in the forked process."""
        os.close(self._stop_write)
        os.close(self._status_read)
        interval = self._service_manager.interval_seconds
        liveness = None if interval is None else (self._url, interval)
        worker = Worker(self._settings, self._factory, self._stop_read, self._status_write, liveness)

        def load() -> Callable[..., Any]:
            assert self._listener is not None
            with StartResponder(self._listener, self._settings.server):
                application = worker.load()
            # Granian has a second descriptor, which it closes when it stops accepting connections.
            self._listener.close()
            return application

        name, _, *rest = arguments
        try:
            MPServer._spawn_wsgi_worker(worker_id, name, load, *rest)
        except Exception:
            log.exception("the server failed")
            os._exit(1)
        worker.finish()

    # --- overridden methods of Granian -------------------------------------------------------------

    def _init_shared_socket(self) -> None:
        assert self._listener is not None
        self._ssp = None
        self._sso = None
        # Arguments as Granian pickles them: descriptor, whether it is a Unix socket, backlog.
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

    def _stop_workers(self) -> None:
        """Stop the worker; kill it after KILL_SECONDS.

        Granian's own method kills a process id that may no longer be the worker's: another thread of Granian
        waits for the worker as well. The ended worker counts as alive until that thread stored its status.
        """
        workers: list[Any] = self.wrks
        for worker in workers:
            worker.terminate()
            if not connection.wait([worker.inner.sentinel], KILL_SECONDS):
                log.error("killing the worker, which did not stop within %s s", KILL_SECONDS)
                worker.kill()
            while worker.is_alive():
                threading.Event().wait(STATUS_POLL_SECONDS)

    def _send_stop(self) -> None:
        if not self._is_stop_sent:
            self._is_stop_sent = True
            self._service_manager.report_stopping()
            os.write(self._stop_write, b"x")

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace dead workers until a stop is requested.

        A worker that was ready is replaced at once.
        """
        restart_delay = 0.0
        while True:
            # Python runs the handler of a signal on this thread, which a signal that the kernel delivers to
            # another thread does not wake.
            if not self.main_loop_interrupt.wait(SIGNAL_POLL_SECONDS):
                continue
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
        """Raise the reason for which no worker can start.

        The reason of a later worker is only logged, unless it is final.
        """
        if dead_worker.inner.exitcode is None or dead_worker.inner.exitcode < 0:
            return
        with self._status_changed:
            self._status_changed.wait_for(
                lambda: dead_worker.inner.pid in self._refusals,
                1.0 if not self._has_been_ready or dead_worker.inner.exitcode == EXIT_START_FAILED else 0.0,
            )
            refusal = self._refusals.pop(dead_worker.inner.pid, None)
        if refusal is None:
            return
        lines, status, is_final = refusal
        if self._has_been_ready and not is_final:
            for line in lines:
                log.error("%s", line)
            return
        self.wrks.clear()
        self._drop_shared_socket()
        raise ConfigurationError(lines) if status == 2 else SwitchroomError("\n".join(lines))

    def _read_statuses(self) -> None:
        """Read status messages of workers.

        They are `{"pid", "ready"}`, `{"pid", "alive"}`, or `{"pid", "refused": [line], "exit", "final"}`.
        """
        with os.fdopen(self._status_read, encoding="utf-8", closefd=False) as lines:
            for line in lines:
                message = json.loads(line)
                if message.get("alive"):
                    self._is_worker_alive.set()
                    continue
                with self._status_changed:
                    if message.get("ready"):
                        is_first, self._has_been_ready = not self._has_been_ready, True
                        self._ready_pids.add(message["pid"])
                        self._write_line(f"Listening on {self._url}" if is_first else "The worker is back")
                        if is_first:
                            self._service_manager.report_ready(f"Listening on {self._url}")
                    else:
                        self._refusals[message["pid"]] = (
                            message["refused"],
                            message["exit"],
                            message["final"],
                        )
                    self._status_changed.notify_all()

    def _report_alive(self, interval: float) -> None:
        """Pass the signs of life of the worker to the service manager.

        Before the first worker is ready, systemd applies TimeoutStartSec. While a dead worker is replaced,
        which may include the repair of a database, the supervisor is alive.
        """
        pause = threading.Event()
        while not pause.wait(interval):
            is_being_replaced = self._has_been_ready and not self._ready_pids
            if self._is_worker_alive.is_set() or is_being_replaced:
                self._is_worker_alive.clear()
                self._service_manager.report_alive()


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target_limit = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < target_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target_limit, hard))


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
