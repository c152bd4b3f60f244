"""Number and duration of HTTP requests, by area.

An area is a group of paths, not a path: paths contain ids and secrets, and each value of a label is a series
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from integration.core import clock

AREAS_BY_SEGMENT = {
    "webhooks": "webhooks",
    "static": "static",
    "help": "static",
    "exports": "exports",
    "wall": "wallboards",
    "healthz": "monitoring",
    "readyz": "monitoring",
    "metrics": "monitoring",
    "openapi.json": "facade",
    "docs": "facade",
}
"""Area by the first segment of the path."""
STREAM_PATH = "/live/stream"
STREAM_AREA = "live_stream"
FACADE_AREA = "facade"
PAGES_AREA = "pages"
"""Area of all other paths, existing or not."""
AREAS = sorted({*AREAS_BY_SEGMENT.values(), STREAM_AREA, FACADE_AREA, PAGES_AREA})

BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper limits of the histogram.

From the time of a webhook to the limit of a request that the platform answers late.
"""

REQUESTS = "switchroom_http_requests_total"
DURATION = "switchroom_http_request_duration_seconds"


class RequestMetrics:
    """WSGI middleware that counts and times requests.

    The time ends when the response starts: a download takes as long as its client, a live stream lasts for
    hours.
    `facade_paths`: base paths of the facade.
    """

    def __init__(
        self,
        application: Callable[..., Iterable[bytes]],
        registry: CollectorRegistry,
        facade_paths: Sequence[str],
    ) -> None:
        self._application = application
        self._facade_prefixes = tuple(f"{path}/" for path in facade_paths)
        requests = Counter(
            REQUESTS, "HTTP requests by area and status code.", ("area", "code"), registry=registry
        )
        durations = Histogram(
            DURATION,
            "Seconds from a complete request header to the start of the response.",
            ("area",),
            buckets=BUCKETS_SECONDS,
            registry=registry,
        )
        # All areas from the start: a rate over a series that appears with its first error has no increase.
        self._durations = {area: durations.labels(area) for area in AREAS}
        self._requests = {(area, "200"): requests.labels(area, "200") for area in AREAS}
        self._requests_by_label = requests

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        started_at, code = clock.monotonic(), "500"

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            nonlocal code
            code = status[:3]
            return start_response(status, headers, *error)

        try:
            return self._application(environ, start)
        finally:
            self._record(self.find_area(environ["PATH_INFO"]), code, clock.monotonic() - started_at)

    def find_area(self, path: str) -> str:
        """Return the area of a path."""
        if path.startswith(self._facade_prefixes):
            return FACADE_AREA
        if path == STREAM_PATH:
            return STREAM_AREA
        return AREAS_BY_SEGMENT.get(path.split("/", 2)[1] if "/" in path else "", PAGES_AREA)

    def _record(self, area: str, code: str, seconds: float) -> None:
        child = self._requests.get((area, code))
        if child is None:
            # `labels` takes a lock and costs as much as both measurements; codes are few.
            child = self._requests[area, code] = self._requests_by_label.labels(area, code)
        child.inc()
        self._durations[area].observe(seconds)
