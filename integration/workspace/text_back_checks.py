"""Decide whether a missed caller gets a text, and which one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal
from zoneinfo import ZoneInfo

from integration.context import AppContext
from integration.core import clock, sms_length
from integration.core.phone_numbers import find_mobile_country
from integration.mirror.page_queries import alert_queries, messages
from integration.workspace import opt_outs, text_back
from integration.workspace.opening_hours import load_opening_hours
from integration.workspace.text_back import TextRule

QUIET_PERIOD = timedelta(hours=24)
"""Time in which a number gets at most one text."""
MAX_LENGTH = 480
"""Most units of a text (`core/sms_length`)."""
Outcome = Literal["missed", "voicemail", "abandoned"]
OUTCOMES: dict[Outcome, str] = {
    "missed": "",
    "voicemail": "Left a voice message",
    "abandoned": "Hung up early",
}
"""Outcomes of calls that reached no person, with the reason why the caller gets no text."""
PLACEHOLDERS = ("line", "opens")
LONGEST_OPENING = "30 September 09:00"
"""Longest value of {opens}."""


@dataclass(frozen=True, slots=True)
class MissedCall:
    """A call that reached no person. `line` and `party`: numbers in E.164, None if unknown."""

    id: int
    started: datetime
    ended: datetime
    outcome: Outcome
    party: str | None
    name: str
    line: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision about a call at the time `due`. With a `reason` its caller gets no text."""

    call: MissedCall
    due: datetime
    reason: str
    rule: TextRule | None = None
    sender: str = ""
    text: str = ""


def list_calls(
    connection: sqlite3.Connection, since: datetime, limit: int, *outcomes: Outcome
) -> list[MissedCall]:
    """Return the newest calls with these outcomes that ended since `since`, oldest first.

    Calls whose end is not confirmed are left out.
    """
    rows = [
        row
        for outcome in outcomes
        for row in alert_queries.list_unanswered_calls(connection, outcome, clock.utc_text(since), limit)
        if not row["unconfirmed"]
    ]
    calls = [
        MissedCall(
            row["id"],
            clock.parse_utc(row["started_at"]) or ended,
            ended,
            row["outcome"],
            row["party_e164"],
            row["party_name"],
            row["our_e164"],
        )
        for row in rows
        if (ended := clock.parse_utc(row["at"])) is not None
    ]
    return sorted(calls, key=lambda call: (call.ended, call.id))[-limit:]


