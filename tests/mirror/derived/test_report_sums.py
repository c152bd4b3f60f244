"""Daily report totals equal the totals of the calls after any change."""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from integration.core import clock
from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.derived import due, rebuild, report_sums
from integration.mirror.derived.declaration import Rules
from integration.mirror.derived.report_sums import REPORT_SUMS
from integration.mirror.page_queries import missed_calls, reports
from integration.mirror.page_queries.missed_calls import CountingRules
from integration.mirror.schema import open_mirror

TODAY = date(2026, 4, 6)
FIRST = TODAY - timedelta(days=40)
"""First day. Includes the clock changes of 29 March (London) and 5 April (Lord Howe)."""

ZONES = ("Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns")
COLUMNS = (
    "id", "direction", "state", "unconfirmed", "provisional", "hold_incomplete", "party", "party_name",
    "legs", "recordings", "voicemails", "cdrs", "sources", "change_no", "started_at", "outcome",
    "wait_seconds", "talk_seconds", "charge", "user_id", "our_e164", "our_number", "group_kind", "group_id",
    "group_name", "party_e164",
)  # fmt: skip


def call(rng: random.Random, number: int) -> list[object]:
    """Return a random row of `_calls` that starts between FIRST and TODAY.

    One start in ten is None.
    """
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
    monkeypatch.setattr(clock, "unix", noon.timestamp)
    mirror = open_mirror(tmp_path / "mirror.db")
    yield mirror
    mirror.close()


def put(mirror, *calls) -> None:
    mirror.write(lambda tx: tx.executemany(INSERT, calls))


def make_rules(zone: ZoneInfo, level: int = 20) -> Rules:
    return Rules(PhoneNumbers("GB"), CountingRules(zone, level))


def compute_all(mirror, zone: ZoneInfo, level: int = 20) -> None:
    """Start with these rules, and compute all due days."""
    rebuild.install(mirror, make_rules(zone, level))
    rebuild.rebuild_due(mirror, make_rules(zone, level))


def make_comparable(sums: reports.ReportSums, *, hours: bool) -> dict[str, object]:
    """Return the compared values.

    Hours of the day are stored for single days only.
    """
    found = asdict(sums)
    return found if hours else {**found, "hours": None}


def check(mirror, first: date, last: date, zone: ZoneInfo, level: int = 20) -> None:
    with mirror.read() as connection:
        stored = report_sums.read_sums(connection, first, last, CountingRules(zone, level), TODAY)
        span = reports.Span(
            *(
                clock.utc_text(datetime(day.year, day.month, day.day, tzinfo=zone))
                for day in (first, last + timedelta(days=1))
            ),
            level,
        )
        direct = reports.compute_sums(connection, span, zone)
        assert make_comparable(stored, hours=first == last) == make_comparable(direct, hours=first == last), (
            first,
            last,
        )
        assert stored.total == reports.compute_totals(connection, span)
        rules, missed = CountingRules(zone, level), missed_calls.MissedSums()
        missed_calls.add_missed_calls(missed, connection, span.since, span.until, rules)
        stored_missed = report_sums.read_missed(connection, first, last, rules, TODAY)
        assert stored_missed.shares == missed.shares


@pytest.mark.parametrize("name", ZONES)
def test_stored_totals_equal_the_calls_after_random_changes(mirror, name):
    rng, zone, count = random.Random(name), ZoneInfo(name), 150
    put(mirror, *(call(rng, number) for number in range(count)))
    # Stored totals are read only if they have the present rules.
    compute_all(mirror, zone)
    for _ in range(25):
        match rng.choice(("insert", "insert", "update", "delete", "compute")):
            case "insert":
                put(mirror, call(rng, count))
                count += 1
            case "update":
                number = rng.randrange(count)
                values = [*call(rng, number), number]
                mirror.write(lambda tx, values=values: tx.execute(UPDATE, values))
            case "delete":
                number = rng.randrange(count)
                mirror.write(
                    lambda tx, number=number: tx.execute("DELETE FROM _calls WHERE id = ?", (number,))
                )
            case "compute":
                # A partial computation is allowed: totals of the other days are read from the calls.
                mirror.write(
                    lambda tx: [
                        rebuild.rebuild_next(tx, REPORT_SUMS, make_rules(zone), 3)
                        for _ in range(rng.randrange(30))
                    ]
                )
        first = FIRST + timedelta(days=rng.randrange(41))
        check(mirror, first, first + timedelta(days=rng.choice((0, 0, 1, 7, 40, 60))), zone)
    compute_all(mirror, zone, 20)
    for number in range(0, 41, 3):
        check(mirror, FIRST + timedelta(days=number), FIRST + timedelta(days=number), zone)
    check(mirror, FIRST, TODAY, zone)


def count_stored_days(mirror) -> int:
    with mirror.read() as connection:
        return int(connection.execute("SELECT count(*) FROM _report_days WHERE kind = 'day'").fetchone()[0])


def test_a_past_day_is_read_from_stored_totals_and_today_from_the_calls(mirror):
    rng, zone = random.Random(1), ZoneInfo("Europe/London")
    put(mirror, *(call(rng, number) for number in range(600)))
    compute_all(mirror, zone, 20)
    assert count_stored_days(mirror) == 40
    mirror.write(lambda tx: tx.execute("UPDATE _report_days SET missed = 1000"))
    with mirror.read() as connection:
        assert (
            report_sums.read_sums(connection, FIRST, TODAY, CountingRules(zone), TODAY).total.missed > 40_000
        )
        assert report_sums.read_sums(connection, TODAY, TODAY, CountingRules(zone), TODAY).total.missed < 1000


@pytest.mark.parametrize(("zone", "level"), [("Europe/London", 21), ("Asia/Kathmandu", 20)])
def test_another_time_zone_or_service_level_is_computed_from_the_calls(mirror, zone, level):
    rng, before = random.Random(2), ZoneInfo("Europe/London")
    put(mirror, *(call(rng, number) for number in range(300)))
    compute_all(mirror, before, 20)
    check(mirror, FIRST, TODAY, ZoneInfo(zone), level)
    compute_all(mirror, ZoneInfo(zone), level)
    check(mirror, FIRST, TODAY, ZoneInfo(zone), level)
    check(mirror, FIRST, TODAY, before)


def test_calls_of_today_are_due_once(mirror):
    """Each would else be a row of `_due` until the next day."""
    zone = ZoneInfo("Asia/Kathmandu")
    put(mirror, call(random.Random(7), 0))
    compute_all(mirror, zone)
    first = call(random.Random(7), 1)
    first[COLUMNS.index("started_at")] = f"{TODAY} 08:00:00"
    put(mirror, first)
    compute_all(mirror, zone)
    for number in range(2, 9):
        put(mirror, [number, *first[1:14], f"{TODAY} 09:00:{number:02}", *first[15:]])
    with mirror.read() as connection:
        rows = connection.execute("SELECT low, high FROM _due WHERE derived = 'reports'").fetchall()
        assert [tuple(row) for row in rows] == [(f"{TODAY - timedelta(days=1)} 18:15:00", "~")]
    check(mirror, TODAY, TODAY, zone)
    mirror.write(lambda tx: due.mark(tx, REPORT_SUMS.name, [REPORT_SUMS.all_keys]))
    with mirror.read() as connection:
        assert due.is_due(connection, REPORT_SUMS), "also the days before, at once"
