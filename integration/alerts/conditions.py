"""Conditions of alert rules. Each returns the current matches."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from string import Formatter
from typing import Any, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from integration.alerts.rules import Finding, Rule
from integration.catalogue import get_resource
from integration.catalogue.collection_titles import get_title
from integration.context import AppContext
from integration.core import clock
from integration.core.opening_hours import ALL_LINES
from integration.core.phone_numbers import is_withheld
from integration.mirror.page_queries import alert_queries, live
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.mirror.page_queries.reports import Figures, Span, compute_totals, get_currency
from integration.mirror.sync_state import collection_state, completeness, media_files
from integration.mirror.sync_state.completeness import DayCount
from integration.sync.files.download import list_enabled_kinds
from integration.workspace import callbacks
from integration.workspace.callback_items import CallbackItem

RECENT_HOURS = 1
"""Largest age in hours of a call or message that is reported as new.

It covers events during a downtime, but not the history of an initial sync."""
MAX_MATCHES = 500
"""Largest number of calls or messages that one evaluation returns."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Input of a condition.

    `mirror` reads mirror.db. `now` is in the display zone. `previous_findings` are the alerts of the previous
    evaluation of the rule. `failing_since` has the start of each failing health check (Unix seconds).
    """

    context: AppContext
    mirror: sqlite3.Connection
    rule: Rule
    now: datetime
    previous_findings: list[Finding]
    failing_since: Mapping[str, float]

    def utc_text_before(self, **span: float) -> str:
        """Return the time `span` ago as UTC text."""
        # Subtracting from a local datetime would be wrong by an hour when the clocks change.
        return clock.utc_text(self.now.timestamp() - timedelta(**span).total_seconds())

    @property
    def new_since(self) -> str:
        """UTC text from which calls and messages are new.

        Includes alerts without a notification.
        """
        recent = max(self.utc_text_before(hours=RECENT_HOURS), self.rule.created_at)
        return min(
            [recent, *(finding.began_at for finding in self.previous_findings if finding.notified_at is None)]
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A current match of a condition.

    `since` is its start (UTC text); for the other fields see `Finding`.
    """

    key: str
    text: str
    href: str
    since: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the sentence of a condition. `unit` names what it counts."""

    unit: str
    default: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of alert rules.

    `label` is its short name. `sentence` describes it with its fields in braces: `{threshold}`, `{minutes}`
    and `{calls}` are numbers of the rule, described by `numbers`; `{queue}` is a queue or `any_queue`, and
    `{currency}` the account's currency. `reports_recovery`: the end of an alert causes a notification.
    `is_suggested`: the page offers to switch it on with its default values. `follows_line`: of a rule
    that is active only during opening hours, `find` excludes what arrived while its line was closed.
    """

    label: str
    sentence: str
    find: Callable[[Evaluation], list[Match]]
    threshold: Number | None = None
    minutes: Number | None = None
    calls: Number | None = None
    any_queue: str = ""
    reports_recovery: bool = True
    is_suggested: bool = False
    follows_line: bool = False

    @property
    def numbers(self) -> dict[str, Number]:
        """Numbers of the sentence by their field in `Rule`."""
        found = {"threshold": self.threshold, "minutes": self.minutes, "calls": self.calls}
        return {name: number for name, number in found.items() if number is not None}

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The sentence as (text, name of the following field or '')."""
        return [(text, name or "") for text, name, _, _ in Formatter().parse(self.sentence)]


def make_default_rule(condition: str, **values: Any) -> Rule:
    """Return an unsaved rule with the label and the default numbers of a condition."""
    kind = CONDITIONS[condition]
    numbers = {name: number.default for name, number in kind.numbers.items()}
    return replace(Rule(id=0, name=kind.label, condition=condition, threshold=0), **{**numbers, **values})


# --- calls and messages ----------------------------------------------------------------------------------


def _format_caller(context: AppContext, call: sqlite3.Row) -> str:
    number = context.phone_numbers.format_national(call["party_e164"] or call["party"])
    if is_withheld(call["party"]):
        number = "a withheld number"
    return f"{call['party_name']} ({number})" if call["party_name"] else number


def _format_line(context: AppContext, call: sqlite3.Row) -> str:
    our_number = call["group_name"] or context.phone_numbers.format_national(
        call["our_e164"] or call["our_number"]
    )
    return f" on {our_number}" if our_number else ""


def _make_call_match(call: sqlite3.Row, text: str, since: str) -> Match:
    return Match(str(call["id"]), text, f"/calls/{call['id']}", since)


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _is_included(evaluation: Evaluation, line: str | None, at: str | None) -> bool:
    """Return whether the rule includes what arrived on a line at a time, UTC text."""
    return not evaluation.rule.only_open or evaluation.context.rules.counting.hours.is_open_at(line, at)


def _list_included(evaluation: Evaluation, calls: Iterable[sqlite3.Row]) -> list[sqlite3.Row]:
    return [
        call
        for call in calls
        if _is_included(evaluation, call["our_e164"] or call["our_number"], call["started_at"])
    ]


def _is_due(evaluation: Evaluation, item: CallbackItem) -> bool:
    """Return whether a caller has waited for the minutes of the rule while the line was open."""
    opened = clock.parse_utc(item.opened_at)
    line = evaluation.context.phone_numbers.to_e164(item.our_number) or item.our_number
    seconds = 60 * evaluation.rule.threshold
    hours = evaluation.context.rules.counting.hours
    return opened is not None and hours.add_open_time(line, opened, seconds) <= evaluation.now


def _not_called_back(evaluation: Evaluation) -> list[Match]:
    cutoff = evaluation.utc_text_before(minutes=evaluation.rule.threshold)
    with evaluation.context.app_db.read() as connection:
        items = [
            item
            for item in callbacks.list_items(connection)
            if item.opened_at <= cutoff and _is_due(evaluation, item)
        ]
    return [
        Match(
            str(item.id),
            f"{_format_party(evaluation.context, item)} is waiting for a call back",
            f"/missed#item-{item.id}",
            item.opened_at,
        )
        for item in items
    ]


def _format_party(context: AppContext, item: CallbackItem) -> str:
    number = (
        "A withheld number" if is_withheld(item.party) else context.phone_numbers.format_national(item.party)
    )
    return f"{item.party_name} ({number})" if item.party_name else number


def _waiting(evaluation: Evaluation) -> list[Match]:
    calls = alert_queries.list_waiting_calls(
        evaluation.mirror,
        evaluation.utc_text_before(seconds=evaluation.rule.threshold),
        evaluation.rule.queue_id,
    )
    return [
        _make_call_match(
            call,
            f"{_format_caller(evaluation.context, call)} has been waiting"
            f"{_format_line(evaluation.context, call)}",
            call["started_at"],
        )
        for call in _list_included(evaluation, calls)
    ]


def _queue_length(evaluation: Evaluation) -> list[Match]:
    queues = live.list_queue_status(evaluation.mirror)
    return [
        Match(
            str(queue["id"]),
            f"{_format_count(queue['waiting'], 'caller')} waiting in {queue['name']}",
            "/",
            queue["longest"],
        )
        for queue in queues
        if queue["waiting"] >= evaluation.rule.threshold and evaluation.rule.queue_id in (None, queue["id"])
    ]


def _not_answered(evaluation: Evaluation) -> list[Match]:
    outcome: Literal["missed", "voicemail"] = "voicemail"
    prefix = f"{STATE_LABELS['voicemail'].text} from"
    if evaluation.rule.condition == "missed_call":
        outcome, prefix = "missed", f"{STATE_LABELS['missed'].text} call from"
    calls = alert_queries.list_unanswered_calls(evaluation.mirror, outcome, evaluation.new_since, MAX_MATCHES)
    return [
        _make_call_match(
            call,
            f"{prefix} {_format_caller(evaluation.context, call)}{_format_line(evaluation.context, call)}",
            call["at"],
        )
        for call in _list_included(evaluation, calls)
    ]


def _sms(evaluation: Evaluation) -> list[Match]:
    rows = alert_queries.list_received_messages(evaluation.mirror, evaluation.new_since, MAX_MATCHES)
    matches, phone_numbers = [], evaluation.context.phone_numbers
    for row in rows:
        if not _is_included(evaluation, ALL_LINES, row["at"]):
            continue
        sender = phone_numbers.format_national(phone_numbers.restore_contact(row["sender"]))
        # A webhook event and its later record have different ids, so the key consists of sender and text.
        key = f"{row['sender']} {row['text']}"[:200]
        text = " ".join(str(row["text"] or "").split())
        excerpt = text if len(text) <= 100 else f"{text[:100]}…"
        matches.append(
            Match(
                key,
                f"Message from {sender or 'a withheld number'}: {excerpt}",
                f"/messages?{urlencode({'with': row['sender']})}",
                row["at"],
            )
        )
    return matches


# --- health of Switchroom --------------------------------------------------------------------------------


def _silent_webhooks(evaluation: Evaluation) -> list[Match]:
    last_received_at = evaluation.context.inbox.load_overview().last_received_at
    active_since = evaluation.rule.find_active_since(evaluation.now)
    opened = evaluation.context.rules.counting.hours.find_open_since(ALL_LINES, evaluation.now)
    # Time outside the rule's hours and before its creation does not count as silence.
    since = max(
        last_received_at or "",
        evaluation.rule.created_at,
        clock.utc_text(active_since) if active_since else "",
        clock.utc_text(opened) if opened and evaluation.rule.only_open else "",
    )
    if since > evaluation.utc_text_before(minutes=evaluation.rule.threshold):
        return []
    return [Match("webhooks", "The phone system has sent no webhook", "/system", since)]


def _failed_downloads(evaluation: Evaluation) -> list[Match]:
    kinds = list_enabled_kinds(evaluation.context.settings)
    row = media_files.summarize_failed(evaluation.mirror, kinds)
    if row["n"] < evaluation.rule.threshold:
        return []
    reason = row["why"] if row["n"] == 1 else f"the last: {row['why']}"
    text = f"{_format_count(row['n'], 'download')} of recordings, voicemail or faxes failed ({reason})"
    return [Match("files", text, "/recordings?state=failed", row["since"] or clock.utc_text(evaluation.now))]


def _late_records(evaluation: Evaluation) -> list[Match]:
    freshness = collection_state.get_state(evaluation.mirror, "cdrs")
    since = freshness.last_success_at or (freshness.last_error and evaluation.rule.created_at)
    if not since or since > evaluation.utc_text_before(minutes=evaluation.rule.threshold):
        return []
    reason = f": {freshness.last_error}" if freshness.last_error else ""
    return [Match("mirror", f"Call records are not syncing{reason}", "/system", since)]


def _missing_records(evaluation: Evaluation) -> list[Match]:
    # Exclude today: its counts differ while calls arrive.
    today = evaluation.utc_text_before(days=0)[:10]
    differences = completeness.list_differences(evaluation.mirror)
    gaps: dict[str, dict[str, DayCount]] = {}
    for gap in differences:
        if gap.is_gap and gap.total > gap.ours and gap.day < today:
            gaps.setdefault(gap.collection, {})[gap.day] = gap
    matches = []
    for collection, gap_by_day in sorted(gaps.items()):
        began_at = min(gap.differs_since or gap.asked_at for gap in gap_by_day.values())
        entire = gap_by_day.pop(completeness.ENTIRE_COLLECTION, None)
        missing_count = sum(gap.total - gap.ours for gap in gap_by_day.values())
        # The comparison of the entire collection contains the days.
        missing_count = max(missing_count, entire.total - entire.ours if entire else 0)
        if missing_count >= evaluation.rule.threshold:
            title = get_title(get_resource(collection))
            text = f"{title}: {_format_count(missing_count, 'record')} missing here"
            if gap_by_day:
                text += f", the first of {datetime.fromisoformat(min(gap_by_day)):%-d %b %Y}"
            matches.append(Match(collection, text, "/system#coverage", began_at))
    return matches


def _low_disk(evaluation: Evaluation) -> list[Match]:
    free_gb = shutil.disk_usage(evaluation.context.settings.storage.data_dir).free / 1e9
    if free_gb >= evaluation.rule.threshold:
        return []
    return [_make_figure_match(evaluation, "disk", f"{free_gb:.1f} GB free on the data disk", "/system")]


def _failing_components(evaluation: Evaluation) -> list[Match]:
    checks = evaluation.context.health.list_checks()
    cutoff = evaluation.now.timestamp() - 60 * evaluation.rule.threshold
    return [
        Match(
            component,
            f"{component}: {checks[component]['error'] or checks[component]['state']}",
            "/system#parts",
            clock.utc_text(failing_at),
        )
        for component, failing_at in sorted(evaluation.failing_since.items())
        if failing_at <= cutoff and component in checks
    ]


# --- figures of calls ------------------------------------------------------------------------------------


def _find_start(evaluation: Evaluation) -> datetime:
    """Return the start of the last `minutes` of the rule: a full minute, as in the filter of calls."""
    seconds = 60 * (evaluation.now.timestamp() // 60 - evaluation.rule.minutes)
    return datetime.fromtimestamp(seconds, evaluation.now.tzinfo)


def _sum_recent_calls(evaluation: Evaluation) -> Figures:
    """Return the figures of the last `minutes` of the rule."""
    span = Span(
        clock.utc_text(_find_start(evaluation)),
        clock.utc_text(evaluation.now),
        evaluation.context.settings.calls.service_level_seconds,
    )
    return compute_totals(evaluation.mirror, span)


def _make_figure_match(evaluation: Evaluation, key: str, text: str, href: str) -> Match:
    """Return the match of a figure, which begins when it is found first."""
    begins = [finding.began_at for finding in evaluation.previous_findings if finding.key == key]
    return Match(key, text, href, begins[0] if begins else clock.utc_text(evaluation.now))


def _low_service_level(evaluation: Evaluation) -> list[Match]:
    rule, figures = evaluation.rule, _sum_recent_calls(evaluation)
    level = figures.service_level
    if level is None or figures.offered < rule.calls or level >= rule.threshold:
        return []
    text = (
        f"Service level {level:.0f} % of {_format_count(figures.offered, 'call')}"
        f" in the last {rule.minutes} min"
    )
    return [_make_figure_match(evaluation, "service level", text, "/reports?range=today")]


def _many_missed(evaluation: Evaluation) -> list[Match]:
    rule, figures = evaluation.rule, _sum_recent_calls(evaluation)
    if figures.missed < rule.threshold:
        return []
    text = f"{_format_count(figures.missed, 'call')} missed in the last {rule.minutes} min"
    start = _find_start(evaluation)
    days = {"from": start.date(), "to": evaluation.now.date(), "since": f"{start:%H:%M}"}
    return [_make_figure_match(evaluation, "missed", text, f"/calls?{urlencode(days)}&outcome=missed")]


def _high_cost(evaluation: Evaluation) -> list[Match]:
    today = evaluation.now.date()
    cost = alert_queries.sum_charges(
        evaluation.mirror, clock.midnight(today, ZoneInfo(evaluation.context.settings.dashboard.timezone))
    )
    currency = get_currency(evaluation.mirror)
    if cost <= evaluation.rule.threshold:
        return []
    text = f"The calls of today cost {cost:,.2f} {currency}".rstrip() + ", known so far"
    # Each day is an alert of its own.
    return [_make_figure_match(evaluation, f"cost {today}", text, "/reports?range=today")]


CONDITIONS: Mapping[str, Condition] = {
    "waiting": Condition(
        "Long wait",
        "When a caller waits longer than {threshold} s in {queue}",
        _waiting,
        Number("seconds", 60, 5, 3600),
        any_queue="any queue or number",
        is_suggested=True,
        follows_line=True,
    ),
    "queue_length": Condition(
        "Long queue",
        "When at least {threshold} callers wait in {queue}",
        _queue_length,
        Number("callers", 5, 1, 1000),
        any_queue="any queue",
    ),
    "not_called_back": Condition(
        "No call back",
        "When a missed caller is not called back within {threshold} min",
        _not_called_back,
        Number("minutes", 30, 1, 10_080),
        is_suggested=True,
        follows_line=True,
    ),
    "many_missed": Condition(
        "Many missed calls",
        "When at least {threshold} calls are missed in {minutes} min",
        _many_missed,
        Number("calls", 5, 1, 10_000),
        Number("minutes", 60, 5, 1440),
        is_suggested=True,
    ),
    "service_level": Condition(
        "Low service level",
        "When the service level is under {threshold} % in {minutes} min, with at least {calls} calls",
        _low_service_level,
        Number("percent", 80, 1, 100),
        Number("minutes", 60, 5, 1440),
        Number("calls", 10, 1, 10_000),
    ),
    "cost": Condition(
        "High cost",
        "When the cost of today, known so far, is over {threshold} {currency}",
        _high_cost,
        Number("currency units", 50, 1, 1_000_000),
        reports_recovery=False,
    ),
    "missed_call": Condition(
        "Missed call", "When a call is missed", _not_answered, reports_recovery=False, follows_line=True
    ),
    "voicemail": Condition(
        "Voice message",
        "When a caller leaves a voice message",
        _not_answered,
        reports_recovery=False,
        follows_line=True,
    ),
    "sms": Condition(
        "Text message", "When a text message arrives", _sms, reports_recovery=False, follows_line=True
    ),
    "silent_webhooks": Condition(
        "No webhooks",
        "When no webhook arrives for {threshold} min",
        _silent_webhooks,
        Number("minutes", 60, 1, 10_080),
    ),
    "behind": Condition(
        "Sync delayed",
        "When call records are not synced for {threshold} min",
        _late_records,
        Number("minutes", 15, 1, 10_080),
        is_suggested=True,
    ),
    "gap": Condition(
        "Missing records",
        "When at least {threshold} records of the phone system are missing here",
        _missing_records,
        Number("records", 1, 1, 1_000_000),
    ),
    "files": Condition(
        "Failed downloads",
        "When at least {threshold} recordings, voice messages or faxes cannot be downloaded",
        _failed_downloads,
        Number("files", 1, 1, 1_000_000),
    ),
    "disk": Condition(
        "Low disk space",
        "When less than {threshold} GB of disk space is free",
        _low_disk,
        Number("GB", 5, 1, 100_000),
        is_suggested=True,
    ),
    "trouble": Condition(
        "Failing component",
        "When a component of Switchroom fails for {threshold} min",
        _failing_components,
        Number("minutes", 10, 1, 10_080),
    ),
}
"""Conditions by their stored name, in the order of the page."""
