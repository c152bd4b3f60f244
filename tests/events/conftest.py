from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from integration.events import delivery_log, subscriptions
from integration.events.subscriptions import Subscription
from tests.support.application import TestApp
from tests.support.scripted_server import Request, Server


class Webhooks:
    """Outgoing webhooks of an application, and their receiver.

    `statuses` has the statuses of the next responses at a path; then it responds with 200. `text` is the
    response.
    """

    def __init__(self, app: TestApp) -> None:
        self.app = app
        self.server = Server()
        self.server.routes["*"] = self._respond
        self.statuses: dict[str, list[int]] = {}
        self.text = "ok"
        self.hanging: set[str] = set()
        self.released = threading.Event()

    def _respond(self, request: Request, reply: Any) -> None:
        if request.path in self.hanging:
            self.released.wait(60)
        statuses = self.statuses.get(request.path) or [200]
        reply.content(self.text.encode(), "text/plain", statuses.pop(0), {"Location": "/elsewhere"})

    def add(self, name: str = "crm", *kinds: str, anonymous: bool = False) -> str:
        """Add a subscription with the receiver's path /NAME. Returns its secret."""
        return subscriptions.add(
            self.app.app_db,
            self.app.context.settings,
            name,
            f"{self.server.url}/{name}",
            kinds or ("call.ended", "call.updated"),
            with_parties=not anonymous,
            cursor=self.app.context.deliveries.newest_cursor(),
        )

    def find(self, name: str = "crm") -> Subscription:
        with self.app.app_db.read() as connection:
            return subscriptions.require(connection, name)

    def announce(self, *calls: int, event: str = "call.ended", **data: Any) -> None:
        """Insert calls that do not exist yet, and announce an event of each."""
        for call in calls:
            with self.app.mirror_db.read() as connection:
                found = connection.execute("SELECT 1 FROM _calls WHERE id = ?", (call,)).fetchone()
            if not found:
                self.app.call(call, "2026-03-04 11:00:00")
            self.app.mirror_db.write(
                lambda tx, call=call: tx.execute(
                    "UPDATE _calls SET change_no = ? WHERE id = ?",
                    (tx.announce("call", call, {"event": event, **data}), call),
                )
            )

    def deliver(self) -> None:
        """Run the consumer, and wait for the threads that it starts."""
        self.app.context.deliveries.run()
        for thread in threading.enumerate():
            if thread.name.startswith("outgoing webhook"):
                thread.join(30)
        self.app.context.deliveries.run()

    def received(self, name: str = "crm") -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.requests(name)]

    def calls(self, name: str = "crm") -> list[tuple[str, int]]:
        """Kind and call of each received event."""
        return [(body["type"], body["data"].get("id")) for body in self.received(name)]

    def requests(self, name: str = "crm") -> list[Request]:
        return [request for request in list(self.server.requests) if request.path == f"/{name}"]

    def log(self) -> list[tuple[str, str, int | None]]:
        """Purpose, state and status of all attempts, oldest first."""
        with self.app.app_db.read() as connection:
            entries = delivery_log.list_newest(connection, 1000)
        return [(entry.purpose, entry.state, entry.status) for entry in reversed(entries)]


def sign(request: Request, secret: str) -> str:
    """Return the signature of a received request by `secret`."""
    at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
    return Webhook(secret).sign(request.headers["webhook-id"], at, request.body.decode())


@pytest.fixture
def webhooks(app: TestApp) -> Any:
    found = Webhooks(app)
    yield found
    found.released.set()
    found.server.close()
