"""The worker process: runs the product and its control channel, and stops when the supervisor requests it.

The worker is forked from the supervisor, which has loaded the settings and holds the lock and the listening
socket. Heavy modules are imported here, after the fork.
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

from integration.core.errors import ConfigurationError, SwitchroomError
from integration.core.health import Health
from integration.server import shutdown, unfinished_commands
from integration.server.control_channel import ControlChannel
from integration.server.shutdown import EXIT_ORPHANED
from integration.server.unfinished_commands import UnfinishedCommands
from integration.settings.model import Settings
from integration.web.inflight import InflightRequests

if TYPE_CHECKING:
    # APScheduler is too heavy for the supervisor.
    from integration.core.scheduler import Scheduler

log = logging.getLogger(__name__)

FACTORY = "integration.factory:build"

DRAIN_SECONDS = 4.0
"""How long requests under way may take to end once a stop was asked for, before the product stops anyway."""

QUIET_SECONDS = 0.2
"""How long nothing may have been under way before the worker ends; the last bytes leave meanwhile."""

STOP_SECONDS = 3.5
"""How long the product may take to stop after that; with DRAIN_SECONDS well under the promised 10 s."""

EXIT_START_FAILED = 3
"""Exit status of a worker that said on the status pipe why it can't start."""


class Product(Protocol):
    """What `FACTORY(settings, on_broken=…)` returns. Building it opens databases and starts no job."""

    @property
    def application(self) -> Callable[..., Any]:
        """The WSGI application."""

    @property
    def context(self) -> Any:
        """The services that are passed to the handlers of commands."""

    @property
    def health(self) -> Health: ...

    @property
    def scheduler(self) -> Scheduler: ...

    def start(self) -> None:
        """Start the scheduler and the consumers."""

    def close_streams(self) -> None:
        """End every open live stream, and refuse new ones. Quick; any thread."""

    def stop(self) -> None:
        """End jobs, finish what is queued for the writers, close the databases. Safe to call twice."""


class Worker:
    """One life of the worker. The supervisor's code calls `load()` and `finish()` on its main thread."""

    def __init__(self, settings: Settings, factory: str, stop_pipe: int, status_pipe: int) -> None:
        self.settings = settings
        self.factory = factory
        self.stop_pipe = stop_pipe
        self.status_pipe = status_pipe
        self.product: Product | None = None
        self.channel: ControlChannel | None = None
        self.unfinished_commands: UnfinishedCommands | None = None
        self._inflight: InflightRequests | None = None
        self._finish_lock = threading.Lock()

    def load(self) -> Callable[..., Any]:
        """Build and start the product; returns its WSGI application. Ends the process if it can't."""
        # A terminal's Ctrl-C reaches the worker too; who decides is the supervisor, by the pipe.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        shutdown.watch_stop_pipe(self.stop_pipe, self._on_stop, self._on_orphaned, self._record_heartbeat)
        # The server copies the environment into every request's; secrets have no business there.
        for name in [name for name in os.environ if name.startswith("SWITCHROOM_") and "__" in name]:
            del os.environ[name]
        try:
            module, _, function = self.factory.partition(":")
            build: Callable[..., Product] = getattr(importlib.import_module(module), function)
            self.product = product = build(self.settings, on_broken=shutdown.exit_broken)
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
            product.start()
        except ConfigurationError as error:
            self._report_start_failure(error.mistakes, 2)
        except SwitchroomError as error:
            self._report_start_failure([str(error)], 1)
        except Exception as error:
            log.exception("the product can't start")
            self._report_start_failure(
                [f"can't start: {type(error).__name__}: {error}; the log above says where"], 1
            )
        assert self.product is not None
        self._write_status({"ready": True})
        self._inflight = InflightRequests(self.product.application)
        return self._inflight

    def finish(self) -> None:
        """The server has ended: stop the product and end the process with status 0."""
        self.stop_product()
        self._exit(0)

    def _record_heartbeat(self) -> None:
        """The watch for our end is alive."""
        if self.product is not None:
            self.product.health.beat(shutdown.NAME)

    # --- ends --------------------------------------------------------------------------------------

    def _on_stop(self) -> None:
        """A stop was asked for: end streams at once, and after a while everything else, too."""
        product = self.product
        if product is None:
            # Still being built: everything durable is in transactions.
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
        if self._inflight is not None and not self._inflight.wait_until_idle(QUIET_SECONDS, DRAIN_SECONDS):
            log.warning("requests are still under way after %s s; stopping all the same", DRAIN_SECONDS)
        threading.Thread(target=self.finish, name="finish", daemon=True).start()
        threading.Event().wait(STOP_SECONDS)
        # finish() ends the process before this; it did not.
        log.error("the product did not stop within %s s", STOP_SECONDS)
        self._exit(0)

    def stop_product(self) -> None:
        """Stop the channel, the product and the unfinished commands. Safe to call twice; any thread."""
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
                # Waited for last: a request of it that hangs is cut by the product's end.
                self.unfinished_commands.stop()

    def _on_orphaned(self) -> None:
        log.critical("the supervisor is gone; ending")
        self._exit(EXIT_ORPHANED)

    def _report_start_failure(self, lines: Any, status: int) -> None:
        self._write_status({"refused": list(lines), "exit": status})
        self._exit(EXIT_START_FAILED)

    def _write_status(self, message: dict[str, Any]) -> None:
        # Shorter than PIPE_BUF but for absurd messages: one write arrives whole.
        os.write(self.status_pipe, json.dumps({"pid": os.getpid()} | message).encode() + b"\n")

    def _exit(self, status: int) -> None:
        for handler in logging.getLogger().handlers:
            handler.flush()
        # Not sys.exit: that would wait for every thread there is.
        os._exit(status)
