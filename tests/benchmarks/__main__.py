"""Benchmarks, each beside a peer or a bare loop in the same run: `python -m tests.benchmarks [NAME …]`.

webhooks   durable webhooks per second and their latency
"""

from __future__ import annotations

import argparse

from tests.benchmarks import webhooks

parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
parser.add_argument("names", nargs="*", choices=["webhooks", []], default=["webhooks"])
parser.add_argument("--requests", type=int, default=20_000)
options = parser.parse_args()
for _name in options.names:
    webhooks.main(options.requests)
