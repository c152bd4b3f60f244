"""Opening hours, closed days and public holidays, for administrators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from flask import Response, request

from integration.context import app_context
from integration.core import clock, public_holidays
from integration.core.opening_hours import ALL_LINES, HoursEntry, OpeningHours, Ranges, find_overlap
from integration.core.phone_numbers import get_country_name
from integration.dashboard.settings.page import make_blueprint, render
from integration.dashboard.site import formats
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.guard import audit_action
from integration.mirror.page_queries import history
from integration.mirror.page_queries.call_view import WEEKDAYS
from integration.workspace import opening_hours

PATH = "/settings/hours"

RANGES_PER_DAY = 2
MAX_NAME_LENGTH = 60
"""Characters of the name of a closed day."""
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


def _render_page(edited: HoursEntry | None = None, **values: Any) -> str:
    """Render the page. `edited` is in the form; `mistakes` has an error for each refused field."""
    context, today = app_context(), str(formats.today())
    with context.app_db.read() as connection:
        closed_days = opening_hours.list_closed_days(connection)
        country, region = opening_hours.load_holiday_region(connection)
    hours = context.rules.counting.hours
    regions = public_holidays.list_countries()
    proposed = _list_proposals(country, region) if country else {}
    lines = _list_lines()
    chosen = request.args.get("line"), request.args.get("from")
    stored = next((entry for entry in hours.entries if (entry.line, entry.valid_from) == chosen), None)
    edited = edited or stored or _make_new_entry(hours)
    return render(
        "settings_hours.html",
        **{
            "entries": [(entry, describe_week(entry.week)) for entry in hours.entries],
            "edited": edited,
            "stored": stored,
            "lines": lines,
            "columns": max(RANGES_PER_DAY, *map(len, edited.week)),
            "weekdays": WEEKDAYS,
            "is_open": hours.is_open(ALL_LINES, clock.now()),
            "opens": hours.next_opening(ALL_LINES, clock.now()),
            "closed_days": {day: name for day, name in closed_days.items() if day >= today},
            "proposed": {
                day: name for day, name in proposed.items() if day >= today and day not in closed_days
            },
            "countries": sorted((get_country_name(code) or code, code) for code in regions),
            "country": country or (context.settings.dashboard.country or "").upper(),
            "region": region,
            "regions": regions.get(country, ()),
            "mistakes": {},
            **values,
        },
    )


blueprint = make_blueprint("hours", PATH, _render_page)


def _make_new_entry(hours: OpeningHours) -> HoursEntry:
    """Return the present hours of all lines, valid from tomorrow: the usual change begins with them."""
    tomorrow = str(formats.today() + timedelta(days=1))
    former = [entry for entry in hours.entries if entry.line == ALL_LINES and entry.valid_from < tomorrow]
    return replace(former[-1], valid_from=tomorrow) if former else HoursEntry(ALL_LINES, "", ((),) * 7)


def _list_lines() -> dict[str, str]:
    """Return the names of the account's numbers by number (E.164)."""
    context = app_context()
    with context.mirror_db.read() as connection:
        rows = history.list_account_numbers(connection)
    return {context.phone_numbers.to_e164(row["e164"]) or row["e164"]: row["name"] or "" for row in rows}


def _list_proposals(country: str, region: str) -> dict[str, str]:
    """Return the public holidays of this year and the next."""
    year = formats.today().year
    return public_holidays.list_holidays(country, region, (year, year + 1))


@blueprint.post("")
def save_hours() -> Response | tuple[str, int]:
    """Add the hours of a line, or replace those of the same line and day."""
    form = request.form
    mistakes: dict[str, str] = {}
    week = tuple(_parse_day(weekday, mistakes) for weekday in range(len(WEEKDAYS)))
    entry = HoursEntry(form.get("line", ALL_LINES), form.get("valid_from", "").strip(), week)
    known_lines = {*_list_lines(), ALL_LINES, *(e.line for e in app_context().rules.counting.hours.entries)}
    if entry.line not in known_lines:
        mistakes["line"] = f"{entry.line} is not a number of the account. Choose one from the list."
    if entry.valid_from and _parse_date(entry.valid_from) is None:
        mistakes["valid_from"] = "Enter a day, such as 2026-12-01, or nothing for always."
    overlap = None if mistakes else find_overlap(week)
    if overlap is not None:
        mistakes[f"day{overlap}"] = "These hours overlap with others. A range can end on the next day."
    if not any(week) and not mistakes:
        mistakes["day0"] = "Enter the hours of at least one day."
    if mistakes:
        return _render_page(entry, mistakes=mistakes, refused="The hours were not saved."), 400
    opening_hours.save_entry(app_context().app_db, entry)
    opening_hours.apply(app_context(), entry.valid_from)
    audit_action("opening hours changed", f"{_describe_entry(entry)}: {describe_week(week)}")
    return redirect_to(PATH, "Saved.")


