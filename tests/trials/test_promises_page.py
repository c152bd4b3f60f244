"""Results of the long forms of trials, and their table."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.harness import ROOT
from tests.trials import promises_page
from tests.trials.__main__ import TRIALS


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
