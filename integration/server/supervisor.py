"""Supervisor of `serve`: holds lock, port and settings, restarts the worker.

The supervisor imports no heavy modules and has one thread, because the worker is forked from it and because
it must not fail. Everything that it reacts to is a signal, which it blocks and waits for: a stop, the end of
the worker, and the signs that the worker sends. A dead worker is replaced without a limit of attempts.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import socket
from collections.abc import Callable
from multiprocessing.context import ForkProcess

from integration.core import clock
from integration.maintenance import start_conditions
from integration.server import port
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

STOP_SIGNALS = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


def serve(
    settings: Settings, write_line: Callable[[str], None], *, origin: str, factory: str = FACTORY
) -> None:
    """Serve until SIGTERM or SIGINT. Returns after a clean stop.

    `write_line` receives each line of the start. `origin`: where the settings are. Raises ConfigurationError
    and SwitchroomError if the supervisor cannot start, SystemExit if the worker has printed the reason.
    """
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
        _Supervisor(settings, factory, listener, write_line, origin).run()
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
        origin: str,
    ) -> None:
        self._settings = settings
        self._factory = factory
        self._listener = listener
        self._write_line = write_line
        self._service_manager = ServiceManager()
        self._origin = origin
        self._url = port.build_url(listener, settings.server.tls_cert is not None)
        # SIGHUP stays ignored if it was, as under nohup.
        is_hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self._stop_signals = STOP_SIGNALS - ({signal.SIGHUP} if is_hangup_ignored else set())
        self._signals = self._stop_signals | {READY, ALIVE, signal.SIGCHLD}
        self._has_been_ready = False
        self._is_ready = False
        """Whether the present worker was ready."""
        self._born = 0.0

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP.

        Raises SystemExit if a first worker cannot start, or no worker could.
        """
        # The system would discard the status of a child if the signal of its end were ignored.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        restart_delay = 0.0
        with self._listener:
            worker = self._fork()
            # Of several signals, Linux returns READY and ALIVE before the end of the worker that sent them.
            while (number := signal.sigwait(self._signals)) not in self._stop_signals:
                if number in (READY, ALIVE):
                    self._report(number)
                elif not worker.is_alive():
                    self._exit_if_refused(worker)
                    restart_delay = (
                        0.0 if self._is_ready else min(MAX_RESTART_DELAY, restart_delay * 2 or 0.1)
                    )
                    log.error(
                        "the worker (process %s) ended with status %s after %.1f s; starting another%s",
                        worker.pid,
                        worker.exitcode,
                        clock.monotonic() - self._born,
                        f" in {restart_delay:.1f} s" if restart_delay else "",
                    )
                    if signal.sigtimedwait(self._stop_signals, restart_delay):
                        break
                    worker = self._fork()
            self._service_manager.report_stopping()
            self._stop(worker)

    def _fork(self) -> ForkProcess:
        self._is_ready, self._born = False, clock.monotonic()
        # The worker inherits lock and socket; Python 3.14 no longer forks by default.
        worker = multiprocessing.get_context("fork").Process(target=self._run_worker, name="worker")
        worker.start()
        return worker

    def _report(self, sign: int) -> None:
        """Pass a sign of the worker on to the service manager.

        Before the first worker is ready, systemd applies TimeoutStartSec.
        """
        if sign == READY:
            if not self._has_been_ready:
                self._service_manager.report_ready(f"Listening on {self._url}")
            self._has_been_ready = self._is_ready = True
        elif self._has_been_ready:
            self._service_manager.report_alive()

    def _exit_if_refused(self, worker: ForkProcess) -> None:
        """Raise SystemExit if another worker could not start either."""
        is_refused = worker.exitcode in (EXIT_START_FAILED, EXIT_MISCONFIGURED) and not self._has_been_ready
        if is_refused or worker.exitcode == EXIT_REPAIR_NEEDED:
            raise SystemExit(2 if worker.exitcode == EXIT_MISCONFIGURED else 1)

    def _stop(self, worker: ForkProcess) -> None:
        """Stop the worker; kill it after KILL_SECONDS."""
        self._listener.close()
        worker.terminate()
        worker.join(KILL_SECONDS)
        if worker.is_alive():
            log.error("killing the worker, which did not stop within %s s", KILL_SECONDS)
            worker.kill()
            worker.join()

    def _run_worker(self) -> None:
        """Run a worker, in the forked process."""
        # SIGINT and SIGHUP of a terminal reach all its processes; they stay blocked here.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        headings = ["The worker is back"]
        if not self._has_been_ready:
            headings = [f"Listening on {self._url}", f"Settings: {self._origin}"]
        worker = Worker(self._settings, self._factory, headings, self._write_line)
        self._service_manager.watch_worker(self._url, lambda: worker.send(ALIVE))
        worker.run(self._listener)


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target_limit = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < target_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target_limit, hard))
