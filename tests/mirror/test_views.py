"""Views of mirror.db: local times, figures of reports, query plans, secrets, upgrades."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from integration.catalogue import RESOURCES
from integration.catalogue.field_meanings import is_secret
from integration.mirror import zone_offsets
from integration.mirror.schema import open_mirror
from tests.mirror.sample_account import fill
from tests.support.applications.shared_app import SharedApp, running_shared_app
from tests.support.harness import ROOT
from tests.support.page_text import call_ids

OCTOBER = "from=2026-10-01&to=2026-10-31&direction=external"
IN_OCTOBER = (
    "direction <> 'internal' AND started_at >= '2026-09-30' AND started_at < '2026-11-02'"
    " AND started_local >= '2026-10-01' AND started_local < '2026-11-01'"
)
FIGURES: dict[str, dict[str, int]] = {
    "UTC": {"03": 1, "05": 2, "06": 1, "24": 1, "25": 2, "31": 1},
    "Europe/London": {"03": 1, "05": 1, "06": 2, "25": 3, "31": 1},
    "America/New_York": {"03": 1, "05": 2, "06": 1, "24": 3, "31": 2},
    "Asia/Kathmandu": {"03": 1, "05": 1, "06": 2, "25": 3},
    # Its summer time of half an hour began at 15:30 UTC on the 3rd, after the call.
    "Australia/Lord_Howe": {"03": 1, "05": 1, "06": 2, "25": 3},
}
"""Calls of `sample_account` on the days of October 2026, by zone, counted by hand."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    with running_shared_app(tmp_path_factory.mktemp("views") / "data") as app:
        fill(app)
        yield app


def query(app: SharedApp, sql: str) -> list[tuple[Any, ...]]:
    """Rows that another program reads from the file."""
    uri = f"{app.mirror_db.path.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection.execute(sql).fetchall()


