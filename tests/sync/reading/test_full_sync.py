from __future__ import annotations

import json
import random
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.core.json_records import RecordPage
from integration.sync.plan import PLAN
from integration.sync.reading import full_sync, incremental_sync, items, page_store
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally

CDRS = PLAN["cdrs"]

FILLED = {"cdrs/dictionaries", "callmeback/websites", "calltracking/ddis"}
"""Collections without keys of which the simulator has records."""


@pytest.fixture
def small_pages(monkeypatch):
    """Collections are read seven records at a time, and committed three at a time."""
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 7)
    monkeypatch.setattr(page_store, "RECORDS_PER_TRANSACTION", 3)


def each_collection():
    """All that are walked: one of each kind always, the rest in the step that looks at everything."""
    seen = set()
    for name, policy in PLAN.items():
        alike = (policy.kind, "/" in name)
        marks = [pytest.mark.exhaustive] if alike in seen else []
        seen.add(alike)
        if policy.kind != "live":
            yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("collection", list(each_collection()))
def test_a_walk_brings_all_of_a_collection(simulated, collection):
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


def test_a_look_back_finds_what_webhooks_missed(simulated):
    run_full_sync(simulated.context, CDRS)
    run_incremental_sync(simulated.context, CDRS)
    made = simulated.play("plain_answered")
    tally = run_incremental_sync(simulated.context, CDRS)
    assert tally.inserted == len(made["cdr_ids"]) > 0
    assert set(made["cdr_ids"]) <= set(simulated.ids("cdrs"))
    assert run_incremental_sync(simulated.context, CDRS).inserted == 0


def test_a_look_back_finds_a_long_calls_record_that_is_dated_before_the_overlap(simulated):
    run_full_sync(simulated.context, CDRS)
    run_incremental_sync(simulated.context, CDRS)
    added = simulated.add_cdrs(1, calldate=clock.utc_text(clock.unix() - 8 * 3600))
    run_incremental_sync(simulated.context, CDRS)
    assert set(added) <= set(simulated.ids("cdrs"))


def test_a_look_back_sees_a_change_of_what_it_has_read_before(simulated):
    run_full_sync(simulated.context, CDRS)
    made = simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    simulated.records("cdrs")[made["cdr_ids"][0]]["nb_notes"] = 5
    assert run_incremental_sync(simulated.context, CDRS).updated == 1


def test_a_first_look_back_brings_today_before_any_walk(simulated):
    made = simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    assert set(made["cdr_ids"]) <= set(simulated.ids("cdrs"))
    assert simulated.state("cdrs").complete_at is None


@pytest.mark.parametrize("skew", [-86400, 86400])
def test_a_clock_that_is_a_day_wrong_leaves_no_gap(simulated, monkeypatch, skew):
    """Ours is wrong; the platform's answers carry the time by its own, which is right."""
    right = clock.unix
    run_full_sync(simulated.context, CDRS)
    wrong = SimpleNamespace(**vars(clock))
    wrong.now = lambda: datetime.fromtimestamp(right() + skew, UTC)
    monkeypatch.setattr(incremental_sync, "clock", wrong)
    run_incremental_sync(simulated.context, CDRS)
    # Lower ids than the mark, so that only the date can find them.
    lost = min(simulated.records("cdrs"))
    record = dict(simulated.records("cdrs")[lost], id=lost - 1, calldate=clock.utc_text(right() - 600))
    simulated.records("cdrs")[lost - 1] = record
    run_incremental_sync(simulated.context, CDRS)
    assert lost - 1 in simulated.ids("cdrs")


def test_a_walk_that_was_interrupted_goes_on_where_it_was(simulated, small_pages):
    simulated.add_cdrs(30)
    asked = iter([True, True, True, False])
    with pytest.raises(Interrupted):
        run_full_sync(simulated.context, CDRS, Tally(should_continue=lambda: next(asked)))
    state = simulated.state("cdrs")
    assert state.complete_at is None
    assert 0 < state.walk_rows < len(simulated.records("cdrs"))
    done = set(simulated.ids("cdrs"))
    tally = run_full_sync(simulated.context, CDRS)
    assert tally.read == len(simulated.records("cdrs")) - len(done)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    assert simulated.state("cdrs").complete_at is not None
    assert simulated.state("cdrs").total == len(simulated.records("cdrs"))


def test_a_walk_afresh_begins_at_the_beginning(simulated, small_pages):
    asked = iter([True, True, False])
    with pytest.raises(Interrupted):
        run_full_sync(simulated.context, CDRS, Tally(should_continue=lambda: next(asked)))
    assert run_full_sync(simulated.context, CDRS, restart=True).read == len(simulated.records("cdrs"))


