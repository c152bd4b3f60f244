"""Periodic evaluation of alert rules: find matches, decide about notifications, store both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from integration.alerts import notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.conditions import CONDITIONS, Evaluation, Match
from integration.alerts.messages import make_notifications
from integration.alerts.notification_log import Channel, Notification
from integration.alerts.rules import Finding, Rule
from integration.alerts.send import send_due
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.core.opening_hours import ALL_LINES
from integration.settings.model import Settings
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

OWN_PREFIX = "alert"
"""Prefix of the health checks of alerts. Rules ignore them: failing alerts cannot report themselves."""


class RuleEvaluationFailed(SwitchroomError):
    """Some rules could not be evaluated; the others were."""


def list_configured_rules(settings: Settings) -> list[Rule]:
    """Return the rules of the setting `alerts.events`, which notify all `alerts.urls`."""
    if not settings.alerts.urls:
        return []
    behind_minutes = max(10, -(-2 * settings.sync.recent_interval // 60))
    rules_by_event = {
        "missed_call": Rule(-1, "Missed call", "missed_call", 0),
        "voicemail": Rule(-2, "Voicemail", "voicemail", 0),
        "sms": Rule(-3, "Message", "sms", 0),
        "sync_failing": Rule(-4, "Sync failing", "behind", behind_minutes),
    }
    return [rule for event, rule in rules_by_event.items() if event in settings.alerts.events]


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of an evaluation.

    `current` are the alerts that hold now, `ended` those that no longer hold. Notifications about `alerts`
    are sent immediately, those about `recovered` at `recovery_due_at`.
    """

    current: list[Finding]
    ended: list[Finding]
    alerts: list[Finding]
    recovered: list[Finding]
    recovery_due_at: datetime


def decide(
    rule: Rule,
    matches: Iterable[Match],
    previous: list[Finding],
    last_alert_at: str,
    now: datetime,
    *,
    reports_recovery: bool,
) -> Decision:
    """Compare the matches of a rule with its previous alerts.

    `previous` are the alerts of the previous evaluation, `last_alert_at` is the time of the rule's last
    notification (UTC text or ''). Alerts found in quiet hours or during the cool-down are sent afterwards in
    one notification, if they still hold then. The end of an alert is sent only if its start was sent, and
    after quiet hours too.
    """
    previous_by_key = {finding.key: finding for finding in previous}
    findings_by_key = {item.key: _make_finding(rule, item, previous_by_key.get(item.key)) for item in matches}
    current = sorted(findings_by_key.values(), key=lambda finding: (finding.began_at, finding.key))
    ended = [finding for finding in previous if finding.key not in findings_by_key]
    quiet_until = rule.find_quiet_end(now)
    is_cooled_down = last_alert_at <= clock.utc_text(now.timestamp() - 60 * rule.cooldown)
    alerts: list[Finding] = []
    if quiet_until is None and is_cooled_down:
        alerts = [
            replace(finding, notified_at=clock.utc_text(now))
            for finding in current
            if finding.notified_at is None
        ]
        alerts_by_key = {finding.key: finding for finding in alerts}
        current = [alerts_by_key.get(finding.key, finding) for finding in current]
    recovered = [item for item in ended if item.notified_at is not None] if reports_recovery else []
    return Decision(current, ended, alerts, recovered, quiet_until or now)


def _make_finding(rule: Rule, match: Match, previous: Finding | None) -> Finding:
    if previous is None:
        return Finding(rule.id, match.key, match.text, match.href, match.since)
    return replace(previous, text=match.text, href=match.href)


