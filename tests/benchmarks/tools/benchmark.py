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

    def compare(self, goal: Goal) -> bool | None:
        """Return whether a goal is met, None if its peer is missing."""
        if goal.peer is None:
            return goal.is_met(statistics.median(self.values))
        return (
            goal.is_met(statistics.median(self.list_ratios(goal.peer))) if goal.peer in self.peers else None
        )

    def describe(self) -> str:
        """Return a row of a Markdown table."""
        peers = [
            f"{peer}: {describe_values(values)}, ratio {describe_values(self.list_ratios(peer))}"
            for peer, values in self.peers.items()
        ]
        verdicts = {True: "met", False: "**missed**", None: "not compared"}
        goals = [f"{goal.describe()}: {verdicts[self.compare(goal)]}" for goal in self.goals]
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
    """Sizes of a run, and a Python that has dlt."""

    rows: tuple[int, ...] = ()
    """Numbers of records, empty for the benchmark's own."""
    dlt: str | None = None
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
    rows: tuple[int, ...] = ()
    """Default numbers of records."""
    bounds: Mapping[str, Goal] = field(default_factory=dict)
    """Generous limits of figures that CI checks at a small size."""

    def find_exceeded(self) -> list[str]:
        """Measure at a small size. Returns a row of each figure that exceeds its bound."""
        rows = (self.SMALL_ROWS,) if self.rows else ()
        figures = {figure.name: figure for figure in self.measure(Options(rows, is_small=True))}
        return [
            f"{goal.describe()}: {figures[name].describe()}"
            for name, goal in self.bounds.items()
            if not figures[name].compare(goal)
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
