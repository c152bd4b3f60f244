"""Parser of the specification: tables, lists of fields, descriptions of bodies.

It uses nothing of the catalogue, so that tests can compare the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PLATFORM = Path(__file__).parents[1] / "fixtures" / "platform"
TEXT = (PLATFORM / "specification.md").read_text(encoding="utf-8")

TYPES = {
    "int": "integer",
    "integer": "integer",
    "number": "number",
    "float": "number",
    "string": "string",
    "date": "string",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
    "timestamp": "timestamp",
    "string timestamp": "timestamp",
    "any": "any",
}
NUMERALS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@dataclass(frozen=True)
class Row:
    """One method on one path, from a table of the chapter Endpoints."""

    module: str
    method: str
    path: str
    request: str
    response: str
    success: tuple[int, ...]
    errors: tuple[int, ...]


def section(title: str, level: str = "###", text: str = TEXT) -> str:
    """Return the lines below a heading.

    They end at the next heading of the same or a higher level.
    """
    start = re.search(rf"^{level} {re.escape(title)}.*$", text, re.M)
    assert start, title
    rest = text[start.end() :]
    end = re.search(rf"^#{{2,{len(level)}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def table(text: str) -> list[list[str]]:
    """Return the cells of the first table, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _statuses(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\b[1-5]\d\d\b", text))


def _for_method(cell: str, at: int, method: str, many: bool) -> str:
    own = re.search(rf"\({method}: ([^)]*)\)", cell)
    if own:
        return own[1]
    cell = re.sub(r"\([A-Z]+: [^)]*\)", "", cell)
    return cell.split(" / ")[at] if many and " / " in cell else cell


def rows() -> list[Row]:
    """Return all operations of the chapter Endpoints, in their order."""
    found = []
    for module, text in re.findall(
        r"^### (\w[\w-]*) (?:module|group)[^\n]*\n(.*?)(?=^##)",
        section("Endpoints", "##") + "\n##",
        re.M | re.S,
    ):
        for cells in table(text):
            methods = cells[0].split(", ")
            if len(cells) == 4:
                first, *others = _statuses(cells[3])
                found.append(Row(module, cells[0], cells[1], cells[2], "", (first,), tuple(others)))
                continue
            assert len(cells) == 5, cells
            for at, method in enumerate(methods):
                many = len(methods) > 1
                success = _for_method(cells[3], at, method, many)
                errors = _for_method(cells[4], at, method, many)
                found.append(
                    Row(module, method, cells[1], cells[2], success, _statuses(success), _statuses(errors))
                )
    return found


def listed_fields(text: str) -> list[tuple[str, str]]:
    """Parse a list of fields into (name, type) pairs.

    Example: 'id, user_id: int; created_at: timestamp'.
    """
    pairs = []
    for group in text.split(";"):
        names, type = group.rsplit(":", 1)
        for name in re.split(r",\s*(?:and\s+)?", names.strip()):
            span = re.fullmatch(r"(?:and )?one(\w*)\.\.nine\1", name)
            for single in [f"{numeral}{span[1]}" for numeral in NUMERALS] if span else [name]:
                pairs.append((single, TYPES[type.strip()]))
    return pairs


def other_resources() -> dict[str, list[tuple[str, str]]]:
    return {cells[0]: listed_fields(cells[1]) for cells in table(section("Other resources"))}


def model(title: str) -> list[tuple[str, str]]:
    """Return (name, type) pairs of a table 'Field | Type | Meaning'.

    One row may name several fields.
    """
    return [(name, TYPES[cells[1]]) for cells in table(section(title)) for name in cells[0].split(", ")]


def body(text: str) -> list[tuple[str, str]]:
    """Parse the description of a body into (name, type) pairs.

    Example: 'to string required (…); from, via string'. [] if it names no field.
    """
    text = text.replace("(type undefined)", "any")
    text = re.sub(r"\([^()]*\)", "", text)
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    for part in re.split(r"[,;]", text.split(":", 1)[1].rstrip(". ")):
        words = part.replace("optional id", "id").split()
        waiting.append(words[0])
        if len(words) > 1:
            pairs += [(name, TYPES[words[1]]) for name in waiting]
            waiting = []
    assert not waiting, waiting
    return pairs


def prose(start: str) -> str:
    """Return the only line that starts with `start`."""
    (line,) = [line for line in TEXT.splitlines() if line.startswith(start)]
    return line
