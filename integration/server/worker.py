"""Worker process: runs the product and its control channel.

The worker is forked from the supervisor, which has loaded the settings and holds the lock and the listening
socket. Heavy modules are imported here, after the fork. SIGTERM stops the worker, and the end of the
supervisor ends it.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from integration.core import logs, process_memory
from integration.core.errors import ConfigurationError, RepairNeeded, SwitchroomError
from integration.server import http_server, unfinished_commands
from integration.server.control_channel import ControlChannel
from integration.server.exits import EXIT_BROKEN, EXIT_ORPHANED, exit_broken, exit_process
from integration.server.slow_connections import SlowConnections
from integration.server.start_requests import StartRequests
from integration.settings.model import Settings
from integration.web.inflight import InflightRequests

if TYPE_CHECKING:
    # Too heavy for the supervisor.
    from integration.factory import Product
    from integration.inbox.store import Inbox

log = logging.getLogger(__name__)

FACTORY = "integration.factory:Product"
"""`module:function` that builds the product, with the arguments of `factory.Product`."""

READY, ALIVE = signal.SIGUSR1, signal.SIGUSR2
"""Signals that the worker sends to the supervisor: the product has started; the HTTP server responds."""

DRAIN_SECONDS = 4.0
"""Maximum seconds that running requests have to end after a stop request."""

QUIET_SECONDS = 0.2
"""Seconds without a running request before the worker stops.

The last bytes are sent in this time.
"""

STOP_SECONDS = 3.5
"""Maximum seconds for stopping the product after DRAIN_SECONDS.

