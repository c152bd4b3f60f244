"""Pages with the same bytes as before."""

from __future__ import annotations

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import read_page, read_record
from integration.mirror.records.upsert import upsert
from integration.sync.plan import PLAN
from integration.sync.reading import incremental_sync, known_pages
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import refresh_recent, run_incremental_sync
from tests.sync.reading.cdr_list import CdrList

CDRS, CONTACTS = PLAN["cdrs"], PLAN["contacts"]
NOW, LATER = "2026-09-02 12:00:00", "2026-09-02 12:01:00"
RECENT = "2026-09-02 11:30:00"
CONTACT_PAGE = b'{"data":[{"id":31,"first_name":"Ann"},{"id":32,"first_name":"Bob"}],"total":2}'


@pytest.fixture
def cdrs(app, movable_clock):
    """Three recent CDRs, which are stored."""
    movable_clock.freeze(NOW)
    listed = CdrList(app.platform)
    for number in (700000001, 700000002, 700000003):
        listed.add(number, RECENT)
    run_incremental_sync(app.context, CDRS)
    movable_clock.freeze(LATER)
    return listed


@pytest.fixture
def parsed(monkeypatch):
    """Bodies of the pages that are parsed."""
    bodies = []

    def parse(body):
        bodies.append(body)
        return read_page(body)

    monkeypatch.setattr(known_pages, "read_page", parse)
    return bodies


def query(app, sql):
    with app.mirror_db.read() as connection:
        return [tuple(row) for row in connection.execute(sql)]


def replace_text(app, number, source, old, new):
    """Store another text of a CDR."""
    ((text,),) = query(app, f"SELECT _doc FROM cdrs WHERE id = {number}")
    changed = read_record(text.replace(old, new))
    app.mirror_db.write(
        lambda tx: upsert(tx, get_resource("cdrs"), [changed], source=source, requested_at=NOW)
    )


def test_an_unchanged_page_is_not_parsed_and_its_rows_are_marked_as_seen(app, cdrs, parsed):
    run_incremental_sync(app.context, CDRS)
    assert parsed == []
    assert query(app, "SELECT id, _last_seen FROM cdrs ORDER BY id") == [
        (700000001, LATER),
        (700000002, LATER),
        (700000003, LATER),
    ]


@pytest.mark.parametrize("source", ["webhook", "write"])
def test_a_row_that_a_webhook_or_a_write_changed_gets_the_record_of_an_unchanged_page(app, cdrs, source):
    replace_text(app, 700000002, source, '"duration":18', '"duration":99')
    assert query(app, "SELECT duration FROM cdrs WHERE id = 700000002") == [(99,)]
    run_incremental_sync(app.context, CDRS)
    assert query(app, "SELECT id, duration FROM cdrs ORDER BY id") == [
        (700000001, 18),
        (700000002, 18),
        (700000003, 18),
    ]


@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM cdrs WHERE id = 700000001",
        "UPDATE cdrs SET _missing_since = _last_seen WHERE id < 700000003",
    ],
)
def test_rows_that_were_deleted_or_marked_as_missing_return_with_an_unchanged_page(app, cdrs, loss):
    app.mirror_db.write(lambda tx: tx.execute(loss))
    run_incremental_sync(app.context, CDRS)
    assert query(app, "SELECT id, _missing_since FROM cdrs ORDER BY id") == [
        (700000001, None),
        (700000002, None),
        (700000003, None),
    ]


def test_a_changed_record_is_stored(app, cdrs, parsed):
    cdrs.records[1]["duration"] = 20
    run_incremental_sync(app.context, CDRS)
    assert len(parsed) == 1
    assert query(app, "SELECT duration FROM cdrs ORDER BY id") == [(18,), (20,), (18,)]


