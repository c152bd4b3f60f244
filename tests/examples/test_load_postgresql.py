"""examples/load_postgresql.py with the server of Debian."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration.mirror.records import change_log
from tests.examples.office import SECOND_CALLER, erase_caller, label_call, merge_calls, open_office
from tests.examples.reader import Reader
from tests.support.application import running_app
from tests.support.page_environment import read_section
from tests.support.payloads.call_facts import CAT
from tests.support.postgresql import running_postgresql

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def database() -> Iterator[str]:
    with running_postgresql() as url:
        yield url


def query(database: str, sql: str) -> list[tuple[Any, ...]]:
    # Imported here: in the extra `examples`, which the suite does not install.
    import psycopg2

    with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def find_number(database: str) -> list[str]:
    """Return the tables that contain the number of the second caller."""
    tables = query(
        database,
        "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables"
        " WHERE table_schema LIKE 'phone%' AND table_type = 'BASE TABLE'",
    )
    return [name for (name,) in tables if SECOND_CALLER in str(query(database, f"SELECT * FROM {name}"))]


def test_accounts_share_tables_and_changes_replace_their_rows(database: str, tmp_path: Path) -> None:
    with running_app(tmp_path / "data") as app:
        mirror = open_office(app)
        app.put("ddis", {"id": "442079460002", "e164": "442079460002", "name": "Sales"})
        reader = Reader("examples/load_postgresql.py", app, tmp_path)

        def load(account: str) -> None:
            done = reader.run(ACCOUNT=account, POSTGRES=database)
            assert done.returncode == 0, done.stderr

        load("london")
        load("paris")
        assert find_number(database)
        calls = "SELECT account, id, party_e164, labels FROM phone.calls ORDER BY account, id"
        rows = query(database, calls)
        assert [row[:2] for row in rows] == [
            (account, number) for account in ("london", "paris") for number in (101, 102, 103, 104)
        ]
        assert rows[2] == ("london", 103, f"+{SECOND_CALLER}", [])

        label_call(app, 101)
        merge_calls(mirror)
        erase_caller(app, SECOND_CALLER)
        app.mirror_db.write(lambda tx: tx.execute(f"DELETE FROM users WHERE id = {CAT}"))
        app.mirror_db.write(lambda tx: tx.execute("DELETE FROM ddis"))
        load("london")
        rows = query(database, calls)
        assert [row[:2] for row in rows] == [
            *(("london", number) for number in (101, 104)),
            *(("paris", number) for number in (101, 102, 103, 104)),
        ]
        assert rows[0][3] == ["Complaint"]
        counts = "SELECT account, count(*) FROM phone.{} GROUP BY account ORDER BY account"
        assert query(database, counts.format("users")) == [("london", 2), ("paris", 3)]
        assert query(database, counts.format("ddis")) == [("paris", 1)]
        with ThreadPoolExecutor() as executor:
            assert list(executor.map(load, ("london", "paris"))) == [None, None]
        assert [row[:2] for row in query(database, calls)] == [
            (account, number) for account in ("london", "paris") for number in (101, 104)
        ]
        assert find_number(database) == []
        # After a restore the ids of earlier changes, and of calls merged since the backup, are not known.
        query(database, "UPDATE phone.calls SET id = 999 WHERE account = 'london' AND id = 104 RETURNING id")
        app.mirror_db.write(lambda tx: change_log.renew_epoch(tx.connection))
        load("london")
        assert [row[:2] for row in query(database, calls)][:2] == [("london", 101), ("london", 104)]
        (started_at, started_local), *_ = query(
            database, "SELECT started_at AT TIME ZONE 'UTC', started_local FROM phone.calls WHERE id = 101"
        )
        assert (str(started_at), str(started_local)) == ("2026-09-02 08:45:55", "2026-09-02 09:45:55")
        (sql,) = re.findall(r"```sql\n(.*?)```", read_section("docs/recipes.md#load-postgresql"), re.DOTALL)
        assert query(database, sql.replace("2026-10-01", "2026-09-01"))[0][1:] == ("london", 2, 0)
