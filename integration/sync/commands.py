"""`sync` as a command: one pass now, over what was asked for, by whoever writes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from integration.catalogue import UnknownResource, resource
from integration.core import clock
from integration.core.errors import ConfigurationError, PlatformError, StorageFull
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import media_files as media
from integration.mirror.sync_state.media_files import Kind
from integration.server.control_channel import Arguments, Handler, Progress, Result, Unfinished
from integration.sync.context import Parts
from integration.sync.files import download as recordings
from integration.sync.files import scrub as inspection
from integration.sync.plan import BELOW, FILES_OF, PLAN, Policy
from integration.sync.progress import reading
from integration.sync.reading import (
    call_assembly as backlog,
)
from integration.sync.reading import (
    deletions,
    items,
)
from integration.sync.reading import (
    live_poll as live,
)
from integration.sync.reading import (
    verify as proof,
)
from integration.sync.reading.full_sync import walk
from integration.sync.reading.incremental_sync import look_back
from integration.sync.reading.page_store import Interrupted, Tally, note_failure

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 15.0
"""How long one pass waits for a file's next try; what takes longer is left to the scheduler."""


class Showing(Protocol):
    """Told how far the work is; `wanted` turns False when it should end at its next commit."""

    def __call__(self, **facts: Any) -> None: ...

    @property
    def wanted(self) -> bool: ...


@dataclass(slots=True)
class Row:
    """What became of one collection. `complete`: every record of it has been read at least once. `gone`:
    records that are no longer on the platform; `held`: so many that a person is asked first."""

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
class Files:
    """`fetched` by this pass, `have` in the archive, `waiting` for another try, `error` the last of them."""

    fetched: int = 0
    have: int = 0
    waiting: int = 0
    error: str | None = None