@pytest.mark.parametrize("number", ["447700900101", "447700900102"])
def test_a_newer_row_keeps_its_time_and_content(app, cdrs, number):
    replace_text(app, 700000001, "write", "447700900101", number)
    app.mirror_db.write(
        lambda tx: tx.execute("UPDATE cdrs SET _last_seen = '2026-09-02 12:05:00' WHERE id = 700000001")
    )
    run_incremental_sync(app.context, CDRS)
    assert query(app, "SELECT dst, _last_seen FROM cdrs WHERE id = 700000001") == [
        (number, "2026-09-02 12:05:00")
    ]
    assert query(app, "SELECT _last_seen FROM cdrs WHERE id = 700000002") == [(LATER,)]


@pytest.mark.parametrize("read", [run_incremental_sync, lambda *all: refresh_recent(*all, days=2)])
def test_a_new_record_changes_only_the_last_page(app, cdrs, monkeypatch, movable_clock, parsed, read):
    monkeypatch.setattr(incremental_sync, "RECENT_PAGE_SIZE", 2)
    run_full_sync(app.context, CDRS)
    cdrs.add(700000004, RECENT)
    read(app.context, CDRS)
    parsed.clear()
    cdrs.add(700000005, RECENT)
    read(app.context, CDRS)
    assert {read_page(body).records[0].values["id"] for body in parsed} == {700000005}
    assert query(app, "SELECT count(*) FROM cdrs") == [(5,)]


def test_pages_of_a_minute_later_begin_with_the_same_record(app, cdrs, movable_clock, parsed):
    """Otherwise each record that leaves the overlap changes the page."""
    cdrs.add(700000000, "2026-09-02 11:00:30")
    cdrs.add(700000004, RECENT)
    run_incremental_sync(app.context, CDRS)
    parsed.clear()
    movable_clock.freeze("2026-09-02 12:14:00")
    run_incremental_sync(app.context, CDRS)
    assert parsed == []


def test_an_unchanged_list_of_settings_finds_no_deleted_record_and_a_shorter_one_does(
    app, movable_clock, parsed
):
    body = CONTACT_PAGE
    app.platform.routes["/contacts"] = lambda _request, reply: reply.content(body, "application/json")
    for moment in (NOW, LATER):
        movable_clock.freeze(moment)
        assert run_full_sync(app.context, CONTACTS).missing == 0
    assert len(parsed) == 1
    assert query(app, "SELECT id, _last_seen, _missing_since FROM contacts ORDER BY id") == [
        (31, LATER, None),
        (32, LATER, None),
    ]
    body = b'{"data":[{"id":31,"first_name":"Ann"}],"total":1}'
    app.platform.routes["/contacts/32"] = lambda _request, reply: reply.json({"message": "Not found"}, 404)
    movable_clock.freeze("2026-09-02 12:02:00")
    assert run_full_sync(app.context, CONTACTS).missing == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"total":2,"data":[{"id":31,"first_name":"Ann"},{"id":32,"first_name":"Bob"}]}',
        b'{"data":[{"id":31,"first_name":"Ann"},{"id":32,"first_name":"\\ud800"}],"total":2}',
        b'{"data":[{"id":32,"first_name":"Bob"},{"id":31,"first_name":"Ann"}], "total" : 2 } \n',
    ],
)
def test_other_forms_of_a_page_are_stored_each_time(app, movable_clock, body):
    app.platform.routes["/contacts"] = lambda _request, reply: reply.content(body, "application/json")
    for moment in (NOW, LATER):
        movable_clock.freeze(moment)
        run_full_sync(app.context, CONTACTS)
    assert query(app, "SELECT id, _last_seen FROM contacts ORDER BY id") == [(31, LATER), (32, LATER)]


def test_a_record_that_an_erasure_strips_stays_stripped(app, cdrs):
    """The page still has the number, so its rows never equal it."""

    def strip(record):
        return read_record(record.text.replace("447700900101", ""))

    app.mirror_db.gates["cdrs"] = strip
    replace_text(app, 700000001, "write", "447700900101", "")
    run_incremental_sync(app.context, CDRS)
    assert query(app, "SELECT DISTINCT dst FROM cdrs WHERE id = 700000001") == [("",)]
