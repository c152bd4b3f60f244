"""Results of long forms, as the table in tests/trials/results/README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.trials.long_form import RESULTS, describe_result

if TYPE_CHECKING:
    from tests.trials.trial import Trial

PAGE = RESULTS / "README.md"
BEGIN, END = "<!-- results of long forms: begin -->\n", "<!-- results of long forms: end -->\n"
HEAD = (
    "| Promise | Tried | How often | Result | Remains | Expected results | Command |\n"
    "|---|---|---|---|---|---|---|\n"
)
PARAGRAPH = re.compile(r"^ *Disturbed: (.*?)(?=^ *(?:Checked|Detects):|\Z)", re.M | re.S)


def write_results(trials: Sequence[type[Trial]], page: Path = PAGE, results: Path = RESULTS) -> None:
    """Replace the table between the two markers of the page."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{make_table(trials, results)}\n{END}{after}", "utf-8")


def make_table(trials: Sequence[type[Trial]], results: Path = RESULTS) -> str:
    """Return a row for each promise and trial, in the order of the promises."""
    pairs = [(promise, trial) for trial in trials for promise in trial.long.promises]
    pairs.sort(key=lambda pair: (pair[0][0], int(pair[0][1:])))
    pairs += [("–", trial) for trial in trials if not trial.long.promises]
    return HEAD + "".join(_make_row(promise, trial, results) for promise, trial in pairs)


def _make_row(promise: str, trial: type[Trial], results: Path) -> str:
    path = results / f"{trial.name}.json"
    result = json.loads(path.read_text("utf-8")) if path.exists() else None
    cells = (
        promise,
        describe_disturbance(trial),
        _describe_rounds(result) if result else "not run",
        f"**{result['verdict']}**: {describe_result(result)}" if result else "not run",
        trial.long.remains,
        trial.long.expectation,
        f"`python -m tests.trials {trial.name} --long`",
    )
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def _describe_rounds(result: dict[str, Any]) -> str:
    options = ", ".join(f"`{one}`" for one in result["options"] if one.startswith("-"))
    lines = [
        f"{result['rounds_passed']} of {result['rounds']} rounds passed in {result['minutes']:g} min",
        f"{result['date']}, {result['version']}, {result['commit']}",
    ]
    return "; ".join([*lines, options] if options else lines)


def describe_disturbance(trial: type[Trial]) -> str:
    """Return the part `Disturbed:` of the docstring of a trial."""
    found = PARAGRAPH.search(trial.__doc__ or "")
    text = " ".join((found[1] if found else trial.__doc__ or "").split())
    return text[:1].upper() + text[1:]
