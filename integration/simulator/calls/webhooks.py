"""Delivery of webhooks, with retries and faults.

Webhooks are sent in order, one at a time. The retries of the platform are unknown
(docs/platform.md#11-delivery). The simulator retries after every result except 2xx, with growing delays.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections import deque
from dataclasses import dataclass, field

import orjson
import requests

from integration.core import clock
from integration.simulator.http.faults import ActiveFaults
from integration.simulator.records.record_fields import Record, copy_attributes

RETRY_GAPS = (1.0, 5.0, 30.0, 120.0)
"""Seconds between attempts of a delivery."""

_LOG_SIZE = 20_000
_TIMEOUT = 10.0
"""Seconds for one attempt."""


@dataclass(slots=True)
class Delivery:
    """Delivery of one webhook.

    `state`: waiting, delivered, dropped (by a fault), failed (no attempts left) or no url.
    """

    number: int
    event: Record
    body: bytes
    state: str = "waiting"
    attempts: list[Record] = field(default_factory=list)

    def as_record(self) -> Record:
        return {
            **{key: self.event.get(key) for key in ("id", "call_id")},
            **copy_attributes(self, "number state event"),
            "name": self.event["event_name"],
            "tries": list(self.attempts),
        }


class WebhookSender:
    """Thread that posts webhooks to `url`.

    `url`: None stores webhooks only in `log`.
    `ca_file`: file with the certificates to trust.
    `retry_gaps`: seconds between attempts.
    """

    def __init__(
        self,
        faults: ActiveFaults,
        *,
        url: str | None = None,
        ca_file: str | None = None,
        seed: int = 0,
        retry_gaps: tuple[float, ...] = RETRY_GAPS,
    ) -> None:
        self.faults = faults
        self.url = url
        self.ca_file = ca_file
        self.retry_gaps = retry_gaps
        self.error: str | None = None
        self._rng = random.Random(f"webhooks {seed}")
        self._queue: list[tuple[float, int, Delivery]] = []
        self._count = 0
        self._is_busy = False
        self._is_stopping = False
        self._changed = threading.Condition()
        self.log: deque[Delivery] = deque(maxlen=_LOG_SIZE)
        self._thread = threading.Thread(target=self._run, name="simulator-webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            # Wait at most 1 s: a receiver may hang, and the daemon thread ends with the process.
            self._thread.join(1)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def send(self, event: Record) -> None:
        """Queue a webhook without waiting for its delivery."""
        body = orjson.dumps(event).replace(b"/", b"\\/")
        with self._changed:
            faults = self.faults.draw("POST", event["event_name"], for_webhook=True)
            due_at = clock.monotonic()
            if "webhook-delay" in faults:
                due_at += faults["webhook-delay"].get_number(0.0)
            if "webhook-reorder" in faults:
                due_at += 0.05 + self._rng.random() * 1.5
            state = "dropped" if "webhook-drop" in faults else "waiting" if self.url else "no url"
            for _ in range(2 if "webhook-duplicate" in faults else 1):
                self.log.append(Delivery(self._count, event, body, state))
                if state == "waiting":
                    heapq.heappush(self._queue, (due_at, self._count, self.log[-1]))
                self._count += 1
                due_at += self._rng.random()
            self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until every queued webhook was attempted once; return False after `seconds`.

        Pending retries are ignored.
        """
        with self._changed:
            return self._changed.wait_for(self._is_idle, seconds)

    def _is_idle(self) -> bool:
        return not self._is_busy and not any(not delivery.attempts for _, _, delivery in self._queue)

    def list_deliveries(self, after: int = -1) -> list[Record]:
        with self._changed:
            return [delivery.as_record() for delivery in self.log if delivery.number > after]

    def _run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while True:
                delivery = self._take_next()
                if delivery is None:
                    return
                try:
                    self._post(session, delivery)
                finally:
                    with self._changed:
                        self._is_busy = False
                        self._changed.notify_all()

    def _take_next(self) -> Delivery | None:
        with self._changed:
            while not self._is_stopping:
                if self._queue:
                    wait_seconds = self._queue[0][0] - clock.monotonic()
                    if wait_seconds <= 0:
                        self._is_busy = True
                        return heapq.heappop(self._queue)[2]
                    self._changed.wait(wait_seconds)
                else:
                    self._changed.wait()
            return None

    def _post(self, session: requests.Session, delivery: Delivery) -> None:
        started, status, failure = clock.monotonic(), None, None
        if self.url is None:
            return
        try:
            status = session.post(
                self.url,
                data=delivery.body,
                headers={"Content-Type": "application/json", "User-Agent": "Platform-Webhook/1.2"},
                timeout=_TIMEOUT,
                verify=self.ca_file or True,
                allow_redirects=False,
            ).status_code
        except requests.RequestException as error:
            failure = str(error)
        seconds = round(clock.monotonic() - started, 4)
        delivery.attempts.append(
            {"at": clock.utc_text(), "status": status, "error": failure, "seconds": seconds}
        )
        if status is not None and 200 <= status < 300:
            delivery.state, self.error = "delivered", None
            return
        self.error = failure or f"the receiver returned {status}"
        if len(delivery.attempts) > len(self.retry_gaps):
            delivery.state = "failed"
            return
        with self._changed:
            due_at = clock.monotonic() + self.retry_gaps[len(delivery.attempts) - 1]
            heapq.heappush(self._queue, (due_at, delivery.number, delivery))
