"""Queries on a JSON array of records without a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from integration.core import clock
from integration.core.ids import as_id
from integration.core.json_records import JsonRecord
from integration.mirror.query.functions import register
from integration.mirror.query.query import Query


def fetch_page(query: Query, records: Sequence[JsonRecord], seconds: float) -> tuple[list[bytes], int]:
    """Return the texts of a page, and the number of matches.

    A table in memory receives the records, so that filter, sort and groups work as in a collection. Records
    with ids are in their order, others in the given order. Without records any property is accepted. Raises
    QueryError, and sqlite3.OperationalError 'interrupted' after `seconds` of CPU time.
    """
    if not records:
        return [], 0
    if all(as_id(record.values.get("id")) is not None for record in records):
        records = sorted(records, key=lambda record: as_id(record.values["id"]) or 0)
    limit = clock.thread_cpu() + seconds
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        register(connection)
        connection.execute(
            f'CREATE TABLE "{query.resource.table}"'
            " (_n INTEGER PRIMARY KEY, _doc TEXT NOT NULL, _missing_since TEXT)"
        )
        connection.executemany(
            f'INSERT INTO "{query.resource.table}" (_n, _doc) VALUES (?, ?)',
            enumerate((record.text for record in records), 1),
        )
        connection.set_progress_handler(lambda: int(clock.thread_cpu() > limit), 10_000)
        return query.fetch_texts(connection), query.count_matches(connection)
