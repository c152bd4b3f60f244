"""Page Missed: the call-back list, one row per caller."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from integration.access import people
from integration.access.rights import has
from integration.context import AppContext, app_context
from integration.core import clock
from integration.core.ids import parse_id
from integration.dashboard.site import form_responses, formats, layout
from integration.dashboard.site.guard import audit_action, current_person, requires
from integration.dashboard.site.person_names import person_name
from integration.mirror.page_queries import history, live
from integration.workspace import callbacks
from integration.workspace.callback_items import CallbackItem
from integration.workspace.callbacks import ItemAction, ItemChanged

log = logging.getLogger(__name__)
blueprint = Blueprint("missed", __name__)

ITEMS_PER_PAGE = 100
"""Callers of one page. An unattended list grows by hundreds a day."""
MAX_CLOSED_SHOWN = 200
"""Closed items that the second tab shows. Calls of older items are found in the history."""
MAX_SEVERAL = 500
"""Items that one request changes."""
DUE_MINUTES, LATE_MINUTES = 30, 120
"""Minutes of waiting from which a call-back is due, and late."""
AFTERNOON, MORNING = time(15), time(9)
"""Times of the reminders *This afternoon* and *Tomorrow at nine*, in the display zone."""

ACTIONS_OF_BUTTONS: dict[str, ItemAction] = {
    "close": "close",
    "claim": "assign",
    "assign": "assign",
    "reopen": "reopen",
}
"""Actions for several items."""


@blueprint.get("/missed")
def index() -> str:
    context, viewer = app_context(), layout.get_visibility()
    state = "closed" if request.args.get("state") == "closed" else "open"
    only_mine = request.args.get("mine") == "1"
    oldest_first = request.args.get("order") == "oldest"
    line = request.args.get("line", "")
    period = _parse_period() if state == "closed" else None
    person = current_person()
    start_of_today = clock.midnight(formats.today(), formats.display_zone())
    with context.app_db.read() as connection:
        items = callbacks.list_items(
            connection, state, period, limit=MAX_CLOSED_SHOWN if state == "closed" and not period else None
        )
        reminders = callbacks.load_reminders(connection, person.id)
        opened_today = callbacks.list_opened_since(connection, start_of_today)
        open_items = items if state == "open" else callbacks.list_items(connection)
        with context.mirror_db.read() as mirror:
            items = callbacks.select_visible(mirror, viewer, items)
            open_items = callbacks.select_visible(mirror, viewer, open_items)
            opened_today = callbacks.select_visible(mirror, viewer, opened_today)
            unlogged_users = live.list_users_without_missed_call_log(mirror)
            closed_item = callbacks.find_visible(
                connection, mirror, viewer, parse_id(request.args.get("done")) or 0
            )
    lines = sorted({item.our_number for item in items if item.our_number} | ({line} if line else set()))
    visible_count = len(items)

    def is_mine(item: CallbackItem) -> bool:
        return item.owner == person.email or (item.state == "open" and item.party in reminders)

    if only_mine:
        items = list(filter(is_mine, items))
    if line:
        items = [item for item in items if item.our_number == line]
    if oldest_first:
        items.sort(key=lambda item: item.opened_at)
    elif state == "closed":
        items.sort(key=lambda item: item.closed_at or "", reverse=True)
    last_page = max(1, -(-len(items) // ITEMS_PER_PAGE))
    page = min(max(1, request.args.get("page", 1, type=int)), last_page)
    shown = items[(page - 1) * ITEMS_PER_PAGE : page * ITEMS_PER_PAGE]
    with context.mirror_db.read() as mirror:
        calls = {item.id: history.find(mirror, item.last_call_id) for item in shown}
        reached_by = {
            item.id: history.find(mirror, item.closed_call_id) for item in shown if item.closed_call_id
        }
        attempts = history.find_last_attempts(
            mirror, {item.party: item.last_at for item in shown if item.state == "open"}
        )
    day_counts = {day: len(found) for day, found in _group_by_day(items, oldest_first=oldest_first)}
    return layout.render_page(
        "missed",
        "missed.html",
        days=_group_by_day(shown, oldest_first=oldest_first),
        day_counts=day_counts,
        previous_url=_page_url(page - 1) if page > 1 else None,
        page_number=page,
        next_url=_page_url(page + 1) if page < last_page else None,
        calls=calls,
        attempts=attempts,
        can_see_call=viewer.can_see_call,
        state=state,
        mine=only_mine,
        line=line,
        lines=lines,
        oldest=oldest_first,
        me=person.email,
        people=_list_agents(),
        period=period,
        period_form={"day": "", "begin": "", "end": ""} | request.args.to_dict(),
        reached_by=reached_by,
        reminder_choices=[label for label, _ in _list_reminders()],
        reminders=reminders,
        has_work=any(
            item.owner or item.note or (item.state == "open" and item.party in reminders) for item in shown
        ),
        progress=(sum(item.state == "closed" for item in opened_today), len(opened_today)),
        limits=(DUE_MINUTES, LATE_MINUTES),
        waits={item.id: _measure_wait(item) for item in shown if item.state == "open"},
        hidden=visible_count - len(items),
        my_count=sum(map(is_mine, open_items)),
        waiting=layout.count_open_callbacks(context, viewer),
        is_partial=layout.count_final_callbacks(context, viewer) is None,
        unlogged=unlogged_users,
        done=closed_item if closed_item and closed_item.state == "closed" else None,
    )


def _measure_wait(item: CallbackItem) -> tuple[int, str]:
    """Return how many minutes a caller has waited while the line was open, and when the call-back is due.

    The time is '09:30' today, 'Mon 09:30' within six days, else '4 Jan 09:30'; '' without opening hours.
    """
    context, opened = app_context(), clock.parse_utc(item.opened_at)
    hours, now = context.rules.counting.hours, clock.now()
    line = context.phone_numbers.to_e164(item.our_number) or item.our_number
    if opened is None:
        return 0, ""
    minutes = int(hours.count_open_seconds(line, opened, now) / 60)
    if not hours.has_hours(line):
        return minutes, ""
    due = hours.add_open_time(line, opened, 60 * DUE_MINUTES).astimezone(hours.zone)
    days = (due.date() - formats.today()).days
    day = "" if days == 0 else f"{due:%a} " if 0 < days < 7 else f"{due.day} {due:%b} "
    return minutes, f"{day}{due:%H:%M}"


def _parse_period() -> tuple[str, str] | None:
    """Return the start and the end (UTC text) of the day and the times in the address, None without both.

    Times without a day are those of today.
    """
    args = request.args
    default_day = formats.today().isoformat() if args.get("begin") or args.get("end") else ""
    try:
        day = date.fromisoformat(args.get("day") or default_day)
        begin, end = (
            time.fromisoformat(text) if (text := args.get(name)) else default
            for name, default in (("begin", time.min), ("end", time.max))
        )
        start, stop = (
            clock.utc_text(datetime.combine(day, moment, formats.display_zone())) for moment in (begin, end)
        )
    except (ValueError, OverflowError):
        return None
    return start, stop


def _page_url(page: int) -> str:
    """Return the URL of another page of the current view."""
    arguments = {name: value for name, value in request.args.items() if name not in ("page", "done")}
    return "/missed?" + urlencode({**arguments, "page": page})


def _group_by_day(items: list[CallbackItem], *, oldest_first: bool) -> list[tuple[str, list[CallbackItem]]]:
    """Group items as 'Today', 'Yesterday' and 'Older', in their order."""
    groups: dict[str, list[CallbackItem]] = {}
    for item in items:
        day = formats.day_of(item.opened_at if oldest_first else item.closed_at or item.last_at)
        groups.setdefault(day if day in ("Today", "Yesterday") else "Older", []).append(item)
    return list(groups.items())


def _list_agents() -> list[str]:
    """Return the e-mail addresses of the users who can call back."""
    return [person.email for person in people.list_all(app_context().app_db) if has(person, "agent")]


@blueprint.post("/missed/<int:number>/close")
@requires("agent")
def close(number: int) -> Response:
    item = _record_action(number, "close", request.form.get("note", ""))
    undo = {"action": f"/missed/{number}/reopen", "label": "Undo"}
    return form_responses.respond_done(
        f"{formats.party_name(item)} marked as done.", _list_url(done=number), undo=undo
    )


@blueprint.post("/missed/<int:number>/reopen")
@requires("agent")
def reopen(number: int) -> Response:
    item = _record_action(number, "reopen")
    return form_responses.respond_done(f"{formats.party_name(item)} is back on the list.", _list_url(number))


@blueprint.post("/missed/<int:number>/assign")
@requires("agent")
def assign(number: int) -> Response:
    """Assign an item to the current user (`owner=me`), another, or none.

    `previous` is the owner that the form showed. If the item has another owner since, it is not taken from
    them.
    """
    email, owner = current_person().email, request.form.get("owner", "")
    if owner not in ("me", "") and owner not in _list_agents():
        return form_responses.refuse(400, "Choose a user who can call back.")
    new_owner = email if owner == "me" else owner
    try:
        item = _record_action(number, "assign", new_owner, shown=request.form.get("previous"))
    except ItemChanged as change:
        message = f"{person_name(change.current)} claimed this caller first."
        return form_responses.refuse(409, message)
    result = _describe_assignment(new_owner) if new_owner else "released"
    return form_responses.respond_done(f"{formats.party_name(item)} {result}.", _list_url(number))


def _describe_assignment(owner: str) -> str:
    return "claimed" if owner == current_person().email else f"assigned to {person_name(owner)}"


@blueprint.post("/missed/<int:number>/note")
@requires("agent")
def note(number: int) -> Response:
    """Save the note of an item.

    `previous` is the note that the form showed. A newer note of another user is kept.
    """
    try:
        _record_action(number, "note", request.form.get("note", ""), shown=request.form.get("previous"))
    except ItemChanged as change:
        message = f"Not saved: the note is now “{change.current}”. Reload the page, then change it."
        return form_responses.refuse(409, message)
    return form_responses.respond_done("Note saved.", _list_url(number))


@blueprint.post("/missed/<int:number>/remind")
@requires("agent")
def remind(number: int) -> Response:
    """Remind the current user at `at`, a time in the display zone or a label of `_list_reminders`.

    The user claims the caller, unless a colleague has.
    """
    item, entered = _find_item(number), request.form.get("at", "")
    try:
        local_time = dict(_list_reminders()).get(entered) or datetime.fromisoformat(entered)
        moment = local_time.replace(tzinfo=formats.display_zone()).astimezone(UTC)
    except (ValueError, OverflowError):
        return form_responses.refuse(400, "Enter a date and a time.")
    if moment <= clock.now():
        return form_responses.refuse(400, "Enter a time in the future.")
    at = clock.utc_text(moment)
    callbacks.save_reminder(app_context().app_db, current_person().id, item.party, at)
    message = f"Reminder for {formats.party_name(item)} at {formats.at_short(at)}."
    if not item.owner and _change_one(number, "assign", current_person().email):
        message = f"{message} You have claimed them."
    return form_responses.respond_done(message, _list_url(number))


def _list_reminders() -> list[tuple[str, datetime]]:
    """Return the labels and local times that a reminder offers."""
    now = clock.now().astimezone(formats.display_zone())
    choices = [("In an hour", now + timedelta(hours=1))]
    if now.time() < AFTERNOON:
        choices.append(("This afternoon", datetime.combine(now, AFTERNOON)))
    return [*choices, ("Tomorrow at nine", datetime.combine(now + timedelta(days=1), MORNING))]


@blueprint.post("/missed/several")
@requires("agent")
def change_several() -> Response:
    """Close, claim, assign to `owner` or reopen several items, as `do` states.

    `item`: their ids. Items that another user has claimed are not taken from them.
    """
    numbers = [number for number in map(parse_id, request.values.getlist("item")) if number is not None]
    button = request.values.get("do", "")
    action = ACTIONS_OF_BUTTONS.get(button)
    if action is None or not numbers:
        return form_responses.refuse(400, "Select at least one caller.")
    owner = current_person().email if button == "claim" else request.values.get("owner", "")
    if action == "assign" and owner not in _list_agents():
        return form_responses.refuse(400, "Choose a user who can call back.")
    selected = numbers[:MAX_SEVERAL]
    changed = [number for number in selected if _change_one(number, action, owner)]
    undo = None
    if action == "close":
        query = urlencode([("do", "reopen"), *(("item", number) for number in changed)])
        undo = {"action": f"/missed/several?{query}", "label": "Undo"}
    results = {"close": "marked as done", "reopen": "back on the list"}
    callers = "1 caller" if len(changed) == 1 else f"{len(changed)} callers"
    message = f"{callers} {results.get(action) or _describe_assignment(owner)}."
    if unchanged := len(selected) - len(changed):
        message += f" Unchanged, claimed by a colleague: {unchanged}."
    return form_responses.respond_done(message, _list_url(), undo=undo)


def _change_one(number: int, action: ItemAction, owner: str) -> bool:
    """Change one of several items.

    Returns False if another user has claimed it.
    """
    claim = {"text": owner, "shown": ""} if action == "assign" else {}
    try:
        _record_action(number, action, **claim)
    except ItemChanged:
        return False
    return True


def find_other_owner(context: AppContext, number: str) -> str | None:
    """Return the e-mail address of another user who has claimed a called number."""
    item = _find_called(context, number)
    return item.owner if item is not None and item.owner != current_person().email else None


def claim_called(context: AppContext, number: str, confirmed_owner: str) -> None:
    """Assign the open item of a called number to the current user.

    `confirmed_owner` is the owner that the user has agreed to replace, '' for none. Another owner stays.
    """
    item, email = _find_called(context, number), current_person().email
    if item is None or item.owner == email:
        return
    try:
        _store_action(context, item.id, "assign", email, confirmed_owner)
    except ItemChanged as change:
        log.info("call-back %d stays with %s", item.id, change.current)


def _find_called(context: AppContext, number: str) -> CallbackItem | None:
    with context.app_db.read() as connection, context.mirror_db.read() as mirror:
        return callbacks.find_visible_open(
            connection, mirror, layout.get_visibility(), formats.tel(number) or number
        )


def _find_item(number: int) -> CallbackItem:
    """Return an item that the current user sees; abort with 404 otherwise."""
    context = app_context()
    with context.app_db.read() as connection, context.mirror_db.read() as mirror:
        item = callbacks.find_visible(connection, mirror, layout.get_visibility(), number)
    return item or abort(404)


def _record_action(
    number: int, action: ItemAction, text: str = "", *, shown: str | None = None
) -> CallbackItem:
    item = _find_item(number)
    if not _store_action(app_context(), number, action, text.strip()[: callbacks.MAX_NOTE_LENGTH], shown):
        abort(404)
    return item


def _store_action(
    context: AppContext, number: int, action: ItemAction, text: str, shown: str | None = None
) -> bool:
    who = current_person().email
    if not callbacks.record_action(context.app_db, number, who, action, text, shown=shown):
        return False
    audit_action(*callbacks.describe_action(number, action, text))
    callbacks.announce_action(context.mirror_db, number, action)
    return True


def _list_url(number: int | None = None, **parameters: Any) -> str:
    """Return the URL of the form's view, at the row of `number`."""
    if request.form.get("state") == "closed":
        parameters = {"state": "closed", **parameters}
    for name in ("mine", "line", "order", "page", "day", "begin", "end"):
        if request.form.get(name):
            parameters = {name: request.form[name], **parameters}
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"/missed{query}" + (f"#item-{number}" if number is not None else "")
