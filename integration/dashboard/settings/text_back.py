"""Text back: rules, what they do, and the opt-out list, for administrators."""

from __future__ import annotations

import re
import sqlite3
from datetime import timedelta
from typing import Any, get_args
from zoneinfo import ZoneInfo

from flask import Response, request

from integration.context import app_context
from integration.core import clock, sms_length
from integration.core.errors import DomainError
from integration.core.ids import parse_id
from integration.dashboard.settings.page import make_blueprint, render
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action
from integration.mirror.page_queries import messages, phones
from integration.settings.values import check_country
from integration.sync.writing import text_back_sending
from integration.workspace import opt_outs, text_back, text_back_checks
from integration.workspace.text_back import TextRule, WhileLine
from integration.workspace.text_back_checks import LONGEST_OPENING, MAX_LENGTH

PATH = "/settings/text-back"

MAX_DELAY_MINUTES = 30
MAX_LISTED_CALLS = 100
"""Most callers of the last seven days on the page."""
NEW_RULE = TextRule(0, "", "closed", None, "", 2, "", "")
WHILE_LABELS: dict[WhileLine, str] = {"open": "while open", "closed": "while closed", "always": "always"}
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def _render_page(**values: Any) -> str:
    context = app_context()
    edited_id = request.args.get("edit", 0, type=int)
    with context.app_db.read() as connection:
        rules, state = text_back.list_rules(connection), text_back.load_state(connection)
        opted_out = opt_outs.list_all(connection)
        sent = text_back.count_this_month(connection, ZoneInfo(context.settings.dashboard.timezone))
    with context.mirror_db.read() as connection:
        lines, senders, templates = _read_choices(connection)
    texts = {
        rule.id: rule.text if rule.template_id is None else templates.get(rule.template_id, ("", ""))[1]
        for rule in rules
    }
    since = clock.now() - timedelta(days=text_back.KEPT_DAYS)
    return render(
        "settings_text_back.html",
        **{
            "rules": rules,
            "texts": texts,
            "lengths": {rule.id: _measure(texts[rule.id], rule, lines) for rule in rules},
            "state": state,
            "sent": sent,
            "opt_outs": opted_out,
            "lines": lines,
            "senders": senders,
            "templates": templates,
            "edited": next((rule for rule in rules if rule.id == edited_id), NEW_RULE),
            "WHILE_LABELS": WHILE_LABELS,
            "max_listed": MAX_LISTED_CALLS,
            "country": context.settings.dashboard.country or "",
            "reports": text_back_checks.report_calls(context, since, MAX_LISTED_CALLS) if rules else [],
            **values,
        },
    )


blueprint = make_blueprint("text_back", PATH, _render_page)


@blueprint.post("")
def save() -> Response:
    """Add a rule, or change the rule `id`, which is then a dry run."""
    rule = _read_rule()
    text_back.save_rule(app_context().app_db, rule)
    audit_action("text back rule changed" if rule.id else "text back rule added", _name_rule(rule))
    return redirect_to(f"{PATH}#rules", "Saved.")


@blueprint.post("/<int:number>/start")
@requires_confirmation()
def start(number: int) -> Response:
    return _set_sending(number, is_sending=True)


@blueprint.post("/<int:number>/stop")
def stop(number: int) -> Response:
    return _set_sending(number, is_sending=False)


@blueprint.post("/<int:number>/remove")
def remove(number: int) -> Response:
    rule = _require_rule(number)
    text_back.remove_rule(app_context().app_db, number)
    audit_action("text back rule removed", _name_rule(rule))
    return redirect_to(f"{PATH}#rules", "Removed.")


@blueprint.post("/resume")
@requires_confirmation()
def resume() -> Response:
    """Resume all rules after a pause."""
    text_back_sending.resume(app_context())
    audit_action("text back resumed", "all rules")
    return redirect_to(PATH, "Changed.")


@blueprint.post("/opt-outs/<int:number>/remove")
def remove_opt_out(number: int) -> Response:
    audit_action("opt-out removed", opt_outs.remove(app_context().app_db, number))
    return redirect_to(f"{PATH}#opt-outs", "Removed.")


def _set_sending(number: int, *, is_sending: bool) -> Response:
    rule = _require_rule(number)
    text_back.set_sending(app_context().app_db, number, is_sending=is_sending)
    audit_action("text back started" if is_sending else "text back stopped", _name_rule(rule))
    return redirect_to(f"{PATH}#rules", "Changed.")


