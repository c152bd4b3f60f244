"""Send texts to missed callers (text back)."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

import orjson

from integration.access import audit
from integration.context import AppContext
from integration.core import clock
from integration.mirror.page_queries.messages import normalize_digits
from integration.sqlite.transaction import Transaction
from integration.sync.writing import write_log, write_through
from integration.sync.writing.write_through import WriteRequest
from integration.workspace import opt_outs, text_back, text_back_checks
from integration.workspace.text_back import SendingState
from integration.workspace.text_back_checks import Checks, Decision

JOB_NAME = "text back"
RUN_SECONDS = 5.0
"""Seconds between runs."""
MAX_AGE = timedelta(hours=1)
"""Age of a call above which its caller gets no text."""
MAX_CALLS = 20_000
"""Most calls of one run."""
WHO = "text back"
"""Author of the texts in the audit log and the write log."""
OUTDATED = "house.db is older than the last text, so texts that were sent later are not recorded in it."


def schedule_job(context: AppContext) -> None:
    context.scheduler.every(
        JOB_NAME, RUN_SECONDS, run, context, executor="texts", is_watched=True, retries=True
    )


def run(context: AppContext) -> None:
    """Follow received stop words, then decide about missed calls and send texts."""
    is_sending = True
    while is_sending and not context.scheduler.stopping.is_set():
        context.health.beat(JOB_NAME)
        opt_outs.follow_messages(context)
        is_sending = _send_next(context)


def resume(context: AppContext) -> None:
    """Resume all rules. Calls that ended before get no text."""
    with context.mirror_db.read() as connection:
        texts = text_back.count_recorded_texts(connection)
    text_back.resume(context.app_db, texts)


def _send_next(context: AppContext) -> bool:
    """Store which calls get no text, and send one text. Returns whether one was sent.

    Everything is decided again for each text, because sending one can take a minute.
    """
    app_db = context.app_db
    with app_db.read() as app_connection, context.mirror_db.read() as mirror_connection:
        rules = [rule for rule in text_back.list_rules(app_connection) if rule.sending_since]
        state, now = text_back.load_state(app_connection), clock.now()
        if not rules or state.pause_reason:
            return False
        if text_back.count_recorded_texts(mirror_connection) > state.texts:
            _pause(context, OUTDATED)
            return False
        since = now - MAX_AGE
        decided = {entry.call_id for entry in text_back.list_calls(app_connection, clock.utc_text(since))}
        calls = text_back_checks.list_calls(mirror_connection, since, MAX_CALLS, "missed")
        checks = Checks(context, app_connection, mirror_connection, rules, calls, _list_written)
        texts: list[Decision] = []
        left_out: list[Decision] = []
        for call in calls:
            decision = None if call.id in decided else checks.decide(call, now, state.resumed_at)
            if decision is not None:
                (left_out if decision.reason else texts).append(decision)
            if len(texts) > context.settings.text_back.per_hour:
                break
        pause_reason = _find_limit(context, app_connection, state, len(texts)) if texts else None
    if left_out:
        text_back.leave_out(
            app_db,
            [(decision.call.id, decision.call.party or "", decision.reason) for decision in left_out],
        )
    if pause_reason is not None:
        _pause(context, pause_reason)
    elif texts:
        _send(context, texts[0])
    return bool(texts) and pause_reason is None


def _list_written(connection: sqlite3.Connection, since: str) -> list[tuple[str, str]]:
    sent = write_log.list_sent_messages(connection, since, "~")
    return [(normalize_digits(entry.to or ""), entry.at) for entry in sent]


def _pause(context: AppContext, reason: str) -> None:
    def work(tx: Transaction) -> None:
        text_back.pause(tx, reason)
        audit.record(tx, WHO, "text back paused", "all rules", reason)

    context.app_db.write(work)


def _find_limit(
    context: AppContext, connection: sqlite3.Connection, state: SendingState, due_texts: int
) -> str | None:
    """Return the limit that forbids so many texts, as a sentence; None without one."""
    settings = context.settings.text_back
    for hours, limit, name in ((1, settings.per_hour, "per_hour"), (24, settings.per_day, "per_day")):
        begin = max(clock.utc_text(clock.now() - timedelta(hours=hours)), state.resumed_at)
        sent = text_back.count_texts(connection, begin, includes_refused=True)
        if sent + due_texts > limit:
            return f"With the texts that are due, more than text_back.{name} = {limit} would be sent."
    return None


def _send(context: AppContext, decision: Decision) -> None:
    """Send a text, after its claim is committed in house.db and counted in mirror.db."""
    call_id, number = decision.call.id, decision.call.party or ""

    def claim(tx: Transaction) -> int:
        audit.record(tx, WHO, "text sent back", f"call {call_id}", "requested")
        return text_back.claim(tx, call_id, number)

    texts = context.app_db.write(claim)
    context.mirror_db.write(lambda tx: text_back.record_texts(tx, texts))
    body = {
        "to": normalize_digits(number),
        "message": decision.text,
        "from": normalize_digits(decision.sender),
    }
    request = WriteRequest(who=WHO, address="", method="POST", path="/sms", body=orjson.dumps(body))
    result = write_through.send(context, request)
    # A failed gateway may have passed the text on, so only a refusal is certain.
    if result.status is not None and result.status < 500:
        text_back.finish(context.app_db, call_id, "" if result.is_done else result.message)
