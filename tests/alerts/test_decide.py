"""What is told, and when: cool-down, quiet hours, recovery."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from integration.alerts.conditions import Found, Look
from integration.alerts.decide import decide
from integration.alerts.rules import Finding, Rule
from integration.core import clock

NOON = datetime(2026, 3, 4, 12, tzinfo=ZoneInfo("Europe/London"))
"""A Wednesday."""


def found(*keys: str, at: str = "2026-03-04 11:00:00") -> list[Found]:
    return [Found(key, f"{key} happens", "/", at) for key in keys]


def rule(**values: object) -> Rule:
    return Rule(1, "A rule", "waiting", 60, **values)  # type: ignore[arg-type]


def keys(findings: list[Finding]) -> list[str]:
    return [finding.key for finding in findings]


def test_what_is_new_is_told_once():
    first = decide(rule(), found("a"), [], "", NOON, recovers=True)
    assert keys(first.alert) == ["a"]
    told = clock.stamp(NOON)
    assert first.here == [Finding(1, "a", "a happens", "/", "2026-03-04 11:00:00", told)]
    second = decide(rule(), found("a", "b"), first.here, told, NOON, recovers=True)
    assert (keys(second.alert), keys(second.here)) == (["b"], ["a", "b"])


def test_what_comes_while_it_cools_down_is_told_together_afterwards():
    cooling, told = rule(cooldown=15), clock.stamp(NOON)
    first = decide(cooling, found("a"), [], "", NOON, recovers=True)
    soon = decide(cooling, found("a", "b"), first.here, told, NOON + timedelta(minutes=14), recovers=True)
    assert soon.alert == []
    later = decide(
        cooling, found("a", "b", "c"), soon.here, told, NOON + timedelta(minutes=15), recovers=True
    )
    assert keys(later.alert) == ["b", "c"]


@pytest.mark.parametrize("change", ["2026-03-29", "2026-10-25"])
def test_minutes_are_minutes_where_clocks_change(change):
    """An hour is skipped or comes twice at 01:00 UTC."""
    now = datetime.fromisoformat(f"{change} 01:10:00+00:00").astimezone(ZoneInfo("Europe/London"))
    assert Look(None, rule(), now, [], {}).ago(minutes=20) == f"{change} 00:50:00"  # type: ignore[arg-type]
    for minutes, told in ((14, []), (15, ["a"])):
        last = clock.stamp(now.timestamp() - 60 * minutes)
        assert keys(decide(rule(cooldown=15), found("a"), [], last, now, recovers=True).alert) == told


def test_quiet_hours_hold_back_and_what_is_over_by_then_is_never_told():
    quiet = rule(quiet_from="22:00", quiet_to="07:00")
    night = NOON.replace(hour=23)
    held = decide(quiet, found("a", "b"), [], "", night, recovers=True)
    assert held.alert == []
    morning = (night + timedelta(days=1)).replace(hour=7)
    still = decide(quiet, found("b"), held.here, "", morning - timedelta(minutes=1), recovers=True)
    assert (still.alert, keys(still.gone), still.recovered) == ([], ["a"], [])
    after = decide(quiet, found("b"), still.here, "", morning, recovers=True)
    assert keys(after.alert) == ["b"]


def test_who_was_told_is_told_that_it_is_over_after_quiet_hours():
    quiet = rule(quiet_from="22:00", quiet_to="07:00")
    evening = NOON.replace(hour=21, minute=59)
    told = decide(quiet, found("a"), [], "", evening, recovers=True)
    over = decide(quiet, [], told.here, "", evening + timedelta(minutes=2), recovers=True)
    assert keys(over.recovered) == ["a"]
    assert over.recovered_at == (evening + timedelta(days=1)).replace(hour=7, minute=0)


def test_news_have_no_end_and_a_rule_out_of_its_hours_knows_of_none():
    told = decide(rule(), found("a"), [], "", NOON, recovers=True)
    assert decide(rule(), [], told.here, "", NOON, recovers=False).recovered == []
    day = rule(begins="09:00", ends="12:00")
    assert decide(day, [], told.here, "", NOON, recovers=True).recovered == []


@pytest.mark.parametrize(
    ("days", "begins", "ends", "at", "watches"),
    [
        ("0123456", "", "", "12:00", True),
        ("01", "", "", "12:00", False),
        ("2", "09:00", "12:00", "11:59", True),
        ("2", "09:00", "12:00", "12:00", False),
        ("2", "22:00", "06:00", "05:59", True),
        ("2", "22:00", "06:00", "12:00", False),
    ],
)
def test_days_and_hours(days, begins, ends, at, watches):
    hour, minute = map(int, at.split(":"))
    one = rule(days=days, begins=begins, ends=ends)
    assert one.watches(NOON.replace(hour=hour, minute=minute)) is watches