class Checks:
    """All conditions of a text to the callers of `calls`, on one view of the databases.

    `rules` in the order of their precedence. Numbers of earlier decisions of this object count as texted.
    `list_written(connection, since)` returns contact and time (UTC text) of the SMS in the write log, because
    mirror.db can lack the newest.
    """

    def __init__(
        self,
        context: AppContext,
        app_connection: sqlite3.Connection,
        mirror_connection: sqlite3.Connection,
        rules: Sequence[TextRule],
        calls: Iterable[MissedCall],
        list_written: Callable[[sqlite3.Connection, str], Iterable[tuple[str, str]]] = lambda *_: (),
    ) -> None:
        self._context, self._app, self._mirror = context, app_connection, mirror_connection
        self._rules, self._list_written = rules, list_written
        self._zone = ZoneInfo(context.settings.dashboard.timezone)
        self._hours = load_opening_hours(app_connection, self._zone)
        self._texted: dict[str, datetime] = {}
        self._begin = min((call.started for call in calls), default=clock.now())

    def decide(self, call: MissedCall, now: datetime | None = None, since: str = "") -> Decision | None:
        """Decide about a call.

        None: the delay of its rule has not ended at `now`. Without `now` decide at that time. `since`: calls
        that ended before this time (UTC text), or before their rule was started, get no text.
        """
        rule = self._find_rule(call.line, call.ended)
        due = call.ended + timedelta(minutes=rule.delay if rule is not None else 0)
        if now is not None and due > now:
            return None
        # A text in the future was sent before the clock was set back.
        texts_until = clock.utc_text(due) if now is None else "~"
        due = now or due
        reason = OUTCOMES[call.outcome] or self._check_call(call)
        if reason or call.party is None:
            return Decision(call, due, reason)
        if rule is None:
            return Decision(call, due, "No rule for this line at this time")
        if now is not None and clock.utc_text(call.ended) < max(since, rule.sending_since or ""):
            return Decision(call, due, "Called before sending was started", rule)
        reason = self._check_rule(call, rule, due) or self._check_contacts(call, call.party, due, texts_until)
        sender, text = self._find_sender(call, rule), self.write_text(rule, call.line, due)
        if not reason and not sender:
            reason = "No number that can send SMS"
        if not reason and not text:
            reason = "The text cannot be written: its template was removed, or the next opening is unknown"
        if not reason and sms_length.measure(text).units > MAX_LENGTH:
            reason = f"The text is longer than {MAX_LENGTH} characters"
        if not reason:
            self._texted[call.party] = due
        return Decision(call, due, reason, rule, sender, text)

    def write_text(self, rule: TextRule, line: str | None, moment: datetime) -> str:
        """Return the text of a rule at a time; '' if it cannot be written."""
        if rule.template_id is not None:
            return self.templates.get(rule.template_id, "")
        opening = self._hours.next_opening(line, moment)
        if "{opens}" in rule.text and opening is None:
            return ""
        opens = "" if opening is None else self._format_opening(opening, moment)
        return fill_text(rule.text, self._context.phone_numbers.format_national(line or rule.sender), opens)

    @cached_property
    def templates(self) -> dict[int, str]:
        """Texts of the canned responses of the account by id."""
        return {number: text for number, _, text in messages.list_canned_responses(self._mirror)}

    @cached_property
    def sms_numbers(self) -> list[str]:
        """Numbers of the account that can send and receive SMS, in E.164."""
        numbers = (
            self._context.phone_numbers.to_e164(row["e164"])
            for row in messages.list_sms_numbers(self._mirror)
        )
        return [number for number in numbers if number]

    @cached_property
    def _numbers_of_people(self) -> frozenset[str | None]:
        """Numbers of the account and of its people, in E.164: those in all fields of their records.

        More than `phones.list_account_numbers`: a person of the account may opt out, and can be blocked.
        """
        sql = " UNION ".join(
            f"SELECT CAST(field.value AS TEXT) FROM {table}, json_tree({column}) AS field"
            f" WHERE {column} IS NOT NULL AND {condition} AND field.atom GLOB '*[0-9]*'"
            for table, condition in (
                ("ddis", "1"),
                ("users", "1"),
                ("me", "1"),
                ("contacts", "(internal IN (1, 'true') OR rel_user_id > 0)"),
            )
            for column in ("_doc", "_item")
        )
        return frozenset(self._context.phone_numbers.to_e164(row[0]) for row in self._mirror.execute(sql))

    @cached_property
    def _messages(self) -> dict[str, list[str]]:
        """Times (UTC text) of the SMS to each contact since the first call."""
        times: dict[str, list[str]] = {}
        begin = clock.utc_text(self._begin)
        for contact, at in (*messages.list_sent(self._mirror, begin), *self._list_written(self._app, begin)):
            times.setdefault(self._context.phone_numbers.restore_contact(contact), []).append(at)
        return times

    def _find_rule(self, line: str | None, moment: datetime) -> TextRule | None:
        return next(
            (rule for rule in self._rules if rule.line in ("", line) and self._is_active(rule, line, moment)),
            None,
        )

    def _is_active(self, rule: TextRule, line: str | None, moment: datetime) -> bool:
        return rule.while_line == "always" or self._hours.is_open(line, moment) == (rule.while_line == "open")

    def _check_call(self, call: MissedCall) -> str:
        if call.party is None:
            return "Number withheld or unknown"
        return "Number of the account or its people" if call.party in self._numbers_of_people else ""

    def _check_rule(self, call: MissedCall, rule: TextRule, due: datetime) -> str:
        country = find_mobile_country(call.party or "")
        if country is None:
            return "Not a mobile number"
        if country not in (rule.countries or self._context.phone_numbers.country or "").split():
            return "Number of another country"
        if not self._is_active(rule, call.line, due):
            return "The line had opened" if rule.while_line == "closed" else "The line had closed"
        return ""

    def _check_contacts(self, call: MissedCall, party: str, due: datetime, texts_until: str) -> str:
        """Return why a number gets no text: an opt-out, or contact with it.

        Texts until `texts_until` (UTC text) count.
        """
        begin, end = clock.utc_text(call.started), clock.utc_text(due)
        if opt_outs.find(self._app, self._context.erasure_gate, party):
            return "Opted out of texts"
        texted = self._app.execute(
            "SELECT 1 FROM text_back_calls WHERE number = ? AND at > ? AND at <= ?"
            " AND state IN ('claimed', 'sent')",
            (party, clock.utc_text(due - QUIET_PERIOD), texts_until),
        ).fetchone()
        planned = self._texted.get(party)
        if texted or (planned is not None and planned > due - QUIET_PERIOD):
            return "Received a text in the last 24 hours"
        talk_seconds = self._context.settings.calls.callback_seconds
        reached = self._mirror.execute(
            "SELECT 1 FROM _calls WHERE coalesce(party_e164, party) = ?1 AND started_at BETWEEN ?2 AND ?3"
            " AND id <> ?4 AND answered_at <= ?3 AND (direction = 'in'"
            " OR direction = 'out' AND (state <> 'ended' OR talk_seconds >= ?5))",
            (party, begin, end, call.id, talk_seconds),
        ).fetchone()
        closed = self._app.execute(
            "SELECT 1 FROM callbacks WHERE party = ? AND state = 'closed' AND closed_at BETWEEN ? AND ?",
            (party, begin, end),
        ).fetchone()
        if reached or closed:
            return "Reached in the meantime"
        if any(begin <= at <= end for at in self._messages.get(party, ())):
            return "Received an SMS since the call"
        return ""

    def _find_sender(self, call: MissedCall, rule: TextRule) -> str:
        return next((number for number in (call.line, rule.sender) if number in self.sms_numbers), None) or ""

    def _format_opening(self, opening: datetime, moment: datetime) -> str:
        local = opening.astimezone(self._zone)
        days = (local.date() - moment.astimezone(self._zone).date()).days
        if days == 0:
            return f"{local:%H:%M}"
        return f"{local:%A %H:%M}" if days < 7 else f"{local.day} {local:%B %H:%M}"


