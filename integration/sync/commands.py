"""Commands `sync` and `sync undo-deletions`, as executed by the writer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from integration.catalogue import UnknownResource, get_resource
from integration.context import SyncContext
from integration.core import clock
from integration.core.commands import Arguments, Progress, Result, Unfinished, command
from integration.core.errors import ConfigurationError, PlatformError, StorageFull
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.sync_state import collection_state, media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.sync.files import download
from integration.sync.plan import FILES_OF, PLAN, SUBRESOURCES, Policy
from integration.sync.progress import FACT_PREFIX, track_progress
from integration.sync.reading import call_assembly, deletions, items, live_poll
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Interrupted, Tally, store_failure

MAX_RETRY_WAIT_SECONDS = 15.0
"""Maximum seconds that a sync waits for a file's next attempt.

Later attempts are left to the scheduler.
"""


@command("collections.sync")
def sync(context: SyncContext, arguments: Arguments, progress: Progress) -> Result:
    """Sync `resources`, then compute calls and download files.

    A growing collection that has been read completely before gets an incremental sync, unless `full`. Any
    other collection gets a full sync. `files` downloads files too. `accept` accepts the deletions above the
    deletion limit. `resumed` and `done` continue an interrupted sync. The result has `rows`, one for each
    collection, `files` (None without downloads), and `complete`: True if all collections and files are
    complete. Failures of the platform are part of it.
    """
    collections, rows = resolve_collections(arguments.get("resources", ())), [*arguments.get("done", ())]
    full, is_resumed = bool(arguments.get("full")), bool(arguments.get("resumed"))

    def make_unfinished(remaining: Sequence[str], *, full: bool) -> Unfinished:
        return Unfinished(
            {**arguments, "resources": list(remaining), "full": full, "resumed": True, "done": rows}
        )

    if arguments.get("accept") and not is_resumed:
        for name in arguments["resources"]:
            deletions.accept_deletions(context, PLAN[name])
    for index, name in enumerate(collections):
        # The full sync of the first collection continues where it was interrupted.
        restart = full and not (is_resumed and index == 0)
        try:
            rows.append(_sync_collection(context, PLAN[name], full, restart, progress))
        except Interrupted as interrupted:
            raise make_unfinished(collections[index:], full=full) from interrupted
    # From here on all records are read: the resumed run needs only an incremental sync of these collections,
    # and then computes the remaining calls, or downloads the remaining files.
    call_collections = [name for name in collections if name in LEG_FIELDS]
    if call_collections and _assemble_calls(context, progress):
        raise make_unfinished(call_collections, full=False)
    files, file_collections = None, [name for name in collections if name in FILES_OF]
    if arguments.get("files", True) and file_collections:
        files = _fetch_files(context, [FILES_OF[name] for name in file_collections], progress)
        if not progress.can_continue:
            raise make_unfinished(file_collections, full=False)
    is_complete = all(row["complete"] for row in rows) and not (files and files["waiting"])
    return {"rows": rows, "files": files, "complete": is_complete}


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


def _sync_collection(
    context: SyncContext, policy: Policy, full: bool, restart: bool, progress: Progress
) -> dict[str, Any]:
    """Sync one collection and return its row of the result. Raises Interrupted.

    `rows` is the number of stored records, `read` that of the records received. `complete` is True if the
    collection has been read completely at least once and this run did not fail. `gone` counts records that
    this run marked as missing. `held` counts missing records above the deletion limit, which a user must
    confirm.
    """
    collection, started_at, failure = policy.collection, clock.monotonic(), None

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
            failure = str(error)
            store_failure(context, policy, error)
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, collection)
        rows = collection_state.count_rows(connection, policy.resource)
    progress(collection=collection, done=rows, total=rows, finished=True)
    return {
        "collection": collection,
        "rows": rows,
        "read": tally.read,
        "new": tally.inserted,
        "changed": tally.updated,
        "gone": tally.missing,
        "held": state.held or 0,
        "seconds": round(clock.monotonic() - started_at, 3),
        "complete": failure is None and (policy.kind == "live" or state.complete_at is not None),
        "error": failure,
    }


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


def _fetch_files(context: SyncContext, kinds: Sequence[MediaKind], progress: Progress) -> dict[str, Any]:
    """Download files and return their part of the result.

    `fetched` counts files that this sync downloaded, `have` files in the archive, `waiting` files without a
    successful download. `error` is that of a full disk or an unreachable platform, which ends the downloads,
    otherwise the last error of a file.
    """
    kinds = [kind for kind in kinds if kind in download.list_enabled_kinds(context.settings)]
    for kind in kinds:
        context.mirror_db.write(partial(media_files.enqueue_missing, kind=kind))

    def count(*states: str) -> int:
        with context.mirror_db.read() as connection:
            counts = media_files.count_by_state(connection, kinds)
        return sum(number for (kind, state), number in counts.items() if kind in kinds and state in states)

    total, fetched, failure = count("wanted", "failed"), 0, None

    def send_progress(_file: object) -> None:
        progress(collection="files", done=total - count("wanted", "failed"), total=total)

    send_progress(None)
    try:
        while progress.can_continue:
            fetched += download.download_due_files(context, lambda: progress.can_continue, send_progress)
            with context.mirror_db.read() as connection:
                next_try_at = media_files.next_at(connection, kinds)
            if next_try_at is None or next_try_at - clock.unix() > MAX_RETRY_WAIT_SECONDS:
                break
            threading.Event().wait(max(0.05, min(1.0, next_try_at - clock.unix())))
    except (PlatformError, StorageFull) as error:
        failure = str(error)
    with context.mirror_db.read() as connection:
        failure = failure or media_files.summarize_failed(connection, kinds)["why"]
    return {"fetched": fetched, "have": count("have"), "waiting": count("wanted", "failed"), "error": failure}
