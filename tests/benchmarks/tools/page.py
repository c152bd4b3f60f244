"""Page of the kept results, tests/benchmarks/results/README.md, and its charts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import plots, results
from tests.benchmarks.tools.benchmark import PRODUCT, Benchmark, Figure, Goal, format_number

PAGE = results.RESULTS / "README.md"
CHARTS = results.RESULTS / "charts"
HEAD = """\
# Benchmarks

`python -m tests.benchmarks` measures Switchroom from the outside, as a process or over HTTP, beside
other programs in the same run and in alternating order. It writes this page. The figures are medians,
with the lowest and the highest round in parentheses. Absolute figures depend on the machine and its
load; a ratio compares measurements of the same round. A load above the number of cores makes elapsed
times longer.

The data are ten years of calls of one office. Ring groups, queues and transfers are as frequent as in
the simulator's history, and every tenth call has a telephone number of its own. `pip install -e
'.[bench]'` installs the other programs. A complete run takes about {minutes:.0f} minutes on two quiet
cores, and the first run some more for its data. `--rows N` sets the number of CDRs. With a name, only
that benchmark runs and only its results on this page change.

"""
FOOT = """\
## Memory over hours of load

A trial measures it: [promise P28](../../trials/results/README.md). Goals: less than
1 MB an hour after the first half hour, at most 250 MB.
"""


def write(benchmarks: Mapping[str, Benchmark], page: Path = PAGE, charts: Path = CHARTS) -> None:
    """Write the page and its charts. Charts without a result are deleted."""
    kept = results.load_all()
    charts.mkdir(parents=True, exist_ok=True)
    made = make_charts(kept)
    for path in charts.glob("*.svg"):
        if path.name not in made:
            path.unlink()
    for name, chart in made.items():
        (charts / name).write_text(chart, "utf-8")
    page.write_text(make_page(benchmarks, kept), "utf-8")


def make_page(benchmarks: Mapping[str, Benchmark], kept: Mapping[str, dict[str, Any]]) -> str:
    minutes = sum(benchmark.minutes for benchmark in benchmarks.values())
    sections = [HEAD.format(minutes=minutes), _make_overview(benchmarks, kept)]
    for name in sorted(benchmarks, key=lambda name: (not benchmarks[name].in_table, name)):
        sections.append(_make_section(name, benchmarks[name], kept.get(name)))
    return "".join([*sections, FOOT])


def make_charts(kept: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Return the charts by file name.

    A benchmark has one chart for each unit.
    """
    charts = {}
    for name, result in kept.items():
        for unit, figures in _group_by_unit(result).items():
            sizes = {figure.size for figure in figures}
            (size,) = sizes if len(sizes) == 1 else (None,)
            title = f"{result['title']} ({unit}{f', {size:,} CDRs' if size else ''})"
            bars = [_make_bars(figure, len(sizes) > 1) for figure in figures]
            charts[_name_chart(name, unit)] = plots.draw_bars(title, unit, bars)
    return charts


def _group_by_unit(result: dict[str, Any]) -> dict[str, list[Figure]]:
    groups: dict[str, list[Figure]] = {}
    for data in result["figures"]:
        figure = Figure.from_json(data)
        groups.setdefault(figure.unit, []).append(figure)
    return groups


def _name_chart(name: str, unit: str) -> str:
    words = unit.replace("%", "percent").replace("µ", "micro").replace(",", "").lower().split()
    return f"{name}-{'-'.join(words)}.svg"


def _make_bars(figure: Figure, has_sizes: bool) -> list[plots.Bar]:
    spread, limits = figure.spread(), [_find_limit(figure, goal) for goal in figure.goals]
    size = f", {figure.size:,}" if figure.size and has_sizes else ""
    known = [limit for limit in limits if limit is not None]
    own = plots.Bar(
        f"{figure.name}{size}",
        spread.median,
        spread.low,
        spread.high,
        format_number(spread.median),
        is_own=True,
        goal=known[0] if known else None,
    )
    bars = [own]
    for peer in figure.peers:
        other = figure.peer_spread(peer)
        bars.append(
            plots.Bar(peer, other.median, other.low, other.high, format_number(other.median), is_own=False)
        )
    return bars


def _find_limit(figure: Figure, goal: Goal) -> float | None:
    """Return a goal in the unit of the figure."""
    if goal.peer is None:
        return goal.limit
    return goal.limit * figure.peer_spread(goal.peer).median if goal.peer in figure.peers else None


def _make_overview(benchmarks: Mapping[str, Benchmark], kept: Mapping[str, dict[str, Any]]) -> str:
    lines = [
        "| Benchmark | Measured | Goals met | Duration | Command |\n",
        "|---|---|---|---|---|\n",
    ]
    for name, benchmark in sorted(benchmarks.items()):
        result = kept.get(name)
        verdicts = _count_goals(result) if result else "not run"
        date = f"{result['date']}, {result['commit']}" if result else "not run"
        duration = f"{result['seconds']} s" if result else f"about {benchmark.minutes:g} min"
        lines.append(
            f"| [{benchmark.title}](#{_make_anchor(benchmark.title)}) | {date} | {verdicts} | {duration} "
            f"| `python -m tests.benchmarks {name}` |\n"
        )
    return "".join(lines) + "\n"


def _count_goals(result: dict[str, Any]) -> str:
    figures = [Figure.from_json(data) for data in result["figures"]]
    compared = [verdict for figure in figures for goal in figure.goals
                if (verdict := figure.compare(goal)) is not None]  # fmt: skip
    return f"{sum(compared)} of {len(compared)}" if compared else "–"


def _make_anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _make_section(name: str, benchmark: Benchmark, result: dict[str, Any] | None) -> str:
    head = f"## {benchmark.title}\n\n{benchmark.remarks}\n\n"
    if result is None:
        command = f"`python -m tests.benchmarks {name}`"
        return f"{head}Not run. {command} takes about {benchmark.minutes:g} minutes.\n\n"
    machine = result["machine"]
    about = (
        f"{result['date']} UTC, commit {result['commit']}, {result['seconds']} s. {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}, SQLite {machine['sqlite']}. "
        f"Load before the run: {machine['load']:g}.\n\n"
    )
    if machine["load"] > machine["cores"]:
        about += "**The machine had other work: elapsed times are too long. Compare CPU times.**\n\n"
    charts = "".join(
        f"![{benchmark.title}, {unit}](charts/{_name_chart(name, unit)})\n\n"
        for unit in _group_by_unit(result)
    )
    figures = [Figure.from_json(data) for data in result["figures"]]
    table = "| Figure | CDRs | " + f"{PRODUCT} | Peers and ratios | Goal |\n|---|---|---|---|---|\n"
    table += "".join(map(_make_row, figures))
    return f"{head}{about}{charts}{table}\n"


def _make_row(figure: Figure) -> str:
    peers = [
        f"{peer}: {figure.peer_spread(peer).describe()}, ratio {figure.ratio(peer).describe()}"
        for peer in figure.peers
    ]
    peers += [f"{peer}: **missing**, {reason}" for peer, reason in figure.missing.items()]
    verdicts = {True: "met", False: "**missed**", None: "not compared"}
    goals = [f"{goal.describe()}: {verdicts[figure.compare(goal)]}" for goal in figure.goals]
    cells = (
        f"{figure.name}, {figure.unit}",
        f"{figure.size:,}" if figure.size else "–",
        figure.spread().describe(),
        "<br>".join(peers) or "–",
        "<br>".join(goals) or "–",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
