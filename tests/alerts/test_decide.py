"""Decisions about notifications: cool-down, quiet hours, recovery."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from integration.alerts.conditions import Evaluation, Match
from integration.alerts.evaluate import decide
from integration.alerts.rules import Finding, Rule
from integration.core import clock

NOON = datetime(2026, 3, 4, 12, tzinfo=ZoneInfo("Europe/London"))
"""A Wednesday."""


def found(*keys: str, at: str = "2026-03-04 11:00:00") -> list[Match]:
    return [Match(key, f"{key} happens", "/", at) for key in keys]


def rule(**values: object) -> Rule:
    return Rule(1, "A rule", "waiting", 60, **values)  # type: ignore[arg-type]


def keys(findings: list[Finding]) -> list[str]:
    return [finding.key for finding in findings]


@pytest.mark.parametrize("change", ["2026-03-29", "2026-10-25"])
def test_cool_down_is_measured_in_elapsed_minutes_over_a_change_of_clocks(change):
    """At 01:00 UTC a local hour is skipped or repeated."""
    now = datetime.fromisoformat(f"{change} 01:10:00+00:00").astimezone(ZoneInfo("Europe/London"))
    assert Evaluation(None, None, rule(), now, [], {}).utc_text_before(minutes=20) == f"{change} 00:50:00"  # type: ignore[arg-type]
    for minutes, expected in ((14, []), (15, ["a"])):
        last = clock.utc_text(now.timestamp() - 60 * minutes)
        assert (
            keys(decide(rule(cooldown=15), found("a"), [], last, now, reports_recovery=True).alerts)
            == expected
        )


def test_quiet_hours_delay_notifications_and_drop_alerts_that_ended():
    quiet = rule(quiet_from="22:00", quiet_to="07:00")
    night = NOON.replace(hour=23)
    held = decide(quiet, found("a", "b"), [], "", night, reports_recovery=True)
    assert held.alerts == []
    morning = (night + timedelta(days=1)).replace(hour=7)
    still = decide(quiet, found("b"), held.current, "", morning - timedelta(minutes=1), reports_recovery=True)
    assert (still.alerts, keys(still.ended), still.recovered) == ([], ["a"], [])
    after = decide(quiet, found("b"), still.current, "", morning, reports_recovery=True)
    assert keys(after.alerts) == ["b"]


def test_recovery_of_a_notified_alert_is_due_after_quiet_hours():
    quiet = rule(quiet_from="22:00", quiet_to="07:00")
    evening = NOON.replace(hour=21, minute=59)
    first = decide(quiet, found("a"), [], "", evening, reports_recovery=True)
    over = decide(quiet, [], first.current, "", evening + timedelta(minutes=2), reports_recovery=True)
    assert keys(over.recovered) == ["a"]
    assert over.recovery_due_at == (evening + timedelta(days=1)).replace(hour=7, minute=0)


@pytest.mark.parametrize(
    ("days", "begins", "ends", "at", "watches"),
    [
        ("0123456", "", "", "12:00", True),
        ("01", "", "", "12:00", False),
        ("2", "09:00", "12:00", "11:59", True),
        ("2", "09:00", "12:00", "12:00", False),
        ("2", "22:00", "06:00", "22:00", True),
        ("1", "22:00", "06:00", "22:00", False),
        ("1", "22:00", "06:00", "05:59", True),
        ("2", "22:00", "06:00", "05:59", False),
        ("2", "22:00", "06:00", "12:00", False),
    ],
)
def test_days_and_hours(days, begins, ends, at, watches):
    hour, minute = map(int, at.split(":"))
    one = rule(days=days, begins=begins, ends=ends)
    assert one.is_active(NOON.replace(hour=hour, minute=minute)) is watches
