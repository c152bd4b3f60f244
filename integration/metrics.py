"""/metrics: the health report and counts of the product as Prometheus text.

A registry of our own, never the library's global one: two products in one process (tests) must not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from integration.health import Health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters that parts keep, gauges that are asked for when the page is read, and the health of all."""

    def __init__(self, health: Health) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_HealthCollector(health))
        ProcessCollector(registry=self.registry)

    def counter(self, name: str, help_text: str, labels: Iterable[str] = ()) -> Counter:
        """A count that only rises; `name` without `switchroom_` and `_total`."""
        return Counter(f"switchroom_{name}", help_text, tuple(labels), registry=self.registry)

    def seconds(self, name: str, help_text: str, labels: Iterable[str] = ()) -> Histogram:
        """A distribution of durations in seconds; `name` without `switchroom_` and `_seconds`."""
        return Histogram(f"switchroom_{name}_seconds", help_text, tuple(labels), registry=self.registry)

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """A value that is asked for when the page is read."""
        self.registry.register(_AskedGauge(f"switchroom_{name}", help_text, value))

    def text(self) -> bytes:
        """The page."""
        return generate_latest(self.registry)


class _AskedGauge(Collector):
    def __init__(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        self.name, self.help_text, self.value = name, help_text, value

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(self.name, self.help_text)]

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(self.name, self.help_text, value=self.value())


class _HealthCollector(Collector):
    def __init__(self, health: Health) -> None:
        self.health = health

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily("switchroom_ready", "")]

    def collect(self) -> Iterable[Metric]:
        report = self.health.report()
        ready = GaugeMetricFamily("switchroom_ready", "1 while events can be stored and pages served.")
        ready.add_metric([], float(report["status"] != "unready"))
        well = GaugeMetricFamily(
            "switchroom_check_ok", "1 while a part does what it should.", labels=["check"]
        )
        failures = GaugeMetricFamily(
            "switchroom_check_failures", "Failures of a part since it last went well.", labels=["check"]
        )
        beat = GaugeMetricFamily(
            "switchroom_check_last_beat_seconds", "Seconds since a part was last heard of.", labels=["check"]
        )
        for name, check in report["checks"].items():
            well.add_metric([name], float(check["state"] in ("ok", "waiting")))
            failures.add_metric([name], check["failures"])
            if check["seconds_since_beat"] is not None:
                beat.add_metric([name], check["seconds_since_beat"])
        yield from (ready, well, failures, beat)
