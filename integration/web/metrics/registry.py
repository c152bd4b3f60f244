"""Registry of the metrics of one product.

Metrics have two sources. A group reads values that the product has anyway, at each request of `/metrics`.
Counters and histograms of prometheus-client count what nothing else counts (`http_requests.py`). The global
registry of the library is rejected: tests run two products in one process.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from integration.core.errors import SwitchroomError

log = logging.getLogger(__name__)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

# The times at which counters were created would double the series of requests.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Family:
    """Name, help text and labels of a metric.

    `name`: with the suffix `_total` for counters, which have `is_counter`.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False

    def build(self) -> CounterMetricFamily | GaugeMetricFamily:
        """Return the family of prometheus-client, without values."""
        make = CounterMetricFamily if self.is_counter else GaugeMetricFamily
        return make(self.name, self.help, labels=self.labels)


Values = Mapping[Family, float | Mapping[tuple[str, ...], float] | None]
"""Value of each family, or its values by the values of its labels. None omits the family."""

GROUP_OK = Family(
    "switchroom_metrics_group_ok",
    "1 if the metrics of a group could be read. The others are in the response all the same.",
    ("group",),
)


class Metrics:
    """Registry with groups of metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._group_states = _GroupStates()
        ProcessCollector(registry=self.registry)

    def add_group(self, name: str, families: Iterable[Family], read: Callable[[], Values]) -> None:
        """Add the `families` whose values `read()` returns.

        `read` may raise SwitchroomError, sqlite3.Error and OSError: the group is then left out.
        """
        self.registry.register(_Group(name, tuple(families), read, self._group_states))

    def finish(self) -> None:
        """Add the metric about the groups, which the registry reads last."""
        self.registry.register(self._group_states)

    def render(self) -> bytes:
        """Return the Prometheus text of all metrics."""
        return generate_latest(self.registry)


class _GroupStates(Collector):
    """Whether the last read of each group succeeded."""

    def __init__(self) -> None:
        self._states: dict[str, bool] = {}

    def set(self, name: str, *, is_ok: bool) -> bool:
        """Store the state of a group.

        Returns whether it has changed. A first state of True is no change.
        """
        previous = self._states.get(name, True)
        self._states[name] = is_ok
        return previous != is_ok

    def describe(self) -> Iterable[Metric]:
        return [GROUP_OK.build()]

    def collect(self) -> Iterable[Metric]:
        yield _fill(GROUP_OK, {(name,): float(is_ok) for name, is_ok in list(self._states.items())})


class _Group(Collector):
    def __init__(
        self, name: str, families: tuple[Family, ...], read: Callable[[], Values], states: _GroupStates
    ) -> None:
        self._name, self._families, self._read, self._states = name, families, read, states

    def describe(self) -> Iterable[Metric]:
        return [family.build() for family in self._families]

    def collect(self) -> Iterable[Metric]:
        try:
            values = self._read()
        except (SwitchroomError, sqlite3.Error, OSError) as error:
            # A damaged database must not hide the metrics that show it.
            if self._states.set(self._name, is_ok=False):
                log.warning("metrics of %s cannot be read: %s", self._name, error)
            return
        self._states.set(self._name, is_ok=True)
        for family in self._families:
            value = values[family]
            if value is not None:
                yield _fill(family, value)


def _fill(family: Family, value: float | Mapping[tuple[str, ...], float]) -> Metric:
    metric = family.build()
    for labels, sample in value.items() if isinstance(value, Mapping) else [((), value)]:
        metric.add_metric(labels, sample)
    return metric
