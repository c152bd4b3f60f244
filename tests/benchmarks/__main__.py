"""Benchmarks: `python -m tests.benchmarks [NAME …]`.

Each compares the product with another program, or with a minimal loop, in the same run.

calls      calls of single-leg CDRs with and without the fast path: CPU time
exports    CSV and XLSX of all CDRs, compared with sqlite3 -csv and XlsxWriter: time, first byte, memory
facade     pages, filters and groups of all CDRs, compared with a SELECT: CPU time
pages      pages of the dashboard with a year of calls: CPU time
streams    time from a webhook to the changed row in 100 open dashboards
full_sync  full sync of all CDRs, compared with a minimal loop and dlt: rows per second, CPU time, memory
webhooks   durable webhooks per second, and their latency
"""

from __future__ import annotations

import argparse

from tests.benchmarks import calls, exports, facade, full_sync, pages, streams, webhooks

BENCHMARKS = {
    "calls": lambda options: calls.main(min(options.rows, 20_000)),
    "exports": lambda options: exports.main(options.rows),
    "facade": lambda options: facade.main(options.rows),
    "pages": lambda options: pages.main(options.calls),
    "streams": lambda options: streams.main(options.events),
    "full_sync": lambda options: full_sync.main(options.rows, options.dlt),
    "webhooks": lambda options: webhooks.main(options.requests),
}

parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
parser.add_argument("--requests", type=int, default=20_000, help="of webhooks")
parser.add_argument("--events", type=int, default=50, help="of streams")
parser.add_argument(
    "--rows", type=int, default=200_000, help="of exports, facade and full_sync; calls at most 20,000"
)
parser.add_argument("--dlt", metavar="PYTHON", help="of full_sync: a Python that has dlt[sqlalchemy]")
parser.add_argument("--calls", type=int, default=200_000, help="of pages")
options = parser.parse_args()
if unknown := set(options.names) - set(BENCHMARKS):
    parser.error(f"unknown benchmark {min(unknown)!r}; use one of {', '.join(BENCHMARKS)}")
for _name in options.names or BENCHMARKS:
    BENCHMARKS[_name](options)
