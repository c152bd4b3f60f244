"""Trials: long tests of promises under failures.

`python -m tests.trials [--short [--visitor]] [NAME [--long] [OPTION …]]`

A name runs that trial: `python -m tests.trials crash --kills 50`; `--long` runs its long form, whose results
are in tests/trials/results. `--short` runs all trials in their short forms, each with its planted bug as
well. With `--visitor` another program opens and closes the databases beside each trial.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from integration import __version__
from tests.trials.storage.disk_full import FullDisk
from tests.trials.storage.interrupted_downloads import Files
from tests.trials.storage.ioerror import SyncFailure
from tests.trials.storage.locked import Locked
from tests.trials.storage.powercut import PowerCut
from tests.trials.storage.visitor import Visitor
from tests.trials.surfaces.canaries import Canaries
from tests.trials.surfaces.contract import Contract
from tests.trials.surfaces.slow import Slow
from tests.trials.surfaces.soak import Soak
from tests.trials.sync.clocks import Clocks
from tests.trials.sync.drift import Drift
from tests.trials.sync.exchanges import Exchanges
from tests.trials.sync.expired_token import ExpiredToken
from tests.trials.sync.outage import DayOffline
from tests.trials.trial import Trial
from tests.trials.upkeep.backups import Backups
from tests.trials.upkeep.bulk import Bulk
from tests.trials.upkeep.single import Single
from tests.trials.upkeep.upgrades import Upgrades
from tests.trials.upkeep.zones import Zones
from tests.trials.webhooks.bodies import Bodies
from tests.trials.webhooks.burst import Burst
from tests.trials.webhooks.crash import Crash
from tests.trials.webhooks.deliveries import Deliveries
from tests.trials.webhooks.events import Events
from tests.trials.webhooks.lost import Lost
from tests.trials.webhooks.texts import Texts

TRIALS: tuple[type[Trial], ...] = (
    Crash,
    Contract,
    ExpiredToken,
    Exchanges,
    Lost,
    Events,
    Texts,
    DayOffline,
    Files,
    Drift,
    Clocks,
    Locked,
    FullDisk,
    SyncFailure,
    PowerCut,
    Visitor,
    Deliveries,
    Bodies,
    Canaries,
    Burst,
    Zones,
    Upgrades,
    Backups,
    Bulk,
    Single,
    Soak,
    Slow,
)
SHORT = tuple((trial, shlex.split(options)) for trial in TRIALS for options in trial.short)


def _run_all_short(options: list[str]) -> int:
    """Run all trials with `options` as processes, and those that failed once more, alone.

    Three run at a time, and beside them one of those that mostly wait.

    Trials are about moments: on a busy machine a process may get no time for seconds. What fails twice has
    failed; what passes only alone is printed as such.

    Prints their output, then their times. Returns 1 if a trial failed, else 0.
    """
    trials = [(trial.name, [*own_options, *options]) for trial, own_options in SHORT]
    with ThreadPoolExecutor(3) as pool, ThreadPoolExecutor(1) as beside:
        runs = [
            (beside if trial.mostly_waits else pool).submit(_run_short, run)
            for (trial, _), run in zip(SHORT, trials, strict=True)
        ]
        results = [run.result() for run in runs]
    for number, (_, command, is_passed) in enumerate(results):
        if not is_passed:
            print(f"-- once more, alone: {command}", flush=True)
            results[number] = _run_short(trials[number])
    for seconds, command, is_passed in sorted(results, reverse=True):
        print(f"{seconds:6.1f} s  {command}{'' if is_passed else '  FAILED'}")
    failed = sum(1 for _, _, is_passed in results if not is_passed)
    print(f"trials: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _run_short(trial: tuple[str, list[str]]) -> tuple[float, str, bool]:
    """Run a trial. Returns seconds, name with options, and success."""
    begun, command = time.monotonic(), " ".join((trial[0], *trial[1]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.trials", trial[0], *trial[1]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(f"-- {command}\n{done.stdout}", end="", flush=True)
    return time.monotonic() - begun, command, done.returncode == 0


def _run_long(trial: type[Trial]) -> int:
    """Run the rounds of the long form, each with a seed of its own, then the planted bugs.

    Returns the number of failed rounds.
    """
    rounds = [f"{line} --seed {number}" for number, line in enumerate(trial.long, 1)]
    rounds += [line for line in trial.short if "--seed-bug" in line]
    begun, failed = time.monotonic(), 0
    for line in rounds:
        print(f"-- {trial.name} {line}", flush=True)
        command = [sys.executable, "-m", "tests.trials", trial.name, *shlex.split(line)]
        failed += subprocess.run(command, check=False).returncode != 0
    minutes = (time.monotonic() - begun) / 60
    print(
        f"{trial.name}: {failed} of {len(rounds)} rounds failed in {minutes:.1f} min,"
        f" {datetime.now(UTC):%Y-%m-%d}, {__version__}"
    )
    return failed


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--short"] and arguments[1:] in ([], ["--visitor"]):
        return _run_all_short(arguments[1:])
    for trial in TRIALS:
        if arguments == [trial.name, "--long"]:
            return _run_long(trial)
        if arguments[:1] == [trial.name]:
            return trial.main(arguments[1:])
    lines = [f"    {trial.name:13} {(trial.__doc__ or '').splitlines()[0]}" for trial in TRIALS]
    print(__doc__, *lines, sep="\n", file=sys.stderr)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