@dataclass(slots=True)
class Summary:
    rows: list[Row] = field(default_factory=list)
    files: Files | None = None

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is complete."""
        done = all(row.complete and row.error is None for row in self.rows)
        return done and (self.files is None or not self.files.waiting)


class Stopped(Exception):
    """Ended early: `left` are the collections that are not done, the first of them begun. `read`: all records
    are, and only what follows from them is left."""

    def __init__(self, left: Sequence[str], summary: Summary, *, read: bool = False) -> None:
        super().__init__("ended early")
        self.left = list(left)
        self.summary = summary
        self.read = read


def handlers(parts: Parts) -> Mapping[str, Handler]:
    """What the private channel may ask for: `sync` {resources, full, files, accept, resumed},
    `undo-deletions` {resources}, and what proof.py and inspection.py have."""

    def sync(arguments: Arguments, progress: Progress) -> Result:
        done = [Row(**row) for row in arguments.get("done", ())]
        if arguments.get("accept") and not arguments.get("resumed"):
            for name in arguments["resources"]:
                deletions.accepted(parts, PLAN[name])
        try:
            summary = run_sync(
                parts,
                names(arguments.get("resources", ())),
                full=bool(arguments.get("full")),
                files=bool(arguments.get("files", True)),
                progress=progress,
                resumed=bool(arguments.get("resumed")),
            )
        except Stopped as stopped:
            rows = [asdict(row) for row in (*done, *stopped.summary.rows)]
            full = bool(arguments.get("full")) and not stopped.read
            raise Unfinished(
                {**arguments, "resources": stopped.left, "full": full, "resumed": True, "done": rows}
            ) from stopped
        summary.rows[:0] = done
        return {**asdict(summary), "complete": summary.complete}

    def undo(arguments: Arguments, _progress: Progress) -> Result:
        counts = {name: deletions.undo(parts, PLAN[name]) for name in arguments["resources"]}
        return {"complete": True, "back": counts}

    return {
        "sync": sync,
        "undo-deletions": undo,
        proof.PROVE: proof.handler(parts),
        inspection.VERIFY_MEDIA: inspection.handler(parts),
    }


def names(asked: Sequence[str]) -> list[str]:
    """Collections by name, path or table name, as paths; all of the plan where none is asked for.

    Raises ConfigurationError for what is unknown or not mirrored, all at once.
    """
    found, mistakes = list[str](), list[str]()
    for name in asked:
        try:
            collection = resource(name.strip("/")).collection
        except UnknownResource as error:
            mistakes.append(str(error))
            continue
        if collection in PLAN:
            found.append(collection)
        else:
            mistakes.append(f"{name} is not mirrored; these are: {', '.join(PLAN)}")
    if mistakes:
        raise ConfigurationError(mistakes)
    return list(dict.fromkeys(found)) or list(PLAN)


def run_sync(
    parts: Parts,
    collections: Sequence[str],
    *,
    full: bool,
    files: bool,
    progress: Showing,
    resumed: bool = False,
) -> Summary:
    """One pass over `collections` (paths of the plan), then over their files.

    What was never read completely is walked, what was is looked back on; `full` walks all. `resumed`: the
    first of them goes on where it was. Failures stand in the summary. Raises Stopped, StorageError.
    """
    summary = Summary()
    for number, collection in enumerate(collections):
        try:
            afresh = full and not (resumed and number == 0)
            summary.rows.append(_one(parts, PLAN[collection], full, afresh, progress))
        except Interrupted as early:
            raise Stopped(collections[number:], summary) from early
    of_calls = [name for name in collections if name in backlog.COLLECTIONS]
    if of_calls and _put_together(parts, progress):
        # Their records are read; a look-back on these few alone brings the rest of the calls.
        raise Stopped(of_calls, summary, read=True)
    kinds = [kind for collection, kind in FILES_OF.items() if collection in collections]
    if files and kinds:
        summary.files = _files(parts, kinds, progress)
        if not progress.wanted:
            # Their records are read; a look-back on these two alone brings the rest of the files.
            raise Stopped([name for name in collections if name in FILES_OF], summary, read=True)
    return summary


def _one(parts: Parts, policy: Policy, full: bool, afresh: bool, progress: Showing) -> Row:
    collection, row, begun = policy.collection, Row(policy.collection), clock.monotonic()

    def show(done: int, total: int | None) -> None:
        progress(collection=collection, done=done, total=total)

    with reading(parts.health, collection, show) as shown:
        tally = Tally(show=shown, wanted=lambda: progress.wanted)
        tally.check()
        show(0, None)
        try:
            _work(parts, policy, tally, full, afresh)
        except PlatformError as error:
            # A request that we cut, since we end, is no failure.
            tally.check()
            row.error = str(error)
            note_failure(parts, policy, error)
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    row.rows, row.read = state.rows, tally.read
    row.new, row.changed, row.gone = tally.inserted, tally.updated, tally.missing
    row.held = state.held or 0
    row.complete = row.error is None and (policy.kind == "live" or state.complete_at is not None)
    row.seconds = round(clock.monotonic() - begun, 3)
    progress(collection=collection, done=state.rows, total=state.rows, finished=True)
    return row


def _work(parts: Parts, policy: Policy, tally: Tally, full: bool, afresh: bool) -> None:
    if policy.kind == "live":
        tally.read = live.poll(parts)
        return
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, policy.collection)
    if policy.kind == "grows" and not full and state.complete_at is not None:
        look_back(parts, policy, tally)
        return
    walk(parts, policy, tally, afresh=afresh)
    if policy.kind == "grows":
        # What came while the walk was on its way down from what was newest then.
        later = look_back(parts, policy, Tally(wanted=tally.wanted))
        tally.inserted += later.inserted
        tally.updated += later.updated
    if policy.items:
        items.read_due_items(parts, policy, tally)
    for path in BELOW.values():
        if path.collection == policy.collection:
            items.read_due_below(parts, path, tally)


def _put_together(parts: Parts, progress: Showing) -> int:
    """Returns how many legs are left, because the work is no longer wanted here."""

    def show(done: int, total: int | None) -> None:
        progress(collection=backlog.NAME, done=done, total=total)

    return backlog.work_off(parts, lambda: progress.wanted, show)


def _files(parts: Parts, kinds: Sequence[Kind], progress: Showing) -> Files:
    files, errors = Files(), list[str]()
    enabled = [kind for kind in kinds if kind in recordings.enabled(parts.settings)]
    for kind in enabled:
        parts.mirror.write(_wanting(kind))
    total = _count(parts, enabled)["waiting"]

    def told(_file: object) -> None:
        progress(collection="files", done=total - _count(parts, enabled)["waiting"], total=total)

    told(None)
    try:
        while progress.wanted:
            files.fetched += recordings.download_due(parts, lambda: progress.wanted, told)
            with parts.mirror.read() as connection:
                at = media.next_at(connection, enabled)
            if at is None or at - clock.unix() > PATIENCE_SECONDS:
                break
            threading.Event().wait(max(0.05, min(1.0, at - clock.unix())))
    except StorageFull as error:
        errors.append(str(error))
    counted = _count(parts, enabled)
    files.have, files.waiting = counted["have"], counted["waiting"]
    files.error = errors[0] if errors else _last_error(parts, enabled)
    return files


def _wanting(kind: Kind) -> Callable[[Any], int]:
    return lambda tx: media.want_missing(tx, kind)


def _count(parts: Parts, kinds: Sequence[Kind]) -> dict[str, int]:
    with parts.mirror.read() as connection:
        counts = media.counts(connection)
    return {
        "have": sum(number for (kind, state), number in counts.items() if kind in kinds and state == "have"),
        "waiting": sum(
            number
            for (kind, state), number in counts.items()
            if kind in kinds and state in ("wanted", "failed")
        ),
    }


def _last_error(parts: Parts, kinds: Sequence[Kind]) -> str | None:
    with parts.mirror.read() as connection:
        return media.last_error(connection, kinds)
