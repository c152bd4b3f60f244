"""Schedules with one Parquet file per month."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from integration.exports import jobs
from tests.support.clock import Clock
from tests.support.people import BOB
from tests.support.scheduled_exports import ScheduledExports

# In the extra `parquet`, which the suite does not install.
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.exhaustive

SEPTEMBER, OCTOBER, NOVEMBER = "month=2026-09", "month=2026-10", "month=2026-11"


@pytest.fixture
def lake(exporting: ScheduledExports, movable_clock: Clock) -> ScheduledExports:
    """CDRs of three months, exported by month at 2:30 in Berlin."""
    exporting.schedule("Lake", form="parquet", args={"columns": "id,calldate,src", "partition_by": "month"})
    exporting.put_cdrs("2026-09-30 12:00:00", "2026-10-01 12:00:00", "2026-11-18 12:00:00")
    movable_clock.set("2026-11-19 03:00:00")
    exporting.finish_sync()
    return exporting


def list_files(lake: ScheduledExports) -> dict[str, list[int]]:
    """Ids of the CDRs in each file, by path."""
    base = lake.data_dir / "exports"
    return {
        str(path.relative_to(base)): pyarrow.parquet.read_table(path).column("id").to_pylist()
        for path in sorted(base.rglob("*"))
        if path.is_file()
    }


def find_file(lake: ScheduledExports, month: str) -> Path:
    return lake.data_dir / "exports" / "lake" / month / "part-0.parquet"


def deliver_next_night(lake: ScheduledExports, clock: Clock) -> tuple[str, str]:
    """Run the next night.

    Returns state and result of its last attempt, without the folder.
    """
    clock.advance(days=1)
    lake.finish_sync()
    return deliver(lake)


def deliver(lake: ScheduledExports) -> tuple[str, str]:
    lake.deliver()
    with lake.app_db.read() as connection:
        (schedule,) = jobs.list_schedules(connection)
    _, state, result = lake.attempts(schedule)[-1]
    return state, result.replace(f" ({lake.data_dir}/exports/lake)", "")


def test_each_night_writes_only_the_months_that_changed(lake: ScheduledExports, movable_clock: Clock) -> None:
    assert deliver(lake) == ("delivered", "written: 2026-09, 2026-10, 2026-11")
    assert list_files(lake) == {
        "lake/month=2026-09/part-0.parquet": [1],
        "lake/month=2026-10/part-0.parquet": [2],
        "lake/month=2026-11/part-0.parquet": [3],
    }
    assert deliver_next_night(lake, movable_clock) == ("delivered", "no month has changed")

    unchanged = [os.stat(find_file(lake, month)) for month in (SEPTEMBER, NOVEMBER)]
    lake.put_cdrs("2026-10-31 23:59:59", first=4)
    assert deliver_next_night(lake, movable_clock) == ("delivered", "written: 2026-10")
    assert list_files(lake)["lake/month=2026-10/part-0.parquet"] == [2, 4]
    assert [os.stat(find_file(lake, month)) for month in (SEPTEMBER, NOVEMBER)] == unchanged

    lake.put("cdrs", {"id": 1, "calldate": "2026-09-30 12:00:00", "src": "erased"}, complete=False)
    assert deliver_next_night(lake, movable_clock) == ("delivered", "written: 2026-09")
    assert pyarrow.parquet.read_table(find_file(lake, SEPTEMBER)).column("src").to_pylist() == ["erased"]


def test_a_missing_or_damaged_file_is_written(lake: ScheduledExports, movable_clock: Clock) -> None:
    deliver(lake)
    find_file(lake, SEPTEMBER).unlink()
    find_file(lake, OCTOBER).write_bytes(b"PAR1 damaged PAR1")
    assert deliver_next_night(lake, movable_clock) == ("delivered", "written: 2026-09, 2026-10")
    assert list(list_files(lake).values()) == [[1], [2], [3]]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "stop"]
)
def test_an_interrupted_write_leaves_the_old_file(
    lake: ScheduledExports, movable_clock: Clock, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    deliver(lake)
    before = find_file(lake, OCTOBER).read_bytes()
    lake.put_cdrs("2026-10-02 12:00:00", first=4)

    def write_half(source: Any, target: Any, _size: int) -> None:
        target.write(source.read(100))
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(shutil, "copyfileobj", write_half)
        if isinstance(error, OSError):
            state, result = deliver_next_night(lake, movable_clock)
            assert state == "failed"
            assert result.endswith("month=2026-10/part-0.parquet cannot be written: No space left on device.")
        else:
            with pytest.raises(KeyboardInterrupt):
                deliver_next_night(lake, movable_clock)
    assert find_file(lake, OCTOBER).read_bytes() == before
    assert [path.name for path in find_file(lake, OCTOBER).parent.iterdir()] == ["part-0.parquet"]
    movable_clock.advance(minutes=10)
    assert deliver(lake) == ("delivered", "written: 2026-10")
    assert list_files(lake)["lake/month=2026-10/part-0.parquet"] == [2, 4]


def test_a_month_with_missing_records_keeps_its_file(lake: ScheduledExports, movable_clock: Clock) -> None:
    deliver(lake)
    lake.mirror_db.write(lambda tx: tx.execute("DELETE FROM cdrs WHERE id IN (1, 2)"))
    lake.put_cdrs("2026-10-03 12:00:00", "2026-11-18 13:00:00", first=4)
    movable_clock.advance(days=1)
    lake.finish_sync()
    lake.count_day("2026-09-30", total=1, mirrored=0)
    lake.count_day("2026-10-01", total=1, mirrored=0)
    lake.deliver()
    assert list(list_files(lake).values()) == [[1], [2], [3]], "the schedule waits for six hours"
    movable_clock.advance(hours=7)
    assert deliver(lake) == ("incomplete", "written: 2026-11; incomplete, not changed: 2026-10")
    assert list(list_files(lake).values()) == [[1], [2], [3, 5]]
    lake.put_cdrs("2026-09-30 12:00:00", "2026-10-01 12:00:00")
    lake.count_day("2026-09-30", total=1, mirrored=1)
    lake.count_day("2026-10-01", total=1, mirrored=1)
    assert deliver(lake) == ("delivered", "written: 2026-10")
    assert list(list_files(lake).values()) == [[1], [2, 4], [3, 5]]


def test_the_file_of_a_month_without_records_is_removed(lake: ScheduledExports, movable_clock: Clock) -> None:
    deliver(lake)
    foreign = lake.data_dir / "exports" / "lake" / "month=2020-01" / "part-0.parquet"
    foreign.parent.mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"id": [7]}), foreign)
    lake.mirror_db.write(lambda tx: tx.execute("DELETE FROM cdrs WHERE id = 1"))
    assert deliver_next_night(lake, movable_clock) == ("delivered", "removed: 2026-09")
    assert not find_file(lake, SEPTEMBER).parent.exists()
    assert list(list_files(lake).values()) == [[7], [2], [3]]


def test_the_form_offers_files_by_month(exporting: ScheduledExports) -> None:
    browser = exporting.log_in(BOB)
    form = {
        "export": "call-history", "name": "Lake", "form": "parquet-by-month", "every": "day", "at": "02:30",
        "zone": "Europe/Berlin", "target": "folder", "place": "", "wait_hours": "6",
        "otherwise": "incomplete",
    }  # fmt: skip
    assert "-by-month" not in browser.get("/exports/schedules/new?export=users").text
    refused = browser.post(
        "/exports/schedules/new", **{**form, "target": "put", "place": "https://a.example/x"}
    )
    assert "Files by month need a folder." in refused.text
    page = browser.post("/exports/schedules/new", **form)
    assert '<option value="parquet-by-month" selected>Parquet by month</option>' in page.text
    assert "update the complete months" in page.text
    with exporting.app_db.read() as connection:
        (schedule,) = jobs.list_schedules(connection)
    assert (schedule.form, schedule.is_by_month) == ("parquet", True)
