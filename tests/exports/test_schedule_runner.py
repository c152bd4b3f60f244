"""Schedules: each period once, when it is complete, whatever breaks on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from integration.access import audit, people
from integration.exports import deliveries, schedules
from integration.workspace import saved
from tests.support.applications.export_schedules import BOSS, Clock, Room
from tests.support.harness import wait_for
from tests.support.scripted_server import Server


@pytest.fixture
def room(tmp_path: Path, time: Clock) -> Iterator[Room]:
    room = Room(tmp_path, time)
    yield room
    room.close()


def complete(room: Room, *days: str) -> None:
    """These UTC days are compared just now, and the collection was read."""
    for day in days:
        room.counted(day)
    room.walked()


def test_the_local_day_is_delivered_once_in_the_schedules_zone(room: Room, time: Clock) -> None:
    schedule = room.schedule()
    # Berlin's 18 November is from 23:00 UTC the day before.
    room.cdrs("2026-11-17 22:59:59", "2026-11-17 23:00:00", "2026-11-18 22:59:59", "2026-11-18 23:00:00")
    time.set("2026-11-19 01:29:00")
    complete(room, "2026-11-17", "2026-11-18")
    room.deliver()
    assert room.files() == {}, "it is not 2:30 in Berlin yet"
    time.on(minutes=1)
    for _ in range(3):
        room.deliver()
        room.restart()
    lines = ['"id","calldate"', '2,"2026-11-18 00:00:00"', '3,"2026-11-18 23:59:59"', ""]
    assert room.files() == {"every-day-2026-11-18.csv": "\r\n".join(lines)}
    assert [line[:2] for line in room.log(schedule)] == [("2026-11-18", "delivered")]
    entry = audit.list_newest(room.app_db)[0]
    assert (entry.who, entry.what, entry.about) == (
        "schedule Every day",
        "export",
        "every-day-2026-11-18.csv",
    )
    with room.app_db.read() as connection:
        (attempt,) = deliveries.list_attempts(connection, schedule.id)
    assert (attempt.rows, attempt.bytes) == (2, 67)


def test_over_both_changes_of_the_clocks_each_local_day_comes_once(room: Room, time: Clock) -> None:
    """At 2:30, which one Sunday has not and another has twice."""
    for begin, end, days in (
        ("2026-03-28 12:00:00", "2026-03-30 03:00:00", ["28", "29"]),
        ("2026-10-24 12:00:00", "2026-10-26 03:00:00", ["24", "25"]),
    ):
        month = begin[:7]
        time.set(begin)
        schedule = room.schedule(f"Around {month}")
        stop = Clock(end)()
        while time() < stop:
            time.on(hours=1)
            room.walked()
            room.deliver(schedule)
        assert [line[:2] for line in room.log(schedule)] == [(f"{month}-{day}", "delivered") for day in days]


def test_it_waits_for_the_ledger_then_delivers_what_is_there_and_the_rest_later(
    room: Room, time: Clock
) -> None:
    schedule = room.schedule()
    room.cdrs("2026-11-18 10:00:00")
    time.set("2026-11-19 01:31:00")
    room.walked()
    room.counted("2026-11-17")
    time.on(minutes=1)
    room.counted("2026-11-18", total=2, ours=1)
    room.deliver()
    time.set("2026-11-19 07:29:00")
    room.deliver()
    assert room.files() == {}, "six hours are not over"
    with room.app_db.read() as connection:
        standing = deliveries.load_period_states(connection, schedule.id)["2026-11-18"]
    assert standing.waits_for == "/cdrs on 2026-11-18: 1 of 2 records are here"
    assert room.schedules.describe_failures() is None

    time.set("2026-11-19 07:31:00")
    room.deliver()
    room.deliver()
    assert list(room.files()) == ["every-day-2026-11-18-incomplete.csv"]
    room.cdrs("2026-11-18 11:00:00", first=2)
    room.counted("2026-11-18", total=2, ours=2)
    room.deliver()
    room.deliver()
    assert room.files()["every-day-2026-11-18.csv"].count("\r\n") == 3
    assert [line[1] for line in room.log(schedule)] == ["incomplete", "delivered"]


def test_or_it_keeps_waiting_and_says_so(room: Room, time: Clock) -> None:
    schedule = room.schedule(incomplete=False)
    time.set("2026-11-19 01:31:00")
    room.deliver()
    assert room.schedules.describe_failures() is None
    time.set("2026-11-19 08:00:00")
    room.deliver()
    assert room.files() == {}
    assert (room.schedules.describe_failures() or "").startswith(
        "Every day: 2026-11-18 waits for its records: /cdrs"
    )
    complete(room, "2026-11-17", "2026-11-18")
    room.deliver()
    assert room.schedules.describe_failures() is None
    assert [line[1] for line in room.log(schedule)] == ["delivered"]


def test_one_that_waits_holds_up_no_later_one(room: Room, time: Clock) -> None:
    schedule = room.schedule(incomplete=False)
    time.set("2026-11-20 12:00:00")
    # What the platform counted and we lack is lacking, whatever was walked since.
    room.counted("2026-11-18", total=9, ours=8)
    room.walked()
    room.counted("2026-11-19")
    room.cdrs("2026-11-19 10:00:00")
    room.deliver()
    assert [line[:2] for line in room.log(schedule)] == []
    time.set("2026-11-21 12:00:00")
    complete(room, "2026-11-19", "2026-11-20")
    room.deliver()
    assert [line[:2] for line in room.log(schedule)] == [("2026-11-20", "delivered")]


def test_a_crash_between_delivery_and_mark_repeats_it_under_the_same_name(
    room: Room, time: Clock, server: Server
) -> None:
    schedule = room.schedule(target="put", place=f"{server.url}/in")
    time.set("2026-11-19 01:31:00")
    complete(room, "2026-11-17", "2026-11-18")
    room.crash_after_delivery()
    room.restart()
    room.deliver()
    assert len(server.requests) == 1, "not at once: what crashed us may do so again"
    time.on(minutes=2)
    room.deliver()
    room.deliver()
    assert [request.path for request in server.requests] == ["/in/every-day-2026-11-18.csv"] * 2
    assert [line[1] for line in room.log(schedule)] == ["delivered"]


def test_a_failure_is_tried_again_with_growing_gaps_and_shows(
    room: Room, time: Clock, server: Server
) -> None:
    schedule = room.schedule(target="put", place=f"{server.url}/in")
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 503)
    time.set("2026-11-19 01:31:00")
    complete(room, "2026-11-17", "2026-11-18")
    tried = []
    begun = time()
    while len(tried) < 6:
        before = len(server.requests)
        room.deliver()
        if len(server.requests) > before:
            tried.append(time() - begun)
        time.on(minutes=1)
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert gaps == sorted(gaps)
    assert gaps[0] <= 120
    assert 3600 * 2 < gaps[-1] < 3600 * 4
    assert room.schedules.describe_failures() == "Every day: 127.0.0.1 answered 503"
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 204)
    schedules.change(room.app_db, schedule)
    room.deliver()
    assert room.schedules.describe_failures() is None, "saving it tries again at once"
    assert [line[1] for line in room.log(schedule)] == ["failed"] * 6 + ["delivered"]


def test_a_target_that_is_down_is_not_asked_for_each_period(room: Room, time: Clock, server: Server) -> None:
    room.schedule(target="put", place=f"{server.url}/in")
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 503)
    time.set("2026-11-24 12:00:00")
    room.walked()
    for _ in range(3):
        room.deliver()
    assert len(server.requests) == 1
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 200)
    time.on(minutes=2)
    room.deliver()
    assert [request.path[-14:-4] for request in server.requests[1:]] == [
        f"2026-11-{day}" for day in range(18, 24)
    ]


def test_one_that_hangs_blocks_no_other(room: Room, time: Clock, server: Server) -> None:
    let_go = threading.Event()

    def hang(request: Any, reply: Any) -> None:
        let_go.wait(60)
        reply.content(b"", "text/plain", 500)

    server.routes["*"] = hang
    room.schedule("Hangs", target="put", place=f"{server.url}/in")
    room.schedule("Works")
    time.set("2026-11-19 01:31:00")
    complete(room, "2026-11-17", "2026-11-18")
    room.schedules.run()
    room.schedules.run()
    wait_for(lambda: list(room.files()) == ["works-2026-11-18.csv"], "the other one's file")
    assert not room.schedules.describe_failures()
    let_go.set()
    wait_for(room.schedules.describe_failures, "the failure to show")
    assert room.schedules.describe_failures() == "Hangs: 127.0.0.1 answered 500"
    assert len(server.requests) == 1, "the second look began nothing twice"


def test_after_an_outage_of_the_box_31_days_are_caught_up_the_oldest_first(room: Room, time: Clock) -> None:
    schedule = room.schedule()
    time.set("2026-12-29 12:00:00")
    room.walked()
    room.deliver()
    log = room.log(schedule)
    assert log[0][:2] == ("2026-11-27", "skipped")
    assert [line[0] for line in log[1:]] == sorted(line[0] for line in log[1:])
    assert (len(log), log[1][0], log[-1][0]) == (32, "2026-11-28", "2026-12-28")
    room.deliver()
    assert len(room.log(schedule)) == 32, "skipped is said once"


def test_settings_are_exported_whole_as_they_are_now(room: Room, time: Clock) -> None:
    schedule = room.schedule(export="users", args={"columns": "id"})
    time.set("2026-11-24 12:00:00")
    room.put("users", {"id": 3, "created_at": "2020-01-01 00:00:00"})
    room.walked("users")
    room.deliver()
    assert room.files() == {"every-day-2026-11-23.csv": '"id"\r\n3\r\n'}
    assert [line[:2] for line in room.log(schedule)] == [
        ("2026-11-22", "skipped"),
        ("2026-11-23", "delivered"),
    ]


def test_weeks_and_months(room: Room, time: Clock) -> None:
    room.schedule("Weeks", every="week")
    room.schedule("Months", every="month", form="jsonl")
    time.set("2026-12-01 12:00:00")
    room.walked()
    room.deliver()
    assert list(room.files()) == ["months-2026-11.jsonl", "weeks-2026-W47.csv", "weeks-2026-W48.csv"]


def test_a_saved_column_set_is_followed(room: Room, time: Clock) -> None:
    boss = people.find(room.app_db, BOSS)
    assert boss is not None
    saved.save(room.app_db, saved.COLUMN_SETS, "cdrs", boss.id, "Short", "src,id", shared=False)
    schedule = room.schedule(args={"set": "Short"})
    room.cdrs("2026-11-18 10:00:00")
    time.set("2026-11-19 12:00:00")
    room.walked()
    room.deliver()
    assert room.files() == {"every-day-2026-11-18.csv": '"src","id"\r\n"1",1\r\n'}
    with room.app_db.read() as connection:
        (kept,) = saved.all_of(connection, saved.COLUMN_SETS, "cdrs", boss.id)
    saved.remove(room.app_db, saved.COLUMN_SETS, kept.id, boss.id)
    time.set("2026-11-20 12:00:00")
    room.walked()
    room.deliver()
    assert "no column set called 'Short'" in room.log(schedule)[1][2], "rather than other columns in silence"


def test_paused_it_delivers_nothing_and_goes_on_with_what_comes(room: Room, time: Clock) -> None:
    schedule = room.schedule()
    schedules.pause(room.app_db, schedule.id)
    time.set("2026-11-20 12:00:00")
    room.walked()
    room.deliver()
    assert room.files() == {}
    schedules.resume(room.app_db, schedule.id)
    room.deliver()
    assert room.files() == {}
    time.set("2026-11-21 12:00:00")
    room.walked()
    room.deliver()
    assert list(room.files()) == ["every-day-2026-11-20.csv"]


def test_run_now_delivers_the_last_period_once_more(room: Room, time: Clock) -> None:
    schedule = room.schedule()
    room.cdrs("2026-11-17 10:00:00")
    deliveries.request_redelivery(room.app_db, schedule.id, "2026-11-17")
    room.deliver()
    assert list(room.files()) == ["every-day-2026-11-17-incomplete.csv"], "nobody waits for a ledger"
    complete(room, "2026-11-16", "2026-11-17")
    deliveries.request_redelivery(room.app_db, schedule.id, "2026-11-17")
    room.deliver()
    room.deliver()
    assert [line[1] for line in room.log(schedule)] == ["incomplete", "delivered"]


def test_run_now_does_not_wait_for_the_hour_either(room: Room, time: Clock) -> None:
    schedule = room.schedule(at="20:00")
    deliveries.request_redelivery(room.app_db, schedule.id, "2026-11-17")
    room.deliver()
    room.deliver()
    assert list(room.files()) == ["every-day-2026-11-17-incomplete.csv"]
    time.set("2026-11-18 19:30:00")
    room.walked()
    room.deliver()
    assert [line[1] for line in room.log(schedule)] == ["incomplete", "delivered"]


def test_it_ends_with_the_right_of_whoever_made_it(room: Room, time: Clock) -> None:
    schedule = room.schedule()
    time.set("2026-11-19 01:31:00")
    complete(room, "2026-11-17", "2026-11-18")
    people.set_right(room.app_db, BOSS, "export", False)
    room.deliver()
    assert room.files() == {}
    assert "right “export”" in room.log(schedule)[0][2]
    people.create(room.app_db, "next@example.com", "admin")
    people.remove(room.app_db, BOSS)
    time.on(hours=1)
    room.deliver()
    assert "may export no longer" in room.log(schedule)[1][2]
    assert "may export no longer" in (room.schedules.describe_failures() or "")


def test_house_db_that_cannot_be_written_delivers_nothing(
    room: Room, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.schedule()
    time.set("2026-11-19 01:31:00")
    complete(room, "2026-11-17", "2026-11-18")
    room.app_db.close()
    with pytest.raises(Exception, match="closed"):
        room.deliver()
    assert room.files() == {}
