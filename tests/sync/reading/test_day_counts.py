from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused
from integration.mirror.sync_state import completeness
from integration.sync.plan import PLAN, list_history_policies
from integration.sync.reading import day_counts
from integration.sync.reading.full_sync import run_full_sync

CDRS = PLAN["cdrs"]


def get_completeness(simulated, collection):
    with simulated.mirror_db.read() as connection:
        (found,) = [
            line for line in completeness.list_collections(connection) if line.collection == collection
        ]
    return found


def days(simulated, collection):
    with simulated.mirror_db.read() as connection:
        return {day.day: day for day in completeness.list_days(connection, collection)}


def count_by_day(simulated, collection):
    date, count = PLAN[collection].resource.date, {}
    for record in simulated.records(collection).values():
        count[record[date][:10]] = count.get(record[date][:10], 0) + 1
    return count


def delete_from_mirror(simulated, *keys):
    """Delete rows of `cdrs` from the mirror only."""
    simulated.mirror_db.write(
        lambda tx: tx.executemany("DELETE FROM cdrs WHERE id = ?", [(key,) for key in keys]) and None
    )


@pytest.mark.parametrize("collection", [policy.collection for policy in list_history_policies()])
def test_every_day_of_a_collection_is_verified_by_the_count_of_the_platform(simulated, collection):
    policy = PLAN[collection]
    run_full_sync(simulated.context, policy)
    while day_counts.verify_due_days(simulated.context, policy):
        pass
    counted = days(simulated, collection)
    for day, count in count_by_day(simulated, collection).items():
        assert (counted[day].total, counted[day].ours) == (count, count)
        assert counted[day].proved_at
    assert counted[completeness.ENTIRE_COLLECTION].total == len(simulated.records(collection))
    found = get_completeness(simulated, collection)
    assert found.complete_at
    assert found.differences == []
    assert found.verified_days == found.day_count == len(counted) - 1


def test_a_new_difference_is_checked_again_after_a_minute_and_only_then_a_problem(
    simulated, movable_clock, monkeypatch
):
    def verify(seconds):
        movable_clock.advance(seconds)
        day_counts.verify_due_days(simulated.context, CDRS)
        return days(simulated, "cdrs")[day]

    run_full_sync(simulated.context, CDRS)
    day, (key,) = pick_records_of_one_day(simulated, 1)
    with monkeypatch.context() as patch:
        leave_out_of_lists(simulated, patch, key)
        assert verify(60).recheck_at == clock.utc_text(clock.unix() + 60)
        assert simulated.context.sync_jobs.verify_completeness() == int(clock.unix()) + 61
    verify(61)
    assert get_completeness(simulated, "cdrs").differences == []
    leave_out_of_lists(simulated, monkeypatch, key)
    assert verify(86400).recheck_at
    verify(61)
    gaps = get_completeness(simulated, "cdrs").differences
    assert [(gap.day, gap.recheck_at) for gap in gaps] == [
        (day, None),
        (completeness.ENTIRE_COLLECTION, None),
    ]


def test_records_deleted_by_retention_are_no_gap(simulated):
    counts = count_by_day(simulated, "cdrs")
    newest, *older = sorted(counts, reverse=True)
    age = (clock.now().date() - datetime.fromisoformat(newest).date()).days
    retention = simulated.context.settings.retention.model_copy(update={"cdrs_days": age or 1})
    context = replace(
        simulated.context, settings=simulated.context.settings.model_copy(update={"retention": retention})
    )
    run_full_sync(context, CDRS)
    since = day_counts.retention_start(context, CDRS)
    # Retention has deleted some of them; the others are deleted at the end of the hour.
    delete_from_mirror(
        simulated,
        *(key for key, record in simulated.records("cdrs").items() if record["calldate"] < since and key % 2),
    )
    day_counts.verify_due_days(context, CDRS)
    counted = days(simulated, "cdrs")
    assert not [day for day in counted if day < since[:10] and day != completeness.ENTIRE_COLLECTION]
    kept = sum(count for day, count in counts.items() if day >= since[:10])
    assert (counted[completeness.ENTIRE_COLLECTION].total, counted[completeness.ENTIRE_COLLECTION].ours) == (
        kept,
        kept,
    )
    assert older, "no record is old enough for retention"


