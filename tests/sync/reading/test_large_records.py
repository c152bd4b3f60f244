"""Memory of the worker while the platform sends records of many megabytes."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from integration.sync.plan import PLAN
from tests.support.application import BASE_PATH
from tests.support.fake_exchange import NOT_FOUND, add_account
from tests.support.harness import Product, wait_for
from tests.support.scripted_server import Request, Server
from tests.trials.tools.processes import read_peak_memory

COLLECTIONS = sorted(
    name for name, policy in PLAN.items() if policy.kind in ("settings", "grows") and "/" not in name
)[:14]
RECORD_COUNT = 5
LARGE_TEXT_BYTES = 10 * 1000 * 1000
MAX_GROWTH = 140.0
"""MB by which large records may raise the highest memory of the worker.

Each of eight reads holds up to 8 MB while it waits, and one holds its entire body. Measured: 107 to 137 MB.
"""


class LargePlatform:
    """Lists of five records, the last of them with a large text.

    Several requests of lists are answered at once, so that the worker reads their bodies beside each other.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._together = threading.Barrier(3)
        self.server = Server(base=BASE_PATH)
        add_account(self.server)
        self.server.routes["*"] = self._respond

    def _respond(self, request: Request, reply: Any) -> None:
        name = request.path.strip("/")
        if name not in COLLECTIONS:
            reply.json(NOT_FOUND, 404)
            return
        query = {key: values[-1] for key, values in request.query.items()}
        ids = sorted(range(1, RECORD_COUNT + 1), reverse=query.get("dir") == "DESC")
        for entry in json.loads(query.get("filter", "[]")):
            if entry["property"] == "id":
                ids = [one for one in ids if (one > entry["value"]) == (entry["operator"] == "gt")]
        ids = ids[: int(query.get("limit", 5000))]
        # Half of the collections need the exact parser, because of the surrogates in their text.
        sign = "\\ud83d\\ude00" if COLLECTIONS.index(name) % 2 else "x"
        texts = [
            f'{{"id": {one}, "name": "{sign * (self._size // len(sign) if one == RECORD_COUNT else 1)}"}}'
            for one in ids
        ]
        body = f'{{"data": [{",".join(texts)}], "total": {len(texts)}}}'.encode()
        try:
            self._together.wait(0.3)
        except threading.BrokenBarrierError:
            self._together.reset()
        reply.content(body, "application/json")


def measure_sync(data_dir: Path, size: int) -> tuple[float, dict[str, str | None]]:
    """Sync all collections. Returns the highest memory of the worker in MB, and the errors."""
    platform = LargePlatform(size)
    product = Product(
        data_dir,
        base_url=platform.server.url + platform.server.base,
        api_key="a" * 40,
        sync__max_requests_per_minute="100000",
        platform__max_concurrency="8",
    )
    try:

        def read_errors() -> dict[str, str | None] | None:
            """Return the error of each collection, None before each was read. A large record is an error."""
            with closing(sqlite3.connect(data_dir / "mirror.db")) as connection:
                rows = connection.execute(
                    "SELECT collection, last_error FROM _walks WHERE complete_at > '' OR last_error > ''"
                )
                errors = {name: error for name, error in rows if name in COLLECTIONS}
            has_errors = size < LARGE_TEXT_BYTES or all(errors.values())
            return errors if len(errors) == len(COLLECTIONS) and has_errors else None

        errors = wait_for(read_errors, "a read of each collection", 240)
        return read_peak_memory(product.worker or 0), errors
    finally:
        product.stop()
        platform.server.close()


def test_large_records_are_named_and_bounded_in_memory(tmp_path: Path) -> None:
    usual_peak, usual_errors = measure_sync(tmp_path / "usual", 100)
    assert not any(usual_errors.values())
    peak, errors = measure_sync(tmp_path / "large", LARGE_TEXT_BYTES)
    for name in COLLECTIONS:
        assert f"/{name}: record {RECORD_COUNT}: it has 10," in (errors[name] or ""), name
    with closing(sqlite3.connect(tmp_path / "large" / "mirror.db")) as connection:
        for name in COLLECTIONS:
            ids = [row[0] for row in connection.execute(f'SELECT id FROM "{PLAN[name].resource.table}"')]
            assert sorted(map(int, ids)) == [1, 2, 3, 4], name
    assert peak - usual_peak <= MAX_GROWTH
