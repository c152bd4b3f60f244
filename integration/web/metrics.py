"""Prometheus text of `/metrics`: health checks, gauges and counters.

Each product has a separate registry. The library's global one is rejected: tests run two products in one
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from integration.core.health import Health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Registry of gauges, counters and health checks.

    Values are read at each request of `/metrics`.
    """

    def __init__(self, health: Health) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_HealthCollector(health))
        ProcessCollector(registry=self.registry)

    def add_counter(
        self, name: str, help_text: str, label: str, values: Callable[[], Mapping[str, float]]
    ) -> None:
        """Add a counter. `values()` returns its values by `label`.

        `name`: without the prefix `switchroom_` and the suffix `_total`.
        """
        self.registry.register(_CallbackCounter(f"switchroom_{name}", help_text, label, values))

    def add_gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Add a gauge. `value()` returns its value.

        `name`: without the prefix `switchroom_`.
        """
        self.registry.register(_CallbackGauge(f"switchroom_{name}", help_text, value))

    def render(self) -> bytes:
        """Return the Prometheus text of all metrics."""
        return generate_latest(self.registry)


class _CallbackGauge(Collector):
    def __init__(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        self.name, self.help_text, self.value = name, help_text, value

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(self.name, self.help_text)]

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(self.name, self.help_text, value=self.value())


class _CallbackCounter(Collector):
    def __init__(
        self, name: str, help_text: str, label: str, values: Callable[[], Mapping[str, float]]
    ) -> None:
        self.name, self.help_text, self.label, self.values = name, help_text, label, values

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(self.name, self.help_text)]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self.name, self.help_text, labels=[self.label])
        for name, value in self.values().items():
            family.add_metric([name], value)
        yield family


class _HealthCollector(Collector):
    def __init__(self, health: Health) -> None:
        self.health = health

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily("switchroom_ready", "")]

    def collect(self) -> Iterable[Metric]:
        report = self.health.report()
        ready = GaugeMetricFamily("switchroom_ready", "1 while events can be stored and pages served.")
        ready.add_metric([], float(report["status"] != "unready"))
        healthy = GaugeMetricFamily(
            "switchroom_check_ok", "1 while the state of a check is ok or waiting.", labels=["check"]
        )
        failures = GaugeMetricFamily(
            "switchroom_check_failures", "Failures of a check since its last success.", labels=["check"]
        )
        beat = GaugeMetricFamily(
            "switchroom_check_last_beat_seconds", "Seconds since the last heartbeat.", labels=["check"]
        )
        for name, check in report["checks"].items():
            healthy.add_metric([name], float(check["state"] in ("ok", "waiting")))
            failures.add_metric([name], check["failures"])
            if check["seconds_since_beat"] is not None:
                beat.add_metric([name], check["seconds_since_beat"])
        yield from (ready, healthy, failures, beat)
