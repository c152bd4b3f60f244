"""Promoted fields: columns for undocumented fields, filled from stored records."""

from __future__ import annotations

import dataclasses
import json
import threading
from types import SimpleNamespace

import pytest

from integration.app_schema import open_app_db
from integration.catalogue import get_resource
from integration.catalogue.shapes import Field
from integration.core.errors import QueryError, StorageFull
from integration.core.json_records import JsonRecord, read_page
from integration.exports.formats import csv
from integration.exports.selection import select
from integration.mirror import schema
from integration.mirror.query import query
from integration.mirror.query.filter_sql import SqlBuilder
from integration.mirror.records import promoted_fields
from integration.mirror.records.upsert import replace_all, upsert
from integration.mirror.schema import open_mirror
from integration.workspace import promotion_requests as requested_fields
from tests.support.application import running_app
from tests.support.harness import wait_for

CDRS, TRACKED = get_resource("cdrs"), get_resource("calltracking/cdrs")
AT = "2026-11-02 09:15:00"
MOOD = {"collection": "cdrs", "field": "mood"}


@pytest.fixture
def mirror(tmp_path):
    mirror = open_mirror(tmp_path / "mirror.db")
    yield mirror
    mirror.close()


def store(mirror, *records, of=CDRS):
    documents = [JsonRecord(json.dumps(record), record) for record in records]
    write = upsert if of.key else replace_all
    mirror.write(lambda tx: write(tx, of, documents, source="sync", requested_at=AT))


def promote(mirror, name="mood", of=CDRS):
    promoted_fields.promote(mirror, of, name)


def ids(mirror, *conditions, **args):
    names = ("property", "operator", "value")
    text = json.dumps([dict(zip(names, condition, strict=True)) for condition in conditions])
    with mirror.read() as connection:
        rows = query.parse(CDRS, {"filter": text, **args}).fetch_rows(connection)
    return [row["id"] for row in rows]


def column(mirror, name="mood", table="cdrs"):
    with mirror.read() as connection:
        return [row[0] for row in connection.execute(f'SELECT "{name}" FROM "{table}" ORDER BY 1')]


def test_the_column_is_filled_for_stored_and_later_records(mirror):
    store(mirror, {"id": 1, "mood": "dull"}, {"id": 2}, {"id": 3, "mood": None})
    promote(mirror)
    store(mirror, {"id": 4, "mood": "fine"}, {"id": 2, "mood": "better"})
    assert column(mirror) == [None, "better", "dull", "fine"]


def test_values_keep_their_types(mirror):
    promote(mirror)
    for number, value in enumerate(["+442079460001", "007", 7, 1.5, True, {"a": [1]}]):
        store(mirror, {"id": number, "mood": value})
    values = {"+442079460001", "007", 7, 1.5, 1, '{"a":[1]}'}
    assert set(column(mirror)) == values
    promoted_fields.demote(mirror, CDRS, "mood")
    promote(mirror)
    assert set(column(mirror)) == values


def test_the_column_is_filled_from_a_record_that_contains_nan(mirror):
    promote(mirror)
    (document,) = read_page(b'{"data":[{"id":1,"rate":NaN,"mood":"odd"}],"total":1}').records
    mirror.write(lambda tx: upsert(tx, CDRS, [document], source="sync", requested_at=AT))
    assert column(mirror) == ["odd"]


def test_a_large_table_is_filled_in_batches_between_which_other_jobs_write(mirror, monkeypatch):
    monkeypatch.setattr(promoted_fields, "BATCH_SIZE", 3)
    store(mirror, *({"id": number, "mood": f"m{number}"} for number in range(-4, 6)))
    reports = []

    def report(done, total):
        reports.append((done, total))
        assert ids(mirror, ("mood", "eq", "m4")) == [4], "the column is empty, so the JSON is searched"
        store(mirror, {"id": 100 + done, "mood": "new"}, {"id": 5, "mood": "changed"})

    promoted_fields.promote(mirror, CDRS, "mood", report)
    assert reports == [(3, 10), (6, 10), (9, 10), (10, 10)]
    with mirror.read() as connection:
        rows = connection.execute("SELECT mood, json_extract(_doc, '$.mood') FROM cdrs").fetchall()
    assert len(rows) == 14
    assert all(row[0] == row[1] for row in rows)


def test_an_interrupted_promotion_is_completed_by_the_next_start(mirror, monkeypatch):
    monkeypatch.setattr(promoted_fields, "BATCH_SIZE", 2)
    store(mirror, *({"id": number, "mood": "dull"} for number in range(5)))

    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        promoted_fields.promote(mirror, CDRS, "mood", stop)
    promoted_fields.apply_requested_columns(mirror, CDRS, {"mood"})
    assert column(mirror) == ["dull"] * 5


def test_a_promotion_that_stops_with_the_product_is_completed_later(mirror, monkeypatch):
    monkeypatch.setattr(promoted_fields, "BATCH_SIZE", 2)
    store(mirror, *({"id": number, "mood": "dull"} for number in range(5)))
    is_stopping = iter([False, True])
    promoted_fields.apply_requested_columns(mirror, CDRS, {"mood"}, lambda: next(is_stopping))
    assert column(mirror).count("dull") == 2
    with mirror.read() as connection:
        assert promoted_fields.list_ready_columns(connection, CDRS) == set()
    promoted_fields.apply_requested_columns(mirror, CDRS, {"mood"})
    assert column(mirror) == ["dull"] * 5


