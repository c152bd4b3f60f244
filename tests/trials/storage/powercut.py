"""Promise P2: what was acknowledged survives a power cut, which leaves only what was synced.

`strace` looks on while webhooks are sent and pages are asked for: every 2xx of the receiver, but a probe's,
must follow a sync of inbox.db's log that began after its request had been read and that succeeded.
Afterwards mirror.db, which is synced now and then only, is put back to an older state, as a power cut may:
at the next start it is made good from the inbox, to the same calls as before.

    python -m tests.trials powercut [--requests N]          500 requests
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.harness import Product, wait_for
from tests.trials.sync.platform import Report, until
from tests.trials.tools.traffic import PLANTED, Senders, damaged, told
from tests.trials.webhooks.crash import unapplied

SENDERS = 10
CALLS = "read,recvfrom,recvmsg,write,writev,sendto,sendmsg,fsync,fdatasync"
STRACE = ("strace", "-f", "-ttt", "-T", "-yy", "-s", "80", "-e", f"trace={CALLS}", "-e", "signal=none")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials powercut")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed-bug", action="store_true", help="commit without waiting for the disk")
    options = parser.parse_args(arguments)
    report = Report("powercut")
    if shutil.which("strace") is None:
        report.check(False, "strace looks on: sudo apt install strace")
        return report.end("nothing was tried")
    with tempfile.TemporaryDirectory(prefix="switchroom-powercut-") as folder:
        about = _syncs(Path(folder).resolve(), options, report)
        if not options.seed_bug:
            about += _rolled_back(Path(folder).resolve() / "data", report)
    found = any("follows a sync" in promise for promise in report.broken)
    return report.end(about) if not options.seed_bug else int(not found)


def _syncs(folder: Path, options: argparse.Namespace, report: Report) -> str:
    data_dir, trace = folder / "data", folder / "trace"
    program = (*PLANTED, "careless") if options.seed_bug else ("app.py",)
    product = Product(data_dir, program=program)
    watcher = subprocess.Popen(
        [*STRACE, "-o", str(trace), "-p", str(product.worker)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _attached(watcher)
        senders = Senders(
            product.port, product.webhook_path, count=SENDERS, rest=0, most=options.requests // SENDERS
        )
        probes = 0
        while not senders.finished:
            product.client.ask("POST", product.webhook_path, b"{}")
            probes += 1
        senders.wait()
    finally:
        watcher.terminate()
        watcher.wait(20)
        product.stop(30)
    answers, violations = judged(trace.read_text(errors="replace").splitlines(), product.port)
    statuses = senders.statuses
    # Under strace a commit may take longer than a sender is kept waiting.
    stored = set(statuses) <= {200, 503} and statuses[200] > statuses[503]
    report.check(stored, f"webhooks are stored, not {dict(statuses)}")
    report.check(
        answers == statuses[200], f"strace saw each of {statuses[200]} acknowledgements, not {answers}"
    )
    report.check(
        not violations,
        f"every 2xx follows a sync that began after its request; {len(violations)} do not: {violations[:1]}",
    )
    return f"{answers} acknowledgements beside {probes} probes, {len(violations)} without a sync of their own"


def _attached(watcher: subprocess.Popen[str]) -> None:
    assert watcher.stderr is not None
    line = watcher.stderr.readline()
    if "attached" not in line:
        raise RuntimeError(f"strace can't look on: {line.strip()}")
    # What it says later must not fill the pipe.
    threading.Thread(target=watcher.stderr.read, daemon=True).start()


# --- what strace saw ---------------------------------------------------------------------------------

_LINE = re.compile(r"(?P<thread>\d+) +(?P<at>\d+\.\d+) (?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_RESULT = re.compile(r"\) += (?P<result>-?\d+).*?(?:<(?P<took>[\d.]+)>)?$")


@dataclass(frozen=True)
class Call:
    """A system call: begun and ended (Unix seconds), what it was given, what came back."""

    name: str
    begun: float
    ended: float
    text: str
    result: int


def calls(lines: list[str]) -> Iterator[Call]:
    """In the order in which they ended. A call that another thread's interrupts is put together again."""
    unfinished: dict[str, tuple[float, str]] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        thread, at, rest = found["thread"], float(found["at"]), found["rest"]
        resumed = _RESUMED.match(rest)
        if resumed is not None:
            begun, text = unfinished.pop(thread, (at, f"{resumed['name']}("))
            text += resumed["rest"]
            ended = at
        elif rest.endswith("<unfinished ...>"):
            unfinished[thread] = at, rest.removesuffix("<unfinished ...>")
            continue
        else:
            begun, text, ended = at, rest, at
        call, result = _CALL.match(text), _RESULT.search(text)
        if call is None or result is None:
            continue
        ended = max(ended, begun + float(result["took"] or 0))
        yield Call(call["name"], begun, ended, text, int(result["result"]))


def judged(lines: list[str], port: int) -> tuple[int, list[str]]:
    """How many acknowledgements there were, and those that no sync of the inbox's log stands before."""
    seen = sorted(calls(lines), key=lambda call: call.ended)
    syncs = [
        (call.begun, call.ended)
        for call in seen
        if call.name in ("fsync", "fdatasync") and "/inbox.db-wal>" in call.text and call.result == 0
    ]
    requests: dict[str, float] = {}
    answers, violations = 0, []
    for call in seen:
        if (peer := _peer(call.text, port)) is None:
            continue
        if call.name in ("read", "recvfrom", "recvmsg") and call.result > 0:
            # The last bytes of a request: it can't have been stored before.
            requests[peer] = call.ended
        elif '"HTTP/1.1 2' in call.text:
            if "probe" in call.text:
                continue
            answers += 1
            if not any(
                requests.get(peer, call.begun) <= begun and ended <= call.begun for begun, ended in syncs
            ):
                violations.append(f"{call.text[:80]} at {call.begun:.6f}, asked at {requests.get(peer)}")
    return answers, violations


def _peer(text: str, port: int) -> str | None:
    found = re.search(rf"<TCP(?:v6)?:\[[^\]]*:{port}->([^\]]+)\]>", text)
    return found[1] if found else None


# --- mirror.db of an older state ---------------------------------------------------------------------


def _rolled_back(data_dir: Path, report: Report) -> str:
    older = data_dir.parent / "older.db"
    shutil.copy(data_dir / "mirror.db", older)
    product = Product(data_dir)
    try:
        senders = Senders(product.port, product.webhook_path, count=SENDERS, rest=0, name="later", most=20)
        senders.wait()
        wait_for(lambda: not unapplied(data_dir), "every event to be applied", 240)
        before = told(data_dir)
    finally:
        product.kill()
    for name in ("mirror.db", "mirror.db-wal", "mirror.db-shm"):
        (data_dir / name).unlink(missing_ok=True)
    shutil.copy(older, data_dir / "mirror.db")
    behind = unapplied(data_dir)
    report.check(
        behind >= len(senders.acknowledged), f"the older state lacks what came later, {behind} events"
    )
    product = Product(data_dir)
    try:
        report.check(until(lambda: not unapplied(data_dir)), "the inbox is applied at the start")
        after = told(data_dir)
        differing = [table for table in before if before[table] != after[table]]
        report.check(not differing, f"the mirror is as it was before the cut, not so in {differing}")
    finally:
        product.stop(30)
    report.check(not (found := damaged(data_dir)), f"the databases are whole, not {found}")
    return f"; {behind} events applied again to an older mirror.db: {len(after['_calls'])} calls as before"
