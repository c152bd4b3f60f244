"""Delivery of webhooks, with retries and faults.

Webhooks are sent in order, one at a time. The retries of the platform are unknown
(docs/platform.md#11-delivery). The simulator retries after every result except 2xx, with growing delays.
"""

from __future__ import annotations

import random
from collections import deque
from functools import partial

import orjson
import requests

from integration.core import clock
from integration.simulator.calls.timed_actions import TimedActions
from integration.simulator.http.faults import ActiveFaults
from integration.simulator.records.record_fields import Record

RETRY_GAPS = (1.0, 5.0, 30.0, 120.0)
"""Seconds between attempts of a delivery."""

_LOG_SIZE = 20_000
_TIMEOUT = 10.0
"""Seconds for one attempt."""


class WebhookSender(TimedActions):
    """Thread that posts webhooks to `url`.

    `url`: None stores webhooks only in `log`, whose entries list events with attempts (`tries`) and `state`:
    waiting, delivered, dropped (by a fault), failed (no attempts left) or no url.
    `retry_gaps`: seconds between attempts.
    """

    def __init__(
        self,
        faults: ActiveFaults,
        *,
        url: str | None = None,
        seed: int = 0,
        retry_gaps: tuple[float, ...] = RETRY_GAPS,
    ) -> None:
        super().__init__("simulator-webhooks", lambda: clock.monotonic())
        self.faults = faults
        self.url = url
        self.retry_gaps = retry_gaps
        self.log: deque[Record] = deque(maxlen=_LOG_SIZE)
        self._delivery_count = 0
        self._rng = random.Random(f"webhooks {seed}")
        self._session = requests.Session()
        self._session.trust_env = False

    def send(self, event: Record) -> None:
        """Queue a webhook without waiting for its delivery."""
        body = orjson.dumps(event).replace(b"/", b"\\/")
        with self._changed:
            faults = self.faults.draw("POST", event["event_name"], for_webhook=True)
            due_at = clock.monotonic()
            if "webhook-reorder" in faults:
                due_at += 0.05 + self._rng.random() * 1.5
            state = "dropped" if "webhook-drop" in faults else "waiting" if self.url else "no url"
            for _ in range(2 if "webhook-duplicate" in faults else 1):
                delivery = {
                    **{"id": event["id"], "call_id": event.get("call_id"), "name": event["event_name"]},
                    **{"number": self._delivery_count, "state": state, "event": event, "tries": []},
                }
                self.log.append(delivery)
                self._delivery_count += 1
                if state == "waiting":
                    self.schedule(due_at, partial(self._post, delivery, body))
                due_at += self._rng.random()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until every queued webhook was attempted once; return False after `seconds`.

        Pending retries are ignored.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: all(delivery["tries"] or delivery["state"] != "waiting" for delivery in self.log),
                seconds,
            )

    def list_deliveries(self, after: int = -1) -> list[Record]:
        with self._changed:
            return [{**one, "tries": list(one["tries"])} for one in self.log if one["number"] > after]

    def _post(self, delivery: Record, body: bytes, _: float) -> None:
        started, status, failure = clock.monotonic(), None, None
        if self.url is None:
            delivery["state"] = "no url"
            return
        try:
            status = self._session.post(
                self.url,
                data=body,
                headers={"Content-Type": "application/json", "User-Agent": "Platform-Webhook/1.2"},
                timeout=_TIMEOUT,
                allow_redirects=False,
            ).status_code
        except requests.RequestException as error:
            failure = str(error)
        is_delivered = status is not None and 200 <= status < 300
        self.error = None if is_delivered else failure or f"the receiver returned {status}"
        seconds = round(clock.monotonic() - started, 4)
        with self._changed:
            delivery["tries"].append(
                {"at": clock.utc_text(), "status": status, "error": failure, "seconds": seconds}
            )
            if is_delivered:
                delivery["state"] = "delivered"
            elif len(delivery["tries"]) > len(self.retry_gaps):
                delivery["state"] = "failed"
            else:
                due_at = clock.monotonic() + self.retry_gaps[len(delivery["tries"]) - 1]
                self.schedule(due_at, partial(self._post, delivery, body))
            self._changed.notify_all()
