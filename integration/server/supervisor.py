"""Supervisor of `serve`: holds lock, port and settings, restarts the worker.

The supervisor imports no heavy modules and has one thread, because the worker is forked from it and because
it must not fail. It waits for signals, signs of the worker and the end of the worker in one place. A dead
worker is replaced without a limit of attempts. A stop reaches the worker by a pipe before the signal.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

from integration.core import clock
from integration.maintenance import start_conditions
from integration.server import http_server, liveness, port
from integration.server.run_command import acquire_for_serve, create_data_dir
from integration.server.service_manager import ServiceManager
from integration.server.tenant import is_same_customer
from integration.server.worker import (
    ALIVE,
    EXIT_MISCONFIGURED,
    EXIT_REPAIR_NEEDED,
    EXIT_START_FAILED,
    FACTORY,
    READY,
    Worker,
)
from integration.settings.data_dir_secrets import claim_data_dir
from integration.settings.model import Settings, list_warnings

log = logging.getLogger(__name__)

KILL_SECONDS = 15
"""Seconds after which a worker that does not stop is killed.

A worker limits itself to half of it (`worker.py`); on a busy computer it needs more. systemd kills the
service after 20 s (`deploy/systemd`).
"""

MAX_RESTART_DELAY = 10.0
"""Maximum seconds before a worker that died before it was ready is replaced.

A worker that was ready is replaced at once.
"""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    settings: Settings,
    *,
    factory: str = FACTORY,
    write_line: Callable[[str], None] | None = None,
    origin: str = "environment variables",
) -> None:
    """Serve until SIGTERM or SIGINT. Returns after a clean stop.

    `write_line` receives each line of the start. `origin`: where the settings are. Raises ConfigurationError
    and SwitchroomError if the supervisor cannot start, SystemExit if the worker has printed the reason.
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
        listener = port.listen_or_take(settings.server.host, settings.server.port, os.environ)
        # Links contain the port: for port 0, the port that the system selected.
        server = settings.server.model_copy(update={"port": listener.getsockname()[1]})
        settings = settings.model_copy(update={"server": server})
        _Supervisor(settings, factory, listener, write_line, ServiceManager(), origin).run()
    finally:
        lock.release()


