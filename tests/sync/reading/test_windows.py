"""A platform that does not sort by key, or does not filter by time: read all the same, and as surely."""

from __future__ import annotations

import random

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.sync.plan import PLAN, list_history_policies
from integration.sync.reading import full_sync, incremental_sync, pages, windows
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import refresh_recent, run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally

CDRS = PLAN["cdrs"]


@pytest.fixture
def unsorted(simulated, monkeypatch):
    """The platform answers in whatever order; small pages."""
    real, rng = simulated.context.platform.page, random.Random(7)

    def page(*args, **options):
        options.pop("sort", None)
        options.pop("dir", None)
        found = real(*args, **options)
        rng.shuffle(found.records)
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    monkeypatch.setattr(full_sync, "page_limit", lambda _failures: 29)
    return simulated


@pytest.fixture
def undated(simulated, monkeypatch):
    """The platform refuses filters on the date."""
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if any(name == "calldate" for name, _, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    return simulated


def odd_dates(simulated):
    """Records of long ago, of days to come, and without a date."""
    for date in ("1970-01-01 00:00:00", "2999-01-01 00:00:00", "0000-00-00 00:00:00", None):
        simulated.add_cdrs(3, calldate=date)


@pytest.mark.exhaustive
def test_all_that_grows_is_read_by_closed_windows_of_time(unsorted):
    odd_dates(unsorted)
    for policy in list_history_policies():
        run_full_sync(unsorted.context, policy)
        assert unsorted.ids(policy.resource.table) == sorted(unsorted.records(policy.collection))
        assert unsorted.state(policy.collection).complete_at, policy.collection


def test_windows_leave_no_moment_out_and_overlap_nowhere(unsorted):
    odd_dates(unsorted)
    found = list(windows.read_all(unsorted.context.platform, CDRS.resource, limit=23))
    keys = [document.values["id"] for window in found for document in window.records]
    assert sorted(keys) == sorted(unsorted.records("cdrs"))
    dates = [window.since for window in found if window.since]
    assert dates == sorted(dates, reverse=True)


def test_a_walk_by_time_goes_on_where_it_was(unsorted, movable_clock):
    steps = iter([True] * 4)
    with pytest.raises(Interrupted):
        run_full_sync(unsorted.context, CDRS, Tally(should_continue=lambda: next(steps, False)))
    half = unsorted.state("cdrs")
    assert isinstance(half.walk_key, str)
    assert 0 < half.walk_rows < len(unsorted.records("cdrs"))
    tally = Tally()
    movable_clock.advance(3)
    run_full_sync(unsorted.context, CDRS, tally)
    assert unsorted.ids("cdrs") == sorted(unsorted.records("cdrs"))
    assert tally.read == len(unsorted.records("cdrs")) - half.walk_rows
    assert unsorted.state("cdrs").walked_from == half.begun_at


def test_what_was_deleted_is_found_by_it_too(unsorted, movable_clock):
    run_full_sync(unsorted.context, CDRS)
    gone = sorted(unsorted.records("cdrs"))[12]
    del unsorted.records("cdrs")[gone]
    movable_clock.advance(5)
    run_full_sync(unsorted.context, CDRS, restart=True)
    assert unsorted.rows("SELECT id FROM cdrs WHERE _missing_since IS NOT NULL") == [(gone,)]


@pytest.mark.parametrize("seed", [4, 7, 9])
def test_records_that_come_and_go_meanwhile_lose_nothing(unsorted, seed):
    rng = random.Random(seed)

    def change(_done, _total):
        for number in rng.sample(sorted(unsorted.records("cdrs")), 2):
            del unsorted.records("cdrs")[number]
        unsorted.add_cdrs(2, calldate=clock.utc_text(clock.unix() - rng.random() * 86400 * 20))

    run_full_sync(unsorted.context, CDRS, Tally(show_progress=change))
    run_incremental_sync(unsorted.context, CDRS)
    assert set(unsorted.records("cdrs")) <= set(unsorted.ids("cdrs"))


def test_more_in_one_second_than_a_page_holds_is_read_by_page_numbers(simulated, monkeypatch):
    simulated.add_cdrs(40, calldate="2026-10-01 10:00:00")
    monkeypatch.setattr(full_sync, "page_limit", lambda _failures: 29)
    monkeypatch.setattr(full_sync, "read_by_key", refuse)
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def test_a_look_back_needs_no_order(unsorted):
    run_full_sync(unsorted.context, CDRS)
    made = unsorted.play("plain_answered")
    late = unsorted.add_cdrs(2, calldate=clock.utc_text(clock.unix() - 86400 * 9))
    run_incremental_sync(unsorted.context, CDRS)
    assert {*made["cdr_ids"], *late} <= set(unsorted.ids("cdrs"))
    assert unsorted.state("cdrs").mark == max(unsorted.records("cdrs"))


def test_what_is_read_again_needs_none_either(unsorted):
    run_full_sync(unsorted.context, CDRS)
    newest = unsorted.records("cdrs")[max(unsorted.records("cdrs"))]
    newest["calldate"] = clock.utc_text(clock.unix() - 7200)
    newest["labels"] = ["changed"]
    refresh_recent(unsorted.context, CDRS, 2)
    assert unsorted.rows("SELECT labels FROM cdrs WHERE id = ?", newest["id"]) == [('["changed"]',)]
    assert unsorted.state("cdrs").reread_at


def test_where_time_cannot_be_filtered_the_order_tells_what_is_new(undated, monkeypatch):
    run_full_sync(undated.context, CDRS)
    made = undated.play("plain_answered")
    changed = undated.records("cdrs")[made["cdr_ids"][0]]
    run_incremental_sync(undated.context, CDRS)
    assert set(made["cdr_ids"]) <= set(undated.ids("cdrs"))
    changed["labels"] = ["changed"]
    monkeypatch.setattr(incremental_sync, "UNFILTERED_PAGE_SIZE", 5)
    undated.clear_requests()
    run_incremental_sync(undated.context, CDRS)
    assert undated.rows("SELECT labels FROM cdrs WHERE id = ?", changed["id"]) == [('["changed"]',)]
    assert undated.count_requests("/cdrs") < 12, "not all of it is read for what is new"
    assert undated.state("cdrs").mark == max(undated.records("cdrs"))


def test_a_big_collection_that_can_neither_be_filtered_nor_sorted_says_so(simulated, monkeypatch):
    run_full_sync(simulated.context, CDRS)
    monkeypatch.setattr(incremental_sync, "MAX_UNFILTERED_RECORDS", 3)
    real = simulated.context.platform.page

    def page(*args, **options):
        if options.keys() & {"filter", "sort"}:
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    with pytest.raises(PlatformBroken, match="neither filtered nor sorted"):
        run_incremental_sync(simulated.context, CDRS)


def refuse(*_args, **_options):
    raise pages.KeyOrderUnsupported("not so")
