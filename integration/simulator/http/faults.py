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
    short-list          half the records of a page; the total is reduced to match
    shuffle             a list in a different order with each request; `sort` is ignored
    no-length[=SHARE]   no Content-Length; the connection ends after this share of the body (default: half)
    wrong-file[=WHAT]   `short`, `html` or `zero` (default: one of them) instead of an MP3 or a PDF
    expire-token        the token of this request expires first: 401
    webhook-drop        a webhook is never sent
    webhook-duplicate   a webhook is sent twice
    webhook-reorder     a webhook is delayed by 0.05 to 1.55 s, so that newer webhooks can overtake it
    webhook-delay=SECONDS   a webhook is delayed by this time

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

_KINDS_WITH_VALUE = frozenset({"status", "hang", "slow", "drip", "webhook-delay"})
_KINDS = _KINDS_WITH_VALUE | {
    *("truncate", "malformed", "html", "empty", "double-row", "short-page", "short-list", "shuffle"),
    *("no-length", "wrong-file", "expire-token"),
    *("webhook-drop", "webhook-duplicate", "webhook-reorder"),
}
_ALLOWED_VALUES = {"malformed": ("json", "headers"), "wrong-file": ("short", "html", "zero")}
_FAULT_PATTERN = re.compile(
    r"^(?P<kind>[a-z0-9-]+)(=(?P<value>[a-z0-9./]+))?(:(?P<probability>[0-9.]+))?(\*(?P<times>\d+))?(@(?P<where>.+))?$"
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

    @property
    def is_webhook(self) -> bool:
        return self.kind.startswith("webhook-")

    def get_number(self, default: float = 0.0) -> float:
        return float(self.value) if self.value is not None else default

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
        parsed = [parse(entry, self._seed, self._count + n) for n, entry in enumerate(entries)]
        with self._lock:
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

    def draw_for_request(self, method: str, path: str) -> list[Fault]:
        """Draw the faults of a request and count them."""
        return self._draw(method, path, for_webhook=False)

    def draw_for_webhook(self, event_name: str) -> list[Fault]:
        """Draw the faults of a webhook and count them."""
        return self._draw("POST", event_name, for_webhook=True)

    def _draw(self, method: str, path: str, *, for_webhook: bool) -> list[Fault]:
        drawn = []
        with self._lock:
            for fault in self._faults:
                if fault.is_webhook != for_webhook or fault.remaining == 0 or not fault.matches(method, path):
                    continue
                if fault.probability < 1 and fault.rng.random() >= fault.probability:
                    continue
                fault.happened_count += 1
                if fault.remaining is not None:
                    fault.remaining -= 1
                drawn.append(fault)
        return drawn


def parse(entry: str, seed: int = 0, number: int = 0) -> Fault:
    """Parse one entry of a specification. Raises InvalidFaultSpec."""
    match = _FAULT_PATTERN.match(entry)
    if match is None or match["kind"] not in _KINDS:
        raise InvalidFaultSpec(f"fault {entry!r}: unknown fault; see `simulator --help`")
    kind, value = match["kind"], match["value"]
    if kind in _KINDS_WITH_VALUE and value is None:
        raise InvalidFaultSpec(f"fault {entry!r}: a value is required: {kind}=…")
    allowed = _ALLOWED_VALUES.get(kind)
    if value is not None:
        if allowed is not None and value not in allowed:
            raise InvalidFaultSpec(f"fault {entry!r}: the value must be one of {', '.join(allowed)}")
        if allowed is None:
            try:
                [float(part) for part in value.split("/")]
            except ValueError:
                raise InvalidFaultSpec(f"fault {entry!r}: {value!r} is not a number") from None
    try:
        probability = float(match["probability"]) if match["probability"] else 1.0
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise InvalidFaultSpec(f"fault {entry!r}: the probability must be between 0 and 1")
    method, path = None, match["where"]
    if path and " " in path:
        method, path = path.split(" ", 1)
        method = method.upper()
    return Fault(
        text=entry,
        kind=kind,
        value=value,
        probability=probability,
        remaining=int(match["times"]) if match["times"] else None,
        method=method,
        path=path,
        rng=random.Random(f"fault {seed} {number} {entry}"),
    )
