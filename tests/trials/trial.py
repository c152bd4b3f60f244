"""Base class of trials: disturb the product, then check its promises."""

from __future__ import annotations

import argparse
import logging
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from integration.core import clock
from integration.simulator import embed
from tests.support.harness import Process, Product, Simulator, alive, wait_for
from tests.trials.tools import databases, seeded_bug
from tests.trials.tools.local_product import LocalProduct
from tests.trials.tools.moved_clock import MovedClock
from tests.trials.tools.recorded_platform import RecordedPlatform

Platform = Simulator | embed.Simulator | RecordedPlatform
NO_TRAFFIC = ("--seed", "5", "--no-traffic")
FRIDAY, WEEK = 86_400.0 + 20 * 3600, 7 * 86_400.0
"""Unix seconds of the first Friday evening; seconds to the next."""


class Trial:
    """Options, resources, checks and exit status of one trial.

    `boot`, `load`, `disturb` and `check` run in this order; everything started by the methods below is
    stopped afterwards. With `--seed-bug` the product runs with `bugs`, and the trial passes only if each of
    `symptoms` occurs in the text of a failed check.
    """

    name: ClassVar[str]
    size_option: ClassVar[str]
    """What `--size` counts, as an option of its own."""
    size: ClassVar[int] = 0
    bugs: ClassVar[tuple[str, ...]]
    """Functions of `tools/seeded_bug.py`."""
    symptoms: ClassVar[tuple[str, ...]]
    plants: ClassVar[tuple[str, ...]] = ()
    """Functions of `tools/seeded_bug.py` that are no bugs: the product always runs with them."""
    short: ClassVar[tuple[str, ...]] = ("", "--seed-bug")
    """Options of the runs of `--short`."""
    promises: ClassVar[tuple[str, ...]]
    """Numbers in docs/promises.md."""
    long: ClassVar[tuple[str, ...]] = ("",)
    """Options of the rounds of `--long`."""
    mostly_waits: ClassVar[bool] = False
    """Whether its runs need little CPU time for their duration. `--short` runs them beside two others."""
    expects_errors: ClassVar[bool] = False
    """Whether the product, in this process, logs errors that the trial causes; they are not printed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.is_seeded: bool = options.seed_bug
        self.failures: list[str] = []
        self.figures: list[str] = []
        self.cleanup = ExitStack()
        self._products: list[Product] = []
        self._visited: set[Path] = set()
        self._folders = count(1)
        self._is_planted = False

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add options beyond `--size`, `--seed`, `--seed-bug` and `--visitor`."""

    @classmethod
    def main(cls, arguments: Sequence[str]) -> int:
        parser = argparse.ArgumentParser(
            prog=f"python -m tests.trials {cls.name}",
            description=cls.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if cls.size:
            parser.add_argument("--size", cls.size_option, dest="size", type=int, default=cls.size)
        parser.add_argument("--seed", type=int, default=1, help="of random choices")
        parser.add_argument(
            "--seed-bug", action="store_true", help=f"must be detected: {', '.join(cls.bugs)}"
        )
        parser.add_argument(
            "--visitor",
            action="store_true",
            help="another program opens and closes the databases of each product that runs as a process",
        )
        cls.add_options(parser)
        return cls(parser.parse_args(arguments)).run()

    def run(self) -> int:
        """Run all phases. Returns the exit status.

        It is 0 if every check passed, or with `--seed-bug` if the planted bugs were detected.
        """
        with self.cleanup:
            if self.expects_errors:
                logging.getLogger("integration").setLevel(logging.ERROR)
            for phase in (self.boot, self.load, self.disturb, self.check):
                phase()
        print(f"{self.name}: {'; '.join(self.figures)}")
        print(f"{self.name}: {len(self.failures)} checks failed")
        if not self.is_seeded:
            return int(bool(self.failures))
        missed = [
            symptom for symptom in self.symptoms if not any(symptom in failure for failure in self.failures)
        ]
        bugs = ", ".join(self.bugs)
        print(f"{self.name}: {bugs} NOT detected: {missed}" if missed else f"{self.name}: {bugs} detected")
        return int(bool(missed))

    def boot(self) -> None:
        """Start simulator and product."""

    def load(self) -> None:
        """Start the work of the product during the trial."""

    def disturb(self) -> None:
        """Cause the failures that the product must survive."""

    def check(self) -> None:
        """Check the promises."""

    # --- checks ----------------------------------------------------------------------------------------

    def verify(self, holds: bool, promise: str) -> None:
        """Record a failed check of `promise` unless `holds`."""
        if not holds:
            self.failures.append(promise)
            print(f"{self.name}: FAILED: {promise}", flush=True)

    def verify_soon(
        self, condition: Callable[[], Any], promise: str | Callable[[], str], seconds: float = 240.0
    ) -> None:
        """Record a failed check unless `condition` becomes true within `seconds`."""
        holds = until(condition, seconds)
        self.verify(holds, promise if isinstance(promise, str) else "" if holds else promise())

    def verify_applied(self, data_dir: Path, seconds: float = 240.0) -> None:
        self.verify_soon(lambda: not databases.count_unapplied(data_dir), "every event is applied", seconds)

    def verify_stored(self, data_dir: Path, acknowledged: set[str]) -> None:
        """Check that each acknowledged event is stored, and stored once."""
        lost = databases.find_lost(data_dir, acknowledged)
        self.verify(not lost, f"no acknowledged event is lost, not {len(lost)}, such as {lost[:1]}")
        twice = databases.find_duplicates(data_dir)
        self.verify(not twice, f"no event is stored twice, not {len(twice)}, such as {twice[:1]}")

    # --- resources -------------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> Path:
        made = self.cleanup.enter_context(tempfile.TemporaryDirectory(prefix=f"switchroom-{self.name}-"))
        return Path(made).resolve()

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def make_folder(self) -> Path:
        """Create an empty folder."""
        made = self.folder / f"data-{next(self._folders)}"
        made.mkdir()
        return made

    def patch(self, target: Any, name: str, value: object) -> None:
        """Set an attribute until the end of the trial."""
        self.cleanup.enter_context(mock.patch.object(target, name, value))

    def plant(self) -> None:
        """Plant the bug, if one is requested, in this process."""
        if self.is_seeded and not self._is_planted:
            self._is_planted = True
            for bug in self.bugs:
                seeded_bug.PLANTS[bug](self.patch)

    def start_process(self, *arguments: str) -> Process:
        process = Process(list(arguments))
        self.cleanup.callback(process.stop)
        return process

    def make_program(self, *plants: str) -> tuple[str, ...]:
        """Return the arguments of Python that run the product with all plants."""
        return seeded_bug.make_program((*self.plants, *plants, *(self.bugs if self.is_seeded else ())))

    def start_serve(self, environment: Mapping[str, str]) -> Process:
        """Start `serve`, which may refuse to start. It is killed at the end of the trial."""
        run = Process([sys.executable, *self.make_program(), "serve"], environment)
        self.cleanup.callback(run.kill)
        return run

    def start_simulator(self, *options: str, history: int | None = None) -> Simulator:
        """Start the simulator as a process.

        `history`: number of CDRs until the last Friday evening.
        """
        if history is not None:
            options = (*options, "--cdrs", str(history), "--start", str(last_friday_evening()))
        simulator = Simulator(*options)
        self.cleanup.callback(simulator.stop)
        return simulator

    def start_product(self, data_dir: Path, platform: Platform | None = None, **settings: Any) -> Product:
        """Start the product as a process.

        At the end of the trial it is stopped and checked, unless the trial has stopped or killed it.
        """
        settings.setdefault("program", self.make_program())
        settings.setdefault("sync__max_requests_per_minute", "60000")
        if platform is not None:
            settings |= zip(("base_url", "user_id", "api_key"), get_account(platform), strict=True)
        product = Product(data_dir, **settings)
        if not self._products:
            self.cleanup.callback(self._stop_products)
        self._products.append(product)
        if self.options.visitor and data_dir not in self._visited:
            self._visited.add(data_dir)
            self.start_process(sys.executable, "-m", "tests.trials.tools.visitor", str(data_dir))
        return product

    def stop_product(self, product: Product) -> None:
        """Stop the product. Check its exit status and its databases."""
        self._products.remove(product)
        status = product.stop()
        if not self.is_seeded:
            self.verify(status == 0, f"the product stops with status 0, not {status}")
            killed = [line for line in product.lines if "killing" in line.lower()]
            self.verify(not killed, f"the worker ends without being killed, not {killed}")
            damage = databases.find_damage(product.data_dir)
            self.verify(not damage, f"the databases are intact, not {damage}")

    def kill_product(self, product: Product) -> None:
        self._products.remove(product)
        product.kill()

    def _stop_products(self) -> None:
        for product in list(self._products):
            self.stop_product(product)

    def embed_simulator(self, cdrs: int) -> embed.Simulator:
        """Run the simulator in this process."""
        simulator = embed.start(seed=self.options.seed, cdrs=cdrs, start_at=last_friday_evening())
        self.cleanup.callback(simulator.stop)
        return simulator

    @contextmanager
    def build_product(
        self, platform: Platform, folder: Path | None = None, **settings: Any
    ) -> Iterator[LocalProduct]:
        """Build the product in this process, without its jobs."""
        self.plant()
        product = LocalProduct(folder or self.make_folder(), *get_account(platform), **settings)
        try:
            yield product
        finally:
            product.stop()

    @contextmanager
    def run_product(
        self, platform: Platform, *, wall: float = 0.0, **settings: str
    ) -> Iterator[LocalProduct]:
        """Run the product in this process, after its initial sync.

        The trial moves its clock, which at first differs by `wall` seconds from that of the platform.
        """
        self.plant()
        logging.disable(logging.CRITICAL)  # Failures that the trial causes would fill pages.
        try:
            with MovedClock() as moved, self.build_product(platform, moved=moved, **settings) as product:
                moved.set_wall(wall)
                product.start()
                product.await_initial_sync()
                yield product
        finally:
            logging.disable(logging.NOTSET)


def last_friday_evening() -> float:
    """Unix time at which the histories of trials end.

    The days before a Monday morning have few calls, those before a Friday evening hundreds. The result of a
    trial must not depend on the day on which it runs.
    """
    now = clock.unix()
    return now - (now - FRIDAY) % WEEK


def get_account(platform: Platform) -> tuple[str, str, str]:
    """Return base URL, user id and API key."""
    if isinstance(platform, embed.Simulator):
        return platform.url, str(platform.admin.id), platform.admin.api_key
    return platform.url, platform.user_id, platform.api_key


def until(condition: Callable[[], Any], seconds: float = 240.0) -> bool:
    """Wait until `condition` holds. Returns whether it did within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.05)
    return True


def await_sync(product: Product, *collections: str) -> None:
    """Wait until each of `collections` was read completely."""
    wait_for(lambda: databases.is_complete(product.data_dir, *collections), "the initial sync", 300)


def has_started(run: Process) -> bool:
    """Whether `serve` accepts requests."""
    return "Listening on " in run.output


def kill_worker(product: Product) -> int | None:
    """Send SIGKILL to the worker. Returns its process id."""
    worker = product.worker
    if worker is not None:
        os.kill(worker, signal.SIGKILL)
    return worker


def kill_all_processes(product: Product) -> None:
    """Send SIGKILL to the supervisor. Return when its worker has ended too."""
    worker = product.worker
    product.kill()
    wait_for(lambda: worker is None or not alive(worker), "the end of the worker", 60)


def await_new_worker(product: Product, old: int | None) -> None:
    wait_for(lambda: product.worker not in (None, old), "a new worker", 60)
    product.ready()


def allow_many_connections() -> None:
    """Raise the limit of open files of this process and its children."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
