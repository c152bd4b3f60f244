"""Trial of repeated deliveries of webhooks, and of ids that are unusual or used for two events."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.harness import Product, wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import query_number, query_rows, read_calls
from tests.trials.tools.traffic import STEPS, Deliveries, create_access, make_event
from tests.trials.trial import Trial, await_new_worker, kill_worker

SENDERS = 16
MAX_COPIES = 20
EXPORT = "/exports/call-history.csv"
MISSING = object()
"""In place of an id: the event has none."""
UNUSUAL: tuple[object, ...] = (
    7, "7", 7.0, 0, -1, 2**63, 2**64, 10**40, 1.5, 1e300, "", " ", None, True, False, "x" * 10_000,
    "ä" * 5_000, "\ud800", "\x00", "a\nb", "' OR 1=1", [1], {"a": 1}, MISSING,
)  # fmt: skip
FLAGGED = "SELECT count(*) FROM inbox WHERE flagged = 1 AND event_id LIKE 'pair%'"


class Duplicates(Trial):
    """An event may be delivered any number of times, with any id.

    Disturbed: each event is delivered 1 to 20 times in random order by 16 senders, with a kill of the worker
    and a restart in between. Some ids are numbers, fractions, beyond 64 bits, empty, null, very long or
    missing; some are shared by two events, the beginning and the end of a call.
    Checked: no delivery gets another 5xx than 503; each body is stored once, with the number of its
    deliveries; the second of two events with one id is flagged; calls and their export equal those of a
    second product that received each event once, in order.
    Detects: deliveries that are not counted; a second body that is not stored; an id whose type is assumed.
    """

    name = "duplicates"
    size_option, size = "--events", 1000
    bugs = ("ignore_repeated_deliveries", "keep_first_body", "fail_on_numeric_ids")
    symptoms = ("deliveries are counted", "every body is stored once", "deliveries get 200")
    short = ("--events 100", "--events 60 --seed-bug")
    long = LongForm(
        promises=("P3", "P5", "P6"),
        rounds=("",) * 3,
        minutes=7,
        remains="",
        expectation="by hand: the list of deliveries; a second product that received each event once",
    )

    def boot(self) -> None:
        rng = random.Random(self.options.seed)
        total = self.options.size - self.options.size % len(STEPS)
        self.pairs = self.options.size // 4
        bodies = [make_event(f"d{number}", 0, number) for number in range(total)]
        bodies += [body for number in range(self.pairs) for body in _make_pair(number)]
        bodies += [_make_unusual(number, identifier) for number, identifier in enumerate(UNUSUAL)]
        self.bodies = dict(enumerate(bodies))
        self.copies = [number for number in self.bodies for _ in range(rng.randint(1, MAX_COPIES))]
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
        rows = query_rows(self.data_dir / "inbox.db", "SELECT body, deliveries FROM inbox")
        found = {bytes(body): deliveries for body, deliveries in rows}
        missing = [body for body in self.bodies.values() if body not in found]
        self.verify(
            not missing and len(found) == len(rows) == len(self.bodies),
            f"every body is stored once; {len(missing)} are missing, such as {missing[:1]!r:.200}",
        )
        flagged = query_number(self.data_dir / "inbox.db", FLAGGED)
        self.verify(flagged == self.pairs, f"the second of {self.pairs} pairs is flagged, not of {flagged}")
        self._check_counts(found)
        statuses = self.deliveries.statuses
        self.verify(set(statuses) <= {0, 200, 503}, f"deliveries get 200 or 503, not {dict(statuses)}")
        once, calls = self._deliver_once(self.folder / "once")
        for table, rows in read_calls(self.data_dir).items():
            differing = rows ^ calls[table]
            self.verify(not differing, f"{table} is as after single deliveries; {len(differing)} rows differ")
        self.verify(once.count(b"\n") > 10, f"there are calls to export, not {once[:100]!r}")
        self.verify(export == once, "the export is as after single deliveries")
        self.sums = {
            "deliveries": len(self.copies),
            "events": len(self.bodies),
            "pairs of one id": self.pairs,
        }
        self.figures.append(f"{len(self.copies)} deliveries of {len(self.bodies)} events")

    def _check_counts(self, counts: Mapping[bytes, int]) -> None:
        """Check the stored numbers of deliveries.

        A delivery whose response was lost may be counted or not.
        """
        done, lost = Counter[str](), Counter[str]()
        for response in self.deliveries.responses:
            (done if response.status == 200 else lost)[response.what] += 1
        wrong = [
            number
            for number, body in self.bodies.items()
            if not done[str(number)] <= counts.get(body, 0) <= done[str(number)] + lost[str(number)]
        ]
        self.verify(not wrong, f"deliveries are counted, except of {len(wrong)} events, such as {wrong[:1]}")

    def _deliver_once(self, data_dir: Path) -> tuple[bytes, dict[str, set[tuple[object, ...]]]]:
        access = create_access(data_dir)
        product = self.start_product(data_dir, program=("app.py",))
        self._deliver(product, list(self.bodies), 1).wait()
        return self._export(product, access.dashboard), read_calls(data_dir)

    def _deliver(self, product: Product, numbers: Sequence[int], senders: int) -> Deliveries:
        bodies = [(str(number), self.bodies[number]) for number in numbers]
        return Deliveries(product.port, product.webhook_path, bodies, count=senders)

    def _export(self, product: Product, headers: object) -> bytes:
        self.verify_applied(product.data_dir, 120)
        return bytes(product.client.send("GET", EXPORT, headers=headers)[1])


def _make_pair(number: int) -> tuple[bytes, bytes]:
    """Beginning and end of a call, with one id."""
    first = len(STEPS) * number
    return make_event(f"pair{number}", 1, first), make_event(f"pair{number}", 1, first + len(STEPS) - 1)


def _make_unusual(number: int, identifier: object) -> bytes:
    """An event with this id, and a call of its own."""
    event = json.loads(make_event("", 500, len(STEPS) * number))
    del event["id"]
    return json.dumps(event if identifier is MISSING else {**event, "id": identifier}).encode()
