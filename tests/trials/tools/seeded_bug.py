"""Bugs that trials plant in the product, and must detect.

Each function patches the product by `patch(target, name, value)`. In the process of a trial this is
`Trial.patch`, in a separate process `setattr`:
`python -m tests.trials.tools.seeded_bug NAME[,NAME] COMMAND`.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from integration.access import sessions
from integration.cli import main
from integration.core import clock, json_records, process_lock
from integration.core.errors import (
    NewerDatabase,
    PlatformBroken,
    PlatformError,
    StorageBroken,
    StorageBusy,
    StorageError,
)
from integration.core.number_search.wide_search import WideSearch
from integration.core.scheduler import Scheduler
from integration.events import deliveries, subscriptions
from integration.inbox import receive, store
from integration.mirror import migrations as mirror_migrations
from integration.mirror.calls.store import CallStore
from integration.mirror.page_queries import messages
from integration.mirror.query import query
from integration.mirror.records import masking
from integration.platform_api import login
from integration.platform_api.circuit import CircuitOpen
from integration.platform_api.client import Platform
from integration.privacy import final_check
from integration.server import early_inbox
from integration.sqlite import database, database_files, migrations
from integration.sqlite.write_jobs import Pending
from integration.sync.files import download
from integration.sync.jobs import SyncJobs
from integration.sync.reading import day_counts, deletions, incremental_sync
from integration.sync.reading.page_store import Tally
from integration.sync.writing import text_back_sending
from integration.workspace import text_back

Patch = Callable[[Any, str, object], object]
Acknowledgements = Pending[store.Acknowledgement]

STEP_SECONDS, STEP_LINE = 0.1, "migration step"
"""Duration of a slow step of a migration, in which the trial kills the process; beginning of its line."""
REWRITE_SECONDS, REWRITE_STEP = 12.0, "rewrite of all CDRs"
HOURS_OF_OUTAGE = 0.5
"""Hours of a first sync; later syncs belong to the outage of the trial `day`."""


def _acknowledge(status: store.Acknowledgement) -> Acknowledgements:
    result: Acknowledgements = Pending()
    result.set_result(status)
    return result


# --- webhooks ----------------------------------------------------------------------------------------------


def acknowledge_early(patch: Patch) -> None:
    """Acknowledge a webhook 0.2 s before its commit begins."""
    receive_durably = store.Inbox.receive

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        later = threading.Timer(0.2, receive_durably, (inbox, body))
        later.daemon = True
        later.start()
        return _acknowledge("stored")

    patch(store.Inbox, "receive", receive)


def acknowledge_unstored(patch: Patch) -> None:
    """Acknowledge a webhook that could not be stored."""
    receive_durably = store.Inbox.receive

    def receive(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        try:
            return _acknowledge(receive_durably(inbox, body).result())
        except StorageError:
            return _acknowledge("stored")

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
    patch(download, "MIN_FREE_BYTES", 24 * 2**20)
    patch(download, "ASSUMED_FILE_BYTES", 2**18)


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


# --- receipt and outgoing webhooks -----------------------------------------------------------------------


def keep_first_body(patch: Patch) -> None:
    """Acknowledge a webhook whose id is known, and do not store it."""
    receive_durably, known = store.Inbox.receive, dict[str, bytes]()

    def receive_first(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        first = known.setdefault(_read_id(body), body)
        if first == body:
            return receive_durably(inbox, body)
        return _acknowledge("duplicate")

    patch(store.Inbox, "receive", receive_first)


def fail_on_numeric_ids(patch: Patch) -> None:
    """Fail for every other webhook whose id is not a text."""
    receive_durably, numbers = store.Inbox.receive, count()

    def receive_text(inbox: store.Inbox, body: bytes) -> Acknowledgements:
        if _read_id(body)[:1] == '"' or next(numbers) % 2:
            return receive_durably(inbox, body)
        raise KeyError("id")

    patch(store.Inbox, "receive", receive_text)


def read_bodies_of_any_size(patch: Patch) -> None:
    """Read a body without a limit."""
    patch(receive, "BODY_LIMIT", 2**40)


def merge_equal_texts(patch: Patch) -> None:
    """Store one message of each text that arrives by webhook."""
    add_event = messages.add_event

    def add_once(tx: Any, event: messages.SmsReceived) -> None:
        if tx.execute("SELECT 1 FROM _sms_events WHERE text = ?", (event.text,)).fetchone() is None:
            add_event(tx, event)

    patch(messages, "add_event", add_once)


def store_cursor_early(patch: Patch) -> None:
    """Let the cursor of an outgoing webhook continue whatever the response is, as if stored before it."""
    send = deliveries.Deliveries.send

    def send_without_response(sender: Any, subscription: Any, event: Any) -> Any:
        return replace(send(sender, subscription, event), error=None)

    patch(deliveries.Deliveries, "send", send_without_response)


def retry_events_soon(patch: Patch) -> None:
    """Retry failed requests of outgoing webhooks after a second. No bug: trials would wait."""
    patch(subscriptions, "EVENTS", (1.0,))


def claim_texts_late(patch: Patch) -> None:
    """Store a text to a missed caller after the platform's response, not before the request."""
    numbers: dict[int, str] = {}

    def count_only(tx: Any, call_id: int, number: str) -> int:
        numbers[call_id] = number
        return text_back.load_state(tx.connection).texts

    def store(app_db: Any, call_id: int, refusal: str) -> None:
        app_db.write(lambda tx: claim(tx, call_id, numbers[call_id]))
        finish(app_db, call_id, refusal)

    claim, finish = text_back.claim, text_back.finish
    patch(text_back, "claim", count_only)
    patch(text_back, "finish", store)
    # The write log has the request.
    patch(text_back_sending, "_list_written", lambda *_: ())


