"""docs/design.md lists the tokens of the styles; pages use only these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.harness import ROOT

STYLES = (ROOT / "static" / "app.css").read_text("utf-8")
PAGE = (ROOT / "docs" / "design.md").read_text("utf-8")
TEMPLATES = sorted((ROOT / "templates").glob("*.html"))

BACKGROUNDS = ("page", "raised", "sunken", "hover", "rail")
READABLE = [(text, back) for text in ("ink", "ink-2", "ink-3", "accent") for back in BACKGROUNDS] + [
    ("accent", "accent-soft"),
    ("ink", "accent-soft"),
    ("ink-2", "accent-soft"),
    ("on-accent", "accent"),
    ("on-accent", "red"),
    ("ink-2", "grey-soft"),
    ("page", "ink"),
    *((hue, f"{hue}-soft") for hue in ("amber", "green", "blue", "red", "grey")),
    *((hue, back) for hue in ("amber", "green", "blue", "red") for back in ("page", "raised", "hover")),
]
"""Pairs of text and background that occur on pages."""
BARS = [
    *((hue, back) for hue in ("ring", "talk", "held") for back in ("page", "raised", "grey-soft")),
    *((hue, back) for hue in ("wait", "red", "accent") for back in ("page", "raised")),
    ("ring", "amber-soft"),
]
"""Pairs of bar and background."""


def tokens() -> dict[str, tuple[str, str]]:
    """Return (light, dark) by name of a token."""
    rule = re.search(r":root\{\n(.*?)\n\}", STYLES, re.S)
    assert rule is not None
    found = {}
    for name, value in re.findall(r"--([\w-]+):([^;]+);", rule[1]):
        pair = re.fullmatch(r"light-dark\(([^,]+),([^,]+)\)", value)
        found[name] = (pair[1], pair[2]) if pair else (value, value)
    return found


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2) of #rgb or #rrggbb."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_page_lists_each_token_with_its_values() -> None:
    listed = {}
    for name, light, dark in re.findall(r"^\| `--([\w-]+)` \| `([^`]+)` \| (?:`([^`]+)`)? *\|", PAGE, re.M):
        listed[name] = (light, dark or light)
    assert listed == tokens()


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_is_readable_on_every_background(theme: int) -> None:
    found = tokens()
    pale = {
        (text, back): round(ratio, 2)
        for text, back in READABLE
        if (ratio := contrast(found[text][theme], found[back][theme])) < 4.5
    }
    assert not pale


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_bars_are_visible_on_their_backgrounds(theme: int) -> None:
    found = tokens()
    ratios = {(hue, back): round(contrast(found[hue][theme], found[back][theme]), 2) for hue, back in BARS}
    assert not {pair: ratio for pair, ratio in ratios.items() if ratio < 3}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_style_of_their_own(template: Path) -> None:
    text = template.read_text("utf-8")
    assert re.findall(r"\bstyle=|font-size=|(?:fill|stroke)=\"(?!none|currentColor|\{)", text) == []