The sum of both is well below the specified 10 s.
"""

MEMORY_JOB = "release of memory"
"""Job that returns freed memory to the system."""

EXIT_START_FAILED, EXIT_MISCONFIGURED, EXIT_REPAIR_NEEDED = 3, 4, 5
"""Exit statuses of a worker that has printed why it cannot start. With the last one no other worker could."""


class Worker:
    """Worker in its process. `headings`: lines for `write_line` when the product has started."""

    def __init__(
        self, settings: Settings, factory: str, headings: Sequence[str], write_line: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._factory = factory
        self._headings = headings
        self._write_line = write_line
        self._supervisor: Any = multiprocessing.parent_process()
        self._product: Product | None = None
        self._channel: ControlChannel | None = None
        self._requests = StartRequests()
        self._inflight = InflightRequests(self._requests)
        self._finish_lock = threading.Lock()

    def run(self, listener: socket.socket) -> NoReturn:
        """Serve on `listener` until SIGTERM. Must be called on the main thread of the process."""
        try:
            http_server.run(self._load, listener, self._settings.server)
        except Exception:
            log.exception("the server failed")
            exit_process(1)
        self._finish()

    def send(self, sign: signal.Signals) -> None:
        """Send READY or ALIVE to the supervisor."""
        os.kill(self._supervisor.pid, sign)

    def _load(self) -> Callable[..., Any]:
        """Start the product on a thread of its own, and return the WSGI application.

        The application stores webhooks as soon as inbox.db is open, before everything else has started. The
        process ends if the product cannot start.
        """
        # Whichever thread gets a signal, its number is written to the pipe.
        wakeup_read, wakeup_write = os.pipe()
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        # The server copies the environment into that of each request, which must not contain secrets.
        for name in [name for name in os.environ if name.startswith("SWITCHROOM_") and "__" in name]:
            del os.environ[name]
        for name, target in (
            ("stop", partial(self._stop_after_signal, wakeup_read)),
            ("end of the supervisor", self._end_after_supervisor),
            ("start", self._start_product),
        ):
            threading.Thread(target=target, name=name, daemon=True).start()
        return self._inflight

    def _start_product(self) -> None:
        """Open the receiver, then build and start the product.

        Ends the process if the product cannot start.
        """
        try:
            module, _, function = self._factory.partition(":")
            early_inbox = self._open_receiver()
            build: Callable[..., Product] = getattr(importlib.import_module(module), function)
            self._product = product = build(
                self._settings,
                on_broken=exit_broken,
                on_damaged=self._on_damaged,
                early_inbox=early_inbox,
            )
            data_dir, context = self._settings.storage.data_dir, product.context
            self._channel = channel = ControlChannel(data_dir, context)
            product.health.start()
            product.scheduler.every(
                unfinished_commands.NAME,
                unfinished_commands.CHECK_SECONDS,
                lambda: unfinished_commands.finish(data_dir, context, product.health, channel.stopping),
                executor="maintenance",
                is_watched=True,
                retries=True,
            )
            product.scheduler.every(
                MEMORY_JOB,
                process_memory.RELEASE_SECONDS,
                process_memory.release,
                executor="maintenance",
                first_after=process_memory.RELEASE_SECONDS,
            )
            # Before the jobs start, which would compete with this for the processor.
            application = product.application
            product.start()
            process_memory.exempt_loaded_objects()
            SlowConnections(self._settings.server.port, self._inflight).make_consumer(product.health).start()
            self._requests.open_all(application)
            for line in (*self._headings, *product.describe_start()):
                self._write_line(line)
            self.send(READY)
        except Exception as error:  # noqa: BLE001  whatever it is, the supervisor must learn of it
            self._refuse_start(error)

    def _open_receiver(self) -> Inbox | None:
        """Open inbox.db and store webhooks from now on, if nothing must be done before."""
        # Imported after the fork: the supervisor imports no databases.
        from integration.inbox.receive import PATH_PREFIX, Receiver
        from integration.server.early_inbox import open_inbox_early
        from integration.settings.data_dir_secrets import WebhookSecrets
        from integration.web.trusted_proxies import TrustedProxies

        settings = self._settings
        inbox = open_inbox_early(settings.storage.data_dir, exit_broken, self._on_damaged)
        if inbox is not None:
            receiver = Receiver(inbox, settings.webhooks, WebhookSecrets(settings))
            self._requests.open_receiver(
                PATH_PREFIX, TrustedProxies(receiver, settings.server.trusted_proxies)
            )
        return inbox

    # --- ends --------------------------------------------------------------------------------------

    def _stop_after_signal(self, wakeup: int) -> None:
        """End live streams after SIGTERM, wait for running requests, then stop the product."""
        os.read(wakeup, 1)
        # The system may have given the signal to another thread. The handler of the server then does not run,
        # because the main thread waits for it, and the server would accept connections until the end.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        product = self._product
        if product is None:
            # During the start nothing is lost: all durable changes are transactions.
            self._inflight.wait_until_idle(QUIET_SECONDS, DRAIN_SECONDS)
            exit_process(0)
        try:
            product.close_streams()
        except Exception:
            log.exception("streams could not be closed")
        if self._channel is not None:
            self._channel.stopping.set()
        if not self._inflight.wait_until_idle(QUIET_SECONDS, DRAIN_SECONDS):
            log.warning("requests are still running after %s s; stopping without them", DRAIN_SECONDS)
        threading.Thread(target=self._finish, name="finish", daemon=True).start()
        threading.Event().wait(STOP_SECONDS)
        # Reached only if _finish() has not ended the process.
        log.error("the product did not stop within %s s", STOP_SECONDS)
        exit_process(0)

    def _finish(self) -> NoReturn:
        """Stop the control channel and the product, and end the process with status 0.

        Called when the HTTP server has ended, and at the latest after DRAIN_SECONDS.
        """
        with self._finish_lock:
            if self._channel is not None:
                self._channel.close(1.0)
            if self._product is not None:
                try:
                    self._product.stop()
                    self._product.health.stop()
                except Exception:
                    log.exception("the product did not stop cleanly")
            exit_process(0)

    def _end_after_supervisor(self) -> None:
        self._supervisor.join()
        log.critical("the supervisor has ended; ending this worker")
        exit_process(EXIT_ORPHANED)

    def _on_damaged(self, reason: str) -> None:
        """Request a clean stop of this worker after damage of a database.

        The next one replaces the file. The listening socket stays open, so webhooks wait for the next
        worker and are not refused.
        """
        # Imported on first use: the supervisor imports this module, but no databases.
        from integration.sqlite import damage

        delay = damage.seconds_until_rebuild(self._settings.storage.data_dir)
        log.error("restarting the worker in %.0f s, because a database is damaged: %s", delay, reason)
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()

    def _refuse_start(self, error: Exception) -> NoReturn:
        """Print why the product cannot start, and end the process.

        A worker with a damaged database ends silently: the next one replaces the file, except house.db.
        """
        from integration.maintenance.database_checks import mark_damaged_databases

        try:
            if names := mark_damaged_databases(self._settings.storage.data_dir, error):
                log.error("%s: damaged (%s). The next worker replaces the file", ", ".join(names), error)
                exit_process(EXIT_BROKEN)
        except SwitchroomError as refusal:
            error = refusal
        lines, status = [str(error)], EXIT_START_FAILED
        if isinstance(error, ConfigurationError):
            lines, status = list(error.mistakes), EXIT_MISCONFIGURED
        elif isinstance(error, RepairNeeded):
            status = EXIT_REPAIR_NEEDED
        elif not isinstance(error, SwitchroomError):
            log.error("the product cannot start", exc_info=error)
            lines = [f"Cannot start: {type(error).__name__}: {error}. The log above has the traceback."]
        for line in lines:
            logs.print_error(line)
        exit_process(status)