def look_for_texts_often(patch: Patch) -> None:
    """Look for missed callers five times a second. No bug: trials would wait."""
    patch(text_back_sending, "RUN_SECONDS", 0.2)


def _read_id(body: bytes) -> str:
    """Return the id of an event as JSON text; empty for another body."""
    try:
        payload = json.loads(body)
    except ValueError:
        return '""'
    return json.dumps(payload.get("id", "")) if isinstance(payload, dict) else '""'


# --- start, migrations, backups, reports ------------------------------------------------------------------


def rewrite_all_cdrs(patch: Patch) -> None:
    """Add a migration step that rewrites each CDR, and takes REWRITE_SECONDS at least; no bug."""

    def rewrite(schema: Any) -> None:
        begun = time.monotonic()
        schema.execute("UPDATE cdrs SET _source = _source || ''")
        time.sleep(max(0.0, begun + REWRITE_SECONDS - time.monotonic()))

    patch(mirror_migrations, "MIGRATIONS", {**mirror_migrations.MIGRATIONS, REWRITE_STEP: rewrite})


def start_all_jobs(patch: Patch) -> None:
    """Run each job at the start, also those whose first run is an hour later; no bug."""
    every = Scheduler.every
    patch(
        Scheduler,
        "every",
        lambda *arguments, **options: every(*arguments, **{**options, "first_after": 0.0}),
    )


def search_files_in_worker(patch: Patch) -> None:
    """Open all files, also the databases, in the process that erases a number."""

    def search_files(
        paths: Iterable[Path], numbers: Iterable[str], *_ids: object, **_options: object
    ) -> list[Path]:
        searches = [WideSearch(e164) for e164 in numbers]
        return [path for path in paths if any(search.is_in_file(path) for search in searches)]

    patch(final_check, "search_files", search_files)


def receive_last(patch: Patch) -> None:
    """Store webhooks only when the whole product has started."""
    patch(early_inbox, "open_inbox_early", lambda *_arguments: None)


def slow_migrations(patch: Patch) -> None:
    """Print a line at each step of a migration, which takes 0.1 s; no bug."""

    make_migrations = migrations.make_migrations

    def make_slow_migrations(name: str) -> Any:
        class SlowMigrations(type(make_migrations(name))):  # type: ignore[misc]
            def __call__(self, **options: Any) -> Any:
                register = super().__call__(**options)

                def add(step: Callable[[Any], None]) -> Any:
                    def run(schema: Any) -> None:
                        step(schema)
                        print(f"{STEP_LINE} {options['name']}", flush=True)
                        time.sleep(STEP_SECONDS)

                    return register(run)

                return add

        return SlowMigrations(name)

    patch(migrations, "make_migrations", make_slow_migrations)


def commit_each_step(patch: Patch) -> None:
    """Commit after each step of a migration."""
    migrate = migrations.migrate

    def migrate_in_steps(connection: Any, name: str, steps: Any, create: Any) -> None:
        for done in range(len(steps)):
            # A file with later steps is of no older version.
            with suppress(NewerDatabase):
                migrate(connection, name, dict(list(steps.items())[:done]), lambda _schema: None)
        migrate(connection, name, steps, create)

    patch(migrations, "migrate", migrate_in_steps)


def open_newer_files(patch: Patch) -> None:
    """Open databases of a newer version."""
    read_recorded_steps = migrations.read_recorded_steps

    def read_known(connection: sqlite3.Connection, name: str) -> set[str] | None:
        steps = read_recorded_steps(connection, name)
        return steps and {step for step in steps if not step.startswith("newer")}

    patch(migrations, "read_recorded_steps", read_known)


def copy_incompletely(patch: Patch) -> None:
    """Leave out every tenth webhook of a backup."""
    copy_database = database_files.copy_database

    def copy(source: Path, target: Path, *arguments: Any) -> None:
        copy_database(source, target, *arguments)
        if source.name == "inbox.db":
            with closing(sqlite3.connect(target)) as connection:
                connection.execute("DELETE FROM inbox WHERE seq % 10 = 0")
                connection.commit()

    patch(database_files, "copy_database", copy)


def skip_process_lock(patch: Patch) -> None:
    """Let any number of processes use one data_dir."""

    def acquire(_data_dir: Path, _purpose: str) -> process_lock.Lock:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
        return process_lock.Lock(descriptor)

    patch(process_lock, "acquire", acquire)


def begin_days_in_utc(patch: Patch) -> None:
    """Let the days of reports begin at midnight UTC, whatever the zone."""
    midnight = clock.midnight
    patch(clock, "midnight", lambda day, _zone: midnight(day, ZoneInfo("UTC")))


PLANTS: dict[str, Callable[[Patch], None]] = {
    name: value
    for name, value in list(globals().items())
    if getattr(value, "__module__", None) == __name__ and callable(value) and not name.startswith("_")
}


def make_program(plants: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of Python that run the product with these plants."""
    names = ",".join(plants)
    return ("-m", "tests.trials.tools.seeded_bug", names) if names else ("app.py",)


if __name__ == "__main__":
    for plant in sys.argv.pop(1).split(","):
        PLANTS[plant](setattr)
    main()
