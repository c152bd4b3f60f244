"""The words of alerts, and the lines of the log that carry them to each of a rule's targets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from integration.alerts.conditions import CONDITIONS
from integration.alerts.notification_log import Channel, Kind, Line
from integration.alerts.rules import Finding, Rule
from integration.core import clock
from integration.settings.model import Settings

SHOWN = 20
"""Findings listed by one message; the others are counted."""


def test_finding(rule: Rule) -> Finding:
    """What the test button tells of."""
    word = CONDITIONS[rule.condition].word
    return Finding(
        rule.id, "test", f"This is a test. The rule watches: {word.lower()}…", "/system/alerts", clock.stamp()
    )


def lines(
    settings: Settings, rule: Rule, kind: Kind, findings: Sequence[Finding], at: datetime
) -> Iterator[Line]:
    """A line for each target, to be sent at `at`."""
    zone, base = ZoneInfo(settings.dashboard.timezone), (settings.server.public_url or "").rstrip("/")
    subject, text = _subject(rule, kind, findings), _text(kind, findings, zone, base)
    data = _json(rule, kind, findings, subject, text, base)
    made = clock.stamp()
    for channel, target, place in targets(settings, rule):
        yield Line(
            id=0,
            at=made,
            rule_id=rule.id,
            rule=rule.name,
            kind=kind,
            subject=subject,
            body=data if channel == "post" else text,
            channel=channel,
            target=target,
            place=place,
            # A notice on the dashboard is there already: it is what the rule finds.
            state="sent" if channel == "notice" else "waiting",
            tries=0,
            next_at=None if channel == "notice" else clock.stamp(at),
            tried_at=None,
            error=None,
        )


def targets(settings: Settings, rule: Rule) -> Iterator[tuple[Channel, str, int]]:
    """Channel, target for people, number in `alerts.urls`."""
    if rule.id < 0:
        for place, url in enumerate(settings.alerts.urls):
            yield "apprise", f"{url.partition('://')[0]}://… (number {place + 1} of alerts.urls)", place
        return
    if rule.notice:
        yield "notice", "the dashboard", 0
    if rule.emails:
        yield "email", rule.emails.replace(" ", ", "), 0
    if rule.url:
        yield "post", rule.shown_url, 0


def _subject(rule: Rule, kind: Kind, findings: Sequence[Finding]) -> str:
    first = findings[0].text if len(findings) == 1 else f"{len(findings)} at once"
    over = {"alert": "", "recovered": "over: ", "test": "test: "}[kind]
    said = first if first.startswith(rule.name) else f"{rule.name}: {first}"
    return "".join(sign if sign.isprintable() else " " for sign in over + said)[:200]


def _text(kind: Kind, findings: Sequence[Finding], zone: ZoneInfo, base: str) -> str:
    said = ["No longer so:", ""] if kind == "recovered" else []
    for finding in findings[:SHOWN]:
        moment = clock.parse_stamp(finding.began_at)
        since = f", since {moment.astimezone(zone):%d %b %H:%M}" if moment and kind != "test" else ""
        said.append(f"- {finding.text}{since}")
        if base:
            said.append(f"  {base}{finding.href}")
    if len(findings) > SHOWN:
        said.append(f"- and {len(findings) - SHOWN} more")
    said += ["", f"Times are of {zone.key.replace('_', ' ')}."]
    return "\n".join(said)


def _json(rule: Rule, kind: Kind, findings: Sequence[Finding], subject: str, text: str, base: str) -> str:
    body = {
        "event": kind,
        "rule": rule.name,
        "condition": rule.condition,
        "at": clock.stamp(),
        "subject": subject,
        # What receivers for chats show.
        "text": f"{subject}\n{text}",
        "count": len(findings),
        "findings": [
            {"key": one.key, "text": one.text, "since": one.began_at, "url": f"{base}{one.href}"}
            for one in findings[:SHOWN]
        ],
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
