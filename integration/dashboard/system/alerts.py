"""Alerts page: current alerts, notification log and alert rules.

Only administrators can change alert rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, abort, request

from integration.access.rights import has
from integration.alerts import messages, notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.conditions import CONDITIONS, make_default_rule
from integration.alerts.evaluate import list_configured_rules
from integration.alerts.notification_log import Notification
from integration.alerts.rules import Rule
from integration.alerts.send import SendingFailed, send
from integration.context import app_context
from integration.core import clock
from integration.core.errors import DomainError
from integration.core.ids import parse_id
from integration.dashboard.site import after_redirect, edit_versions, layout
from integration.dashboard.site.confirmation import has_new_secret, requires_confirmation
from integration.dashboard.site.guard import audit_action, current_person, requires
from integration.mirror.page_queries import live
from integration.mirror.page_queries.reports import get_currency
from integration.outbound import mail, mail_server
from integration.outbound.public_addresses import PublicHosts
from integration.outbound.urls import check_new_url

PATH = "/system/alerts"
blueprint = Blueprint("alerts", __name__, url_prefix=PATH)

PAGE_SIZE = 50
DEFAULT_COOLDOWN_MINUTES = 15
"""Minutes between two notifications of a new rule."""
MAX_COOLDOWN_MINUTES = 10_080
"""Maximum minutes between two notifications of a rule: a week."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@blueprint.get("")
@requires("supervisor")
def index() -> str:
    return _render_page(_rule_to_edit(), **after_redirect.take())


@blueprint.post("")
@requires("admin")
@requires_confirmation(has_new_secret)
def save() -> Response | tuple[str, int]:
    """Add an alert rule, or change the rule `id`."""
    number = request.form.get("id", 0, type=int)
    old_rule = _require_rule(number) if number else Rule(id=0, name="", condition="", threshold=0)
    new_rule = _rule_from_form(old_rule)
    try:
        _validate_rule(new_rule, old_rule)
        new_rule = replace(
            new_rule, emails=" ".join(new_rule.emails.replace(",", " ").replace(";", " ").split())
        )
        if number and edit_versions.is_outdated(_shown_values(new_rule), _shown_values(old_rule)):
            return _render_page(new_rule, refused=edit_versions.OUTDATED), 409
        alert_rules.save(app_context().app_db, new_rule)
    except DomainError as refusal:
        return _render_page(new_rule, refused=str(refusal)), 400
    audit_action("alert rule changed" if number else "alert rule added", _name_rule(new_rule))
    return after_redirect.redirect_to(PATH, "Saved.")


@blueprint.errorhandler(DomainError)
def show_refusal(refusal: DomainError) -> tuple[str, int]:
    return _render_page(None, refused=str(refusal)), 400


@blueprint.post("/<int:number>/remove")
@requires("admin")
def remove(number: int) -> Response:
    return _finish(alert_rules.remove(app_context().app_db, number), "alert rule removed", "Removed.")


@blueprint.post("/<int:number>/pause")
@requires("admin")
def pause(number: int) -> Response:
    paused = request.form.get("paused") == "1"
    name = alert_rules.pause(app_context().app_db, number, paused=paused)
    word = "paused" if paused else "resumed"
    return _finish(name, f"alert rule {word}", f"{word.capitalize()}.")


@blueprint.post("/<int:number>/test")
@requires("admin")
def test(number: int) -> Response:
    """Send a test notification to every target of a rule.

    The days and hours of the rule do not apply.
    """
    return _run_test(_require_rule(number))


@blueprint.post("/suggestions/<condition>")
@requires("admin")
def switch_on(condition: str) -> Response:
    """Add the suggested rule of a condition."""
    rule = _make_new_rule(_require_suggestion(condition))
    alert_rules.save(app_context().app_db, rule)
    return _finish(_name_rule(rule), "alert rule added", "Switched on.")


