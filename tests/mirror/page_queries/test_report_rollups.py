"""Kept sums of days equal those of the calls themselves, whatever happened to the calls, in any order."""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from integration.core import clock
from integration.mirror.calls.schema import build_insert_sql
from integration.mirror.page_queries import report_rollups, reports
from integration.mirror.schema import open_mirror

TODAY = date(2026, 4, 6)
FIRST = TODAY - timedelta(days=40)
"""Both days on which a clock changes, 29 March in London and 5 April on Lord Howe, lie between."""

ZONES = ("Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns")
COLUMNS = (
    "id", "direction", "state", "unconfirmed", "provisional", "hold_incomplete", "party", "party_name",
    "legs", "recordings", "voicemails", "cdrs", "sources", "change_no", "started_at", "outcome",
    "wait_seconds", "talk_seconds", "charge", "user_id", "our_e164", "our_number", "group_kind", "group_id",
    "group_name", "party_e164",
)  # fmt: skip


def call(rng: random.Random, number: int) -> list[object]:
    """A row of `_calls`; its start is within the days, in a few hours of which many are."""
    begin = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC)
    moment = begin + timedelta(hours=rng.randrange(41 * 24), seconds=rng.choice((0, 899, 900, 1800, 3599)))
    kind = rng.choice((None, "queue", "ringgroup"))
    return [
        number, rng.choice(("in", "in", "out", "internal")), "ended", 0, 0, 0, "0", "", 1, 0, 0, 1, "cdr", 0,
        rng.choice((clock.utc_text(moment),) * 9 + (None,)),
        rng.choice((None, "answered", "answered", "missed", "voicemail", "abandoned")),
        rng.choice((None, 3, 20, 21)), rng.choice((None, 0, 60)), rng.choice((None, 0.0, 0.25)),
        rng.choice((None, 1, 2)), rng.choice((None, "+442079460002")), rng.choice((None, "442079460003")),
        kind, kind and rng.choice((None, 5)), kind and rng.choice(("Support", "Sales")),
        rng.choice((None, "+447700900101", "+15550100", "+35319990100")),
    ]  # fmt: skip


INSERT = f"INSERT INTO _calls ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
UPDATE = f"UPDATE _calls SET {', '.join(f'{name} = ?' for name in COLUMNS)} WHERE id = ?"


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    noon = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: noon)
    mirror = open_mirror(tmp_path / "mirror.db")
    yield mirror
    mirror.close()


def put(mirror, *calls) -> None:
    mirror.write(lambda tx: tx.executemany(INSERT, calls))


def catch_up(mirror, zone: ZoneInfo, level: int) -> bool:
    """Until there is no more, however slow the machine is."""
    return report_rollups.update_due(mirror, zone, level, seconds=600)


def told(sums: reports.ReportSums, *, hours: bool) -> dict[str, object]:
    """What two sums are compared by; hours of the day are kept for single days only."""
    found = asdict(sums)
    found["week"] = {key: count for key, count in sums.week.items() if count}
    return found if hours else {**found, "hours": None}


def check(mirror, first: date, last: date, zone: ZoneInfo, level: int = 20) -> None:
    with mirror.read() as connection:
        ours = report_rollups.read_sums(connection, first, last, zone, level, TODAY)
        span = reports.Span(
            *(
                clock.utc_text(datetime(day.year, day.month, day.day, tzinfo=zone))
                for day in (first, last + timedelta(days=1))
            ),
            level,
        )
        direct = reports.compute_sums(connection, span, zone)
        assert told(ours, hours=first == last) == told(direct, hours=first == last), (first, last)
        assert ours.total == reports.compute_totals(connection, span)


@pytest.mark.parametrize("name", ZONES)
def test_kept_sums_equal_the_calls_after_anything(mirror, name):
    rng, zone, known = random.Random(name), ZoneInfo(name), 150
    put(mirror, *(call(rng, number) for number in range(known)))
    for _ in range(25):
        match rng.choice(("new", "new", "other", "gone", "sums")):
            case "new":
                put(mirror, call(rng, known))
                known += 1
            case "other":
                number = rng.randrange(known)
                values = [*call(rng, number), number]
                mirror.write(lambda tx, values=values: tx.execute(UPDATE, values))
            case "gone":
                number = rng.randrange(known)
                mirror.write(
                    lambda tx, number=number: tx.execute("DELETE FROM _calls WHERE id = ?", (number,))
                )
            case "sums":
                # Stopped halfway or not, what is left is read from the calls.
                mirror.write(
                    lambda tx: [
                        report_rollups.update_next_days(tx, zone, 20, TODAY) for _ in range(rng.randrange(30))
                    ]
                )
        first = FIRST + timedelta(days=rng.randrange(41))
        check(mirror, first, first + timedelta(days=rng.choice((0, 0, 1, 7, 40, 60))), zone)
    assert catch_up(mirror, zone, 20) is False
    for number in range(0, 41, 3):
        check(mirror, FIRST + timedelta(days=number), FIRST + timedelta(days=number), zone)
    check(mirror, FIRST, TODAY, zone)


