"""Minimal loop that copies all CDRs: requests, orjson, executemany.

No checks, no calls. `python -m tests.benchmarks.peers.bare_loop URL FOLDER`. The table has the columns and
indexes of the mirror's; the indexes are created after the rows.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import requests

from integration.catalogue import get_resource
from integration.mirror.schema import open_mirror

COLLECTION, LIMIT = "cdrs", 5000


def main(url: str, folder: Path) -> None:
    connection, indexes = _create_table(folder)
    fields = get_resource(COLLECTION).fields
    marks = ", ".join("?" * (len(fields) + 4))
    names = ", ".join(f'"{field.name}"' for field in fields)
    insert = f"INSERT INTO {COLLECTION} ({names}, _doc, _first_seen, _last_seen, _source) VALUES ({marks})"
    keys, session, last = [field.name for field in fields], requests.Session(), None
    while True:
        conditions = [] if last is None else [{"property": "id", "operator": "lt", "value": last}]
        parameters = {"filter": json.dumps(conditions), "sort": "id", "dir": "DESC", "limit": str(LIMIT)}
        response = session.get(f"{url}/{COLLECTION}", params=parameters, timeout=30)
        page = orjson.loads(response.content)
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        connection.execute("BEGIN")
        connection.executemany(
            insert,
            (
                (*[_cell(record.get(key)) for key in keys], orjson.dumps(record).decode(), now, now, "sync")
                for record in page["data"]
            ),
        )
        connection.execute("COMMIT")
        if len(page["data"]) >= page["total"]:
            break
        last = page["data"][-1]["id"]
    for sql in indexes:
        connection.execute(sql)
    connection.close()


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value


def _create_table(folder: Path) -> tuple[sqlite3.Connection, list[str]]:
    """Create an empty table like the mirror's.

    Returns the SQL of its indexes as well.
    """
    open_mirror(folder / "template.db").close()
    with closing(sqlite3.connect(folder / "template.db")) as template:
        found = template.execute(
            "SELECT type, sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL", (COLLECTION,)
        ).fetchall()
    connection = sqlite3.connect(folder / "mirror.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(next(sql for kind, sql in found if kind == "table"))
    return connection, [sql for kind, sql in found if kind == "index"]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
