from __future__ import annotations

import json
import random
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.sync.plan import PLAN
from integration.sync.reading import full_sync, incremental_sync, items, page_store, pages
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally
from tests.support.applications.sync_rig import CDRS

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
def test_a_walk_brings_all_of_a_collection(rig, collection):
    policy = PLAN[collection]
    run_full_sync(rig.parts, policy)
    table = policy.resource.table
    if policy.resource.key is None:
        listed = rig.listed(collection)
        assert [json.loads(row[0]) for row in rig.rows(f'SELECT _doc FROM "{table}" ORDER BY _n')] == listed
        assert listed or collection not in FILLED
    elif collection != "me":
        keys = sorted(str(record[policy.resource.key]) for record in rig.records(collection).values())
        found = rig.rows(f'SELECT "{policy.resource.key}" FROM "{table}"')
        assert sorted(str(row[0]) for row in found) == keys
        assert rig.state(collection).total == len(keys) > 0
    state = rig.state(collection)
    assert state.complete_at is not None
    assert state.last_error is None
    assert rig.row_count(collection) == state.total


def test_a_look_back_finds_what_webhooks_missed(rig):
    run_full_sync(rig.parts, CDRS)
    run_incremental_sync(rig.parts, CDRS)
    made = rig.play("plain_answered")
    tally = run_incremental_sync(rig.parts, CDRS)
    assert tally.inserted == len(made["cdr_ids"]) > 0
    assert set(made["cdr_ids"]) <= set(rig.ids("cdrs"))
    assert run_incremental_sync(rig.parts, CDRS).inserted == 0


def test_a_look_back_finds_a_long_calls_record_that_is_dated_before_the_overlap(rig):
    run_full_sync(rig.parts, CDRS)
    run_incremental_sync(rig.parts, CDRS)
    added = rig.add_cdrs(1, calldate=clock.utc_text(clock.unix() - 8 * 3600))
    run_incremental_sync(rig.parts, CDRS)
    assert set(added) <= set(rig.ids("cdrs"))


def test_a_look_back_sees_a_change_of_what_it_has_read_before(rig):
    run_full_sync(rig.parts, CDRS)
    made = rig.play("plain_answered")
    run_incremental_sync(rig.parts, CDRS)
    rig.records("cdrs")[made["cdr_ids"][0]]["nb_notes"] = 5
    assert run_incremental_sync(rig.parts, CDRS).updated == 1


def test_a_first_look_back_brings_today_before_any_walk(rig):
    made = rig.play("plain_answered")
    run_incremental_sync(rig.parts, CDRS)
    assert set(made["cdr_ids"]) <= set(rig.ids("cdrs"))
    assert rig.state("cdrs").complete_at is None


@pytest.mark.parametrize("skew", [-86400, 86400])
def test_a_clock_that_is_a_day_wrong_leaves_no_gap(rig, monkeypatch, skew):
    """Ours is wrong; the platform's answers carry the time by its own, which is right."""
    right = clock.unix
    run_full_sync(rig.parts, CDRS)
    wrong = SimpleNamespace(**vars(clock))
    wrong.now = lambda: datetime.fromtimestamp(right() + skew, UTC)
    monkeypatch.setattr(incremental_sync, "clock", wrong)
    run_incremental_sync(rig.parts, CDRS)
    # Lower ids than the mark, so that only the date can find them.
    lost = min(rig.records("cdrs"))
    record = dict(rig.records("cdrs")[lost], id=lost - 1, calldate=clock.utc_text(right() - 600))
    rig.records("cdrs")[lost - 1] = record
    run_incremental_sync(rig.parts, CDRS)
    assert lost - 1 in rig.ids("cdrs")


def test_a_walk_that_was_interrupted_goes_on_where_it_was(rig, small_pages):
    rig.add_cdrs(30)
    asked = iter([True, True, True, False])
    with pytest.raises(Interrupted):
        run_full_sync(rig.parts, CDRS, Tally(should_continue=lambda: next(asked)))
    state = rig.state("cdrs")
    assert state.complete_at is None
    assert 0 < state.walk_rows < len(rig.records("cdrs"))
    done = set(rig.ids("cdrs"))
    tally = run_full_sync(rig.parts, CDRS)
    assert tally.read == len(rig.records("cdrs")) - len(done)
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))
    assert rig.state("cdrs").complete_at is not None
    assert rig.state("cdrs").total == len(rig.records("cdrs"))


def test_a_walk_afresh_begins_at_the_beginning(rig, small_pages):
    asked = iter([True, True, False])
    with pytest.raises(Interrupted):
        run_full_sync(rig.parts, CDRS, Tally(should_continue=lambda: next(asked)))
    assert run_full_sync(rig.parts, CDRS, restart=True).read == len(rig.records("cdrs"))