@blueprint.post("/remove")
def remove_hours() -> Response:
    entry = HoursEntry(request.form.get("line", ""), request.form.get("valid_from", ""), ())
    opening_hours.remove_entry(app_context().app_db, entry.line, entry.valid_from)
    opening_hours.apply(app_context(), entry.valid_from)
    audit_action("opening hours removed", _describe_entry(entry))
    return redirect_to(PATH, "Removed.")


def _parse_day(weekday: int, mistakes: dict[str, str]) -> Ranges:
    """Return the ranges of a day of the form, in order. A pair of empty fields is no range."""
    form = request.form
    pairs = zip(form.getlist(f"begin{weekday}"), form.getlist(f"end{weekday}"), strict=False)
    ranges = tuple(sorted((begin, end) for begin, end in pairs if begin or end))
    if not all(_TIME.fullmatch(text) for pair in ranges for text in pair):
        mistakes[f"day{weekday}"] = "Enter a start and an end, such as 09:00 and 17:30."
    return ranges


def _parse_date(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if str(day) == text and 2000 <= day.year < 2100 else None


def describe_week(week: Sequence[Ranges]) -> str:
    """Return hours in words: 'Mon–Fri 09:00–17:30, Sat 22:00–02:00'."""
    groups: list[tuple[int, int, Ranges]] = []
    for weekday, ranges in enumerate(week):
        if groups and groups[-1][1:] == (weekday - 1, ranges):
            groups[-1] = groups[-1][0], weekday, ranges
        elif ranges:
            groups.append((weekday, weekday, ranges))
    return ", ".join(
        WEEKDAYS[first][:3]
        + (f"–{WEEKDAYS[last][:3]}" if last > first else "")
        + " "
        + " and ".join("all day" if begin == end == "00:00" else f"{begin}–{end}" for begin, end in ranges)
        for first, last, ranges in groups
    )


def _describe_entry(entry: HoursEntry) -> str:
    return f"{entry.line or 'all lines'}, {f'from {entry.valid_from}' if entry.valid_from else 'always'}"


# --- closed days -----------------------------------------------------------------------------------------


@blueprint.post("/closed")
def add_closed_day() -> Response | tuple[str, int]:
    day, name = request.form.get("day", "").strip(), " ".join(request.form.get("name", "").split())
    mistakes = {}
    if (parsed := _parse_date(day)) is None or parsed < formats.today():
        mistakes["day"] = "Enter today or a later day, such as 2026-12-24."
    if len(name) > MAX_NAME_LENGTH or not name.isprintable():
        mistakes["name"] = f"Enter at most {MAX_NAME_LENGTH} printable characters."
    if mistakes:
        return _render_page(mistakes=mistakes, refused="The closed day was not added."), 400
    _store_closed_days({day: name})
    return redirect_to(f"{PATH}#closed-days", "Saved.")


@blueprint.post("/closed/<day>/remove")
def remove_closed_day(day: str) -> Response:
    opening_hours.remove_closed_day(app_context().app_db, day)
    opening_hours.apply(app_context(), day if _parse_date(day) else "")
    audit_action("closed day removed", day)
    return redirect_to(f"{PATH}#closed-days", "Removed.")


@blueprint.post("/holidays")
def choose_region() -> Response | tuple[str, int]:
    """Choose whose public holidays are proposed."""
    country, region = request.form.get("country", ""), request.form.get("region", "").strip()
    regions = public_holidays.list_countries()
    if country and country not in regions:
        mistakes = {"country": "Choose a country from the list."}
    elif region and region not in regions.get(country, ()):
        codes = ", ".join(regions.get(country, ()))
        mistakes = {"region": f"Use one of {codes}, or leave it empty." if codes else "Leave this empty."}
    else:
        opening_hours.save_holiday_region(app_context().app_db, country, region)
        audit_action("public holidays chosen", f"{country} {region}".strip() or "none")
        return redirect_to(f"{PATH}#holidays", "Saved.")
    page = _render_page(
        mistakes=mistakes,
        refused="The region was not saved.",
        country=country,
        region=region,
        regions=regions.get(country, ()),
    )
    return page, 400


@blueprint.post("/holidays/confirm")
def confirm_holidays() -> Response:
    """Add the ticked public holidays to the closed days."""
    with app_context().app_db.read() as connection:
        country, region = opening_hours.load_holiday_region(connection)
    proposed = _list_proposals(country, region) if country else {}
    _store_closed_days({day: proposed[day] for day in request.form.getlist("day") if day in proposed})
    return redirect_to(f"{PATH}#closed-days", "Saved.")


def _store_closed_days(names: dict[str, str]) -> None:
    if names:
        opening_hours.add_closed_days(app_context().app_db, names)
        opening_hours.apply(app_context(), min(names))
        audit_action("closed days added", ", ".join(sorted(names)))
