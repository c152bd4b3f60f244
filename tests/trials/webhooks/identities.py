"""Trial of ids that are unusual, or used for two events."""

from __future__ import annotations

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.trials.long_form import LongForm
from tests.trials.tools.databases import query_number, query_rows
from tests.trials.tools.traffic import STEPS, make_event
from tests.trials.trial import Trial

SENDERS = 16
MISSING = object()
"""In place of an id: the event has none."""
UNUSUAL: tuple[object, ...] = (
    7, "7", 7.0, 0, -1, 2**63, 2**64, 10**40, 1.5, 1e300, "", " ", None, True, False, "x" * 10_000,
    "ä" * 5_000, "\ud800", "\x00", "a\nb", "' OR 1=1", [1], {"a": 1}, MISSING,
)  # fmt: skip
FLAGGED = "SELECT count(*) FROM inbox WHERE flagged = 1 AND event_id LIKE 'pair%'"


class Identities(Trial):
    """Events with unusual ids, and two events with one id, are stored and applied.

    Disturbed: 16 senders send events whose ids are numbers, fractions, beyond 64 bits, empty, null, very long
    or missing; and pairs of one id with different contents, the beginning and the end of a call; each body
    twice.
    Checked: each request gets 200; each body is stored once, with two deliveries; the second of each pair is
    flagged; both are applied: every call has ended.
    Detects: a second body that is not stored; an id whose type is assumed.
    """

    name = "ids"
    size_option, size = "--events", 2000
    bugs = ("keep_first_body", "fail_on_numeric_ids")
    symptoms = ("each body is stored", "each request gets 200")
    short = ("--events 200", "--events 100 --seed-bug")
    long = LongForm(
        promises=("P5", "P6"),
        rounds=("--events 2000",) * 3,
        minutes=3,
        expectation="by hand: the list of bodies",
    )

    def boot(self) -> None:
        rng = random.Random(self.options.seed)
        self.pairs = self.options.size // 2
        bodies = [body for number in range(self.pairs) for body in _make_pair(number)]
        bodies += [
            _make_unusual(number, UNUSUAL[number % len(UNUSUAL)]) for number in range(self.options.size)
        ]
        self.bodies = bodies
        self.posts = bodies * 2
        rng.shuffle(self.posts)
        self.product = self.start_product(self.data_dir)

    def disturb(self) -> None:
        path, client = self.product.webhook_path, self.product.client
        with ThreadPoolExecutor(SENDERS) as pool:
            statuses = pool.map(lambda body: client.send("POST", path, body)[0], self.posts)
            self.statuses = Counter(statuses)

    def check(self) -> None:
        refused = self.statuses.total() - self.statuses[200]
        self.verify(set(self.statuses) == {200}, f"each request gets 200, not {dict(self.statuses)}")
        self.verify_applied(self.data_dir)
        rows = query_rows(self.data_dir / "inbox.db", "SELECT body, deliveries FROM inbox")
        found = {bytes(body): deliveries for body, deliveries in rows}
        missing = [body for body in self.bodies if body not in found]
        self.verify(
            not missing and len(found) == len(rows) == len(self.bodies),
            f"each body is stored, once: {len(missing)} are missing, such as {missing[:1]!r:.200}",
        )
        wrong = [body for body, count in found.items() if count != 2]
        self.verify(not wrong, f"each body has two deliveries, except {len(wrong)}")
        flagged = query_number(self.data_dir / "inbox.db", FLAGGED)
        self.verify(flagged == self.pairs, f"the second of {self.pairs} pairs is flagged, not of {flagged}")
        sql = "SELECT count(*) FROM _calls WHERE state = 'ended' AND id BETWEEN ? AND ?"
        first = json.loads(_make_pair(0)[0])["call_id"]
        ended = query_number(self.data_dir / "mirror.db", sql, first, first + self.pairs - 1)
        self.verify(ended == self.pairs, f"both events of {self.pairs} pairs are applied, not of {ended}")
        self.sums = {
            "bodies, each sent twice": len(self.bodies),
            "pairs of one id": self.pairs,
            "refused": refused,
        }
        self.highest = {"kinds of unusual ids": len(UNUSUAL)}
        self.figures.append(f"{len(self.bodies)} bodies, {self.pairs} pairs, {dict(self.statuses)}")


def _make_pair(number: int) -> tuple[bytes, bytes]:
    """Beginning and end of a call, with one id."""
    first = len(STEPS) * number
    return make_event(f"pair{number}", 0, first), make_event(f"pair{number}", 0, first + len(STEPS) - 1)


def _make_unusual(number: int, identifier: object) -> bytes:
    """An event with this id, and a call of its own."""
    event = json.loads(make_event("", 500, len(STEPS) * number))
    del event["id"]
    return json.dumps(event if identifier is MISSING else {**event, "id": identifier}).encode()
