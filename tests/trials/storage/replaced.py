"""Trial of a lost inbox.db."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from tests.support.harness import keep_port, wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import query_rows
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial

SIDE_FILES = ("", "-wal", "-shm")


class Replaced(Trial):
    """Webhooks after the loss of inbox.db are applied, and the loss is reported.

    Disturbed: the product is killed under load; inbox.db is removed, truncated to 0 bytes or replaced by an
    older copy; mirror.db is kept.
    Checked: each event that is acknowledged afterwards has an effect; /readyz names the loss; earlier events
    keep their effects.
    Detects: new webhooks that get the numbers of applied ones.
    """

    name = "replaced"
    size_option, size = "--rounds", 30
    bugs, symptoms = ("restart_numbers",), ("every event has an effect",)
    short = ("--rounds 3", "--rounds 1 --seed-bug")
    long = LongForm(
        rounds=("--rounds 10",) * 3,
        minutes=16,
        expectation="by hand: the senders' own list",
    )

    def boot(self) -> None:
        kept = self.cleanup.enter_context(keep_port())
        self.port = kept.getsockname()[1]
        self.product = self.start_product(self.data_dir, port=self.port)
        self.applied: set[str] = set()
        self._send(0)
        self._await_effects(0)

    def disturb(self) -> None:
        faults: tuple[tuple[Callable[[], None], str], ...] = (
            (self._remove, "was missing"),
            (self._truncate, "had 0 bytes"),
            (self._copy_older, "was older than mirror.db"),
        )
        for number in range(1, self.options.size + 1):
            spoil, fault = faults[(number - 1) % len(faults)]
            shutil.copy(self.data_dir / "inbox.db", self.folder / "older.db")
            self._send(2 * number - 1)
            self._await_effects(number)
            self.kill_product(self.product)
            spoil()
            self.product = self.start_product(self.data_dir, port=self.port)
            fact = self.product.client.json("GET", "/readyz")["facts"].get("lost webhooks", "")
            self.verify(fault in fact, f"round {number}: /readyz names the loss {fault!r}, not {fact!r}")
            self._send(2 * number)
            self._await_effects(number)

    def _send(self, series: int) -> None:
        senders = Senders(
            self.port, self.product.webhook_path, name=f"{series}-", first=6 * series, rest=0.0, most=10
        )
        wait_for(lambda: senders.statuses[200] >= 60, "acknowledgements", 120)
        senders.stop()
        self.applied |= senders.acknowledged

    def _await_effects(self, number: int) -> None:
        def list_missing() -> list[str]:
            rows = query_rows(self.data_dir / "mirror.db", "SELECT event_id FROM _leg_events")
            return sorted(self.applied - {row[0] for row in rows})

        self.verify_soon(
            lambda: not list_missing(),
            lambda: f"round {number}: every event has an effect, not {list_missing()[:3]}",
            5 if self.is_seeded else 60,
        )

    def _remove(self) -> None:
        for suffix in SIDE_FILES:
            (self.data_dir / f"inbox.db{suffix}").unlink(missing_ok=True)

    def _truncate(self) -> None:
        self._remove()
        (self.data_dir / "inbox.db").touch()

    def _copy_older(self) -> None:
        self._remove()
        shutil.copy(self.folder / "older.db", self.data_dir / "inbox.db")

    def check(self) -> None:
        self.verify_applied(self.data_dir, 60)
        self.figures.append(
            f"{self.options.size} losses, {len(self.applied)} events acknowledged and applied"
        )
