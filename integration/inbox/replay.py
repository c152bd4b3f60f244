"""Command `replay`: apply stored webhooks again.

A replay is safe at any time because applying a webhook is idempotent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.core.commands import Arguments, Progress, Result, Unfinished, command

if TYPE_CHECKING:
    from integration.context import AppContext

BATCH_SIZE = 500
"""Webhooks applied between two progress reports.

The command can be interrupted at each report.
"""


@command("webhooks.replay")
def replay(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Apply stored webhooks again, in the order of their storage. Raises StorageError.

    `failed` selects webhooks that could not be applied, `since` (UTC text) webhooks received at or after that
    time. The result has `applied` and `failed`, numbers of webhooks. The arguments `after`, `applied` and
    `refused` continue an interrupted replay with its last seq and its numbers.
    """
    seqs = context.inbox.list_seqs(
        failed=bool(arguments.get("failed")),
        since=arguments.get("since") or "",
        after=int(arguments.get("after", 0)),
    )
    applied, failed = int(arguments.get("applied", 0)), int(arguments.get("refused", 0))
    for start in range(0, len(seqs), BATCH_SIZE):
        progress(done=start, total=len(seqs))
        if not progress.can_continue:
            raise Unfinished({**arguments, "after": seqs[start] - 1, "applied": applied, "refused": failed})
        batch = seqs[start : start + BATCH_SIZE]
        applied_count = context.applier.reapply(batch)
        applied, failed = applied + applied_count, failed + len(batch) - applied_count
    progress(done=len(seqs), total=len(seqs))
    return {"applied": applied, "failed": failed}
