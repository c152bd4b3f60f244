"""Platform that responds to click-to-call when a test allows it."""

from __future__ import annotations

import threading


class HeldPlatform:
    """Platform that responds to POST /calls after `release`."""

    def __init__(self, app) -> None:
        self.release = threading.Event()
        self._app = app
        self.status = 201
        app.platform.routes["POST /calls"] = self._respond

    def _respond(self, _request, reply) -> None:
        assert self.release.wait(20)
        reply.json({"data": {"id": 8, "state": "INITIAL"}, "links": {}}, self.status)

    @property
    def requests(self) -> int:
        return sum(request.method == "POST" for request in self._app.platform.requests)
