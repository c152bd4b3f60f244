"""Long forms of trials: rounds whose progress and results are kept.

`python -m tests.trials NAME --long` runs the rounds of the trial's `LongForm`, then its planted bugs, each as
a process. Finished rounds are kept in `build/trials/NAME.json`; after an interruption the next start
continues after them. The result replaces `tests/trials/results/NAME.json`, from which
`python -m tests.trials --promises` writes the table in `tests/trials/results/README.md`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration import __version__
from integration.core.atomic_files import open_atomic
from tests.support.harness import ROOT

if TYPE_CHECKING:
    from tests.trials.trial import Trial

PROGRESS = ROOT / "build" / "trials"
RESULTS = ROOT / "tests" / "trials" / "results"
NOT_RUN = 3
"""Status of a trial that needs a program which is not installed."""
PRODUCT = ("app.py", "integration", "static", "templates")
"""Files of the product, as paths of Git."""


@dataclass(frozen=True)
class LongForm:
    """What `--long` runs, and what docs/promises.md states about it.

    `promises`: numbers in docs/promises.md; `rounds`: options of each round; `minutes`: expected duration;
    `remains`: what the trial does not show; `expectation`: where expected results come from.
    """

    promises: tuple[str, ...] = ()
    rounds: tuple[str, ...] = ("",)
    minutes: float = 5.0
    remains: str = ""
    expectation: str = "simulator"


@dataclass
class Round:
    """Result of one process: a round, or a planted bug."""

    options: str
    seconds: float = 0.0
    is_passed: bool = False
    failures: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    sums: dict[str, int] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)

    @property
    def has_bug(self) -> bool:
        return "--seed-bug" in self.options


def run(trial: type[Trial], arguments: Sequence[str]) -> int:
    """Run the rounds that are not done yet.

    Returns 1 if a round failed, NOT_RUN without a result if a program is missing, else 0.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.trials {trial.name} --long")
    parser.add_argument("--restart", action="store_true", help="forget the rounds that are done")
    options = parser.parse_args(arguments)
    progress, commit, plan = PROGRESS / f"{trial.name}.json", get_commit(), list_rounds(trial)
    done = [] if options.restart else read_progress(progress, commit, plan)
    print(
        f"{trial.name}: {len(plan)} rounds, about {trial.long.minutes:g} minutes; "
        f"{len(done)} are done ({progress.relative_to(ROOT)})",
        flush=True,
    )
    for number, line in enumerate(plan[len(done) :], len(done) + 1):
        print(f"{trial.name}: round {number} of {len(plan)}: {line}", flush=True)
        made = _run_round(trial.name, line)
        if made is None:
            return NOT_RUN
        done.append(made)
        write_json(progress, {"commit": commit, "rounds": [asdict(one) for one in done]})
    result = summarise(trial, done, commit)
    write_json(RESULTS / f"{trial.name}.json", result)
    progress.unlink()
    print(f"{trial.name}: {result['verdict']}: {describe_result(result)}")
    return int(result["verdict"] != "held")


def list_rounds(trial: type[Trial]) -> list[str]:
    """Options of all rounds; each has a seed of its own."""
    seeded = [f"{line} --seed {number}".strip() for number, line in enumerate(trial.long.rounds, 1)]
    with_bug = [line for line in trial.short if "--seed-bug" in line]
    return [*seeded, *(with_bug or ["--seed-bug"] * bool(trial.bugs))]


def _run_round(name: str, options: str) -> Round | None:
    """Run a round as a process. Returns None if a program is missing, which the process names."""
    report = PROGRESS / f"{name}.report"
    PROGRESS.mkdir(parents=True, exist_ok=True)
    report.write_text("")
    command = [sys.executable, "-m", "tests.trials", name, *shlex.split(options), "--report", str(report)]
    begun = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status == NOT_RUN:
        report.unlink()
        return None
    made = Round(options, round(time.monotonic() - begun, 1), status == 0)
    # The trial of files has four parts, each with a line of its own.
    for part in map(json.loads, report.read_text().splitlines()):
        made.failures += part["failures"]
        made.figures += part["figures"]
        add_figures(made.sums, made.highest, part)
    if status and not made.failures:
        made.failures.append(f"the process ended with status {status}; its output shows the reason")
    report.unlink()
    return made


def add_figures(sums: dict[str, int], highest: dict[str, float], part: dict[str, Any]) -> None:
    """Add sums, and keep the highest values, of one more part."""
    for name, number in part["sums"].items():
        sums[name] = sums.get(name, 0) + number
    for name, number in part["highest"].items():
        highest[name] = max(highest.get(name, number), number)


def read_progress(path: Path, commit: str, plan: Sequence[str]) -> list[Round]:
    """Return the rounds that are done, of this commit and these options."""
    if not path.exists():
        return []
    kept = json.loads(path.read_text())
    rounds = [Round(**one) for one in kept["rounds"]]
    is_same = kept["commit"] == commit and [one.options for one in rounds] == plan[: len(rounds)]
    return rounds if is_same else []


def write_json(path: Path, value: Any) -> None:
    """Replace a file at once, so that an interruption leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n")


def summarise(trial: type[Trial], rounds: Iterable[Round], commit: str) -> dict[str, Any]:
    """Combine rounds into the result that is kept."""
    rounds = list(rounds)
    plain = [one for one in rounds if not one.has_bug]
    bugs = [one for one in rounds if one.has_bug]
    sums, highest = dict[str, int](), dict[str, float]()
    for one in plain:
        add_figures(sums, highest, asdict(one))
    return {
        "trial": trial.name,
        "verdict": "held" if all(one.is_passed for one in rounds) else "NOT held",
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "commit": commit,
        "options": [f"{line} ×{count}" for line, count in Counter(trial.long.rounds).items()],
        "rounds": len(plain),
        "rounds_passed": sum(one.is_passed for one in plain),
        "minutes": round(sum(one.seconds for one in rounds) / 60, 1),
        "sums": sums,
        "highest": highest,
        "figures": [] if sums else [figure for one in plain for figure in one.figures],
        "failures": [failure for one in plain for failure in one.failures],
        "bugs_planted": len(bugs),
        "bugs_found": sum(one.is_passed for one in bugs),
    }


def describe_result(result: dict[str, Any]) -> str:
    """Return the figures of a result in one line."""
    parts = [f"{number:,} {name}" for name, number in result["sums"].items()]
    parts += [f"{name} {number:,g}" for name, number in result["highest"].items()]
    parts += result["figures"]
    parts.append(f"planted bugs found: {result['bugs_found']} of {result['bugs_planted']}")
    if result["failures"]:
        parts.append(f"{len(result['failures'])} checks failed, first: {result['failures'][0][:200]}")
    return "; ".join(parts)


def get_commit() -> str:
    """Return the last commit of the product, marked if its files differ."""
    git = ("git", "-C", str(ROOT))
    try:
        found = subprocess.run(
            [*git, "log", "-1", "--format=%h", "--", *PRODUCT], capture_output=True, text=True, check=False
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *PRODUCT], check=False)
    except FileNotFoundError:
        return "unknown"
    if found.returncode:
        return "unknown"
    return found.stdout.strip() + (" with changes" if changed.returncode else "")
