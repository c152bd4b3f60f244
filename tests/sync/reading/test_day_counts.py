from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError, PlatformRefused
from integration.mirror.sync_state import completeness as ledger
from integration.sync.plan import PLAN, growing
from integration.sync.reading import day_counts as coverage
from integration.sync.reading import windows
from integration.sync.reading.full_sync import walk
from tests.sync.conftest import CDRS


def line(rig, collection):
    with rig.mirror.read() as connection:
        (found,) = [line for line in ledger.ledger(connection) if line.collection == collection]
    return found


def days(rig, collection):
    with rig.mirror.read() as connection:
        return {day.day: day for day in ledger.days(connection, collection)}


def by_day(rig, collection):
    date, count = PLAN[collection].resource.date, {}
    for record in rig.records(collection).values():
        count[record[date][:10]] = count.get(record[date][:10], 0) + 1
    return count


def forget(rig, *keys):
    """Rows vanish from the mirror that nobody deleted."""
    rig.mirror.write(
        lambda tx: tx.executemany("DELETE FROM cdrs WHERE id = ?", [(key,) for key in keys]) and None
    )


@pytest.mark.parametrize("collection", [policy.collection for policy in growing()])
def test_every_day_of_a_collection_is_proved_by_the_platforms_own_count(rig, collection):
    policy = PLAN[collection]
    walk(rig.parts, policy)
    assert coverage.prove(rig.parts, policy) > 0
    told = days(rig, collection)
    for day, count in by_day(rig, collection).items():
        assert (told[day].total, told[day].ours) == (count, count)
        assert told[day].proved_at
    assert told[ledger.WHOLE].total == len(rig.records(collection))
    found = line(rig, collection)
    assert found.whole
    assert found.proved == found.days == len(told) - 1
    assert coverage.prove(rig.parts, policy) == 0, "nothing is due again at once"


def test_what_retention_let_go_is_no_gap(rig):
    counts = by_day(rig, "cdrs")
    newest, *older = sorted(counts, reverse=True)
    age = (clock.now().date() - datetime.fromisoformat(newest).date()).days
    retention = rig.parts.settings.retention.model_copy(update={"cdrs_days": age or 1})
    parts = replace(rig.parts, settings=rig.parts.settings.model_copy(update={"retention": retention}))
    walk(parts, CDRS)
    since = coverage.kept_since(parts, CDRS)
    # Some are gone already, others go at the end of the hour.
    forget(
        rig, *(key for key, record in rig.records("cdrs").items() if record["calldate"] < since and key % 2)
    )
    coverage.prove(parts, CDRS)
    told = days(rig, "cdrs")
    assert not [day for day in told if day < since[:10] and day != ledger.WHOLE]
    kept = sum(count for day, count in counts.items() if day >= since[:10])
    assert (told[ledger.WHOLE].total, told[ledger.WHOLE].ours) == (kept, kept)
    assert older, "nothing was too old; the test proves nothing"


def test_nothing_is_proved_before_all_of_it_was_read_once(rig):
    assert coverage.prove(rig.parts, CDRS) == 0
    assert days(rig, "cdrs") == {}


def test_a_day_with_a_gap_is_read_again(rig):
    walk(rig.parts, CDRS)
    lost = sorted(rig.records("cdrs"))[20:25]
    forget(rig, *lost)
    coverage.prove(rig.parts, CDRS)
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))
    day = days(rig, "cdrs")[rig.records("cdrs")[lost[0]]["calldate"][:10]]
    assert day.cause is None
    assert "records came" in day.repair
    assert line(rig, "cdrs").whole


def test_a_gap_that_stays_shows_with_its_cause(rig, later):
    walk(rig.parts, CDRS)
    key = sorted(rig.records("cdrs"))[30]
    day = rig.records("cdrs")[key]["calldate"][:10]
    del rig.records("cdrs")[key]
    coverage.prove(rig.parts, CDRS)
    gap = days(rig, "cdrs")[day]
    assert gap.ours == gap.total + 1
    assert "complete walk" in gap.cause
    assert gap.proved_at is None
    assert [found.day for found in line(rig, "cdrs").gaps] == [day, ledger.WHOLE]
    later(60)
    walk(rig.parts, CDRS)
    coverage.prove_day(rig.parts, CDRS, day, coverage.Tally())
    later(3601)
    coverage.prove(rig.parts, CDRS)
    assert line(rig, "cdrs").gaps == []
    assert days(rig, "cdrs")[day].proved_at


