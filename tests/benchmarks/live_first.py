"""Benchmark of webhooks and pages during an initial sync.

Work of users goes before bulk work. The platform is tests/trials/tools/peer.py. While the product stores its
CDRs, assembles their calls and indexes them, a client posts the events of new calls, waits until an open live
stream shows each, and requests pages. Afterwards the same client measures the product at rest.
`python -m tests.benchmarks live_first --rows 200000`
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from integration.core import clock
from tests.benchmarks.streams import log_in
from tests.benchmarks.tools.benchmark import Benchmark, Figure, Goal, Options
from tests.support.harness import Client, Process, Product, wait_for
from tests.trials.tools.databases import query_number

PAGES = ("/", "/calls", "/calls?range=all", "/missed", "/messages", "/system")
CALLS_PER_SECOND = 5
"""Rate of new calls, each with two webhooks: that of a busy office."""
PAGE_EVERY = 3
"""Calls between two requests of pages."""
MAX_SECONDS = 60.0
"""Seconds after which a change that is missing in the stream counts as lost."""
CALLS_AT_REST = 60
FIRST_CALL = 9_000_000_000
"""Ids of calls from here on differ from those of the peer's CDRs."""


@dataclass
class Delays:
    """Seconds until acknowledgements, changed rows and pages of one phase."""

    acknowledged: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)


def get_share(values: list[float], share: float) -> float:
    """Return the value below which `share` of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Office:
    """A user with an open live stream, and the platform's webhooks."""

    def __init__(self, product: Product) -> None:
        self._client = Client(product.url)
        self._path = product.webhook_path
        self._cookie = log_in(product, "bench@example.com")
        self._stream = socket.create_connection(("127.0.0.1", product.port))
        request = f"GET /live/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {self._cookie}\r\n\r\n"
        self._stream.sendall(request.encode())
        assert b" 200 " in self._stream.recv(4096)
        self._stream.settimeout(MAX_SECONDS)
        self._numbers = count()

    def work(self, delays: Delays) -> None:
        """Begin a call, wait for its row, and end it.

        Sometimes request a page.
        """
        number = next(self._numbers)
        begun = time.perf_counter()
        self._post_event(number, b'"call.ringing","state":"RINGING"')
        delays.acknowledged.append(time.perf_counter() - begun)
        self._wait_for_row(b"call-%d" % (FIRST_CALL + number))
        delays.rows.append(time.perf_counter() - begun)
        self._post_event(number, b'"call.hangup","state":"HANGUP"')
        if number % PAGE_EVERY == 0:
            requested = time.perf_counter()
            page = PAGES[number // PAGE_EVERY % len(PAGES)]
            status, _, _ = self._client.send("GET", page, headers={"Cookie": self._cookie})
            assert status == 200, (page, status)
            delays.pages.append(time.perf_counter() - requested)
        time.sleep(max(0.0, begun + 1 / CALLS_PER_SECOND - time.perf_counter()))

    def close(self) -> None:
        self._stream.close()

    def _wait_for_row(self, row: bytes) -> None:
        """Read the stream until it has a row. The stream sends a heartbeat while nothing changes."""
        received, end = b"", time.perf_counter() + MAX_SECONDS
        while row not in received:
            chunk = self._stream.recv(65536)
            is_open = chunk and b"event: reload" not in chunk and time.perf_counter() < end
            assert is_open, f"the stream ended, or had no {row!r} after {MAX_SECONDS} s: {received[-500:]!r}"
            received += chunk

    def _post_event(self, number: int, step: bytes) -> None:
        """Post an event of a call that happens now."""
        at = clock.utc_text().encode()
        body = (
            b'{"id":"uk003.%08x%05x3.%08d","event_time":"%b","event_name":%b,"call_id":%d,"connected_at":null,'
            b'"start_time":"%b","context":"LOCAL_USER","destination":"in","duration":0,"src":"447700900%03d",'
            b'"src_id":"0","src_name":"Test Caller","dst":"442079460002","dst_id":"10002",'
            b'"dst_name":"Ann Example","terminated_by":null}'
        ) % (int(clock.unix()), len(step), number, at, step, FIRST_CALL + number, at, number % 1000)
        status, _, _ = self._client.send("POST", self._path, body, {"Content-Type": "application/json"})
        assert status == 200, status


def measure(options: Options) -> list[Figure]:
    """Measure the delays of each phase."""
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    phases = {name: Delays() for name in ("storing", "assembling", "at rest")}
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        mirror = Path(folder) / "data" / "mirror.db"
        peer = Process([sys.executable, "-m", "tests.trials.tools.peer", "--cdrs", str(rows)])
        product = None
        try:
            url = f"http://127.0.0.1:{peer.line('port ', 240)}/v1.2"
            product = Product(Path(folder) / "data", base_url=url, recordings__download="false")
            office = Office(product)
            wait_for(lambda: query_number(mirror, "SELECT count(*) FROM cdrs") > 0, "the first CDRs", 120)
            phase, checked_at, left = "storing", 0.0, CALLS_AT_REST
            while left:
                office.work(phases[phase])
                if phase == "at rest":
                    left -= 1
                elif time.perf_counter() - checked_at > 1:
                    phase, checked_at = find_phase(mirror, rows), time.perf_counter()
            office.close()
        finally:
            if product is not None:
                product.stop()
            peer.stop()
    figures = []
    for name, delays in phases.items():
        is_busy = name != "at rest"
        for what, values, goal in (
            ("webhook to changed row", delays.rows, 1000),
            ("page", delays.pages, 300),
        ):
            if values:
                figures += [
                    Figure(f"{name}: {what}, p50", "ms", [1000 * get_share(values, 0.5)], size=rows),
                    Figure(
                        f"{name}: {what}, p99",
                        "ms",
                        [1000 * get_share(values, 0.99)],
                        goals=(Goal(goal),) if is_busy else (),
                        size=rows,
                    ),
                ]
    return figures


def find_phase(mirror: Path, rows: int) -> str:
    """Return the present phase of the initial sync."""
    if query_number(mirror, f"SELECT count(*) FROM cdrs WHERE live_id < {FIRST_CALL}") < rows:
        return "storing"
    pending = (
        "SELECT EXISTS (SELECT 1 FROM _due WHERE derived = 'legs')"
        " OR EXISTS (SELECT 1 FROM _due WHERE derived = 'search' AND low < high)"
    )
    return "assembling" if query_number(mirror, pending) else "at rest"


BENCHMARK = Benchmark(
    title="Live calls and pages during an initial sync",
    measure=measure,
    minutes=4,
    rows=(200_000,),
    remarks=(
        "While the product stores the CDRs of the platform, assembles their calls and indexes them, a client "
        "posts the events of new calls, waits until an open live stream shows each, and requests pages. "
        "Afterwards the same client measures the product at rest."
    ),
)