def test_a_call_of_the_hour_in_which_a_day_ends_is_counted(mirror):
    zone, day = ZoneInfo("Asia/Kathmandu"), TODAY - timedelta(days=3)
    put(mirror, *(call(random.Random(number), number) for number in range(50)))
    catch_up(mirror, zone, 20)
    late = call(random.Random(5), 1000)
    late[COLUMNS.index("started_at")], late[COLUMNS.index("direction")] = f"{day} 18:05:00", "in"
    put(mirror, late)
    check(mirror, day, day, zone)
    catch_up(mirror, zone, 20)
    check(mirror, day, day, zone)


def kept_days(mirror) -> int:
    with mirror.read() as connection:
        return int(connection.execute("SELECT count(*) FROM _report_days WHERE kind = 'day'").fetchone()[0])


def test_a_settled_day_is_read_from_its_sums_and_today_never(mirror):
    rng, zone = random.Random(1), ZoneInfo("Europe/London")
    put(mirror, *(call(rng, number) for number in range(600)))
    catch_up(mirror, zone, 20)
    assert kept_days(mirror) == 40
    mirror.write(lambda tx: tx.execute("UPDATE _report_days SET missed = 1000"))
    with mirror.read() as connection:
        assert report_rollups.read_sums(connection, FIRST, TODAY, zone, 20, TODAY).total.missed > 40_000
        assert report_rollups.read_sums(connection, TODAY, TODAY, zone, 20, TODAY).total.missed < 1000


@pytest.mark.parametrize(("zone", "level"), [("Europe/London", 21), ("Asia/Kathmandu", 20)])
def test_another_zone_or_level_begins_anew(mirror, zone, level):
    rng, before = random.Random(2), ZoneInfo("Europe/London")
    put(mirror, *(call(rng, number) for number in range(600)))
    catch_up(mirror, before, 20)
    check(mirror, FIRST, TODAY, ZoneInfo(zone), level)
    catch_up(mirror, ZoneInfo(zone), level)
    check(mirror, FIRST, TODAY, ZoneInfo(zone), level)
    check(mirror, FIRST, TODAY, before)


def test_what_is_not_counted_makes_no_work(mirror):
    rng, zone = random.Random(3), ZoneInfo("Europe/London")
    put(mirror, *(call(rng, number) for number in range(20)))
    catch_up(mirror, zone, 20)
    mirror.write(lambda tx: tx.execute("UPDATE _calls SET party_name = 'Ann Example', due_at = 0, legs = 2"))
    with mirror.read() as connection:
        due = connection.execute("SELECT count(*) FROM _report_due WHERE hour < ?", (str(TODAY),)).fetchone()
    assert due[0] == 0


def test_a_start_that_is_no_time_holds_nobody_up(mirror):
    zone = ZoneInfo("Europe/London")
    rng = random.Random(4)
    broken = call(rng, 1000)
    broken[COLUMNS.index("started_at")] = "0000-00-00 00:00:00"
    put(mirror, broken, *(call(rng, number) for number in range(600)))
    assert catch_up(mirror, zone, 20) is False
    assert kept_days(mirror) == 40


def test_sums_that_are_wrong_are_found_and_made_anew(mirror):
    rng, zone = random.Random(8), ZoneInfo("Asia/Kathmandu")
    put(mirror, *(call(rng, number) for number in range(300)))
    catch_up(mirror, zone, 20)
    assert {report_rollups.verify_random_day(mirror, zone, 20) for _ in range(9)} == {None}
    mirror.write(lambda tx: tx.execute("UPDATE _report_days SET missed = missed + 1"))
    found = {
        day for _ in range(40) if (day := report_rollups.verify_random_day(mirror, zone, 20)) is not None
    }
    assert len(found) > 5
    catch_up(mirror, zone, 20)
    for day in found:
        check(mirror, day, day, zone)


def test_triggers_of_an_older_mirror_are_made_anew(tmp_path):
    """Theirs had conflict clauses, whose place that of our statement takes."""
    mirror = open_mirror(tmp_path / "mirror.db")

    def older(tx):
        tx.execute("DROP TRIGGER _calls_report_insert")
        tx.execute(
            "CREATE TRIGGER _calls_report_insert AFTER INSERT ON _calls BEGIN"
            " INSERT OR IGNORE INTO _report_due SELECT substr(NEW.started_at, 1, 13); END"
        )
        tx.execute("DELETE FROM _sqlite_migrations WHERE name LIKE 'triggers of calls%'")

    mirror.write(older)
    mirror.close()
    mirror = open_mirror(tmp_path / "mirror.db")
    rows = [call(random.Random(9), number) for number in (1, 2)]
    rows[1][COLUMNS.index("started_at")] = rows[0][COLUMNS.index("started_at")]
    mirror.write(lambda tx: tx.executemany(build_insert_sql("_calls", COLUMNS), rows))
    with mirror.read() as connection:
        assert connection.execute("SELECT count(*) FROM _report_due").fetchone()[0] == 1
    mirror.close()


def test_hours_that_are_noted_in_advance_are_not_noted_call_by_call(mirror):
    rows = [call(random.Random(7), number) for number in range(50)]
    mirror.write(
        lambda tx: (
            report_rollups.mark_due(tx, [row[COLUMNS.index("started_at")] for row in rows]),
            tx.executemany(build_insert_sql("_calls", COLUMNS), rows),
        )
    )
    with mirror.read() as connection:
        noted = [row[0] for row in connection.execute("SELECT hour FROM _report_due")]
    assert {len(hour) for hour in noted} == {13}
