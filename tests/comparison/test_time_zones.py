"""Calls of one local day in Live, reports, lists, exports, facade and SQL, on days when clocks change.

A call every half hour of UTC, from a day before the local day to a day after it, and one second before each
bound. The bounds are written by hand, so that neither the product nor `zoneinfo` computes the expectation.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from integration.cli.export import command
from tests.comparison.account import Account, sync
from tests.support.applications.shared_app import SharedApp, running_shared_app
from tests.support.fake_exchange import ADMINISTRATOR, FakeExchange, read_fixture
from tests.support.page_text import text


class LocalDay(NamedTuple):
    """A day on which clocks change: its bounds in UTC, and its length in half hours."""

    zone: str
    day: str
    begins: str
    ends: str
    half_hours: int


DAYS = (
    LocalDay("Europe/London", "2026-03-29", "2026-03-29 00:00:00", "2026-03-29 23:00:00", 46),
    LocalDay("Europe/London", "2026-10-25", "2026-10-24 23:00:00", "2026-10-26 00:00:00", 50),
    LocalDay("America/New_York", "2026-03-08", "2026-03-08 05:00:00", "2026-03-09 04:00:00", 46),
    LocalDay("America/New_York", "2026-11-01", "2026-11-01 04:00:00", "2026-11-02 05:00:00", 50),
    # By half an hour.
    LocalDay("Australia/Lord_Howe", "2026-04-05", "2026-04-04 13:00:00", "2026-04-05 13:30:00", 49),
    LocalDay("Australia/Lord_Howe", "2026-10-04", "2026-10-03 13:30:00", "2026-10-04 13:00:00", 47),
    # At midnight: the short day begins at 01:00, the long day has 23:00 to 24:00 twice.
    LocalDay("America/Santiago", "2026-04-04", "2026-04-04 03:00:00", "2026-04-05 04:00:00", 50),
    LocalDay("America/Santiago", "2026-09-06", "2026-09-06 04:00:00", "2026-09-07 03:00:00", 46),
    # 12:45 or 13:45 ahead: the day begins on the day before in UTC.
    LocalDay("Pacific/Chatham", "2026-04-05", "2026-04-04 10:15:00", "2026-04-05 11:15:00", 50),
    LocalDay("Pacific/Chatham", "2026-09-27", "2026-09-26 11:15:00", "2026-09-27 10:15:00", 46),
)
IN_SUITE = (
    ("Europe/London", "2026-03-29"), ("Australia/Lord_Howe", "2026-04-05"),
    ("America/Santiago", "2026-09-06"), ("Pacific/Chatham", "2026-04-05"),
)  # fmt: skip
"""One day of each kind. The other days are tested by the exhaustive step."""
SAMPLE = read_fixture("response-cdrs-list-200")["data"][0]
BEFORE_DAY, IN_DAY, LAST_SECOND, AFTER_DAY = 1000, 2000, 2900, 3000
"""First ids of the calls before the day, in it, in its last second, and after it."""


def shift(moment: str, seconds: int) -> str:
    return str(datetime.fromisoformat(moment) + timedelta(seconds=seconds))


def make_cdr(number: int, moment: str) -> dict[str, Any]:
    return {
        **SAMPLE,
        "id": number,
        "live_id": number,
        "root_live_id": number,
        "type": "I",
        "destination": "in",
        "calldate": moment,
        "src": f"4477009{number:05}",
        "src_id": "0",
        "dst": "442079460002",
        "dst_id": "10002",
        "context": "LOCAL_USER",
    }


class DayInApp:
    """The product with the calls of a day: `numbers` are the ids that every answer must have."""

    def __init__(self, app: SharedApp, account: Account, day: LocalDay) -> None:
        self.app, self.account, self.day = app, account, day
        self.numbers = [*range(IN_DAY, IN_DAY + day.half_hours), LAST_SECOND]
        self.browser = app.product.site.test_client()

    def read_calls_until_the_end(self) -> None:
        """Read the calls before and in the day, at its last second."""
        begins, ends = self.day.begins, self.day.ends
        before = [make_cdr(BEFORE_DAY + n, shift(begins, 1800 * (n - 48))) for n in range(48)]
        before.append(make_cdr(BEFORE_DAY + 48, shift(begins, -1)))
        inside = [make_cdr(IN_DAY + n, shift(begins, 1800 * n)) for n in range(self.day.half_hours)]
        inside.append(make_cdr(LAST_SECOND, shift(ends, -1)))
        self.account.lists["cdrs"] = [*before, *inside]
        self.app.clock.freeze(shift(ends, -1))
        sync(self.app, "cdrs", full=True)
        self.log_in()

    def read_calls_after_the_end(self) -> None:
        """Read the calls of the next day, a day later."""
        ends = self.day.ends
        self.account.lists["cdrs"] += [make_cdr(AFTER_DAY + n, shift(ends, 1800 * n)) for n in range(40)]
        self.app.clock.advance(seconds=86400)
        sync(self.app, "cdrs", full=True)
        self.log_in()

    def log_in(self) -> None:
        """Start a session, because sessions end when the clock moves by a day."""
        self.browser.set_cookie("session", self.app.make_token())

    def read(self, url: str) -> Any:
        response = self.browser.get(url)
        assert response.status_code == 200, url
        return response


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            day,
            id=f"{day.zone}-{day.day}",
            marks=[] if (day.zone, day.day) in IN_SUITE else pytest.mark.exhaustive,
        )
        for day in DAYS
    ],
)
def at_the_end(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DayInApp]:
    platform, day = FakeExchange(), request.param
    folder = tmp_path_factory.mktemp("zone")
    options = {"dashboard__timezone": day.zone, "sync__max_requests_per_minute": "6000000"}
    with running_shared_app(folder, platform, **options) as app:
        account = DayInApp(app, Account(platform), day)
        account.read_calls_until_the_end()
        yield account


def test_local_day_has_its_calls_in_every_answer(at_the_end: DayInApp) -> None:
    account, day = at_the_end, at_the_end.day
    count = len(account.numbers)
    assert f"Calls today {count} " in text(account.read("/")) + " "
    assert find_total(account.read("/calls?range=today")) == count
    assert find_report_counts(account.read("/reports?range=today"), day) == {count}

    account.read_calls_after_the_end()
    period = f"from={day.day}&to={day.day}"
    assert find_total(account.read(f"/calls?{period}")) == count
    assert find_total(account.read("/calls?range=yesterday")) == count
    assert find_report_counts(account.read(f"/reports?{period}"), day) == {count}
    assert find_report_counts(account.read("/reports?range=yesterday"), day) == {count}

    view = account.read(f"/exports/call-history.jsonl?view={quote(period)}")
    assert len(view.data.splitlines()) == count
    next_day = str(datetime.fromisoformat(day.day).date() + timedelta(days=1))
    dates = f"from={day.day}&to={next_day}&tz={quote(day.zone)}"
    exported = account.read(f"/exports/cdrs.csv?{dates}")
    assert find_ids(exported.data) == account.numbers
    printed = CliRunner().invoke(
        command,
        ["cdrs", "--from", day.day, "--to", next_day, "--tz", day.zone],
        env=make_environment(account.app, day),
    )
    assert find_ids(printed.stdout_bytes) == account.numbers
    in_utc = account.read(f"/exports/cdrs.csv?from={quote(day.begins)}&to={quote(day.ends)}")
    assert find_ids(in_utc.data) == account.numbers

    conditions = [
        {"property": "calldate", "operator": "gte", "value": day.begins},
        {"property": "calldate", "operator": "lt", "value": day.ends},
    ]
    response = account.app.get(
        f"/cdrs?filter={quote(json.dumps(conditions))}", {"X-Auth-Token": ADMINISTRATOR}
    )
    assert [row["id"] for row in response.json["data"]] == account.numbers
    assert response.json["total"] == count
    with account.app.mirror_db.read() as connection:
        for table, key, moment in (("cdrs", "id", "calldate"), ("_calls", "id", "started_at")):
            rows = connection.execute(
                f"SELECT {key} FROM {table} WHERE {moment} >= ? AND {moment} < ? ORDER BY {key}",
                (day.begins, day.ends),
            )
            assert [row[0] for row in rows] == account.numbers, table


def find_total(response: Any) -> int:
    """Number of calls that a list states."""
    found = re.search(r'id="total">(\d+) calls', response.text)
    return int(found[1]) if found else 0


def find_report_counts(response: Any, day: LocalDay) -> set[int]:
    """Figures of a report that link to all external calls of the day."""
    link = rf'/calls\?from={day.day}&amp;to={day.day}&amp;direction=external" data-count-of="(\d+)"'
    return {int(count) for count in re.findall(link, response.text)}


def find_ids(data: bytes) -> list[int]:
    return sorted(int(row["id"]) for row in csv.DictReader(io.StringIO(data.decode(), newline="")))


def make_environment(app: SharedApp, day: LocalDay) -> dict[str, str]:
    """Settings of a command on the files of the application."""
    return {
        "SWITCHROOM_CONFIG": "/dev/null",
        "SWITCHROOM_PLATFORM__BASE_URL": "http://platform.invalid/v1.2/voipstudio",
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "a" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": str(app.data_dir),
        "SWITCHROOM_DASHBOARD__TIMEZONE": day.zone,
    }