def list_columns(app: SharedApp, view: str) -> list[str]:
    return [row[1] for row in query(app, f"PRAGMA table_info({view})")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("zone", list(FIGURES))
def test_views_lists_and_reports_have_equal_figures(app: SharedApp, zone: str) -> None:
    app.restart(dashboard__timezone=zone)
    browser = app.log_in()
    by_day = query(
        app,
        f"SELECT substr(started_local, 9, 2), count(*) FROM v_calls WHERE {IN_OCTOBER} GROUP BY 1 ORDER BY 1",
    )
    assert dict(by_day) == FIGURES[zone]

    report = browser.get("/reports?from=2026-10-01&to=2026-10-31").text
    links = re.findall(
        r'href="/calls\?from=2026-10-(\d\d)&amp;to=2026-10-\1&amp;direction=external" data-count-of="(\d+)"',
        report,
    )
    assert {day: int(count) for day, count in links} == FIGURES[zone]

    in_view = query(app, f"SELECT id FROM v_calls WHERE {IN_OCTOBER} ORDER BY started_at DESC")
    assert [row[0] for row in in_view] == call_ids(browser.get(f"/calls?{OCTOBER}"))
    missed = query(
        app, f"SELECT id FROM v_missed WHERE {IN_OCTOBER.partition(' AND ')[2]} ORDER BY started_at DESC"
    )
    assert [row[0] for row in missed] == call_ids(browser.get(f"/calls?{OCTOBER}&outcome=not_talked"))


def test_the_equal_hours_in_autumn_have_different_offsets(app: SharedApp) -> None:
    app.restart(dashboard__timezone="Europe/London")
    assert query(app, "SELECT started_local, utc_offset FROM v_calls WHERE id IN (5, 6) ORDER BY id") == [
        ("2026-10-25 01:30:00", "+01:00"),
        ("2026-10-25 01:30:00", "+00:00"),
    ]


def test_offsets_reach_ten_years_beyond_each_start(app: SharedApp) -> None:
    app.call(99, "2044-07-01 12:00:00")
    local_time = "SELECT started_local FROM v_calls WHERE id = 99"
    app.restart(dashboard__timezone="Europe/London")
    assert query(app, local_time) == [("2044-07-01 12:00:00",)], "the last stored offset, of a winter"
    app.clock.freeze("2036-01-01 00:00:00")
    app.restart()
    app.clock.restore()
    assert query(app, local_time) == [("2044-07-01 13:00:00",)]
    app.mirror_db.write(lambda tx: tx.execute("DELETE FROM _calls WHERE id = 99"))


@pytest.mark.parametrize("zone", list(FIGURES))
def test_local_times_are_those_of_the_time_zone(zone: str, tmp_path: Path) -> None:
    """Compare with the library every 11 days and at each change."""
    mirror = open_mirror(tmp_path / "mirror.db")
    zone_offsets.update(mirror, ZoneInfo(zone))
    begin = datetime(1990, 1, 1, 0, 30, tzinfo=UTC)
    moments = [begin + timedelta(days=11 * step) for step in range(1300)]
    with mirror.read() as connection:
        for (since,) in connection.execute("SELECT since FROM _zone_offsets WHERE since <> ''"):
            change = datetime.fromisoformat(since).replace(tzinfo=UTC)
            moments += [change - timedelta(seconds=1), change]
    rows = [(number, moment.strftime("%Y-%m-%d %H:%M:%S")) for number, moment in enumerate(moments)]
    mirror.write(lambda tx: tx.executemany(INSERT_CALL, rows))
    with mirror.read() as connection:
        found = dict(connection.execute("SELECT id, started_local || utc_offset FROM v_calls").fetchall())
    mirror.close()
    expected = {
        number: moment.astimezone(ZoneInfo(zone)).isoformat(" ") for number, moment in enumerate(moments)
    }
    assert found == expected


INSERT_CALL = """INSERT INTO _calls (id, started_at, direction, state, unconfirmed, provisional,
 hold_incomplete, party, party_name, legs, recordings, voicemails, cdrs, sources, change_no)
 VALUES (?, ?, 'in', 'ended', 0, 0, 0, '', '', 1, 0, 0, 1, '', 0)"""

PLANS = {
    "v_calls": "SEARCH c USING INDEX _calls_report (started_at>? AND started_at<?)",
    "v_legs": "SEARCH c USING COVERING INDEX _calls_report (started_at>? AND started_at<?)",
    "v_missed": "SEARCH c USING INDEX _calls_outcome (outcome=? AND started_at>? AND started_at<?)",
    "v_recordings": "SEARCH m USING INDEX monitors_timestamp (timestamp>? AND timestamp<?)",
    "v_messages": "SEARCH s USING INDEX _sms_by_created (created_at>? AND created_at<?)",
}


@pytest.mark.parametrize("view", PLANS)
def test_a_filter_by_time_reads_no_other_rows(app: SharedApp, view: str) -> None:
    time = next(name for name in list_columns(app, view) if name.endswith("_at"))
    sql = f"SELECT * FROM {view} WHERE {time} >= '2026-10-01' AND {time} < '2026-11-01'"
    steps = [row[3] for row in query(app, f"EXPLAIN QUERY PLAN {sql}")]
    assert PLANS[view] in steps
    # d: numbers of the account; e: events of SMS without a record; me: one row; m: the two lists of SMS.
    assert {step for step in steps if step.startswith("SCAN")} <= {"SCAN d", "SCAN e", "SCAN me", "SCAN m"}


def test_no_view_has_a_secret(app: SharedApp) -> None:
    planted = 0
    for resource in RESOURCES:
        for field in resource.fields:
            if resource.is_listed and is_secret(field.name):
                sql = f'UPDATE "{resource.table}" SET "{field.name}" = \'canary\''
                app.mirror_db.write(lambda tx, sql=sql: tx.execute(sql))
                planted += 1
    assert planted > 1
    assert query(app, "SELECT count(*) FROM users WHERE vm_pin = 'canary'") == [(4,)]
    views = (*PLANS, "v_people")
    shown = [query(app, f"SELECT * FROM {view}") for view in views]
    assert all(shown)
    assert "canary" not in str(shown)
    names = {name for view in views for name in list_columns(app, view)}
    assert not [name for name in names if is_secret(name) or name.startswith("_")]


def test_values_of_other_types_are_no_times_and_no_numbers(app: SharedApp) -> None:
    app.insert("monitors", id=7100, live_id="x", timestamp=2461324, duration="long", transcript=None)
    columns = "recorded_at, recorded_local, utc_offset, duration_seconds, call_id"
    assert query(app, f"SELECT {columns} FROM v_recordings WHERE id = 7100") == [
        (2461324, None, None, None, None)
    ]
    app.mirror_db.write(lambda tx: tx.execute("DELETE FROM monitors WHERE id = 7100"))


def test_views_of_another_version_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    open_mirror(path).close()
    with closing(sqlite3.connect(path)) as connection:
        expected = connection.execute("SELECT name, sql FROM sqlite_schema WHERE name GLOB 'v_*'").fetchall()
        assert [name for name, _ in expected] == [*PLANS, "v_people"]
        connection.execute("DROP VIEW v_people")
        connection.execute("DROP VIEW v_calls")
        connection.execute("CREATE VIEW v_calls AS SELECT id FROM _calls")
    open_mirror(path).close()
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE name GLOB 'v_*'").fetchall()
        connection.executescript((ROOT / "integration" / "mirror" / "views.sql").read_text("utf-8"))
        again = connection.execute("SELECT name, sql FROM sqlite_schema WHERE name GLOB 'v_*'").fetchall()
    assert sorted(found) == sorted(again) == sorted(expected)
