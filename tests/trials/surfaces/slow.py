"""Promise P20: clients that are slow, or mean to be, keep nobody else waiting.

Hundreds of connections send half a header; hundreds announce a body and send the beginning of it, to every
door that takes one before it knows who is there; hundreds ask for something big and read nothing of it, with
and without credentials. Meanwhile probes, webhooks and pages are answered as ever.

    python -m tests.trials slow [--connections N] [--seconds N]         300 of each, for a minute
"""

from __future__ import annotations

import argparse
import math
import resource
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import Report, until
from tests.trials.tools.traffic import PLANTED, Readers, Senders, Visitor, ask, furnish

ANSWER_SECONDS = 1.0

DOORS = ("/webhooks/wrong", "/login", "/v1.2/login", "/setup/wrong", "/v1.2/sms", "/logout")
"""What takes a body of anybody's."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials slow")
    parser.add_argument("--connections", type=int, default=300, help="of each kind")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--short", action="store_true", help="judge by several times the promised second")
    parser.add_argument("--seed-bug", action="store_true", help="read the body of those who are refused")
    options = parser.parse_args(arguments)
    report = Report("slow")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    simulator = Simulator("--seed", "5", "--no-traffic", "--cdrs", "1500" if options.short else "20000")
    try:
        with tempfile.TemporaryDirectory(prefix="switchroom-slow-") as folder:
            told = _try(Path(folder), simulator, options, report)
    finally:
        simulator.stop()
    found = bool(report.broken)
    return report.end(told) if not options.seed_bug else int(not found)


def _try(folder: Path, simulator: Simulator, options: argparse.Namespace, report: Report) -> str:
    data_dir = folder / "data"
    visitor = furnish(data_dir)
    product = Product(
        data_dir,
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        program=(*PLANTED, "trusting") if options.seed_bug else ("app.py",),
        sync__max_requests_per_minute="60000",
    )
    told = []
    try:
        walked = "SELECT count(*) FROM _walks WHERE collection = 'cdrs' AND complete_at > ''"
        wait_for(lambda: ask(data_dir / "mirror.db", walked), "a first walk", 240)
        kinds = {"half bodies": _half_bodies(product.port, DOORS[: 1 if options.seed_bug else None])}
        if not options.seed_bug:
            kinds |= {
                "half headers": [b"GET /calls HTTP/1.1\r\nHost: localhost\r\nX-Slow: "],
                "slow readers": _readers(visitor),
            }
        for kind, openings in kinds.items():
            told.append(f"{kind}: {_crowd(kind, openings, product, visitor, options, report)}")
    finally:
        status = product.stop(30)
    report.check(status == 0, f"it stops well, not with {status}")
    return "; ".join(told)


def _half_bodies(port: int, doors: Sequence[str]) -> list[bytes]:
    head = (
        "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        "Content-Length: 5000\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nemail=ann"
    )
    return [head.format(door, port=port).encode() for door in doors]


def _readers(visitor: Visitor) -> list[bytes]:
    wanted: list[tuple[str, Mapping[str, str]]] = [
        ("/exports/cdrs.csv", visitor.dashboard),
        ("/exports/cdrs.jsonl", visitor.dashboard),
        ("/v1.2/cdrs?limit=5000", visitor.facade),
        ("/login", {}),
        ("/static/app.css", {}),
    ]
    return [
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
        + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items())
        + b"\r\n"
        for path, headers in wanted
    ]


def _crowd(
    kind: str,
    openings: list[bytes],
    product: Product,
    visitor: Visitor,
    options: argparse.Namespace,
    report: Report,
) -> str:
    crowd = Crowd(product.port, openings, options.connections, drip=kind != "slow readers")
    try:
        # What slow clients ask for is work at first; how long they stay must not matter.
        until(lambda: _seconds(product) < ANSWER_SECONDS, 1 if options.seed_bug else 40)
        probes = Readers(
            product.port,
            [("/healthz", {}), ("/readyz", {}), ("/login", {}), ("/missed", visitor.dashboard)],
            rest=0.1,
        )
        senders = Senders(product.port, product.webhook_path, count=2, rest=0.1, name=kind[:6])
        patience = 15 if options.seed_bug else 240
        until(lambda: len({answer.what for answer in list(probes.answers)}) == 4, patience)
        threading.Event().wait(options.seconds)
        left = crowd.left()
        # What waits for an answer that does not come counts, too.
        probes.stop(2.0)
        senders.stop(2.0)
    finally:
        crowd.close()
    bound = ANSWER_SECONDS * (10 if options.short or options.seed_bug else 1)
    asked = Counter(answer.what for answer in probes.answers)
    report.check(len(asked) == 4, f"{kind}: every probe is answered, not only {dict(asked)}")
    report.check(set(probes.statuses) == {200}, f"{kind}: probes get 200, not {dict(probes.statuses)}")
    report.check(set(senders.statuses) == {200}, f"{kind}: webhooks get 200, not {dict(senders.statuses)}")
    slowest = max(probes.slowest, senders.slowest)
    report.check(slowest <= bound, f"{kind}: an answer within {bound:.0f} s, not {slowest:.1f} s")
    back = until(lambda: _seconds(product) < math.inf)
    report.check(back, f"{kind}: ready once they have gone")
    return (
        f"{sum(asked.values())} probes, {len(senders.answers)} webhooks, slowest {slowest:.2f} s, {left} left"
    )


def _seconds(product: Product) -> float:
    began = time.monotonic()
    try:
        product.client.ask("GET", "/readyz")
    except OSError:
        return math.inf
    return time.monotonic() - began


class Crowd:
    """Slow clients. Those that write add a byte now and then; those that should read do not."""

    def __init__(self, port: int, openings: list[bytes], count: int, *, drip: bool) -> None:
        self._sockets: list[socket.socket] = []
        for number in range(count):
            client = socket.socket()
            # As little as can be: what the system would take for the reader keeps nobody waiting.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(openings[number % len(openings)])
            client.setblocking(False)
            self._sockets.append(client)
        self._stop = threading.Event()
        if drip:
            threading.Thread(target=self._drip, daemon=True).start()

    def left(self) -> int:
        """How many are still connected."""
        return sum(1 for client in self._sockets if _open(client))

    def close(self) -> None:
        self._stop.set()
        for client in self._sockets:
            client.close()

    def _drip(self) -> None:
        while not self._stop.wait(1.0):
            for client in self._sockets:
                try:
                    client.send(b"x")
                except OSError:
                    continue


def _open(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