def test_no_day_is_counted_before_the_initial_sync(simulated):
    assert day_counts.verify_due_days(simulated.context, CDRS) == 0
    assert days(simulated, "cdrs") == {}


def test_a_day_with_missing_records_is_repaired(simulated):
    run_full_sync(simulated.context, CDRS)
    lost = sorted(simulated.records("cdrs"))[20:25]
    delete_from_mirror(simulated, *lost)
    day_counts.verify_due_days(simulated.context, CDRS)
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    day = days(simulated, "cdrs")[simulated.records("cdrs")[lost[0]]["calldate"][:10]]
    assert day.cause is None
    assert "records added" in day.repair
    assert get_completeness(simulated, "cdrs").differences == []


def leave_out_of_lists(simulated, monkeypatch, *keys):
    """Omit `keys` from lists and totals of CDRs.

    Their own paths still return them.
    """
    real = simulated.context.platform.page

    def page(collection, *, filter=(), **options):
        return real(collection, filter=[*filter, *(("id", "ne", key) for key in keys)], **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)


def list_missing(simulated):
    return [row[0] for row in simulated.rows("SELECT id FROM cdrs WHERE _missing_since IS NOT NULL")]


def pick_records_of_one_day(simulated, count):
    """The day with most records, and `count` of its ids.

    Its first record could have aged out and is left out.
    """
    day = max(count_by_day(simulated, "cdrs").items(), key=lambda item: item[1])[0]
    keys = [key for key, record in simulated.records("cdrs").items() if record["calldate"].startswith(day)]
    assert len(keys) > count + 1
    return day, keys[1 : count + 1]


def test_a_gap_that_cannot_be_repaired_has_a_cause(simulated, movable_clock, monkeypatch):
    """The record exists at its own path, so it is kept."""
    run_full_sync(simulated.context, CDRS)
    movable_clock.advance(60)
    day, (key,) = pick_records_of_one_day(simulated, 1)
    leave_out_of_lists(simulated, monkeypatch, key)
    simulated.clear_requests()
    day_counts.verify_due_days(simulated.context, CDRS)
    gap = days(simulated, "cdrs")[day]
    assert gap.ours == gap.total + 1
    assert "next full sync" in gap.cause
    assert gap.proved_at is None
    assert [found.day for found in get_completeness(simulated, "cdrs").differences] == [
        day,
        completeness.ENTIRE_COLLECTION,
    ]
    assert list_missing(simulated) == []
    assert simulated.count_requests(f"/cdrs/{key}") == 1
    monkeypatch.undo()
    movable_clock.advance(3601)
    day_counts.verify_day(simulated.context, CDRS, day, day_counts.Tally())
    day_counts.verify_due_days(simulated.context, CDRS)
    assert get_completeness(simulated, "cdrs").differences == []
    assert days(simulated, "cdrs")[day].proved_at


def test_a_deletion_is_confirmed_when_the_count_of_its_day_differs(simulated, movable_clock):
    run_full_sync(simulated.context, CDRS)
    movable_clock.advance(60)
    day, keys = pick_records_of_one_day(simulated, 20)
    for key in keys:
        del simulated.records("cdrs")[key]
    simulated.clear_requests()
    day_counts.verify_due_days(simulated.context, CDRS)
    assert list_missing(simulated) == sorted(keys)
    assert all(simulated.count_requests(f"/cdrs/{key}") == 1 for key in keys)
    assert days(simulated, "cdrs")[day].cause is None
    assert get_completeness(simulated, "cdrs").differences == []