@pytest.mark.parametrize("by_pages_only", [False, True])
def test_everything_that_stays_is_read_while_records_come_and_go(rig, small_pages, by_pages_only):
    rig.add_cdrs(60)
    rng = random.Random(5)
    lock = rig.simulator.world.lock
    deleted: set[int] = set()
    steps = iter(range(6))

    def change(_done, _total):
        """Between two pages: some records vanish, some come; pages by number shift by that."""
        if next(steps, None) is None:
            return
        with lock:
            for number in rng.sample(sorted(rig.records("cdrs")), 3):
                del rig.records("cdrs")[number]
                deleted.add(number)
        rig.add_cdrs(2)

    run_full_sync(rig.parts, CDRS, Tally(show_progress=change), by_pages_only=by_pages_only)
    # What came above the walk's beginning is the look-back's.
    run_incremental_sync(rig.parts, CDRS)
    assert set(rig.records("cdrs")) <= set(rig.ids("cdrs"))
    assert set(rig.ids("cdrs")) <= set(rig.records("cdrs")) | deleted


def test_a_collection_that_never_holds_still_is_not_called_complete(rig, small_pages, monkeypatch):
    monkeypatch.setattr(full_sync, "MAX_PASSES", 1)
    with pytest.raises(PlatformBroken, match="changed while it was read"):
        run_full_sync(
            rig.parts, CDRS, Tally(show_progress=lambda done, total: rig.add_cdrs(1)), by_pages_only=True
        )
    assert rig.state("cdrs").complete_at is None


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
def test_a_walk_survives_bad_answers(rig, small_pages, fault):
    rig.faults(f"{fault}@/cdrs")
    run_full_sync(rig.parts, CDRS)
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))


def test_a_page_that_is_short_by_mistake_is_not_believed(rig, small_pages, monkeypatch):
    """Two rows of a page's middle are missing: the next page would begin behind them."""
    real, times = rig.platform.page, iter(range(2))

    def page(*args, **options):
        found = real(*args, **options)
        if next(times, None) is not None and len(found.records) > 4:
            del found.records[2:4]
        return found

    monkeypatch.setattr(rig.platform, "page", page)
    run_full_sync(rig.parts, CDRS)
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))


def test_a_platform_that_gives_fewer_at_once_than_asked_for_is_read_all_the_same(rig, monkeypatch):
    real = rig.platform.page
    monkeypatch.setattr(
        rig.platform,
        "page",
        lambda *args, **options: real(*args, **{**options, "limit": min(options["limit"], 9)}),
    )
    run_full_sync(rig.parts, CDRS)
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))


def test_a_collection_that_cannot_be_filtered_is_read_by_page_numbers(rig, monkeypatch):
    real = rig.platform.page

    def page(*args, filter=(), **options):
        if list(filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, **options)

    monkeypatch.setattr(rig.platform, "page", page)
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 11)
    run_full_sync(rig.parts, CDRS)
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))
    made = rig.play("plain_answered")
    run_incremental_sync(rig.parts, CDRS)
    assert set(made["cdr_ids"]) <= set(rig.ids("cdrs"))


def test_an_empty_answer_by_mistake_loses_nothing_and_completes_nothing(rig):
    run_full_sync(rig.parts, CDRS)
    before, complete_at = rig.ids("cdrs"), rig.state("cdrs").complete_at
    rig.faults("empty@/cdrs")
    with pytest.raises(PlatformBroken, match="lists nothing"):
        run_full_sync(rig.parts, CDRS, restart=True)
    assert rig.ids("cdrs") == before
    assert rig.state("cdrs").complete_at == complete_at


def test_an_answer_without_a_total_is_no_page(rig, monkeypatch):
    real = rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        return pages.RecordPage(found.records, None)

    monkeypatch.setattr(rig.platform, "page", page)
    with pytest.raises(PlatformBroken, match="no total"):
        run_full_sync(rig.parts, CDRS)


def test_records_are_read_by_their_own_path_where_that_tells_more(rig):
    users = PLAN["users"]
    run_full_sync(rig.parts, users)
    items.read_due_items(rig.parts, users, Tally())
    assert rig.rows("SELECT count(*) FROM users WHERE _item IS NULL") == [(0,)]
    rig.forget_asked()
    items.read_due_items(rig.parts, users, Tally())
    assert len(rig.simulator.context.request_log) == 0
    number = rig.ids("users")[0]
    rig.records("users")[number]["first_name"] = "Renamed"
    run_full_sync(rig.parts, users)
    assert rig.asked(f"/users/{number}") == 1
    assert "Renamed" in rig.rows("SELECT _item FROM users WHERE id = ?", number)[0][0]


def test_a_webhook_is_not_kept_waiting_by_a_walk(rig, small_pages):
    """A write queued in the middle of a walk is done before the walk ends."""
    rig.add_cdrs(60)
    done, seen = threading.Event(), []

    def show(at, _total):
        if at == 7:
            rig.mirror_db.submit(lambda tx: done.set())
        elif at == 14:
            seen.append(done.is_set())

    run_full_sync(rig.parts, CDRS, Tally(show_progress=show))
    assert seen == [True]


def test_a_dictionary_that_is_cut_short_takes_no_place(rig, monkeypatch):
    codes = PLAN["cdrs/dictionaries"]
    run_full_sync(rig.parts, codes)
    before = rig.rows("SELECT _doc FROM cdrs_dictionaries")
    real = rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        del found.records[3:]
        return found

    monkeypatch.setattr(rig.platform, "page", page)
    with pytest.raises(PlatformBroken, match="3 records where"):
        run_full_sync(rig.parts, codes)
    assert rig.rows("SELECT _doc FROM cdrs_dictionaries") == before
