"""What the trials of storage and load share: a furnished data_dir, senders of webhooks, readers of pages."""

from __future__ import annotations

import http.client
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from integration.access import keys, people, sessions
from integration.app_schema import open_app_db
from tests.trials.webhooks.crash import event

DATABASES = ("inbox.db", "mirror.db", "house.db")
PLANTED = ("-m", "tests.trials.tools.planted")
"""With the name of a bug behind it: the program to run in the place of `app.py`."""


@dataclass(frozen=True)
class Visitor:
    """Headers by which a page of the dashboard, and the facade, are read."""

    dashboard: Mapping[str, str]
    facade: Mapping[str, str]


def furnish(data_dir: Path) -> Visitor:
    """An administrator with a session, and a key, in the house.db of a product that has not started yet."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    app_db = open_app_db(data_dir / "house.db")
    try:
        person = people.create(app_db, "ann@example.com", "admin")
        token = sessions.create(app_db, person.id)
        _, secret = keys.add(app_db, "trial", "read")
    finally:
        app_db.close()
    return Visitor({"Cookie": f"session={token}", "Accept": "text/html"}, {"X-Auth-Token": secret})


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request got: `status` 0 is a connection that broke. `what` is an event's id, or a path."""

    what: str
    status: int
    seconds: float
    ended: float


class _Threads:
    """Threads that ask again and again until they are stopped; `answers` grows meanwhile."""

    def __init__(self, port: int, count: int, rest: float) -> None:
        self.answers: list[Answer] = []
        self._port = port
        self._rest = rest
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 90) -> None:
        """Let each finish what it waits for, but at most so long."""
        self._stop.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def finished(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.answers)

    @property
    def slowest(self) -> float:
        return max((answer.seconds for answer in self.answers), default=0.0)

    def since(self, moment: float) -> Counter[int]:
        """Statuses of what was answered after `moment` (time.monotonic)."""
        return Counter(answer.status for answer in list(self.answers) if answer.ended > moment)

    def _work(self, number: int) -> None:
        raise NotImplementedError

    def _ask(
        self,
        connection: http.client.HTTPConnection | None,
        what: str,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPConnection | None:
        """One request over `connection`, or a new one. Returns the connection if it can be used again."""
        began, status = time.monotonic(), 0
        try:
            connection = connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            connection = None
        ended = time.monotonic()
        self.answers.append(Answer(what, status, ended - began, ended))
        # One that is refused at once would be tried a thousand times a second.
        self._stop.wait(max(self._rest, 0.0 if status else 0.05))
        return connection


class Senders(_Threads):
    """Post unique events, each sender the calls of its own, those of `first` and the next ones. `padding`
    bytes make an event bigger."""

    def __init__(
        self,
        port: int,
        path: str,
        *,
        count: int = 6,
        rest: float = 0.02,
        name: str = "s",
        padding: int = 0,
        most: int | None = None,
        first: int = 0,
    ) -> None:
        self._path = path
        self._name = name
        self._padding = padding
        self._most = most
        self._first = first
        super().__init__(port, count, rest)

    @property
    def acknowledged(self) -> set[str]:
        return {answer.what for answer in self.answers if 200 <= answer.status < 300}

    def wait(self) -> None:
        """Until each has sent `most` events."""
        for thread in self._threads:
            thread.join(600)

    def _work(self, number: int) -> None:
        connection, step = None, 0
        while not self._stop.is_set() and step != self._most:
            identifier = f"{self._name}{number}-{step}"
            body = event(identifier, self._first + number, step)
            if self._padding:
                body = body[:-1] + b', "t_pad": "' + b"x" * self._padding + b'"}'
            connection = self._ask(connection, identifier, "POST", self._path, body, {})
            step += 1


class Readers(_Threads):
    """Read each path again and again, a thread for each."""

    def __init__(
        self, port: int, pages: Sequence[tuple[str, Mapping[str, str]]], *, rest: float = 0.3
    ) -> None:
        self._pages = pages
        super().__init__(port, len(pages), rest)

    def _work(self, number: int) -> None:
        path, headers = self._pages[number]
        connection = None
        while not self._stop.is_set():
            connection = self._ask(connection, path, "GET", path, None, headers)


def pages(visitor: Visitor) -> list[tuple[str, Mapping[str, str]]]:
    """What people and programs read most."""
    seen = [(path, visitor.dashboard) for path in ("/live", "/calls", "/messages", "/missed")]
    return [*seen, ("/v1.2/cdrs?limit=20", visitor.facade)]


def stored(folder: Path) -> Counter[str]:
    """How many rows of inbox.db have each event id."""
    with closing(look(folder / "inbox.db")) as connection:
        return Counter(row[0] for row in connection.execute("SELECT event_id FROM inbox"))


def lost(folder: Path, acknowledged: Iterable[str]) -> list[str]:
    """Acknowledged events that are not in the inbox."""
    return sorted(set(acknowledged) - set(stored(folder)))


def look(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)


def ask(path: Path, sql: str, *values: object) -> int:
    with closing(look(path)) as connection:
        return int(connection.execute(sql, values).fetchone()[0])


def damaged(folder: Path) -> list[str]:
    """Databases that are not whole, with SQLite's verdict."""
    verdicts = []
    for name in DATABASES:
        with closing(look(folder / name)) as connection:
            verdicts.append((name, connection.execute("PRAGMA integrity_check").fetchone()[0]))
    return [f"{name}: {verdict}" for name, verdict in verdicts if verdict != "ok"]


COMPUTED = {
    "_leg_events": frozenset({"received_at"}),
    "_legs": frozenset(),
    "_calls": frozenset({"change_no", "due_at"}),
}
"""What events leave in mirror.db, and columns that tell when rather than what."""


def told(folder: Path) -> dict[str, set[tuple[object, ...]]]:
    """What mirror.db has of calls, to compare with another's."""
    found = {}
    with closing(look(folder / "mirror.db")) as connection:
        for table, left_out in COMPUTED.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            wanted = ", ".join(name for name in columns if name not in left_out)
            found[table] = set(connection.execute(f"SELECT {wanted} FROM {table}"))
    return found