def fill_text(text: str, line: str, opens: str) -> str:
    """Return a text with the values of its placeholders."""
    return text.replace("{line}", line).replace("{opens}", opens)


@dataclass(frozen=True, slots=True)
class CallReport:
    """What a caller got at the time `at`, or would get if all rules were sending.

    `state`: 'sent', 'refused', 'left out' or 'would be sent'. `reason`: why there was no text. `text`: the
    text that would be sent.
    """

    call: MissedCall
    at: datetime
    state: str
    reason: str
    text: str = ""


def report_calls(context: AppContext, since: datetime, limit: int) -> list[CallReport]:
    """Return what happened, or would happen, to the newest calls since `since`, newest first.

    Calls without a decision are decided as if all rules had been sending.
    """
    reports, now = [], clock.now()
    with context.app_db.read() as app_connection, context.mirror_db.read() as mirror_connection:
        rules = text_back.list_rules(app_connection)
        decided = {
            entry.call_id: entry for entry in text_back.list_calls(app_connection, clock.utc_text(since))
        }
        calls = list_calls(mirror_connection, since, limit, *OUTCOMES)
        checks = Checks(context, app_connection, mirror_connection, rules, calls)
        for call in calls:
            entry = decided.get(call.id)
            if entry is not None:
                state = "sent" if entry.is_sent else entry.state
                reports.append(CallReport(call, clock.parse_utc(entry.at) or now, state, entry.reason))
                continue
            decision = checks.decide(call)
            if decision is not None and decision.due <= now:
                state = "left out" if decision.reason else "would be sent"
                reports.append(CallReport(call, decision.due, state, decision.reason, decision.text))
    return reports[::-1]
