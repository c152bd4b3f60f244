"""Address of the page Calls: its URL parameters, and the filter that they state.

The page, saved views, reports and exports use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.core.calendar_periods import CALENDAR_RANGES, RANGES, find_range_days
from integration.mirror.page_queries import search_index
from integration.mirror.page_queries.call_labels import DIRECTION_LABELS, OUTCOME_LABELS
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.page_queries.missed_calls import (
    REACHED_WITHIN,
    REASONS,
    MissedFilter,
    make_counting_rules,
)

if TYPE_CHECKING:
    from integration.mirror.page_queries.search_index import SearchTerms
    from integration.settings.model import Settings

DEFAULT_RANGE = "week"
RANGE_NAMES = ("today", *CALENDAR_RANGES, "week", "month", "all")
"""Ranges offered by the page Calls. The others are valid too."""
ROW_COUNTS = ("50", "200", "500")
"""Calls per page. The first is the default."""
DIRECTIONS = {**{name: label.text for name, label in DIRECTION_LABELS.items()}, "external": "External"}
"""Labels of the filter `direction`."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DEFAULT_HOURS_SPAN = timedelta(days=731)
"""Period before today for which weekday and hour filters apply if the view has no first day."""


@dataclass(frozen=True, slots=True)
class CallView:
    """Parsed URL of the page Calls.

    `args` has only valid parameters that are set. `first_day` and `last_day` are None without a limit.
    """

    args: Mapping[str, str]
    range: str
    call_filter: CallFilter
    first_day: date | None = None
    last_day: date | None = None

    def url(self, **changes: str | None) -> str:
        """Return the URL of the first page of this view with `changes`.

        None removes a parameter.
        """
        merged = {**self.args, **changes}
        parameters = [(name, merged[name]) for name in PARAMETERS if merged.get(name)]
        return "/calls" + (f"?{urlencode(parameters)}" if parameters else "")

    @property
    def filter_names(self) -> list[str]:
        """Names of the set parameters, except the range and the search."""
        return [name for name in PARAMETERS if name in self.args and name not in _NO_FILTERS]

    @property
    def cleared_url(self) -> str:
        """URL with only the search, the named range and the page length."""
        return self.url(**{name: None for name in PARAMETERS if name not in ("q", "range", "rows")})


PARAMETERS = (
    "q", "range", "from", "to", "direction", "outcome", "person", "line", "min", "max", "recorded",
    "voicemail", "waited", "group", "country", "charged", "cost", "label", "weekday", "hour", "begin", "end",
    "since", "clock", "reason", "reached", "rang", "open", "rows",
)  # fmt: skip
_NO_FILTERS = ("q", "range", "from", "to", "rows")
"""Parameters that are no filter with a description of its own."""