@pytest.mark.parametrize("by_pages_only", [False, True])
def test_everything_that_stays_is_read_while_records_come_and_go(simulated, small_pages, by_pages_only):
    simulated.add_cdrs(60)
    rng = random.Random(5)
    lock = simulated.simulator.world.lock
    deleted: set[int] = set()
    steps = iter(range(6))

    def change(_done, _total):
        """Between two pages: some records vanish, some come; pages by number shift by that."""
        if next(steps, None) is None:
            return
        with lock:
            for number in rng.sample(sorted(simulated.records("cdrs")), 3):
                del simulated.records("cdrs")[number]
                deleted.add(number)
        simulated.add_cdrs(2)

    run_full_sync(simulated.context, CDRS, Tally(show_progress=change), by_pages_only=by_pages_only)
    # What came above the walk's beginning is the look-back's.
    run_incremental_sync(simulated.context, CDRS)
    assert set(simulated.records("cdrs")) <= set(simulated.ids("cdrs"))
    assert set(simulated.ids("cdrs")) <= set(simulated.records("cdrs")) | deleted


def test_a_collection_that_never_holds_still_is_not_called_complete(simulated, small_pages, monkeypatch):
    monkeypatch.setattr(full_sync, "MAX_PASSES", 1)
    with pytest.raises(PlatformBroken, match="changed while it was read"):
        run_full_sync(
            simulated.context,
            CDRS,
            Tally(show_progress=lambda done, total: simulated.add_cdrs(1)),
            by_pages_only=True,
        )
    assert simulated.state("cdrs").complete_at is None


@pytest.mark.parametrize(
    "fault",
    [
        "truncate*2",
        "double-row*2",
        *(
            pytest.param(fault, marks=pytest.mark.exhaustive)
            for fault in ("status=500*2", "malformed=json*2", "malformed=headers*2", "html*2")
        ),
    ],
)
def test_a_walk_survives_bad_answers(simulated, small_pages, fault):
    simulated.faults(f"{fault}@/cdrs")
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def test_a_page_that_is_short_by_mistake_is_not_believed(simulated, small_pages, monkeypatch):
    """Two rows of a page's middle are missing: the next page would begin behind them."""
    real, times = simulated.context.platform.page, iter(range(2))

    def page(*args, **options):
        found = real(*args, **options)
        if next(times, None) is not None and len(found.records) > 4:
            del found.records[2:4]
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def test_a_platform_that_gives_fewer_at_once_than_asked_for_is_read_all_the_same(simulated, monkeypatch):
    real = simulated.context.platform.page
    monkeypatch.setattr(
        simulated.context.platform,
        "page",
        lambda *args, **options: real(*args, **{**options, "limit": min(options["limit"], 9)}),
    )
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def test_a_collection_that_cannot_be_filtered_is_read_by_page_numbers(simulated, monkeypatch):
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if list(filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 11)
    run_full_sync(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    made = simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    assert set(made["cdr_ids"]) <= set(simulated.ids("cdrs"))


def test_an_empty_answer_by_mistake_loses_nothing_and_completes_nothing(simulated):
    run_full_sync(simulated.context, CDRS)
    before, complete_at = simulated.ids("cdrs"), simulated.state("cdrs").complete_at
    simulated.faults("empty@/cdrs")
    with pytest.raises(PlatformBroken, match="returns an empty list"):
        run_full_sync(simulated.context, CDRS, restart=True)
    assert simulated.ids("cdrs") == before
    assert simulated.state("cdrs").complete_at == complete_at


def test_an_answer_without_a_total_is_no_page(simulated, monkeypatch):
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        return RecordPage(found.records, None)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    with pytest.raises(PlatformBroken, match="no total"):
        run_full_sync(simulated.context, CDRS)


def test_records_are_read_by_their_own_path_where_that_tells_more(simulated):
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


def test_a_webhook_is_not_kept_waiting_by_a_walk(simulated, small_pages):
    """A write queued in the middle of a walk is done before the walk ends."""
    simulated.add_cdrs(60)
    done, seen = threading.Event(), []

    def show(at, _total):
        if at == 7:
            simulated.mirror_db.submit(lambda tx: done.set())
        elif at == 14:
            seen.append(done.is_set())

    run_full_sync(simulated.context, CDRS, Tally(show_progress=show))
    assert seen == [True]


def test_a_dictionary_that_is_cut_short_takes_no_place(simulated, monkeypatch):
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
