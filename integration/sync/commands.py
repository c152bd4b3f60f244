"""Commands `sync` and `sync undo-deletions`, as executed by the writer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from integration.catalogue import UnknownResource, get_resource
from integration.core import clock
from integration.core.commands import Arguments, Progress, Result, Unfinished, command
from integration.core.errors import ConfigurationError, PlatformError, StorageFull
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.sync_state import collection_state, media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.sync.context import SyncContext
from integration.sync.files import download
from integration.sync.plan import FILES_OF, PLAN, SUBRESOURCES, Policy
from integration.sync.progress import FACT_PREFIX, track_progress
from integration.sync.reading import call_assembly, deletions, items, live_poll
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally, store_failure

log = logging.getLogger(__name__)

MAX_RETRY_WAIT_SECONDS = 15.0
"""Maximum seconds that a sync waits for a file's next attempt.

Later attempts are left to the scheduler.
"""


@dataclass(slots=True)
class CollectionResult:
    """Result of the sync of one collection.

    `rows` is the number of stored records, `read` that of the records received. `complete` is True if the
    collection has been read completely at least once and this run did not fail. `gone` counts records that
    this run marked as missing. `held` counts missing records above the deletion limit, which a user must
    confirm.
    """

    collection: str
    rows: int = 0
    read: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0
    held: int = 0
    seconds: float = 0.0
    complete: bool = False
    error: str | None = None


@dataclass(slots=True)
class FilesResult:
    """Result of the downloads of a sync.

    `fetched` counts files that this sync downloaded, `have` files in the archive, `waiting` files without a
    successful download. `error` is that of a full disk or an unreachable platform, which ends the downloads,
    otherwise the last error of a file.
    """

    fetched: int = 0
    have: int = 0
    waiting: int = 0
    error: str | None = None


@dataclass(slots=True)
class SyncSummary:
    """Results of a sync. `files` is None if no downloads were requested."""

    rows: list[CollectionResult] = field(default_factory=list)
    files: FilesResult | None = None

    @property
    def is_complete(self) -> bool:
        """True if all requested collections and files are complete."""
        collections_complete = all(row.complete and row.error is None for row in self.rows)
        return collections_complete and (self.files is None or not self.files.waiting)


class SyncInterrupted(Exception):
    """The sync was cancelled.

    `remaining` are the unfinished collections; the first may be partly read. With `records_complete` all
    records are read, and only their calls or files are left.
    """

    def __init__(
        self, remaining: Sequence[str], summary: SyncSummary, *, records_complete: bool = False
    ) -> None:
        super().__init__("ended early")
        self.remaining = list(remaining)
        self.summary = summary
        self.records_complete = records_complete


@command("collections.sync")
def sync(context: SyncContext, arguments: Arguments, progress: Progress) -> Result:
    """Run a sync of `resources`.

    `full` reads each collection completely. `files` downloads files too. `accept` accepts the deletions above
    the deletion limit. `resumed` and `done` continue an interrupted sync.
    """
    finished_rows = [CollectionResult(**row) for row in arguments.get("done", ())]
    if arguments.get("accept") and not arguments.get("resumed"):
        for name in arguments["resources"]:
            deletions.accept_deletions(context, PLAN[name])
    try:
        summary = run_sync(
            context,
            resolve_collections(arguments.get("resources", ())),
            full=bool(arguments.get("full")),
            files=bool(arguments.get("files", True)),
            progress=progress,
            resumed=bool(arguments.get("resumed")),
        )
    except SyncInterrupted as interrupted:
        rows = [asdict(row) for row in (*finished_rows, *interrupted.summary.rows)]
        full = bool(arguments.get("full")) and not interrupted.records_complete
        raise Unfinished(
            {**arguments, "resources": interrupted.remaining, "full": full, "resumed": True, "done": rows}
        ) from interrupted
    summary.rows[:0] = finished_rows
    return {**asdict(summary), "complete": summary.is_complete}


@command("deletions.undo")
def undo_deletions(context: SyncContext, arguments: Arguments, _: Progress) -> Result:
    """Restore the missing records of `resources`.

    The result `back` has their numbers by collection.
    """
    counts = {name: deletions.restore_deleted(context, PLAN[name]) for name in arguments["resources"]}
    return {"complete": True, "back": counts}


def resolve_collections(requested_names: Sequence[str]) -> list[str]:
    """Resolve names, paths or table names to collection paths.

    Without names, return all of PLAN. Raises one ConfigurationError for all names that are unknown or not
    mirrored.
    """
    collections, errors = list[str](), list[str]()
    for name in requested_names:
        try:
            collection = get_resource(name.strip("/")).collection
        except UnknownResource as error:
            errors.append(str(error))
            continue
        if collection in PLAN:
            collections.append(collection)
        else:
            errors.append(f"{name} is not mirrored; use one of: {', '.join(PLAN)}")
    if errors:
        raise ConfigurationError(errors)
    return list(dict.fromkeys(collections)) or list(PLAN)


def run_sync(
    context: SyncContext,
    collections: Sequence[str],
    *,
    full: bool,
    files: bool,
    progress: Progress,
    resumed: bool = False,
) -> SyncSummary:
    """Sync `collections` (paths of PLAN), then compute calls and download files.

    A growing collection that has been read completely before gets an incremental sync, unless `full`. Any
    other collection gets a full sync. With `resumed` the full sync of the first collection continues where it
    was interrupted. Failures of the platform are part of the summary. Raises SyncInterrupted, StorageError.
    """
    summary = SyncSummary()
    for index, collection in enumerate(collections):
        try:
            restart = full and not (resumed and index == 0)
            summary.rows.append(_sync_collection(context, PLAN[collection], full, restart, progress))
        except Interrupted as interrupted:
            raise SyncInterrupted(collections[index:], summary) from interrupted
    call_collections = [name for name in collections if name in LEG_FIELDS]
    if call_collections and _assemble_calls(context, progress):
        # All records are read: the resumed run needs only an incremental sync of these collections, and then
        # computes the remaining calls.
        raise SyncInterrupted(call_collections, summary, records_complete=True)
    kinds = [kind for collection, kind in FILES_OF.items() if collection in collections]
    if files and kinds:
        summary.files = _fetch_files(context, kinds, progress)
        if not progress.can_continue:
            # All records are read: the resumed run needs only an incremental sync of these collections, and
            # then downloads the remaining files.
            raise SyncInterrupted(
                [name for name in collections if name in FILES_OF], summary, records_complete=True
            )
    return summary


def _sync_collection(
    context: SyncContext, policy: Policy, full: bool, restart: bool, progress: Progress
) -> CollectionResult:
    collection, row, started_at = policy.collection, CollectionResult(policy.collection), clock.monotonic()

    def send_progress(done: int, total: int | None) -> None:
        progress(collection=collection, done=done, total=total)

    with track_progress(context.health, f"{FACT_PREFIX}{collection}", send_progress) as show_progress:
        tally = Tally(show_progress=show_progress, should_continue=lambda: progress.can_continue)
        tally.raise_if_cancelled()
        send_progress(0, None)
        try:
            _read_collection(context, policy, tally, full, restart)
        except PlatformError as error:
            # A request that was aborted by the cancellation is not a failure.
            tally.raise_if_cancelled()
            row.error = str(error)
            store_failure(context, policy, error)
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, collection)
        row.rows = collection_state.count_rows(connection, policy.resource)
    row.read = tally.read
    row.new, row.changed, row.gone = tally.inserted, tally.updated, tally.missing
    row.held = state.held or 0
    row.complete = row.error is None and (policy.kind == "live" or state.complete_at is not None)
    row.seconds = round(clock.monotonic() - started_at, 3)
    progress(collection=collection, done=row.rows, total=row.rows, finished=True)
    return row


def _read_collection(context: SyncContext, policy: Policy, tally: Tally, full: bool, restart: bool) -> None:
    if policy.kind == "live":
        tally.read = live_poll.poll(context)
        return
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, policy.collection)
    if policy.kind == "grows" and not full and state.complete_at is not None:
        run_incremental_sync(context, policy, tally)
        return
    run_full_sync(context, policy, tally, restart=restart)
    if policy.kind == "grows":
        # Read the records that were created during the full sync, above its first record.
        incremental_tally = run_incremental_sync(
            context, policy, Tally(should_continue=tally.should_continue)
        )
        tally.inserted += incremental_tally.inserted
        tally.updated += incremental_tally.updated
    if policy.reads_items:
        items.read_due_items(context, policy, tally)
    for subresource in SUBRESOURCES.values():
        if subresource.collection == policy.collection:
            items.read_due_subresources(context, subresource, tally)


def _assemble_calls(context: SyncContext, progress: Progress) -> int:
    """Compute the calls of the backlog.

    Returns the number of legs left after a cancellation, else 0.
    """

    def send_progress(done: int, total: int | None) -> None:
        progress(collection=call_assembly.JOB_NAME, done=done, total=total)

    return call_assembly.assemble_pending(context, lambda: progress.can_continue, send_progress)


def _fetch_files(context: SyncContext, kinds: Sequence[MediaKind], progress: Progress) -> FilesResult:
    files, errors = FilesResult(), list[str]()
    enabled_kinds = [kind for kind in kinds if kind in download.list_enabled_kinds(context.settings)]
    for kind in enabled_kinds:
        context.mirror_db.write(_make_enqueue_job(kind))
    total = _count_files(context, enabled_kinds)["waiting"]

    def send_progress(_file: object) -> None:
        progress(
            collection="files", done=total - _count_files(context, enabled_kinds)["waiting"], total=total
        )

    send_progress(None)
    try:
        while progress.can_continue:
            files.fetched += download.download_due_files(
                context, lambda: progress.can_continue, send_progress
            )
            with context.mirror_db.read() as connection:
                next_try_at = media_files.next_at(connection, enabled_kinds)
            if next_try_at is None or next_try_at - clock.unix() > MAX_RETRY_WAIT_SECONDS:
                break
            threading.Event().wait(max(0.05, min(1.0, next_try_at - clock.unix())))
    except (PlatformError, StorageFull) as error:
        errors.append(str(error))
    counts = _count_files(context, enabled_kinds)
    files.have, files.waiting = counts["have"], counts["waiting"]
    files.error = errors[0] if errors else _last_error(context, enabled_kinds)
    return files


def _make_enqueue_job(kind: MediaKind) -> Callable[[Any], int]:
    return lambda tx: media_files.enqueue_missing(tx, kind)


def _count_files(context: SyncContext, kinds: Sequence[MediaKind]) -> dict[str, int]:
    with context.mirror_db.read() as connection:
        counts = media_files.count_by_state(connection, kinds)
    return {
        "have": sum(number for (kind, state), number in counts.items() if kind in kinds and state == "have"),
        "waiting": sum(
            number
            for (kind, state), number in counts.items()
            if kind in kinds and state in ("wanted", "failed")
        ),
    }


def _last_error(context: SyncContext, kinds: Sequence[MediaKind]) -> str | None:
    with context.mirror_db.read() as connection:
        error: str | None = media_files.summarize_failed(connection, kinds)["why"]
    return error
