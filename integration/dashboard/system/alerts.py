"""Alerts: what rules find now, what they told whom; and the rules themselves, for administrators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, abort, redirect, request

from integration.alerts import messages
from integration.alerts import notification_log as alert_log
from integration.alerts import rules as alert_rules
from integration.alerts.conditions import CONDITIONS
from integration.alerts.evaluate import configured
from integration.alerts.notification_log import Line
from integration.alerts.rules import Rule
from integration.alerts.send import SendingFailed, send
from integration.context import this_house
from integration.core import clock
from integration.core.refused import Refused
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import audited, current_person, needs
from integration.outbound import mail
from integration.outbound.upload import checked

blueprint = Blueprint("alerts", __name__, url_prefix="/system/alerts")

PAGE = 50
MOST_COOLDOWN = 10_080
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SAID = {
    "saved": "Saved.",
    "removed": "Removed.",
    "paused": "It watches no more.",
    "resumed": "It watches again.",
}


@blueprint.get("")
@needs("supervisor")
def index() -> str:
    return _page(_asked_rule())


@blueprint.post("")
@needs("admin")
def save() -> Response | tuple[str, int]:
    """Add a rule, or change the one whose `id` is given."""
    number = request.form.get("id", 0, type=int)
    before = _known(number) if number else Rule(id=0, name="", condition="", threshold=0)
    wanted = _entered(before)
    try:
        _check(wanted, before)
        wanted = replace(wanted, emails=" ".join(wanted.emails.replace(",", " ").replace(";", " ").split()))
        alert_rules.save(this_house().house, wanted)
    except Refused as refusal:
        return _page(wanted, refused=str(refusal)), 400
    audited("alert rule changed" if number else "alert rule added", f"{wanted.name}, {wanted.condition}")
    return _home("saved")


@blueprint.post("/<int:number>/remove")
@needs("admin")
def remove(number: int) -> Response | tuple[str, int]:
    return _deed(lambda: alert_rules.remove(this_house().house, number), "alert rule removed", "removed")


@blueprint.post("/<int:number>/pause")
@needs("admin")
def pause(number: int) -> Response | tuple[str, int]:
    paused = request.form.get("paused") == "1"
    return _deed(
        lambda: alert_rules.pause(this_house().house, number, paused=paused),
        "alert rule paused" if paused else "alert rule resumed",
        "paused" if paused else "resumed",
    )


@blueprint.post("/<int:number>/test")
@needs("admin")
def test(number: int) -> str:
    """Tell a test to every target of the rule, at once and whatever the hour; says what became of each."""
    house = this_house()
    rule = _known(number)
    told = messages.lines(house.settings, rule, "test", [messages.test_finding(rule)], clock.now())
    made = [_tested(line, rule) for line in told]
    house.house.write(lambda tx: alert_log.add(tx, made))
    audited("alert rule tested", rule.name)
    return _page(_asked_rule(), tested=made)


def _tested(line: Line, rule: Rule) -> Line:
    if line.channel == "notice":
        return line
    tried = replace(line, tries=1, next_at=None, tried_at=clock.stamp())
    try:
        send(this_house(), line, rule)
    except SendingFailed as error:
        return replace(tried, state="failed", error=str(error))
    return replace(tried, state="sent")


# --- the page --------------------------------------------------------------------------------------------


def _page(edited: Rule | None, **shown: Any) -> str:
    house = this_house()
    before = request.args.get("before", "")
    with house.house.read() as connection:
        rules = alert_rules.everything(connection)
        findings = alert_rules.findings(connection)
        log = alert_log.newest(
            connection, PAGE + 1, int(before) if before.isdecimal() and len(before) <= 18 else None
        )
    fixed = configured(house.settings)
    names = {rule.id: rule.name for rule in (*rules, *fixed)}
    return shell.page(
        "system",
        "alerts.html",
        rules=rules,
        fixed=fixed,
        urls=len(house.settings.alerts.urls),
        findings=[(names[id_], one) for id_, found in findings.items() if id_ in names for one in found],
        log=log[:PAGE],
        older=log[PAGE - 1].id if len(log) > PAGE else None,
        edited=edited,
        said=SAID.get(request.args.get("said", ""), ""),
        mail=house.settings.smtp.host,
        CONDITIONS=CONDITIONS,
        DAYS=DAYS,
        **shown,
    )


def _asked_rule() -> Rule | None:
    """The rule that the form is to show, for who may change it."""
    number = request.args.get("edit", 0, type=int)
    return _known(number) if number and current_person().may("admin") else None


def _known(number: int) -> Rule:
    with this_house().house.read() as connection:
        rule = alert_rules.find(connection, number)
    if rule is None:
        abort(404)
    return rule


def _entered(before: Rule) -> Rule:
    """The form, over what the rule was: a secret that is not entered again stays; -1 for what is no
    number."""
    form = request.form
    condition = form.get("condition", "")
    known = CONDITIONS.get(condition)
    url = form.get("url", "").strip()
    return replace(
        before,
        name=form.get("name", ""),
        condition=condition,
        threshold=_whole("threshold", known.default) if known and known.unit else 0,
        notice=form.get("notice") == "1",
        emails=form.get("emails", "").strip(),
        url=url,
        secret=(form.get("secret", "").strip() or before.secret) if url else "",
        days="".join(day for day in alert_rules.EVERY_DAY if day in form.getlist("day")),
        begins=form.get("begins", ""),
        ends=form.get("ends", ""),
        quiet_from=form.get("quiet_from", ""),
        quiet_to=form.get("quiet_to", ""),
        cooldown=_whole("cooldown", 0),
    )


def _check(wanted: Rule, before: Rule) -> None:
    """What `alert_rules.save` does not know. Raises Refused."""
    known = CONDITIONS.get(wanted.condition)
    if known is None:
        raise Refused("there is no such condition")
    if not known.least <= wanted.threshold <= known.most:
        raise Refused(f"{known.unit} are a number from {known.least:,} to {known.most:,}")
    if not 0 <= wanted.cooldown <= MOST_COOLDOWN:
        raise Refused("the pause between messages is a number of minutes, a week at most")
    if wanted.url != before.url and before.secret and wanted.secret == before.secret:
        # What was meant for one receiver must not leave for another.
        raise Refused("the address is another one: enter its Authorization header, too")
    if len(wanted.secret) > 1000 or not wanted.secret.isascii() or not wanted.secret.isprintable():
        raise Refused("the Authorization header has signs in it that no header takes")
    try:
        if wanted.emails:
            mail.addresses(this_house().settings.smtp, wanted.emails)
        if wanted.url:
            checked(wanted.url)
    except ValueError as error:
        raise Refused(str(error)) from None


def _deed(work: Callable[[], str], what: str, said: str) -> Response | tuple[str, int]:
    try:
        name = work()
    except Refused as refusal:
        return _page(None, refused=str(refusal)), 400
    this_house().mirror.write(lambda tx: tx.announce("alert", 0))
    audited(what, name)
    return _home(said)


def _whole(name: str, otherwise: int) -> int:
    text = request.form.get(name, "").strip()
    return int(text) if text.isdecimal() and len(text) <= 9 else -1 if text else otherwise


def _home(said: str) -> Response:
    return redirect(f"/system/alerts?said={said}", 303)  # type: ignore[return-value]
