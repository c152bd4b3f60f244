"""Faults on demand.

A specification is a comma-separated list of `KIND[=VALUE][:PROBABILITY][*TIMES][@[METHOD ]PATH]`:

    status=CODE         respond with this status (429 and 503 with Retry-After; `429/5` sets its seconds)
    hang=SECONDS        no response; the connection is closed after this time
    slow=SECONDS        the response is delayed by this time
    drip=SECONDS        the body is sent in pieces over this time
    truncate[=SHARE]    only this share of the body is sent, less than Content-Length (default: half)
    malformed[=WHAT]    `json` (default): an incomplete body; `headers`: headers that no client can parse
    html                an HTML page with status 200
    empty               `{"data": [], "total": 0}`
    double-row          the last record of a page twice
    short-page          half the records of a page; the total is correct
    shuffle             a list in a different order with each request; `sort` is ignored
    no-length[=SHARE]   no Content-Length; the connection ends after this share of the body (default: half)
    wrong-file[=WHAT]   `short`, `html` or `zero` (default: one of them) instead of an MP3 or a PDF
    expire-token        the token of this request expires first: 401
    webhook-drop        a webhook is never sent
    webhook-duplicate   a webhook is sent twice
    webhook-reorder     a webhook is delayed by 0.05 to 1.55 s, so that newer webhooks can overtake it

The default PROBABILITY is 1, the default of TIMES is unlimited. PATH is relative to the base path: a prefix
(`/cdrs` includes `/cdrs/7`) or a pattern with `*`. For webhooks PATH is the event name or a pattern with `*`:
`webhook-drop@call.hangup`. Each fault has a separate random generator, so that the same seed and the same
requests cause the same faults.
Example: `status=503:0.1@/cdrs,hang=5:0.05,truncate*2@GET /monitors/*.mp3,webhook-duplicate:0.2`.
"""

from __future__ import annotations

import fnmatch
import random
import re
import threading
from dataclasses import dataclass, field

_NUMBER = r"\d+(\.\d+)?"
_VALUES = {
    "status": r"\d{3}(/\d+)?",
    **dict.fromkeys(("hang", "slow", "drip"), _NUMBER),
    **dict.fromkeys(("truncate", "no-length"), f"({_NUMBER})?"),
    "malformed": "(json|headers)?",
    "wrong-file": "(short|html|zero)?",
    **dict.fromkeys(("html", "empty", "double-row", "short-page", "shuffle", "expire-token"), ""),
    **dict.fromkeys(("webhook-drop", "webhook-duplicate", "webhook-reorder"), ""),
}
"""Patterns of values by kind of fault."""
_ENTRY = re.compile(
    r"(?P<kind>[a-z-]+)(=(?P<value>[^:*@]+))?(:(?P<probability>0(\.\d+)?|1(\.0+)?))?"
    r"(\*(?P<times>\d+))?(@((?P<method>[A-Za-z]+) )?(?P<path>.+))?"
)


class InvalidFaultSpec(ValueError):
    """Invalid fault specification. The message names the entry."""


@dataclass(slots=True)
class Fault:
    """Entry of a fault specification. `remaining`: occurrences left; None is unlimited."""

    text: str
    kind: str
    value: str | None
    probability: float
    remaining: int | None
    method: str | None
    path: str | None
    rng: random.Random = field(repr=False)
    happened_count: int = 0

    def matches(self, method: str, path: str) -> bool:
        if self.method is not None and self.method != method:
            return False
        if self.path is None:
            return True
        if "*" in self.path:
            return fnmatch.fnmatchcase(path, self.path)
        parent = self.path.rstrip("/")
        return path in (self.path, parent) or path.startswith(parent + "/")


class ActiveFaults:
    """Active faults. Thread-safe."""

    def __init__(self, seed: int = 0, spec: str = "") -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._count = 0
        self._faults: list[Fault] = []
        self.add(spec)

    def add(self, spec: str) -> None:
        """Activate all faults of `spec`. Raises InvalidFaultSpec without activating any of them."""
        entries = [entry.strip() for entry in spec.split(",") if entry.strip()]
        with self._lock:
            parsed = [parse(entry, self._seed, self._count + n) for n, entry in enumerate(entries)]
            self._count += len(parsed)
            self._faults = [*self._faults, *parsed]

    def clear(self) -> None:
        with self._lock:
            self._faults = []

    def list_all(self) -> list[dict[str, object]]:
        with self._lock:
            return [
                {"fault": f.text, "happened": f.happened_count, "left": f.remaining} for f in self._faults
            ]

    def draw(self, method: str, path: str, *, for_webhook: bool = False) -> dict[str, Fault]:
        """Draw the faults of a request or a webhook, by kind, and count them.

        `path`: for a webhook the name of its event.
        """
        drawn = {}
        with self._lock:
            for fault in self._faults:
                is_possible = fault.remaining != 0 and fault.kind.startswith("webhook-") == for_webhook
                if not is_possible or not fault.matches(method, path):
                    continue
                if fault.probability < 1 and fault.rng.random() >= fault.probability:
                    continue
                fault.happened_count += 1
                if fault.remaining is not None:
                    fault.remaining -= 1
                drawn[fault.kind] = fault
        return drawn


def parse(entry: str, seed: int = 0, number: int = 0) -> Fault:
    """Parse one entry of a specification. Raises InvalidFaultSpec."""
    match = _ENTRY.fullmatch(entry)
    pattern = match and _VALUES.get(match["kind"])
    if match is None or pattern is None or not re.fullmatch(pattern, match["value"] or ""):
        raise InvalidFaultSpec(f"fault {entry!r}: unknown kind, value or probability; see `simulator --help`")
    return Fault(
        text=entry,
        kind=match["kind"],
        value=match["value"],
        probability=float(match["probability"] or 1),
        remaining=int(match["times"]) if match["times"] else None,
        method=match["method"] and match["method"].upper(),
        path=match["path"],
        rng=random.Random(f"fault {seed} {number} {entry}"),
    )
