"""Round by round: what do the rules find, what of it is new, what is over, who is to be told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from zoneinfo import ZoneInfo

from integration.alerts import notification_log as alert_log
from integration.alerts import rules as alert_rules
from integration.alerts.conditions import CONDITIONS, Look
from integration.alerts.decide import Decision, decide
from integration.alerts.messages import lines
from integration.alerts.notification_log import Line
from integration.alerts.rules import Finding, Rule
from integration.context import House
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.settings.model import Settings
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

OWN = "alert"
"""How names of our own parts begin: they can't tell of themselves."""


class RuleFailed(SwitchroomError):
    """Rules could not be looked at; the others were."""


def configured(settings: Settings) -> list[Rule]:
    """The rules that `alerts.events` stands for, told to all of `alerts.urls`."""
    if not settings.alerts.urls:
        return []
    behind = max(10, -(-2 * settings.sync.recent_interval // 60))
    known = {
        "missed_call": Rule(-1, "Missed call", "missed_call", 0),
        "voicemail": Rule(-2, "Voicemail", "voicemail", 0),
        "sms": Rule(-3, "Message", "sms", 0),
        "sync_failing": Rule(-4, "Sync failing", "behind", behind),
    }
    return [rule for event, rule in known.items() if event in settings.alerts.events]


class Watch:
    """`wake()` is called when there is something to send."""

    def __init__(self, parts: House, wake: Callable[[], None]) -> None:
        self._parts = parts
        self._wake = wake
        self._configured = configured(parts.settings)
        self._zone = ZoneInfo(parts.settings.dashboard.timezone)
        self._failing: dict[str, float] = {}

    def round(self) -> None:
        """Look once by every rule. Raises RuleFailed after the round where some could not be looked at."""
        house = self._parts.house
        with house.read() as connection:
            rules = [rule for rule in alert_rules.everything(connection) if rule.paused_at is None]
            known = alert_rules.findings(connection)
            told = alert_log.last_told(connection)
        rules += self._configured
        if not rules and not known:
            return
        failing = self._failing_since()
        decisions, failures = [], []
        for rule in rules:
            before = known.pop(rule.id, [])
            try:
                decided = self._look(rule, before, told.get(rule.id, ""), failing)
            except Exception as error:
                # One condition that can't be looked at must not silence the others.
                log.exception("the alert rule %r", rule.name)
                failures.append(f"{rule.name}: {type(error).__name__}: {error}")
                continue
            if decided.here != before or decided.gone:
                decisions.append((rule, decided))
        orphans = [finding for findings in known.values() for finding in findings]
        if decisions or orphans:
            self._keep(decisions, orphans)
        if failures:
            raise RuleFailed("; ".join(failures))

    def _look(
        self, rule: Rule, before: list[Finding], last_told: str, failing: Mapping[str, float]
    ) -> Decision:
        now = clock.now().astimezone(self._zone)
        condition = CONDITIONS[rule.condition]
        look = Look(self._parts, rule, now, before, failing)
        found = condition.find(look) if rule.watches(now) else []
        return decide(rule, found, before, last_told, now, recovers=condition.recovers)

    def _keep(self, decisions: list[tuple[Rule, Decision]], orphans: list[Finding]) -> None:
        made: list[Line] = []
        settings = self._parts.settings
        for rule, decided in decisions:
            now = clock.now()
            if decided.alert:
                made += lines(settings, rule, "alert", decided.alert, now)
            if decided.recovered:
                made += lines(settings, rule, "recovered", decided.recovered, decided.recovered_at)

        def work(tx: Transaction) -> None:
            alert_rules.keep(tx, [], orphans)
            for _, decided in decisions:
                alert_rules.keep(tx, decided.here, decided.gone)
            alert_log.add(tx, made)

        self._parts.house.write(work)
        if made:
            self._wake()
        # Open pages take it from the stream of changes, which is the mirror's.
        if any(rule.notice for rule, _ in decisions) or orphans:
            self._parts.mirror.write(lambda tx: tx.announce("alert", 0))

    def _failing_since(self) -> dict[str, float]:
        """Since when each part that is not well has been so, as far as these rounds saw."""
        now = clock.unix()
        bad = {
            name
            for name, check in self._parts.health.report()["checks"].items()
            if check["state"] in ("failing", "stalled") and not name.startswith(OWN)
        }
        self._failing = {name: self._failing.get(name, now) for name in bad}
        return self._failing
