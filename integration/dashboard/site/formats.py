"""How pages write times, durations, numbers and states. Registered as Jinja filters by `register`.

Times come as UTC text and are shown in the display zone (`dashboard.timezone`); where there is nothing to
show the filters give '—', never a zero.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from flask import Flask

from integration.context import this_house
from integration.core import clock
from integration.core.phone_numbers import withheld
from integration.mirror.calls.reading import number as number_in
from integration.mirror.page_queries import contacts

NOTHING = "—"

STATES: Mapping[str, tuple[str, str]] = {
    "ringing": ("Ringing", "bell"),
    "dialling": ("Dialling", "dial"),
    "talking": ("Talking", "handset"),
    "on_hold": ("On hold", "pause"),
    "unconfirmed": ("Unconfirmed", "question"),
    "answered": ("Answered", "check"),
    "voicemail": ("Voicemail", "voicemail"),
    "missed": ("Missed", "missed"),
    "abandoned": ("Hung up early", "missed"),
    "not_answered": ("No answer", "stop"),
    "internal": ("Internal", "internal"),
    "ended": ("Ended", "check"),
    "idle": ("Free", "user"),
    "dnd": ("Do not disturb", "stop"),
}
"""A word and an icon for each state; the colour is the class of the same name in app.css."""

DIRECTIONS: Mapping[str, tuple[str, str]] = {
    "in": ("Inbound", "in"),
    "out": ("Outbound", "out"),
    "internal": ("Internal", "internal"),
}


def zone() -> ZoneInfo:
    return ZoneInfo(this_house().settings.dashboard.timezone)


def local(stamp: str | None) -> datetime | None:
    """The moment of a UTC text in the display zone."""
    moment = clock.parse_stamp(stamp)
    return None if moment is None else moment.astimezone(zone())


def today() -> date:
    return clock.now().astimezone(zone()).date()


def midnight(day: date, where: ZoneInfo) -> str:
    """The UTC text of the moment `day` begins in a zone."""
    return clock.stamp(datetime.combine(day, time(), where).astimezone(UTC))


def unix(stamp: str | None) -> int | None:
    moment = clock.parse_stamp(stamp)
    return None if moment is None else int(moment.timestamp())


def moment(seconds: float) -> str:
    """The UTC text of Unix seconds."""
    return clock.stamp(seconds)


def iso(stamp: str | None) -> str:
    """For the datetime attribute of <time>."""
    return (stamp or "").replace(" ", "T") + "Z"


def at_time(stamp: str | None) -> str:
    """'14:03'."""
    moment = local(stamp)
    return NOTHING if moment is None else f"{moment:%H:%M}"


def at_second(stamp: str | None) -> str:
    """'14:03:27'."""
    moment = local(stamp)
    return NOTHING if moment is None else f"{moment:%H:%M:%S}"


def at_full(stamp: str | None) -> str:
    """'Fri 20 Nov 2026, 14:03:27 GMT', for titles and details."""
    moment = local(stamp)
    return NOTHING if moment is None else f"{moment:%a} {moment.day} {moment:%b %Y, %H:%M:%S %Z}"


def at_short(stamp: str | None) -> str:
    """'14:03' today, '19 Nov 14:03' in the last months, else '19 Nov 2025'."""
    moment = local(stamp)
    if moment is None:
        return NOTHING
    days = (today() - moment.date()).days
    if days == 0:
        return f"{moment:%H:%M}"
    if -1 <= days < 180:
        return f"{moment.day} {moment:%b %H:%M}"
    return f"{moment.day} {moment:%b %Y}"


def day_name(day: date) -> str:
    """'Today', 'Yesterday', else 'Thursday 19 November' (with the year when it is another)."""
    now = today()
    if day == now:
        return "Today"
    if day == now - timedelta(days=1):
        return "Yesterday"
    return f"{day:%A} {day.day} {day:%B}" + (f" {day.year}" if day.year != now.year else "")


def day_of(stamp: str | None) -> str:
    moment = local(stamp)
    return NOTHING if moment is None else day_name(moment.date())


def duration(seconds: object) -> str:
    """'0:07', '12:31', '1:02:09'; nothing where the platform told what is no duration."""
    length = number_in(seconds)
    if length is None:
        return NOTHING
    whole = max(0, int(length))
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def spell(seconds: float | None) -> str:
    """'7 s', '4 min', '3 h', '2 d': ages."""
    if seconds is None:
        return NOTHING
    seconds = max(0, int(seconds))
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {word}"
    return f"{seconds} s"


def ago(stamp: str | None) -> str:
    moment = clock.parse_stamp(stamp)
    return NOTHING if moment is None else spell(clock.unix() - moment.timestamp())


def size(count: float | None) -> str:
    """'3.4 MB'."""
    if count is None:
        return NOTHING
    for word in ("B", "kB", "MB", "GB"):
        if count < 1000 or word == "GB":
            return f"{count:.0f} {word}" if word == "B" or count >= 100 else f"{count:.1f} {word}"
        count /= 1000
    raise AssertionError


def thousands(count: int | None) -> str:
    """'12 480', with a narrow no-break space, which reads the same in every country."""
    return NOTHING if count is None else f"{count:,}".replace(",", "\u202f")


def money(amount: float | None) -> str:
    return NOTHING if amount is None else f"{amount:.2f}"


def national(number: object) -> str:
    return this_house().numbers.national(number) if number else ""


def international(number: object) -> str:
    return this_house().numbers.display(number)[1] if number else ""


def tel(number: object) -> str | None:
    """E.164 for a `tel:` link; None for what can't be dialled."""
    return this_house().numbers.e164(number)


