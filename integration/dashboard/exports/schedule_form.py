"""Form of an export schedule, validated completely before it is saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from integration.access import visibility
from integration.access.people import Person
from integration.access.visibility import NotAllowed
from integration.catalogue.shapes import Resource
from integration.context import AppContext
from integration.core.calendar_periods import FREQUENCIES
from integration.core.errors import DomainError, QueryError
from integration.exports import export_request, formats
from integration.exports.delivery import normalize_place
from integration.exports.formats.format import SEPARATORS
from integration.exports.jobs import (
    ALERT_ADDRESSES,
    NAMES_PARAMETER,
    OPEN_DAYS_PARAMETER,
    PARTITION_PARAMETER,
    TARGETS,
    ExportJob,
    Target,
    has_period_records,
)
from integration.exports.query import build_export_query, list_headings
from integration.exports.selection import normalize_file_name
from integration.mirror.calls.schema import CALLS
from integration.mirror.page_queries import history
from integration.outbound import mail_server

T = TypeVar("T", bound=str)

EXPORT_PARAMETERS = ("view", "filter", "columns", "set", "sort", "dir", "headings")
"""Export parameters that a schedule stores. Its days come from the period instead."""
BY_MONTH = "-by-month"
"""Suffix of a format in files by month, in the form."""
SECRET_MASK = "?…"
"""Replaces the query string of a URL in the form."""
ALERTS = "alerts"
"""Target of the form: ALERT_ADDRESSES."""
DAY_PARAMETERS = ("range", "from", "to")
MAX_WAIT_HOURS = 24 * 14
"""Hours for which a delivery may wait for missing records."""


def parse_form(
    context: AppContext, person: Person, form: Mapping[str, str], old_schedule: ExportJob
) -> ExportJob:
    """Return `old_schedule` with the form's values and `person` as its owner.

    Raises DomainError for an invalid value, and if the export itself is invalid or not allowed.
    """
    fields = {name: value.strip() for name, value in form.items()}
    name = " ".join(fields.get("name", "").split())
    args = _select_export_parameters(fields)
    if fields.get("bom"):
        args["bom"] = "1"
        separator = _parse_choice("separator", {"separator": ",", **fields}, tuple(SEPARATORS))
        args |= {"separator": separator} if separator != "," else {}
    target, place = _parse_target(context, fields, old_schedule)
    resource, _ = export_request.find_export(old_schedule.export)
    form_choice = _parse_choice("form", fields, tuple(list_form_choices(resource, person)))
    zone = _parse_zone(fields.get("zone", ""))
    if form_choice == formats.DIGEST:
        # The days of Reports are those of the display zone.
        args, zone = _parse_digest(fields, target), context.settings.dashboard.timezone
    elif place == ALERT_ADDRESSES:
        raise DomainError(f"Only a digest can go to {ALERT_ADDRESSES}. Choose another target.")
    if form_choice.endswith(BY_MONTH):
        if target != "folder":
            raise DomainError("Files by month need a folder. Choose a folder, or another format.")
        args[PARTITION_PARAMETER] = "month"
    schedule = replace(
        old_schedule,
        name=name,
        file=normalize_file_name(name),
        who=person.email,
        person_id=person.id,
        form=form_choice.removesuffix(BY_MONTH),
        args=args,
        every=_parse_choice("every", fields, FREQUENCIES),
        at=_parse_time(fields.get("at", "")),
        zone=zone,
        target=target,
        place=place,
        secret=_choose_secret(fields, target, place, old_schedule),
        wait_hours=_parse_wait_hours(fields.get("wait_hours", "")),
        incomplete=fields.get("otherwise") != "wait",
    )
    try:
        viewer = visibility.of(person, context.settings.dashboard.agents_see)
        viewer.check_export(resource, formats.SCHEDULED_FORMATS[schedule.form].right)
        selection = export_request.build_selection(
            context, schedule.export, {**args, "tz": schedule.zone}, viewer, person
        )
        with context.mirror_db.read() as connection:
            build_export_query(connection, selection)
    except (QueryError, NotAllowed) as error:
        raise DomainError(str(error)) from None
    return schedule


def _parse_target(
    context: AppContext, fields: Mapping[str, str], old_schedule: ExportJob
) -> tuple[Target, str]:
    """Return target and place. Raises DomainError."""
    if fields.get("target") == ALERTS:
        target, entered = TARGETS[-1], ALERT_ADDRESSES
    else:
        target = _parse_choice("target", fields, TARGETS)
        entered = _unmask_place(fields.get("place", ""), old_schedule)
    try:
        server = mail_server.load(context.settings, context.app_db)
        return target, normalize_place(context.settings, server, target, entered)
    except ValueError as error:
        raise DomainError(str(error)) from None


def _parse_digest(fields: Mapping[str, str], target: Target) -> dict[str, str]:
    """Return the parameters of a digest. Raises DomainError for names that do not go by e-mail."""
    args = {name: "1" for name in (NAMES_PARAMETER, OPEN_DAYS_PARAMETER) if fields.get(name)}
    if NAMES_PARAMETER in args and target != "email":
        raise DomainError("Names and numbers of callers go by e-mail only. Untick them, or choose e-mail.")
    if OPEN_DAYS_PARAMETER in args and fields.get("every") != "day":
        raise DomainError("Only a digest of every day can leave out closed days. Choose every day.")
    return args


def list_form_choices(resource: Resource, person: Person) -> dict[str, str]:
    """Return the labels of the formats by value of the field.

    They are those available to `person`. Records with a date are available in files by month too.
    """
    available = formats.list_available(resource, person)
    choices = {entry.suffix: entry.label for entry in available}
    if resource is CALLS:
        choices[formats.DIGEST] = formats.SCHEDULED_FORMATS[formats.DIGEST].label
    if has_period_records(resource) and resource.date is not None:
        choices |= {
            f"{entry.suffix}{BY_MONTH}": f"{entry.label} by month"
            for entry in available
            if entry.has_month_sets
        }
    return choices


def make_empty(context: AppContext, export: str, args: Mapping[str, str]) -> ExportJob:
    """Return the initial values of the form of a new schedule."""
    zone = context.settings.dashboard.timezone
    with suppress(DomainError):
        zone = _parse_zone(args.get("tz") or zone)
    return ExportJob(export=export, every="month", args=_select_export_parameters(args), zone=zone)


def make_draft(schedule: ExportJob, form: Mapping[str, str]) -> ExportJob:
    """Return `schedule` with those values of an unfinished form that are valid."""
    parsers: Mapping[str, Callable[[], object]] = {
        "form": lambda: _parse_choice(
            "form", {"form": form["form"].removesuffix(BY_MONTH)}, tuple(formats.SCHEDULED_FORMATS)
        ),
        "args": lambda: _set_partition(schedule.args, form["form"]),
        "every": lambda: _parse_choice("every", form, FREQUENCIES),
        "target": lambda: "put" if form["target"] == ALERTS else _parse_choice("target", form, TARGETS),
        "at": lambda: _parse_time(form["at"]),
        "zone": lambda: _parse_zone(form["zone"]),
        "name": lambda: form["name"],
        "file": lambda: normalize_file_name(form["name"]),
    }
    values, sources = {}, {"file": "name", "args": "form"}
    for name, parse in parsers.items():
        if sources.get(name, name) in form:
            with suppress(DomainError):
                values[name] = parse()
    return replace(schedule, **values)  # type: ignore[arg-type]


def describe_filter(context: AppContext, schedule: ExportJob, name: str) -> str:
    """Return the filter of the parameter `name`, 'view' or 'filter', in words.

    Returns '' without a filter, and for one that is not valid any more.
    """
    args = {key: schedule.args[key] for key in (name,) if schedule.args.get(key)}
    with context.mirror_db.read() as connection:
        users = history.list_users(connection)
    lines = []
    with suppress(QueryError):
        for parameters in ({**args, "headings": "words"}, {}):
            selection = export_request.build_selection(context, schedule.export, parameters)
            lines.append(selection.describe(users))
        return ", ".join(value for _, value in lines[0] if ("Filter", value) not in lines[1])
    return ""


def list_headings_in_words(context: AppContext, schedule: ExportJob) -> list[str]:
    """Return the headings of the columns that the schedule stores, [] if they are not valid."""
    args = {"headings": "words", "tz": schedule.zone, "columns": schedule.args.get("columns", "")}
    with suppress(QueryError), context.mirror_db.read() as connection:
        selection = export_request.build_selection(context, schedule.export, args)
        return list_headings(connection, selection, selection.columns)
    return []


def _set_partition(args: Mapping[str, str], form_choice: str) -> dict[str, str]:
    others = {name: value for name, value in args.items() if name != PARTITION_PARAMETER}
    return others | ({PARTITION_PARAMETER: "month"} if form_choice.endswith(BY_MONTH) else {})


def _select_export_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    args = {key: parameters[key] for key in EXPORT_PARAMETERS if parameters.get(key)}
    if "view" in args:
        args["view"] = remove_days(args["view"])
    if "set" in args:
        args.pop("columns", None)
    return args


def remove_days(view: str) -> str:
    """Return the query string of page Calls, changed to all days."""
    parameters = [(key, value) for key, value in parse_qsl(view) if key not in DAY_PARAMETERS]
    return urlencode([*parameters, ("range", "all")])


def _parse_choice(name: str, fields: Mapping[str, str], choices: tuple[T, ...]) -> T:
    for choice in choices:
        if choice == fields.get(name):
            return choice
    raise DomainError(f"{name}: choose one of {', '.join(choices)}")


def _parse_time(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise DomainError("Enter the time as hours and minutes, such as 06:00.")
    return text


def _parse_zone(text: str) -> str:
    try:
        return ZoneInfo(text).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise DomainError(f"{text!r} is not a time zone. Use a name such as Europe/London.") from None


def _parse_wait_hours(text: str) -> int:
    if not text.isdecimal() or len(text) > 4 or int(text) > MAX_WAIT_HOURS:
        raise DomainError(f"Enter the wait as whole hours, at most {MAX_WAIT_HOURS}.")
    return int(text)


def _choose_secret(fields: Mapping[str, str], target: str, place: str, old_schedule: ExportJob) -> str:
    """Return the entered secret, else the stored secret.

    The stored secret requires the stored origin, or a user could send it to any server.
    """
    entered = fields.get("secret", "")
    if target != "put" or fields.get("no_secret"):
        return ""
    if entered:
        if not (entered.isascii() and entered.isprintable()) or len(entered) > 4000:
            raise DomainError("Enter the header as one line of ASCII characters, such as “Bearer …”.")
        return entered
    if old_schedule.secret and _url_origin(place) != _url_origin(old_schedule.place):
        raise DomainError("The URL has changed. Enter the header again.")
    return old_schedule.secret


def mask_place(schedule: ExportJob) -> str:
    """Return the place for the form.

    The query string of a URL is masked, because it may hold a credential.
    """
    return f"{schedule.display_place}{SECRET_MASK if schedule.place != schedule.display_place else ''}"


def _unmask_place(place: str, old_schedule: ExportJob) -> str:
    if not place.endswith(SECRET_MASK):
        return place
    if place != mask_place(old_schedule):
        raise DomainError("The URL has changed. Enter the part after “?” again.")
    return old_schedule.place


def _url_origin(place: str) -> tuple[str, str]:
    url = urlsplit(place)
    return url.scheme, url.netloc