class RuleEvaluator:
    """Evaluates all rules. Calls `wake_senders()` after it has added notifications."""

    def __init__(self, context: AppContext, wake_senders: Callable[[], None]) -> None:
        self._context = context
        self._wake_senders = wake_senders
        self._configured_rules = list_configured_rules(context.settings)
        self._zone = ZoneInfo(context.settings.dashboard.timezone)
        self._failing: dict[str, float] = {}

    def run(self) -> None:
        """Evaluate every rule once.

        Raises RuleEvaluationFailed at the end if some rules failed.
        """
        app_db = self._context.app_db
        with app_db.read() as connection:
            rules = [rule for rule in alert_rules.list_all(connection) if rule.paused_at is None]
            rules += self._configured_rules
            findings_by_rule = alert_rules.list_findings(connection)
            last_alerts = notification_log.find_last_alert_times(connection, [rule.id for rule in rules])
        if not rules and not findings_by_rule:
            return
        failing = self._failing_since()
        decisions, failures = [], []
        for rule in rules:
            previous = findings_by_rule.pop(rule.id, [])
            try:
                decision = self._evaluate(rule, previous, last_alerts.get(rule.id, ""), failing)
            except Exception as error:
                # A failing condition must not prevent the evaluation of other rules.
                log.exception("alert rule %r cannot be evaluated", rule.name)
                failures.append(f"{rule.name}: {type(error).__name__}: {error}")
                continue
            if decision.current != previous or decision.ended:
                decisions.append((rule, decision))
        orphaned_findings = [finding for findings in findings_by_rule.values() for finding in findings]
        if decisions or orphaned_findings:
            self._save_decisions(decisions, orphaned_findings)
        if failures:
            raise RuleEvaluationFailed("; ".join(failures))

    def _evaluate(
        self, rule: Rule, previous: list[Finding], last_alert_at: str, failing_since: Mapping[str, float]
    ) -> Decision:
        now = clock.now().astimezone(self._zone)
        condition = CONDITIONS[rule.condition]
        hours = self._context.rules.counting.hours
        is_active = rule.is_active(now) and (
            not rule.only_open or condition.follows_line or hours.is_open(ALL_LINES, now)
        )
        matches: list[Match] = []
        if is_active:
            with self._context.mirror_db.read() as mirror:
                evaluation = Evaluation(self._context, mirror, rule, now, previous, failing_since)
                matches = condition.find(evaluation)
        # An inactive rule is not evaluated, so a missing match does not mean that the alert ended.
        reports_recovery = condition.reports_recovery and is_active
        return decide(rule, matches, previous, last_alert_at, now, reports_recovery=reports_recovery)

    def _save_decisions(
        self, decisions: list[tuple[Rule, Decision]], orphaned_findings: list[Finding]
    ) -> None:
        notifications: list[Notification] = []
        settings = self._context.settings
        for rule, decision in decisions:
            now = clock.now()
            if decision.alerts:
                notifications += make_notifications(settings, rule, "alert", decision.alerts, now)
            if decision.recovered:
                notifications += make_notifications(
                    settings, rule, "recovered", decision.recovered, decision.recovery_due_at
                )

        def work(tx: Transaction) -> None:
            alert_rules.save_findings(tx, [], orphaned_findings)
            for _, decision in decisions:
                alert_rules.save_findings(tx, decision.current, decision.ended)
            notification_log.add(tx, notifications)

        self._context.app_db.write(work)
        if notifications:
            self._wake_senders()
        # Open pages receive the change through the live stream, which reads the change log of mirror.db.
        if any(rule.notice for rule, _ in decisions) or orphaned_findings:
            self._context.mirror_db.write(lambda tx: tx.announce("alert", 0))

    def _failing_since(self) -> dict[str, float]:
        """Return the start of each failing health check in Unix seconds.

        The start is the first evaluation in which the check was failing.
        """
        now = clock.unix()
        failing = {
            name
            for name, check in self._context.health.list_checks().items()
            if check["state"] in ("failing", "stalled") and not name.startswith(OWN_PREFIX)
        }
        self._failing = {name: self._failing.get(name, now) for name in failing}
        return self._failing


EVALUATION_SECONDS = 5.0
"""Seconds between evaluations of the rules."""
SEND_SECONDS = 30.0
"""Seconds between runs of a sender."""
CHANNEL_NAMES: dict[Channel, str] = {
    "email": "alerts by e-mail",
    "post": "alerts by HTTP",
    "apprise": "alerts by Apprise",
}
"""Job and health check names of the senders by channel."""


def schedule_jobs(context: AppContext) -> None:
    """Schedule the evaluation of rules and one sender per channel."""
    every = partial(context.scheduler.every, executor="alerts", is_watched=True, retries=True)
    channels = [name for name in CHANNEL_NAMES if name != "apprise" or context.settings.alerts.urls]
    for channel in channels:
        every(CHANNEL_NAMES[channel], SEND_SECONDS, send_due, context, channel)

    def wake_senders() -> None:
        for channel in channels:
            context.scheduler.nudge(CHANNEL_NAMES[channel])

    every("alert rules", EVALUATION_SECONDS, RuleEvaluator(context, wake_senders).run)