@blueprint.post("/suggestions/<condition>/test")
@requires("admin")
def test_suggestion(condition: str) -> Response:
    """Send a test notification of a rule that is not switched on yet."""
    return _run_test(_make_new_rule(_require_suggestion(condition)))


def _run_test(rule: Rule) -> Response:
    context = app_context()
    notifications = messages.make_notifications(
        context.settings, rule, "test", [messages.make_test_finding(rule)], clock.now()
    )
    test_results = [_send_test(notification, rule) for notification in notifications]
    context.app_db.write(lambda tx: notification_log.add(tx, test_results))
    audit_action("alert rule tested", rule.name)
    return after_redirect.redirect_to(PATH, tested=test_results)


def _send_test(notification: Notification, rule: Rule) -> Notification:
    if notification.channel == "notice":
        return notification
    attempted = replace(notification, tries=1, next_at=None, tried_at=clock.utc_text())
    try:
        send(app_context(), notification, rule)
    except SendingFailed as error:
        return replace(attempted, state="failed", error=str(error))
    return replace(attempted, state="sent")


# --- the page --------------------------------------------------------------------------------------------


def _render_page(edited_rule: Rule | None, **values: Any) -> str:
    context = app_context()
    before_text = request.args.get("before", "")
    with context.app_db.read() as connection:
        all_rules = alert_rules.list_all(connection)
        findings = [
            (id_, finding, layout.find_call_back(connection, finding))
            for id_, rule_findings in alert_rules.list_findings(connection).items()
            for finding in rule_findings
        ]
        log = notification_log.list_newest(connection, PAGE_SIZE + 1, parse_id(before_text))
    configured_rules = list_configured_rules(context.settings)
    rule_names = {rule.id: rule.name for rule in (*all_rules, *configured_rules)}
    kind = edited_rule.condition if edited_rule is not None else request.args.get("kind", "")
    kind = kind if kind in CONDITIONS else next(iter(CONDITIONS))
    with context.mirror_db.read() as connection:
        queues = {queue["id"]: queue["name"] for queue in live.list_queue_status(connection)}
        currency = get_currency(connection)
    return layout.render_page(
        "system",
        "alerts.html",
        rules=all_rules,
        fixed=configured_rules,
        urls=len(context.settings.alerts.urls),
        findings=[(rule_names[id_], *found) for id_, *found in findings if id_ in rule_names],
        log=log[:PAGE_SIZE],
        older=log[PAGE_SIZE - 1].id if len(log) > PAGE_SIZE else None,
        edited=edited_rule or replace(_make_new_rule(kind), name=""),
        kind=kind,
        suggestions=[
            _make_new_rule(condition)
            for condition, entry in CONDITIONS.items()
            if entry.is_suggested and condition not in {rule.condition for rule in all_rules}
        ],
        queues=queues,
        currency=currency or "in the account’s currency",
        version=next(
            (
                edit_versions.make_record_version(_shown_values(rule))
                for rule in all_rules
                if edited_rule is not None and rule.id == edited_rule.id
            ),
            "",
        ),
        mail=mail_server.load(context.settings, context.app_db),
        CONDITIONS=CONDITIONS,
        DAYS=WEEKDAYS,
        **values,
    )


def _rule_to_edit() -> Rule | None:
    """Return the selected rule for the form.

    Returns None if no rule is selected or the user is no administrator.
    """
    number = request.args.get("edit", 0, type=int)
    return _require_rule(number) if number and has(current_person(), "admin") else None


def _make_new_rule(condition: str) -> Rule:
    """Return the default rule of a condition: it notifies the dashboard, and the current user by e-mail."""
    server = mail_server.load(app_context().settings, app_context().app_db)
    return make_default_rule(
        condition,
        notice=True,
        emails=current_person().email if server is not None else "",
        cooldown=DEFAULT_COOLDOWN_MINUTES,
    )


def _require_suggestion(condition: str) -> str:
    if condition not in CONDITIONS or not CONDITIONS[condition].is_suggested:
        abort(404)
    return condition


