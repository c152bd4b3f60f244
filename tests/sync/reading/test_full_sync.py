from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.core.json_records import RecordPage
from integration.mirror.query.positions import Positions
from integration.sync.plan import PLAN
from integration.sync.reading import full_sync, incremental_sync, items, page_store
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally
from tests.support.simulated_app import START

CDRS = PLAN["cdrs"]

FILLED = {"cdrs/dictionaries", "callmeback/websites", "calltracking/ddis"}
"""Collections without keys of which the simulator has records."""


@pytest.fixture
def small_pages(monkeypatch):
    """Read nine records per page and commit four at a time."""
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 9)
    monkeypatch.setattr(page_store, "RECORDS_PER_STEP_WITH_CALLS", 4)


def list_collection_parameters():
    """Return all synced collections as parameters.

    All but the first of each kind are marked as exhaustive.
    """
    seen = set()
    for name, policy in PLAN.items():
        alike = (policy.kind, "/" in name)
        marks = [pytest.mark.exhaustive] if alike in seen else []
        seen.add(alike)
        if policy.kind != "live":
            yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("collection", list(list_collection_parameters()))
def test_a_full_sync_stores_every_record_of_a_collection(simulated, collection):
    policy = PLAN[collection]
    run_full_sync(simulated.context, policy)
    table = policy.resource.table
    if policy.resource.key is None:
        listed = simulated.list_records(collection)
        assert [
            json.loads(row[0]) for row in simulated.rows(f'SELECT _doc FROM "{table}" ORDER BY _n')
        ] == listed
        assert listed or collection not in FILLED
    elif collection != "me":
        keys = sorted(str(record[policy.resource.key]) for record in simulated.records(collection).values())
        found = simulated.rows(f'SELECT "{policy.resource.key}" FROM "{table}"')
        assert sorted(str(row[0]) for row in found) == keys
        assert simulated.state(collection).total == len(keys) > 0
    state = simulated.state(collection)
    assert state.complete_at is not None
    assert state.last_error is None
    assert simulated.row_count(collection) == state.total


def test_an_incremental_sync_stores_cdrs_without_webhooks(simulated):
    run_full_sync(simulated.context, CDRS)
    run_incremental_sync(simulated.context, CDRS)
    played = simulated.play("plain_answered")
    tally = run_incremental_sync(simulated.context, CDRS)
    assert tally.inserted == len(played["cdr_ids"]) > 0
    assert set(played["cdr_ids"]) <= set(simulated.ids("cdrs"))
    assert run_incremental_sync(simulated.context, CDRS).inserted == 0


@pytest.mark.parametrize("skew", [-86400, 86400])
def test_a_local_clock_that_is_wrong_by_a_day_leaves_no_gap(simulated, monkeypatch, skew):
    """Responses of the platform carry its own time, which is correct."""
    right = clock.unix
    run_full_sync(simulated.context, CDRS)
    wrong = SimpleNamespace(**vars(clock))
    wrong.now = lambda: datetime.fromtimestamp(right() + skew, UTC)
    monkeypatch.setattr(incremental_sync, "clock", wrong)
    run_incremental_sync(simulated.context, CDRS)
    # Its id is below the high-water mark, so only the filter on the date can find it.
    lost = min(simulated.records("cdrs"))
    record = dict(simulated.records("cdrs")[lost], id=lost - 1, calldate=clock.utc_text(right() - 600))
    simulated.records("cdrs")[lost - 1] = record
    run_incremental_sync(simulated.context, CDRS)
    assert lost - 1 in simulated.ids("cdrs")


def test_only_an_initial_sync_builds_the_indexes_of_queries_after_its_rows(simulated, small_pages):
    def list_indexes():
        return simulated.rows("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'cdrs'")

    def look(*_):
        """The facade counts records and finds pages while the other indexes are missing."""
        during.append(len(list_indexes()))
        with simulated.context.mirror_db.read() as connection:
            (stored,) = connection.execute("SELECT count(*) FROM cdrs").fetchone()
            assert Positions().count(connection, get_resource("cdrs")) == stored

    indexes, during = sorted(list_indexes()), []
    tally = Tally(look, lambda: not during)
    with pytest.raises(Interrupted):
        run_full_sync(simulated.context, CDRS, tally)
    assert len(list_indexes()) == during[0] == 4
    run_full_sync(simulated.context, CDRS, Tally(look))
    assert set(during) == {4}
    assert sorted(list_indexes()) == indexes
    during.clear()
    run_full_sync(simulated.context, CDRS, Tally(look), restart=True)
    assert set(during) == {len(indexes)}


def test_a_restarted_full_sync_begins_at_the_first_record(simulated, small_pages):
    continues = iter([True, True, False])
    with pytest.raises(Interrupted):
        run_full_sync(simulated.context, CDRS, Tally(should_continue=lambda: next(continues, False)))
    assert run_full_sync(simulated.context, CDRS, restart=True).read == len(simulated.records("cdrs"))


@pytest.mark.parametrize("reads_by_key", [True, False])
def test_a_full_sync_stores_all_remaining_records_while_others_are_added_and_deleted(
    simulated, small_pages, reads_by_key
):
    simulated.add_cdrs(60)
    rng = random.Random(5)
    lock = simulated.simulator.world.lock
    deleted: set[int] = set()
    steps = iter(range(6))

    def change(_done, _total):
        """Delete three records and add two, which shifts the following pages."""
        if next(steps, None) is None:
            return
        with lock:
            for number in rng.sample(sorted(simulated.records("cdrs")), 3):
                del simulated.records("cdrs")[number]
                deleted.add(number)
        simulated.add_cdrs(2)

    policy = replace(CDRS, reads_by_key=reads_by_key)
    run_full_sync(simulated.context, policy, Tally(show_progress=change))
    # Records above the first id of the full sync are read by the incremental sync.
    run_incremental_sync(simulated.context, CDRS)
    assert set(simulated.records("cdrs")) <= set(simulated.ids("cdrs"))
    assert set(simulated.ids("cdrs")) <= set(simulated.records("cdrs")) | deleted


