"""Conditions of alert rules. Each returns the current matches."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from integration.alerts.rules import Finding, Rule
from integration.context import AppContext
from integration.core import clock
from integration.core.phone_numbers import is_withheld
from integration.mirror.page_queries import alert_queries, live
from integration.mirror.sync_state import collection_state, completeness
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

    `now` is in the display zone. `previous_findings` are the alerts of the previous evaluation of the rule.
    `failing_since` has the start of each failing health check (Unix seconds).
    """

    context: AppContext
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
class Condition:
    """A condition of alert rules.

    `unit` is the unit of the threshold, '' for a condition without threshold. `default`, `least` and `most`
    limit the threshold. `reports_recovery`: the end of an alert causes a notification.
    """

    label: str
    unit: str
    default: int
    least: int
    most: int
    find: Callable[[Evaluation], list[Match]]
    reports_recovery: bool = True


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


def _not_called_back(evaluation: Evaluation) -> list[Match]:
    cutoff = evaluation.utc_text_before(minutes=evaluation.rule.threshold)
    with evaluation.context.app_db.read() as connection:
        items = [item for item in callbacks.list_items(connection) if item.opened_at <= cutoff]
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
    with evaluation.context.mirror_db.read() as connection:
        calls = alert_queries.list_waiting_calls(
            connection, evaluation.utc_text_before(seconds=evaluation.rule.threshold)
        )
    return [
        _make_call_match(
            call,
            f"{_format_caller(evaluation.context, call)} has been waiting"
            f"{_format_line(evaluation.context, call)}",
            call["started_at"],
        )
        for call in calls
    ]


def _queue_length(evaluation: Evaluation) -> list[Match]:
    with evaluation.context.mirror_db.read() as connection:
        queues = live.list_queue_status(connection)
    return [
        Match(
            str(queue["id"]),
            f"{_format_count(queue['waiting'], 'caller')} waiting in {queue['name']}",
            "/",
            queue["longest"],
        )
        for queue in queues
        if queue["waiting"] >= evaluation.rule.threshold
    ]


def _not_answered(evaluation: Evaluation) -> list[Match]:
    is_missed = evaluation.rule.condition == "missed_call"
    prefix = "Missed call from" if is_missed else "Voicemail from"
    with evaluation.context.mirror_db.read() as connection:
        calls = alert_queries.list_unanswered_calls(
            connection, "missed" if is_missed else "voicemail", evaluation.new_since, MAX_MATCHES
        )
    return [
        _make_call_match(
            call,
            f"{prefix} {_format_caller(evaluation.context, call)}{_format_line(evaluation.context, call)}",
            call["at"],
        )
        for call in calls
    ]


def _sms(evaluation: Evaluation) -> list[Match]:
    with evaluation.context.mirror_db.read() as connection:
        rows = alert_queries.list_received_messages(connection, evaluation.new_since, MAX_MATCHES)
    matches, phone_numbers = [], evaluation.context.phone_numbers
    for row in rows:
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
    # Time outside the rule's hours and before its creation does not count as silence.
    since = max(
        last_received_at or "",
        evaluation.rule.created_at,
        clock.utc_text(active_since) if active_since else "",
    )
    if since > evaluation.utc_text_before(minutes=evaluation.rule.threshold):
        return []
    return [Match("webhooks", "The phone system has sent no webhook", "/system", since)]


def _failed_downloads(evaluation: Evaluation) -> list[Match]:
    kinds = list_enabled_kinds(evaluation.context.settings)
    with evaluation.context.mirror_db.read() as connection:
        row = alert_queries.summarize_failed_downloads(connection, kinds)
    if row["n"] < evaluation.rule.threshold:
        return []
    reason = row["why"] if row["n"] == 1 else f"the last: {row['why']}"
    text = f"{_format_count(row['n'], 'download')} of recordings, voicemail or faxes failed ({reason})"
    return [Match("files", text, "/recordings?state=failed", row["since"] or clock.utc_text(evaluation.now))]


def _late_records(evaluation: Evaluation) -> list[Match]:
    with evaluation.context.mirror_db.read() as connection:
        freshness = collection_state.get_state(connection, "cdrs")
    since = freshness.last_success_at or (freshness.last_error and evaluation.rule.created_at)
    if not since or since > evaluation.utc_text_before(minutes=evaluation.rule.threshold):
        return []
    reason = f": {freshness.last_error}" if freshness.last_error else ""
    return [Match("mirror", f"Call records are not syncing{reason}", "/system", since)]


def _missing_records(evaluation: Evaluation) -> list[Match]:
    # Exclude today: its counts differ while calls arrive.
    today = evaluation.utc_text_before(days=0)[:10]
    with evaluation.context.mirror_db.read() as connection:
        rows = alert_queries.list_completeness_gaps(connection, today, completeness.RECHECK_SECONDS)
    return [
        Match(
            row["collection"],
            f"{_format_count(int(row['n']), 'record')} of /{row['collection']} missing"
            + (f", the first of {row['day']}" if row["day"] else ""),
            "/system#coverage",
            row["since"],
        )
        for row in rows
        if row["n"] >= evaluation.rule.threshold
    ]


def _low_disk(evaluation: Evaluation) -> list[Match]:
    free_gb = shutil.disk_usage(evaluation.context.settings.storage.data_dir).free / 1e9
    if free_gb >= evaluation.rule.threshold:
        return []
    since = next(
        (finding.began_at for finding in evaluation.previous_findings), clock.utc_text(evaluation.now)
    )
    return [Match("disk", f"{free_gb:.1f} GB free on the data disk", "/system", since)]


def _failing_components(evaluation: Evaluation) -> list[Match]:
    checks = evaluation.context.health.report()["checks"]
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


CONDITIONS: Mapping[str, Condition] = {
    "not_called_back": Condition(
        "Missed caller not called back within", "minutes", 30, 1, 10_080, _not_called_back
    ),
    "waiting": Condition("Caller waiting longer than", "seconds", 60, 5, 3600, _waiting),
    "queue_length": Condition("Callers waiting in one queue: at least", "callers", 5, 1, 1000, _queue_length),
    "missed_call": Condition("Missed call", "", 0, 0, 0, _not_answered, reports_recovery=False),
    "voicemail": Condition("New voice message", "", 0, 0, 0, _not_answered, reports_recovery=False),
    "sms": Condition("New SMS", "", 0, 0, 0, _sms, reports_recovery=False),
    "silent_webhooks": Condition("No webhook for", "minutes", 60, 1, 10_080, _silent_webhooks),
    "behind": Condition("Sync delayed by", "minutes", 15, 1, 10_080, _late_records),
    "gap": Condition("Missing records: at least", "records", 1, 1, 1_000_000, _missing_records),
    "files": Condition("Failed recording downloads: at least", "files", 1, 1, 1_000_000, _failed_downloads),
    "disk": Condition("Free disk space below", "GB", 5, 1, 100_000, _low_disk),
    "trouble": Condition("Switchroom component failing for", "minutes", 10, 1, 10_080, _failing_components),
}
