"""Worker process: runs the product and its control channel.

The worker is forked from the supervisor, which has loaded the settings and holds the lock and the listening
socket. Heavy modules are imported here, after the fork. The worker stops when the supervisor requests it.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from integration.core import logs, process_memory
from integration.core.errors import ConfigurationError, RepairNeeded, SwitchroomError
from integration.server import shutdown, unfinished_commands
from integration.server.control_channel import ControlChannel
from integration.server.shutdown import EXIT_ORPHANED
from integration.server.slow_connections import SlowConnections
from integration.server.start_requests import StartRequests
from integration.server.unfinished_commands import UnfinishedCommands
from integration.settings.model import Settings
from integration.web.inflight import InflightRequests

if TYPE_CHECKING:
    # Too heavy for the supervisor.
    from integration.factory import Product
    from integration.inbox.store import Inbox

log = logging.getLogger(__name__)

FACTORY = "integration.factory:Product"
"""`module:function` that builds the product, with the arguments of `factory.Product`."""

READY, ALIVE = b"r", b"a"
"""Signs that the worker sends to the supervisor: the product has started; the HTTP server responds."""

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
    """Worker in its process.

    `headings`: lines for `write_line` when the product has started, before its own. The supervisor's code
    calls `load()` and `finish()` on the main thread.
    """

    def __init__(
        self,
        settings: Settings,
        factory: str,
        stop_pipe: int,
        sign_pipe: int,
        headings: Sequence[str],
        write_line: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.factory = factory
        self.stop_pipe = stop_pipe
        self.sign_pipe = sign_pipe
        self.headings = headings
        self.write_line = write_line
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
                process_memory.release,
                executor="maintenance",
                first_after=process_memory.RELEASE_SECONDS,
            )
            # Before the jobs start, which would compete with this for the processor.
            application = product.application
            product.start()
            process_memory.exempt_loaded_objects()
            SlowConnections(self.settings.server.port, self._inflight).make_consumer(product.health).start()
            self._requests.open_all(application)
            for line in (*self.headings, *product.describe_start()):
                self.write_line(line)
            self.send_sign(READY)
        except ConfigurationError as error:
            self._refuse_start(error.mistakes, EXIT_MISCONFIGURED)
        except SwitchroomError as error:
            self._exit_if_damaged(error)
            self._refuse_start([str(error)], _get_exit_status(error))
        except Exception as error:
            self._exit_if_damaged(error)
            log.exception("the product cannot start")
            self._refuse_start(
                [f"Cannot start: {type(error).__name__}: {error}. The log above has the traceback."],
                EXIT_START_FAILED,
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
            self._refuse_start([str(refusal)], _get_exit_status(refusal))
        if names:
            log.error("%s: damaged (%s). The next worker replaces the file", ", ".join(names), error)
            self._exit(shutdown.EXIT_BROKEN)

    def _on_orphaned(self) -> None:
        log.critical("the supervisor has ended; ending this worker")
        self._exit(EXIT_ORPHANED)

    def _refuse_start(self, lines: Iterable[str], status: int) -> None:
        """Print the reason and end the process."""
        for line in lines:
            logs.print_error(line)
        self._exit(status)

    def send_sign(self, sign: bytes) -> None:
        os.write(self.sign_pipe, sign)

    def _exit(self, status: int) -> None:
        for handler in logging.getLogger().handlers:
            handler.flush()
        # Not sys.exit, which would wait for all threads.
        os._exit(status)


def _get_exit_status(error: SwitchroomError) -> int:
    return EXIT_REPAIR_NEEDED if isinstance(error, RepairNeeded) else EXIT_START_FAILED
