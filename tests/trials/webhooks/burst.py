"""Trial of a burst of webhooks during an initial sync."""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass, field

from tests.benchmarks.tools import load
from tests.support.harness import Client, wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import count_stored, find_duplicates, is_complete, query_number, query_rows
from tests.trials.tools.traffic import Access, create_access
from tests.trials.trial import Trial, allow_many_connections, until

RESPONSE_SECONDS = 1.0
PAGES = 4
CDRS = 10_000_000
"""CDRs at the platform: more than the sync reads during the trial."""
STORED = 5_000
"""Records after which the calls of an initial sync are no longer assembled, and published, at once."""
FIRST = 500_000_000
"""Number of the first event. Its call is not among the platform's."""
CHANGE = re.compile(rb'event: (call|call_gone)\ndata: {"id":(\d+)(?:,"state":"[^"]*","ended":(true|false))?')


class Burst(Trial):
    """A burst of webhooks during an initial sync is stored and shown.

    Disturbed: 10,000 webhooks over 500 connections, during a sync of 10 million CDRs, with 5 live pages open.
    Checked: each webhook gets 200 and is stored once, 99 of 100 within a second; each open page receives the
    end of each call, or shows it after it was reloaded; the sync continues.
    Detects: webhooks that are refused; changes that are not published.
    """

    name = "burst"
    size_option, size = "--posts", 10_000
    bugs, symptoms = ("refuse_some_webhooks", "publish_half"), ("gets 200", "receives the end")
    short = (
        "--short --posts 1500 --connections 150",
        "--short --posts 1500 --connections 150 --seed-bug",
    )
    long = LongForm(
        promises=("P19",),
        rounds=("",) * 3,
        minutes=1,
        remains="",
        expectation="by hand: the list of posts",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--connections", type=int, default=500)
        parser.add_argument("--short", action="store_true", help="print the response time, do not check it")

    def boot(self) -> None:
        allow_many_connections()
        peer = self.start_process(sys.executable, "-m", "tests.trials.tools.peer", "--cdrs", str(CDRS))
        url = f"http://127.0.0.1:{peer.line('port ')}/v1.2"
        self.access = create_access(self.data_dir)
        self.product = self.start_product(self.data_dir, base_url=url)
        wait_for(lambda: self._count_read() >= STORED, "the sync", 300)

    def load(self) -> None:
        self.pages = [Page(self.product.port, self.access) for _ in range(PAGES)]
        for page in self.pages:
            self.cleanup.callback(page.stop)
        wait_for(lambda: all(page.is_open for page in self.pages), "open pages")

    def disturb(self) -> None:
        posts, connections = self.options.size, self.options.connections
        before = self._count_read()
        path = self.product.webhook_path
        burst = load.run(self.product.port, path, requests=posts, connections=connections, first=FIRST)
        self.read, self.refused = self._count_read(), burst.failures
        self.verify(burst.failures == 0, f"every webhook gets 200, not {burst.failures} of them")
        if not self.options.short and not self.is_seeded:
            fast = burst.p99 < RESPONSE_SECONDS
            self.verify(fast, f"99 of 100 webhooks get a response within 1 s, not {burst.p99:.2f} s")
        began = time.monotonic()
        self.verify_applied(self.data_dir, 600)
        self.sums = {"webhooks": posts, "not acknowledged": burst.failures}
        self.highest = {"p99 in ms": round(burst.p99 * 1000)}
        self.figures.append(
            f"{posts:,} webhooks over {connections} connections, {burst.per_second:,.0f}/s, "
            f"p50 {burst.p50 * 1000:.0f} ms, p99 {burst.p99 * 1000:.0f} ms; all applied "
            f"{time.monotonic() - began:.1f} s after; {self.read - before:,} records read during the burst"
        )

    def check(self) -> None:
        events, posts = count_stored(self.data_dir), self.options.size
        twice = find_duplicates(self.data_dir)
        self.verify(not twice, f"no event is stored twice, not {len(twice)}, such as {twice[:1]}")
        stored = sum(json.loads(load.body(number))["id"] in events for number in range(FIRST, FIRST + posts))
        expected = posts - self.refused
        self.verify(stored == expected, f"{expected} events are stored, not {stored}")
        self._check_pages()
        self.verify_soon(lambda: self._count_read() > self.read, "the sync continues", 120)
        self.verify(not is_complete(self.data_dir, "cdrs"), "the sync ran during the entire burst")
        self.figures.append(f"{PAGES} pages loaded {sum(len(page.loads) for page in self.pages)} times")

    def _check_pages(self) -> None:
        """Check that each page received the end of each call."""
        ended = self._list_calls(
            "SELECT id FROM _calls WHERE state = 'ended' AND id BETWEEN ? AND ?",
            _get_call(FIRST),
            _get_call(FIRST + self.options.size - 1),
        )
        last = FIRST + 1_000_000 * len(load.STEPS) + 1
        status, _, _ = self.product.client.send("POST", self.product.webhook_path, load.body(last))
        self.verify(status == 200, f"one more webhook gets 200, not {status}")
        reached = until(
            lambda: all(page.loads[-1].shows(_get_call(last)) for page in self.pages),
            5 if self.is_seeded else 120,
        )
        self.verify(reached, "every page shows one more call")
        changed = "SELECT CAST(key AS INTEGER) FROM _changes WHERE topic IN ('call', 'call_gone') AND id > ?"
        for number, page in enumerate(self.pages):
            load_ = page.loads[-1]
            expected = ended & self._list_calls(changed, load_.position) if len(page.loads) > 1 else ended
            missed = expected - load_.list_ended()
            self.verify(
                not missed,
                f"page {number} receives the end of {len(expected)} calls, except of {len(missed)}",
            )

    def _list_calls(self, sql: str, *values: int) -> set[int]:
        return {row[0] for row in query_rows(self.data_dir / "mirror.db", sql, *values)}

    def _count_read(self) -> int:
        """Records that the sync has stored."""
        sql = "SELECT max(walk_rows) FROM _walks WHERE collection = 'cdrs'"
        return query_number(self.data_dir / "mirror.db", sql)


def _get_call(number: int) -> int:
    """Return the call of an event."""
    return int(json.loads(load.body(number))["call_id"])


@dataclass
class PageLoad:
    """A live page, loaded at change `position`, and its stream.

    The stream is parsed at the end of the trial, because the senders need the interpreter.
    """

    position: int
    body: bytes
    received: list[bytes] = field(default_factory=list)

    def shows(self, call: int) -> bool:
        """Whether the page shows `call`, which has not ended."""
        return b'data-call="%d"' % call in self.body or b'{"id":%d,' % call in b"".join(self.received)

    def list_ended(self) -> set[int]:
        """Calls whose last change on the stream is their end."""
        changes = CHANGE.findall(b"".join(self.received))
        last = {int(call): name == b"call_gone" or ended == b"true" for name, call, ended in changes}
        return {call for call, is_ended in last.items() if is_ended}


class Page:
    """An open live page.

    Like a browser it reloads the page when its stream ends.
    """

    def __init__(self, port: int, access: Access) -> None:
        self.loads: list[PageLoad] = []
        self._port = port
        self._access = access
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return bool(self.loads and self.loads[-1].received)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        client = Client(f"http://127.0.0.1:{self._port}")
        cookie = self._access.dashboard["Cookie"]
        while not self._stopping.is_set():
            body = client.send("GET", "/live", headers=self._access.dashboard)[1]
            after = body.partition(b'data-change="')[2].partition(b'"')[0].decode()
            self.loads.append(PageLoad(int(after.rpartition("-")[2]), body))
            with socket.create_connection(("127.0.0.1", self._port)) as stream:
                stream.settimeout(0.5)
                # HTTP/1.0 has no chunks, whose lengths would be between the changes.
                head = f"GET /live/stream?after={after} HTTP/1.0\r\nHost: 127.0.0.1:{self._port}\r\n"
                stream.sendall(f"{head}Cookie: {cookie}\r\n\r\n".encode())
                self._receive(stream)

    def _receive(self, stream: socket.socket) -> None:
        """Receive until the server ends the stream."""
        while not self._stopping.is_set():
            try:
                received = stream.recv(1 << 20)
            except TimeoutError:
                continue
            if not received:
                return
            self.loads[-1].received.append(received)
