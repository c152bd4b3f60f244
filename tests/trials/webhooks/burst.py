"""Promise P19: a burst of webhooks while a big account is read for the first time and live pages are open.

Every webhook is answered 200 and stored once, and soon. Every open page is told how each of the calls ended;
a page that is told to load itself again shows what it was not told.

    python -m tests.trials burst [--posts N] [--connections N]      10,000 over 500, 5 pages
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import load
from tests.support.harness import Client, Process, Product, wait_for
from tests.trials.sync.platform import Report, until
from tests.trials.tools.traffic import PLANTED, Visitor, ask, damaged, furnish, look, stored
from tests.trials.webhooks.crash import unapplied

ANSWER_SECONDS = 1.0
PAGES = 5
CDRS = 10_000_000
"""At the platform: more than is read while the trial lasts."""
SETTLED = 5_000
"""Records after which the calls of what is read are no longer put together at once, and told of."""
FIRST = 500_000_000
"""The first event, and so its call, is none of the platform's."""
STEPS = len(load.STEPS)

TOLD = re.compile(rb'event: (call|call_gone)\ndata: {"id":(\d+)(?:,"state":"[^"]*","ended":(true|false))?')


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials burst")
    parser.add_argument("--posts", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--short", action="store_true", help="tell the time of an answer, judge it not")
    parser.add_argument("--seed-bug", action="store_true", help="refuse some; tell pages half of it")
    options = parser.parse_args(arguments)
    report = Report("burst")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    peer = Process([sys.executable, "-m", "tests.trials.tools.peer", "--cdrs", str(CDRS)])
    try:
        platform = f"http://127.0.0.1:{peer.line('port ')}/v1.2"
        with tempfile.TemporaryDirectory(prefix="switchroom-burst-") as folder:
            told = _try(Path(folder) / "data", platform, options, report)
    finally:
        peer.stop()
    found = all(any(word in promise for promise in report.broken) for word in ("200", "told"))
    return report.end(told) if not options.seed_bug else int(not found)


def _try(folder: Path, platform: str, options: argparse.Namespace, report: Report) -> str:
    visitor = furnish(folder)
    product = Product(
        folder,
        base_url=platform,
        program=(*PLANTED, "shy,mumbling") if options.seed_bug else ("app.py",),
        sync__max_requests_per_minute="60000",
    )
    pages: list[Page] = []
    try:
        wait_for(lambda: _read(folder) >= SETTLED, "the sync", 300)
        pages = [Page(product.port, visitor) for _ in range(PAGES)]
        wait_for(lambda: all(page.listens for page in pages), "open pages")
        before = _read(folder)
        burst = load.run(
            product.port,
            product.webhook_path,
            requests=options.posts,
            connections=options.connections,
            first=FIRST,
        )
        after = _read(folder)
        report.check(burst.failures == 0, f"every webhook gets 200, {burst.failures} got something else")
        if not options.short and not options.seed_bug:
            report.check(burst.p99 < ANSWER_SECONDS, f"99 of 100 within a second, not {burst.p99:.2f} s")
        began = time.monotonic()
        report.check(until(lambda: not unapplied(folder), 600), "every event is applied in the end")
        applied = time.monotonic() - began
        _are_stored(folder, options.posts, burst.failures, report)
        _are_told(folder, product, options, pages, report)
        report.check(until(lambda: _read(folder) > after, 120), "the sync goes on")
        report.check(_walking(folder), "the sync was under way all the time")
    finally:
        for page in pages:
            page.stop()
        status = product.stop(30)
    report.check(status == 0, f"it stops well, not with {status}")
    report.check(not (found := damaged(folder)), f"the databases are whole, not {found}")
    loads = sum(len(page.loads) for page in pages)
    return (
        f"{options.posts:,} webhooks over {options.connections} connections, {burst.per_second:,.0f}/s,"
        f" p50 {burst.p50 * 1000:.0f} ms, p99 {burst.p99 * 1000:.0f} ms; all applied {applied:.1f} s after;"
        f" {after - before:,} records read meanwhile; {PAGES} pages loaded {loads} times in all"
    )


def _are_stored(folder: Path, posts: int, failures: int, report: Report) -> None:
    events = stored(folder)
    twice = [identifier for identifier, count in events.items() if count > 1]
    report.check(not twice, f"no event is stored twice, {len(twice)} are, such as {twice[:1]}")
    here = sum(json.loads(load.body(number))["id"] in events for number in range(FIRST, FIRST + posts))
    report.check(here == posts - failures, f"{posts - failures} events are stored, not {here}")


def _are_told(
    folder: Path, product: Product, options: argparse.Namespace, pages: Sequence[Page], report: Report
) -> None:
    """Of every call that ended, once what comes last of all has been told, too."""
    ended = _ended(folder, options.posts)
    last = FIRST + 1_000_000 * STEPS + 1
    status, _, _ = product.client.ask("POST", product.webhook_path, load.body(last))
    report.check(status == 200, f"one more webhook gets 200, not {status}")
    patience = 5 if options.seed_bug else 120
    reached = until(lambda: all(page.loads[-1].shows(_call(last)) for page in pages), patience)
    report.check(reached, "every page is told of one more call")
    for number, page in enumerate(pages):
        now = page.loads[-1]
        wanted = ended & _changed(folder, now.position) if len(page.loads) > 1 else ended
        missed = wanted - now.told()
        report.check(
            not missed, f"page {number} is told that {len(wanted)} calls ended; {len(missed)} are missed"
        )


def _ended(folder: Path, posts: int) -> set[int]:
    """Calls of the burst that ended."""
    first, last = _call(FIRST), _call(FIRST + posts - 1)
    sql = "SELECT id FROM _calls WHERE state = 'ended' AND id BETWEEN ? AND ?"
    with closing(look(folder / "mirror.db")) as connection:
        return {row[0] for row in connection.execute(sql, (first, last))}


def _changed(folder: Path, position: int) -> set[int]:
    """Calls that changed after the change of this number."""
    sql = "SELECT CAST(key AS INTEGER) FROM _changes WHERE topic IN ('call', 'call_gone') AND id > ?"
    with closing(look(folder / "mirror.db")) as connection:
        return {row[0] for row in connection.execute(sql, (position,))}


def _call(number: int) -> int:
    """The call of an event."""
    return int(json.loads(load.body(number))["call_id"])


def _read(folder: Path) -> int:
    """Records the first walk has stored."""
    return ask(
        folder / "mirror.db", "SELECT coalesce(max(walk_rows), 0) FROM _walks WHERE collection = 'cdrs'"
    )


def _walking(folder: Path) -> bool:
    return not ask(
        folder / "mirror.db", "SELECT count(*) FROM _walks WHERE collection = 'cdrs' AND complete_at > ''"
    )


@dataclass
class Loaded:
    """A live page since it was loaded, at the change `position`. What it heard is kept as it came, and read
    when it is asked for: whoever posts needs the interpreter."""

    position: int
    body: bytes
    heard: list[bytes] = field(default_factory=list)

    def shows(self, call: int) -> bool:
        """Whether it knows of a call that goes on."""
        return b'data-call="%d"' % call in self.body or b'{"id":%d,' % call in b"".join(self.heard)

    def told(self) -> set[int]:
        """Calls of which the last it heard is that they ended."""
        told = TOLD.findall(b"".join(self.heard))
        last = {int(call): name == b"call_gone" or over == b"true" for name, call, over in told}
        return {call for call, over in last.items() if over}


class Page:
    """A live page as a browser has it open: loaded again as often as it is told to."""

    def __init__(self, port: int, visitor: Visitor) -> None:
        self.loads: list[Loaded] = []
        self._port = port
        self._visitor = visitor
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def listens(self) -> bool:
        return bool(self.loads and self.loads[-1].heard)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        client = Client(f"http://127.0.0.1:{self._port}")
        while not self._stopping.is_set():
            body = client.ask("GET", "/live", headers=self._visitor.dashboard)[1]
            after = body.partition(b'data-change="')[2].partition(b'"')[0].decode()
            self.loads.append(Loaded(int(after.rpartition("-")[2]), body))
            with socket.create_connection(("127.0.0.1", self._port)) as stream:
                stream.settimeout(0.5)
                # Without chunks, whose lengths would stand between what is told.
                head = f"GET /live/stream?after={after} HTTP/1.0\r\nHost: 127.0.0.1:{self._port}\r\n"
                stream.sendall(f"{head}Cookie: {self._visitor.dashboard['Cookie']}\r\n\r\n".encode())
                self._listen(stream)

    def _listen(self, stream: socket.socket) -> None:
        """Until it is told to load the page again, which ends the stream."""
        while not self._stopping.is_set():
            try:
                received = stream.recv(1 << 20)
            except TimeoutError:
                continue
            if not received:
                return
            self.loads[-1].heard.append(received)
