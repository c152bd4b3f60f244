"""Trial of large and unusual bodies of webhooks."""

from __future__ import annotations

import argparse
import gzip
import itertools
import re
import socket
from collections import Counter
from collections.abc import Iterable

from tests.support.harness import wait_for
from tests.trials.tools.databases import query_rows
from tests.trials.tools.processes import read_peak_memory
from tests.trials.trial import Trial

KIB = 1024
LIMIT = 256 * KIB
"""Largest body that is stored."""
MAX_GROWTH = 40.0
"""MB by which the highest memory of the worker may grow."""
HUGE = 2**30
CHUNK = b"x" * (64 * KIB)

UNUSUAL: dict[str, bytes] = {
    "no JSON": b"not json",
    "array": b"[1,2]",
    "text": b'"text"',
    "two objects": b'{"id":"1"}{"id":"2"}',
    "half an object": b'{"id":"1',
    "deep": b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "5,000 digits": b'{"a":' + b"9" * 5_000 + b"}",
    "exponent": b'{"a":1e999999}',
    "surrogate": b'{"a":"\\ud800"}',
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "NUL": b'{"a":"\x00"}',
    "NUL escape": b'{"a":"\\u0000"}',
    "UTF-16": '{"a":"ä"}'.encode("utf-16"),
    "UTF-32": '{"a":"ä"}'.encode("utf-32"),
    "Latin-1": b'{"a":"\xe9"}',
    "BOM": b'\xef\xbb\xbf{"a":1}',
    "bytes": bytes(range(256)),
    "duplicate keys": b'{"id":"1","id":"2","call_id":1,"call_id":[]}',
    "wrong types": b'{"id":"types","event_name":7,"call_id":"no","state":[],"src":{"a":1}}',
    "largest": b'{"a":"' + b"x" * (LIMIT - 8) + b'"}',
}
TOO_LARGE = {"256 KiB and 1 byte": LIMIT + 1, "257 KiB": 257 * KIB, "1 MiB": KIB * KIB}


class Bodies(Trial):
    """Large and unusual bodies are stored or refused, in constant memory.

    Disturbed: bodies of 257 KiB, of 1 GiB with and without an announced length, bodies that end early, deep
    nesting, numbers of 5,000 digits, unpaired surrogates, NaN, NUL, UTF-16 and UTF-32, no JSON, wrong types.
    Checked: bodies of up to 256 KiB get 200 and are stored byte by byte, larger ones 413, compressed ones
    415; none gets a 5xx; the worker is not replaced, and its highest memory grows by 40 MB at most.
    Detects: bodies that are read without a limit.
    """

    name = "bodies"
    size_option, size = "--repeats", 20
    bugs, symptoms = ("read_bodies_of_any_size",), ("gets 413",)
    short = ("--repeats 1 --huge 100000000", "--repeats 1 --huge 4000000 --seed-bug")
    promises = ("P21",)
    long = ("--repeats 20",) * 2

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--huge", type=int, default=HUGE, help="bytes of the largest body")

    def boot(self) -> None:
        self.product = self.start_product(self.data_dir)
        self.worker = self.product.worker or 0
        self.statuses: Counter[int] = Counter()

    def disturb(self) -> None:
        before = 0.0
        for number in range(self.options.size):
            for name, body in UNUSUAL.items():
                self._post(name, body, 200)
            for name, size in TOO_LARGE.items():
                self._post(name, b"x" * size, 413)
                self._expect(f"{name} in chunks", self._send_chunked(size), 413)
            self._expect("a body that ends early", self._send_half(), 0)
            compressed = gzip.compress(b'{"id":"compressed"}')
            head = _head(f"Content-Encoding: gzip\r\nContent-Length: {len(compressed)}", self._path)
            self._expect("a compressed body", self._send([head, compressed]), 415)
            if number == 0:
                # What is created once stays; the largest bodies come after it.
                before = _read_peak(self.worker)
                self._expect("an announced huge body", self._send_plain(self.options.huge), 413)
                self._expect("a huge body in chunks", self._send_chunked(self.options.huge), 413)
        self.grown = _read_peak(self.worker) - before

    def check(self) -> None:
        self.verify_applied(self.data_dir)
        stored = {bytes(row[0]) for row in query_rows(self.data_dir / "inbox.db", "SELECT body FROM inbox")}
        missing = [name for name, body in UNUSUAL.items() if body not in stored]
        self.verify(not missing, f"each body is stored byte by byte, except {missing}")
        more = len(stored) - len(UNUSUAL)
        self.verify(more == 0, f"no other body is stored, not {more}")
        self.verify(self.product.worker == self.worker, "the worker was not replaced")
        growth = f"the highest memory grows by {MAX_GROWTH:.0f} MB at most, not {self.grown:.0f}"
        self.verify(self.grown <= MAX_GROWTH, growth)
        failed = sum(count for status, count in self.statuses.items() if status >= 500)
        self.verify(not failed, f"no request gets a 5xx, not {failed}: {dict(self.statuses)}")
        self.figures.append(f"{dict(self.statuses)}, memory +{self.grown:.1f} MB")

    def _post(self, name: str, body: bytes, expected: int) -> None:
        self._expect(name, self._send([_head(f"Content-Length: {len(body)}", self._path), body]), expected)

    def _expect(self, name: str, status: int, expected: int) -> None:
        self.statuses[status] += 1
        # The server may close the connection before the body is sent completely.
        is_right = status == expected or (expected == 0 and status == 400)
        self.verify(is_right, f"{name} gets {expected or 'no response or 400'}, not {status}")

    @property
    def _path(self) -> str:
        return self.product.webhook_path

    def _send_plain(self, size: int) -> int:
        count = -(-size // len(CHUNK))
        head = _head(f"Content-Length: {count * len(CHUNK)}", self._path)
        return self._send([head], (CHUNK for _ in range(count)))

    def _send_chunked(self, size: int) -> int:
        chunk = b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK)
        count = -(-size // len(CHUNK))
        return self._send(
            [_head("Transfer-Encoding: chunked", self._path)], (chunk for _ in range(count)), b"0\r\n\r\n"
        )

    def _send_half(self) -> int:
        return self._send([_head("Content-Length: 5000", self._path), b'{"id":"half"'], ends=True)

    def _send(
        self, first: Iterable[bytes], chunks: Iterable[bytes] = (), last: bytes = b"", *, ends: bool = False
    ) -> int:
        """Send a request. Returns the status, 0 without a response."""
        with socket.create_connection(("127.0.0.1", self.product.port), timeout=60) as connection:
            response = b""
            try:
                for part in itertools.chain(first, chunks):
                    connection.sendall(part)
                connection.sendall(last)
                if ends:
                    connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                response = connection.recv(4096)
            except (ConnectionResetError, TimeoutError):
                pass
        found = re.match(rb"HTTP/1\.1 (\d+)", response)
        return int(found[1]) if found else 0


def _head(line: str, path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}\r\n\r\n".encode()


def _read_peak(pid: int) -> float:
    """Highest resident memory of a process in MB."""
    return float(wait_for(lambda: read_peak_memory(pid), "the state of the worker"))