def _require_rule(number: int) -> Rule:
    with app_context().app_db.read() as connection:
        rule = alert_rules.find(connection, number)
    if rule is None:
        abort(404)
    return rule


def _rule_from_form(old_rule: Rule) -> Rule:
    """Return `old_rule` with the values of the form.

    A secret that is not entered is kept. A number that is invalid becomes -1, which validation rejects. An
    empty number is the default, and an empty name the label of the condition.
    """
    form = request.form
    condition = form.get("condition", "")
    condition_type = CONDITIONS.get(condition)
    numbers = condition_type.numbers if condition_type else {}
    queue_text = form.get("queue", "") if condition_type and condition_type.any_queue else ""
    url = form.get("url", "").strip()

    def parse_number(name: str) -> int:
        return _parse_whole_number(name, numbers[name].default) if name in numbers else 0

    return replace(
        old_rule,
        name=form.get("name", "").strip() or (condition_type.label if condition_type else ""),
        condition=condition,
        threshold=parse_number("threshold"),
        minutes=parse_number("minutes"),
        calls=parse_number("calls"),
        queue_id=parse_id(queue_text),
        notice=form.get("notice") == "1",
        emails=form.get("emails", "").strip(),
        url=url,
        secret=(form.get("secret", "").strip() or old_rule.secret) if url else "",
        days="".join(day for day in alert_rules.EVERY_DAY if day in form.getlist("day")),
        begins=form.get("begins", ""),
        ends=form.get("ends", ""),
        quiet_from=form.get("quiet_from", ""),
        quiet_to=form.get("quiet_to", ""),
        cooldown=_parse_whole_number("cooldown", 0),
        only_open=form.get("only_open") == "1",
    )


def _shown_values(rule: Rule) -> Rule:
    """Return the rule without values that the form does not show."""
    return replace(rule, secret="", paused_at=None, created_at="")


def _validate_rule(new_rule: Rule, old_rule: Rule) -> None:
    """Check what `alert_rules.save` does not check. Raises DomainError."""
    condition_type = CONDITIONS.get(new_rule.condition)
    if condition_type is None:
        raise DomainError("This condition does not exist. Choose one from the list.")
    for name, number in condition_type.numbers.items():
        if not number.least <= getattr(new_rule, name) <= number.most:
            raise DomainError(
                f"The number of {number.unit} must be from {number.least:,} to {number.most:,}."
            )
    if not 0 <= new_rule.cooldown <= MAX_COOLDOWN_MINUTES:
        raise DomainError("The minutes of “Repeat every” must be a number, at most a week.")
    if new_rule.url != old_rule.url and old_rule.secret and new_rule.secret == old_rule.secret:
        # A secret for one receiver must not be sent to another.
        raise DomainError("The URL has changed. Enter its Authorization header again.")
    if len(new_rule.secret) > 1000 or not new_rule.secret.isascii() or not new_rule.secret.isprintable():
        raise DomainError("The Authorization header contains characters that are not allowed.")
    try:
        if new_rule.emails:
            mail.parse_addresses(
                mail_server.load(app_context().settings, app_context().app_db), new_rule.emails
            )
        if new_rule.url:
            check_new_url(new_rule.url, PublicHosts(app_context().settings.outgoing.allow_hosts))
    except ValueError as error:
        raise DomainError(str(error)) from None


def _name_rule(rule: Rule) -> str:
    return ", ".join(dict.fromkeys((rule.name, CONDITIONS[rule.condition].label)))


def _finish(rule_name: str, action: str, message: str) -> Response:
    """Announce the changed rules to open pages, record the action and return to the page."""
    app_context().mirror_db.write(lambda tx: tx.announce("alert", 0))
    audit_action(action, rule_name)
    return after_redirect.redirect_to(PATH, message)


def _parse_whole_number(name: str, default: int) -> int:
    text = request.form.get(name, "").strip()
    return int(text) if text.isdecimal() and len(text) <= 9 else -1 if text else default
