"""Due subresources: recent records are read more often than old ones."""

from __future__ import annotations

import json

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.records import subresources
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror

CDRS = get_resource("cdrs")
SINCE, OLD, OLDEST = "2026-10-16 00:00:00", "2026-10-20 00:00:00", "2026-11-19 00:00:00"


@pytest.fixture
def due(tmp_path):
    mirror = open_mirror(tmp_path / "mirror.db")
    dates = {1: "2026-01-01 10:00:00", 2: "2026-11-01 10:00:00", 3: "2026-11-19 10:00:00", 4: None}
    records = [{"id": key, "nb_notes": 1, "calldate": date} for key, date in dates.items()]
    records.append({"id": 5, "nb_notes": 0, "calldate": "2026-11-19 10:00:00"})
    documents = [JsonRecord(json.dumps(record), record) for record in records]
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", requested_at=OLD))

    def due(**read):
        for key, at in read.items():
            mirror.write(
                lambda tx, key=int(key[1:]), at=at: subresources.store(tx, "cdrs", key, "notes", "[]", at)
            )
        with mirror.read() as connection:
            return subresources.due(
                connection, "cdrs", "notes", "nb_notes", OLDEST, old_read_before=OLD, old_date_limit=SINCE
            )

    yield due
    mirror.close()


def test_records_never_read_come_first_and_newest_records_before_older_ones(due):
    assert due() == [4, 3, 2, 1]
    assert due(k3="2026-11-18 00:00:00") == [4, 2, 1, 3]


def test_old_records_are_due_less_often(due):
    yesterday = "2026-11-18 23:00:00"
    assert due(k1=yesterday, k2=yesterday, k3=OLDEST, k4=OLDEST) == [2]
    assert due(k1="2026-10-19 00:00:00", k2=OLDEST) == [1]


def test_records_with_subresources_are_found_by_an_index(tmp_path):
    mirror, statements = open_mirror(tmp_path / "mirror.db"), []
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        subresources.due(
            connection, "cdrs", "notes", "nb_notes", OLDEST, old_read_before=OLD, old_date_limit=SINCE
        )
        connection.set_trace_callback(None)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]
    mirror.close()
    assert "SCAN r USING INDEX cdrs_noted" in plan
