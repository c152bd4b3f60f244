"""What of a rule's findings is to be told now. No clock, no database: times come in, decisions go out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from integration.alerts.conditions import Found
from integration.alerts.rules import Finding, Rule
from integration.core import clock


@dataclass(frozen=True, slots=True)
class Decision:
    """`here` holds now, `gone` no more. `alert` is to be told at once, `recovered` at `recovered_at`."""

    here: list[Finding]
    gone: list[Finding]
    alert: list[Finding]
    recovered: list[Finding]
    recovered_at: datetime


def decide(
    rule: Rule, found: Iterable[Found], known: list[Finding], last_told: str, now: datetime, *, recovers: bool
) -> Decision:
    """`known` is what the rule found before, `last_told` when it last told of something (UTC text or '').

    What is found in quiet hours or while the rule cools down is told afterwards, in one message, if it still
    holds then. That something is over is told to those who were told of it, after quiet hours, too.
    """
    before = {finding.key: finding for finding in known}
    present = {one.key: _finding(rule, one, before.get(one.key)) for one in found}
    here = sorted(present.values(), key=lambda finding: (finding.began_at, finding.key))
    gone = [finding for finding in known if finding.key not in present]
    quiet_until = rule.quiet_until(now)
    cooled = last_told <= clock.stamp(now.timestamp() - 60 * rule.cooldown)
    alert: list[Finding] = []
    if quiet_until is None and cooled:
        alert = [replace(finding, told_at=clock.stamp(now)) for finding in here if finding.told_at is None]
        told = {finding.key: finding for finding in alert}
        here = [told.get(finding.key, finding) for finding in here]
    # Out of its hours a rule does not look, so that nothing is known to be over.
    recovered = [one for one in gone if one.told_at is not None] if recovers and rule.watches(now) else []
    return Decision(here, gone, alert, recovered, quiet_until or now)


def _finding(rule: Rule, found: Found, before: Finding | None) -> Finding:
    if before is None:
        return Finding(rule.id, found.key, found.text, found.href, found.at)
    return replace(before, text=found.text, href=found.href)
