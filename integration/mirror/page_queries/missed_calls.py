"""Reasons of missed calls, and how soon callers were reached.

docs/reports.md defines both. One SQL expression decides each question for sums and for lists, so a figure
equals the calls that it opens.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.core.number_variants import ERASED
from integration.core.opening_hours import OpeningHours
from integration.mirror import zone_offsets
from integration.mirror.records.rows import build_name_sql

if TYPE_CHECKING:
    from integration.settings.model import Settings

REASONS: Mapping[str, str] = {
    "rang": "Rang, not answered",
    "none-free": "No one free",
    "outside": "Outside opening hours",
    "voicemail": "Left a voicemail",
    "early": "Hung up early",
}
REACHED_WITHIN: Mapping[str, str] = {
    "hour": "reached within an hour",
    "day": "reached within a day",
    "never": "reached later or never",
}
KINDS = ("reason", "person", "line", "group", "hour")
"""Breakdowns of missed calls. 'person': users whose phones rang, so a call can count for several."""
REACHED_DAYS = 2
"""Local days after a day whose calls can change how soon its callers were reached."""
GROUP_KEY = "group_kind || ':' || coalesce(group_id, group_name)"
"""SQL for the key of a group or IVR in links; NULL without a group."""

UNREACHABLE_CAUSES = (
    "user busy", "subscriber absent", "destination out of order", "user not registered",
    "no route destination",
)  # fmt: skip
"""Causes of legs whose phone did not ring."""
_IS_RINGING_LEG = f"""l.call_id = c.id AND lower(coalesce(l.t_cause, '')) NOT IN {UNREACHABLE_CAUSES}
 AND (upper(l.context) IN ('LOCAL_USER', 'USER_LOCAL', 'USER') OR upper(l.context) LIKE 'FOLLOW%'
 OR l.user_id IS NOT NULL AND upper(coalesce(l.context, '')) NOT LIKE 'V%M%')"""
_HAS_RUNG = f"EXISTS (SELECT 1 FROM _legs AS l WHERE {_IS_RINGING_LEG})"

IS_OPEN = "is_open(coalesce(c.our_e164, c.our_number), c.started_at)"
"""SQL for whether the call `c` began during opening hours."""
REASON_SQL = (
    "CASE c.outcome WHEN 'voicemail' THEN 'voicemail' WHEN 'abandoned' THEN 'early'"
    f" WHEN 'missed' THEN CASE WHEN NOT {IS_OPEN} THEN 'outside'"
    f" WHEN {_HAS_RUNG} THEN 'rang' ELSE 'none-free' END END"
)
"""SQL for the reason (key of REASONS) of the call `c`. NULL for other outcomes."""

IsOpen = Callable[[str | None, str | None], bool]
"""Whether a line (E.164) is open at a time, UTC text."""

TABLES = """
-- Sums of missed calls of a day 'YYYY-MM-DD' of the display zone, and of a month 'YYYY-MM'.
CREATE TABLE IF NOT EXISTS _report_missed (
    kind TEXT NOT NULL, day TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    calls INTEGER NOT NULL, in_hour INTEGER NOT NULL, in_day INTEGER NOT NULL,
    PRIMARY KEY (kind, day, key)
) STRICT, WITHOUT ROWID;
"""


def register_hours(connection: sqlite3.Connection, is_open: IsOpen) -> None:
    """Register the function of IS_OPEN.

    Opening hours are in house.db, so a statement of the mirror cannot join them.
    """
    connection.create_function("is_open", 2, is_open)


@dataclass(frozen=True, slots=True)
class CountingRules:
    """Settings and opening hours on which report figures depend.

    `level` is the wait of the service level in seconds. An outbound call of `callback_seconds` of talk time
    reaches a caller. `open_only` excludes calls outside opening hours from figures.
    """

    zone: ZoneInfo
    level: int = 20
    callback_seconds: int = 15
    hours: OpeningHours = OpeningHours()  # noqa: RUF009 – immutable
    open_only: bool = False

    def build_local_time_sql(self, since: str | None, until: str | None, form: str = "%w %H:%M") -> str:
        """Return SQL for the local start of the call `c` as text.

        `form` is a format of strftime. By default the text has the weekday (0 is Sunday) and the time.
        """
        last = until or clock.utc_text(clock.now() + timedelta(days=1))[:10] + " 00:00:00"
        offsets = list_offsets(self.zone, since or "2000-01-01 00:00:00", last)
        return f"strftime('{form}', c.started_at, {_build_offset_sql(offsets)})"

    @property
    def reached_sql(self) -> str:
        """SQL for the key of REACHED_WITHIN of the call `c`."""
        reached_at = (
            "(SELECT r.started_at FROM _calls AS r"
            " WHERE coalesce(r.party_e164, r.party) = coalesce(c.party_e164, c.party)"
            " AND r.started_at > c.started_at AND r.started_at <= datetime(c.started_at, '+24 hours')"
            f" AND c.party NOT IN ('', '{ERASED}') AND r.outcome = 'answered' AND (r.direction = 'in'"
            f" OR r.direction = 'out' AND r.talk_seconds >= {self.callback_seconds:d})"
            " ORDER BY r.started_at LIMIT 1)"
        )
        return (
            f"(SELECT CASE WHEN at IS NULL THEN 'never' WHEN at <= datetime(c.started_at, '+1 hour')"
            f" THEN 'hour' ELSE 'day' END FROM (SELECT {reached_at} AS at))"
        )


def make_counting_rules(settings: Settings) -> CountingRules:
    """Return the settings on which figures and filters of calls depend, without opening hours."""
    calls = settings.calls
    return CountingRules(
        ZoneInfo(settings.dashboard.timezone), calls.service_level_seconds, calls.callback_seconds
    )


@dataclass(frozen=True, slots=True)
class MissedFilter:
    """Filter of unanswered inbound calls.

    `reason` is a key of REASONS, `reached` one of REACHED_WITHIN. `rang_user_id` is a platform user whose
    phone rang.
    """

    rules: CountingRules
    reason: str | None = None
    reached: str | None = None
    rang_user_id: int | None = None

    def __str__(self) -> str:
        """Return the filter in words, for the description in a file."""
        words = [REASONS.get(self.reason or ""), REACHED_WITHIN.get(self.reached or "")]
        words.append(f"rang for user {self.rang_user_id}" if self.rang_user_id is not None else None)
        return ", ".join(word.lower() for word in words if word)

    def build_conditions(self) -> Iterator[tuple[Any, ...]]:
        """Yield (condition on the call `c`, value …)."""
        if self.reason is not None:
            outcome = {"voicemail": "voicemail", "early": "abandoned"}.get(self.reason, "missed")
            yield "c.outcome = ?", outcome
            if outcome == "missed":
                yield f"{REASON_SQL} = ?", self.reason
        if self.reached is not None:
            yield ("c.outcome IN ('missed', 'voicemail')",)
            yield f"{self.rules.reached_sql} = ?", self.reached
        if self.rang_user_id is not None:
            yield (
                f"EXISTS (SELECT 1 FROM _legs AS l WHERE {_IS_RINGING_LEG} AND l.user_id = ?)",
                self.rang_user_id,
            )


def list_offsets(zone: ZoneInfo, since: str, until: str) -> list[tuple[str, int]]:
    """Return (end, seconds east of UTC) of each span of one offset.

    The last end is `until`. Times are UTC text.
    """
    offsets = zone_offsets.compute_offsets(zone, clock.now().year + zone_offsets.YEARS_AHEAD)
    ends = [*(begin for begin, _, _ in offsets[1:]), until]
    return [
        (min(end, until), seconds)
        for (begin, seconds, _), end in zip(offsets, ends, strict=True)
        if begin < until and (end > since or end == until)
    ]


def _build_offset_sql(offsets: Sequence[tuple[str, int]]) -> str:
    """Return SQL for the offset at the start of call `c`.

    The SQL is a modifier of strftime. `offsets` as in `list_offsets`. Ten years have 23 spans: comparing
    with each in turn, a sum of 4,375 calls takes 45 ms instead of 29 ms.
    """
    if len(offsets) == 1:
        return f"'{offsets[0][1]:+d} seconds'"
    middle = len(offsets) // 2
    earlier, later = _build_offset_sql(offsets[:middle]), _build_offset_sql(offsets[middle:])
    return f"CASE WHEN c.started_at < '{offsets[middle - 1][0]}' THEN {earlier} ELSE {later} END"


@dataclass(slots=True)
class MissedShare:
    """Missed calls of one key.

    `in_hour` and `in_day`: calls whose callers were reached within an hour, and later within 24 hours.
    """

    key: str
    name: str
    calls: int = 0
    in_hour: int = 0
    in_day: int = 0

    @property
    def never(self) -> int:
        """Number of calls whose callers were reached later or never."""
        return self.calls - self.in_hour - self.in_day

    def add(self, calls: int, in_hour: int, in_day: int) -> None:
        self.calls += calls
        self.in_hour += in_hour
        self.in_day += in_day


class MissedSums:
    """Sums of missed calls by kind (KINDS) and key.

    Hung-up calls (reason 'early') are in kind 'reason' only: they do not count as missed.
    """

    def __init__(self) -> None:
        self.shares: dict[str, dict[str, MissedShare]] = {kind: {} for kind in KINDS}

    def add(self, kind: str, key: str, name: str, calls: int, in_hour: int, in_day: int) -> None:
        share = self.shares[kind].setdefault(key, MissedShare(key, name))
        share.name = max(share.name, name)
        share.add(calls, in_hour, in_day)

    def get(self, kind: str, key: str) -> MissedShare:
        return self.shares[kind].get(key) or MissedShare(key, "")

    @property
    def total(self) -> MissedShare:
        """Missed calls and calls with voicemail."""
        total = MissedShare("", "")
        for key, share in self.shares["reason"].items():
            if key != "early":
                total.add(share.calls, share.in_hour, share.in_day)
        return total


def add_missed_calls(
    sums: MissedSums, connection: sqlite3.Connection, since: str, until: str, rules: CountingRules
) -> None:
    """Add the unanswered calls that started in a span.

    It is from `since` until before `until`, UTC text.
    """
    rows = connection.execute(
        f"SELECT {REASON_SQL}, {rules.reached_sql},"
        f" {rules.build_local_time_sql(since, until)}, coalesce(our_e164, our_number), {GROUP_KEY},"
        " group_name,"
        f" (SELECT json_group_array(DISTINCT l.user_id) FROM _legs AS l WHERE {_IS_RINGING_LEG})"
        " FROM _calls AS c WHERE outcome IN ('missed', 'voicemail', 'abandoned') AND started_at >= ?"
        f" AND started_at < ? AND direction <> 'internal'{f' AND {IS_OPEN}' if rules.open_only else ''}",
        (since, until),
    )
    for reason, reached, local, line, group, group_name, users in rows:
        counts = (1, int(reached == "hour"), int(reached == "day"))
        sums.add("reason", reason, "", *counts)
        if reason == "early":
            continue
        sums.add("hour", local[2:4], "", *counts)
        if line:
            sums.add("line", line, "", *counts)
        if group:
            sums.add("group", group, group_name or "", *counts)
        for user_id in json.loads(users):
            if user_id is not None:
                sums.add("person", str(user_id), "", *counts)


# --- stored sums of days and months ----------------------------------------------------------------------


def add_stored(sums: MissedSums, connection: sqlite3.Connection, labels: Iterable[str]) -> None:
    """Add the stored sums of days and months ('YYYY-MM-DD' and 'YYYY-MM')."""
    rows = connection.execute(
        "SELECT kind, key, max(name), sum(calls), sum(in_hour), sum(in_day) FROM _report_missed"
        " WHERE kind IN (SELECT value FROM json_each(?)) AND day IN (SELECT value FROM json_each(?))"
        " GROUP BY kind, key",
        (json.dumps(KINDS), json.dumps(list(labels))),
    )
    for kind, key, name, *counts in rows:
        sums.add(kind, key, name, *counts)


def make_rows(sums: MissedSums, day: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of `_report_missed` of a day."""
    for kind, shares in sums.shares.items():
        for share in shares.values():
            yield kind, day, share.key, share.name, share.calls, share.in_hour, share.in_day


def find_user_name(connection: sqlite3.Connection, user_id: str) -> str:
    """Return the name of a platform user.

    The name comes from the stored user, otherwise from the last call.
    """
    row = connection.execute(
        f"SELECT coalesce((SELECT {build_name_sql('users')} FROM users WHERE id = ?1),"
        " (SELECT user_name FROM _calls WHERE user_id = ?1"
        " ORDER BY started_at DESC LIMIT 1))",
        (int(user_id),),
    ).fetchone()
    return row[0] or f"User {user_id}"
