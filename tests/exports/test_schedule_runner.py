"""Schedules: one delivery of each complete period, despite failures."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

from integration.access import audit, people
from integration.exports import jobs
from integration.workspace import saved
from tests.support.clock import Clock
from tests.support.harness import wait_for
from tests.support.people import BOB
from tests.support.scheduled_exports import ScheduledExports
from tests.support.scripted_server import Server


def make_complete(exporting: ScheduledExports, *days: str) -> None:
    """Store equal counts of UTC `days`, then end a full sync."""
    for day in days:
        exporting.count_day(day)
    exporting.finish_sync()


def test_local_day_is_delivered_once_in_the_zone_of_the_schedule(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule()
    # Berlin's 18 November is from 23:00 UTC the day before.
    exporting.put_cdrs(
        "2026-11-17 22:59:59", "2026-11-17 23:00:00", "2026-11-18 22:59:59", "2026-11-18 23:00:00"
    )
    movable_clock.set("2026-11-19 01:29:00")
    make_complete(exporting, "2026-11-17", "2026-11-18")
    exporting.deliver()
    assert exporting.exported_files() == {}, "before 2:30 in Berlin"
    movable_clock.advance(minutes=1)
    for _ in range(3):
        exporting.deliver()
        exporting.restart()
    lines = ['"id","calldate"', '2,"2026-11-18 00:00:00"', '3,"2026-11-18 23:59:59"', ""]
    assert exporting.exported_files() == {"every-day-2026-11-18.csv": "\r\n".join(lines)}
    assert [line[:2] for line in exporting.attempts(schedule)] == [("2026-11-18", "delivered")]
    entry = audit.list_newest(exporting.app_db)[0]
    assert (entry.who, entry.what, entry.about) == (
        "schedule Every day",
        "export",
        "every-day-2026-11-18.csv",
    )
    with exporting.app_db.read() as connection:
        (attempt,) = jobs.list_attempts(connection, schedule.id)
    assert (attempt.rows, attempt.bytes) == (2, 67)


def test_incomplete_period_is_delivered_after_the_wait_and_repeated_when_complete(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule()
    exporting.put_cdrs("2026-11-18 10:00:00")
    movable_clock.set("2026-11-19 01:31:00")
    exporting.finish_sync()
    exporting.count_day("2026-11-17")
    movable_clock.advance(minutes=1)
    exporting.count_day("2026-11-18", total=2, mirrored=1)
    exporting.deliver()
    movable_clock.set("2026-11-19 07:29:00")
    exporting.deliver()
    assert exporting.exported_files() == {}, "six hours have not passed"
    with exporting.app_db.read() as connection:
        (run,) = [run for run in jobs.list_open_runs(connection, schedule.id) if run.period == "2026-11-18"]
    assert run.waits_for == "/cdrs on 2026-11-18: 1 of 2 records are here"
    assert exporting.runner.describe_failures() is None

    movable_clock.set("2026-11-19 07:31:00")
    exporting.deliver()
    exporting.deliver()
    assert list(exporting.exported_files()) == ["every-day-2026-11-18-incomplete.csv"]
    exporting.put_cdrs("2026-11-18 11:00:00", first=2)
    exporting.count_day("2026-11-18", total=2, mirrored=2)
    exporting.deliver()
    exporting.deliver()
    assert exporting.exported_files()["every-day-2026-11-18.csv"].count("\r\n") == 3
    assert [line[1] for line in exporting.attempts(schedule)] == ["incomplete", "delivered"]


def test_schedule_for_complete_periods_waits_and_reports_the_delay(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule(incomplete=False)
    movable_clock.set("2026-11-19 01:31:00")
    exporting.deliver()
    assert exporting.runner.describe_failures() is None
    movable_clock.set("2026-11-19 08:00:00")
    exporting.deliver()
    assert exporting.exported_files() == {}
    assert (exporting.runner.describe_failures() or "").startswith(
        "Every day: 2026-11-18 waits for its records: /cdrs"
    )
    make_complete(exporting, "2026-11-17", "2026-11-18")
    exporting.deliver()
    assert exporting.runner.describe_failures() is None
    assert [line[1] for line in exporting.attempts(schedule)] == ["delivered"]


def test_waiting_period_does_not_block_later_periods(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule(incomplete=False)
    movable_clock.set("2026-11-20 12:00:00")
    # A full sync after the count does not close the gap.
    exporting.count_day("2026-11-18", total=9, mirrored=8)
    exporting.finish_sync()
    exporting.count_day("2026-11-19")
    exporting.put_cdrs("2026-11-19 10:00:00")
    exporting.deliver()
    assert [line[:2] for line in exporting.attempts(schedule)] == []
    movable_clock.set("2026-11-21 12:00:00")
    make_complete(exporting, "2026-11-19", "2026-11-20")
    exporting.deliver()
    assert [line[:2] for line in exporting.attempts(schedule)] == [("2026-11-20", "delivered")]


def test_crash_after_delivery_repeats_it_under_the_same_name(
    exporting: ScheduledExports, movable_clock: Clock, server: Server
) -> None:
    schedule = exporting.schedule(target="put", place=f"{server.url}/in")
    movable_clock.set("2026-11-19 01:31:00")
    make_complete(exporting, "2026-11-17", "2026-11-18")
    exporting.crash_after_delivery()
    exporting.restart()
    exporting.deliver()
    assert len(server.requests) == 1, "not repeated at once, because it may crash the process again"
    movable_clock.advance(minutes=2)
    exporting.deliver()
    exporting.deliver()
    assert [request.path for request in server.requests] == ["/in/every-day-2026-11-18.csv"] * 2
    assert [line[1] for line in exporting.attempts(schedule)] == ["delivered"]


def test_failed_delivery_is_retried_with_growing_gaps_and_reported(
    exporting: ScheduledExports, movable_clock: Clock, server: Server
) -> None:
    schedule = exporting.schedule(target="put", place=f"{server.url}/in")
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 503)
    movable_clock.set("2026-11-19 01:31:00")
    make_complete(exporting, "2026-11-17", "2026-11-18")
    tried = []
    begun = movable_clock.unix()
    while len(tried) < 6:
        before = len(server.requests)
        exporting.deliver()
        if len(server.requests) > before:
            tried.append(movable_clock.unix() - begun)
        movable_clock.advance(minutes=1)
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert gaps == sorted(gaps)
    assert gaps[0] <= 120
    assert 3600 * 2 < gaps[-1] < 3600 * 4
    assert exporting.runner.describe_failures() == "Every day: 127.0.0.1 returned 503"
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 204)
    jobs.save_schedule(exporting.app_db, schedule)
    exporting.deliver()
    assert exporting.runner.describe_failures() is None, "saving the schedule retries at once"
    assert [line[1] for line in exporting.attempts(schedule)] == ["failed"] * 6 + ["delivered"]


def test_hanging_target_does_not_block_other_schedules(
    exporting: ScheduledExports, movable_clock: Clock, server: Server
) -> None:
    end_request = threading.Event()

    def hang(request: Any, reply: Any) -> None:
        end_request.wait(60)
        reply.content(b"", "text/plain", 500)

    server.routes["*"] = hang
    exporting.schedule("Hangs", target="put", place=f"{server.url}/in")
    exporting.schedule("Works")
    movable_clock.set("2026-11-19 01:31:00")
    make_complete(exporting, "2026-11-17", "2026-11-18")
    exporting.runner.run()
    exporting.runner.run()
    wait_for(
        lambda: list(exporting.exported_files()) == ["works-2026-11-18.csv"], "the file of the other schedule"
    )
    assert not exporting.runner.describe_failures()
    end_request.set()
    wait_for(exporting.runner.describe_failures, "the failure to show")
    assert exporting.runner.describe_failures() == "Hangs: 127.0.0.1 returned 500"
    assert len(server.requests) == 1, "the second run started no second delivery"


def test_after_an_outage_31_days_are_delivered_oldest_first(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule()
    movable_clock.set("2026-12-29 12:00:00")
    exporting.finish_sync()
    exporting.deliver()
    log = exporting.attempts(schedule)
    assert log[0][:2] == ("2026-11-27", "skipped")
    assert [line[0] for line in log[1:]] == sorted(line[0] for line in log[1:])
    assert (len(log), log[1][0], log[-1][0]) == (32, "2026-11-28", "2026-12-28")
    exporting.deliver()
    assert len(exporting.attempts(schedule)) == 32, "a skipped period is recorded once"


def test_collection_without_dates_is_exported_completely_once(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule(export="users", args={"columns": "id"})
    movable_clock.set("2026-11-24 12:00:00")
    exporting.put("users", {"id": 3, "created_at": "2020-01-01 00:00:00"})
    exporting.finish_sync("users")
    exporting.deliver()
    assert exporting.exported_files() == {"every-day-2026-11-23.csv": '"id"\r\n3\r\n'}
    assert [line[:2] for line in exporting.attempts(schedule)] == [
        ("2026-11-22", "skipped"),
        ("2026-11-23", "delivered"),
    ]


def test_weekly_and_monthly_schedules_deliver_their_periods(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    exporting.schedule("Weeks", every="week")
    exporting.schedule("Months", every="month", form="jsonl")
    movable_clock.set("2026-12-01 12:00:00")
    exporting.finish_sync()
    exporting.deliver()
    assert list(exporting.exported_files()) == [
        "months-2026-11.jsonl",
        "weeks-2026-W47.csv",
        "weeks-2026-W48.csv",
    ]


def test_schedule_uses_the_saved_column_set_and_fails_without_it(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    boss = people.find(exporting.app_db, BOB.email)
    assert boss is not None
    saved.save(exporting.app_db, saved.COLUMN_SETS, "cdrs", boss.id, "Short", "src,id", shared=False)
    schedule = exporting.schedule(args={"set": "Short"})
    exporting.put_cdrs("2026-11-18 10:00:00")
    movable_clock.set("2026-11-19 12:00:00")
    exporting.finish_sync()
    exporting.deliver()
    assert exporting.exported_files() == {"every-day-2026-11-18.csv": '"src","id"\r\n"1",1\r\n'}
    with exporting.app_db.read() as connection:
        (kept,) = saved.all_of(connection, saved.COLUMN_SETS, "cdrs", boss.id)
    saved.remove(exporting.app_db, saved.COLUMN_SETS, kept.id, boss.id)
    movable_clock.set("2026-11-20 12:00:00")
    exporting.finish_sync()
    exporting.deliver()
    assert "no column set 'Short'" in exporting.attempts(schedule)[1][2], (
        "no other columns are delivered instead"
    )


def test_paused_schedule_delivers_nothing_and_resumes_with_new_periods(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule()
    jobs.pause(exporting.app_db, schedule.id)
    movable_clock.set("2026-11-20 12:00:00")
    exporting.finish_sync()
    exporting.deliver()
    assert exporting.exported_files() == {}
    jobs.resume(exporting.app_db, schedule.id)
    exporting.deliver()
    assert exporting.exported_files() == {}
    movable_clock.set("2026-11-21 12:00:00")
    exporting.finish_sync()
    exporting.deliver()
    assert list(exporting.exported_files()) == ["every-day-2026-11-20.csv"]


def test_an_open_period_from_before_a_pause_is_skipped_when_it_is_too_old(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule(export="users", args={"columns": "id"}, incomplete=False)
    exporting.put("users", {"id": 3})
    movable_clock.set("2026-11-19 12:00:00")
    exporting.deliver()
    jobs.pause(exporting.app_db, schedule.id)
    movable_clock.set("2026-11-24 12:00:00")
    jobs.resume(exporting.app_db, schedule.id)
    movable_clock.set("2026-11-25 12:00:00")
    exporting.finish_sync("users")
    exporting.deliver()
    assert [line[:2] for line in exporting.attempts(schedule)] == [
        ("2026-11-23", "skipped"),
        ("2026-11-24", "delivered"),
    ]
    assert list(exporting.exported_files()) == ["every-day-2026-11-24.csv"]


def test_run_now_delivers_the_last_period_without_waiting_for_completeness(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule()
    exporting.put_cdrs("2026-11-17 10:00:00")
    jobs.request_redelivery(exporting.app_db, schedule.id, "2026-11-17")
    exporting.deliver()
    assert list(exporting.exported_files()) == ["every-day-2026-11-17-incomplete.csv"], (
        "without waiting for completeness"
    )
    make_complete(exporting, "2026-11-16", "2026-11-17")
    jobs.request_redelivery(exporting.app_db, schedule.id, "2026-11-17")
    exporting.deliver()
    exporting.deliver()
    assert [line[1] for line in exporting.attempts(schedule)] == ["incomplete", "delivered"]


def test_schedule_fails_without_the_right_or_role_of_its_owner(
    exporting: ScheduledExports, movable_clock: Clock
) -> None:
    schedule = exporting.schedule()
    movable_clock.set("2026-11-19 01:31:00")
    make_complete(exporting, "2026-11-17", "2026-11-18")
    people.change(exporting.app_db, BOB.email, rights={"export": False})
    exporting.deliver()
    assert exporting.exported_files() == {}
    assert "right “export”" in exporting.attempts(schedule)[0][2]
    people.create(exporting.app_db, "next@example.com", "admin")
    people.remove(exporting.app_db, BOB.email)
    movable_clock.advance(hours=1)
    exporting.deliver()
    assert "no longer has the role supervisor" in exporting.attempts(schedule)[1][2]
    assert "no longer has the role supervisor" in (exporting.runner.describe_failures() or "")
    exporting.add(BOB)
    movable_clock.advance(hours=1)
    exporting.deliver()
    assert exporting.attempts(schedule)[2][1] == "failed", "another user with the address of the owner"
