"""Trial of repeated deliveries of webhooks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support.harness import Product, wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import count_stored, query_rows, read_calls
from tests.trials.tools.traffic import STEPS, Deliveries, create_access, make_event
from tests.trials.trial import Trial, await_new_worker, kill_worker

SENDERS = 16
MAX_COPIES = 20
EXPORT = "/exports/call-history.csv"


class Duplicates(Trial):
    """An event may be delivered any number of times.

    Disturbed: each event is delivered 1 to 20 times in random order by 16 senders, with a kill of the worker
    and a restart in between.
    Checked: each event is stored once, with the number of its deliveries; calls and their export equal those
    of a second product that received each event once, in order.
    Detects: deliveries that are not counted.
    """

    name = "duplicates"
    size_option, size = "--events", 1000
    bugs, symptoms = ("ignore_repeated_deliveries",), ("deliveries are counted",)
    short = ("--events 200", "--events 50 --seed-bug")
    long = LongForm(
        promises=("P3",),
        rounds=("",) * 3,
        minutes=7,
        remains="",
        expectation="by hand: the list of deliveries; a second product that received each event once",
    )

    def boot(self) -> None:
        rng = random.Random(self.options.seed)
        total = self.options.size - self.options.size % len(STEPS)
        self.bodies = {f"d{number}": make_event(f"d{number}", 0, number) for number in range(total)}
        self.copies = [name for name in self.bodies for _ in range(rng.randint(1, MAX_COPIES))]
        rng.shuffle(self.copies)
        self.access = create_access(self.data_dir)
        self.product = self.start_product(self.data_dir)

    def load(self) -> None:
        self.deliveries = self._deliver(self.product, self.copies, SENDERS)

    def disturb(self) -> None:
        total = len(self.copies)
        wait_for(lambda: self.deliveries.pending < total * 2 // 3, "a third of the deliveries", 300)
        await_new_worker(self.product, kill_worker(self.product))
        wait_for(lambda: self.deliveries.pending < total // 3, "two thirds of the deliveries", 300)
        port = self.product.port
        self.stop_product(self.product)
        self.product = self.start_product(self.data_dir, port=port)
        self.deliveries.wait(300)

    def check(self) -> None:
        export = self._export(self.product, self.access.dashboard)
        stored = count_stored(self.data_dir)
        self.verify(
            set(stored) == set(self.bodies) and set(stored.values()) == {1},
            f"every event is stored once; {len(self.bodies) - len(stored)} are missing",
        )
        self._check_counts()
        statuses = self.deliveries.statuses
        self.verify(set(statuses) <= {0, 200, 503}, f"deliveries get 200 or 503, not {dict(statuses)}")
        once, calls = self._deliver_once(self.folder / "once")
        for table, rows in read_calls(self.data_dir).items():
            differing = rows ^ calls[table]
            self.verify(not differing, f"{table} is as after single deliveries; {len(differing)} rows differ")
        self.verify(once.count(b"\n") > 10, f"there are calls to export, not {once[:100]!r}")
        self.verify(export == once, "the export is as after single deliveries")
        self.sums = {"deliveries": len(self.copies), "events": len(self.bodies)}
        self.figures.append(f"{len(self.copies)} deliveries of {len(self.bodies)} events")

    def _check_counts(self) -> None:
        """Check the stored numbers of deliveries.

        A delivery whose response was lost may be counted or not.
        """
        counts = dict(
            query_rows(self.data_dir / "inbox.db", "SELECT event_id, sum(deliveries) FROM inbox GROUP BY 1")
        )
        done, lost = Counter[str](), Counter[str]()
        for response in self.deliveries.responses:
            (done if response.status == 200 else lost)[response.what] += 1
        wrong = [one for one in self.bodies if not done[one] <= counts.get(one, 0) <= done[one] + lost[one]]
        self.verify(not wrong, f"deliveries are counted, except of {len(wrong)} events, such as {wrong[:1]}")

    def _deliver_once(self, data_dir: Path) -> tuple[bytes, dict[str, set[tuple[object, ...]]]]:
        access = create_access(data_dir)
        product = self.start_product(data_dir, program=("app.py",))
        self._deliver(product, list(self.bodies), 1).wait()
        return self._export(product, access.dashboard), read_calls(data_dir)

    def _deliver(self, product: Product, names: Sequence[str], senders: int) -> Deliveries:
        bodies = [(name, self.bodies[name]) for name in names]
        return Deliveries(product.port, product.webhook_path, bodies, count=senders)

    def _export(self, product: Product, headers: object) -> bytes:
        self.verify_applied(product.data_dir, 120)
        return bytes(product.client.send("GET", EXPORT, headers=headers)[1])