def named(call: sqlite3.Row) -> str:
    """Who the other side is, '' where nobody knows. Of an outbound call, however begun, the platform names
    the destination ('United Kingdom Mobile') when the number is no contact's: that is nobody's name."""
    name = str(call["party_name"] or "")
    if not name or call["direction"] != "out" or not call["party_e164"]:
        return name
    with this_house().mirror.read() as connection:
        return name if contacts.is_known(connection, call["party_e164"]) else ""


def kind(call: sqlite3.Row) -> str:
    """The key into STATES: what is going on, or how it ended."""
    if call["state"] != "ended":
        return "unconfirmed" if call["unconfirmed"] else str(call["state"])
    return str(call["outcome"] or "ended")


def limits(state: str) -> tuple[int, int] | None:
    """When a call in this state turns amber and red, in seconds (settings `calls.*_seconds`)."""
    calls = this_house().settings.calls
    chosen = {
        "ringing": calls.ring_seconds,
        "dialling": calls.ring_seconds,
        "on_hold": calls.hold_seconds,
        "talking": calls.talk_seconds,
    }.get(state)
    return None if chosen is None else (int(chosen[0]), int(chosen[1]))


def hue(seconds: float | None, state: str) -> str:
    """'', 'amber' or 'red' for a duration in a state."""
    bounds = limits(state)
    if bounds is None or seconds is None or seconds < bounds[0]:
        return ""
    return "red" if seconds >= bounds[1] else "amber"


def since(stamp: str | None) -> float | None:
    """Seconds from a UTC text until now."""
    moment = clock.parse_stamp(stamp)
    return None if moment is None else max(0.0, clock.unix() - moment.timestamp())


FILTERS: tuple[Callable[..., Any], ...] = (
    ago, at_full, at_second, at_short, at_time, day_of, duration, hue, international, iso, kind, limits,
    moment, money, named, national, since, size, spell, tel, thousands, unix, withheld,
)  # fmt: skip


def register(app: Flask) -> None:
    for function in FILTERS:
        app.jinja_env.filters[function.__name__] = function
    app.jinja_env.globals.update(STATES=STATES, DIRECTIONS=DIRECTIONS)
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
