"""Bugs in the receipt of webhooks, for `seeded_bug.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from integration.events import deliveries, subscriptions
from integration.inbox import receive, store
from integration.mirror.page_queries import messages
from integration.sqlite.write_jobs import Pending
from integration.sync.writing import text_back_sending
from integration.workspace import text_back

Patch = Callable[[Any, str, object], object]
Acknowledgements = Pending[store.Acknowledgement]


def keep_first_body(patch: Patch) -> None:
    """Acknowledge a webhook whose id is known, and do not store it."""
    receive_durably, known = store.Inbox.receive, dict[str, bytes]()

    def receive_first(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        first = known.setdefault(_read_id(body), body)
        if first == body:
            return receive_durably(inbox, body)
        result: Acknowledgements = Pending()
        result.set_result("duplicate")
        return result

    patch(store.Inbox, "receive", receive_first)


def fail_on_numeric_ids(patch: Patch) -> None:
    """Fail for every other webhook whose id is not a text."""
    receive_durably, numbers = store.Inbox.receive, count()

    def receive_text(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        if _read_id(body)[:1] == '"' or next(numbers) % 2:
            return receive_durably(inbox, body)
        raise KeyError("id")

    patch(store.Inbox, "receive", receive_text)


def read_bodies_of_any_size(patch: Patch) -> None:
    """Read a body without a limit."""
    patch(receive, "BODY_LIMIT", 2**40)


def merge_equal_texts(patch: Patch) -> None:
    """Store one message of each text that arrives by webhook."""
    add_event = messages.add_event

    def add_once(tx: Any, event: messages.SmsReceived) -> None:
        if tx.execute("SELECT 1 FROM _sms_events WHERE text = ?", (event.text,)).fetchone() is None:
            add_event(tx, event)

    patch(messages, "add_event", add_once)


def store_cursor_early(patch: Patch) -> None:
    """Let the cursor of an outgoing webhook continue whatever the response is, as if stored before it."""
    send = deliveries.Deliveries.send

    def send_without_response(sender: Any, subscription: Any, event: Any) -> Any:
        return replace(send(sender, subscription, event), error=None)

    patch(deliveries.Deliveries, "send", send_without_response)


def retry_events_soon(patch: Patch) -> None:
    """Retry failed requests of outgoing webhooks after a second. No bug: trials would wait."""
    patch(subscriptions, "EVENTS", (1.0,))


def claim_texts_late(patch: Patch) -> None:
    """Store a text to a missed caller after the platform's response, not before the request."""
    numbers: dict[int, str] = {}

    def count_only(tx: Any, call_id: int, number: str) -> int:
        numbers[call_id] = number
        return text_back.load_state(tx.connection).texts

    def store(app_db: Any, call_id: int, refusal: str) -> None:
        app_db.write(lambda tx: claim(tx, call_id, numbers[call_id]))
        finish(app_db, call_id, refusal)

    claim, finish = text_back.claim, text_back.finish
    patch(text_back, "claim", count_only)
    patch(text_back, "finish", store)
    # The write log has the request.
    patch(text_back_sending, "_list_written", lambda *_: ())


def look_for_texts_often(patch: Patch) -> None:
    """Look for missed callers five times a second. No bug: trials would wait."""
    patch(text_back_sending, "RUN_SECONDS", 0.2)


def _read_id(body: bytes) -> str:
    """Return the id of an event as JSON text; empty for another body."""
    try:
        payload = json.loads(body)
    except ValueError:
        return '""'
    return json.dumps(payload.get("id", "")) if isinstance(payload, dict) else '""'
