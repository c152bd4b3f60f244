"""Command `verify --repair`: replace damaged content by an intact copy.

| Damaged | Intact copy |
|---|---|
| record of a collection | the platform |
| file of the archive | the platform |
| webhook | the event in mirror.db, or a backup; only a body with the stored hash is accepted |
| event of a call | the webhook in inbox.db |
| call | its events and CDRs, if these are intact |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from integration.context import AppContext
from integration.core.commands import Arguments, Progress, Result, Unfinished, command
from integration.core.errors import PlatformError, StorageError
from integration.inbox import body_check
from integration.maintenance import backup
from integration.maintenance.content_checks import Target
from integration.mirror.calls import reading
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.records import row_check
from integration.sqlite.readers import open_readonly, read_tolerantly
from integration.sqlite.transaction import Transaction
from integration.sync.files import scrub
from integration.sync.plan import PLAN
from integration.sync.reading import record_repair
from integration.sync.reading.page_store import Interrupted, Tally

PHASES = ("record", "webhook", "event", "call", "file")
"""Kinds of targets in the order of their repair: calls are computed from records and events."""

NO_COPY = "no intact copy was found in mirror.db or a backup; it was applied before, only a replay needs it"
DAMAGED_FACTS = "its events or CDRs are damaged; repair them first"


@command("contents.repair")
def repair(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Repair `targets`, ordered by PHASES.

    The result `errors` has an item for each target: None if it is intact now, else the reason. `errors` of
    `arguments` continues an interrupted run.
    """
    targets: list[Target] = arguments["targets"]
    errors: list[str | None] = list(arguments.get("errors", ()))
    for target in targets[len(errors) :]:
        progress(collection="repairs", done=len(errors), total=len(targets))
        try:
            if not progress.can_continue:
                raise Interrupted("ended early")
            errors.append(repair_target(context, target, lambda: progress.can_continue))
        except Interrupted as interrupted:
            raise Unfinished({**arguments, "errors": errors}) from interrupted
    progress(collection="repairs", done=len(targets), total=len(targets))
    return {"errors": errors}


def repair_target(
    context: AppContext, target: Target, should_continue: Callable[[], bool] = lambda: True
) -> str | None:
    """Repair one target, unless it is intact.

    Returns the reason if it stays damaged. Raises Interrupted, and StorageError of the databases.
    """
    kind, *key = target
    if kind == "record":
        collection, rowid = key
        return _repair_record(context, collection, rowid, Tally(should_continue=should_continue))
    return REPAIRS[kind](context, *key)


def _repair_record(context: AppContext, collection: str, rowid: int, tally: Tally) -> str | None:
    policy = PLAN[collection]
    with context.mirror_db.read() as connection:
        row = row_check.find_fault(connection, policy.resource, rowid)
    if row is None:
        return None
    try:
        return record_repair.repair_record(context, policy, row, tally)
    except PlatformError as error:
        return str(error)


def _repair_webhook(context: AppContext, seq: int) -> str | None:
    with context.inbox.database.read() as connection:
        row = connection.execute(
            "SELECT event_id, body, body_hash FROM inbox WHERE seq = ?", (seq,)
        ).fetchone()
    if row is None or hashlib.sha256(row["body"]).digest() == row["body_hash"]:
        return None
    with context.mirror_db.read() as connection:
        body = body_check.find_original_body(connection, row["event_id"], row["body_hash"])
    if body is None:
        body = next(
            _find_backed_up_bodies(backup.get_destination(context.settings), seq, row["body_hash"]), None
        )
    if body is None:
        return NO_COPY
    body_check.restore_body(context.inbox, seq, body)
    # It may have been applied with the changed body.
    context.applier.reapply([seq])
    return None


def _find_backed_up_bodies(dest: Path, seq: int, body_hash: bytes) -> Iterator[bytes]:
    for folder in sorted(dest.glob(backup.BACKUP_NAME_PATTERN), reverse=True):
        try:
            with open_readonly(folder / "inbox.db") as connection:
                row = connection.execute("SELECT body FROM inbox WHERE seq = ?", (seq,)).fetchone()
        except StorageError:
            continue  # An incomplete or damaged backup has no copy.
        if row is not None and hashlib.sha256(row[0]).digest() == body_hash:
            yield row[0]


def _repair_event(context: AppContext, event_id: str, body_hash: str) -> str | None:
    event = body_check.find_original_event(context.inbox, event_id, body_hash)
    if event is None:
        return "inbox.db has no intact webhook of this event"

    def work(tx: Transaction) -> None:
        read_tolerantly(
            tx.connection, lambda: context.call_store.replace_event(tx, event_id, body_hash, event)
        )

    context.mirror_db.write(work)
    return None


def _repair_call(context: AppContext, leg_id: int) -> str | None:
    with context.mirror_db.read() as connection:
        legs = reading.list_call_legs(connection, leg_id)
        for collection in LEG_FIELDS:
            resource = PLAN[collection].resource
            for rowid in row_check.list_rows_of_legs(connection, resource, LEG_FIELDS[collection], legs):
                if row_check.find_fault(connection, resource, rowid) is not None:
                    return DAMAGED_FACTS
        if body_check.find_changed_events(connection, legs):
            return DAMAGED_FACTS

    def work(tx: Transaction) -> None:
        read_tolerantly(tx.connection, lambda: context.call_store.refresh(tx, legs))

    context.mirror_db.write(work)
    return None


def _repair_file(context: AppContext, kind: str, record_id: int) -> str | None:
    return scrub.repair_file(context, kind, record_id)


REPAIRS: Mapping[str, Callable[..., str | None]] = {
    "webhook": _repair_webhook,
    "event": _repair_event,
    "call": _repair_call,
    "file": _repair_file,
}
"""Repairs by kind of target, without that of records."""