def _require_rule(number: int) -> TextRule:
    with app_context().app_db.read() as connection:
        for rule in text_back.list_rules(connection):
            if rule.id == number:
                return rule
    raise DomainError("This rule was removed.")


def _name_rule(rule: TextRule) -> str:
    return f"{rule.line or 'all lines'}, {WHILE_LABELS[rule.while_line]}"


# --- the form --------------------------------------------------------------------------------------------


def _read_rule() -> TextRule:
    """Return the rule of the form. Raises DomainError for a mistake."""
    form, context = request.form, app_context()
    with context.mirror_db.read() as connection:
        lines, senders, templates = _read_choices(connection)
    delay_text, template_id = form.get("delay", "").strip(), parse_id(form.get("template", ""))
    while_line = next((value for value in get_args(WhileLine) if value == form.get("while")), None)
    if while_line is None:
        raise DomainError("Choose when the rule applies.")
    rule = TextRule(
        form.get("id", 0, type=int),
        form.get("line", ""),
        while_line,
        template_id,
        "" if template_id is not None else form.get("text", "").replace("\r\n", "\n").strip(),
        int(delay_text) if delay_text.isdecimal() and len(delay_text) <= 2 else -1,
        form.get("sender", ""),
        _read_countries(form.get("countries", "")),
    )
    if rule.line and rule.line not in lines:
        raise DomainError(f"The account has no line {rule.line}. Choose one from the list.")
    if rule.sender not in senders:
        raise DomainError(
            "Choose a number that can send and receive SMS. Replies to others, such as STOP, would be lost."
        )
    if not 0 <= rule.delay <= MAX_DELAY_MINUTES:
        raise DomainError(f"The delay must be a whole number of minutes from 0 to {MAX_DELAY_MINUTES}.")
    if not rule.countries and not context.settings.dashboard.country:
        raise DomainError("Enter at least one country, because dashboard.country is not set.")
    if template_id is not None and template_id not in templates:
        raise DomainError("This template was removed. Choose another one.")
    text = rule.text if template_id is None else templates[template_id][1]
    if not text:
        raise DomainError("Enter a text or choose a template.")
    _check_placeholders(rule)
    length = _measure(text, rule, lines)
    if length.units > MAX_LENGTH:
        raise DomainError(
            f"A text has at most {MAX_LENGTH} characters with its longest line and time; this one has"
            f" {length.units} ({length.encoding})."
        )
    return rule


def _read_countries(text: str) -> str:
    try:
        codes = [check_country(code) for code in text.replace(",", " ").split()]
    except ValueError as mistake:
        raise DomainError(f"Countries: {mistake}.") from None
    return " ".join(dict.fromkeys(codes))


def _check_placeholders(rule: TextRule) -> None:
    names = set(_PLACEHOLDER.findall(rule.text))
    if unknown := sorted(names - set(text_back_checks.PLACEHOLDERS)):
        raise DomainError(f"The placeholder {{{unknown[0]}}} does not exist. Use {{line}} or {{opens}}.")
    if "opens" in names and rule.while_line == "open":
        raise DomainError("{opens} is for callers while closed. Remove it, or change when the rule applies.")


def _measure(text: str, rule: TextRule, lines: dict[str, str]) -> sms_length.SmsLength:
    """Return the length of a rule's text with the longest values of its placeholders."""
    if rule.template_id is None:
        format_number = app_context().phone_numbers.format_national
        line = max(map(format_number, [rule.line] if rule.line else [rule.sender, *lines]), key=len)
        text = text_back_checks.fill_text(text, line, LONGEST_OPENING)
    return sms_length.measure(text)


def _read_choices(
    connection: sqlite3.Connection,
) -> tuple[dict[str, str], dict[str, str], dict[int, tuple[str, str]]]:
    """Return what a rule can name: lines, senders and templates.

    Lines and senders, which can send and receive SMS, are names by E.164 form. Templates are (name, text) of
    the canned responses by id.
    """
    to_e164 = app_context().phone_numbers.to_e164
    lines, senders = (
        {number: row["name"] or "" for row in rows if (number := to_e164(row["e164"]))}
        for rows in (phones.list_caller_id_numbers(connection), messages.list_sms_numbers(connection))
    )
    responses = messages.list_canned_responses(connection)
    return lines, senders, {number: (name, text) for number, name, text in responses}
