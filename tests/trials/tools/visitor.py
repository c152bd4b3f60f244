"""Program that opens and closes the databases of the product, for reading and for writing, until it is ended.

`python -m tests.trials.tools.visitor DATA_DIR`. It prints the number of visits after each hundred.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing, suppress
from itertools import count, product
from pathlib import Path

from tests.trials.tools.databases import DATABASES

REST_SECONDS = 0.02
"""Seconds between two visits."""


def visit(path: Path, mode: str) -> None:
    """Open and close a database; with the mode `rw` also take its write lock."""
    with closing(sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if mode == "rw":
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")


def main(data_dir: Path) -> None:
    visits, rest = count(1), threading.Event()
    while True:
        for name, mode in product(DATABASES, ("ro", "rw")):
            # The product or a trial may hold a lock, or have removed the file.
            with suppress(sqlite3.OperationalError):
                visit(data_dir / name, mode)
                if (number := next(visits)) % 100 == 0:
                    print("visits", number, flush=True)
            rest.wait(REST_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
