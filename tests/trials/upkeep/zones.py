"""Trial of reports on days on which the clocks change."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import date, datetime, timedelta

from integration.core import clock
from tests.trials.tools.recorded_platform import RecordedPlatform, read_records
from tests.trials.trial import Trial

ZONES: dict[str, tuple[tuple[str, float], ...]] = {
    "Europe/London": (("2026-03-29", 23), ("2026-10-25", 25)),
    "America/New_York": (("2026-03-08", 23), ("2026-11-01", 25)),
    "Australia/Lord_Howe": (("2026-10-04", 23.5), ("2026-04-05", 24.5)),
    "America/St_Johns": (("2026-03-08", 23), ("2026-11-01", 25)),
    "Asia/Kathmandu": (("2026-03-29", 24), ("2026-10-25", 24)),
}
"""Days on which the clocks change in 2026, and their hours. In Kathmandu they do not change."""
NOW = datetime(2026, 11, 20, 14, 3, 30)
FIRST = 800_000_000


class Zones(Trial):
    """Times are exact in UTC, and days have the calls of their local hours.

    Disturbed: a call at each quarter of an hour (`--minutes`) from two days before to three days after both
    changes of the clocks, in five zones, one of which differs by 45 minutes and one changes by half an hour.
    Checked: each call begins at the time of its record in UTC; a local day of 23 hours has 92 calls, one of
    25 hours 100; history and report agree; the sum of the days is the total.
    Detects: days that begin at midnight UTC.
    """

    name = "zones"
    size_option, size = "--minutes", 15
    bugs, symptoms = ("begin_days_in_utc",), ("calls, not",)
    short = ("--minutes 30", "--minutes 30 --seed-bug")
    promises = ("P23",)
    long = ("--minutes 15", "--minutes 10", "--minutes 5")

    def disturb(self) -> None:
        zones = list(ZONES)
        for zone in zones[: 1 if self.is_seeded or self.options.size >= 30 else None]:
            for day, hours in ZONES[zone]:
                self._try_day(zone, date.fromisoformat(day), hours)

    def _try_day(self, zone: str, day: date, hours: float) -> None:
        step = self.options.size
        with closing(RecordedPlatform()) as platform:
            cdrs = platform.collections["cdrs"]
            (pattern,) = read_records("cdrs")
            cdrs.listed.clear()
            begin = datetime(day.year, day.month, day.day) - timedelta(days=2)
            times = [begin + timedelta(minutes=step * number) for number in range(5 * 1440 // step)]
            for key, moment in enumerate(times, FIRST):
                legs = {"live_id": key + 10**9, "root_live_id": key + 10**9}
                cdrs.add({**pattern, "id": key, **legs, "calldate": f"{moment:%Y-%m-%d %H:%M:%S}"})
            wall = clock.parse_utc(f"{NOW:%Y-%m-%d %H:%M:%S}")
            assert wall is not None
            ahead = wall.timestamp() - clock.unix()
            with self.run_product(platform, wall=ahead, dashboard__timezone=zone) as product:
                product.sync_all()
                product.settle()
                sql = "SELECT c.started_at, r.calldate FROM cdrs AS r JOIN _legs AS l ON l.leg_id = r.live_id"
                rows = product.query(f"{sql} JOIN _calls AS c ON c.id = l.call_id")
                exact = len(rows) == len(times) and all(call == record for call, record in rows)
                self.verify(exact, f"{zone}: each of {len(times)} calls begins at the time of its record")
                browser, sums = product.login(), 0
                for one, expected_hours in ((-1, 24.0), (0, hours), (1, 24.0)):
                    which = day + timedelta(days=one)
                    expected = round(expected_hours * 60 / step)
                    for path in ("/calls", "/reports"):
                        url = f"{product.origin}{path}?from={which}&to={which}"
                        found = count_calls(browser.get(url, timeout=60).text)
                        self.verify(
                            found == expected, f"{zone}: {path} of {which} has {expected} calls, not {found}"
                        )
                    sums += expected
                first, last = day - timedelta(days=1), day + timedelta(days=1)
                url = f"{product.origin}/reports?from={first}&to={last}"
                total = count_calls(browser.get(url, timeout=60).text)
                self.verify(total == sums, f"{zone}: three days have {sums} calls, not {total}")
                self.figures.append(f"{zone}, {day}: {len(rows)} calls")


def count_calls(page: str) -> int:
    """Return the number of calls that a page of history or reports states."""
    total = re.search(r'id="total">([^<]*?) calls?\b', page)
    if total is not None:
        return int(re.sub(r"\D", "", total[1]) or 0)
    return max((int(count) for count in re.findall(r'data-count-of="(\d+)"', page)), default=0)
