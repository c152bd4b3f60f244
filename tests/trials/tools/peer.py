"""Platform with any number of generated records.

The simulator is too slow for a million records.

`python -m tests.trials.tools.peer --cdrs 1000000` prints its port. It accepts the requests of a full sync:
filters on `id` and on the date, sort by `id`, `limit`, `page`. Records are the simulator's with new ids and
times; one of CDRS_PER_RECORDING CDRs has a recording, a small MP3. Other collections are empty. The next page
is made while the client stores the last one, so that the client never waits for it.
"""

from __future__ import annotations

import argparse
import random
import re
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import orjson

from integration.core import clock
from integration.simulator.calls.history import seed_history
from integration.simulator.calls.world import World
from integration.simulator.media import audio
from tests.trials.tools.listing import Listing

CDRS_PER_RECORDING = 5
STEP = 60.0
"""Seconds between two calls."""

LIVE = 4_278_000_000
PLAIN = {"nb_notes": 0, "parent_live_id": None, "call_id": None}
_ID, _DATE, _LEG = 1000000007, "2001-02-03 04:05:06", 1000000009


def make_listings(cdrs: int) -> dict[str, Listing]:
    world = World(7, None)
    seed_history(world, 120)
    return {
        "cdrs": _make_listing(world, "cdrs", "calldate", cdrs, 1),
        "monitors": _make_listing(
            world, "monitors", "timestamp", cdrs // CDRS_PER_RECORDING, CDRS_PER_RECORDING
        ),
    }


def _make_listing(world: World, name: str, date: str, count: int, calls: int) -> Listing:
    """Return records of which one belongs to each `calls` CDRs. The last is two minutes old."""
    end, every = float(int(clock.unix())) - 120, STEP * calls
    patterns = _patterns(world, name, date)

    def make_record(number: int) -> bytes:
        at = clock.utc_text(int(end - (count - number) * every)).encode()
        return patterns[number % len(patterns)] % {b"id": number, b"leg": LIVE + number * calls, b"at": at}

    def first_at(moment: float) -> int:
        return count + int(-(-(moment - end) // every))

    return Listing(date, count, make_record, first_at)


@cache
def get_sound() -> bytes:
    return audio.make_mp3(1, 1)


def make_recording(number: int) -> bytes:
    """Return a second of sound, with the number in an ID3v1 tag."""
    return get_sound() + b"TAG%-125d" % number


def _patterns(world: World, name: str, date: str) -> list[bytes]:
    """Return JSON texts of records with `%(id)d`, `%(leg)d` and `%(at)b` for values."""
    rng, found = random.Random(1), []
    records = list(world.collections[name].records.values())
    for record in rng.sample(records, min(100, len(records))):
        legs = {key: _LEG for key in ("live_id", "root_live_id") if record.get(key)}
        # Notes would be requested one by one, and there are none; a parent would make all legs one call.
        plain = {key: PLAIN.get(key, value) for key, value in record.items()}
        if name == "monitors":
            plain |= {"duration": 1, "size": len(make_recording(0))}
        text = orjson.dumps({**plain, "id": _ID, date: _DATE, **legs}).replace(b"%", b"%%")
        for mark, place in ((_ID, b"%(id)d"), (_LEG, b"%(leg)d"), (_DATE, b"%(at)b")):
            text = text.replace(str(mark).encode(), place)
        found.append(text)
    return found


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    listings: dict[str, Listing]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        name = url.path.removeprefix("/v1.2/")
        args = {key: values[0] for key, values in parse_qs(url.query).items()}
        body, kind, found = b'{"data":[],"total":0,"links":{}}', b"application/json", None
        file = re.fullmatch(r"monitors/(\d+)\.mp3", name)
        if name in self.listings:
            found = self.listings[name].select(args)
            body = self.listings[name].page(*found)
        elif file is not None:
            body, kind = make_recording(int(file[1])), b"audio/mpeg"
        elif name == "me":
            body = b'{"data":{"id":1000001,"is_root":true}}'
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nDate: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (kind, formatdate(clock.unix(), usegmt=True).encode(), len(body), body)
        )
        if found is not None:
            self.listings[name].make_next(*found)

    def log_message(self, *_args: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.trials.tools.peer")
    parser.add_argument("--cdrs", type=int, default=1_000_000)
    Handler.listings = make_listings(parser.parse_args().cdrs)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
