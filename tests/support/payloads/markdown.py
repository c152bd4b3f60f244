"""Headings and tables of Markdown pages, for comparisons with the code."""

from __future__ import annotations

import re

Table = list[dict[str, str]]
"""Rows of one table: cell by column heading."""

HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")


def read_sections(text: str) -> dict[str, list[Table]]:
    """Return the tables of each section, by the title of its heading."""
    sections: dict[str, list[Table]] = {}
    tables: list[Table] = []
    columns: list[str] | None = None
    for line in text.splitlines():
        if match := HEADING.match(line):
            tables = sections.setdefault(match[2], [])
            columns = None
        elif not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = _split_row(line)
            tables.append([])
        elif not set(line) <= set("|-: "):
            tables[-1].append(dict(zip(columns, _split_row(line), strict=True)))
    return sections


def read_anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    anchors: set[str] = set()
    in_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        match = None if in_code else HEADING.match(line)
        if match is None:
            continue
        words = re.sub(r"[^\w\- ]", "", match[2].lower()).strip().replace(" ", "-")
        anchor, number = words, 0
        while anchor in anchors:
            number += 1
            anchor = f"{words}-{number}"
        anchors.add(anchor)
    return anchors


def _split_row(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