def parse_view(
    args: Mapping[str, str],
    settings: Settings,
    *,
    default_days: tuple[date | None, date | None] = (None, None),
) -> CallView:
    """Parse URL parameters into a view.

    Invalid values are dropped, so that old links keep working. `default_days` (first, last) limit the hours
    of a view without days. Notes and local labels are not filtered: `workspace/call_labels` adds them.
    """
    zone = ZoneInfo(settings.dashboard.timezone)
    today = clock.now().astimezone(zone).date()
    parameters = {name: args[name].strip()[:200] for name in PARAMETERS if args.get(name, "").strip()}
    first, last = parse_day(parameters.get("from")), parse_day(parameters.get("to"))
    if first is None:
        parameters.pop("from", None)
    if last is None:
        parameters.pop("to", None)
    range_name = parameters.get("range", DEFAULT_RANGE)
    if first or last:
        range_name = "custom"
        parameters.pop("range", None)
    elif range_name not in RANGES:
        range_name = DEFAULT_RANGE
        parameters.pop("range", None)
    else:
        first, last = find_range_days(range_name, today) or (None, None)
    for name, allowed in (
        ("direction", DIRECTIONS),
        ("outcome", OUTCOME_LABELS),
        ("reason", REASONS),
        ("reached", REACHED_WITHIN),
        ("rows", ROW_COUNTS[1:]),
    ):
        if parameters.get(name) not in allowed:
            parameters.pop(name, None)
    for name in ("person", "rang", "min", "max", "waited", "country", "weekday", "hour"):
        text = parameters.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) <= 12):
            parameters.pop(name, None)
    weekday, hour = _take_number(parameters, "weekday", 6), _take_number(parameters, "hour", 23)
    begin, end = _take_time(parameters, "begin"), _take_time(parameters, "end")
    if hour is not None:
        begin, end = time(hour), time((hour + 1) % 24)
    hour_spans = None
    if weekday is not None or begin or end:
        first_hours, last_hours = (first, last) if first or last else default_days
        days = (first_hours or (last_hours or today) - DEFAULT_HOURS_SPAN, last_hours or today)
        hour_spans = json.dumps(daily_spans(*days, zone, weekday, begin or time(), end or time()))
    if _parse_amount(parameters.get("cost")) is None:
        parameters.pop("cost", None)
    first_minute, last_minute = _take_time(parameters, "since"), _take_time(parameters, "clock")
    if first is None:
        parameters.pop("since", None)
    if last is None:
        parameters.pop("clock", None)
    call_filter = CallFilter(
        since=_range_limit(first, first_minute, zone),
        until=_range_limit(last, last_minute, zone, end=1),
        search_terms=_parse_search(parameters.get("q"), settings),
        user_id=_parse_number(parameters.get("person")),
        account_number=parameters.get("line"),
        direction=parameters.get("direction"),
        outcome=parameters.get("outcome"),
        min_talk_seconds=_parse_number(parameters.get("min")),
        max_talk_seconds=_parse_number(parameters.get("max")),
        has_recording=parameters.get("recorded") == "1",
        has_voicemail=parameters.get("voicemail") == "1",
        max_wait_seconds=_parse_number(parameters.get("waited")),
        group=parameters.get("group"),
        country=parameters.get("country"),
        has_charge=parameters.get("charged") == "1",
        min_charge=_parse_amount(parameters.get("cost")),
        time_spans=hour_spans,
        missed=_parse_missed(parameters, settings),
        open_only=parameters.get("open") == "1",
    )
    return CallView(parameters, range_name, call_filter, first, last)


def describe_filters(
    view: CallView,
    users: Sequence[Any],
    format_number: Callable[[str], str],
    rows: Sequence[Any] = (),
) -> list[tuple[str, str]]:
    """Return the set filters of a view as (parameter, description).

    Range and search are omitted. `rows` are calls of the view; the first has the name of a group.
    """
    names = {str(person["id"]): person["name"] for person in users}
    describers: dict[str, Callable[[str], str | None]] = {
        "direction": DIRECTIONS.get,
        "outcome": OUTCOME_LABELS.get,
        "person": names.get,
        "line": format_number,
        "min": "talked at least {} s".format,
        "max": "talked at most {} s".format,
        "waited": "waited at most {} s".format,
        "country": "country +{}".format,
        "cost": "cost at least {}".format,
        "label": "label {}".format,
        "weekday": lambda number: WEEKDAYS[int(number)],
        "hour": lambda hour: f"{hour}:00 to {hour}:59",
        "begin": "from {}".format,
        "end": "until {}".format,
        "since": "from {}".format,
        "clock": "until {}".format,
        # All rows belong to this group, so the first has its name.
        "group": lambda name: (rows and rows[0]["group_name"]) or name.partition(":")[0],
        "reason": REASONS.get,
        "reached": REACHED_WITHIN.get,
        "rang": lambda user: "rang for " + names.get(user, user),
        "open": lambda _: "during opening hours",
        "charged": lambda _: "with a cost",
        "recorded": lambda _: "recorded",
        "voicemail": lambda _: "with voicemail",
    }
    return [(name, describers[name](view.args[name]) or view.args[name]) for name in view.filter_names]