@pytest.mark.parametrize("fault", ["status=500", "html", "truncate", "malformed=json"])
def test_a_failed_run_counts_as_nothing(rig, later, fault):
    walk(rig.parts, CDRS)
    coverage.prove(rig.parts, CDRS)
    before = days(rig, "cdrs")
    later(3 * 86400)
    rig.faults(f"{fault}@/cdrs")
    with pytest.raises(PlatformError):
        coverage.prove(rig.parts, CDRS)
    assert days(rig, "cdrs") == before


def test_a_page_that_is_short_repairs_nothing_and_proves_nothing(rig, monkeypatch):
    walk(rig.parts, CDRS)
    day, count = max(by_day(rig, "cdrs").items(), key=lambda item: item[1])
    forget(rig, next(key for key, record in rig.records("cdrs").items() if record["calldate"][:10] == day))
    real = rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        if options.get("limit") != 1:
            del found.documents[1:2]
        return found

    monkeypatch.setattr(rig.platform, "page", page)
    assert count > 2
    with pytest.raises(PlatformBroken):
        coverage.prove_day(rig.parts, CDRS, day, coverage.Tally())
    assert days(rig, "cdrs") == {}


def test_where_dates_cannot_be_filtered_the_whole_is_proved(rig, monkeypatch):
    walk(rig.parts, CDRS)
    real = rig.platform.page

    def page(*args, filter=(), **options):
        if any(name == "calldate" for name, _, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(rig.platform, "page", page)
    assert coverage.prove(rig.parts, CDRS) == 1
    assert set(days(rig, "cdrs")) == {ledger.WHOLE}


def test_old_days_are_asked_for_rarely_and_no_run_asks_for_all():
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    first = coverage.due_days("2016-01-01 00:00:00", {}, now)
    assert len(first) == coverage.MOST_DAYS
    assert first[:2] == ["2026-11-20", "2026-11-19"]
    asked = dict.fromkeys(first, clock.stamp(now - timedelta(hours=2)))
    assert coverage.due_days("2026-10-01 00:00:00", asked, now) == ["2026-11-20", "2026-11-19"]
    asked = dict.fromkeys(first, clock.stamp(now - timedelta(days=2)))
    assert len(coverage.due_days("2026-09-25 00:00:00", asked, now)) == coverage.WARM_DAYS
    assert coverage.due_days(None, {}, now) == []


def test_a_window_of_more_than_a_page_is_halved(rig):
    rig.add_cdrs(50, calldate=clock.stamp(clock.unix() - 600))
    rig.add_cdrs(1, calldate=clock.stamp(clock.unix() - 3000))
    found = list(
        windows.closed(rig.platform, CDRS.resource, clock.now() - timedelta(days=400), clock.now(), limit=51)
    )
    keys = [document.values["id"] for window in found for document in window.documents]
    assert sorted(keys) == sorted(rig.records("cdrs"))
    assert len(found) > 3
    assert all(len(window.documents) == window.total <= 51 for window in found)
    newest = [max(d.values["calldate"] for d in w.documents) for w in found if w.documents]
    assert newest == sorted(newest, reverse=True)


def test_more_records_in_one_second_than_a_page_holds_are_told(rig):
    rig.add_cdrs(60, calldate="2026-10-01 10:00:00")
    lo = datetime(2026, 10, 1, 10, tzinfo=UTC)
    with pytest.raises(PlatformBroken):
        list(windows.closed(rig.platform, CDRS.resource, lo, lo + timedelta(seconds=1), limit=50))


def test_readyz_tells_how_complete_the_mirror_is(rig):
    walk(rig.parts, CDRS)
    coverage.prove(rig.parts, CDRS)
    coverage.tell(rig.parts)
    fact = rig.health.report()["facts"]["coverage"]
    assert fact["gaps"] == 0
    assert fact["days"] == fact["days_proved"] == len(days(rig, "cdrs")) - 1
    assert fact["proved_at"]
