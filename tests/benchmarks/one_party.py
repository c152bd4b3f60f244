"""Benchmark of a webhook's CPU time after a day of calls of one party at one ring group.

All legs of the day are candidates for one call, because the platform does not name their root. CPU seconds of
the worker are counted from the first webhook of an hour until all of them are applied.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import PRODUCT, Benchmark, Figure, Goal, Options, make_figure
from tests.benchmarks.tools.processes import read_cpu, read_family
from tests.support.harness import Product, wait_for
from tests.trials.tools import databases

HOURS, SMALL_HOURS = 24, 4
CALL_SECONDS = 40
"""Seconds between two calls, of which each ends before the next begins."""
PHONES = 3
STEPS = (
    *((phone, 0, "call.ringing", "RINGING") for phone in range(PHONES)),
    (0, 5, "call.connected", "CONNECTED"),
    *((phone, 5, "call.missed", "HANGUP") for phone in range(1, PHONES)),
    (0, 30, "call.hangup", "HANGUP"),
)
"""Phone, seconds after the start of the call, event and state of each webhook of a call."""
CALLS = 3600 // CALL_SECONDS
WEBHOOKS = CALLS * len(STEPS)
"""Webhooks of an hour."""
FIRST_HOUR = "the first hour"
DAYS, SMALL_DAYS = 3, 1
WARM_UP = 2
"""Hours of another party before the first day."""


def make_body(number: int, day: int, begin: datetime) -> bytes:
    """Return webhook `number` of a day.

    Each day has a party of its own.
    """
    call, step = divmod(number, len(STEPS))
    phone, after, name, state = STEPS[step]
    started = begin + timedelta(seconds=call * CALL_SECONDS)
    at = f"{started + timedelta(seconds=after):%Y-%m-%d %H:%M:%S}"
    event = {
        "id": f"uk003.6a97e2434{day:02}.{number:08}",
        "event_time": at,
        "event_name": name,
        "call_id": 4_278_000_000 + (day * 100_000 + call) * PHONES + phone,
        "state": state,
        "connected_at": at if state == "CONNECTED" or (phone == 0 and state == "HANGUP") else None,
        "start_time": f"{started:%Y-%m-%d %H:%M:%S}",
        "context": "RG-80001",
        "destination": "in",
        "src": f"447700900{100 + day}",
        "src_id": "0",
        "dst": "442079460002",
        "dst_id": str(10_002 + phone),
    }
    return json.dumps({**event, "final": False} if name == "call.missed" else event).encode()


def measure(options: Options) -> list[Figure]:
    hours = SMALL_HOURS if options.is_small else HOURS
    found: dict[str, list[float]] = {PRODUCT: [], FIRST_HOUR: []}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="switchroom-bench-"))
        data_dir = Path(folder) / "data"
        product = Product(data_dir)
        stack.callback(product.stop)
        for day in range(1 + (SMALL_DAYS if options.is_small else DAYS)):
            last = WARM_UP if day == 0 else hours
            begin = datetime.now(UTC) - timedelta(hours=hours + 1)
            spent = [_run_hour(product, day, begin, hour) for hour in range(last)]
            if day:
                found[PRODUCT].append(spent[-1])
                found[FIRST_HOUR].append(spent[0])
    return [
        make_figure(
            f"CPU of a webhook in hour {hours} of one party at one ring group",
            "ms",
            found,
            goals=(Goal(1.2, FIRST_HOUR),),
        )
    ]


def _run_hour(product: Product, day: int, begin: datetime, hour: int) -> float:
    """Send the webhooks of an hour. Returns CPU milliseconds per webhook."""
    worker = read_family(product.pid)[-1]
    before = read_cpu(worker)
    load.run(
        product.port,
        product.webhook_path,
        requests=WEBHOOKS,
        connections=4,
        first=hour * WEBHOOKS,
        make_body=lambda number: make_body(number, day, begin),
    )
    wait_for(lambda: not databases.count_unapplied(product.data_dir), "all webhooks applied", 300)
    return (read_cpu(worker) - before) / WEBHOOKS * 1000


BENCHMARK = Benchmark(
    title="CPU of a webhook after a day of one party at one ring group",
    measure=measure,
    bounds={"CPU of a webhook in hour 4 of one party at one ring group": Goal(2, FIRST_HOUR)},
)
