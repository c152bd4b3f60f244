"""A benchmark: what it measures, beside which peers, and the goals of its figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

PRODUCT = "Switchroom"


@dataclass(frozen=True)
class Goal:
    """Limit of a figure, or of its ratio to a peer."""

    limit: float
    peer: str | None = None
    """Peer of the ratio, None for the figure itself."""
    is_minimum: bool = False

    def describe(self) -> str:
        sign = "≥" if self.is_minimum else "≤"
        return f"{sign} {self.limit:g}" + (f" × {self.peer}" if self.peer else "")

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.is_minimum else value <= self.limit


@dataclass(frozen=True)
class Figure:
    """Measurements of the product and its peers in one unit, one of each in every round."""

    name: str
    unit: str
    values: Sequence[float]
    peers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    goals: Sequence[Goal] = ()
    size: int | None = None
    """Number of records, None if the figure has none."""

    def list_ratios(self, peer: str) -> list[float]:
        """Return the product's measurements divided by those of a peer in the same round."""
        return [a / b for a, b in zip(self.values, self.peers[peer], strict=True)]

    def is_met(self, goal: Goal) -> bool:
        """Return whether a goal is met."""
        values = self.values if goal.peer is None else self.list_ratios(goal.peer)
        return goal.is_met(statistics.median(values))

    def describe(self) -> str:
        """Return a row of a Markdown table."""
        peers = [
            f"{peer}: {describe_values(values)}, ratio {describe_values(self.list_ratios(peer))}"
            for peer, values in self.peers.items()
        ]
        goals = [f"{goal.describe()}: {'met' if self.is_met(goal) else '**missed**'}" for goal in self.goals]
        size = f"{self.size:,}" if self.size else "–"
        cells = (
            f"{self.name}, {self.unit}",
            size,
            describe_values(self.values),
            "<br>".join(peers),
            "<br>".join(goals),
        )
        return f"| {' | '.join(cell or '–' for cell in cells)} |"


@dataclass(frozen=True)
class Options:
    """Size of a run."""

    rows: int
    """Number of records, 0 for a benchmark without any."""
    is_small: bool = False
    """Whether few rounds suffice, as in the check of CI."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    The module that defines it as `BENCHMARK` is registered by its file name.
    """

    SMALL_ROWS: ClassVar[int] = 3000

    title: str
    measure: Callable[[Options], list[Figure]]
    rows: int = 0
    """Default number of records, 0 for a benchmark without any."""
    bounds: Mapping[str, Goal] = field(default_factory=dict)
    """Generous limits of figures that CI checks at a small size."""

    def find_exceeded(self) -> list[str]:
        """Measure at a small size. Returns a row of each figure that exceeds its bound."""
        options = Options(self.SMALL_ROWS if self.rows else 0, is_small=True)
        figures = {figure.name: figure for figure in self.measure(options)}
        return [
            f"{goal.describe()}: {figures[name].describe()}"
            for name, goal in self.bounds.items()
            if not figures[name].is_met(goal)
        ]


def alternate(rounds: int, contenders: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measure each contender in every round.

    Every second round runs in reverse order.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in reversed(names) if number % 2 else names:
            found[name].append(contenders[name]())
    return found


def make_figure(name: str, unit: str, found: Mapping[str, Sequence[float]], **details: Any) -> Figure:
    """Make a figure from measurements of the product and its peers."""
    peers = {peer: values for peer, values in found.items() if peer != PRODUCT}
    return Figure(name, unit, found[PRODUCT], peers, **details)


def describe_values(values: Sequence[float]) -> str:
    """Return the median, and the lowest and highest of repeated measurements."""
    median, low, high = map(format_number, (statistics.median(values), min(values), max(values)))
    return f"{median} ({low}–{high})" if low != high else median


def format_number(value: float) -> str:
    """Return a number with three significant digits."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
