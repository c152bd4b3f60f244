"""Full sync by dlt into SQLite, as a contender of ../full_sync.py.

`PYTHON tests/benchmarks/peers/dlt_sync.py URL FOLDER`, where PYTHON has `dlt[sqlalchemy]`. The product is not
imported, because that Python does not have it. dlt has its default settings, except that telemetry is off and
only errors are logged.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
os.environ["RUNTIME__LOG_LEVEL"] = "ERROR"

import dlt  # type: ignore[import-not-found]
from dlt.destinations import sqlalchemy  # type: ignore[import-not-found]
from dlt.sources.helpers import requests  # type: ignore[import-not-found]


def main(url: str, folder: str) -> None:
    @dlt.resource(name="cdrs", primary_key="id", write_disposition="append")  # type: ignore[misc]
    def cdrs() -> Iterator[list[dict[str, Any]]]:
        last: int | None = None
        while True:
            conditions = [] if last is None else [{"property": "id", "operator": "lt", "value": last}]
            parameters = {"filter": json.dumps(conditions), "sort": "id", "dir": "DESC", "limit": "5000"}
            page = requests.get(f"{url}/cdrs", params=parameters).json()
            yield page["data"]
            if len(page["data"]) >= page["total"]:
                return
            last = page["data"][-1]["id"]

    pipeline = dlt.pipeline(
        "full_sync",
        pipelines_dir=f"{folder}/dlt",
        destination=sqlalchemy(f"sqlite:///{folder}/dlt.db"),
        dataset_name="main",
    )
    pipeline.run(cdrs())


if __name__ == "__main__":
    main(*sys.argv[1:])
