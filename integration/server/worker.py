"""Worker process: runs the product and its control channel.

The worker is forked from the supervisor, which has loaded the settings and holds the lock and the listening
socket. Heavy modules are imported here, after the fork. The worker stops when the supervisor requests it.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from integration.core import logs, process_memory
from integration.core.errors import ConfigurationError, RepairNeeded, SwitchroomError
from integration.core.health import Health
from integration.server import shutdown, unfinished_commands
from integration.server.control_channel import ControlChannel
from integration.server.liveness import LivenessCheck
from integration.server.shutdown import EXIT_ORPHANED
from integration.server.slow_connections import SlowConnections
from integration.server.start_requests import StartRequests
from integration.server.unfinished_commands import UnfinishedCommands
from integration.settings.model import Settings
from integration.web.inflight import InflightRequests

if TYPE_CHECKING:
    # APScheduler is too heavy for the supervisor.
    from integration.core.scheduler import Scheduler
    from integration.inbox.store import Inbox

log = logging.getLogger(__name__)

FACTORY = "integration.factory:build"
"""`module:function` that builds the product."""

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
SUMMARIES_JOB = "log summaries"
"""Job that logs the counts of repeated messages."""

EXIT_START_FAILED = 3
"""Exit status of a worker that could not start.

The worker has sent the reason through the status pipe.
"""


class Product(Protocol):
    """Result of `FACTORY(settings, on_broken=…, on_damaged=…, early_inbox=…)`.

    Building opens the databases and starts no job.
    """

    @property
    def application(self) -> Callable[..., Any]:
        """WSGI application."""

    @property
    def context(self) -> Any:
        """Services that are passed to the handlers of commands."""

    @property
    def health(self) -> Health: ...

    @property
    def scheduler(self) -> Scheduler: ...

    def start(self) -> None:
        """Start the scheduler and the consumers."""

    def describe_start(self) -> list[str]:
        """Return lines for users at the end of a start."""

    def close_streams(self) -> None:
        """End all open live streams and refuse new ones.

        Does not block; callable from any thread.
        """

    def stop(self) -> None:
        """End jobs, complete the queues of the writers, close the databases.

        Safe to call twice.
        """


class Worker:
    """Worker in its process.

    `liveness`: URL and seconds of the LivenessCheck, None without a watchdog. The supervisor's code calls
    `load()` and `finish()` on the main thread.
    """

    def __init__(
        self,
        settings: Settings,
        factory: str,
        stop_pipe: int,
        status_pipe: int,
        liveness: tuple[str, float] | None = None,
    ) -> None:
        self.settings = settings
        self.factory = factory
        self.stop_pipe = stop_pipe
        self.status_pipe = status_pipe
        self.liveness = liveness
        self.product: Product | None = None
        self.channel: ControlChannel | None = None
        self.unfinished_commands: UnfinishedCommands | None = None
        self._requests = StartRequests()
        self._inflight = InflightRequests(self._requests)
        self._finish_lock = threading.Lock()

    def load(self) -> Callable[..., Any]:
        """Start the product on a thread of its own, and return the WSGI application.

        The application stores webhooks as soon as inbox.db is open, before everything else has started. The
        process ends if the product cannot start.
        """
        # Ctrl-C on a terminal reaches the worker as well, but only the supervisor's pipe stops the worker.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        shutdown.watch_stop_pipe(self.stop_pipe, self._on_stop, self._on_orphaned, self._record_heartbeat)
        # The server copies the environment into that of each request, which must not contain secrets.
        for name in [name for name in os.environ if name.startswith("SWITCHROOM_") and "__" in name]:
            del os.environ[name]
        threading.Thread(target=self._start_product, name="start", daemon=True).start()
        return self._inflight

    def _start_product(self) -> None:
        """Open the receiver, then build and start the product.

        Ends the process if the product cannot start.
        """
        try:
            module, _, function = self.factory.partition(":")
            early_inbox = self._open_receiver()
            build: Callable[..., Product] = getattr(importlib.import_module(module), function)
            self.product = product = build(
                self.settings,
                on_broken=shutdown.exit_broken,
                on_damaged=self._on_damaged,
                early_inbox=early_inbox,
            )
            product.health.watch(shutdown.NAME, shutdown.STALLED_SECONDS)
            data_dir, context = self.settings.storage.data_dir, product.context
            self.unfinished_commands = UnfinishedCommands(data_dir, context, product.health)
            self.channel = ControlChannel(
                data_dir, context, health=product.health, finish_command=self.unfinished_commands.finish
            )
            product.health.start()
            product.scheduler.every(
                unfinished_commands.NAME,
                unfinished_commands.CHECK_SECONDS,
                self.unfinished_commands.finish_due,
                executor="maintenance",
                is_watched=True,
                retries=True,
            )
            product.scheduler.every(
                MEMORY_JOB,
                process_memory.RELEASE_SECONDS,
                process_memory.MemoryRelease().run,
                executor="maintenance",
                first_after=process_memory.RELEASE_SECONDS,
            )
            product.scheduler.every(
                SUMMARIES_JOB,
                logs.REPEAT_SECONDS[0],
                logs.write_summaries,
                executor="maintenance",
                first_after=logs.REPEAT_SECONDS[0],
            )
            # Before the jobs start, which would compete with this for the processor.
            application = product.application
            product.start()
            process_memory.exempt_loaded_objects()
            SlowConnections(self.settings.server.port, self._inflight).make_consumer(product.health).start()
            self._requests.open_all(application)
            self._write_status({"ready": True, "lines": product.describe_start()})
            if self.liveness is not None:
                url, interval = self.liveness
                LivenessCheck(url, interval, lambda: self._write_status({"alive": True})).start()
        except ConfigurationError as error:
            self._report_start_failure(error.mistakes, 2)
        except SwitchroomError as error:
            self._exit_if_damaged(error)
            self._report_error(error)
        except Exception as error:
            self._exit_if_damaged(error)
            log.exception("the product cannot start")
            self._report_start_failure(
                [f"Cannot start: {type(error).__name__}: {error}. The log above has the traceback."], 1
            )

    def _open_receiver(self) -> Inbox | None:
        """Open inbox.db and store webhooks from now on, if nothing must be done before."""
        # Imported after the fork: the supervisor imports no databases.
        from integration.inbox.receive import PATH_PREFIX, Receiver
        from integration.server.early_inbox import open_inbox_early
        from integration.settings.data_dir_secrets import WebhookSecrets
        from integration.web.trusted_proxies import TrustedProxies

        settings = self.settings
        inbox = open_inbox_early(settings.storage.data_dir, shutdown.exit_broken, self._on_damaged)
        if inbox is not None:
            receiver = Receiver(inbox, settings.webhooks, WebhookSecrets(settings))
            self._requests.open_receiver(
                PATH_PREFIX, TrustedProxies(receiver, settings.server.trusted_proxies)
            )
        return inbox

    def finish(self) -> None:
        """Stop the product and end the process with status 0.

        Called after the HTTP server has ended.
        """
        self.stop_product()
        self._exit(0)

    def _record_heartbeat(self) -> None:
        """Record a heartbeat of the stop watcher."""
        if self.product is not None:
            self.product.health.beat(shutdown.NAME)

    # --- ends --------------------------------------------------------------------------------------

    def _on_stop(self) -> None:
        """End live streams, wait for running requests, then stop the product."""
        # The system may have given the signal to another thread. The handler of the server then does not run,
        # because the main thread waits for it, and the server would accept connections until the end.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        product = self.product
        if product is None:
            # During the start nothing is lost: all durable changes are transactions.
            self._inflight.wait_until_idle(QUIET_SECONDS, DRAIN_SECONDS)
            self._exit(0)
            return
        try:
            product.close_streams()
        except Exception:
            log.exception("streams could not be closed")
        if self.channel is not None:
            self.channel.stopping.set()
        if self.unfinished_commands is not None:
            self.unfinished_commands.stopping.set()
        if not self._inflight.wait_until_idle(QUIET_SECONDS, DRAIN_SECONDS):
            log.warning("requests are still running after %s s; stopping without them", DRAIN_SECONDS)
        threading.Thread(target=self.finish, name="finish", daemon=True).start()
        threading.Event().wait(STOP_SECONDS)
        # Reached only if finish() has not ended the process.
        log.error("the product did not stop within %s s", STOP_SECONDS)
        self._exit(0)

    def stop_product(self) -> None:
        """Stop the control channel, the product and the unfinished commands.

        Safe to call twice and from any thread.
        """
        with self._finish_lock:
            if self.unfinished_commands is not None:
                self.unfinished_commands.stopping.set()
            if self.channel is not None:
                self.channel.close(1.0)
            if self.product is not None:
                try:
                    self.product.stop()
                    self.product.health.stop()
                except Exception:
                    log.exception("the product did not stop cleanly")
            if self.unfinished_commands is not None:
                # Last, because stopping the product cancels a request of the command that hangs.
                self.unfinished_commands.stop()

    def _on_damaged(self, reason: str) -> None:
        """Request a clean stop of this worker after damage of a database.

        The next one replaces the file. The listening socket stays open, so webhooks wait for the next
        worker and are not refused.
        """
        # Imported on first use: the supervisor imports this module, but no databases.
        from integration.sqlite import damage

        delay = damage.seconds_until_rebuild(self.settings.storage.data_dir)
        log.error("restarting the worker in %.0f s, because a database is damaged: %s", delay, reason)
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()

    def _exit_if_damaged(self, error: Exception) -> None:
        """End the worker if `error` is that of a damaged database.

        The next one replaces the file; a damaged house.db is refused.
        """
        from integration.maintenance.database_checks import mark_damaged_databases

        try:
            names = mark_damaged_databases(self.settings.storage.data_dir, error)
        except SwitchroomError as refusal:
            self._report_error(refusal)
        if names:
            log.error("%s: damaged (%s). The next worker replaces the file", ", ".join(names), error)
            self._exit(shutdown.EXIT_BROKEN)

    def _on_orphaned(self) -> None:
        log.critical("the supervisor has ended; ending this worker")
        self._exit(EXIT_ORPHANED)

    def _report_error(self, error: SwitchroomError) -> None:
        self._report_start_failure([str(error)], 1, is_final=isinstance(error, RepairNeeded))

    def _report_start_failure(self, lines: Any, status: int, *, is_final: bool = False) -> None:
        """End the process. `is_final`: no other worker could start either."""
        self._write_status({"refused": list(lines), "exit": status, "final": is_final})
        self._exit(EXIT_START_FAILED)

    def _write_status(self, message: dict[str, Any]) -> None:
        # Messages are shorter than PIPE_BUF except in extreme cases, so a write is atomic.
        os.write(self.status_pipe, json.dumps(message).encode() + b"\n")

    def _exit(self, status: int) -> None:
        for handler in logging.getLogger().handlers:
            handler.flush()
        # Not sys.exit, which would wait for all threads.
        os._exit(status)
