"""Bar charts as SVG, in the colours of the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABEL, VALUE = 800, 360, 130
"""Width of a chart, of the labels before the bars, and of the values after them."""
ROW, GAP, HEAD, FOOT = 20, 12, 44, 26
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1d2330}"
    ".title{font-weight:600;font-size:15px}.note{fill:#5b6472;font-size:12px}"
    ".own{fill:#0b6bcb}.peer{fill:#9aa5b4}.goal{stroke:#b3261e;stroke-width:2;stroke-dasharray:4 3}"
    ".spread{stroke:#1d2330;stroke-width:1.5}.back{fill:#fff}"
    "@media (prefers-color-scheme:dark){text{fill:#e8ebf0}.note{fill:#a9b2c0}.own{fill:#5aa9f5}"
    ".peer{fill:#66707f}.goal{stroke:#ff8a80}.spread{stroke:#e8ebf0}.back{fill:#14181f}}"
)


@dataclass(frozen=True)
class Bar:
    """One bar: median, lowest and highest value.

    `goal` is a limit in the same unit.
    """

    label: str
    median: float
    low: float
    high: float
    text: str
    is_own: bool
    goal: float | None = None


def draw_bars(title: str, unit: str, groups: Sequence[Sequence[Bar]]) -> str:
    """Return a chart of groups of bars with one scale."""
    bars = [bar for group in groups for bar in group]
    highest = max([bar.high for bar in bars] + [bar.goal for bar in bars if bar.goal is not None]) or 1.0
    # One slow peer must not reduce all other bars to lines.
    own = max(
        [bar.high for bar in bars if bar.is_own] + [bar.goal for bar in bars if bar.is_own and bar.goal]
    )
    scale = (WIDTH - LABEL - VALUE) / min(highest, 6 * own or highest)
    limit = WIDTH - LABEL - VALUE
    parts, y = list[str](), float(HEAD)
    for group in groups:
        for bar in group:
            parts.append(_draw_bar(bar, y, scale, limit))
            y += ROW
        y += GAP
    height = y - GAP + FOOT
    about = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    has_goal = any(bar.goal is not None for bar in bars)
    note = f"{unit}; thin line: lowest to highest" + ("; dashed: goal" if has_goal else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-labelledby="title desc"><title id="title">{escape(title)}</title>'
        f'<desc id="desc">{escape(unit)}. {escape(about)}</desc><style>{STYLE}</style>'
        f'<rect class="back" width="{WIDTH}" height="{height:.0f}"/>'
        f'<text class="title" x="12" y="24">{escape(title)}</text>{"".join(parts)}'
        f'<text class="note" x="{LABEL}" y="{height - 8:.0f}">{escape(note)}</text></svg>\n'
    )


def _draw_bar(bar: Bar, y: float, scale: float, limit: float) -> str:
    def place(value: float) -> float:
        return LABEL + min(limit, value * scale)

    middle, length = y + ROW / 2, max(1.0, place(bar.median) - LABEL)
    kind = "own" if bar.is_own else "peer"
    drawn = [
        f'<text x="{LABEL - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(_shorten(bar.label))}</text>',
        f'<rect class="{kind}" x="{LABEL}" y="{y + 3:.1f}" width="{length:.1f}" height="{ROW - 6}"/>',
    ]
    if bar.high > bar.low:
        drawn.append(
            f'<line class="spread" x1="{place(bar.low):.1f}" x2="{place(bar.high):.1f}" '
            f'y1="{middle:.1f}" y2="{middle:.1f}"/>'
        )
    end = max(length + LABEL, place(bar.high)) + 6
    if bar.goal is not None:
        x = place(bar.goal)
        # The value must not be behind the line.
        end = max(end, x + 6) if x < end + 60 else end
        drawn.append(f'<line class="goal" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y + ROW:.1f}"/>')
    drawn.append(f'<text x="{end:.1f}" y="{middle + 4:.1f}">{escape(bar.text)}</text>')
    return "".join(drawn)


def _shorten(label: str) -> str:
    return label if len(label) <= 54 else label[:53] + "…"
