"""Syncs with a platform without order by key or filter by time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.sync.plan import PLAN
from integration.sync.reading import day_counts, full_sync
from integration.sync.reading.collection_reader import CollectionReader, UnsupportedQuery
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally

CDRS = PLAN["cdrs"]


@pytest.fixture
def unsorted(simulated, monkeypatch):
    """Platform that returns pages of eleven records in random order."""
    real, rng = simulated.context.platform.page, random.Random(7)

    def page(*args, **options):
        options.pop("sort", None)
        options.pop("dir", None)
        found = real(*args, **options)
        records = list(found.records)
        rng.shuffle(records)
        return replace(found, records=records)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    monkeypatch.setattr(full_sync, "page_limit", lambda _failures: 11)
    return simulated


def add_cdrs_with_odd_dates(simulated):
    """Add CDRs dated 1970, 2999, with zeros, and without a date."""
    for date in ("1970-01-01 00:00:00", "2999-01-01 00:00:00", "0000-00-00 00:00:00", None):
        simulated.add_cdrs(3, calldate=date)


def test_windows_return_each_record_once_newest_window_first(unsorted):
    add_cdrs_with_odd_dates(unsorted)
    found = list(CollectionReader(unsorted.context.platform, CDRS.resource, 9).by_time())
    keys = [document.values["id"] for window in found for document in window.records]
    assert sorted(keys) == sorted(unsorted.records("cdrs"))
    dates = [window.since for window in found if window.since]
    assert dates == sorted(dates, reverse=True)


def test_an_interrupted_full_sync_by_time_resumes_at_its_window(unsorted, movable_clock):
    steps = iter([True] * 4)
    with pytest.raises(Interrupted):
        run_full_sync(unsorted.context, CDRS, Tally(should_continue=lambda: next(steps, False)))
    interrupted = unsorted.state("cdrs")
    assert isinstance(interrupted.walk_key, str)
    assert 0 < interrupted.walk_rows < len(unsorted.records("cdrs"))
    tally = Tally()
    movable_clock.advance(3)
    run_full_sync(unsorted.context, CDRS, tally)
    assert unsorted.ids("cdrs") == sorted(unsorted.records("cdrs"))
    assert tally.read == len(unsorted.records("cdrs")) - interrupted.walk_rows
    assert unsorted.state("cdrs").walked_from == interrupted.begun_at


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (7, 9))])
def test_records_added_and_deleted_during_a_full_sync_by_time_leave_no_gap(unsorted, seed):
    rng = random.Random(seed)

    def change(_done, _total):
        for number in rng.sample(sorted(unsorted.records("cdrs")), 2):
            del unsorted.records("cdrs")[number]
        unsorted.add_cdrs(2, calldate=clock.utc_text(clock.unix() - rng.random() * 86400 * 20))

    run_full_sync(unsorted.context, CDRS, Tally(show_progress=change))
    run_incremental_sync(unsorted.context, CDRS)
    assert set(unsorted.records("cdrs")) <= set(unsorted.ids("cdrs"))


def test_a_second_with_more_records_than_a_page_is_read_by_page_numbers(simulated, monkeypatch):
    simulated.add_cdrs(40, calldate="2026-10-01 10:00:00")
    monkeypatch.setattr(full_sync, "page_limit", lambda _failures: 29)
    monkeypatch.setattr(CollectionReader, "by_key", refuse)
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


@pytest.mark.parametrize("field", ["id", "calldate"])
def test_new_records_are_read_by_date_or_by_id_if_the_other_cannot_be_filtered(
    simulated, monkeypatch, movable_clock, field
):
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if any(name == field for name, _, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    run_full_sync(simulated.context, CDRS)
    played = simulated.play("plain_answered")
    (late,) = simulated.add_cdrs(1, calldate=clock.utc_text(clock.unix() - 129_600))
    simulated.clear_requests()
    run_incremental_sync(simulated.context, CDRS)
    assert set(played["cdr_ids"]) <= set(simulated.ids("cdrs"))
    assert simulated.count_requests("/cdrs") < 12, "the incremental sync has read the entire collection"
    # Only its id shows that this record is new. Without it the counts of days do.
    assert (late in simulated.ids("cdrs")) == (field == "calldate")
    movable_clock.advance(3601)
    while day_counts.verify_due_days(simulated.context, CDRS) > 1:
        pass
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def refuse(*_args, **_options):
    raise UnsupportedQuery("not so")
