"""Queries on the databases of a running product."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.trials.tools.databases import query_number

SQL = "SELECT count(*) FROM inbox WHERE status = 'failed'"


def test_a_failed_query_is_not_0(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        query_number(path, SQL)
    assert query_number(path, SQL, can_be_absent=True) == 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (id INTEGER)")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        query_number(path, SQL)
    assert query_number(path, SQL, can_be_absent=True) == 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE inbox (state TEXT)")
    for can_be_absent in (False, True):
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            query_number(path, SQL, can_be_absent=can_be_absent)
