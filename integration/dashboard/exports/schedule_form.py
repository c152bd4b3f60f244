"""What people fill in to have an export delivered again and again, checked as a whole before it is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from integration.access import rights
from integration.access.people import Person
from integration.access.rights import NotAllowed
from integration.context import House
from integration.core.errors import QueryError
from integration.core.refused import Refused
from integration.exports import export_request as asking
from integration.exports.columns import FILES
from integration.exports.delivery import check_place
from integration.exports.due_periods import EVERY
from integration.exports.query import sheet_of
from integration.exports.schedule_table import TARGETS, Schedule, file_name

T = TypeVar("T", bound=str)

ASKED = ("view", "filter", "columns", "set", "sort", "dir")
"""Parameters of an export that a schedule keeps; its days are the period's."""
MASK = "?…"
DAYS = ("range", "from", "to")
MOST_HOURS = 24 * 14


def read(house: House, person: Person, form: Mapping[str, str], before: Schedule) -> Schedule:
    """`before` with what the form says, in the name of `person`. Raises Refused saying what is wrong."""
    text = {name: value.strip() for name, value in form.items()}
    name = " ".join(text.get("name", "").split())
    args = {key: text[key] for key in ASKED if text.get(key)}
    if "view" in args:
        args["view"] = without_days(args["view"])
    if text.get("bom"):
        args["bom"] = "1"
    target = _one_of("target", text, TARGETS)
    try:
        place = check_place(house.settings, target, _unmasked(text.get("place", ""), before))
    except ValueError as error:
        raise Refused(str(error)) from None
    wanted = Schedule(
        id=before.id,
        name=name,
        file=file_name(name),
        who=person.email,
        export=before.export,
        form=_one_of("form", text, forms_of(before.export, person)),
        args=args,
        every=_one_of("every", text, EVERY),
        at=_clock(text.get("at", "")),
        zone=_zone(text.get("zone", "")),
        target=target,
        place=place,
        secret=_secret(text, target, place, before),
        wait_hours=_hours(text.get("wait_hours", "")),
        incomplete=text.get("otherwise") != "wait",
        since=before.since,
        paused_at=before.paused_at,
        created_at=before.created_at,
    )
    try:
        chosen, _ = asking.named(wanted.export)
        only = rights.only_of(person, chosen, wanted.form, house.settings.dashboard.agents_see)
        found = asking.selection(house, wanted.export, {**args, "tz": wanted.zone}, only, person)
        with house.mirror.read() as connection:
            sheet_of(connection, found)
    except (QueryError, NotAllowed) as error:
        raise Refused(str(error)) from None
    return wanted


def empty(house: House, export: str, args: Mapping[str, str]) -> Schedule:
    """What the form shows for a new one."""
    kept = {key: args[key] for key in ASKED if args.get(key)}
    if "view" in kept:
        kept["view"] = without_days(kept["view"])
    zone = house.settings.dashboard.timezone
    return Schedule(
        0, "", "", "", export, "xlsx", kept, "day", "06:00", zone, "folder", "", "", 6, True, "", None, ""
    )


def forms_of(export: str, person: Person) -> tuple[str, ...]:
    """The forms of file that this person may have of this export here."""
    chosen, _ = asking.named(export)
    files = chosen.collection in FILES and person.may("recordings")
    lacking = {*(() if files else ("zip",)), *(() if find_spec("pyarrow") else ("parquet",))}
    return tuple(form for form in ("xlsx", "csv", "jsonl", "parquet", "zip") if form not in lacking)


def without_days(view: str) -> str:
    """The query string of a view of the page Calls, of all days."""
    kept = [(key, value) for key, value in parse_qsl(view) if key not in DAYS]
    return urlencode([*kept, ("range", "all")])


def _one_of(name: str, text: Mapping[str, str], known: tuple[T, ...]) -> T:
    for one in known:
        if one == text.get(name):
            return one
    raise Refused(f"{name}: choose one of {', '.join(known)}")


def _clock(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise Refused("The time is hours and minutes, such as 06:00.")
    return text


def _zone(text: str) -> str:
    try:
        return ZoneInfo(text).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Refused(f"{text!r} is no time zone; one is called Europe/London") from None


def _hours(text: str) -> int:
    if not text.isdecimal() or len(text) > 4 or int(text) > MOST_HOURS:
        raise Refused(f"It waits some whole hours for its records, {MOST_HOURS} at most.")
    return int(text)


def _secret(text: Mapping[str, str], target: str, place: str, before: Schedule) -> str:
    """What was entered, else what is kept: that only for the same address, or it could be sent anywhere."""
    given = text.get("secret", "")
    if target != "put" or text.get("no_secret"):
        return ""
    if given:
        if not (given.isascii() and given.isprintable()) or len(given) > 4000:
            raise Refused("The header is one line of plain letters, such as “Bearer …”.")
        return given
    if before.secret and _origin(place) != _origin(before.place):
        raise Refused("Enter the header again: the address is another one now.")
    return before.secret


def masked_place(schedule: Schedule) -> str:
    """The place as its form shows it: what stands behind '?' in an address may be a credential."""
    return f"{schedule.shown_place}{MASK if schedule.place != schedule.shown_place else ''}"


def _unmasked(place: str, before: Schedule) -> str:
    if not place.endswith(MASK):
        return place
    if place != masked_place(before):
        raise Refused("Enter the part behind “?” again: the address is another one now.")
    return before.place


def _origin(place: str) -> tuple[str, str]:
    parts = urlsplit(place)
    return parts.scheme, parts.netloc
