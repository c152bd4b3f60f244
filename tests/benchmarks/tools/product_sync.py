"""The product's initial sync in stages: rows, calls, search index.

`python -m tests.benchmarks.tools.product_sync URL FOLDER` runs what `switchroom sync` and the jobs of
`switchroom serve` run. It prints the seconds and CPU seconds from the start of the process to the end of each
stage as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from integration import factory
from integration.core.process_memory import exempt_loaded_objects
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.derived.search_index import SEARCH
from integration.settings.model import load
from integration.sync.plan import PLAN
from integration.sync.reading import call_assembly, full_sync
from tests.support.harness import make_environment


def main(url: str, folder: Path) -> None:
    environment = make_environment(folder, url, sync__max_requests_per_minute="1000000")
    product = factory.Product(load(Path(os.devnull), environment))
    exempt_loaded_objects()
    seconds: dict[str, float] = {}

    def end_stage(name: str) -> None:
        seconds[name], seconds[f"{name}, CPU"] = _seconds_since_start(), time.process_time()

    full_sync.run_full_sync(product.context, PLAN["cdrs"])
    end_stage("rows")
    call_assembly.assemble_pending(product.context)
    end_stage("calls")
    rebuild_due(product.context.mirror_db, product.context.rules, (SEARCH,))
    end_stage("searchable")
    product.stop()
    print(json.dumps(seconds))


def _seconds_since_start() -> float:
    """Return the seconds since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
