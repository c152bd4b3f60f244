"""Separate address for `/metrics` (setting `server.metrics_listen`), without keys.

It belongs to the worker: after a crash it is open with the next worker. A scraper misses one reading.
"""

from __future__ import annotations

from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from integration.core.errors import SwitchroomError
from integration.web.metrics.registry import Metrics


class MetricsListener:
    """HTTP server with the metrics, on threads of its own.

    `address`: 'host:port', validated by the settings.
    """

    def __init__(self, metrics: Metrics, address: str) -> None:
        self._metrics = metrics
        self._address = address
        self._server: WSGIServer | None = None

    @property
    def port(self) -> int:
        """Port that is open, 0 before the start."""
        return 0 if self._server is None else self._server.server_port

    def start(self) -> None:
        """Open the port. Raises SwitchroomError if that fails."""
        host, _, port = self._address.rpartition(":")
        try:
            self._server, _ = start_http_server(int(port), host.strip("[]"), self._metrics.registry)
        except OSError as error:
            raise SwitchroomError(
                f"server.metrics_listen: {self._address} cannot be opened: {error.strerror or error}."
                " Choose a free port and an address of this machine."
            ) from error

    def stop(self) -> None:
        """Close the port. Safe to call without a start and twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
