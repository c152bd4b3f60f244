"""Command `verify --repair`: renew damaged content from what it was derived or downloaded from.

| Damaged | Renewed from |
|---|---|
| record of a collection | the platform, by the next full sync |
| calls and other derived rows | their sources |
| file of the archive | the platform |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from integration.context import AppContext
from integration.core.commands import Arguments, Progress, Result, Unfinished, command
from integration.maintenance.content_checks import Target
from integration.mirror.derived import due
from integration.mirror.derived.declaration import Key
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.records import row_check
from integration.sync.files import scrub
from integration.sync.plan import PLAN


@command("contents.repair")
def repair(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Repair `targets`.

    The result `errors` has an item for each target: None if it is intact now, else the reason. `errors` of
    `arguments` continues an interrupted run.
    """
    targets: list[Target] = arguments["targets"]
    errors: list[str | None] = list(arguments.get("errors", ()))
    for target in targets[len(errors) :]:
        progress(collection="repairs", done=len(errors), total=len(targets))
        if not progress.can_continue:
            raise Unfinished({**arguments, "errors": errors})
        kind, *key = target
        errors.append(REPAIRS[kind](context, *key))
    progress(collection="repairs", done=len(targets), total=len(targets))
    return {"errors": errors}


def _mark_record(context: AppContext, collection: str, rowid: int) -> str | None:
    resource = PLAN[collection].resource
    with context.mirror_db.read() as connection:
        if row_check.is_intact(connection, resource, rowid):
            return None
    context.mirror_db.write(lambda tx: row_check.mark_for_full_sync(tx, resource, rowid))
    return f"the next full sync reads it again (`switchroom sync {collection} --full`)"


def _renew_derived(context: AppContext, name: str, low: Key, high: Key) -> None:
    context.mirror_db.write(lambda tx: due.mark(tx, name, [(low, high)]))
    rebuild_due(context.mirror_db, context.rules)


def _repair_file(context: AppContext, kind: str, record_id: int) -> str | None:
    return scrub.repair_file(context, kind, record_id)


REPAIRS: Mapping[str, Callable[..., str | None]] = {
    "record": _mark_record,
    "derived": _renew_derived,
    "file": _repair_file,
}
"""Repairs by kind of target. Each returns the reason if the target stays damaged."""