def test_a_collection_that_changes_during_each_pass_is_not_complete(simulated, small_pages, monkeypatch):
    monkeypatch.setattr(full_sync, "MAX_PASSES", 1)
    with pytest.raises(PlatformBroken, match="changed while it was read"):
        run_full_sync(
            simulated.context,
            replace(CDRS, reads_by_key=False),
            Tally(show_progress=lambda done, total: simulated.add_cdrs(1)),
        )
    assert simulated.state("cdrs").complete_at is None


def test_a_platform_with_a_smaller_page_size_is_read_completely(simulated, monkeypatch):
    real = simulated.context.platform.page
    monkeypatch.setattr(
        simulated.context.platform,
        "page",
        lambda *args, **options: real(*args, **{**options, "limit": min(options["limit"], 9)}),
    )
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def test_a_collection_without_filters_is_read_by_page_numbers(simulated, monkeypatch):
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if list(filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 11)
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    played = simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    assert set(played["cdr_ids"]) <= set(simulated.ids("cdrs"))


def test_an_empty_response_changes_no_record_and_completes_no_sync(simulated):
    run_full_sync(simulated.context, CDRS)
    before, complete_at = simulated.ids("cdrs"), simulated.state("cdrs").complete_at
    simulated.faults("empty@/cdrs")
    with pytest.raises(PlatformBroken, match="returns an empty list"):
        run_full_sync(simulated.context, CDRS, restart=True)
    assert simulated.ids("cdrs") == before
    assert simulated.state("cdrs").complete_at == complete_at


def test_a_page_without_a_total_is_an_error(simulated, monkeypatch):
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        return RecordPage(found.records, None)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    with pytest.raises(PlatformBroken, match="no total"):
        run_full_sync(simulated.context, CDRS)


def test_new_and_changed_users_are_read_by_their_own_path(simulated):
    users = PLAN["users"]
    run_full_sync(simulated.context, users)
    items.read_due_items(simulated.context, users, Tally())
    assert simulated.rows("SELECT count(*) FROM users WHERE _item IS NULL") == [(0,)]
    simulated.clear_requests()
    items.read_due_items(simulated.context, users, Tally())
    assert len(simulated.simulator.context.request_log) == 0
    number = simulated.ids("users")[0]
    simulated.records("users")[number]["first_name"] = "Renamed"
    run_full_sync(simulated.context, users)
    assert simulated.count_requests(f"/users/{number}") == 1
    assert "Renamed" in simulated.rows("SELECT _item FROM users WHERE id = ?", number)[0][0]


class SecondSync:
    """A full sync of CDRs that starts after the first page of another, on a thread of its own."""

    def __init__(self, simulated, movable_clock, *, should_continue=True, **options):
        self.walked_from = []
        self._simulated, self._clock = simulated, movable_clock
        self._should_continue, self._options = should_continue, options
        self._has_checked = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._running = None

    def run(self):
        """Run both; return their tallies."""
        first = run_full_sync(self._simulated.context, CDRS, Tally(show_progress=self._start))
        return first, self._running.result(30)

    def _start(self, _done, _total):
        if self._running is None:
            self._clock.advance(60)
            tally = Tally(show_progress=self._record_state, should_continue=self._check)
            self._running = self._pool.submit(
                run_full_sync, self._simulated.context, CDRS, tally, **self._options
            )
            assert self._has_checked.wait(30)

    def _record_state(self, _done, _total):
        self.walked_from.append(self._simulated.state("cdrs").walked_from)

    def _check(self):
        """Both a waiting and a reading sync check whether they are cancelled."""
        self._has_checked.set()
        return self._should_continue


def test_a_second_full_sync_of_a_collection_starts_after_the_first(simulated, small_pages, movable_clock):
    simulated.add_cdrs(60)
    movable_clock.freeze(START)
    second = SecondSync(simulated, movable_clock, restart=True)
    first, repeated = second.run()
    assert set(second.walked_from) == {START}
    assert first.read == repeated.read == len(simulated.records("cdrs"))
    assert (first.missing, simulated.state("cdrs").held) == (0, None)


def test_a_full_sync_that_waited_for_another_of_a_history_does_not_repeat_it(
    simulated, small_pages, movable_clock
):
    first, waiting = SecondSync(simulated, movable_clock).run()
    assert (first.read, waiting.read) == (len(simulated.records("cdrs")), 0)


def test_a_waiting_full_sync_can_be_cancelled(simulated, small_pages, movable_clock):
    second = SecondSync(simulated, movable_clock, should_continue=False, restart=True)
    with pytest.raises(Interrupted):
        second.run()
    assert second.walked_from == []
    assert simulated.state("cdrs").complete_at is not None


def test_a_truncated_dictionary_does_not_replace_the_stored_one(simulated, monkeypatch):
    codes = PLAN["cdrs/dictionaries"]
    run_full_sync(simulated.context, codes)
    before = simulated.rows("SELECT _doc FROM cdrs_dictionaries")
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        del found.records[3:]
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    with pytest.raises(PlatformBroken, match="3 records instead of"):
        run_full_sync(simulated.context, codes)
    assert simulated.rows("SELECT _doc FROM cdrs_dictionaries") == before