class _Supervisor:
    """One worker after another on one listening socket."""

    def __init__(
        self,
        settings: Settings,
        factory: str,
        listener: socket.socket,
        write_line: Callable[[str], None],
        service_manager: ServiceManager,
        origin: str,
    ) -> None:
        self._settings = settings
        self._factory = factory
        self._listener = listener
        self._write_line = write_line
        self._service_manager = service_manager
        self._origin = origin
        self._url = port.build_url(listener, settings.server.tls_cert is not None)
        self._stop_read, self._stop_write = os.pipe()
        self._signs_read, self._signs_write = os.pipe()
        self._signal_read, self._signal_write = os.pipe()
        for descriptor in (self._signs_read, self._signal_read, self._signal_write):
            os.set_blocking(descriptor, False)
        self._has_been_ready = False
        self._is_ready = False
        """Whether the present worker was ready."""
        self._born = 0.0

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP.

        Raises SystemExit if a first worker cannot start, or no worker could.
        """
        with self._catch_signals(), self._listener:
            restart_delay = 0.0
            while (worker := self._run_worker()) is not None:
                restart_delay = 0.0 if self._is_ready else min(MAX_RESTART_DELAY, restart_delay * 2 or 0.1)
                log.error(
                    "the worker (process %s) ended with status %s after %.1f s; starting another%s",
                    worker.pid,
                    worker.exitcode,
                    clock.monotonic() - self._born,
                    f" in {restart_delay:.1f} s" if restart_delay else "",
                )
                if self._wait(restart_delay):
                    return

    def _run_worker(self) -> multiprocessing.process.BaseProcess | None:
        """Run a worker until its end. Returns it, or None after a stop was requested.

        Raises SystemExit if no other worker could start either.
        """
        self._is_ready = False
        self._born = clock.monotonic()
        worker = self._fork()
        if self._wait(None, worker.sentinel):
            self._stop(worker)
            return None
        worker.join()
        is_refused = worker.exitcode in (EXIT_START_FAILED, EXIT_MISCONFIGURED) and not self._has_been_ready
        if is_refused or worker.exitcode == EXIT_REPAIR_NEEDED:
            raise SystemExit(2 if worker.exitcode == EXIT_MISCONFIGURED else 1)
        return worker

    def _fork(self) -> multiprocessing.process.BaseProcess:
        # The worker inherits lock, stop pipe and socket; Python 3.14 no longer forks by default.
        worker = multiprocessing.get_context("fork").Process(target=self._run_in_worker, name="worker")
        # A signal before the worker has its own handlers would be reported to the supervisor.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        return worker

    def _stop(self, worker: multiprocessing.process.BaseProcess) -> None:
        """Stop the worker; kill it after KILL_SECONDS."""
        os.write(self._stop_write, b"x")
        self._listener.close()
        worker.terminate()
        worker.join(KILL_SECONDS)
        if worker.is_alive():
            log.error("killing the worker, which did not stop within %s s", KILL_SECONDS)
            worker.kill()
            worker.join()

    # --- waiting -----------------------------------------------------------------------------------

    @contextmanager
    def _catch_signals(self) -> Iterator[None]:
        """Write the numbers of stop signals to a pipe, whichever thread receives them.

        SIGHUP stays ignored if it was, as under nohup.
        """
        for number in STOP_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN or number != signal.SIGHUP:
                signal.signal(number, _do_nothing)
        signal.set_wakeup_fd(self._signal_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _wait(self, seconds: float | None, sentinel: int | None = None) -> bool:
        """Wait for a stop signal, but not longer than `seconds` or until `sentinel` is ready.

        Handles signs of the worker meanwhile. Returns whether a stop was requested.
        """
        deadline = None if seconds is None else clock.monotonic() + seconds
        descriptors = [self._signal_read, self._signs_read] + ([] if sentinel is None else [sentinel])
        while True:
            ready = connection.wait(
                descriptors, None if deadline is None else max(0.0, deadline - clock.monotonic())
            )
            # Before the end of the worker is handled: it may have been ready.
            if self._signs_read in ready or sentinel in ready:
                self._read_signs()
            if self._signal_read in ready and set(os.read(self._signal_read, 64)) & set(STOP_SIGNALS):
                self._service_manager.report_stopping()
                return True
            if sentinel in ready or (deadline is not None and clock.monotonic() >= deadline):
                return False

    def _read_signs(self) -> None:
        """Read signs of the worker, and pass them on to the service manager.

        Before the first worker is ready, systemd applies TimeoutStartSec.
        """
        try:
            signs = os.read(self._signs_read, 64)
        except BlockingIOError:
            return
        if READY in signs:
            if not self._has_been_ready:
                self._service_manager.report_ready(f"Listening on {self._url}")
            self._has_been_ready = self._is_ready = True
        if ALIVE in signs and self._has_been_ready:
            self._service_manager.report_alive()

    # --- in the worker, after the fork -------------------------------------------------------------

    def _run_in_worker(self) -> None:
        """Run the product behind the HTTP server, in the forked process."""
        signal.set_wakeup_fd(-1)
        for number in STOP_SIGNALS:
            if signal.getsignal(number) == _do_nothing:
                signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        for descriptor in (self._stop_write, self._signs_read, self._signal_read, self._signal_write):
            os.close(descriptor)
        headings = ["The worker is back"]
        if not self._has_been_ready:
            headings = [f"Listening on {self._url}", f"Settings: {self._origin}"]
        worker = Worker(
            self._settings, self._factory, self._stop_read, self._signs_write, headings, self._write_line
        )
        interval = self._service_manager.interval_seconds
        if interval is not None:
            liveness.watch(self._url, interval, lambda: worker.send_sign(ALIVE))

        def load() -> Callable[..., Any]:
            application = worker.load()
            # The HTTP server has a second descriptor, which it closes when it stops accepting connections.
            self._listener.close()
            return application

        try:
            http_server.run(load, self._listener, self._settings.server)
        except Exception:
            log.exception("the server failed")
            os._exit(1)
        worker.finish()


def _do_nothing(*_: object) -> None:
    """Handle a signal whose number is read from the pipe."""


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target_limit = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < target_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target_limit, hard))


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
