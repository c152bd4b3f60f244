"""The platform of the benchmarks: the records of tools/office.py or tools/strangers.py over HTTP.

`python -m tests.benchmarks.tools.platform --cdrs 1000000 [--mix strangers]` prints its port. It accepts the
requests of a full sync. The next page is made while the client stores the last one, so that no client waits
for it. Users, numbers, queues, ring groups and contacts are short lists, of strangers empty ones; other
collections are empty. No file exists.
"""

from __future__ import annotations

import argparse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from integration.core import clock
from tests.benchmarks.tools.listing import Listing
from tests.benchmarks.tools.office import CDRS_PER_RECORDING, Office
from tests.benchmarks.tools.strangers import Strangers

MIXES = {"office": Office, "strangers": Strangers}
EMPTY = b'{"data":[],"total":0,"links":{}}'


def make_listings(account: Office | Strangers) -> dict[str, Listing]:
    def first_recording_at(moment: float) -> int:
        return -(-account.first_at(moment) // CDRS_PER_RECORDING)

    listings = {"cdrs": Listing("calldate", account.cdrs, account.cdr, account.first_at)}
    if isinstance(account, Office):
        listings["monitors"] = Listing("timestamp", account.recordings, account.recording, first_recording_at)
    return listings


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    listings: dict[str, Listing]
    static: dict[str, list[dict[str, Any]]]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        name = url.path.removeprefix("/v1.2/")
        args = {key: values[0] for key, values in parse_qs(url.query).items()}
        body, found = EMPTY, None
        if name in self.listings:
            found = self.listings[name].select(args)
            body = self.listings[name].page(*found)
        elif name in self.static:
            body = _make_static_page(self.static[name], args)
        elif name == "me":
            body = b'{"data":{"id":1000001,"is_root":true}}'
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (formatdate(clock.unix(), usegmt=True).encode(), len(body), body)
        )
        if found is not None:
            self.listings[name].make_next(*found)

    def log_message(self, *_args: object) -> None:
        pass


def _make_static_page(records: list[dict[str, Any]], args: dict[str, str]) -> bytes:
    for entry in orjson.loads(args.get("filter") or "[]"):
        if entry["property"] == "id" and entry["operator"] in ("lt", "gt"):
            is_below = entry["operator"] == "lt"
            records = [one for one in records if (int(one["id"]) < int(entry["value"])) == is_below]
    records = sorted(records, key=lambda one: int(one["id"]), reverse=args.get("dir") == "DESC")
    limit, page = int(args.get("limit", 25)), int(args.get("page", 1))
    shown = records[(page - 1) * limit : page * limit]
    return orjson.dumps({"data": shown, "total": len(records), "links": {}})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tools.platform")
    parser.add_argument("--cdrs", type=int, default=1_000_000)
    parser.add_argument("--mix", choices=MIXES, default="office")
    options = parser.parse_args()
    account = MIXES[options.mix](options.cdrs)
    Handler.listings, Handler.static = make_listings(account), account.static
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
