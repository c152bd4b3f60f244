"""Trial of power cuts, which leave only what was synced to disk."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from tests.trials.tools.databases import count_unapplied, read_calls
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial

SENDERS = 10
CALLS = "read,recvfrom,recvmsg,write,writev,sendto,sendmsg,fsync,fdatasync"
STRACE = ("strace", "-f", "-ttt", "-T", "-yy", "-s", "80", "-e", f"trace={CALLS}", "-e", "signal=none")


class PowerCut(Trial):
    """Acknowledged events survive a power cut.

    Disturbed: webhooks are posted while strace records the system calls; then mirror.db, which is synced only
    at intervals, is replaced by an older copy, as after a power cut.
    Checked: by strace, each 2xx of the receiver follows a sync of inbox.db's log that succeeded and began
    after its request was read; at its next start the product applies the inbox again, to the same calls.
    Detects: databases that are committed without waiting for the disk.
    """

    name = "powercut"
    size_option, size = "--requests", 500
    bugs, symptoms = ("commit_without_sync",), ("follows a sync",)
    short = ("--requests 500", "--requests 100 --seed-bug")
    promises = ("P2",)
    long = ("--requests 500",) * 2

    def boot(self) -> None:
        if shutil.which("strace") is None:
            raise SystemExit("powercut requires strace: sudo apt install strace")
        self.product = self.start_product(self.data_dir)

    def load(self) -> None:
        trace = self.folder / "trace"
        watcher = subprocess.Popen(
            [*STRACE, "-o", str(trace), "-p", str(self.product.worker)], stderr=subprocess.PIPE, text=True
        )
        probes = 0
        try:
            _await_attached(watcher)
            senders = self._send("s", self.options.size // SENDERS)
            while not senders.is_finished:
                self.product.client.send("POST", self.product.webhook_path, b"{}")
                probes += 1
        finally:
            watcher.terminate()
            watcher.wait(20)
        self.stop_product(self.product)
        lines = trace.read_text(errors="replace").splitlines()
        responses, violations = find_unsynced(lines, self.product.port)
        statuses = senders.statuses
        # Under strace a commit may exceed the receiver's limit.
        stored = set(statuses) <= {200, 503} and statuses[200] > statuses[503]
        self.verify(stored, f"webhooks are stored, not {dict(statuses)}")
        acknowledged = statuses[200]
        self.verify(
            responses == acknowledged, f"strace shows {acknowledged} acknowledgements, not {responses}"
        )
        self.verify(
            not violations,
            "every 2xx follows a sync that began after its request, "
            f"except {len(violations)}: {violations[:1]}",
        )
        self.figures.append(f"{responses} acknowledgements, {probes} probes, {len(violations)} not synced")

    def disturb(self) -> None:
        if self.is_seeded:
            return
        older = self.folder / "older.db"
        shutil.copy(self.data_dir / "mirror.db", older)
        self.product = self.start_product(self.data_dir)
        senders = self._send("later", 20)
        senders.wait()
        self.verify_applied(self.data_dir)
        before = read_calls(self.data_dir)
        self.kill_product(self.product)
        for name in ("mirror.db", "mirror.db-wal", "mirror.db-shm"):
            (self.data_dir / name).unlink(missing_ok=True)
        shutil.copy(older, self.data_dir / "mirror.db")
        behind = count_unapplied(self.data_dir)
        expected = len(senders.acknowledged)
        self.verify(behind >= expected, f"the older mirror.db lacks {expected} events, not {behind}")
        self.product = self.start_product(self.data_dir)
        self.verify_applied(self.data_dir)
        after = read_calls(self.data_dir)
        differing = [table for table in before if before[table] != after[table]]
        self.verify(not differing, f"the mirror is as before the cut, except {differing}")
        self.figures.append(
            f"{behind} events applied again to an older mirror.db, {len(after['_calls'])} calls"
        )

    def _send(self, name: str, most: int) -> Senders:
        path = self.product.webhook_path
        return Senders(self.product.port, path, count=SENDERS, rest=0, name=name, most=most)


def _await_attached(watcher: subprocess.Popen[str]) -> None:
    assert watcher.stderr is not None
    line = watcher.stderr.readline()
    if "attached" not in line:
        raise RuntimeError(f"strace cannot attach: {line.strip()}")
    # Later messages must not fill the pipe.
    threading.Thread(target=watcher.stderr.read, daemon=True).start()


# --- system calls ----------------------------------------------------------------------------------------

_LINE = re.compile(r"(?P<thread>\d+) +(?P<at>\d+\.\d+) (?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_RESULT = re.compile(r"\) += (?P<result>-?\d+).*?(?:<(?P<took>[\d.]+)>)?$")


@dataclass(frozen=True)
class Call:
    """A system call with its Unix times, arguments and result."""

    name: str
    begun: float
    ended: float
    text: str
    result: int


def parse_calls(lines: list[str]) -> Iterator[Call]:
    """Parse strace's lines, in the order in which the calls ended.

    The two lines of an interrupted call yield one Call.
    """
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


def find_unsynced(lines: list[str], port: int) -> tuple[int, list[str]]:
    """Find acknowledgements without a sync after their request.

    Returns the number of all acknowledgements, and descriptions of those found.
    """
    seen = sorted(parse_calls(lines), key=lambda call: call.ended)
    syncs = [
        (call.begun, call.ended)
        for call in seen
        if call.name in ("fsync", "fdatasync") and "/inbox.db-wal>" in call.text and call.result == 0
    ]
    requests: dict[str, float] = {}
    responses, violations = 0, []
    for call in seen:
        if (peer := _find_peer(call.text, port)) is None:
            continue
        if call.name in ("read", "recvfrom", "recvmsg") and call.result > 0:
            # The last bytes of a request, which cannot have been stored before.
            requests[peer] = call.ended
        elif '"HTTP/1.1 2' in call.text:
            if "probe" in call.text:
                continue
            responses += 1
            if not any(
                requests.get(peer, call.begun) <= begun and ended <= call.begun for begun, ended in syncs
            ):
                violations.append(f"{call.text[:80]} at {call.begun:.6f}, requested at {requests.get(peer)}")
    return responses, violations


def _find_peer(text: str, port: int) -> str | None:
    found = re.search(rf"<TCP(?:v6)?:\[[^\]]*:{port}->([^\]]+)\]>", text)
    return found[1] if found else None
