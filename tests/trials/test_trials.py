"""The trials of all promises."""

from __future__ import annotations

import re
from collections import Counter

from tests.support.harness import ROOT
from tests.trials.__main__ import TRIALS


def test_every_promise_has_one_trial_with_a_planted_bug() -> None:
    promised = Counter(promise for trial in TRIALS for promise in trial.promises)
    listed = re.findall(r"^\| (P\d+) \|", (ROOT / "docs" / "promises.md").read_text("utf-8"), re.M)
    assert len(listed) >= 29
    assert {promise: count for promise, count in promised.items() if promise[0] == "P"} == Counter(listed)
    assert [trial.name for trial in TRIALS if not any("--seed-bug" in line for line in trial.short)] == []
