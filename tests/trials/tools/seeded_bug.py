"""Bugs that trials plant in the product, and must detect.

Each function patches the product by `patch(target, name, value)`. In the process of a trial this is
`Trial.patch`, in a separate process `setattr`:
`python -m tests.trials.tools.seeded_bug NAME[,NAME] COMMAND`.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

from integration.access import sessions
from integration.cli import main
from integration.core import clock, json_records
from integration.core.errors import PlatformBroken, PlatformError, StorageBroken, StorageBusy, StorageError
from integration.inbox import receive, store
from integration.mirror.calls.store import CallStore
from integration.mirror.query import query
from integration.mirror.records import masking
from integration.platform_api import login
from integration.platform_api.circuit import CircuitOpen
from integration.platform_api.client import Platform
from integration.sqlite import database
from integration.sqlite.write_jobs import Pending
from integration.sync.files import disk_quota
from integration.sync.jobs import SyncJobs
from integration.sync.reading import day_counts, deletions, incremental_sync
from integration.sync.reading.page_store import Tally
from tests.trials.tools import bugs_in_receipt, bugs_in_upkeep

Patch = Callable[[Any, str, object], object]
Acknowledgements = Pending[store.Acknowledgement]

HOURS_OF_OUTAGE = 0.5
"""Hours of a first sync; later syncs belong to the outage of the trial `day`."""

# --- webhooks ----------------------------------------------------------------------------------------------


def acknowledge_early(patch: Patch) -> None:
    """Acknowledge a webhook 0.2 s before its commit begins."""
    receive_durably = store.Inbox.receive

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        later = threading.Timer(0.2, receive_durably, (inbox, body))
        later.daemon = True
        later.start()
        result: Acknowledgements = Pending()
        result.set_result("stored")
        return result

    patch(store.Inbox, "receive", receive)


def acknowledge_unstored(patch: Patch) -> None:
    """Acknowledge a webhook that could not be stored."""
    receive_durably = store.Inbox.receive

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        result: Acknowledgements = Pending()
        try:
            result.set_result(receive_durably(inbox, body).result())
        except StorageError:
            result.set_result("stored")
        return result

    patch(store.Inbox, "receive", receive)


def refuse_some_webhooks(patch: Patch) -> None:
    """Refuse every fiftieth webhook."""
    receive_durably, numbers = store.Inbox.receive, count(1)

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        if next(numbers) % 50:
            return receive_durably(inbox, body)
        refused: Acknowledgements = Pending()
        refused.set_exception(StorageBusy("too many requests"))
        return refused

    patch(store.Inbox, "receive", receive)


def leak_webhooks(patch: Patch) -> None:
    """Keep 64 KiB of memory for each webhook."""
    receive_durably, kept = store.Inbox.receive, []

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        kept.append(b"x" * 64 * 1024)
        return receive_durably(inbox, body)

    patch(store.Inbox, "receive", receive)


def ignore_repeated_deliveries(patch: Patch) -> None:
    """Store the number of deliveries of each event as 1."""
    receive_durably = store.Inbox.receive

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        result = receive_durably(inbox, body)
        inbox.database.submit(lambda tx: tx.execute("UPDATE inbox SET deliveries = 1"))
        return result

    patch(store.Inbox, "receive", receive)


def read_bodies_of_refused(patch: Patch) -> None:
    """Read the body of a webhook before checking its secret."""
    check_and_receive = receive.Receiver.__call__

    def read_first(receiver: receive.Receiver, environ: Any, start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        return check_and_receive(receiver, {**environ, "wsgi.input": io.BytesIO(body)}, start_response)

    patch(receive.Receiver, "__call__", read_first)


def drop_events_after_end(patch: Patch) -> None:
    """Drop events of a leg that has ended."""
    add_events = CallStore.add_events

    def add_open(calls: CallStore, tx: Any, events: Iterable[Any]) -> int:
        ended = {row[0] for row in tx.execute("SELECT leg_id FROM _legs WHERE state = 'ENDED'")}
        return add_events(calls, tx, [event for event in events if event.leg_id not in ended])

    patch(CallStore, "add_events", add_open)


# --- storage -----------------------------------------------------------------------------------------------


def write_to_failed_disk(patch: Patch) -> None:
    """Keep writing to a database whose disk failed."""
    translate = database.translate_error

    def translate_error(error: Any, path: Path) -> Exception:
        failure = translate(error, path)
        return StorageBusy(str(failure)) if isinstance(failure, StorageBroken) else failure

    patch(database, "translate_error", translate_error)


def commit_without_sync(patch: Patch) -> None:
    """Commit to databases without waiting for the disk."""
    open_durably = database.Database.__init__

    def open_database(made: database.Database, path: Path, **options: Any) -> None:
        open_durably(made, path, **{**options, "synchronous": "NORMAL"})

    patch(database.Database, "__init__", open_database)


def write_final_name(patch: Patch) -> None:
    """Write a download under its final name from the start."""
    with_name = Path.with_name
    patch(
        Path,
        "with_name",
        lambda path, name: path if name.endswith(".part") else with_name(path, name),
    )


def skip_fsync(patch: Patch) -> None:
    """Do not sync files and folders."""
    patch(os, "fsync", lambda _descriptor: None)


def small_disk(patch: Patch) -> None:
    """Reserve 24 MiB for the disk of the trial `full`; no bug."""
    patch(disk_quota, "MIN_FREE_BYTES", 24 * 2**20)
    patch(disk_quota, "ASSUMED_FILE_BYTES", 2**18)


# --- pages -------------------------------------------------------------------------------------------------


def show_secrets(patch: Patch) -> None:
    """Return records with their secrets."""
    patch(masking, "is_secret", lambda _name: False)


def leak_handles(patch: Patch) -> None:
    """Leak a file handle and a thread at each platform error."""
    begin, kept = PlatformError.__init__, []

    def leak(error: PlatformError, *arguments: Any, **options: Any) -> None:
        begin(error, *arguments, **options)
        kept.append(open(os.devnull))  # noqa: SIM115
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    patch(PlatformError, "__init__", leak)


def parse_limit_unchecked(patch: Patch) -> None:
    """Convert `limit` to a number without a check."""
    parse = query.parse

    def parse_unchecked(resource: Any, args: Any, **options: Any) -> query.Query:
        int(args.get("limit", 1))
        return parse(resource, args, **options)

    patch(query, "parse", parse_unchecked)


def ignore_clock_changes(patch: Patch) -> None:
    """Let sessions end when the clock is set."""
    patch(sessions.ClockWatch, "check", lambda _watch: None)


# --- sync --------------------------------------------------------------------------------------------------


def repeat_refused_login(patch: Patch) -> None:
    """Repeat logins without limit although the platform refuses the password."""
    patch(login, "MAX_REFUSED_LOGINS", 10**6)


def stay_offline(patch: Patch) -> None:
    """Request no CDRs after the platform failed once."""
    page, started_at = Platform.page, clock.unix()

    def fail_later(platform: Platform, collection: str, *arguments: Any, **options: Any) -> Any:
        is_cdrs = collection == "cdrs"
        # A request that waits for its response must not succeed after the outage has begun.
        found = page(platform, collection, *arguments, **options) if not is_cdrs or not is_later() else None
        if is_cdrs and is_later():
            raise CircuitOpen("the circuit stays open")
        return found

    def is_later() -> bool:
        return clock.unix() - started_at > HOURS_OF_OUTAGE * 3600

    patch(Platform, "page", fail_later)


def skip_confirmation(patch: Patch) -> None:
    """Mark no record as missing."""
    patch(deletions, "confirm_missing", lambda *_arguments: None)


def ignore_deletion_limit(patch: Patch) -> None:
    """Accept any number of deletions."""
    patch(deletions, "DELETION_LIMIT", 10**9)


def skip_refresh(patch: Patch) -> None:
    """Do not read recent records again, neither by time nor because counts differ."""
    patch(incremental_sync, "refresh_recent", lambda _context, _policy, _days, tally=None: tally)
    patch(day_counts, "verify_due_days", lambda *_arguments, **_options: 0)


def skip_leg_requests(patch: Patch) -> None:
    """Do not request legs that the live poll no longer lists."""
    item = Platform.item

    def refuse_legs(platform: Platform, path: str, *arguments: Any, **options: Any) -> Any:
        if path.startswith("/calls/"):
            raise PlatformBroken("no request was sent")
        return item(platform, path, *arguments, **options)

    patch(Platform, "item", refuse_legs)


def store_digits_as_numbers(patch: Patch) -> None:
    """Convert text that consists of digits to a number."""
    record = json_records.JsonRecord

    def convert(value: object) -> object:
        return int(value) if isinstance(value, str) and value.lstrip("+").isdigit() else value

    patch(
        json_records,
        "JsonRecord",
        lambda text, values, *links: record(
            text, {name: convert(value) for name, value in values.items()}, *links
        ),
    )


def skip_incremental_sync(patch: Patch) -> None:
    """Read no new records after the initial sync, and do not compare counts."""
    patch(
        incremental_sync,
        "run_incremental_sync",
        lambda _context, _policy, tally=None: tally or Tally(),
    )
    # The comparison of counts reads what is missing; it runs after the initial sync.
    patch(SyncJobs, "verify_completeness", lambda _jobs: None)


PLANTS: dict[str, Callable[[Patch], None]] = {
    name: value
    for module in (sys.modules[__name__], bugs_in_receipt, bugs_in_upkeep)
    for name, value in list(vars(module).items())
    if getattr(value, "__module__", None) == module.__name__ and callable(value)
}


def make_program(plants: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of Python that run the product with these plants."""
    names = ",".join(plants)
    return ("-m", "tests.trials.tools.seeded_bug", names) if names else ("app.py",)


if __name__ == "__main__":
    for plant in sys.argv.pop(1).split(","):
        PLANTS[plant](setattr)
    main()