def test_more_deletions_than_the_limit_are_left_to_the_full_sync(simulated, movable_clock):
    """21 of 69 records: more than 20 and more than 2 %."""
    run_full_sync(simulated.context, CDRS)
    day_counts.verify_due_days(simulated.context, CDRS)
    movable_clock.advance(3601)
    day, keys = pick_records_of_one_day(simulated, 21)
    for key in keys:
        del simulated.records("cdrs")[key]
    day_counts.verify_days(simulated.context, CDRS, [day], day_counts.Tally())
    assert list_missing(simulated) == []
    for _ in range(3):
        day_counts.verify_due_days(simulated.context, CDRS)
        movable_clock.advance(3601)
        assert list_missing(simulated) == []
        entire = days(simulated, "cdrs")[completeness.ENTIRE_COLLECTION]
        assert entire.ours == entire.total + 21
    run_full_sync(simulated.context, CDRS)
    assert simulated.state("cdrs").held == 21


def test_a_wave_of_deletions_in_many_days_reaches_the_limit(simulated, movable_clock):
    """One deletion on each of 25 days.

    Each day alone is far below the limit.
    """
    lost = [
        key
        for age in range(40, 65)
        for key in simulated.add_cdrs(2, calldate=clock.utc_text(clock.unix() - age * 86400))[:1]
    ]
    run_full_sync(simulated.context, CDRS)
    while day_counts.verify_due_days(simulated.context, CDRS):
        pass
    movable_clock.advance(3601)
    for key in lost:
        del simulated.records("cdrs")[key]
    simulated.clear_requests()
    for _ in range(3):
        day_counts.verify_due_days(simulated.context, CDRS)
        movable_clock.advance(3601)
    assert list_missing(simulated) == []
    assert simulated.count_requests("/cdrs") < 50


def test_a_known_gap_is_not_searched_at_every_comparison_of_the_total(simulated, movable_clock, monkeypatch):
    (key,) = simulated.add_cdrs(1, calldate=clock.utc_text(clock.unix() - 50 * 86400))
    run_full_sync(simulated.context, CDRS)
    while day_counts.verify_due_days(simulated.context, CDRS):
        pass
    leave_out_of_lists(simulated, monkeypatch, key)

    def count_requests_of_a_run():
        movable_clock.advance(3601)
        simulated.clear_requests()
        day_counts.verify_due_days(simulated.context, CDRS)
        return simulated.count_requests("/cdrs")

    first, second = count_requests_of_a_run(), count_requests_of_a_run()
    assert first > second + 5
    assert second < 12


@pytest.mark.parametrize("fault", ["status=500", "html", "truncate", "malformed=json"])
def test_a_failed_count_changes_no_day(simulated, movable_clock, fault):
    run_full_sync(simulated.context, CDRS)
    day_counts.verify_due_days(simulated.context, CDRS)
    before = days(simulated, "cdrs")
    movable_clock.advance(3 * 86400)
    simulated.faults(f"{fault}@/cdrs")
    with pytest.raises(PlatformError):
        day_counts.verify_due_days(simulated.context, CDRS)
    assert days(simulated, "cdrs") == before


def test_without_a_date_filter_only_the_entire_collection_is_counted(simulated, monkeypatch):
    run_full_sync(simulated.context, CDRS)
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if any(name == "calldate" for name, _, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    assert day_counts.verify_due_days(simulated.context, CDRS) == 1
    assert set(days(simulated, "cdrs")) == {completeness.ENTIRE_COLLECTION}


def test_old_days_are_due_rarely_and_each_run_is_limited():
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    first = day_counts.list_due_days("2016-01-01 00:00:00", {}, now)
    assert len(first) == day_counts.MAX_DAYS_PER_RUN
    assert first[:2] == ["2026-11-20", "2026-11-19"]
    counted_at = dict.fromkeys(first, clock.utc_text(now - timedelta(hours=2)))
    assert day_counts.list_due_days("2026-10-01 00:00:00", counted_at, now) == ["2026-11-20", "2026-11-19"]
    counted_at = dict.fromkeys(first, clock.utc_text(now - timedelta(days=2)))
    assert (
        len(day_counts.list_due_days("2026-09-25 00:00:00", counted_at, now)) == day_counts.DAILY_CHECK_DAYS
    )
    assert day_counts.list_due_days(None, {}, now) == []
