"""The trials of what the product promises: `python -m tests.trials [--short] [NAME …]`.

    crash   kill -9 of worker, supervisor and both under load; a planted bug must be found
    schemathesis
            requests made from the facade's OpenAPI document, none answered by a fault of ours
    token   the platform's token dies at random requests; a wrong password
    away    outages of the platform, each kind; then all is caught up
    trouble every way to fail while everything is read; one collection alone that fails
    day     24 hours without the platform, moved through: nothing is missing after
    lost    webhooks are lost: calls, recordings and messages are here all the same, once
    paging  records come and go during complete walks
    files   files sent wrongly, kills and a full disk in mid-download, damage on our own: right or absent
    deletions
            records deleted at the platform are marked, mistakes of its lists are not believed
    order   webhooks in every order, of whole calls: one final state
    late    records that are listed late, by minutes and hours; a call that has none
    clocks  clocks that are wrong, or set; events dated 2999 and 1970
    drift   every field of every record and webhook becomes something else: kept, noted, shown
    ghosts  hang-ups are lost, with the platform there and away: no call stays live
    bigload the first load of a big account, or of its files: rate, memory, killed and gone on with
    locked  somebody else holds the write lock of a database, or reads in it for long
    full    the disk is full; needs root to mount a small one, says so where it may not
    ioerror the disk fails to sync what was written; needs a C compiler
    powercut
            every acknowledgement follows a sync of its own; an older mirror.db is made good; needs strace
    duplicates
            every event comes up to 20 times, across restarts: one event, counted
    canaries
            every secret is looked for in logs, errors, pages, exports, the facade's answers, on disk
    burst   10,000 webhooks over 500 connections while everything else goes on: stored once, pages told
    soak    hours of work, trouble every few minutes: memory, handles and threads stay what they were
    slow    half headers, half bodies, readers that don't read: nobody else waits
    libreoffice
            exports opened by LibreOffice; needs it installed, and is no part of --short

A name alone with its own options runs that trial in full: `python -m tests.trials crash --kills 500`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.trials.storage import disk_full, files, ioerror, locked, powercut
from tests.trials.surfaces import canaries, contract, libreoffice, slow, soak
from tests.trials.sync import bigload, clocks, deletions, drift, paging, platform, trouble
from tests.trials.webhooks import burst, crash, duplicates, ghosts, late, lost, order

TRIALS = {
    "crash": crash.main,
    "schemathesis": contract.main,
    "token": platform.token,
    "away": platform.away,
    "paging": paging.main,
    "lost": lost.main,
    "trouble": trouble.trouble,
    "day": trouble.day,
    "files": files.main,
    "deletions": deletions.main,
    "order": order.main,
    "late": late.main,
    "ghosts": ghosts.main,
    "drift": drift.main,
    "clocks": clocks.main,
    "bigload": bigload.main,
    "locked": locked.main,
    "full": disk_full.main,
    "ioerror": ioerror.main,
    "powercut": powercut.main,
    "duplicates": duplicates.main,
    "canaries": canaries.main,
    "burst": burst.main,
    "soak": soak.main,
    "slow": slow.main,
    "libreoffice": libreoffice.main,
}
SHORT = (
    ("crash", ["--kills", "8"]),
    ("crash", ["--kills", "4", "--seed-bug"]),
    ("locked", ["--short"]),
    ("locked", ["--short", "--seed-bug"]),
    ("full", ["--seconds", "2"]),
    ("full", ["--seconds", "2", "--seed-bug"]),
    ("ioerror", ["--rounds", "1"]),
    ("ioerror", ["--rounds", "1", "--seed-bug"]),
    ("powercut", ["--requests", "500"]),
    ("powercut", ["--requests", "100", "--seed-bug"]),
    ("duplicates", ["--events", "200"]),
    ("duplicates", ["--events", "50", "--seed-bug"]),
    ("canaries", ["--pages", "60", "--formats", "csv"]),
    ("canaries", ["--pages", "10", "--formats", "csv", "--seed-bug"]),
    ("slow", ["--short", "--connections", "200", "--seconds", "2"]),
    ("slow", ["--short", "--connections", "400", "--seconds", "1", "--seed-bug"]),
    ("burst", ["--short", "--posts", "1500", "--connections", "150"]),
    ("burst", ["--short", "--posts", "1500", "--connections", "150", "--seed-bug"]),
    ("soak", ["--short"]),
    ("soak", ["--short", "--seed-bug"]),
    ("schemathesis", ["--cases", "175"]),
    ("schemathesis", ["--cases", "300", "--only", "GET /cdrs", "--seed-bug"]),
    ("token", []),
    ("token", ["--seed-bug"]),
    ("away", []),
    ("paging", []),
    ("paging", ["--seed-bug"]),
    ("lost", ["--calls", "20", "--sms", "10", "--dropped", "0.5", "1"]),
    ("lost", ["--calls", "4", "--sms", "2", "--dropped", "1", "--seed-bug"]),
    ("trouble", []),
    ("trouble", ["--seed-bug"]),
    ("day", []),
    ("day", ["--seed-bug"]),
    ("files", ["--kills", "2"]),
    ("files", ["--seed-bug"]),
    ("deletions", ["--rounds", "6"]),
    ("deletions", ["--seed-bug"]),
    ("order", ["--orders", "60"]),
    ("order", ["--orders", "20", "--seed-bug"]),
    ("late", []),
    ("late", ["--seed-bug"]),
    ("ghosts", ["--calls", "18"]),
    ("ghosts", ["--calls", "12", "--seed-bug"]),
    ("drift", []),
    ("drift", ["--seed-bug"]),
    ("clocks", []),
    ("clocks", ["--seed-bug"]),
    ("bigload", ["--cdrs", "12000"]),
    ("bigload", ["--cdrs", "12000", "--seed-bug"]),
    ("bigload", ["--files", "600"]),
    ("bigload", ["--files", "600", "--seed-bug"]),
)


def _all_short() -> int:
    """Two at a time, each a process of its own: what one plants or moves is no other's. What it says comes
    when it ends; at last how long each took, longest first."""
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(_one_short, SHORT))
    for seconds, shown, passed in sorted(results, reverse=True):
        print(f"{seconds:6.1f} s  {shown}{'' if passed else '  FAILED'}")
    failed = sum(1 for _, _, passed in results if not passed)
    print(f"trials: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _one_short(trial: tuple[str, list[str]]) -> tuple[float, str, bool]:
    """How many seconds it took, its name and options, whether it passed."""
    begun, shown = time.monotonic(), " ".join((trial[0], *trial[1]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.trials", trial[0], *trial[1]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(f"-- {shown}\n{done.stdout}", end="", flush=True)
    return time.monotonic() - begun, shown, done.returncode == 0


def main(arguments: list[str]) -> int:
    if arguments == ["--short"]:
        return _all_short()
    if arguments and arguments[0] in TRIALS:
        return TRIALS[arguments[0]](arguments[1:])
    print(__doc__, file=sys.stderr)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