def test_start_and_stop_do_not_wait_for_a_running_promotion(tmp_path, monkeypatch):
    begun = threading.Event()

    def wait_for_stop(_app_db, _mirror_db, stopping):
        begun.set()
        wait_for(stopping, "the product to stop", 60)

    monkeypatch.setattr(requested_fields, "restore_columns", wait_for_stop)
    with running_app(tmp_path) as app:
        app.product.start()
        assert begun.wait(60)


def test_filters_sorts_and_exports_use_the_column_and_its_index(mirror):
    store(mirror, *({"id": number, "mood": f"m{number % 5}"} for number in range(1, 21)))
    promote(mirror)
    assert ids(mirror, ("mood", "eq", "m3")) == [3, 8, 13, 18]
    assert ids(mirror, ("mood", "gte", "m4"), sort="mood", dir="DESC") == [4, 9, 14, 19]
    with mirror.read() as connection:
        binder = SqlBuilder(CDRS, connection)
        sql = f"SELECT id FROM cdrs WHERE {binder.build_expression('mood', 'filter')} = 'm3'"
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", binder.values).fetchone()[3]
    assert "cdrs_promoted_mood" in plan
    lines = b"".join(csv.stream(mirror.read, select(CDRS, {"columns": "id,mood"}))).split()
    assert lines[:2] == [b'"id","mood"', b'1,"m1"']


def test_a_hidden_promoted_field_cannot_be_used_in_filters(mirror):
    store(mirror, {"id": 1, "mood": "dull"})
    promote(mirror)
    with mirror.read() as connection, pytest.raises(QueryError):
        SqlBuilder(CDRS, connection, frozenset({"mood"})).build_expression("mood", "filter")


def test_the_column_is_filled_for_records_without_keys(mirror):
    store(mirror, {"mood": "dull"}, of=TRACKED)
    promote(mirror, of=TRACKED)
    store(mirror, {"mood": "dull"}, {"mood": "fine"}, of=TRACKED)
    assert column(mirror, table=TRACKED.table) == ["dull", "fine"]


@pytest.mark.parametrize("name", ["id", "ID", "src", "_doc", "a b", 'a"b', "1st", "x" * 65, "", "mood"])
def test_an_invalid_or_existing_column_name_is_rejected(mirror, name):
    promote(mirror)
    with pytest.raises(QueryError):
        promote(mirror, name)


def test_a_demoted_field_is_found_by_its_json_and_can_be_promoted_once_more(mirror):
    store(mirror, {"id": 1, "mood": "dull"})
    promote(mirror)
    promoted_fields.demote(mirror, CDRS, "mood")
    assert ids(mirror, ("mood", "eq", "dull")) == [1]
    promote(mirror)
    assert column(mirror) == ["dull"]


def test_a_promoted_field_is_restored_after_a_restart_and_in_a_new_mirror(tmp_path, mirror):
    app_db = open_app_db(tmp_path / "house.db")
    requested_fields.promote(SimpleNamespace(app_db=app_db, mirror_db=mirror), MOOD, lambda **_: None)
    mirror.close()
    for name in ("mirror.db", "another.db"):
        reopened = open_mirror(tmp_path / name)
        requested_fields.restore_columns(app_db, reopened)
        store(reopened, {"id": 1, "mood": "dull"})
        assert column(reopened) == ["dull"]
        requested_fields.restore_columns(app_db, reopened)
        reopened.close()
    last = open_mirror(tmp_path / "another.db")
    requested_fields.demote(SimpleNamespace(app_db=app_db, mirror_db=last), MOOD, lambda **_: None)
    with last.read() as connection:
        assert promoted_fields.list_columns(connection, CDRS) == []
    with app_db.read() as connection:
        assert requested_fields.list_requested(connection) == {}
    last.close()
    app_db.close()


def test_a_demotion_that_failed_can_be_repeated(tmp_path, mirror, monkeypatch):
    app_db = open_app_db(tmp_path / "house.db")
    requested_fields.promote(SimpleNamespace(app_db=app_db, mirror_db=mirror), MOOD, lambda **_: None)
    context = SimpleNamespace(app_db=app_db, mirror_db=mirror)
    with monkeypatch.context() as full:
        full.setattr(mirror, "write", lambda _work: (_ for _ in ()).throw(StorageFull("the disk is full")))
        with pytest.raises(StorageFull):
            requested_fields.demote(context, MOOD, lambda **_: None)
    requested_fields.demote(context, MOOD, lambda **_: None)
    with mirror.read() as connection:
        assert promoted_fields.list_columns(connection, CDRS) == []
    app_db.close()


def test_a_promoted_field_that_becomes_documented_uses_the_column_of_the_table(tmp_path, mirror, monkeypatch):
    store(mirror, {"id": 1, "mood": "dull", "tone": "low"}, {"id": 2})
    promote(mirror)
    mirror.close()
    documented = dataclasses.replace(
        CDRS, fields=(*CDRS.fields, Field("mood", "string"), Field("tone", "string"))
    )
    monkeypatch.setattr(schema, "list_mirrored_resources", lambda: [documented])
    reopened = open_mirror(tmp_path / "mirror.db")
    assert column(reopened) == [None, "dull"]
    assert column(reopened, "tone") == [None, "low"]
    with reopened.read() as connection:
        assert promoted_fields.list_columns(connection, documented) == []
    reopened.close()
