"""Incremental syncs of a collection that was empty at its first full sync."""

from __future__ import annotations

import pytest

from integration.mirror.sync_state import collection_state, lookup_queue
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from tests.sync.reading.cdr_list import CdrList

CDRS = PLAN["cdrs"]
NOW = "2026-09-02 12:00:00"
BEFORE_THE_OVERLAP = "2026-09-02 08:45:55"
"""More than `sync.overlap` (1 h) before NOW."""
WITHIN_THE_OVERLAP = "2026-09-02 11:30:00"


@pytest.fixture
def cdrs(app, movable_clock):
    movable_clock.set(NOW)
    return CdrList(app.platform)


def list_ids(app):
    with app.mirror_db.read() as connection:
        return [row[0] for row in connection.execute("SELECT id FROM cdrs ORDER BY id")]


def get_mark(app):
    with app.mirror_db.read() as connection:
        return collection_state.get_state(connection, "cdrs").mark


def test_an_old_record_of_a_collection_that_was_empty_is_read_by_the_next_incremental_sync(app, cdrs):
    run_full_sync(app.context, CDRS)
    run_incremental_sync(app.context, CDRS)
    cdrs.add(700000001, BEFORE_THE_OVERLAP)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000001]
    assert get_mark(app) == 700000001
    cdrs.add(700000002, BEFORE_THE_OVERLAP)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000001, 700000002]


def test_a_collection_that_a_write_made_incomplete_keeps_its_starting_point(app, cdrs):
    run_full_sync(app.context, CDRS)
    run_incremental_sync(app.context, CDRS)
    app.mirror_db.write(lambda tx: collection_state.mark_incomplete(tx, "cdrs"))
    cdrs.add(700000001, BEFORE_THE_OVERLAP)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000001]


@pytest.mark.parametrize("missing_feature", ["can_sort", "can_filter_dates"])
def test_an_old_record_is_read_from_a_platform_without_order_or_date_filter(app, cdrs, missing_feature):
    setattr(cdrs, missing_feature, False)
    run_full_sync(app.context, CDRS)
    run_incremental_sync(app.context, CDRS)
    for number in (5, 3, 2, 4, 1):
        cdrs.add(700000000 + number, BEFORE_THE_OVERLAP)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000001, 700000002, 700000003, 700000004, 700000005]
    assert get_mark(app) == 700000005


def test_before_the_first_full_sync_an_incremental_sync_reads_only_recent_records(app, cdrs):
    cdrs.add(700000001, "2026-07-01 10:00:00")
    cdrs.add(700000002, WITHIN_THE_OVERLAP)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000002]


def test_records_without_a_readable_date_do_not_delay_the_mark(app, cdrs):
    cdrs.can_filter_dates = False
    for number in range(1, 41):
        cdrs.add(
            700000000 + number, "yesterday" if number > 3 else ("0000-00-00 00:00:00", None, "")[number % 3]
        )
    run_full_sync(app.context, CDRS)
    run_incremental_sync(app.context, CDRS)
    cdrs.add(700000041, "2026/09/02")
    cdrs.add(700000042, "2026-09-02T08:45:55Z")
    requests_before = len(app.platform.requests)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000000 + number for number in range(1, 43)]
    with app.mirror_db.read() as connection:
        state = collection_state.get_state(connection, "cdrs")
    assert (state.mark, state.seen_until) == (700000042, NOW)
    # The records above the mark, and the refused query by date.
    assert len(app.platform.requests) - requests_before == 2


def test_a_leg_that_began_in_the_far_future_does_not_stop_the_sync(app, cdrs):
    """The platform's list of live calls had a start of 10^18 Unix seconds."""
    app.leg(101, started=10**18)
    app.mirror_db.write(lambda tx: lookup_queue.enqueue_leg(tx, 101, NOW))
    cdrs.add(700000001, WITHIN_THE_OVERLAP)
    run_incremental_sync(app.context, CDRS)
    assert list_ids(app) == [700000001]
