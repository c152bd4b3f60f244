"""Results of the long forms of trials, and their table."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import ROOT
from tests.trials import long_form, promises_page
from tests.trials.__main__ import TRIALS
from tests.trials.long_form import LongForm
from tests.trials.trial import Trial


class Doors(Trial):
    """Doors close.

    Disturbed: wind from all
    sides.
    Checked: doors.
    """

    name = "doors"
    short = ("--doors 1", "--doors 1 --seed-bug")
    long = LongForm(promises=("P7",), rounds=("--doors 9",) * 3, minutes=2, remains="windows")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(long_form, "ROOT", tmp_path)
    monkeypatch.setattr(long_form, "PROGRESS", tmp_path / "progress")
    monkeypatch.setattr(long_form, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(long_form, "get_commit", lambda: "abc1234")
    return tmp_path


def run_rounds(monkeypatch: pytest.MonkeyPatch, *results: dict[str, Any] | int | None) -> list[str]:
    """Replace the processes of rounds by results, a number by a status; None is an interruption.

    Returns the list to which the options of each process are added.
    """
    started, left = list[str](), list(results)

    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        started.append(" ".join(command[4:-2]))
        result = left.pop(0)
        if result is None:
            raise KeyboardInterrupt
        if isinstance(result, int):
            return subprocess.CompletedProcess(command, result)
        Path(command[-1]).write_text(json.dumps(result) + "\n")
        return subprocess.CompletedProcess(command, int(bool(result["failures"])))

    monkeypatch.setattr(long_form.subprocess, "run", run)
    return started


def make_result(closed: int, slowest: float, *failures: str) -> dict[str, Any]:
    return {"failures": failures, "figures": [], "sums": {"closed": closed}, "highest": {"seconds": slowest}}


def test_an_interrupted_long_form_continues_after_the_rounds_that_are_done(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = run_rounds(monkeypatch, make_result(9, 1.5), None)
    with pytest.raises(KeyboardInterrupt):
        long_form.run(Doors, [])
    assert "4 rounds, about 2 minutes; 0 are done" in capsys.readouterr().out

    started = run_rounds(monkeypatch, make_result(8, 2.5), make_result(9, 0.5), make_result(1, 0))
    assert long_form.run(Doors, []) == 0
    assert started == ["--doors 9 --seed 2", "--doors 9 --seed 3", "--doors 1 --seed-bug"]
    result = json.loads((folders / "results" / "doors.json").read_text())
    assert (result["verdict"], result["rounds"], result["sums"], result["highest"]) == (
        "held",
        3,
        {"closed": 26},
        {"seconds": 2.5},
    )
    assert (result["bugs_planted"], result["bugs_found"]) == (1, 1)
    assert not list((folders / "progress").iterdir())


def test_one_failed_round_of_three_is_a_promise_that_is_not_held(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = make_result(9, 1)
    run_rounds(monkeypatch, good, make_result(9, 1, "a door is open"), good, make_result(1, 0))
    assert long_form.run(Doors, []) == 1
    (row,) = promises_page.make_table([Doors], folders / "results").splitlines()[2:]
    assert row.startswith("| P7 | Wind from all sides. | 2 of 3 rounds passed in 0 min; ")
    assert "**NOT held**: 27 closed; seconds 1; planted bugs found: 1 of 1; 1 checks failed" in row
    assert "a door is open" in row


def test_every_promise_has_a_trial_with_a_planted_bug() -> None:
    promised = {promise for trial in TRIALS for promise in trial.long.promises}
    promises = (ROOT / "docs" / "promises.md").read_text("utf-8")
    listed = set(re.findall(r"^\| (P\d+) \|", promises, re.M))
    assert len(listed) >= 29
    assert listed <= promised
    numbered = [trial for trial in TRIALS if any(one.startswith("P") for one in trial.long.promises)]
    assert [trial.name for trial in numbered if not any("--seed-bug" in line for line in trial.short)] == []


def test_the_page_has_the_results_that_are_kept(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text(promises_page.PAGE.read_text("utf-8"), "utf-8")
    promises_page.write_results(TRIALS, copy)
    assert copy.read_text("utf-8") == promises_page.PAGE.read_text("utf-8"), (
        "run `python -m tests.trials --promises`"
    )