def freeze_days(parameters: Mapping[str, str], today: date) -> dict[str, str]:
    """Return the parameters of a view with the dates of its range."""
    frozen = {name: text for name, text in parameters.items() if name != "range"}
    if parse_day(parameters.get("from")) or parse_day(parameters.get("to")):
        return frozen
    range_name = parameters.get("range", DEFAULT_RANGE)
    days = find_range_days(range_name if range_name in RANGES else DEFAULT_RANGE, today)
    if days is None:
        return {**frozen, "range": "all"}
    return {**frozen, "from": days[0].isoformat(), "to": days[1].isoformat()}


def _parse_search(text: str | None, settings: Settings) -> SearchTerms | None:
    if text is None:
        return None
    # Imported here, because most exports have no search, and the import takes 30 ms.
    from integration.core.phone_numbers import get_calling_code

    return search_index.parse_search(text, get_calling_code(settings.dashboard.country))


def _parse_missed(parameters: Mapping[str, str], settings: Settings) -> MissedFilter | None:
    if not {"reason", "reached", "rang"} & parameters.keys():
        return None
    rules, rang_user_id = make_counting_rules(settings), _parse_number(parameters.get("rang"))
    return MissedFilter(rules, parameters.get("reason"), parameters.get("reached"), rang_user_id)


def _parse_amount(text: str | None) -> float | None:
    try:
        return max(0.0, float((text or "").replace(",", "."))) if text and len(text) < 12 else None
    except ValueError:
        return None


def parse_day(text: str | None) -> date | None:
    try:
        day = date.fromisoformat(text or "")
    except ValueError:
        return None
    # Outside this range the conversion from a zone to UTC can overflow.
    return day if 1970 <= day.year < 9000 else None


def _range_limit(day: date | None, minute: time | None, zone: ZoneInfo, end: int = 0) -> str | None:
    """Return the start of a view, or its exclusive end, as UTC text.

    The limit is `minute` of `day`, otherwise midnight `end` days after the start of that day.
    """
    if day is None:
        return None
    if minute is None:
        return clock.midnight(day + timedelta(days=end), zone)
    return clock.utc_text(datetime.combine(day, minute, zone))


def daily_spans(
    first: date, last: date, zone: ZoneInfo, weekday: int | None, begin: time, end: time
) -> list[list[str]]:
    """Return daily spans [since, until) from `begin` until `end` as UTC text.

    The days are `first` to `last`, limited to `weekday` (0 is Monday) if given. If `end` is not after
    `begin`, a span ends on the next day. An hour that the clock shows twice is one long span.
    """
    over_midnight = timedelta(days=end <= begin)
    first -= over_midnight  # the span of the previous day covers the early hours of `first`
    days = [first + timedelta(days=day_offset) for day_offset in range((last - first).days + 1)]
    return [
        [
            clock.utc_text(datetime.combine(day, begin, zone).astimezone(UTC)),
            clock.utc_text(datetime.combine(day + over_midnight, end, zone).astimezone(UTC)),
        ]
        for day in days
        if weekday is None or day.weekday() == weekday
    ]


def _take_time(parameters: dict[str, str], name: str) -> time | None:
    """Return a parameter as a time of day in minutes.

    In `parameters` an invalid value is removed, and another form, such as '1403', becomes '14:03'.
    """
    try:
        parsed = time.fromisoformat(parameters.get(name, "")).replace(second=0, microsecond=0, tzinfo=None)
    except ValueError:
        parameters.pop(name, None)
        return None
    parameters[name] = f"{parsed:%H:%M}"
    return parsed


def _take_number(parameters: dict[str, str], name: str, maximum: int) -> int | None:
    """Return a parameter as a number.

    Remove a number above `maximum` from `parameters`.
    """
    number = _parse_number(parameters.get(name))
    if number is not None and number > maximum:
        del parameters[name]
        return None
    return number


def _parse_number(text: str | None) -> int | None:
    return int(text) if text else None
