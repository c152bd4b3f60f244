"""Benchmark of pages, filters and groups of many CDRs through the facade.

Each request is compared with a SELECT of the same records from the same file, in alternating runs. CPU time
of the thread is measured, which other processes affect little. Before each request the version of the
collection changes, so that no cached result is valid.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from flask import Flask

from integration.access import keys
from integration.access.authenticator import Authenticator
from integration.access.key_limits import KeyLimits
from integration.access.rights import RIGHTS
from integration.app_schema import open_app_db
from integration.context import EXTENSION, AppContext
from integration.facade.blueprint import make_blueprint
from integration.mirror.records import collection_versions
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from tests.benchmarks.exports import fill

ROUNDS = 9
PAGE = 5000
BASE = "/v1.2/voipstudio"


def measure(work: Callable[[], Any]) -> float:
    """Return the CPU milliseconds of `work`."""
    begun = time.thread_time()
    work()
    return (time.thread_time() - begun) * 1000


def condition(name: str, operator: str, value: Any) -> str:
    """Return a filter with one condition."""
    return json.dumps([{"property": name, "operator": operator, "value": value}])


def list_requests(rows: int) -> dict[str, tuple[str, str, float]]:
    """Return target, equivalent SQL and limit of each request, by name.

    A limit below 10 is a multiple of the SELECT's time; other limits are milliseconds.
    """
    first = 700000001
    since, until = condition("calldate", "gte", "2024-02-01"), condition("calldate", "lt", "2024-02-02")
    day = quote(f"{since[:-1]},{until[1:]}")
    last = rows // PAGE
    by_id = "SELECT _doc FROM cdrs WHERE id >= {} ORDER BY id LIMIT 5000"
    window = "SELECT _doc FROM cdrs WHERE calldate >= '2024-02-01' AND calldate < '2024-02-02' LIMIT 5000"
    return {
        "first page": ("/cdrs?limit=5000", by_id.format(first), 1.5),
        "page in the middle": (f"/cdrs?limit=5000&page={last // 2}",
                               by_id.format(first + rows // 2 - PAGE), 1.5),
        "last page": (f"/cdrs?limit=5000&page={last}", by_id.format(first + rows - PAGE), 1.5),
        "newest 25": ("/cdrs?limit=25&sort=id&dir=DESC",
                      "SELECT _doc FROM cdrs ORDER BY id DESC LIMIT 25", 20),
        "only the total": ("/cdrs?limit=1", "SELECT count(*) FROM cdrs", 20),
        "a day, indexed": (f"/cdrs?limit=5000&filter={day}", window, 20),
        "sorted by time": ("/cdrs?limit=100&sort=calldate&dir=DESC",
                           "SELECT _doc FROM cdrs ORDER BY calldate DESC LIMIT 100", 20),
        "a number, no index": (f"/cdrs?limit=100&filter={quote(condition('dst', 'eq', '447700900123'))}",
                               "SELECT _doc FROM cdrs WHERE dst = '447700900123' LIMIT 100", 300),
        "part of a number": (f"/cdrs?limit=100&filter={quote(condition('dst', 'like', '0012'))}",
                             "SELECT _doc FROM cdrs WHERE dst LIKE '%0012%' LIMIT 100", 300),
        "rare part of a number": (f"/cdrs?limit=100&filter={quote(condition('dst', 'like', '99999'))}",
                              "SELECT _doc FROM cdrs WHERE dst LIKE '%99999%' LIMIT 100", 300),
        "a letter, no index": (f"/cdrs?limit=100&filter={quote(condition('src_name', 'like', 'é'))}",
                               "SELECT _doc FROM cdrs WHERE src_name LIKE '%é%' LIMIT 100", 300),
        "sorted, no index": ("/cdrs?limit=100&sort=duration&dir=DESC",
                             "SELECT _doc FROM cdrs ORDER BY duration DESC LIMIT 100", 300),
        "grouped by number": ("/cdrs?limit=100&group_by=dst",
                              "SELECT _doc, max(calldate) FROM cdrs GROUP BY dst LIMIT 100", 2000),
    }  # fmt: skip


def main(rows: int) -> dict[str, float]:
    """Print the table. Returns the ratios to the SELECT by name."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        path = Path(folder) / "mirror.db"
        fill(path, rows)
        app, headers, close = open_facade(Path(folder))
        mirror = app.extensions[EXTENSION].mirror_db

        def invalidate_caches() -> None:
            mirror.write(lambda tx: collection_versions.record_insert(tx, "cdrs", [2**60]))

        client = app.test_client()
        print(f"Facade over {rows} CDRs, best of {ROUNDS} alternating runs, CPU milliseconds")
        print(f"  {'':21} {'SELECT':>8} {'facade':>8} {'first':>8} {'ratio':>6}  limit")
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as bare:
            bare.execute("PRAGMA mmap_size=1073741824")
            for name, (target, sql, limit) in list_requests(rows).items():
                first = measure(lambda target=target: check(client.get(BASE + target, headers=headers)))
                pairs = [
                    (
                        invalidate_caches(),
                        measure(lambda sql=sql: b",".join(str(row[0]).encode() for row in bare.execute(sql))),
                        measure(lambda target=target: check(client.get(BASE + target, headers=headers))),
                    )
                    for _ in range(ROUNDS)
                ]
                select_time, facade_time = (min(pair[column] for pair in pairs) for column in (1, 2))
                ratio = found[name] = facade_time / select_time
                limit_text = f"{limit:g} ×" if limit < 10 else f"{limit:g} ms"
                missed = "  MISSED" if (ratio if limit < 10 else facade_time) > limit else ""
                figures = f"{select_time:8.1f} {facade_time:8.1f} {first:8.1f} {ratio:6.2f}"
                print(f"  {name:21} {figures}  {limit_text}{missed}")
        close()
    return found


def check(response: Any) -> None:
    """Check status and completeness of a response."""
    assert response.status_code == 200, response.data[:200]
    assert response.headers["X-Mirror-Complete"] == "true"


def open_facade(data_dir: Path) -> tuple[Flask, dict[str, str], Callable[[], None]]:
    """Open the facade on `mirror.db`, without the rest of the product.

    Returns the application, the header of a key, and a function that closes the databases.
    """
    settings = Settings.model_validate(
        {
            "platform": {"base_url": f"http://127.0.0.1:9{BASE}", "user_id": "1", "api_key": "0" * 40},
            "storage": {"data_dir": data_dir},
        }
    )
    mirror, app_db = open_mirror(data_dir / "mirror.db"), open_app_db(data_dir / "house.db")
    mirror.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", None, None))
    platform = Platform(settings.platform)
    authenticator = Authenticator(settings, mirror, app_db, platform)
    context = SimpleNamespace(
        settings=settings, mirror_db=mirror, app_db=app_db, platform=platform, authenticator=authenticator
    )
    app = Flask(__name__)
    app.extensions[EXTENSION] = context
    app.register_blueprint(make_blueprint(cast(AppContext, context)))
    _, secret = keys.add(app_db, "benchmark", "read", limits=KeyLimits(rights=frozenset(RIGHTS)))

    def close() -> None:
        platform.close()
        mirror.close()
        app_db.close()

    return app, {"X-Auth-Token": secret}, close
