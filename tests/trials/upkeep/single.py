"""Trial of second starts, suspended processes and busy jobs."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from pathlib import Path

from tests.support.harness import wait_for
from tests.trials.tools.databases import count_keys
from tests.trials.tools.traffic import Senders
from tests.trials.trial import NO_TRAFFIC, Trial, await_sync, has_started, until

PATIENCE = 240.0


class Single(Trial):
    """One process works on a data_dir, and no job is dropped.

    Disturbed: while webhooks arrive, the product is started again on the same data_dir and on the same port;
    supervisor and worker are suspended for ten seconds; the platform hangs, so that all jobs that use it are
    busy.
    Checked: the second start ends with status 1 and names the reason, and the first goes on; after each
    disturbance new records are stored and every job succeeds again; no acknowledged event is lost or stored
    twice.
    Detects: a data_dir that two processes use.
    """

    name = "single"
    size_option, size = "--rounds", 5
    bugs, symptoms = ("skip_process_lock",), ("data_dir is refused",)
    short = ("--rounds 1 --seconds 2", "--rounds 1 --seconds 1 --seed-bug")
    promises = ("P26",)
    long = ("--rounds 5",) * 2

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=10.0, help="of a suspension, and of a hang")

    def boot(self) -> None:
        self.simulator = self.start_simulator(*NO_TRAFFIC, "--cdrs", "50")
        self.product = self.start_product(
            self.data_dir, self.simulator, sync__recent_interval="2", recordings__download="false"
        )
        await_sync(self.product, "cdrs")

    def load(self) -> None:
        self.senders = Senders(self.product.port, self.product.webhook_path, count=4, rest=0.02)

    def disturb(self) -> None:
        for number in range(self.options.size):
            self._start_again(self.data_dir, 0, "is in use by `switchroom serve`", "the same data_dir")
            if not self.is_seeded:
                port = self.product.port
                other = self.folder / f"other-{number}"
                self._start_again(other, port, f"port {port} on 127.0.0.1 is in use", "the same port")
                self._suspend()
                self._hang()
        self.senders.stop()

    def _start_again(self, data_dir: Path, port: int, reason: str, where: str) -> None:
        own = {"SWITCHROOM_STORAGE__DATA_DIR": str(data_dir), "SWITCHROOM_SERVER__PORT": str(port)}
        run = self.start_serve({**self.product.environment, **own})
        until(lambda: run.popen.poll() is not None or has_started(run), 120)
        status = run.popen.poll()
        if status is not None:
            run.stop()  # Waits for the rest of its output.
        is_refused = status == 1 and reason in run.output
        self.verify(is_refused, f"a second start on {where} is refused, not {status}: {run.output[-300:]}")

    def _suspend(self) -> None:
        """Suspend the processes, then let them continue."""
        pids = [pid for pid in (self.product.worker, self.product.pid) if pid is not None]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(self.options.seconds)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        self._check_work("a suspension")

    def _hang(self) -> None:
        """Let the platform not respond, so that the jobs are busy."""
        self.simulator.control("POST", "faults", {"spec": "hang=3"})
        threading.Event().wait(self.options.seconds)
        self.simulator.control("DELETE", "faults")
        self._check_work("a hanging platform")

    def _check_work(self, after: str) -> None:
        """Check that records and webhooks are stored, and that every job succeeds."""
        made = self.simulator.control("POST", "calls", {"script": "plain_answered", "instant": True})
        began = time.monotonic()
        leg = made["leg_ids"][0]
        cdrs = wait_for(
            lambda: self.simulator.control("GET", f"calls/{leg}")["cdr_ids"], "the records of the call", 60
        )
        mirror = self.data_dir / "mirror.db"
        self.verify_soon(
            lambda: count_keys(mirror, "cdrs", cdrs) == len(cdrs), f"new records after {after}", PATIENCE
        )
        self.verify_soon(lambda: self.senders.since(began)[200] > 20, f"webhooks are stored after {after}")
        self.verify_soon(
            lambda: not self._list_failing(),
            lambda: f"every job succeeds after {after}, except {self._list_failing()}",
            PATIENCE,
        )

    def _list_failing(self) -> list[str]:
        checks = self.product.client.json("GET", "/readyz")["checks"]
        return [f"{name}: {one}" for name, one in checks.items() if one["state"] not in ("ok", "off")]

    def check(self) -> None:
        if not self.is_seeded:
            self.verify_applied(self.data_dir)
            self.verify_stored(self.data_dir, self.senders.acknowledged)
        self.figures.append(f"{self.options.size} rounds, {dict(self.senders.statuses)}")
