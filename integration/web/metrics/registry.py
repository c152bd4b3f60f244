"""Registry of the metrics of one product.

Metrics have two sources. A group reads values that the product has anyway, at each request of `/metrics`.
Counters and histograms of prometheus-client count what nothing else counts (`http_requests.py`). The global
registry of the library is rejected: tests run two products in one process.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from integration.core.errors import SwitchroomError

log = logging.getLogger(__name__)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

# The times at which counters were created would double the series of requests.
disable_created_metrics()  # type: ignore[no-untyped-call]

Values = float | Mapping[Any, float]
"""Value of a metric, or its values by the text of its label, or by a tuple of those of its labels."""


def gauge(name: str, help_text: str, values: Values, *labels: str) -> Metric:
    """Return a metric that can fall, with the names of its labels."""
    return _fill(GaugeMetricFamily(name, help_text, labels=labels), values)


def counter(name: str, help_text: str, values: Values, *labels: str) -> Metric:
    """Return a metric that only grows. `name` ends with `_total`."""
    return _fill(CounterMetricFamily(name, help_text, labels=labels), values)


def _fill(metric: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for label, value in values.items() if isinstance(values, Mapping) else [((), values)]:
        metric.add_metric([label] if isinstance(label, str) else label, value)
    return metric


class Metrics(Collector):
    """Registry with groups of metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._groups: dict[str, Callable[[], Iterable[Metric]]] = {}
        self._failed: set[str] = set()
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def add_group(self, name: str, read: Callable[[], Iterable[Metric]]) -> None:
        """Add the metrics that `read()` returns at each request.

        `read` may raise SwitchroomError, sqlite3.Error and OSError: the group is then left out.
        """
        self._groups[name] = read

    def render(self) -> bytes:
        """Return the Prometheus text of all metrics."""
        return generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry would read all groups at the start."""
        return ()

    def collect(self) -> Iterable[Metric]:
        for name, read in self._groups.items():
            try:
                metrics = list(read())
            except (SwitchroomError, sqlite3.Error, OSError) as error:
                # A damaged database must not hide the metrics that show it.
                if name not in self._failed:
                    log.warning("metrics of %s cannot be read: %s", name, error)
                self._failed.add(name)
                continue
            self._failed.discard(name)
            yield from metrics
        yield gauge(
            "switchroom_metrics_group_ok",
            "1 if the metrics of a group could be read. The others are in the response all the same.",
            {name: float(name not in self._failed) for name in self._groups},
            "group",
        )
