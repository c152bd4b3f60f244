"""The product with something planted, bugs mostly: `python -m tests.trials.tools.planted BUG[,BUG] serve`."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any

from integration.cli import main
from integration.core.errors import PlatformError, StorageBusy, StorageError
from integration.inbox import receive, store
from integration.live.hub import Hub
from integration.mirror.records import masking
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from integration.sync.files import disk_quota


def hopeful() -> None:
    """A webhook that could not be stored is acknowledged all the same."""
    durable = store.Inbox.receive

    def receive(inbox: store.Inbox, body: bytes) -> Future[store.Acknowledgement]:
        answer: Future[store.Acknowledgement] = Future()

        def told(real: Future[store.Acknowledgement]) -> None:
            problem = real.exception()
            if problem is None or isinstance(problem, StorageError):
                answer.set_result("stored" if problem else real.result())
            else:
                answer.set_exception(problem)

        durable(inbox, body).add_done_callback(told)
        return answer

    store.Inbox.receive = receive  # type: ignore[method-assign]


def tenacious() -> None:
    """A database whose disk failed is written to again."""
    Database._mark_broken = lambda _database, _error: None  # type: ignore[method-assign]


def careless() -> None:
    """inbox.db is committed without waiting for the disk."""
    full = Database.__init__

    def begin(database: Database, path: Path, **options: Any) -> None:
        full(database, path, **{**options, "synchronous": "NORMAL"})

    Database.__init__ = begin  # type: ignore[method-assign, assignment]


def forgetful() -> None:
    """A copy is told that it is one, and not counted."""
    store.Inbox._store = _uncounted(store.Inbox._store)  # type: ignore[method-assign]


def _uncounted(real: Any) -> Any:
    def stored(inbox: store.Inbox, tx: Transaction, arrivals: list[Any]) -> Any:
        answers = real(inbox, tx, arrivals)
        tx.execute("UPDATE inbox SET deliveries = 1")
        return answers

    return stored


def unmasked() -> None:
    """Records are shown with their secrets."""
    masking.is_secret = lambda _name: False


def trusting() -> None:
    """The receiver reads the body of those whom it refuses, too."""
    refusal = receive.Receiver._reject

    def read_first(receiver: receive.Receiver, request: Any) -> Any:
        refused = refusal(receiver, request)
        if refused is not None:
            request.get_data()
        return refused

    receive.Receiver._reject = read_first  # type: ignore[method-assign]


def shy() -> None:
    """Every fiftieth webhook is refused."""
    durable = store.Inbox.receive
    numbers = count(1)

    def receive(inbox: store.Inbox, body: bytes) -> Future[store.Acknowledgement]:
        if next(numbers) % 50:
            return durable(inbox, body)
        refused: Future[store.Acknowledgement] = Future()
        refused.set_exception(StorageBusy("too many wait"))
        return refused

    store.Inbox.receive = receive  # type: ignore[method-assign]


def mumbling() -> None:
    """Open pages are told every other change."""
    whole = Hub.publish
    Hub.publish = lambda hub, changes: whole(hub, changes[::2])  # type: ignore[method-assign]


def leaky() -> None:
    """Whatever goes wrong with the platform leaves a handle and a thread behind."""
    begin = PlatformError.__init__
    left = []

    def leave(error: PlatformError, *arguments: Any, **options: Any) -> None:
        begin(error, *arguments, **options)
        left.append(open(os.devnull))  # noqa: SIM115
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    PlatformError.__init__ = leave  # type: ignore[method-assign]


def hoarding() -> None:
    """What was stored stays in memory, too, eight times."""
    durable = store.Inbox.receive
    kept = []

    def receive(inbox: store.Inbox, body: bytes) -> Future[store.Acknowledgement]:
        kept.append(8 * body)
        return durable(inbox, body)

    store.Inbox.receive = receive  # type: ignore[method-assign]


def small_disk() -> None:
    """No bug: the room that downloads leave, scaled down to the disk of the trial `full`."""
    disk_quota.MIN_FREE_BYTES = 24 * 2**20
    disk_quota.ASSUMED_FILE_BYTES = 2**18


_BUGS = (hopeful, tenacious, careless, forgetful, unmasked, trusting, shy, mumbling, leaky, hoarding)
PLANTS = {plant.__name__: plant for plant in (*_BUGS, small_disk)}

if __name__ == "__main__":
    for name in sys.argv.pop(1).split(","):
        PLANTS[name]()
    main()
