"""Texts of notifications, and the notifications for each target of a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from integration.alerts.notification_log import Channel, Notification, NotificationKind
from integration.alerts.rules import Finding, Rule
from integration.core import clock
from integration.settings.model import Settings

MAX_LISTED = 20
"""Largest number of alerts listed in one notification; the others are counted."""


def make_test_finding(rule: Rule) -> Finding:
    """Build the alert of a test notification."""
    return Finding(
        rule.id,
        "test",
        f"This is a test of the rule “{rule.name}”",
        "/system/alerts",
        clock.utc_text(),
    )


def make_notifications(
    settings: Settings, rule: Rule, kind: NotificationKind, findings: Sequence[Finding], send_at: datetime
) -> Iterator[Notification]:
    """Yield one notification per target of a rule, due at `send_at`."""
    zone, base_url = ZoneInfo(settings.dashboard.timezone), (settings.server.public_url or "").rstrip("/")
    subject, text = _format_subject(rule, kind, findings), _format_text(kind, findings, zone, base_url)
    data = _format_json(rule, kind, findings, subject, text, base_url)
    created_at = clock.utc_text()
    for channel, target, place in list_targets(settings, rule):
        yield Notification(
            id=0,
            at=created_at,
            rule_id=rule.id,
            rule=rule.name,
            kind=kind,
            subject=subject,
            body=data if channel == "post" else text,
            channel=channel,
            target=target,
            place=place,
            # The dashboard shows current alerts directly, so nothing has to be sent.
            state="sent" if channel == "notice" else "waiting",
            tries=0,
            next_at=None if channel == "notice" else clock.utc_text(send_at),
            tried_at=None,
            error=None,
        )


def list_targets(settings: Settings, rule: Rule) -> Iterator[tuple[Channel, str, int]]:
    """Yield channel, name and index of each target of a rule.

    The name is for display, without credentials. The index is that of the URL in `alerts.urls`, else 0.
    """
    if rule.id < 0:
        for place, url in enumerate(settings.alerts.urls):
            yield "apprise", f"{url.partition('://')[0]}://… (number {place + 1} of alerts.urls)", place
        return
    if rule.notice:
        yield "notice", "the dashboard", 0
    if rule.emails:
        yield "email", rule.emails.replace(" ", ", "), 0
    if rule.url:
        yield "post", rule.display_url, 0


def _format_subject(rule: Rule, kind: NotificationKind, findings: Sequence[Finding]) -> str:
    summary = findings[0].text if len(findings) == 1 else f"{len(findings)} alerts"
    prefix = {"alert": "", "recovered": "resolved: ", "test": "test: "}[kind]
    text = summary if summary.startswith(rule.name) else f"{rule.name}: {summary}"
    return "".join(character if character.isprintable() else " " for character in prefix + text)[:200]


def _format_text(kind: NotificationKind, findings: Sequence[Finding], zone: ZoneInfo, base_url: str) -> str:
    lines = ["Resolved:", ""] if kind == "recovered" else []
    for finding in findings[:MAX_LISTED]:
        moment = clock.to_zone(clock.parse_utc(finding.began_at), zone)
        since = f", since {moment:%d %b %H:%M}" if moment and kind != "test" else ""
        lines.append(f"- {finding.text}{since}")
        if base_url:
            lines.append(f"  {base_url}{finding.href}")
    if len(findings) > MAX_LISTED:
        lines.append(f"- and {len(findings) - MAX_LISTED} more")
    lines += ["", f"Times are in {zone.key.replace('_', ' ')}."]
    return "\n".join(lines)


def _format_json(
    rule: Rule, kind: NotificationKind, findings: Sequence[Finding], subject: str, text: str, base_url: str
) -> str:
    body = {
        "event": kind,
        "rule": rule.name,
        "condition": rule.condition,
        "at": clock.utc_text(),
        "subject": subject,
        # Webhook receivers of chat services show this key.
        "text": f"{subject}\n{text}",
        "count": len(findings),
        "findings": [
            {
                "key": finding.key,
                "text": finding.text,
                "since": finding.began_at,
                "url": f"{base_url}{finding.href}",
            }
            for finding in findings[:MAX_LISTED]
        ],
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
