"""Pages, filters and groups of many CDRs through the facade, beside a bare SELECT of the same stored records
on the same file, in turns in the same minute; in time of this thread, so that neighbours count for little.
Each time a record has come since: what the facade found before holds no longer."""

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


def timed(work: Callable[[], Any]) -> float:
    begun = time.thread_time()
    work()
    return (time.thread_time() - begun) * 1000


def condition(name: str, operator: str, value: Any) -> str:
    return json.dumps([{"property": name, "operator": operator, "value": value}])


def questions(rows: int) -> dict[str, tuple[str, str, float]]:
    """By name: what is asked of the facade, the bare SQL for the same page, and the most it may take: times
    the bare SELECT, or milliseconds from 10 on."""
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
        "a rare part of it": (f"/cdrs?limit=100&filter={quote(condition('dst', 'like', '99999'))}",
                              "SELECT _doc FROM cdrs WHERE dst LIKE '%99999%' LIMIT 100", 300),
        "a letter, no index": (f"/cdrs?limit=100&filter={quote(condition('src_name', 'like', 'é'))}",
                               "SELECT _doc FROM cdrs WHERE src_name LIKE '%é%' LIMIT 100", 300),
        "sorted, no index": ("/cdrs?limit=100&sort=duration&dir=DESC",
                             "SELECT _doc FROM cdrs ORDER BY duration DESC LIMIT 100", 300),
        "grouped by number": ("/cdrs?limit=100&group_by=dst",
                              "SELECT _doc, max(calldate) FROM cdrs GROUP BY dst LIMIT 100", 2000),
    }  # fmt: skip


def main(rows: int) -> dict[str, float]:
    """Prints the table; returns the ratios to the bare SELECT by name."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        path = Path(folder) / "mirror.db"
        fill(path, rows)
        app, headers, close = serve(Path(folder))
        mirror = app.extensions[EXTENSION].mirror_db

        def grow() -> None:
            mirror.write(lambda tx: collection_versions.record_insert(tx, "cdrs", [2**60]))

        client = app.test_client()
        print(f"Facade over {rows} CDRs, best of {ROUNDS} in turns, milliseconds")
        print(f"  {'':20} {'bare':>8} {'facade':>8} {'first':>8} {'ratio':>6}  most")
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as bare:
            bare.execute("PRAGMA mmap_size=1073741824")
            for name, (target, sql, most) in questions(rows).items():
                begin = timed(lambda target=target: check(client.get(BASE + target, headers=headers)))
                pairs = [
                    (
                        timed(lambda sql=sql: b",".join(str(row[0]).encode() for row in bare.execute(sql))),
                        timed(lambda target=target: check(client.get(BASE + target, headers=headers))),
                        grow(),
                    )
                    for _ in range(ROUNDS)
                ]
                theirs, ours = (min(pair[place] for pair in pairs) for place in (0, 1))
                found[name] = ours / theirs
                limit = f"{most:g} ×" if most < 10 else f"{most:g} ms"
                missed = "  MISSED" if (ours / theirs if most < 10 else ours) > most else ""
                figures = f"{theirs:8.1f} {ours:8.1f} {begin:8.1f} {ours / theirs:6.2f}"
                print(f"  {name:20} {figures}  {limit}{missed}")
        close()
    return found


def check(answer: Any) -> None:
    assert answer.status_code == 200, answer.data[:200]
    assert answer.headers["X-Mirror-Complete"] == "true"


def serve(data_dir: Path) -> tuple[Flask, dict[str, str], Callable[[], None]]:
    """The facade on `mirror.db` in `data_dir`, without the rest of the product."""
    settings = Settings.model_validate(
        {
            "platform": {"base_url": f"http://127.0.0.1:9{BASE}", "user_id": "1", "api_key": "0" * 40},
            "storage": {"data_dir": data_dir},
        }
    )
    mirror, people = open_mirror(data_dir / "mirror.db"), open_app_db(data_dir / "house.db")
    mirror.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", None, None))
    platform = Platform(settings.platform)
    authenticator = Authenticator(settings, mirror, people, platform)
    parts = SimpleNamespace(
        settings=settings, mirror_db=mirror, app_db=people, platform=platform, authenticator=authenticator
    )
    app = Flask(__name__)
    app.extensions[EXTENSION] = parts
    app.register_blueprint(make_blueprint(cast(AppContext, parts)))
    _, secret = keys.add(people, "benchmark", "read", None, None)

    def close() -> None:
        platform.close()
        mirror.close()
        people.close()

    return app, {"X-Auth-Token": secret}, close
