"""Decide which alerts of a rule to notify about now.

Pure functions without clock and database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from integration.alerts.conditions import Match
from integration.alerts.rules import Finding, Rule
from integration.core import clock


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
